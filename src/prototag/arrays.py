"""What arrays are called in signatures; rows as users give them, and their lengths."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from prototag import _kernels

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]  # as the kernels take indices
Rows = npt.NDArray[np.intp]  # numbers of rows
Arrays = Mapping[str, Array]  # by name, as a model file keeps them
Exponents = npt.NDArray[np.int32]
UNIT_LENGTH_FACTOR = 4.0  # lengths between 1 / NEAR and NEAR are about one
MAX_SCALE_EXPONENT = 96  # powers of two that float32 codes can bridge


def check_vectors(X: Any, *, name: str = "X") -> npt.NDArray[np.float32]:
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


def check_positive(value: Any, *, name: str) -> None:
    if not isinstance(value, numbers.Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name}={value!r}: expected a positive, finite number.")


def check_count(value: Any, *, name: str) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r}: expected a whole number of at least 1.")


def length_exponents(rows: Floats) -> Exponents | None:
    """The powers of two next to the lengths of the rows; None where all lengths are about one.

    Rows of zeros have 0. Numbers that are not finite are never about one.
    """
    with np.errstate(over="ignore"):
        squared = np.einsum("ij,ij->i", rows, rows)
    if squared.min() >= UNIT_LENGTH_FACTOR**-2 and squared.max() <= UNIT_LENGTH_FACTOR**2:
        return None
    most = np.frexp(max(float(rows.max()), -float(rows.min())))[1]
    # Squares of what is far from 1 leave the range of float32.
    near = np.ldexp(rows.astype(np.float64), -most)
    length = np.sqrt(np.einsum("ij,ij->i", near, near))
    found = np.frexp(length * np.sqrt(2))[1] - 1 + most
    return np.where(length > 0, found, 0).astype(np.int32)


def divide_by_powers(rows: Floats, exponent: int | Exponents) -> Floats:
    """The rows divided by powers of two."""
    by = exponent if isinstance(exponent, int) else exponent[:, None]
    return np.ldexp(rows, np.negative(by)) if np.any(exponent) else rows


def scale_ratios(exponent: Exponents, longest: int) -> Doubles:
    """How long vectors are beside the longest prototype, in powers of two."""
    apart = exponent - longest
    worst = int(apart[np.argmax(np.abs(apart))])
    if abs(worst) >= MAX_SCALE_EXPONENT:
        raise ValueError(
            f"X has vectors about {2.0**worst:.0e} times as long as the longest prototype: float32 "
            "codes cannot bridge that. Scale both, for example to unit length."
        )
    return np.asarray(np.exp2(apart.astype(np.float64)))


def normalize_rows(rows: Array) -> Array:
    """Rows at unit length, in their own precision; zeros where squares are too small to tell."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    if length.all():
        return np.asarray(np.divide(rows, length))
    return np.asarray(np.where(length > 0, np.divide(rows, np.where(length > 0, length, 1)), 0))


def normalize_rows_at_any_scale(rows: Array) -> Floats:
    """Rows at unit length in float32, however long or short they are; a row of zeros stays."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest > 0, largest, 1)  # so that squares neither over- nor underflow
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
    return np.ascontiguousarray(rows / np.where(length > 0, length, 1), dtype=np.float32)


def select_prefix(arrays: Arrays, part: str) -> dict[str, Array]:
    """The arrays of one part, ``part/name``, under the names that the part gave them."""
    start = f"{part}/"
    return {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}


def add_prefix(part: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays of a part under names that tell it from others, ``part/name``."""
    return {f"{part}/{name}": array for name, array in arrays.items()}


def row_squared_norms(rows: Floats) -> Floats:
    """The squared length of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def rowwise_matmul(rows: Floats, matrix: Floats) -> Floats:
    """``rows @ matrix``, with bits that depend on the row alone.

    BLAS multiplies one row, a few and many by different code, whose sums end in different bits: a
    tag at its threshold would be given in one batch and not in another.
    """
    found = np.empty((len(rows), matrix.shape[1]), np.float32)
    _kernels.multiply_rows(np.ascontiguousarray(rows, np.float32), matrix, found)
    return found


class SparseRows(NamedTuple):
    """A matrix by the entries of its rows, without SciPy, which takes long to load."""

    start: npt.NDArray[np.int64]  # rows + 1
    column: Ints
    value: Floats
    width: int  # columns of the matrix

    @classmethod
    def from_matrix(cls, matrix: Any) -> Self:
        """From a sparse matrix, or from one with its zeros."""
        from scipy import sparse

        csr = sparse.csr_array(matrix, dtype=np.float32)
        return cls(
            csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data, csr.shape[1]
        )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.start) - 1, self.width

    def csr(self) -> Any:
        """The same for SciPy."""
        from scipy import sparse

        return sparse.csr_array((self.value, self.column, self.start), shape=self.shape)

    def dense_rows(self, rows: Array) -> Floats:
        """Some rows, with their zeros."""
        found = np.zeros((len(rows), self.width), np.float32)
        for out, row in zip(found, rows, strict=True):
            entries = slice(self.start[row], self.start[row + 1])
            out[self.column[entries]] = self.value[entries]
        return found

    def weighted_row_sums(self, index: Ints, weight: Floats) -> Floats:
        """Sums of rows, weighted: ``sum_j weight[i, j] * matrix[index[i, j]]``."""
        found = np.empty((len(index), self.width), np.float32)
        _kernels.combine_rows(index, weight, self.start, self.column, self.value, found)
        return found
