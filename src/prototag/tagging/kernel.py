"""Kernel ridge regression: exact over all images, or within the span of landmarks."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from prototag.arrays import Array, Floats, Rows
from prototag.engine import ONE, Engine, blocks, one_thread, run

ROWS = 512  # of a kernel matrix in one block
BLOCKS = 4  # of them computed before they are put in their place


def likeness(X: Floats, landmarks: Floats, gamma: float) -> Floats:
    """``exp(-gamma ||x - d||^2)``, n x l."""
    half = np.float32(gamma) * np.einsum("ij,ij->i", landmarks, landmarks)
    own = np.float32(gamma) * np.einsum("ij,ij->i", X, X)[:, None]
    values = X @ landmarks.T
    values *= np.float32(2 * gamma)
    values -= half
    values -= own
    return np.asarray(np.exp(values, out=values))


def kernel(X: Floats, landmarks: Floats, gamma: float) -> Floats:
    """``exp(-gamma ||x - d||^2) + 1``, n x l: likeness, and the constant."""
    values = likeness(X, landmarks, gamma)
    values += 1
    return values


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
    engine: Engine = ONE,
) -> KernelRidge:
    """Kernel ridge regression, exact, or over the images that are ``chosen`` as landmarks.

    The first needs n^2 numbers and n^3 operations, the second n l and n l^2.
    """
    if chosen is not None and len(chosen) < len(X):
        return _over_images(X, T, X[chosen], gamma, strength, engine)
    from scipy import linalg

    n = len(X)
    K = np.empty((n, n), np.float32)
    for rows in blocks(n, BLOCKS * ROWS):
        K[rows] = run(engine, kernel, [X[rows]], [X, gamma], size=ROWS)
    K[np.diag_indices(n)] += np.float32(strength)
    with one_thread():
        # K is symmetric: its transpose is in the order of LAPACK, so that nothing is copied.
        factor = linalg.cholesky(K.T, lower=True, overwrite_a=True, check_finite=False)
        dual = linalg.cho_solve((factor, True), T, check_finite=False)
        inverse, _ = linalg.lapack.strtri(factor, lower=1, overwrite_c=1)
    diagonal = run(engine, _squares, [inverse.T], size=ROWS)
    left_out = np.asarray(T - dual / diagonal[:, None], np.float32)
    return KernelRidge(np.ascontiguousarray(dual), left_out)


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
    engine: Engine = ONE,
) -> Floats:
    """The dual coefficients, l x t, of a regression within the span of any landmarks."""
    model = _Landmarks(X, landmarks, gamma, strength, engine)
    with one_thread():
        return model.dual(model.solve(model.second, model.features @ T))


def _over_images(
    X: Floats, T: Floats, landmarks: Floats, gamma: float, strength: float, engine: Engine
) -> KernelRidge:
    """The same where the landmarks are images and stay, whoever is left out."""
    from prototag.tagging.ridge import without_own

    model = _Landmarks(X, landmarks, gamma, strength, engine)
    with one_thread():
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

        K = run(engine, kernel, [X], [landmarks, gamma], size=ROWS)
        inner = kernel(landmarks, landmarks, gamma).astype(np.float64)
        # float32 leaves noise of about this size, which must not make the matrix indefinite
        inner[np.diag_indices_from(inner)] += 1e-4
        with one_thread():
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
