"""Ridge regression with leave-one-out predictions in closed form.

A prediction that has seen its own answer tells nothing of new images. With H the matrix that turns
targets into predictions, the regression refitted without image i predicts for it
``(p_i - H_ii t_i) / (1 - H_ii)``: no folds, no refits. The constant is free of any penalty:
otherwise the mean, which the left-out image took part in, would tell its own answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.arrays import Array, Floats

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
    center, middle = X.mean(axis=0, dtype=np.float64), T.mean(axis=0, dtype=np.float64)
    centred, targets = X - center.astype(X.dtype), T - middle.astype(T.dtype)
    solve = _by_images(centred, targets) if n <= m else _by_columns(centred, targets)
    best: Ridge | None = None
    highest = -np.inf
    for strength in np.atleast_1d(np.asarray(strengths, float)):
        coef, left_out = solve(strength * n)
        left_out += middle.astype(np.float32)
        value = quality(left_out) if quality else -float(np.square(left_out - T).sum())
        if best is None or value > highest:
            intercept = (middle - center @ coef).astype(np.float32)
            highest, best = value, Ridge(coef, intercept, left_out, float(strength))
    if best is None:
        raise ValueError(f"strengths={strengths!r}: give at least one positive number.")
    return best


def _by_columns(X: Floats, T: Floats) -> Solver:
    """Coefficients and left-out predictions for a penalty, of centred data; cost by columns."""
    gram, inner = (X.T @ X).astype(np.float64), X.T @ T

    def solve(penalty: float) -> tuple[Floats, Floats]:
        inverse = np.linalg.inv(gram + penalty * np.eye(len(gram)))
        coef = (inverse @ inner).astype(np.float32)
        lever = np.einsum("ij,ij->i", X @ inverse.astype(np.float32), X)[:, None]
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
