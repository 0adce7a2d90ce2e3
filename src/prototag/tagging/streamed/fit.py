"""The row of stages for many images."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from prototag import __version__
from prototag.arrays import Array, Doubles, Floats, Rows, SparseRows
from prototag.engine import memory
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.events import Meter
from prototag.mcdl.exemplars import ExemplarMCDL, Settings
from prototag.mcdl.memory_estimates import REMEDY
from prototag.storage.rows import take
from prototag.tagging import stages
from prototag.tagging.memory_estimates import FitSize, estimate_out_of_core_fit
from prototag.tagging.model import Kernel, Linear, Relations, TagModel
from prototag.tagging.reduction import Blocks
from prototag.tagging.streamed import finish, landmarks, prototypes, scores, vectors
from prototag.tagging.streamed.scratch import Scratch, fingerprint
from prototag.tagging.streamed.vectors import Many

if TYPE_CHECKING:
    from prototag.tagging.tagger import Tagger

STAGES = 9
PROTOTYPES = 40_000  # at most, unless more are asked for


class Asked(NamedTuple):
    """What a Tagger is asked for; None is chosen by left-out images."""

    prototypes: int
    landmarks: int
    components: int
    width: int
    kernel_components: int
    lift: float | None
    gamma: float | None
    strength: float | None
    share: float | None
    linear: float | None
    relations: float
    level: float | None
    boost: float | None
    threshold: str | float


class Learned(NamedTuple):
    """What is learned of many images."""

    model: TagModel
    choices: dict[str, float]
    threshold: Any
    blocks: Blocks
    prototype_images: Rows
    sample: Rows  # images whose scores are known as if they were new
    Y: sparse.csr_array  # their tags
    raw: Floats  # their scores, without the factors of the tags
    scores: Floats  # the same as those of new images
    probabilities: Doubles
    count: Array  # type: ignore[assignment]  # images of each tag, of all
    area: Doubles  # how well each tag ranks all images
    shown: Rows  # images to be shown: the sample, and those nearest to prototypes
    shown_raw: Floats  # their scores, without the factors of the tags


def learn(tagger: Tagger, X: Any, Y: sparse.csr_array, work: Any) -> Learned:
    """What a Tagger learns of many images, in a folder to work in."""
    (n, t), engine = Y.shape, tagger._engine
    if X.shape[0] != n:
        raise ValueError(f"X has {X.shape[0]} images and Y has tags for {n}: give both for all.")
    k = tagger.n_prototypes if isinstance(tagger.n_prototypes, Integral) else None
    share = min(1.0, float(tagger.n_prototypes)) if k is None else 1.0
    count = min(n, int(k) if k is not None else min(round(share * n), PROTOTYPES))
    asked = Asked(
        count,
        landmarks.usual_count(n, tagger.max_landmarks),
        tagger.n_components,
        tagger.width,
        tagger.kernel_components,
        tagger.lift,
        tagger.gamma,
        tagger.strength,
        tagger.share,
        tagger.linear,
        tagger.relations,
        tagger.level,
        tagger.boost,
        tagger.threshold,
    )
    size = FitSize(n, X.shape[1], t, count, asked.landmarks)
    memory.require(estimate_out_of_core_fit(size), REMEDY)
    seed = int(check_random_state(tagger.random_state).randint(2**31 - 1))
    key = {
        "version": __version__,
        "collection": fingerprint(X, Y),
        "seed": seed,
        "recipe": {name: repr(value) for name, value in sorted(tagger._recipe().items())},
    }
    many = vectors.gather(
        X,
        Y,
        labels=tagger._labels,
        pilot=tagger.pilot,
        seed=seed,
        engine=engine,
        scratch=Scratch(work, key),
    )
    core = ExemplarMCDL(
        count, max_nonzeros=tagger.max_nonzeros, n_jobs=tagger.n_jobs, engine=tagger.engine
    )
    meter = Meter("Learning", STAGES, tagger.progress)
    return fit(many, asked, stages.weigh_given(many.task, tagger.blocks), core._settings(), meter)


def fit(many: Many, asked: Asked, blocks: Blocks, settings: Settings, meter: Meter) -> Learned:
    """Learn from the sums, the codes and the scores of all images."""
    found = vectors.add_up(many)
    meter.advance()
    reduced = vectors.reduce(many, found, asked.components, asked.kernel_components, blocks)
    gamma, strength = stages.choose_kernel(many.task, reduced, asked.gamma, asked.strength)
    if asked.strength is None:  # more images need less of a penalty
        strength *= float(np.sqrt(len(many.sample) / many.shape[0]))
    straight = vectors.linear(many, found, reduced.reduction)
    del found
    lifted = vectors.lift(
        many,
        reduced,
        straight,
        settings.codes,
        asked.components,
        asked.kernel_components,
        asked.width,
        asked.lift,
    )
    meter.advance()
    summary = prototypes.summarise(many, lifted.vectors, asked.prototypes)
    meter.advance()
    codes, certificate = prototypes.encode(many, lifted.vectors, summary, settings.codes)
    meter.advance()
    coded = prototypes.learn(many, summary, codes, certificate, settings)
    meter.advance()
    smooth = landmarks.learn(many, lifted.short, gamma, strength, asked.landmarks)
    meter.advance()
    mixed = scores.mix(many, lifted, coded, smooth, asked.share, asked.linear)
    meter.advance()
    related = scores.relate(many, mixed, asked.relations, asked.level, asked.boost)
    meter.advance()
    done = finish.finish(many, mixed, related, asked.threshold)
    meter.advance()

    lifting, u = lifted.lifting, np.float32(mixed.linear_share)
    t, frequency = many.shape[2], straight.frequency
    scale = np.float32(lifting.scale_) * np.sqrt(frequency)
    axes = lifting.axes_
    model = TagModel(
        projection=stages.projection_of(reduced, lifting, smooth.kernel.landmarks.shape[1]),
        lift_weight=float(lifting.weight),
        axes=None if axes is None else np.ascontiguousarray(axes, np.float32),
        prototypes=np.array(summary.D),  # nothing of a model lies in the folder of work
        semantics=SparseRows.of(coded.S),
        max_nonzeros=settings.codes.max_nonzeros,
        kernel=Kernel(
            np.array(smooth.kernel.landmarks), np.array(smooth.kernel.dual), gamma, strength
        ),
        linear=Linear(u * scale, u * frequency),
        share=mixed.share,
        linear_share=mixed.linear_share,
        relations=Relations(np.ascontiguousarray(related.coef), related.offset),
        tag_scale=related.tag_scale,
        threshold=np.broadcast_to(done.threshold, t).astype(np.float64),
        calibration=done.calibration,
    )
    choices = {
        "gamma": gamma,
        "strength": strength,
        "lift": float(lifting.weight),
        "share": mixed.share,
        "linear": mixed.linear_share,
        "level": related.level,
        "boost": related.boost,
        "out_of_fold_f1": done.f1,
        "out_of_fold_map": done.mean_average_precision,
        "codes_gap": certificate.gap,
        "codes_stalled": float(certificate.stalled),
    }
    shown = np.union1d(many.sample, summary.image)
    known = take(mixed.scores, shown)
    return Learned(
        model,
        choices,
        done.threshold,
        blocks,
        summary.image,
        many.sample,
        many.task.Y,
        related.sample,
        correct_loo_bias(many.task.Y, related.sample),
        done.probabilities,
        np.bincount(many.Y.indices, minlength=t),
        done.area,
        shown,
        related.relation.raw(
            known, related.relation.levers(known), many.Y[shown].toarray(), slice(None)
        ),
    )
