"""Ridge and kernel ridge regression, with predictions for left-out images in closed form.

A prediction that has seen its own answer tells nothing of new images. With H the matrix that turns
targets into predictions, the regression refitted without image i predicts for it
``(p_i - H_ii t_i) / (1 - H_ii)``: no folds, no refits. The constant of a ridge is free of any
penalty: otherwise the mean, which the left-out image took part in, would tell its own answer.
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

Solver = Callable[[float], tuple[Floats, Floats]]  # penalty -> coefficients, left-out predictions
ROOM = 1e-12


class Ridge(NamedTuple):
    """``X @ coef + intercept``."""

    coef: Floats  # m x t
    intercept: Floats  # t
    left_out: Floats  # n x t, for each training image as if it had not been there
    strength: float


def ridge(
    X: Floats,
    T: Floats,
    strengths: npt.ArrayLike,
    quality: Callable[[Floats], float] | None = None,
) -> Ridge:
    """Ridge regression of T on X, its strength the one that predicts left-out images best.

    Parameters
    ----------
    X : array of shape (n, m)
    T : array of shape (n, t)
    strengths : float or sequence of floats
        Penalties, in units of n: the sum of squares of a column of deviation 1.
    quality : callable, optional
        How good predictions for left-out images are; by default less their squared error.

    Returns
    -------
    Ridge
    """
    n, m = X.shape
    center = X.mean(axis=0, dtype=np.float64)
    middle = T.mean(axis=0, dtype=np.float64)
    centred = X - center.astype(X.dtype)
    targets = T - middle.astype(T.dtype)
    solve = _by_images(centred, targets) if n <= m else _by_columns(centred, targets)
    best: Ridge | None = None
    highest = -np.inf
    for strength in np.atleast_1d(np.asarray(strengths, float)):
        coef, left_out = solve(strength * n)
        left_out += middle.astype(np.float32)
        value = quality(left_out) if quality else -float(np.square(left_out - T).sum())
        if best is None or value > highest:
            intercept = (middle - center @ coef).astype(np.float32)
            highest = value
            best = Ridge(coef, intercept, left_out, float(strength))
    if best is None:
        raise ValueError(f"strengths={strengths!r}: give at least one positive number.")
    return best


def _by_columns(X: Floats, T: Floats) -> Solver:
    """Coefficients and left-out predictions for a penalty, of centred data; cost by columns."""
    # Once for all penalties: in the principal axes each only scales.
    values, axes = np.linalg.eigh((X.T @ X).astype(np.float64))
    inner = axes.T @ (X.T @ T)
    squares = X @ axes.astype(np.float32)
    np.square(squares, out=squares)

    def solve(penalty: float) -> tuple[Floats, Floats]:
        share = 1 / (np.maximum(values, 0) + penalty)
        coef = (axes @ (share[:, None] * inner)).astype(np.float32)
        lever = (squares @ share.astype(np.float32))[:, None]
        return coef, without_own(X @ coef, lever + np.float32(1 / len(X)), T)

    return solve


def _by_images(X: Floats, T: Floats) -> Solver:
    """The same at a cost by the number of images, for few images of many columns."""
    wide = X.astype(np.float64)
    gram = wide @ wide.T

    def solve(penalty: float) -> tuple[Floats, Floats]:
        inverse = np.linalg.inv(gram / penalty + np.eye(len(gram)))
        dual = inverse @ T
        room = np.diag(inverse) - 1 / len(gram)  # what the image leaves to the others
        left_out = T - dual / np.maximum(room, ROOM)[:, None]
        return (wide.T @ dual / penalty).astype(np.float32), left_out.astype(np.float32)

    return solve


def without_own(predictions: Floats, lever: Array, T: Floats) -> Floats:
    """Predictions for images as if each had not been there, by its lever ``H_ii``."""
    room = np.maximum(1 - lever, 1e-3)  # an image that the fit passes through says nothing
    return np.asarray((predictions - lever * T) / room, np.float32)


ROWS = 512  # of a kernel matrix in one block
BLOCKS = 4  # of them computed before they are put in their place


class KernelRidge(NamedTuple):
    """``(exp(-gamma ||x - d_l||^2) + 1) @ dual``, summed over the landmarks d_l."""

    dual: Floats  # l x t
    left_out: Floats  # n x t, for each training image as if it had not been there


def kernel_ridge(
    X: Floats,
    T: Floats,
    *,
    gamma: float,
    strength: float,
    chosen: Rows | None = None,
    engine: Engine = SINGLE_THREAD,
) -> KernelRidge:
    """Kernel ridge regression, exact, or over the images that are ``chosen`` as landmarks.

    The first needs n^2 numbers and n^3 operations, the second n l and n l^2.
    """
    if chosen is not None and len(chosen) < len(X):
        return _over_images(X, T, X[chosen], gamma, strength, engine)
    from scipy import linalg

    n = len(X)
    K = np.empty((n, n), np.float32)
    for rows in batch_slices(n, BLOCKS * ROWS):
        # K is symmetric: LAPACK reads one half of it.
        parts = engine.map(rbf_kernel_with_constant, [X[rows]], [X[rows.start :], gamma], size=ROWS)
        for part, found in zip(batch_slices(rows.stop - rows.start, ROWS), parts, strict=True):
            K[rows][part, rows.start :] = found
    K[np.diag_indices(n)] += np.float32(strength)
    with single_threaded_blas():
        # Its transpose is in the order of LAPACK, so that nothing is copied.
        factor = linalg.cholesky(K.T, lower=True, overwrite_a=True, check_finite=False)
        dual = linalg.cho_solve((factor, True), T, check_finite=False)
        inverse, _ = linalg.lapack.strtri(factor, lower=1, overwrite_c=1)
    diagonal = map_rows(engine, _squares, [inverse.T], size=ROWS)
    left_out = np.asarray(T - dual / diagonal[:, None], np.float32)
    return KernelRidge(np.ascontiguousarray(dual), left_out)


@batch_name("Sum squares")
def _squares(rows: Floats) -> Floats:
    """The sum of squares of each row; in one order of memory, whoever brought the rows."""
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
    """The dual coefficients, l x t, of a regression within the span of any landmarks."""
    model = _Landmarks(X, landmarks, gamma, strength, engine)
    with single_threaded_blas():
        return model.dual(model.solve(model.second, model.features @ T))


def _over_images(
    X: Floats, T: Floats, landmarks: Floats, gamma: float, strength: float, engine: Engine
) -> KernelRidge:
    """The same where the landmarks are images and stay, whoever is left out."""
    model = _Landmarks(X, landmarks, gamma, strength, engine)
    with single_threaded_blas():
        rotated = model.solve(model.second, model.features)
        part = rotated @ T
        lever = np.einsum("ij,ij->j", rotated, rotated)[:, None]
        return KernelRidge(model.dual(part), without_own(rotated.T @ part, lever, T))


class _Landmarks:
    """Normal equations within the span of landmarks, penalised by the norm of the exact ones."""

    def __init__(
        self, X: Floats, landmarks: Floats, gamma: float, strength: float, engine: Engine
    ) -> None:
        from scipy import linalg

        K = map_rows(engine, rbf_kernel_with_constant, [X], [landmarks, gamma], size=ROWS)
        inner = rbf_kernel_with_constant(landmarks, landmarks, gamma).astype(np.float64)
        # float32 leaves noise of about this size, which must not make the matrix indefinite
        inner[np.diag_indices_from(inner)] += 1e-4
        with single_threaded_blas():
            # First coordinates in which the norm is the plain one: the rest is an ordinary ridge
            # whose penalty stands well above the noise of float32.
            self.first = linalg.cholesky(inner, lower=True, check_finite=False).astype(np.float32)
            self.features = self.solve(self.first, K.T)  # l x n
            normal = (self.features @ self.features.T).astype(np.float64)
            normal[np.diag_indices_from(normal)] += strength
            self.second = linalg.cholesky(normal, lower=True, check_finite=False).astype(np.float32)

    def solve(self, factor: Floats, right: Array, trans: Literal[0, 1] = 0) -> Floats:
        from scipy import linalg

        found = linalg.solve_triangular(factor, right, lower=True, trans=trans, check_finite=False)
        return np.asarray(found, np.float32)

    def dual(self, part: Floats) -> Floats:
        """Coefficients of the landmarks for coordinates of the second factor, l x t."""
        found = self.solve(self.first, self.solve(self.second, part, trans=1), trans=1)
        return np.ascontiguousarray(found, np.float32)
