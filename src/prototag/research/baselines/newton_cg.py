"""Linear classifiers of all tags at once, by Newton's method with conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from prototag.arrays import Array, Bools, Floats
from prototag.engine import Threads, map_rows, single_threaded_blas

TAGS = 64  # solved together: enough columns for products to run at full speed
STEPS = 30  # of Newton's method
PRODUCTS = 20  # conjugate gradients in each step
HALVINGS = 12  # of a step at most


class Loss(NamedTuple):
    """A convex loss of ``margin = z s``, z = 1 where the tag is present and -1 elsewhere."""

    value: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    curvature: Callable[[Floats], Floats]


def _logistic(margin: Floats) -> Floats:
    return np.asarray(np.logaddexp(np.float32(0), -margin))


def _logistic_slope(margin: Floats) -> Floats:
    return np.asarray(-expit(-margin))


def _logistic_curvature(margin: Floats) -> Floats:
    return np.asarray(expit(margin) * expit(-margin))


def _hinge(margin: Floats) -> Floats:
    return np.square(np.maximum(1 - margin, 0))


def _hinge_slope(margin: Floats) -> Floats:
    return -2 * np.maximum(1 - margin, 0)


def _hinge_curvature(margin: Floats) -> Floats:
    return 2.0 * (margin < 1).astype(margin.dtype)


logistic = Loss(_logistic, _logistic_slope, _logistic_curvature)
squared_hinge = Loss(_hinge, _hinge_slope, _hinge_curvature)


class Linear(NamedTuple):
    """``X @ coef + intercept``."""

    coef: Floats  # m x t
    intercept: Floats  # t

    def scores(self, X: Floats) -> Floats:
        # In float64, so that the score of an image does not depend on the images beside it.
        return (X.astype(np.float64) @ self.coef + self.intercept).astype(np.float32)


class Solver:
    """Vectors prepared for many problems: rotated to their principal axes about their mean.

    There the Hessian of any of the losses is nearly diagonal, so that conjugate gradients end soon;
    the penalty does not notice a rotation.
    """

    def __init__(self, X: Array) -> None:
        self.mean = X.mean(axis=0, dtype=np.float64)
        centred = (X - self.mean).astype(X.dtype)
        with single_threaded_blas():
            self.axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))[1].astype(X.dtype)
            rotated = centred @ self.axes
        self.Z = np.hstack([rotated, np.ones((len(X), 1), X.dtype)])  # the constant comes last
        self.squares = np.einsum("ij,ij->j", self.Z, self.Z)

    def minimise(
        self,
        present: Bools,
        loss: Loss,
        strength: float,
        *,
        weight: Floats | None = None,
        start: Array | None = None,
        tol: float = 1e-2,
        n_jobs: int | None = None,
    ) -> Array:
        """``sum_i w_ic loss(z_ic s_ic) + strength / 2 ||b_c||^2``, least for each tag c.

        The constant is not penalised, but for what keeps it finite where a tag has no or all
        images. Ends where a gradient is ``tol`` of its length at zero, times the share of images
        that have the tag (or have not, if these are fewer): at zero nearly all of it is about how
        rare the tag is. Returns rotated coefficients, a ``start`` for similar problems;
        :meth:`linear` turns them back.
        """
        t = present.shape[1]
        B = np.zeros((self.Z.shape[1], t), self.Z.dtype) if start is None else start
        w = np.ones((t, 1), np.float32) if weight is None else weight.T
        rows = [present.T, w, B.T]
        shared = [self, loss, strength, tol]
        return np.ascontiguousarray(
            map_rows(Threads(n_jobs), tags_block, rows, shared, size=TAGS).T
        )

    def linear(self, B: Array) -> Linear:
        coef = self.axes @ B[:-1]
        return Linear(coef, (B[-1] - self.mean @ coef).astype(coef.dtype))

    def newton(
        self, present: Any, loss: Loss, strength: float, w: Any, B: Any, tol: float
    ) -> Array:
        """The same for tags that are solved together, from coefficients B."""
        Z = self.Z
        penalty = np.full((Z.shape[1], 1), strength, Z.dtype)
        penalty[-1] = 1e-5  # as good as none
        sign = np.where(present, 1, -1).astype(Z.dtype)
        flat = Z.T @ (w * sign * loss.slope(np.zeros_like(sign)))
        rarer = np.minimum(present.sum(axis=0), (~present).sum(axis=0))
        goal = tol * np.maximum(rarer, 1) / len(Z) * np.linalg.norm(flat, axis=0)

        def total(margin: Any, B: Any) -> Any:
            data = (w * loss.value(margin)).sum(axis=0, dtype=np.float64)
            return data + 0.5 * (penalty * B * B).sum(axis=0, dtype=np.float64)

        margin = sign * (Z @ B)
        value = total(margin, B)
        for _ in range(STEPS):
            gradient = Z.T @ (w * sign * loss.slope(margin)) + penalty * B
            open_ = np.linalg.norm(gradient, axis=0) > goal
            if not open_.any():
                break
            curvature = w * loss.curvature(margin)
            step = self._direction(gradient * open_, curvature, penalty)
            move = sign * (Z @ step)
            length = np.where(open_, 1.0, 0.0).astype(Z.dtype)
            for _ in range(HALVINGS):
                reached = total(margin + length * move, B + length * step)
                worse = (length > 0) & (reached > value)
                if not worse.any():
                    break
                length[worse] /= 2
            length[reached > value] = 0  # as low as the numbers can tell
            B, margin = B + length * step, margin + length * move
            value = np.minimum(reached, value)
            if not length.any():
                break
        return np.asarray(B)

    def _direction(self, gradient: Any, curvature: Any, penalty: Any) -> Array:
        """Newton's direction to a tenth, by conjugate gradients for each column."""
        Z = self.Z
        scale = self.squares[:, None] * curvature.mean(axis=0) + penalty
        x = np.zeros_like(gradient)
        residual = -gradient
        z = residual / scale
        p = z
        inner = _dots(residual, z)
        enough = 0.01 * inner
        for _ in range(PRODUCTS):
            if not (inner > enough).any():
                break
            product = Z.T @ (curvature * (Z @ p)) + penalty * p
            bend = _dots(p, product)
            alpha = np.where((inner > enough) & (bend > 0), inner / np.where(bend > 0, bend, 1), 0)
            x = x + alpha * p
            residual = residual - alpha * product
            z = residual / scale
            new = _dots(residual, z)
            p = z + np.where(inner > 0, new / np.where(inner > 0, inner, 1), 0) * p
            inner = np.where(alpha > 0, new, 0)
        return np.asarray(x)


def tags_block(
    present: Bools, w: Floats, B: Array, solver: Solver, loss: Loss, strength: float, tol: float
) -> Array:
    """Coefficients of a block of tags, which are rows here and columns for the solver."""
    return solver.newton(present.T, loss, strength, w.T, B.T, tol).T


def _dots(a: Any, b: Any) -> Array:
    return np.asarray(np.einsum("ij,ij->j", a, b))
