"""The first stages over blocks: from sums to lifted vectors.

One pass adds up what z-score, principal axes and the linear part need; a second one makes the
vectors of codes and kernel, each lifted as if its image had not been there.
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
from prototag.tagging.out_of_core.stage_cache import Scratch
from prototag.tagging.pipeline import VARIANCE_PRIOR, select_lift
from prototag.tagging.reduction import FeatureGroups, Moments, PrincipalAxes, Reduction, covariances
from prototag.tagging.task import Task

BLOCK = 16_384  # rows whose sums are one result
ROWS = 4096  # rows lifted at once
NEIGHBOURS = 64  # images in a row that are of one fold: frames of a burst stay together
FOLDS = 6  # of the prototypes
PARTS = 3  # of the folds: S is learned from the other two thirds
SAMPLE = 40_000  # images by which choices are made, at most
NUMBERS = 32_000_000  # in their vectors, at most
CELLS = 20_000_000  # numbers in their scores, at most


@dataclass(frozen=True, eq=False)
class Many:
    """What every stage is given."""

    X: Any  # n x m, an array or rows that lie in files
    Y: sparse.csr_array  # n x t
    folds: Rows  # n, of FOLDS
    sample: Rows  # rising
    task: Task  # the sample as a collection of its own
    seed: int
    engine: Engine
    scratch: Scratch

    @property
    def shape(self) -> tuple[int, int, int]:
        """Images, columns, tags."""
        return (*self.X.shape, self.Y.shape[1])

    @property
    def frequency(self) -> Doubles:
        """Of each tag, at least that of one image."""
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
    scratch: Scratch,
) -> Many:
    """Draw the folds and the sample."""
    (n, t) = Y.shape
    rng = np.random.default_rng(seed)
    groups = -(-n // NEIGHBOURS)
    folds = np.repeat(rng.permutation(groups) % FOLDS, NEIGHBOURS)[:n].astype(np.intp)
    most = min(SAMPLE, NUMBERS // X.shape[1], CELLS // t)
    count = min(n, max(most, 2 * pilot))
    sample = np.sort(rng.permutation(n)[:count])
    tags = sparse.csr_array(Y[sample])
    tried = np.sort(rng.permutation(count)[:pilot])
    vectors = np.asarray(take_rows(X, sample), np.float32)
    task = Task(vectors, tags, tags.toarray(), None, labels, seed, tried, engine)
    return Many(X, Y, folds, sample, task, seed, engine, scratch)


# -- sums ------------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """Of some rows."""

    moments: Moments
    tagged: Doubles  # t x m, the vectors of each tag's images, added up


@batch_name("Sum products of vectors")
def sums(x: Floats, y: sparse.csr_array) -> Sums:
    """Of one block."""
    x = np.asarray(x, np.float32)
    if not np.isfinite(x).all():
        raise ValueError("X holds NaN or infinity: remove or repair these rows.")
    return Sums(covariances(x), np.asarray(y.T @ x, np.float64))


def both(one: Sums, other: Sums) -> Sums:
    return Sums(one.moments + other.moments, one.tagged + other.tagged)


def add_up(many: Many) -> Sums:
    """Over all rows."""

    def compute() -> dict[str, Array]:
        found = tree_sum(many.engine, sums, [many.X, many.Y], add=both, size=BLOCK)
        n, mean, squares = found.moments
        return {"n": np.array(n), "mean": mean, "squares": squares, "tagged": found.tagged}

    kept = many.scratch.arrays("sums", compute)
    return Sums(Moments(int(kept["n"]), kept["mean"], kept["squares"]), kept["tagged"])


def reduce(
    many: Many, found: Sums, components: int, kernel_components: int, blocks: FeatureGroups
) -> Reduced:
    """z-score and principal axes from the sums; the sample's vectors of the kernel."""
    n, mean, squares = found.moments
    most = max(components, kernel_components)
    reduction = Reduction(most, prior=VARIANCE_PRIOR, feature_groups=blocks, random_state=many.seed)
    reduction.fit_moments(Moments(n, mean, squares))
    short = reduction.first(kernel_components).transform(many.task.X)
    return Reduced(reduction, short)


# -- the linear part -------------------------------------------------------------------------------


class Straight(NamedTuple):
    """A ridge regression of the whitened tags, and what its levers are made of."""

    mean: Floats  # m, of the z-score
    scale: Floats  # m
    axes: Floats  # m x m, principal axes of the z-scored vectors
    share: Floats  # m, what the penalty leaves of each
    coef: Floats  # m x t
    middle: Floats  # t, the mean of the whitened tags
    frequency: Floats  # t
    strength: float

    def standard(self, x: Floats) -> Floats:
        return np.asarray((x - self.mean) / self.scale, np.float32)

    def lever(self, standard: Floats) -> Floats:
        """How much each image says of itself."""
        along = standard @ self.axes
        np.square(along, out=along)
        return np.asarray(along @ self.share, np.float32)

    def left_out(self, standard: Floats, lever: Floats, y: sparse.csr_array) -> Floats:
        """Whitened predictions of images, each as if it had not been there."""
        targets = whitened(y, self.frequency) - self.middle
        return loo_predictions(standard @ self.coef, lever[:, None], targets) + self.middle


def whitened(y: sparse.csr_array, frequency: Floats) -> Floats:
    """``(y - f) / sqrt(f)`` of one block."""
    return np.asarray((y.toarray() - frequency) / np.sqrt(frequency), np.float32)


def linear(many: Many, found: Sums, reduction: Reduction) -> Straight:
    """The regression with the penalty that ranks the sample best."""
    n, mean, squares = found.moments
    zscore = reduction.zscore_
    frequency = many.frequency
    root = np.sqrt(many.frequency)
    rates = np.bincount(many.Y.indices, minlength=len(root)) / n
    values, axes = np.linalg.eigh(squares / np.outer(zscore.scale_, zscore.scale_))
    cross = (found.tagged.T - n * np.outer(mean, rates)) / zscore.scale_[:, None] / root
    inner = axes.T @ cross
    task = many.task
    best = None
    highest = -np.inf
    for strength in STRENGTHS:
        share = 1 / (np.maximum(values, 0) + strength * n)
        straight = Straight(
            zscore.mean_.astype(np.float32),
            zscore.scale_.astype(np.float32),
            axes.astype(np.float32),
            share.astype(np.float32),
            (axes @ (share[:, None] * inner)).astype(np.float32),
            ((rates - frequency) / root).astype(np.float32),
            frequency.astype(np.float32),
            strength,
        )
        standard = straight.standard(task.X)
        lever = straight.lever(standard) + np.float32(1 / n)
        predicted = straight.left_out(standard, lever, task.Y)
        fair = correct_loo_bias(task.Y, predicted * root.astype(np.float32) + straight.frequency)
        quality = ranking.mean_average_precision(task.Y, fair)
        if quality > highest:
            best = straight
            highest = quality
    assert best is not None
    return best


# -- lifted vectors --------------------------------------------------------------------------------


class Lifter(NamedTuple):
    """Makes the vectors of codes and kernel of training images."""

    straight: Straight
    components: Floats  # m x kernel components, principal axes
    center: Floats  # m, of the z-scored vectors
    short: int  # components that are lifted
    length: np.float32  # mean length of predictions
    weight: np.float32
    own: np.float32  # 1 / n
    axes: Floats | None  # lifted columns x width


@batch_name("Lift vectors")
def lift_rows(x: Floats, y: sparse.csr_array, lifter: Lifter) -> tuple[Floats, Floats, Floats]:
    """Lifted vectors, those of the kernel, and the levers of the linear part."""
    straight = lifter.straight
    standard = straight.standard(np.asarray(x, np.float32))
    lever = straight.lever(standard) + lifter.own
    predicted = straight.left_out(standard, lever, y) * (lifter.weight / lifter.length)
    projected = (standard - lifter.center) @ lifter.components
    lifted = normalize_rows(np.hstack([normalize_rows(projected[:, : lifter.short]), predicted]))
    if lifter.axes is not None:
        lifted = normalize_rows(lifted @ lifter.axes)
    return lifted, normalize_rows(projected), lever[:, None]


class TrainingRows(NamedTuple):
    """Vectors of all images, the map that makes them of new ones, and levers of the linear part."""

    lifting: Lifting
    straight: Straight
    vectors: Any  # n x width
    short: Any  # n x kernel components
    lever: Any  # n x 1


def lift(
    many: Many,
    reduced: Reduced,
    straight: Straight,
    codes: CodeSettings,
    components: int,
    kernel_components: int,
    width: int,
    weight: float | None,
) -> TrainingRows:
    """Append linear predictions, with the weight that annotates the sample best over itself."""
    n = many.shape[0]
    task = many.task
    reduction = reduced.reduction.first(components)
    lifting = Lifting(components, weight=1.0, random_state=many.seed)
    lifting.n_features_in_ = many.X.shape[1]
    lifting.reduction_ = reduction
    standard = straight.standard(task.X)
    lever = straight.lever(standard) + np.float32(1 / n)
    predicted = straight.left_out(standard, lever, task.Y)
    lifting.scale_ = length = float(np.linalg.norm(predicted, axis=1).mean()) or 1.0
    lifting.coef_ = straight.coef / np.float32(length)
    lifting.intercept_ = straight.middle / np.float32(length)
    lifting.strength_ = straight.strength
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
        straight,
        np.ascontiguousarray(axes.components_[:kernel_components].T, np.float32),
        axes.mean_.astype(np.float32),
        reduction.n_features_out,
        np.float32(length),
        np.float32(weight),
        np.float32(1 / n),
        None if lifting.axes_ is None else lifting.axes_.astype(np.float32),
    )
    columns = {"vectors": lifting.n_features_out, "short": len(lifter.components.T), "lever": 1}
    rows = many.scratch.rows("lifted", columns, n, _blocks(many, lifter))
    return TrainingRows(lifting, straight, rows["vectors"], rows["short"], rows["lever"])


def _blocks(many: Many, lifter: Lifter) -> Callable[[], Iterator[tuple[Floats, Floats, Floats]]]:
    def compute() -> Iterator[tuple[Floats, Floats, Floats]]:
        return many.engine.stream(lift_rows, [many.X, many.Y], [lifter], size=ROWS)

    return compute
