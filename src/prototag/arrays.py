"""Array types, validation of arrays from users, row norms and sparse rows."""

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
Ints = npt.NDArray[np.int32]  # index type of the kernels
Rows = npt.NDArray[np.intp]  # row indices
Arrays = Mapping[str, Array]  # by name, as in a model file
Exponents = npt.NDArray[np.int32]
UNIT_LENGTH_FACTOR = 4.0  # lengths within this factor of 1 need no scaling
MAX_SCALE_EXPONENT = 96  # of two; largest ratio of lengths that float32 codes represent


def check_vectors(X: Any, *, name: str = "X") -> npt.NDArray[np.float32]:
    """Validate ``X``, and return it as a finite n x m float32 array in C order."""
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
                f"{name} contains numbers beyond the range of float32 (first in row {row}): "
                "scale the vectors, for example to unit length."
            )
        raise ValueError(
            f"{name} contains NaN or infinity (first in row {row}): remove or fix these rows."
        )
    return out


def check_positive(value: Any, *, name: str) -> None:
    if not isinstance(value, numbers.Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name}={value!r}: expected a positive, finite number.")


def check_count(value: Any, *, name: str) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r}: expected a whole number of at least 1.")


def length_exponents(rows: Floats) -> Exponents | None:
    """Return the powers of two nearest to the row lengths; None if no row needs scaling.

    Rows of zeros have exponent 0. Rows with numbers that are not finite always need scaling.
    """
    with np.errstate(over="ignore"):
        squared = np.einsum("ij,ij->i", rows, rows)
    if squared.min() >= UNIT_LENGTH_FACTOR**-2 and squared.max() <= UNIT_LENGTH_FACTOR**2:
        return None
    largest = np.frexp(max(float(rows.max()), -float(rows.min())))[1]
    # Squares of very large or small numbers leave the range of float32.
    scaled = np.ldexp(rows.astype(np.float64), -largest)
    length = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    exponent = np.frexp(length * np.sqrt(2))[1] - 1 + largest
    return np.where(length > 0, exponent, 0).astype(np.int32)


def divide_by_powers(rows: Floats, exponent: int | Exponents) -> Floats:
    """Divide rows by powers of two."""
    exponents = exponent if isinstance(exponent, int) else exponent[:, None]
    return np.ldexp(rows, np.negative(exponents)) if np.any(exponent) else rows


def scale_ratios(exponent: Exponents, longest: int) -> Doubles:
    """Return the ratios of vector lengths to the longest prototype, as powers of two."""
    difference = exponent - longest
    worst = int(difference[np.argmax(np.abs(difference))])
    if abs(worst) >= MAX_SCALE_EXPONENT:
        raise ValueError(
            f"X has vectors about {2.0**worst:.0e} times as long as the longest prototype: float32 "
            "codes cannot represent that. Scale both, for example to unit length."
        )
    return np.asarray(np.exp2(difference.astype(np.float64)))


def normalize_rows(rows: Array) -> Array:
    """Scale rows to unit length in their own precision; rows whose squares underflow become 0."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    if length.all():
        return np.asarray(np.divide(rows, length))
    return np.asarray(np.where(length > 0, np.divide(rows, np.where(length > 0, length, 1)), 0))


def normalize_rows_at_any_scale(rows: Array) -> Floats:
    """Scale rows of any length to unit length in float32; rows of zeros stay."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest > 0, largest, 1)  # so that squares neither over- nor underflow
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
    return np.ascontiguousarray(rows / np.where(length > 0, length, 1), dtype=np.float32)


def select_prefix(arrays: Arrays, part: str) -> dict[str, Array]:
    """Return the arrays named ``part/name``, by ``name``."""
    start = f"{part}/"
    return {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}


def add_prefix(part: str, arrays: Arrays) -> dict[str, Array]:
    """Return the arrays under the names ``part/name``."""
    return {f"{part}/{name}": array for name, array in arrays.items()}


def row_squared_norms(rows: Floats) -> Floats:
    """Compute the squared norm of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def rowwise_matmul(rows: Floats, matrix: Floats) -> Floats:
    """Compute ``rows @ matrix`` such that the bits of a row do not depend on the other rows.

    BLAS uses different code for one, few and many rows, with different rounding: a tag at its
    threshold could be applied in one batch and not in another.
    """
    result = np.empty((len(rows), matrix.shape[1]), np.float32)
    _kernels.rowwise_matmul(np.ascontiguousarray(rows, np.float32), matrix, result)
    return result


class SparseRows(NamedTuple):
    """A CSR matrix without SciPy, which is slow to import."""

    start: npt.NDArray[np.int64]  # rows + 1
    column: Ints
    value: Floats
    width: int  # columns of the matrix

    @classmethod
    def from_matrix(cls, matrix: Any) -> Self:
        """Convert a sparse or dense matrix."""
        from scipy import sparse

        csr = sparse.csr_array(matrix, dtype=np.float32)
        return cls(
            csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data, csr.shape[1]
        )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.start) - 1, self.width

    def csr(self) -> Any:
        """Convert to a SciPy matrix."""
        from scipy import sparse

        return sparse.csr_array((self.value, self.column, self.start), shape=self.shape)

    def dense_rows(self, rows: Array) -> Floats:
        """Return some rows as a dense array."""
        dense = np.zeros((len(rows), self.width), np.float32)
        for out, row in zip(dense, rows, strict=True):
            entries = slice(self.start[row], self.start[row + 1])
            out[self.column[entries]] = self.value[entries]
        return dense

    def weighted_row_sums(self, index: Ints, weight: Floats) -> Floats:
        """Compute ``sum_j weight[i, j] * matrix[index[i, j]]`` for each i."""
        sums = np.empty((len(index), self.width), np.float32)
        _kernels.weighted_row_sums(index, weight, self.start, self.column, self.value, sums)
        return sums
