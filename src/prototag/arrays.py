"""What arrays are called in signatures; rows of unit length, and how alike rows are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]  # as the kernels take indices
Rows = npt.NDArray[np.intp]  # numbers of rows
Arrays = Mapping[str, Array]  # by name, as a model file keeps them


def unit(rows: Array) -> Array:
    """Rows at unit length, in their own precision; a row of zeros stays."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, np.where(length > 0, length, 1)))


def unit_at_any_scale(rows: Array) -> Floats:
    """Rows at unit length in float32, however long or short they are; a row of zeros stays."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest > 0, largest, 1)  # so that squares neither over- nor underflow
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
    return np.ascontiguousarray(rows / np.where(length > 0, length, 1), dtype=np.float32)


def below(arrays: Arrays, part: str) -> dict[str, Array]:
    """The arrays of one part, ``part/name``, under the names that the part gave them."""
    start = f"{part}/"
    return {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}


def prefixed(part: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays of a part under names that tell it from others, ``part/name``."""
    return {f"{part}/{name}": array for name, array in arrays.items()}


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
