"""The training pipeline of :class:`prototag.Tagger`: its stages and hyperparameter selection.

:func:`fit` runs the stages. Each stage is a method of
:class:`prototag.tagging.in_memory.InMemory`, and under the same name with the same result a method
of :class:`prototag.tagging.out_of_core.steps.OutOfCore`. It takes the results of earlier stages,
and returns its parameters and its held-out scores. The first stages learn the representation, which
all tags share and which changes rarely; the later stages learn one column for each tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from prototag.arrays import Floats
from prototag.evaluation.leave_one_out import ranking_score
from prototag.events import Meter, Progress
from prototag.knowledge.concepts import GROUPS, WIDTH, NamePrior
from prototag.tagging.fit_result import (
    FitResult,
    HeldOut,
    Reduced,
    Stages,
)
from prototag.tagging.loo_ridge import kernel_ridge
from prototag.tagging.model import Projection, TagModel
from prototag.tagging.reduction import FeatureGroups, Reduction
from prototag.tagging.task import Task

if TYPE_CHECKING:
    from prototag.tagging.in_memory import InMemory
    from prototag.tagging.out_of_core.steps import OutOfCore

Steps: TypeAlias = "InMemory | OutOfCore"

# Grids of hyperparameters that are selected on held-out scores.
GAMMAS = (0.5, 1.0, 2.0)
STRENGTHS = (0.1, 0.3, 1.0)
KERNEL_SHARES = (0.0, 0.25, 0.5, 0.65, 0.8, 0.9, 1.0)
# The defaults, unless validation scores clearly prefer another value: they did best on subsets of
# IAPRTC-12, COCO and clip art with 100 to 3,000 images (benchmarks/recipe). On small samples
# validation scores are too noisy to select by.
DEFAULTS = {"gamma": 1.0, "strength": 0.3, "kernel_share": 0.9}
# Of all feature groups but the first: for photographs 0.5 is best, for drawings 1.
LATER_GROUP_WEIGHT = 0.7
N_STAGES = 6  # for the progress meter


@dataclass(frozen=True)
class FitOptions:
    """The parameters of a Tagger that affect its result, under the same names.

    Parameters that are None are selected on held-out scores.
    """

    n_prototypes: int | float
    feature_groups: Sequence[int] | FeatureGroups | None
    n_components: int
    max_nonzeros: int
    gamma: float | None
    strength: float | None
    kernel_share: float | None
    level: float | None
    boost: float | None
    max_landmarks: int
    threshold: str | float


def fit(steps: Steps, options: FitOptions, progress: Progress | None = None) -> FitResult:
    """Run all stages; return the model and the held-out evidence of its quality."""
    steps.begin(options)
    meter = Meter("Learning", N_STAGES, progress)
    groups = weighted_groups(steps.task, options.feature_groups)
    reduced = steps.reduce(groups)
    steps.impute_unlabeled(reduced)
    gamma, strength = select_kernel(steps.task, reduced, options.gamma, options.strength)
    meter.advance()
    coded = steps.learn_prototypes(reduced)
    meter.advance()
    kernel_ridge = steps.regress_kernel(reduced, coded, gamma, strength)
    meter.advance()
    mixed = steps.weigh_parts(coded, kernel_ridge)
    mixed = steps.weigh_names(mixed, kernel_ridge)
    meter.advance()
    factors = steps.select_factors(mixed)
    meter.advance()
    thresholded = steps.calibrate(mixed, factors)
    meter.advance()

    stages = Stages(
        targets=steps.task.targets,
        reduced=reduced,
        coded=coded,
        kernel_ridge=kernel_ridge,
        mixed=mixed,
        factors=factors,
        thresholded=thresholded,
    )
    return result_of(steps, groups, stages)


def result_of(steps: Steps, groups: FeatureGroups, stages: Stages) -> FitResult:
    """Build the model, and collect the held-out evidence and the images of the gallery."""
    examples = steps.examples
    task = steps.task
    held_out = HeldOut(
        labels=task.Y,
        raw=task.rank_unlabeled_last(stages.factors.raw),
        probabilities=stages.thresholded.probabilities,
        images=examples.images[steps.task_rows],
    )
    gallery_images, gallery_raw = steps.gallery(stages)
    n, t = examples.Y.shape
    return FitResult(
        model=build_model(steps.options, stages),
        choices=selected_parameters(stages),
        threshold=stages.thresholded.threshold,
        feature_groups=groups,
        group_of=examples.group_of,
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


def weighted_groups(task: Task, groups: Sequence[int] | FeatureGroups | None) -> FeatureGroups:
    """Return width and weight of each feature group; default vectors have known groups."""
    m = task.X.shape[1]
    if groups is None:
        groups = GROUPS if task.concepts is not None and m == WIDTH else [m]
    table = np.array(list(groups), np.float64)
    has_weights = table.ndim == 2
    widths = (table[:, 0] if has_weights else table).astype(int).tolist()
    if sum(widths) != m or min(widths) < 1:
        raise ValueError(f"feature_groups={groups!r}: give widths that add up to {m} columns.")
    weights = [1.0, *[LATER_GROUP_WEIGHT] * (len(widths) - 1)]
    if has_weights:
        weights = table[:, 1].tolist()
    return tuple(zip(widths, weights, strict=True))


def select_kernel(
    task: Task, reduced: Reduced, gamma: float | None, strength: float | None
) -> tuple[float, float]:
    """Select the sharpness and the penalty of the kernel, on the sample."""
    pairs = [
        (g, s)
        for g in (GAMMAS if gamma is None else (gamma,))
        for s in (STRENGTHS if strength is None else (strength,))
    ]
    x = reduced.sample[task.sample]
    T = task.targets[task.sample]
    Y = task.Y[task.sample]

    def validation_score(pair: tuple[float, float]) -> float:
        fitted = kernel_ridge(x, T, gamma=pair[0], strength=pair[1], engine=task.engine)
        return ranking_score(Y, task.rank_unlabeled_last(fitted.loo_predictions, task.sample))

    default_gamma = DEFAULTS["gamma"] if gamma is None else gamma
    default_strength = DEFAULTS["strength"] if strength is None else strength
    options = pairs, (default_gamma, default_strength)
    return task.select_option(*options, validation_score)


def select_share(
    task: Task, code_scores: Floats, kernel_scores: Floats, kernel_share: float | None
) -> float:
    """Select the share of the kernel against the codes."""
    if kernel_share is not None:
        return kernel_share

    def validation_score(share: float) -> float:
        mixed = mix_parts(code_scores, kernel_scores, share)
        return ranking_score(task.Y, task.rank_unlabeled_last(mixed))

    return task.select_option(KERNEL_SHARES, DEFAULTS["kernel_share"], validation_score)


def mix_parts(code_scores: Floats, kernel_scores: Floats, kernel_share: float) -> Floats:
    """Add the scores of codes and kernel by their shares."""
    mixed = np.float32(1 - kernel_share) * code_scores
    mixed += np.float32(kernel_share) * kernel_scores
    return np.asarray(mixed, np.float32)


def selected_parameters(stages: Stages) -> dict[str, float]:
    """Return the selected hyperparameters, the estimates, and how exact the codes are."""
    return {
        "gamma": stages.kernel_ridge.kernel.gamma,
        "strength": stages.kernel_ridge.kernel.strength,
        "kernel_share": stages.mixed.kernel_share,
        "names": 0.0 if stages.mixed.names is None else stages.mixed.names.prior.mean,
        "level": stages.factors.level,
        "boost": stages.factors.boost,
        "out_of_fold_f1": stages.thresholded.f1,
        "out_of_fold_map": stages.thresholded.mean_average_precision,
        "codes_gap": stages.coded.certificate.gap,
        "codes_stalled": float(stages.coded.certificate.stalled),
    }


def build_model(options: FitOptions, stages: Stages) -> TagModel:
    """Assemble the model from the results of the stages.

    Arrays have the memory order that a model file gives back, so that sums are bit-identical.
    """
    kernel = stages.kernel_ridge.kernel
    prototypes = np.ascontiguousarray(stages.coded.prototypes)
    if stages.kernel_ridge.shares_prototypes:
        kernel = kernel._replace(landmarks=prototypes)
    projection = projection_of(stages.reduced.reduction)
    regression = stages.kernel_ridge.names
    weighed = stages.mixed.names
    if regression is not None and weighed is not None:
        dual = kernel.dual - regression.dual * weighed.weights
        kernel = kernel._replace(dual=dual)
        projection = add_names(projection, regression.prior, weighed.weights)
    tag_scale = stages.factors.tag_scale
    threshold = np.broadcast_to(stages.thresholded.threshold, len(tag_scale))
    return TagModel(
        projection=projection,
        prototypes=prototypes,
        semantics=stages.coded.semantics,
        max_nonzeros=options.max_nonzeros,
        kernel=kernel,
        kernel_share=stages.mixed.kernel_share,
        tag_scale=tag_scale,
        threshold=threshold.astype(np.float64),
        calibration=stages.thresholded.calibration,
    )


def add_names(projection: Projection, prior: NamePrior, weights: Floats) -> Projection:
    """Add columns with the weighted scores of tags by their names."""
    return projection._replace(
        map=np.ascontiguousarray(np.hstack([projection.map, prior.coef * weights]), np.float32),
        constant=np.append(projection.constant, prior.intercept * weights).astype(np.float32),
    )


def projection_of(reduction: Reduction) -> Projection:
    """Combine z-score, concept columns and principal axes into one product."""
    zscore = reduction.zscore_
    axes = reduction.axes_
    mean = zscore.mean_ / zscore.scale_
    linear_map = reduction.linear_map
    constant = -(mean @ linear_map)
    scale = None
    if axes is None:
        constant = np.concatenate([-mean, constant])
        scale = np.asarray(1 / zscore.scale_, np.float32)
    elif reduction.concepts_ is None:
        constant = constant - axes.mean_ @ linear_map
    return Projection(
        np.ascontiguousarray(linear_map / zscore.scale_[:, None], np.float32),
        constant.astype(np.float32),
        len(constant),
        scale,
    )
