"""Nystroem kernel ridge regression over landmarks, by sums of its normal equations."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import linalg, sparse

from prototag.arrays import Array, Doubles, Floats
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import batch_slices, single_threaded_blas
from prototag.engine.task_names import batch_name
from prototag.storage.npy_rows import take_rows
from prototag.tagging.loo_ridge import KERNEL_JITTER, loo_predictions
from prototag.tagging.model import Kernel
from prototag.tagging.out_of_core.features import SUM_BATCH, TrainingCollection
from prototag.tagging.out_of_core.kmeans import refine

MIN_LANDMARKS = 6_000
MAX_LANDMARKS = 12_000
MAX_LANDMARK_PRODUCTS = (
    4e12  # n l^2, the multiplications of the normal equations, which limit the landmarks
)
KMEANS_ROUNDS = 5  # of k-means, which places the landmarks
MAX_GRAM_BATCHES = 32  # batches of rows, each of which returns a matrix of l x l
KERNEL_BATCH = 2048  # rows whose kernel is held at once
LEVERAGE_PROJECTIONS = 2048  # random projections that estimate leverages, with an error of about 3%


def landmark_count(n: int, most: int) -> int:
    """Return the number of landmarks for n images; with fewer images more are affordable."""
    return min(
        n, most, int(np.clip(np.sqrt(MAX_LANDMARK_PRODUCTS / n), MIN_LANDMARKS, MAX_LANDMARKS))
    )


@batch_name("Sum the kernel's normal equations")
def normal_equations(
    x: Floats, y: sparse.csr_array, landmarks: Floats, first: Floats, gamma: float
) -> tuple[Floats, Floats]:
    """Return the packed lower half of ``F^T F`` and ``F^T T``, with F the whitened features."""
    count = len(landmarks)
    gram = np.zeros((count, count), np.float32, order="F")
    right = np.zeros((count, y.shape[1]), np.float32)
    for part in batch_slices(len(x), KERNEL_BATCH):
        K = rbf_kernel_with_constant(x[part], landmarks, gamma)
        features = linalg.solve_triangular(
            first, K.T, lower=True, overwrite_b=True, check_finite=False
        )
        gram = linalg.blas.ssyrk(1.0, features, beta=1.0, c=gram, lower=1, overwrite_c=1)
        right += (y[part].T @ features.T).T
    return _packed(gram), right


def _packed(lower: Floats) -> Floats:
    """Return the lower half of a matrix, column after column."""
    return np.concatenate([lower[column:, column] for column in range(len(lower))])


def _unpacked(packed: Array, count: int) -> Doubles:
    """Return the lower half of a matrix from its packed columns."""
    lower = np.zeros((count, count), order="F")
    start = 0
    for column in range(count):
        stop = start + count - column
        lower[column:, column] = packed[start:stop]
        start = stop
    return lower


class LandmarkRidge(NamedTuple):
    """The regression, and the operator that estimates leverages."""

    kernel: Kernel
    operator: Floats  # ||operator @ k||^2 is the leverage of an image with kernel k


def learn(
    collection: TrainingCollection, vectors: Any, gamma: float, strength: float, count: int
) -> LandmarkRidge:
    """Regress the tags on the kernel with landmarks, which are means of images."""
    n, _, _ = collection.shape
    rng = np.random.default_rng([collection.seed, 2])

    def compute() -> dict[str, Array]:
        landmarks = take_rows(vectors, np.sort(rng.permutation(n)[:count]))
        if count < n:
            one_fold = np.zeros(n, np.intp)
            rows = [vectors, one_fold]
            landmarks = refine(collection.engine, rows, landmarks, one_fold[:count], KMEANS_ROUNDS)
        with single_threaded_blas():
            first = _cholesky(rbf_kernel_with_constant(landmarks, landmarks, gamma), KERNEL_JITTER)
        shared = [landmarks, first, gamma]
        size = max(SUM_BATCH, -(-n // MAX_GRAM_BATCHES))
        gram: Any = None
        right: Any = 0.0
        for packed, tagged in collection.engine.stream(
            normal_equations, [vectors, collection.Y], shared, size=size
        ):
            if gram is None:
                gram = packed.astype(np.float64)
                right = tagged.astype(np.float64)
            else:
                gram += packed
                right += tagged
            del packed
        with single_threaded_blas():
            normal = _unpacked(gram, len(landmarks))
            gram = None
            second = _cholesky(normal, strength)
            del normal
            part = _solve(second, _solve(second, right.astype(np.float32)), trans=1)
            dual = np.ascontiguousarray(_solve(first, part, trans=1))
            directions = np.eye(len(landmarks), dtype=np.float32)
            if len(landmarks) > LEVERAGE_PROJECTIONS:
                drawn = rng.standard_normal((LEVERAGE_PROJECTIONS, len(landmarks))) / np.sqrt(
                    LEVERAGE_PROJECTIONS
                )
                directions = drawn.astype(np.float32)
            # directions @ second^-1 @ first^-1, from the right
            operator = _solve(first, _solve(second, directions.T, trans=1), trans=1).T
        return {"landmarks": landmarks, "dual": dual, "operator": np.ascontiguousarray(operator)}

    cached = collection.stage_cache.arrays("kernel", compute)
    kernel = Kernel(cached["landmarks"], cached["dual"], gamma, strength)
    return LandmarkRidge(kernel, cached["operator"])


def _cholesky(matrix: Array, ridge: float) -> Floats:
    """Return the lower Cholesky factor of a matrix with a constant added to its diagonal.

    float64 is factored in place; the factor is rounded to float32, in the order of LAPACK.
    """
    matrix = matrix.astype(np.float64, copy=False)
    matrix[np.diag_indices_from(matrix)] += ridge
    factor = linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    return np.asfortranarray(factor, np.float32)


def _solve(factor: Floats, right: Array, trans: Literal[0, 1] = 0) -> Floats:
    solution = linalg.solve_triangular(factor, right, lower=True, trans=trans, check_finite=False)
    return np.asarray(solution, np.float32)


def loo_scores(vectors: Floats, y: sparse.csr_array, ridge: LandmarkRidge) -> Floats:
    """Return leave-one-out scores of a batch of training images."""
    K = rbf_kernel_with_constant(vectors, ridge.kernel.landmarks, ridge.kernel.gamma)
    projected = K @ ridge.operator.T
    leverage = np.einsum("ij,ij->i", projected, projected)[:, None]
    predicted = K @ ridge.kernel.dual
    return loo_predictions(predicted, leverage, y.toarray())
