"""Linear classifiers of many tags by Newton's method with conjugate gradients (Newton-CG)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from prototag.arrays import Array, Bools, Floats
from prototag.engine import Threads, map_rows, single_threaded_blas

BATCH_TAGS = 64  # solved together: enough columns for fast matrix products
NEWTON_STEPS = 30
CG_ITERATIONS = 20  # conjugate gradients in each Newton step
MAX_HALVINGS = 12  # of the step length


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
    """The linear model ``X @ coef + intercept``."""

    coef: Floats  # m x t
    intercept: Floats  # t

    def scores(self, X: Floats) -> Floats:
        # float64, so that the score of an image does not depend on the other rows of a product.
        return (X.astype(np.float64) @ self.coef + self.intercept).astype(np.float32)


class Solver:
    """A solver for many problems on the same vectors, which are rotated to their principal axes.

    There the Hessian of each loss is nearly diagonal, so that few conjugate gradients suffice; the
    penalty is invariant to rotation.
    """

    def __init__(self, X: Array) -> None:
        self.mean = X.mean(axis=0, dtype=np.float64)
        centred = (X - self.mean).astype(X.dtype)
        with single_threaded_blas():
            self.axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))[1].astype(X.dtype)
            rotated = centred @ self.axes
        self.Z = np.hstack([rotated, np.ones((len(X), 1), X.dtype)])  # intercept last
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
        """Minimise ``sum_i w_ic loss(z_ic s_ic) + strength / 2 ||b_c||^2`` for each tag c.

        The intercept has only the penalty that keeps it finite if no or all images have a tag.
        Iteration stops when the norm of the gradient is below ``tol`` times its norm at zero, times
        the share of images with the tag (or without, if these are fewer), because the gradient at
        zero mostly reflects the frequency of the tag. Returns rotated coefficients, which are a
        ``start`` for similar problems; :meth:`linear` rotates them back.
        """
        t = present.shape[1]
        B = np.zeros((self.Z.shape[1], t), self.Z.dtype) if start is None else start
        w = np.ones((t, 1), np.float32) if weight is None else weight.T
        rows = [present.T, w, B.T]
        shared = [self, loss, strength, tol]
        return np.ascontiguousarray(
            map_rows(Threads(n_jobs), solve_batch, rows, shared, size=BATCH_TAGS).T
        )

    def linear(self, B: Array) -> Linear:
        """Return the linear model of rotated coefficients B."""
        coef = self.axes @ B[:-1]
        return Linear(coef, (B[-1] - self.mean @ coef).astype(coef.dtype))

    def newton(
        self, present: Any, loss: Loss, strength: float, w: Any, B: Any, tol: float
    ) -> Array:
        """Solve :meth:`minimise` for a batch of tags, from coefficients B."""
        Z = self.Z
        penalty = np.full((Z.shape[1], 1), strength, Z.dtype)
        penalty[-1] = 1e-5  # keeps the intercept finite
        sign = np.where(present, 1, -1).astype(Z.dtype)
        gradient_at_zero = Z.T @ (w * sign * loss.slope(np.zeros_like(sign)))
        rarer = np.minimum(present.sum(axis=0), (~present).sum(axis=0))
        tolerance = tol * np.maximum(rarer, 1) / len(Z) * np.linalg.norm(gradient_at_zero, axis=0)

        def objective(margin: Any, B: Any) -> Any:
            data = (w * loss.value(margin)).sum(axis=0, dtype=np.float64)
            return data + 0.5 * (penalty * B * B).sum(axis=0, dtype=np.float64)

        margin = sign * (Z @ B)
        value = objective(margin, B)
        for _ in range(NEWTON_STEPS):
            gradient = Z.T @ (w * sign * loss.slope(margin)) + penalty * B
            active = np.linalg.norm(gradient, axis=0) > tolerance
            if not active.any():
                break
            curvature = w * loss.curvature(margin)
            step = self._direction(gradient * active, curvature, penalty)
            move = sign * (Z @ step)
            length = np.where(active, 1.0, 0.0).astype(Z.dtype)
            for _ in range(MAX_HALVINGS):
                new_value = objective(margin + length * move, B + length * step)
                worse = (length > 0) & (new_value > value)
                if not worse.any():
                    break
                length[worse] /= 2
            length[new_value > value] = 0  # converged within rounding
            B = B + length * step
            margin = margin + length * move
            value = np.minimum(new_value, value)
            if not length.any():
                break
        return np.asarray(B)

    def _direction(self, gradient: Any, curvature: Any, penalty: Any) -> Array:
        """Compute Newton's direction to a relative residual of 0.1, for each column."""
        Z = self.Z
        scale = self.squares[:, None] * curvature.mean(axis=0) + penalty
        x = np.zeros_like(gradient)
        residual = -gradient
        z = residual / scale
        p = z
        inner = _dots(residual, z)
        target = 0.01 * inner
        for _ in range(CG_ITERATIONS):
            if not (inner > target).any():
                break
            product = Z.T @ (curvature * (Z @ p)) + penalty * p
            along = _dots(p, product)
            alpha = np.where(
                (inner > target) & (along > 0),
                inner / np.where(along > 0, along, 1),
                0,
            )
            x = x + alpha * p
            residual = residual - alpha * product
            z = residual / scale
            new = _dots(residual, z)
            p = z + np.where(inner > 0, new / np.where(inner > 0, inner, 1), 0) * p
            inner = np.where(alpha > 0, new, 0)
        return np.asarray(x)


def solve_batch(
    present: Bools, w: Floats, B: Array, solver: Solver, loss: Loss, strength: float, tol: float
) -> Array:
    """Solve a batch of tags, which are rows here and columns for the solver."""
    return solver.newton(present.T, loss, strength, w.T, B.T, tol).T


def _dots(a: Any, b: Any) -> Array:
    return np.asarray(np.einsum("ij,ij->j", a, b))
