"""The one row of stages by which :class:`prototag.Tagger` learns, and what its stages share.

:func:`fit` is the method. Each stage is a method of :class:`prototag.tagging.in_memory.InMemory`,
and under the same name and with the same result one of
:class:`prototag.tagging.out_of_core.steps.OutOfCore`. It takes the results of the stages before it,
and returns its parameters and its held-out scores. The first stages make the representation, which
all tags share and which changes rarely; what the later stages learn of a tag is one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from prototag.arrays import Floats
from prototag.evaluation.leave_one_out import ranking_score
from prototag.events import Meter, Progress
from prototag.mcdl.settings import CodeSettings
from prototag.tagging.fit_result import (
    FitResult,
    HeldOut,
    Reduced,
    Stages,
)
from prototag.tagging.lifting import Lifting
from prototag.tagging.loo_ridge import kernel_ridge
from prototag.tagging.model import Linear, Projection, TagModel
from prototag.tagging.reduction import Blocks, Reduction
from prototag.tagging.task import Task

if TYPE_CHECKING:
    from prototag.tagging.in_memory import InMemory
    from prototag.tagging.out_of_core.steps import OutOfCore

Steps: TypeAlias = "InMemory | OutOfCore"

# Grids of hyperparameters that are selected on held-out scores.
WEIGHTS = (0.0, 0.5, 1.0)
LIFTS = (0.0, 0.5, 1.0)
GAMMAS = (0.5, 1.0, 2.0)
STRENGTHS = (0.1, 0.3, 1.0, 3.0)
SHARES = (0.0, 0.25, 0.5, 0.65, 0.8, 0.9, 1.0)
LINEAR_SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.8)
# The defaults, unless held-out images clearly prefer another value: they did best on subsets of
# IAPRTC-12, COCO and clip art with 30 to 1,000 images (benchmarks/priors.py). So few images cannot
# select reliably.
USUAL = {
    "gamma": 1.0,
    "strength": 1.0,
    "lift": 1.0,
    "share": 0.9,
    "linear": 0.1,
    "block": 0.5,
}
PRIOR = 5_000.0  # images by which the variances of columns are drawn together
N_STAGES = 7  # that progress counts


@dataclass(frozen=True)
class FitOptions:
    """The parameters of a Tagger that decide its result, under their names there.

    None is selected on held-out scores.
    """

    n_prototypes: int | float
    blocks: Sequence[int] | Blocks | None
    n_components: int
    width: int
    kernel_components: int
    max_nonzeros: int
    lift: float | None
    gamma: float | None
    strength: float | None
    share: float | None
    linear: float | None
    relations: float
    level: float | None
    boost: float | None
    max_landmarks: int
    threshold: str | float


def fit(steps: Steps, options: FitOptions, progress: Progress | None = None) -> FitResult:
    """Learn a model, and keep the held-out evidence of how good it is."""
    steps.begin(options)
    meter = Meter("Learning", N_STAGES, progress)
    groups = weigh_given(steps.task, options.blocks)
    reduced = steps.reduce(groups)
    steps.impute_unlabeled(reduced)
    n = steps.examples.Y.shape[0]
    gamma, strength = choose_kernel(steps.task, reduced, options.gamma, options.strength, n)
    meter.advance()
    lifted = steps.lift(reduced)
    meter.advance()
    coded = steps.learn_prototypes(lifted)
    meter.advance()
    kernel_ridge = steps.regress_kernel(reduced, lifted, coded, gamma, strength)
    meter.advance()
    mixed = steps.weigh_parts(lifted, coded, kernel_ridge)
    meter.advance()
    related = steps.relate_tags(mixed)
    meter.advance()
    thresholded = steps.calibrate(mixed, related)
    meter.advance()

    stages = Stages(
        targets=steps.task.T,
        reduced=reduced,
        lifted=lifted,
        coded=coded,
        kernel_ridge=kernel_ridge,
        mixed=mixed,
        related=related,
        thresholded=thresholded,
    )
    return result_of(steps, groups, stages)


def result_of(steps: Steps, groups: Blocks, stages: Stages) -> FitResult:
    """Build the model, and collect the held-out evidence and what is shown beside it."""
    examples = steps.examples
    task = steps.task
    held_out = HeldOut(
        labels=task.Y,
        raw=task.known(stages.related.raw),
        probabilities=stages.thresholded.probabilities,
        images=examples.images[steps.task_rows],
    )
    gallery_images, gallery_raw = steps.gallery(stages)
    n, t = examples.Y.shape
    return FitResult(
        model=build_model(steps.options, stages),
        choices=selected(stages),
        threshold=stages.thresholded.threshold,
        feature_groups=groups,
        group_of=examples.of,
        prototype_images=examples.images[stages.coded.examples],
        landmarks_are_prototypes=stages.kernel_ridge.shares_prototypes,
        n_examples=n,
        positives=np.bincount(examples.Y.indices, minlength=t),
        auc=stages.thresholded.auc,
        held_out=held_out,
        gallery_images=gallery_images,
        gallery_raw=gallery_raw,
        stages=stages if steps.keeps_stages else None,
    )


# -- what both implementations share ---------------------------------------------------------------


def weigh(task: Task, widths: Sequence[int]) -> Blocks:
    """Select weights of feature groups beside the first, by kernel ridge regression of a sample.

    A feature group is the output of a network. One that helps little gets the weight 0.
    """
    x = task.X[task.sample]
    T = task.T[task.sample]
    Y = task.Y[task.sample]
    weights = [1.0, *[USUAL["block"]] * (len(widths) - 1)]
    for number in range(1, len(widths)):

        def validation_score(weight: float, number: int = number) -> float:
            tried = [*weights[:number], weight, *weights[number + 1 :]]
            blocks = tuple(zip(widths, tried, strict=True))
            short = Reduction(None, prior=PRIOR, blocks=blocks).fit(x).transform(x)
            found = kernel_ridge(short, T, gamma=1.0, strength=1.0, engine=task.engine)
            return ranking_score(Y, task.known(found.left_out, task.sample))

        weights[number] = task.choose(WEIGHTS, USUAL["block"], validation_score)
    return tuple(zip(widths, weights, strict=True))


def weigh_given(task: Task, blocks: Sequence[int] | Blocks | None) -> Blocks:
    """Return width and weight of each feature group; select weights where only widths are given."""
    m = task.X.shape[1]
    given = np.array([(m, 1.0)] if blocks is None else list(blocks), np.float64)
    decided = given.ndim == 2
    widths = (given[:, 0] if decided else given).astype(int).tolist()
    if sum(widths) != m or min(widths) < 1:
        raise ValueError(f"blocks={blocks!r}: give widths that add up to {m} columns.")
    if not decided:
        return weigh(task, widths)
    return tuple(zip(widths, given[:, 1].tolist(), strict=True))


def choose_lift(task: Task, lifting: Lifting, lifted: Floats, settings: CodeSettings) -> float:
    """Select the weight of predictions in ``lifted`` (with weight 1), by codes over all others."""
    sample = task.sample

    def validation_score(weight: float) -> float:
        x = lifting.reweigh(lifted, weight)
        codes = settings.coder(x).encode(x[sample], excluded=sample, engine=task.engine).codes
        return ranking_score(task.Y[sample], task.known((codes @ task.Y).toarray(), sample))

    return task.choose(LIFTS, USUAL["lift"], validation_score)


def choose_kernel(
    task: Task, reduced: Reduced, gamma: float | None, strength: float | None, n: int
) -> tuple[float, float]:
    """Select the sharpness and the penalty of the kernel for n examples.

    More images than the sample has need less of a penalty.
    """
    pairs = [
        (g, s)
        for g in (GAMMAS if gamma is None else (gamma,))
        for s in (STRENGTHS if strength is None else (strength,))
    ]
    x = reduced.short[task.sample]
    T = task.T[task.sample]
    Y = task.Y[task.sample]

    def validation_score(pair: tuple[float, float]) -> float:
        found = kernel_ridge(x, T, gamma=pair[0], strength=pair[1], engine=task.engine)
        return ranking_score(Y, task.known(found.left_out, task.sample))

    default_gamma = USUAL["gamma"] if gamma is None else gamma
    default_strength = USUAL["strength"] if strength is None else strength
    chosen = task.choose(pairs, (default_gamma, default_strength), validation_score)
    if strength is not None:
        return chosen
    in_task = chosen[1] * float(np.sqrt(len(x) / len(task.X)))
    return chosen[0], in_task * float(np.sqrt(len(task.X) / n))


def choose_shares(
    task: Task,
    parts: tuple[Floats, Floats, Floats],
    share: float | None,
    linear_share: float | None,
) -> tuple[float, float]:
    """Select the share of the kernel against the codes, then the share of the linear part."""

    def validation_score(share: float, linear: float) -> float:
        return ranking_score(task.Y, task.known(mix_parts(parts, share, linear)))

    if share is None:
        share = task.choose(SHARES, USUAL["share"], lambda g: validation_score(g, 0.0))
    if linear_share is None:
        linear_share = task.choose(
            LINEAR_SHARES, USUAL["linear"], lambda u: validation_score(share, u)
        )
    return share, linear_share


def mix_parts(parts: tuple[Floats, Floats, Floats], share: float, linear: float) -> Floats:
    """Add the scores of codes, kernel and linear part by their shares."""
    coded, smooth, straight = parts
    mixed = np.float32((1 - linear) * (1 - share)) * coded
    mixed += np.float32((1 - linear) * share) * smooth
    mixed += np.float32(linear) * straight
    return mixed


def selected(stages: Stages) -> dict[str, float]:
    """Return the selected hyperparameters, the estimates, and how exact the codes are."""
    return {
        "gamma": stages.kernel_ridge.kernel.gamma,
        "strength": stages.kernel_ridge.kernel.strength,
        "lift": float(stages.lifted.lifting.weight),
        "share": stages.mixed.share,
        "linear": stages.mixed.linear_share,
        "level": stages.related.level,
        "boost": stages.related.boost,
        "out_of_fold_f1": stages.thresholded.f1,
        "out_of_fold_map": stages.thresholded.mean_average_precision,
        "codes_gap": stages.coded.certificate.gap,
        "codes_stalled": float(stages.coded.certificate.stalled),
    }


def build_model(options: FitOptions, stages: Stages) -> TagModel:
    """Assemble what annotating needs.

    Arrays have the memory order that a model file gives back, so that sums are the same to the last
    bit.
    """
    lifting = stages.lifted.lifting
    linear = stages.lifted.linear
    kernel = stages.kernel_ridge.kernel
    tag_scale = stages.related.tag_scale
    linear_share = np.float32(stages.mixed.linear_share)
    threshold = np.broadcast_to(stages.thresholded.threshold, len(tag_scale))
    return TagModel(
        projection=projection_of(stages.reduced, lifting, kernel.landmarks.shape[1]),
        lift_weight=float(lifting.weight),
        axes=None if lifting.axes_ is None else np.ascontiguousarray(lifting.axes_, np.float32),
        prototypes=np.ascontiguousarray(stages.coded.prototypes),
        semantics=stages.coded.semantics,
        max_nonzeros=options.max_nonzeros,
        kernel=kernel,
        linear=Linear(linear_share * linear.scale, linear_share * linear.offset),
        share=stages.mixed.share,
        linear_share=stages.mixed.linear_share,
        relations=stages.related.relations,
        tag_scale=tag_scale,
        threshold=threshold.astype(np.float64),
        calibration=stages.thresholded.calibration,
    )


def projection_of(reduced: Reduced, lifting: Lifting, kernel_columns: int) -> Projection:
    """Combine z-score, principal axes and linear predictions into one product."""
    zscore = reduced.reduction.zscore_
    axes = reduced.reduction.axes_
    mean = zscore.mean_ / zscore.scale_
    t = len(lifting.intercept_)
    maps = [lifting.coef_ / zscore.scale_[:, None]]
    constants = [lifting.intercept_ - mean @ lifting.coef_.astype(np.float64)]
    count = len(mean)
    scale = None
    if axes is not None:
        components = axes.components_.T
        maps.insert(0, components / zscore.scale_[:, None])
        constants.insert(0, -(mean + axes.mean_) @ components)
        count = components.shape[1]
    else:
        constants.insert(0, -mean)
        scale = np.asarray(1 / zscore.scale_, np.float32)
    return Projection(
        np.ascontiguousarray(np.hstack(maps), np.float32),
        np.concatenate(constants).astype(np.float32),
        slice(0, lifting.reduction_.n_features_out),
        slice(count, count + t),
        slice(0, kernel_columns),
        slice(count, count + t),
        scale,
    )
