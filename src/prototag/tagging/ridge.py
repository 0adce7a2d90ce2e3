"""Ridge regression with leave-one-out predictions in closed form.

A prediction that has seen its own answer tells nothing of new images. With H the matrix that turns
targets into predictions, the regression refitted without image i predicts for it
``(p_i - H_ii t_i) / (1 - H_ii)``: no folds, no refits. The constant is one more feature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.arrays import Array, Floats

Solver = Callable[[Array], tuple[Floats, Floats]]  # penalties -> coefficients, left-out predictions


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


def _by_columns(wide: Floats, T: Floats) -> Solver:
    """Coefficients and left-out predictions for penalties of the columns; cost by their number."""
    gram, inner = (wide.T @ wide).astype(np.float64), wide.T @ T

    def solve(penalty: Array) -> tuple[Floats, Floats]:
        inverse = np.linalg.inv(gram + np.diag(penalty))
        coef = (inverse @ inner).astype(np.float32)
        lever = np.einsum("ij,ij->i", wide @ inverse.astype(np.float32), wide)[:, None]
        return coef, without_own(wide @ coef, lever, T)

    return solve


def _by_images(wide: Floats, T: Floats) -> Solver:
    """The same at a cost by the number of images, for few images of many columns."""

    def solve(penalty: Array) -> tuple[Floats, Floats]:
        scaled = wide.astype(np.float64) / penalty
        inverse = np.linalg.inv(scaled @ wide.T + np.eye(len(wide)))
        dual = inverse @ T
        left_out = T - dual / np.diag(inverse)[:, None]
        return (scaled.T @ dual).astype(np.float32), left_out.astype(np.float32)

    return solve


def without_own(predictions: Floats, lever: Array, T: Floats) -> Floats:
    """Predictions for images as if each had not been there, by its lever ``H_ii``."""
    room = np.maximum(1 - lever, 1e-3)  # an image that the fit passes through says nothing
    return np.asarray((predictions - lever * T) / room, np.float32)
