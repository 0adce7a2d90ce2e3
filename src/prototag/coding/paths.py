"""What the kernels read and write for a block of images: candidates, selections, ends of paths."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.arrays import Bools, Floats, Ints, Rows

if TYPE_CHECKING:
    from scipy import sparse

Chosen = Rows | Bools  # rows, by number or by mark
CORE, WIDTH = 48, 192  # candidates: followed at once, at hand
CAP, STALLED = 2, 3  # endings of a path (kernels/coding/lars.hpp)


class Paths(NamedTuple):
    """Where the paths of one block of images ended, as the kernel writes it."""

    index: Ints  # type: ignore[assignment]  # n x max_nonzeros, sorted; ``count`` of them in use
    value: Floats
    count: Ints  # type: ignore[assignment]
    lam: Floats  # correlation that the active prototypes share
    ending: npt.NDArray[np.int8]
    residual: Floats  # n x (m + t): [x - a D | w (target - a S)]
    fit: npt.NDArray[np.float64]  # a . correlation
    largest: Floats  # at least the largest correlation over all prototypes, once certified

    @classmethod
    def empty(cls, n: int, cap: int, width: int) -> Paths:
        return cls(
            np.zeros((n, cap), np.int32),
            np.zeros((n, cap), np.float32),
            np.zeros(n, np.int32),
            np.zeros(n, np.float32),
            np.zeros(n, np.int8),
            np.zeros((n, width), np.float32),
            np.zeros(n),
            np.full(n, -np.inf, np.float32),
        )

    @classmethod
    def of(cls, codes: sparse.csr_array, cap: int, width: int) -> Paths:
        """Codes that are there already, as if a path had ended in them."""
        paths = cls.empty(codes.shape[0], cap, width)
        paths.count[:] = np.diff(codes.indptr)
        used = np.arange(cap) < paths.count[:, None]
        paths.index[used], paths.value[used] = codes.indices, codes.data
        return paths

    def take(self, rows: Chosen) -> Paths:
        arrays: tuple[Any, ...] = self
        return Paths(*(array[rows] for array in arrays))

    def put(self, rows: Chosen, other: Paths) -> None:
        arrays: tuple[Any, ...] = self
        for mine, theirs in zip(arrays, other, strict=True):
            mine[rows] = theirs

    def codes(self, k: int) -> sparse.csr_array:
        used = self.value > 0
        indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
        return csr(self.value[used], self.index[used], indptr, (len(self.count), k))


class Candidates(NamedTuple):
    """Prototypes that may take part in the code of each image of a block, best first."""

    index: Ints  # type: ignore[assignment]  # n x room
    count: Ints  # type: ignore[assignment]  # n


@lru_cache(maxsize=64)
def _empty(shape: tuple[int, int]) -> Any:
    from scipy import sparse

    return sparse.csr_array(shape, dtype=np.float32)


def csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> sparse.csr_array:
    """CSR from parts that are known to be sound, without checking them again.

    The checks of the constructor take longer than the path of one image: copy an empty matrix.
    """
    matrix: sparse.csr_array = copy.copy(_empty(shape))
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr.astype(np.int32)
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def every(n: int, k: int, own: Rows | None) -> Candidates:
    """All prototypes as candidates of n images, each without its own."""
    index = np.empty((n, k), np.int32)
    index[:] = np.arange(k)
    count = np.full(n, k, np.int32)
    if own is not None:  # its own goes last, where it is not counted
        rows = np.flatnonzero(own >= 0)
        index[rows, own[rows]] = k - 1
        index[rows, -1] = own[rows]
        count[rows] -= 1
    return Candidates(index, count)
