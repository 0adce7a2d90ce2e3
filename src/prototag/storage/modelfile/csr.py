"""Sparse matrices as arrays of a model file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prototag.errors import ModelFileError
from prototag.storage.modelfile.layout import Arrays, is_shape

if TYPE_CHECKING:
    from scipy import sparse


def pack_csr(name: str, matrix: Any) -> Arrays:
    """Arrays of a sparse matrix under ``name/data``, ``name/indices`` and ``name/indptr``.

    Rows are sorted and duplicates added up; the indices are int32 where that suffices.
    """
    from scipy import sparse

    csr = sparse.csr_array(matrix, copy=True)
    csr.sum_duplicates()
    wide = max(csr.nnz, *csr.shape) > np.iinfo(np.int32).max
    index = np.int64 if wide else np.int32
    return {
        f"{name}/data": csr.data,
        f"{name}/indices": csr.indices.astype(index, copy=False),
        f"{name}/indptr": csr.indptr.astype(index, copy=False),
    }


def unpack_csr(arrays: Mapping[str, NDArray[Any]], name: str, shape: Any) -> sparse.csr_array:
    """The sparse matrix stored under ``name``; refuses as :func:`unpack_rows` does."""
    from scipy import sparse

    return sparse.csr_array(unpack_rows(arrays, name, shape), shape=tuple(shape))


def unpack_dense(arrays: Mapping[str, NDArray[Any]], name: str, shape: Any) -> NDArray[Any]:
    """The same with its zeros."""
    data, indices, indptr = unpack_rows(arrays, name, shape)
    dense = np.zeros(shape, data.dtype)
    dense[np.repeat(np.arange(shape[0]), np.diff(indptr)), indices] = data
    return dense


def unpack_rows(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Its data, indices and indptr, with every index checked: kernels trust them.

    Raises
    ------
    ModelFileError
        A part is missing, or the indices are no CSR matrix of this shape with sorted rows.
    """

    def refuse(what: str) -> ModelFileError:
        return ModelFileError(
            f"The sparse matrix {name!r} {what}: the file was not written by prototag. "
            "Use an intact copy, or learn the model again."
        )

    parts = [arrays.get(f"{name}/{part}") for part in ("data", "indices", "indptr")]
    data, indices, indptr = parts
    if data is None or indices is None or indptr is None:
        raise refuse("lacks its data, indices or indptr")
    if not is_shape(shape) or len(shape) != 2:
        raise refuse(f"has the shape {shape!r} instead of two numbers of rows and columns")
    n_rows, n_columns = shape
    if not data.ndim == indices.ndim == indptr.ndim == 1:
        raise refuse("has parts that are not one-dimensional")
    if indices.dtype != indptr.dtype or indices.dtype not in (np.int32, np.int64):
        raise refuse(f"has indices of dtype {indices.dtype} and {indptr.dtype}")
    if len(indptr) != n_rows + 1 or len(indices) != len(data):
        raise refuse(f"has parts whose lengths do not fit {n_rows} rows")
    if indptr[0] != 0 or indptr[-1] != len(data) or (indptr[1:] < indptr[:-1]).any():
        raise refuse("has row limits that do not rise from 0 to its number of entries")
    if len(indices) and not 0 <= indices.min() <= indices.max() < n_columns:
        raise refuse(f"has columns outside 0..{n_columns - 1}")
    rising = indices[1:] > indices[:-1]
    rising[indptr[(indptr > 0) & (indptr < len(indices))] - 1] = (
        True  # a new row may start anywhere
    )
    if not rising.all():
        raise refuse("has rows whose columns do not rise")
    return data, indices, indptr
