"""The kernel regression over landmarks, by sums of its normal equations."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import linalg, sparse

from prototag.arrays import Array, Doubles, Floats
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import batch_slices, single_threaded_blas
from prototag.engine.task_names import batch_name
from prototag.storage.npy_rows import take_rows
from prototag.tagging.loo_ridge import loo_predictions
from prototag.tagging.model import Kernel
from prototag.tagging.out_of_core.features import BLOCK, Many
from prototag.tagging.out_of_core.kmeans import refine

# landmarks
LEAST = 6_000
MOST = 12_000
WORK = 4e12  # products of two landmarks with an image, that are worth their time
ROUNDS = 5  # of k-means, which finds them
TASKS = 32  # blocks of rows, each of which returns a matrix of landmarks x landmarks
INNER = 2048  # rows whose kernel is held at once
DIRECTIONS = 2048  # random ones, in which levers are measured; three percent is exact enough
JITTER = 1e-4  # float32 leaves noise of about this size, which must not make a matrix indefinite


def usual_count(n: int, most: int) -> int:
    """How many landmarks n images are worth: the fewer images, the more can be afforded."""
    return min(n, most, int(np.clip(np.sqrt(WORK / n), LEAST, MOST)))


@batch_name("Sum the kernel's normal equations")
def normal_rows(
    x: Floats, y: sparse.csr_array, landmarks: Floats, first: Floats, gamma: float
) -> tuple[Floats, Floats]:
    """One half of ``F^T F``, packed, and ``F^T T``, with F the kernel in plain coordinates."""
    count = len(landmarks)
    gram = np.zeros((count, count), np.float32, order="F")
    right = np.zeros((count, y.shape[1]), np.float32)
    for part in batch_slices(len(x), INNER):
        K = rbf_kernel_with_constant(x[part], landmarks, gamma)
        features = linalg.solve_triangular(
            first, K.T, lower=True, overwrite_b=True, check_finite=False
        )
        gram = linalg.blas.ssyrk(1.0, features, beta=1.0, c=gram, lower=1, overwrite_c=1)
        right += (y[part].T @ features.T).T
    return _packed(gram), right


def _packed(lower: Floats) -> Floats:
    """The lower half of a matrix in the order of LAPACK, column below column."""
    return np.concatenate([lower[column:, column] for column in range(len(lower))])


def _unpacked(packed: Array, count: int) -> Doubles:
    lower = np.zeros((count, count), order="F")
    start = 0
    for column in range(count):
        stop = start + count - column
        lower[column:, column] = packed[start:stop]
        start = stop
    return lower


class LandmarkRidge(NamedTuple):
    """The regression, and what tells how much each image has said of itself."""

    kernel: Kernel
    operator: Floats  # ||operator @ k||^2 is the lever of an image with kernel k


def learn(many: Many, short: Any, gamma: float, strength: float, count: int) -> LandmarkRidge:
    """Regress the tags on the likeness to means of images, which know nothing of their tags."""
    n, _, _ = many.shape
    rng = np.random.default_rng([many.seed, 2])

    def compute() -> dict[str, Array]:
        landmarks = take_rows(short, np.sort(rng.permutation(n)[:count]))
        if count < n:
            one = np.zeros(n, np.intp)  # all of one fold
            landmarks = refine(many.engine, [short, one], landmarks, one[:count], ROUNDS)
        with single_threaded_blas():
            first = _cholesky(rbf_kernel_with_constant(landmarks, landmarks, gamma), JITTER)
        shared = [landmarks, first, gamma]
        size = max(BLOCK, -(-n // TASKS))
        gram: Any = None
        right: Any = 0.0
        for packed, tagged in many.engine.stream(normal_rows, [short, many.Y], shared, size=size):
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
            if len(landmarks) > DIRECTIONS:
                drawn = rng.standard_normal((DIRECTIONS, len(landmarks))) / np.sqrt(DIRECTIONS)
                directions = drawn.astype(np.float32)
            # directions @ second^-1 @ first^-1, from the right
            operator = _solve(first, _solve(second, directions.T, trans=1), trans=1).T
        return {"landmarks": landmarks, "dual": dual, "operator": np.ascontiguousarray(operator)}

    kept = many.scratch.arrays("kernel", compute)
    found = Kernel(kept["landmarks"], kept["dual"], gamma, strength)
    return LandmarkRidge(found, kept["operator"])


def _cholesky(matrix: Array, ridge: float) -> Floats:
    """Return the lower Cholesky factor of a matrix with a constant added to its diagonal.

    float64 is factored in place; the factor is rounded to float32, in the order of LAPACK.
    """
    matrix = matrix.astype(np.float64, copy=False)
    matrix[np.diag_indices_from(matrix)] += ridge
    factor = linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    return np.asfortranarray(factor, np.float32)


def _solve(factor: Floats, right: Array, trans: Literal[0, 1] = 0) -> Floats:
    found = linalg.solve_triangular(factor, right, lower=True, trans=trans, check_finite=False)
    return np.asarray(found, np.float32)


def left_out(short: Floats, y: sparse.csr_array, ridge: LandmarkRidge) -> Floats:
    """Scores of a block of training images, each as if it had not been there."""
    K = rbf_kernel_with_constant(short, ridge.kernel.landmarks, ridge.kernel.gamma)
    reach = K @ ridge.operator.T
    lever = np.einsum("ij,ij->i", reach, reach)[:, None]
    predicted = K @ ridge.kernel.dual
    return loo_predictions(predicted, lever, y.toarray())
