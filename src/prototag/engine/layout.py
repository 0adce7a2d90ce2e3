"""Memory layout of the arguments and results of batch functions, the same on every engine.

The bits of a product depend on the memory layout. NumPy computes ``a @ b.T`` with SYRK instead of
GEMM if ``a`` and ``b`` share memory, which they do on a thread but not after transfer over a
network. The summation order of strided arrays differs from that of contiguous ones. Some BLAS
kernels peel rows up to an aligned address. This module removes these differences before and after
each call of a batch function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from prototag.arrays import Array

Order = Literal["C", "F"]
ALIGNMENT = 64  # bytes of the widest vector register and of a cache line


def copy_rows(rows: Sequence[Any]) -> list[Any]:
    """Copy the rows of a batch into aligned arrays in C order; keep values that are no arrays."""
    return [aligned_copy(row, "C") if _is_plain(row) else row for row in rows]


def separate_shared(shared: Sequence[Any]) -> list[Any]:
    """Return the shared values with contiguous, aligned arrays that do not overlap in memory.

    Arrays that already are so are not copied; copies keep the order (C or Fortran).
    """
    separated: list[Any] = []
    seen: list[Array] = []
    for value in shared:
        if _is_plain(value):
            if not _is_aligned(value) or any(np.may_share_memory(value, other) for other in seen):
                value = aligned_copy(value, _order(value))
            seen.append(value)
        separated.append(value)
    return separated


def make_contiguous(result: Any) -> Any:
    """Copy strided arrays in the result of a batch, as transfer from another process does.

    Tuples are searched recursively.
    """
    if _is_plain(result):
        return result if _is_contiguous(result) else result.copy("C")
    if isinstance(result, tuple) and not all(map(_needs_no_copy, result)):
        parts = [make_contiguous(part) for part in result]
        return type(result)._make(parts) if hasattr(result, "_make") else type(result)(parts)
    return result


def aligned_copy(array: Array, order: Order) -> Array:
    """Copy an array to an address that is a multiple of ``ALIGNMENT``."""
    memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    copy: Array = np.ndarray(
        array.shape, array.dtype, memory, -_address(memory) % ALIGNMENT, order=order
    )
    copy[...] = array
    return copy


def _is_plain(value: Any) -> bool:
    """Return whether ``value`` is an array of numbers, in memory or in a mapped file."""
    return type(value) in (np.ndarray, np.memmap) and not value.dtype.hasobject


def _is_contiguous(array: Array) -> bool:
    return array.flags.c_contiguous or array.flags.f_contiguous


def _needs_no_copy(part: Any) -> bool:
    if isinstance(part, tuple):
        return all(map(_needs_no_copy, part))
    return not _is_plain(part) or _is_contiguous(part)


def _is_aligned(array: Array) -> bool:
    return _is_contiguous(array) and _address(array) % ALIGNMENT == 0


def _order(array: Array) -> Order:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
