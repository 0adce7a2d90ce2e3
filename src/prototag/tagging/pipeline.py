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
from prototag.knowledge.concepts import NamePrior
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
from prototag.tagging.name_knowledge import NameWeights
from prototag.tagging.reduction import FeatureGroups, Reduction
from prototag.tagging.task import Task

if TYPE_CHECKING:
    from prototag.tagging.in_memory import InMemory
    from prototag.tagging.out_of_core.steps import OutOfCore

Steps: TypeAlias = "InMemory | OutOfCore"

# Grids of hyperparameters that are selected on held-out scores.
GROUP_WEIGHTS = (0.0, 0.5, 1.0)
LIFTS = (0.0, 0.5, 1.0)
GAMMAS = (0.5, 1.0, 2.0)
STRENGTHS = (0.1, 0.3, 1.0, 3.0)
KERNEL_SHARES = (0.0, 0.25, 0.5, 0.65, 0.8, 0.9, 1.0)
LINEAR_SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.8)
# The defaults, unless validation scores clearly prefer another value: they did best on subsets of
# IAPRTC-12, COCO and clip art with 30 to 1,000 images (benchmarks/priors.py). On small samples
# validation scores are too noisy to select by.
DEFAULTS = {
    "gamma": 1.0,
    "strength": 1.0,
    "lift": 1.0,
    "kernel_share": 0.9,
    "linear_share": 0.1,
    "group_weight": 0.5,
}
VARIANCE_PRIOR = 5_000.0  # images by which the variances of columns are shrunk toward their mean
N_STAGES = 7  # for the progress meter


@dataclass(frozen=True)
class FitOptions:
    """The parameters of a Tagger that affect its result, under the same names.

    Parameters that are None are selected on held-out scores.
    """

    n_prototypes: int | float
    feature_groups: Sequence[int] | FeatureGroups | None
    n_components: int
    width: int
    kernel_components: int
    max_nonzeros: int
    lift: float | None
    gamma: float | None
    strength: float | None
    kernel_share: float | None
    linear_share: float | None
    relations: float
    level: float | None
    boost: float | None
    max_landmarks: int
    threshold: str | float


def fit(steps: Steps, options: FitOptions, progress: Progress | None = None) -> FitResult:
    """Run all stages; return the model and the held-out evidence of its quality."""
    steps.begin(options)
    meter = Meter("Learning", N_STAGES, progress)
    groups = feature_group_weights(steps.task, options.feature_groups)
    reduced = steps.reduce(groups)
    steps.impute_unlabeled(reduced)
    n = steps.examples.Y.shape[0]
    gamma, strength = select_kernel(steps.task, reduced, options.gamma, options.strength, n)
    meter.advance()
    lifted = steps.lift(reduced)
    meter.advance()
    coded = steps.learn_prototypes(lifted)
    meter.advance()
    kernel_ridge = steps.regress_kernel(reduced, lifted, coded, gamma, strength)
    meter.advance()
    mixed = steps.weigh_parts(lifted, coded, kernel_ridge)
    mixed = steps.weigh_names(mixed, kernel_ridge)
    meter.advance()
    related = steps.relate_tags(mixed)
    meter.advance()
    thresholded = steps.calibrate(mixed, related)
    meter.advance()

    stages = Stages(
        targets=steps.task.targets,
        reduced=reduced,
        lifted=lifted,
        coded=coded,
        kernel_ridge=kernel_ridge,
        mixed=mixed,
        related=related,
        thresholded=thresholded,
    )
    return result_of(steps, groups, stages)


def result_of(steps: Steps, groups: FeatureGroups, stages: Stages) -> FitResult:
    """Build the model, and collect the held-out evidence and the images of the gallery."""
    examples = steps.examples
    task = steps.task
    held_out = HeldOut(
        labels=task.Y,
        raw=task.rank_unlabeled_last(stages.related.raw),
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


def select_group_weights(task: Task, widths: Sequence[int]) -> FeatureGroups:
    """Select the weights of all feature groups but the first, by kernel ridge regression.

    The first group has the weight 1, and a group that does not help gets 0.
    """
    x = task.X[task.sample]
    T = task.targets[task.sample]
    Y = task.Y[task.sample]
    weights = [1.0, *[DEFAULTS["group_weight"]] * (len(widths) - 1)]
    for number in range(1, len(widths)):

        def validation_score(weight: float, number: int = number) -> float:
            candidate = [*weights[:number], weight, *weights[number + 1 :]]
            groups = tuple(zip(widths, candidate, strict=True))
            reduction = Reduction(None, prior=VARIANCE_PRIOR, feature_groups=groups)
            vectors = reduction.fit(x).transform(x)
            fitted = kernel_ridge(vectors, T, gamma=1.0, strength=1.0, engine=task.engine)
            return ranking_score(Y, task.rank_unlabeled_last(fitted.loo_predictions, task.sample))

        weights[number] = task.select_option(
            GROUP_WEIGHTS, DEFAULTS["group_weight"], validation_score
        )
    return tuple(zip(widths, weights, strict=True))


def feature_group_weights(
    task: Task, groups: Sequence[int] | FeatureGroups | None
) -> FeatureGroups:
    """Return width and weight of each feature group; select weights that are not given."""
    m = task.X.shape[1]
    table = np.array([(m, 1.0)] if groups is None else list(groups), np.float64)
    has_weights = table.ndim == 2
    widths = (table[:, 0] if has_weights else table).astype(int).tolist()
    if sum(widths) != m or min(widths) < 1:
        raise ValueError(f"feature_groups={groups!r}: give widths that add up to {m} columns.")
    if not has_weights:
        return select_group_weights(task, widths)
    return tuple(zip(widths, table[:, 1].tolist(), strict=True))


def select_lift(task: Task, lifting: Lifting, lifted: Floats, settings: CodeSettings) -> float:
    """Select the weight of predictions by codes of the sample; ``lifted`` has the weight 1."""
    sample = task.sample

    def validation_score(weight: float) -> float:
        x = lifting.reweigh(lifted, weight)
        codes = settings.coder(x).encode(x[sample], excluded=sample, engine=task.engine).codes
        return ranking_score(
            task.Y[sample], task.rank_unlabeled_last((codes @ task.Y).toarray(), sample)
        )

    return task.select_option(LIFTS, DEFAULTS["lift"], validation_score)


def select_kernel(
    task: Task, reduced: Reduced, gamma: float | None, strength: float | None, n: int
) -> tuple[float, float]:
    """Select the sharpness and the penalty of the kernel for n examples.

    The penalty is scaled down from the size of the sample to n.
    """
    pairs = [
        (g, s)
        for g in (GAMMAS if gamma is None else (gamma,))
        for s in (STRENGTHS if strength is None else (strength,))
    ]
    x = reduced.kernel_vectors[task.sample]
    T = task.targets[task.sample]
    Y = task.Y[task.sample]

    def validation_score(pair: tuple[float, float]) -> float:
        fitted = kernel_ridge(x, T, gamma=pair[0], strength=pair[1], engine=task.engine)
        return ranking_score(Y, task.rank_unlabeled_last(fitted.loo_predictions, task.sample))

    default_gamma = DEFAULTS["gamma"] if gamma is None else gamma
    default_strength = DEFAULTS["strength"] if strength is None else strength
    best_gamma, best_strength = task.select_option(
        pairs, (default_gamma, default_strength), validation_score
    )
    if strength is not None:
        return best_gamma, best_strength
    for_task = best_strength * float(np.sqrt(len(x) / len(task.X)))
    return best_gamma, for_task * float(np.sqrt(len(task.X) / n))


def select_shares(
    task: Task,
    parts: tuple[Floats, Floats, Floats],
    kernel_share: float | None,
    linear_share: float | None,
) -> tuple[float, float]:
    """Select the share of the kernel against the codes, then the share of the linear part."""

    def validation_score(kernel_share: float, linear_share: float) -> float:
        mixed = mix_parts(parts, kernel_share, linear_share)
        return ranking_score(task.Y, task.rank_unlabeled_last(mixed))

    if kernel_share is None:
        kernel_share = task.select_option(
            KERNEL_SHARES, DEFAULTS["kernel_share"], lambda share: validation_score(share, 0.0)
        )
    if linear_share is None:
        linear_share = task.select_option(
            LINEAR_SHARES,
            DEFAULTS["linear_share"],
            lambda share: validation_score(kernel_share, share),
        )
    return kernel_share, linear_share


def mix_parts(
    parts: tuple[Floats, Floats, Floats], kernel_share: float, linear_share: float
) -> Floats:
    """Add the scores of codes, kernel and linear part by their shares."""
    code_scores, kernel_scores, linear_scores = parts
    mixed = np.float32((1 - linear_share) * (1 - kernel_share)) * code_scores
    mixed += np.float32((1 - linear_share) * kernel_share) * kernel_scores
    mixed += np.float32(linear_share) * linear_scores
    return mixed


def selected_parameters(stages: Stages) -> dict[str, float]:
    """Return the selected hyperparameters, the estimates, and how exact the codes are."""
    return {
        "gamma": stages.kernel_ridge.kernel.gamma,
        "strength": stages.kernel_ridge.kernel.strength,
        "lift": float(stages.lifted.lifting.weight),
        "kernel_share": stages.mixed.kernel_share,
        "linear_share": stages.mixed.linear_share,
        "names": 0.0 if stages.mixed.names is None else stages.mixed.names.prior.mean,
        "level": stages.related.level,
        "boost": stages.related.boost,
        "out_of_fold_f1": stages.thresholded.f1,
        "out_of_fold_map": stages.thresholded.mean_average_precision,
        "codes_gap": stages.coded.certificate.gap,
        "codes_stalled": float(stages.coded.certificate.stalled),
    }


def build_model(options: FitOptions, stages: Stages) -> TagModel:
    """Assemble the model from the results of the stages.

    Arrays have the memory order that a model file gives back, so that sums are bit-identical.
    """
    lifting = stages.lifted.lifting
    linear = stages.lifted.linear
    kernel = stages.kernel_ridge.kernel
    tag_scale = stages.related.tag_scale
    linear_share = np.float32(stages.mixed.linear_share)
    linear = Linear(linear_share * linear.scale, linear_share * linear.offset)
    projection = projection_of(stages.reduced, lifting, kernel.landmarks.shape[1])
    regression = stages.kernel_ridge.names
    weighed = stages.mixed.names
    if regression is not None and weighed is not None:
        kernel = kernel._replace(dual=kernel.dual - regression.dual * weighed.weights)
        projection, linear = add_names(projection, linear, regression.prior, weighed)
    threshold = np.broadcast_to(stages.thresholded.threshold, len(tag_scale))
    return TagModel(
        projection=projection,
        lift_weight=float(lifting.weight),
        axes=None if lifting.axes_ is None else np.ascontiguousarray(lifting.axes_, np.float32),
        prototypes=np.ascontiguousarray(stages.coded.prototypes),
        semantics=stages.coded.semantics,
        max_nonzeros=options.max_nonzeros,
        kernel=kernel,
        linear=linear,
        kernel_share=stages.mixed.kernel_share,
        linear_share=stages.mixed.linear_share,
        relations=stages.related.relations,
        tag_scale=tag_scale,
        threshold=threshold.astype(np.float64),
        calibration=stages.thresholded.calibration,
    )


def add_names(
    projection: Projection, linear: Linear, prior: NamePrior, weighed: NameWeights
) -> tuple[Projection, Linear]:
    """Add the weighted prior scores by names to the linear part, as columns of its own."""
    n_scaled = 0 if projection.scale is None else len(projection.scale)
    columns = slice(projection.linear.start - n_scaled, projection.linear.stop - n_scaled)
    coef = projection.map[:, columns] * linear.scale + prior.coef * weighed.weights
    constant = projection.constant[projection.linear] * linear.scale + linear.offset
    constant = constant + prior.intercept * weighed.weights
    width = len(projection.constant)
    t = len(linear.scale)
    extended = projection._replace(
        map=np.ascontiguousarray(np.hstack([projection.map, coef]), np.float32),
        constant=np.append(projection.constant, constant).astype(np.float32),
        linear=slice(width, width + t),
    )
    return extended, Linear(np.ones(t, np.float32), np.zeros(t, np.float32))


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
