"""The radial basis function (RBF) kernel ``exp(-gamma ||x - d||^2)`` between rows and landmarks."""

from __future__ import annotations

import numpy as np

from prototag import _kernels
from prototag.arrays import Floats, row_squared_norms
from prototag.engine.task_names import batch_name


def rbf_kernel(
    X: Floats, landmarks: Floats, gamma: float, squared_norms: Floats | None = None
) -> Floats:
    """Compute ``exp(-gamma ||x - d||^2)``, n x l.

    ``squared_norms`` are those of the landmarks, if the caller has them.
    """
    half = np.float32(gamma) * (
        row_squared_norms(landmarks) if squared_norms is None else squared_norms
    )
    own = np.float32(gamma) * np.einsum("ij,ij->i", X, X)[:, None]
    values = X @ landmarks.T
    values *= np.float32(2 * gamma)
    values -= half
    values -= own
    return np.asarray(np.exp(values, out=values))


@batch_name("Compare with landmarks")
def rbf_kernel_with_constant(X: Floats, landmarks: Floats, gamma: float) -> Floats:
    """Compute ``exp(-gamma ||x - d||^2) + 1``, n x l.

    The constant 1 is the kernel of an intercept, which a regression so penalizes like all else.
    """
    values = rbf_kernel(X, landmarks, gamma)
    values += 1
    return values


def rbf_kernel_by_row(
    rows: Floats, landmarks: Floats, gamma: float, squared_norms: Floats
) -> Floats:
    """Compute :func:`rbf_kernel` such that the bits of a row do not depend on the other rows."""
    rows = np.ascontiguousarray(rows, np.float32)
    values = np.empty((len(rows), len(landmarks)), np.float32)
    _kernels.rowwise_matmul_transposed(rows, landmarks, values)
    values *= np.float32(2 * gamma)
    values -= np.float32(gamma) * squared_norms
    values -= np.float32(gamma) * row_squared_norms(rows)[:, None]
    return np.asarray(np.exp(values, out=values))
