"""Arguments and results of batch functions, laid out in memory alike by every engine.

The bits of a product depend on more than its numbers. NumPy computes ``a @ b.T`` by another BLAS
routine (SYRK instead of GEMM) where ``a`` and ``b`` are the same memory, which they are on a thread
and no longer are after a network. Sums over strided memory are taken in another order than those
over contiguous memory. Some BLAS kernels peel rows up to an aligned address. Engines therefore
remove these differences here, before a batch function sees an array and after it returns one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from prototag.arrays import Array

Order = Literal["C", "F"]
ALIGNMENT = 64  # bytes; the widest vector of a processor, and a cache line


def copy_rows(rows: Sequence[Any]) -> list[Any]:
    """The rows of a batch as aligned copies in C order; whatever is no plain array stays."""
    return [aligned_copy(row, "C") if _is_plain(row) else row for row in rows]


def separate_shared(shared: Sequence[Any]) -> list[Any]:
    """The shared values, each array contiguous, aligned and in memory that no other array uses.

    Arrays that are so already are not copied, and keep their order (C or Fortran).
    """
    found: list[Any] = []
    seen: list[Array] = []
    for value in shared:
        if _is_plain(value):
            if not _is_aligned(value) or any(np.may_share_memory(value, other) for other in seen):
                value = aligned_copy(value, _order(value))
            seen.append(value)
        found.append(value)
    return found


def make_contiguous(result: Any) -> Any:
    """The result of a batch as it would arrive from another process: strided arrays are copied.

    Looks into tuples, which batch functions return.
    """
    if _is_plain(result):
        return result if _is_contiguous(result) else result.copy("C")
    if isinstance(result, tuple) and not all(map(_needs_no_copy, result)):
        parts = [make_contiguous(part) for part in result]
        return type(result)._make(parts) if hasattr(result, "_make") else type(result)(parts)
    return result


def aligned_copy(array: Array, order: Order) -> Array:
    """A copy whose first item lies at a multiple of ``ALIGNMENT``."""
    memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    copy: Array = np.ndarray(
        array.shape, array.dtype, memory, -_address(memory) % ALIGNMENT, order=order
    )
    copy[...] = array
    return copy


def _is_plain(value: Any) -> bool:
    """Whether ``value`` is an array of numbers, in memory or in a mapped file."""
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
