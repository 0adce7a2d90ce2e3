"""Ridge and kernel ridge regression with leave-one-out predictions in closed form.

Predictions of the training set are optimistically biased, so both return leave-one-out predictions
(as scikit-learn's RidgeCV). With the hat matrix H, which turns targets into predictions, the model
without image i predicts ``(p_i - H_ii t_i) / (1 - H_ii)`` for it: neither folds nor refits are
needed. The intercept of a ridge is not penalized: otherwise the mean, which includes the held-out
image, would reveal its target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.arrays import Array, Floats, Rows
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import SINGLE_THREAD, Engine, batch_slices, map_rows, single_threaded_blas
from prototag.engine.task_names import batch_name

Solver = Callable[[float], tuple[Floats, Floats]]  # penalty -> coefficients, LOO predictions
MIN_DUAL_DENOMINATOR = 1e-12  # lower bound of 1 - H_ii in float64
MIN_DENOMINATOR = 1e-3  # the same in float32: an image that the fit interpolates has no evidence
KERNEL_BATCH = 512  # rows of a kernel matrix in one batch
BATCHES_IN_FLIGHT = 4  # batches that are computed before they are copied into the matrix
KERNEL_JITTER = 1e-4  # added to diagonals: the noise of float32, which must not make K indefinite


class Ridge(NamedTuple):
    """``X @ coef + intercept``."""

    coef: Floats  # m x t
    intercept: Floats  # t
    loo_predictions: Floats  # n x t
    strength: float


def ridge(
    X: Floats,
    T: Floats,
    strengths: npt.ArrayLike,
    quality: Callable[[Floats], float] | None = None,
) -> Ridge:
    """Fit a ridge regression of T on X; select its strength on leave-one-out predictions.

    Parameters
    ----------
    X : array of shape (n, m)
    T : array of shape (n, t)
    strengths : float or sequence of floats
        Penalties, in units of n: the sum of squares of a column of deviation 1.
    quality : callable, optional
        Quality of leave-one-out predictions; by default their negative squared error.

    Returns
    -------
    Ridge
    """
    n, m = X.shape
    center = X.mean(axis=0, dtype=np.float64)
    target_mean = T.mean(axis=0, dtype=np.float64)
    centered = X - center.astype(X.dtype)
    targets = T - target_mean.astype(T.dtype)
    solve = _dual_solver(centered, targets) if n <= m else _primal_solver(centered, targets)
    best: Ridge | None = None
    highest = -np.inf
    for strength in np.atleast_1d(np.asarray(strengths, float)):
        coef, predictions = solve(strength * n)
        predictions += target_mean.astype(np.float32)
        value = quality(predictions) if quality else -float(np.square(predictions - T).sum())
        if best is None or value > highest:
            intercept = (target_mean - center @ coef).astype(np.float32)
            highest = value
            best = Ridge(coef, intercept, predictions, float(strength))
    if best is None:
        raise ValueError(f"strengths={strengths!r}: give at least one positive number.")
    return best


def _primal_solver(X: Floats, T: Floats) -> Solver:
    """Return a solver for centered data whose cost depends on the number of columns."""
    # One eigendecomposition serves all penalties: each only scales the principal axes.
    values, axes = np.linalg.eigh((X.T @ X).astype(np.float64))
    inner = axes.T @ (X.T @ T)
    squares = X @ axes.astype(np.float32)
    np.square(squares, out=squares)

    def solve(penalty: float) -> tuple[Floats, Floats]:
        shrinkage = 1 / (np.maximum(values, 0) + penalty)
        coef = (axes @ (shrinkage[:, None] * inner)).astype(np.float32)
        leverage = (squares @ shrinkage.astype(np.float32))[:, None]
        return coef, loo_predictions(X @ coef, leverage + np.float32(1 / len(X)), T)

    return solve


def _dual_solver(X: Floats, T: Floats) -> Solver:
    """Return a solver for centered data whose cost depends on the number of images."""
    X64 = X.astype(np.float64)
    gram = X64 @ X64.T

    def solve(penalty: float) -> tuple[Floats, Floats]:
        inverse = np.linalg.inv(gram / penalty + np.eye(len(gram)))
        dual = inverse @ T
        denominator = np.diag(inverse) - 1 / len(gram)  # 1 - H_ii
        predictions = T - dual / np.maximum(denominator, MIN_DUAL_DENOMINATOR)[:, None]
        return (X64.T @ dual / penalty).astype(np.float32), predictions.astype(np.float32)

    return solve


def loo_predictions(predictions: Floats, leverage: Array, T: Floats) -> Floats:
    """Return leave-one-out predictions from those of the full fit and the leverages ``H_ii``."""
    denominator = np.maximum(1 - leverage, MIN_DENOMINATOR)
    return np.asarray((predictions - leverage * T) / denominator, np.float32)


class KernelRidge(NamedTuple):
    """``(exp(-gamma ||x - d_l||^2) + 1) @ dual``, summed over the landmarks d_l."""

    dual: Floats  # l x t
    loo_predictions: Floats  # n x t


def kernel_ridge(
    X: Floats,
    T: Floats,
    *,
    gamma: float,
    strength: float,
    landmark_rows: Rows | None = None,
    engine: Engine = SINGLE_THREAD,
) -> KernelRidge:
    """Fit an exact kernel ridge regression, or one over ``landmark_rows`` of X (Nystroem).

    The exact one needs n^2 numbers and n^3 operations, the other n l numbers and n l^2 operations.
    """
    if landmark_rows is not None and len(landmark_rows) < len(X):
        return _nystroem_ridge(X, T, X[landmark_rows], gamma, strength, engine)
    from scipy import linalg

    n = len(X)
    K = np.empty((n, n), np.float32)
    for rows in batch_slices(n, BATCHES_IN_FLIGHT * KERNEL_BATCH):
        # K is symmetric: LAPACK reads one half of it.
        parts = engine.map(
            rbf_kernel_with_constant, [X[rows]], [X[rows.start :], gamma], size=KERNEL_BATCH
        )
        for part, kernel in zip(
            batch_slices(rows.stop - rows.start, KERNEL_BATCH), parts, strict=True
        ):
            K[rows][part, rows.start :] = kernel
    K[np.diag_indices(n)] += np.float32(strength)
    with single_threaded_blas():
        # Its transpose is in the order of LAPACK, so that nothing is copied.
        factor = linalg.cholesky(K.T, lower=True, overwrite_a=True, check_finite=False)
        dual = linalg.cho_solve((factor, True), T, check_finite=False)
        inverse, _ = linalg.lapack.strtri(factor, lower=1, overwrite_c=1)
    diagonal = map_rows(engine, _row_squares, [inverse.T], size=KERNEL_BATCH)
    predictions = np.asarray(T - dual / diagonal[:, None], np.float32)
    return KernelRidge(np.ascontiguousarray(dual), predictions)


@batch_name("Sum squares")
def _row_squares(rows: Floats) -> Floats:
    """Return the sum of squares of each row, for one memory order on every engine."""
    rows = np.ascontiguousarray(rows)
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def landmark_ridge(
    X: Floats,
    T: Floats,
    landmarks: Floats,
    *,
    gamma: float,
    strength: float,
    engine: Engine = SINGLE_THREAD,
) -> Floats:
    """Return the dual coefficients (l x t) of a regression in the span of any landmarks."""
    system = _NystroemSystem(X, landmarks, gamma, strength, engine)
    with single_threaded_blas():
        return system.dual(system.solve(system.normal_factor, system.features @ T))


def _nystroem_ridge(
    X: Floats, T: Floats, landmarks: Floats, gamma: float, strength: float, engine: Engine
) -> KernelRidge:
    """Fit over landmarks that are images; leaving an image out does not remove its landmark."""
    system = _NystroemSystem(X, landmarks, gamma, strength, engine)
    with single_threaded_blas():
        rotated = system.solve(system.normal_factor, system.features)
        part = rotated @ T
        leverage = np.einsum("ij,ij->j", rotated, rotated)[:, None]
        return KernelRidge(system.dual(part), loo_predictions(rotated.T @ part, leverage, T))


class _NystroemSystem:
    """Normal equations in the span of landmarks, with the penalty of the exact kernel ridge.

    Attributes
    ----------
    kernel_factor : array of shape (l, l)
        Cholesky factor of the kernel of the landmarks.
    features : array of shape (l, n)
        Whitened features: coordinates in which the norm of the kernel is the Euclidean one, so
        that the penalty stands well above the noise of float32.
    normal_factor : array of shape (l, l)
        Cholesky factor of the penalized Gram matrix of the features.
    """

    def __init__(
        self, X: Floats, landmarks: Floats, gamma: float, strength: float, engine: Engine
    ) -> None:
        from scipy import linalg

        K = map_rows(engine, rbf_kernel_with_constant, [X], [landmarks, gamma], size=KERNEL_BATCH)
        inner = rbf_kernel_with_constant(landmarks, landmarks, gamma).astype(np.float64)
        inner[np.diag_indices_from(inner)] += KERNEL_JITTER
        with single_threaded_blas():
            factor = linalg.cholesky(inner, lower=True, check_finite=False)
            self.kernel_factor = factor.astype(np.float32)
            self.features = self.solve(self.kernel_factor, K.T)
            normal = (self.features @ self.features.T).astype(np.float64)
            normal[np.diag_indices_from(normal)] += strength
            factor = linalg.cholesky(normal, lower=True, check_finite=False)
            self.normal_factor = factor.astype(np.float32)

    def solve(self, factor: Floats, right: Array, trans: Literal[0, 1] = 0) -> Floats:
        """Solve a triangular system; ``trans=1`` transposes the factor."""
        from scipy import linalg

        solution = linalg.solve_triangular(
            factor, right, lower=True, trans=trans, check_finite=False
        )
        return np.asarray(solution, np.float32)

    def dual(self, part: Floats) -> Floats:
        """Return dual coefficients (l x t) from coordinates of the normal equations."""
        weights = self.solve(self.normal_factor, part, trans=1)
        return np.ascontiguousarray(self.solve(self.kernel_factor, weights, trans=1), np.float32)
