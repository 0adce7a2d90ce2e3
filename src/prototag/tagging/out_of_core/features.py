"""The first out-of-core stages: reduction, linear ridge regression and lifted vectors.

The first pass computes the sums for z-score, principal axes and the linear part. The second pass
computes the lifted vectors, with leave-one-out predictions, and the vectors of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Doubles, Floats, Rows, normalize_rows
from prototag.engine import Engine, tree_sum
from prototag.engine.task_names import batch_name
from prototag.evaluation import ranking
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.mcdl.settings import CodeSettings
from prototag.storage.npy_rows import take_rows
from prototag.tagging.fit_result import Reduced
from prototag.tagging.lifting import STRENGTHS, Lifting
from prototag.tagging.loo_ridge import loo_predictions
from prototag.tagging.out_of_core.stage_cache import StageCache
from prototag.tagging.pipeline import VARIANCE_PRIOR, select_lift
from prototag.tagging.reduction import FeatureGroups, Moments, PrincipalAxes, Reduction, covariances
from prototag.tagging.task import Task

SUM_BATCH = 16_384  # rows that one batch sums
ROW_BATCH = 4096  # rows that one batch lifts or encodes
FOLD_RUN_LENGTH = 64  # consecutive images of one fold, so that bursts are not divided
N_FOLDS = 6  # of the prototypes
N_PARTS = 3  # groups of folds: S for the scores of a part is learned from the others
MAX_SAMPLE_IMAGES = 40_000  # images on which hyperparameters are selected
MAX_SAMPLE_NUMBERS = 32_000_000  # in their vectors: 128 MB
MAX_SAMPLE_SCORES = 20_000_000  # numbers in their scores: 80 MB


@dataclass(frozen=True, eq=False)
class TrainingCollection:
    """All images of a fit, their labels and folds, and a sample in memory."""

    X: Any  # n x m, an array or StoredRows
    Y: sparse.csr_array  # n x t
    folds: Rows  # n, of N_FOLDS
    sample: Rows  # increasing image numbers
    task: Task  # the images of the sample
    seed: int
    engine: Engine
    stage_cache: StageCache

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of images, columns and tags."""
        return (*self.X.shape, self.Y.shape[1])

    @property
    def frequency(self) -> Doubles:
        """The frequency of each tag (t), at least that of one image."""
        n = self.Y.shape[0]
        return np.maximum(np.bincount(self.Y.indices, minlength=self.Y.shape[1]), 1.0) / n


def gather(
    X: Any,
    Y: sparse.csr_array,
    *,
    labels: bool,
    pilot: int,
    seed: int,
    engine: Engine,
    stage_cache: StageCache,
) -> TrainingCollection:
    """Draw the folds and the sample."""
    n, t = Y.shape
    rng = np.random.default_rng(seed)
    groups = -(-n // FOLD_RUN_LENGTH)
    folds = np.repeat(rng.permutation(groups) % N_FOLDS, FOLD_RUN_LENGTH)[:n].astype(np.intp)
    limit = min(MAX_SAMPLE_IMAGES, MAX_SAMPLE_NUMBERS // X.shape[1], MAX_SAMPLE_SCORES // t)
    count = min(n, max(limit, 2 * pilot))
    sample = np.sort(rng.permutation(n)[:count])
    tags = sparse.csr_array(Y[sample])
    selection_sample = np.sort(rng.permutation(count)[:pilot])
    vectors = np.asarray(take_rows(X, sample), np.float32)
    task = Task(vectors, tags, tags.toarray(), None, labels, seed, selection_sample, engine)
    return TrainingCollection(X, Y, folds, sample, task, seed, engine, stage_cache)


# -- sums ------------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """Moments of vectors, and their products with labels."""

    moments: Moments
    tagged: Doubles  # t x m, sums of the vectors of each tag's images


@batch_name("Sum products of vectors")
def sums(x: Floats, y: sparse.csr_array) -> Sums:
    """Compute the sums of one batch."""
    x = np.asarray(x, np.float32)
    if not np.isfinite(x).all():
        raise ValueError("X holds NaN or infinity: remove or repair these rows.")
    return Sums(covariances(x), np.asarray(y.T @ x, np.float64))


def add_sums(one: Sums, other: Sums) -> Sums:
    """Add the sums of two batches."""
    return Sums(one.moments + other.moments, one.tagged + other.tagged)


def sum_collection(collection: TrainingCollection) -> Sums:
    """Compute the sums of all images."""

    def compute() -> dict[str, Array]:
        result = tree_sum(
            collection.engine, sums, [collection.X, collection.Y], add=add_sums, size=SUM_BATCH
        )
        n, mean, squares = result.moments
        return {"n": np.array(n), "mean": mean, "squares": squares, "tagged": result.tagged}

    cached = collection.stage_cache.arrays("sums", compute)
    return Sums(Moments(int(cached["n"]), cached["mean"], cached["squares"]), cached["tagged"])


def reduce(
    collection: TrainingCollection,
    totals: Sums,
    components: int,
    kernel_components: int,
    feature_groups: FeatureGroups,
) -> Reduced:
    """Fit z-score and principal axes to the sums; compute the kernel vectors of the sample."""
    n, mean, squares = totals.moments
    reduction = Reduction(
        max(components, kernel_components),
        prior=VARIANCE_PRIOR,
        feature_groups=feature_groups,
        random_state=collection.seed,
    )
    reduction.fit_moments(Moments(n, mean, squares))
    kernel_vectors = reduction.first(kernel_components).transform(collection.task.X)
    return Reduced(reduction, kernel_vectors)


# -- the linear part -------------------------------------------------------------------------------


class LinearRidge(NamedTuple):
    """Ridge regression of the whitened tags, with the parts of its leverages."""

    mean: Floats  # m, of the z-score
    scale: Floats  # m
    axes: Floats  # m x m, principal axes of the z-scored vectors
    shrinkage: Floats  # m, 1 / (eigenvalue + penalty) of each axis
    coef: Floats  # m x t
    target_mean: Floats  # t, the mean of the whitened tags
    frequency: Floats  # t
    strength: float

    def standard(self, x: Floats) -> Floats:
        """Return z-scored vectors."""
        return np.asarray((x - self.mean) / self.scale, np.float32)

    def leverage(self, standard: Floats) -> Floats:
        """Return the leverage of each image, without the part of the mean."""
        rotated = standard @ self.axes
        np.square(rotated, out=rotated)
        return np.asarray(rotated @ self.shrinkage, np.float32)

    def loo_predictions(self, standard: Floats, leverage: Floats, y: sparse.csr_array) -> Floats:
        """Return leave-one-out predictions of the whitened tags."""
        targets = whitened(y, self.frequency) - self.target_mean
        return loo_predictions(standard @ self.coef, leverage[:, None], targets) + self.target_mean


def whitened(y: sparse.csr_array, frequency: Floats) -> Floats:
    """Return ``(y - f) / sqrt(f)`` of one batch."""
    return np.asarray((y.toarray() - frequency) / np.sqrt(frequency), np.float32)


def fit_linear_ridge(
    collection: TrainingCollection, totals: Sums, reduction: Reduction
) -> LinearRidge:
    """Fit the ridge regression; select its penalty by the ranking of the sample."""
    n, mean, squares = totals.moments
    zscore = reduction.zscore_
    frequency = collection.frequency
    root = np.sqrt(collection.frequency)
    rates = np.bincount(collection.Y.indices, minlength=len(root)) / n
    values, axes = np.linalg.eigh(squares / np.outer(zscore.scale_, zscore.scale_))
    cross = (totals.tagged.T - n * np.outer(mean, rates)) / zscore.scale_[:, None] / root
    inner = axes.T @ cross
    task = collection.task
    best = None
    highest = -np.inf
    for strength in STRENGTHS:
        shrinkage = 1 / (np.maximum(values, 0) + strength * n)
        linear_ridge = LinearRidge(
            zscore.mean_.astype(np.float32),
            zscore.scale_.astype(np.float32),
            axes.astype(np.float32),
            shrinkage.astype(np.float32),
            (axes @ (shrinkage[:, None] * inner)).astype(np.float32),
            ((rates - frequency) / root).astype(np.float32),
            frequency.astype(np.float32),
            strength,
        )
        standard = linear_ridge.standard(task.X)
        leverage = linear_ridge.leverage(standard) + np.float32(1 / n)
        predicted = linear_ridge.loo_predictions(standard, leverage, task.Y)
        scores = predicted * root.astype(np.float32) + linear_ridge.frequency
        quality = ranking.mean_average_precision(task.Y, correct_loo_bias(task.Y, scores))
        if quality > highest:
            best = linear_ridge
            highest = quality
    assert best is not None
    return best


# -- lifted vectors --------------------------------------------------------------------------------


class Lifter(NamedTuple):
    """The map from training vectors to lifted vectors and vectors of the kernel."""

    linear_ridge: LinearRidge
    components: Floats  # m x kernel components, principal axes
    center: Floats  # m, of the z-scored vectors
    n_components: int  # components that are lifted
    length: np.float32  # mean length of predictions
    weight: np.float32
    mean_leverage: np.float32  # 1 / n
    axes: Floats | None  # lifted columns x width


@batch_name("Lift vectors")
def lift_rows(x: Floats, y: sparse.csr_array, lifter: Lifter) -> tuple[Floats, Floats, Floats]:
    """Return lifted vectors, vectors of the kernel, and leverages of the linear part."""
    linear_ridge = lifter.linear_ridge
    standard = linear_ridge.standard(np.asarray(x, np.float32))
    leverage = linear_ridge.leverage(standard) + lifter.mean_leverage
    predicted = linear_ridge.loo_predictions(standard, leverage, y) * (
        lifter.weight / lifter.length
    )
    projected = (standard - lifter.center) @ lifter.components
    lifted = normalize_rows(
        np.hstack([normalize_rows(projected[:, : lifter.n_components]), predicted])
    )
    if lifter.axes is not None:
        lifted = normalize_rows(lifted @ lifter.axes)
    return lifted, normalize_rows(projected), leverage[:, None]


class TrainingRows(NamedTuple):
    """Lifted and kernel vectors of all images, and the leverages of the linear part."""

    lifting: Lifting
    linear_ridge: LinearRidge
    vectors: Any  # n x width
    kernel_vectors: Any  # n x kernel components
    leverage: Any  # n x 1


def lift(
    collection: TrainingCollection,
    reduced: Reduced,
    linear_ridge: LinearRidge,
    codes: CodeSettings,
    components: int,
    kernel_components: int,
    width: int,
    weight: float | None,
) -> TrainingRows:
    """Append leave-one-out predictions, with a weight selected on the sample."""
    n = collection.shape[0]
    task = collection.task
    reduction = reduced.reduction.first(components)
    lifting = Lifting(components, weight=1.0, random_state=collection.seed)
    lifting.n_features_in_ = collection.X.shape[1]
    lifting.reduction_ = reduction
    standard = linear_ridge.standard(task.X)
    leverage = linear_ridge.leverage(standard) + np.float32(1 / n)
    predicted = linear_ridge.loo_predictions(standard, leverage, task.Y)
    lifting.scale_ = length = float(np.linalg.norm(predicted, axis=1).mean()) or 1.0
    lifting.coef_ = linear_ridge.coef / np.float32(length)
    lifting.intercept_ = linear_ridge.target_mean / np.float32(length)
    lifting.strength_ = linear_ridge.strength
    lifting.axes_ = None
    whole = lifting.join(reduction.transform(task.X), predicted / np.float32(length))
    if weight is None:
        weight = select_lift(task, lifting, whole, codes)
    whole = lifting.reweigh(whole, weight)
    lifting.set_params(weight=weight)
    lifting.compress(whole, width)
    axes = reduced.reduction.axes_
    assert isinstance(axes, PrincipalAxes)
    lifter = Lifter(
        linear_ridge,
        np.ascontiguousarray(axes.components_[:kernel_components].T, np.float32),
        axes.mean_.astype(np.float32),
        reduction.n_features_out,
        np.float32(length),
        np.float32(weight),
        np.float32(1 / n),
        None if lifting.axes_ is None else lifting.axes_.astype(np.float32),
    )
    columns = {
        "vectors": lifting.n_features_out,
        "kernel_vectors": len(lifter.components.T),
        "leverage": 1,
    }
    rows = collection.stage_cache.rows("lifted", columns, n, _lift_batches(collection, lifter))
    return TrainingRows(
        lifting, linear_ridge, rows["vectors"], rows["kernel_vectors"], rows["leverage"]
    )


def _lift_batches(
    collection: TrainingCollection, lifter: Lifter
) -> Callable[[], Iterator[tuple[Floats, Floats, Floats]]]:
    def compute() -> Iterator[tuple[Floats, Floats, Floats]]:
        return collection.engine.stream(
            lift_rows, [collection.X, collection.Y], [lifter], size=ROW_BATCH
        )

    return compute
