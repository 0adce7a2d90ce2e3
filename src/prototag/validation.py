"""What comes in from users: arrays as the kernels want them, or an error that says what to do."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import numpy.typing as npt


def vectors(X: Any, *, name: str = "X") -> npt.NDArray[np.float32]:
    """``X`` as an n x m float32 array in C order, finite and not empty."""
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"{name} has {array.ndim} dimension(s), expected 2: one row for each vector. "
            "Reshape a single vector with x[None, :]."
        )
    if 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}: at least one row and column are needed.")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {array.dtype}: expected real numbers.")
    with np.errstate(over="ignore"):
        out = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(out).all():
        row = int(np.argmin(np.isfinite(out).all(axis=1)))
        if np.isfinite(array).all():
            raise ValueError(
                f"{name} holds numbers beyond the range of float32 (first in row {row}): "
                "scale the vectors, for example to unit length."
            )
        raise ValueError(
            f"{name} holds NaN or infinity (first in row {row}): remove or repair these rows."
        )
    return out


def positive(value: Any, *, name: str) -> None:
    if not isinstance(value, numbers.Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name}={value!r}: expected a positive, finite number.")


def count(value: Any, *, name: str) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r}: expected a whole number of at least 1.")
