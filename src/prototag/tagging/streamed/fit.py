"""The row of stages for many images."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Doubles, Floats, Rows
from prototag.evaluation.cuts import as_new
from prototag.events import Meter
from prototag.mcdl.exemplars import Settings
from prototag.tagging import stages
from prototag.tagging.model import Linear, Relations, TagModel
from prototag.tagging.reduction import Blocks
from prototag.tagging.streamed import finish, landmarks, prototypes, scores, vectors
from prototag.tagging.streamed.vectors import Many

STAGES = 9


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
    prototype_images: Rows
    sample: Rows  # images whose scores are known as if they were new
    Y: sparse.csr_array  # their tags
    raw: Floats  # their scores
    probabilities: Doubles
    area: Doubles  # how well each tag ranks all images


def fit(many: Many, asked: Asked, blocks: Blocks, settings: Settings, meter: Meter) -> Learned:
    """Learn from the sums, the codes and the scores of all images."""
    found = vectors.add_up(many)
    meter.advance()
    reduced = vectors.reduce(
        many, found, asked.components, asked.kernel_components, blocks
    )
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
        projection=stages._projection(reduced, lifting, smooth.kernel.landmarks.shape[1]),
        lift_weight=float(lifting.weight),
        axes=None if axes is None else np.ascontiguousarray(axes, np.float32),
        prototypes=np.ascontiguousarray(summary.D),
        semantics=coded.S,
        max_nonzeros=settings.codes.max_nonzeros,
        kernel=smooth.kernel,
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
    return Learned(
        model,
        choices,
        done.threshold,
        summary.image,
        many.sample,
        many.task.Y,
        as_new(many.task.Y, related.sample),
        done.probabilities,
        done.area,
    )
