"""Linear support vector machines of many tags with the hinge loss, by dual coordinate descent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag import _kernels
from prototag.arrays import Bools, Floats, rowwise_matmul
from prototag.engine import Threads

BATCH_TAGS = 8
EPOCHS = 40
TOLERANCE = 0.1  # width of the projected gradient; margins are one


class Machines(NamedTuple):
    """Solutions of :func:`solve`, one row for each tag."""

    w: Floats  # t x m
    alpha: Floats  # t x n
    violation: Floats  # t


def solve(
    X: Floats,
    present: Bools,
    upper: npt.ArrayLike,
    *,
    margin: npt.ArrayLike = 1.0,
    start: Floats | None = None,
    seed: int = 0,
    epochs: int = EPOCHS,
    tol: float = TOLERANCE,
    n_jobs: int | None = None,
) -> Machines:
    """Minimise for each tag ``1/2 ||w||^2 + sum_i upper_i max(0, margin_i - z_i x_i w)``.

    ``present``, ``upper`` and ``margin`` are n x t, or broadcast to it; ``start`` are dual
    variables of a similar problem, t x n. An intercept is a constant column of X, and is penalised
    like the others.
    """
    rows = [
        np.broadcast_to(np.asarray(array), present.shape).T for array in (present, upper, margin)
    ]
    order = np.random.default_rng(seed).permutation(len(X)).astype(np.int32)
    parts = Threads(n_jobs).map(
        solve_batch,
        [*rows, start],
        [np.asarray(X, np.float32), order, epochs, tol],
        size=BATCH_TAGS,
    )
    return Machines(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def solve_batch(
    present: Bools,
    upper: Any,
    margin: Any,
    start: Floats | None,
    X: Floats,
    order: npt.NDArray[np.int32],
    epochs: int,
    tol: float,
) -> tuple[Floats, Floats, Floats]:
    """Solve the problems of a batch of tags."""
    t, n = present.shape
    bound = np.ascontiguousarray(upper, np.float32)
    alpha = np.zeros((t, n), np.float32) if start is None else np.minimum(start, bound)
    sign = np.where(present, 1, -1).astype(np.float32)
    w = rowwise_matmul(alpha * sign, X)  # its bits do not depend on where arrays lie in memory
    violation = np.empty(t, np.float32)
    _kernels.dual_svm(
        X,
        np.ascontiguousarray(present),
        bound,
        np.ascontiguousarray(margin, np.float32),
        order,
        epochs,
        tol,
        alpha,
        w,
        violation,
    )
    return w, alpha, violation
