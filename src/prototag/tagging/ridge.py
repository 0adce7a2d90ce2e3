"""Ridge and kernel ridge regression with leave-one-out predictions in closed form.

A prediction that has seen its own answer tells nothing of new images. With H the matrix that turns
targets into predictions, the regression refitted without image i predicts for it
``(p_i - H_ii t_i) / (1 - H_ii)``: no folds, no refits. The constant is one more feature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.engine import threads

Floats = npt.NDArray[np.float32]
ROWS = 1024  # of a kernel matrix in one block


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
    wide = np.hstack([X, np.ones((n, 1), X.dtype)])
    solve = _by_images(wide, T) if n <= m else _by_columns(wide, T)
    best: Ridge | None = None
    highest = -np.inf
    for strength in np.atleast_1d(np.asarray(strengths, float)):
        # The constant is hardly penalised: as if one image more had said 0.
        coef, left_out = solve(np.append(np.full(m, strength * n), 1.0))
        value = quality(left_out) if quality else -float(np.square(left_out - T).sum())
        if best is None or value > highest:
            highest, best = value, Ridge(coef[:-1], coef[-1], left_out, float(strength))
    if best is None:
        raise ValueError(f"strengths={strengths!r}: give at least one positive number.")
    return best


def _by_columns(wide: Floats, T: Floats) -> Callable[[npt.NDArray[Any]], tuple[Floats, Floats]]:
    """Coefficients and left-out predictions for penalties of the columns; cost by their number."""
    gram, inner = (wide.T @ wide).astype(np.float64), wide.T @ T

    def solve(penalty: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        inverse = np.linalg.inv(gram + np.diag(penalty))
        coef = (inverse @ inner).astype(np.float32)
        lever = np.einsum("ij,ij->i", wide @ inverse.astype(np.float32), wide)[:, None]
        return coef, _without_own(wide @ coef, lever, T)

    return solve


def _by_images(wide: Floats, T: Floats) -> Callable[[npt.NDArray[Any]], tuple[Floats, Floats]]:
    """The same at a cost by the number of images, for few images of many columns."""

    def solve(penalty: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        scaled = wide.astype(np.float64) / penalty
        inverse = np.linalg.inv(scaled @ wide.T + np.eye(len(wide)))
        dual = inverse @ T
        left_out = T - dual / np.diag(inverse)[:, None]
        return (scaled.T @ dual).astype(np.float32), left_out.astype(np.float32)

    return solve


class KernelRidge(NamedTuple):
    """``(exp(-gamma ||x - d_l||^2) + 1) @ dual``, summed over the landmarks d_l."""

    dual: Floats  # l x t
    left_out: Floats  # n x t


def likeness(X: Floats, landmarks: Floats, gamma: float) -> Floats:
    """``exp(-gamma ||x - d||^2)``, n x l."""
    half = np.float32(gamma) * np.einsum("ij,ij->i", landmarks, landmarks)
    own = np.float32(gamma) * np.einsum("ij,ij->i", X, X)[:, None]
    values = X @ landmarks.T
    values *= np.float32(2 * gamma)
    values -= half
    values -= own
    return np.exp(values, out=values)


def kernel(X: Floats, landmarks: Floats, gamma: float) -> Floats:
    """``exp(-gamma ||x - d||^2) + 1``, n x l: likeness, and the constant."""
    values = likeness(X, landmarks, gamma)
    values += 1
    return values


def kernel_ridge(
    X: Floats,
    T: Floats,
    *,
    gamma: float,
    strength: float,
    chosen: npt.NDArray[np.intp] | None = None,
    n_jobs: int | None = None,
) -> KernelRidge:
    """Kernel ridge regression, exact, or over the images that are ``chosen`` as landmarks.

    The first needs n^2 numbers and n^3 operations, the second n l and n l^2.
    """
    if chosen is not None and len(chosen) < len(X):
        return _landmark_ridge(X, T, X[chosen], gamma, strength, n_jobs)
    from scipy import linalg

    n = len(X)
    K = np.empty((n, n), np.float32)

    def fill(part: slice) -> None:
        K[part] = kernel(X[part], X, gamma)

    threads.map_blocks(fill, n, size=ROWS, n_jobs=n_jobs)
    K[np.diag_indices(n)] += np.float32(strength)
    with threads.one_thread():
        # K is symmetric: its transpose is in the order of LAPACK, so that nothing is copied.
        factor = linalg.cholesky(K.T, lower=True, overwrite_a=True, check_finite=False)
        dual = linalg.cho_solve((factor, True), T, check_finite=False)
        inverse, _ = linalg.lapack.strtri(factor, lower=1, overwrite_c=1)
    diagonal = np.concatenate(
        threads.map_blocks(
            lambda part: np.einsum("ij,ij->j", inverse[:, part], inverse[:, part]),
            n,
            size=ROWS,
            n_jobs=n_jobs,
        )
    )
    return KernelRidge(np.ascontiguousarray(dual), T - dual / diagonal[:, None])


def landmark_ridge(
    X: Floats,
    T: Floats,
    landmarks: Floats,
    *,
    gamma: float,
    strength: float,
    n_jobs: int | None = None,
) -> Floats:
    """The dual coefficients, l x t, of a regression within the span of any landmarks."""
    model = _Landmarks(X, landmarks, gamma, strength, n_jobs)
    with threads.one_thread():
        return model.dual(model.solve(model.second, model.features @ T))


def _landmark_ridge(
    X: Floats, T: Floats, landmarks: Floats, gamma: float, strength: float, n_jobs: int | None
) -> KernelRidge:
    """The same where the landmarks are images and stay, whoever is left out."""
    model = _Landmarks(X, landmarks, gamma, strength, n_jobs)
    with threads.one_thread():
        rotated = model.solve(model.second, model.features)
        part = rotated @ T
        lever = np.einsum("ij,ij->j", rotated, rotated)[:, None]
        return KernelRidge(model.dual(part), _without_own(rotated.T @ part, lever, T))


class _Landmarks:
    """Normal equations within the span of landmarks, penalised by the norm of the exact ones."""

    def __init__(
        self,
        X: Floats,
        landmarks: Floats,
        gamma: float,
        strength: float,
        n_jobs: int | None,
    ) -> None:
        from scipy import linalg

        K = np.concatenate(
            threads.map_blocks(
                lambda part: kernel(X[part], landmarks, gamma), len(X), size=ROWS, n_jobs=n_jobs
            )
        )
        inner = kernel(landmarks, landmarks, gamma).astype(np.float64)
        # float32 leaves noise of about this size, which must not make the matrix indefinite
        inner[np.diag_indices_from(inner)] += 1e-4
        with threads.one_thread():
            # First coordinates in which the norm is the plain one: the rest is an ordinary ridge
            # whose penalty stands well above the noise of float32.
            self.first = linalg.cholesky(inner, lower=True, check_finite=False).astype(np.float32)
            self.features = self.solve(self.first, K.T)  # l x n
            normal = (self.features @ self.features.T).astype(np.float64)
            normal[np.diag_indices_from(normal)] += strength
            self.second = linalg.cholesky(normal, lower=True, check_finite=False).astype(np.float32)

    def solve(self, factor: Floats, right: Floats, trans: Literal[0, 1] = 0) -> Any:
        from scipy import linalg

        return linalg.solve_triangular(factor, right, lower=True, trans=trans, check_finite=False)

    def dual(self, part: Floats) -> Floats:
        """Coefficients of the landmarks for coordinates of the second factor, l x t."""
        found = self.solve(self.first, self.solve(self.second, part, trans=1), trans=1)
        return np.ascontiguousarray(found, np.float32)


def _without_own(predictions: Floats, lever: Any, T: Floats) -> Floats:
    room = np.maximum(1 - lever, 1e-3)  # an image that the fit passes through says nothing
    return ((predictions - lever * T) / room).astype(np.float32)
