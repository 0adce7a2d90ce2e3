"""Buffers of the encoder kernel for a batch of images: candidates and ends of paths."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.arrays import Bools, Floats, Ints, Rows

if TYPE_CHECKING:
    from scipy import sparse

RowSelection = Rows | Bools  # row indices or a mask
# Numbers of candidates: in the first path, and in total.
CORE_CANDIDATES = 32
N_CANDIDATES = 128
# Reasons why a path ended (kernels/coding/encoder.hpp).
ENDED_AT_CAP = 2
ENDED_STALLED = 3


class PathEnds(NamedTuple):
    """Ends of the LARS paths of a batch of images."""

    index: Ints  # type: ignore[assignment]  # n x max_nonzeros; the first ``count`` are used, sorted
    value: Floats
    count: Ints  # type: ignore[assignment]
    lam: Floats  # correlation of the active prototypes
    ending: npt.NDArray[np.int8]
    residual: Floats  # n x (m + t): [x - a D | w (target - a S)]
    fit: npt.NDArray[np.float64]  # a . correlation
    largest: Floats  # upper bound of the correlations of all prototypes, if certified

    @classmethod
    def empty(cls, n: int, cap: int, width: int) -> PathEnds:
        return cls(
            np.empty((n, cap), np.int32),
            np.empty((n, cap), np.float32),
            np.empty(n, np.int32),
            np.empty(n, np.float32),
            np.empty(n, np.int8),
            np.empty((n, width), np.float32),
            np.empty(n),
            np.empty(n, np.float32),
        )

    @classmethod
    def from_codes(cls, codes: sparse.csr_array, cap: int, width: int) -> PathEnds:
        """Convert existing codes to ends of paths."""
        paths = cls.empty(codes.shape[0], cap, width)
        for array in paths:
            array.fill(0)
        paths.count[:] = np.diff(codes.indptr)
        used = np.arange(cap) < paths.count[:, None]
        paths.index[used] = codes.indices
        paths.value[used] = codes.data
        return paths

    @classmethod
    def concatenate(cls, parts: list[PathEnds]) -> PathEnds:
        """Concatenate the ends of several batches, without residuals."""
        return cls(
            index=np.concatenate([part.index for part in parts]),
            value=np.concatenate([part.value for part in parts]),
            count=np.concatenate([part.count for part in parts]),
            lam=np.concatenate([part.lam for part in parts]),
            ending=np.concatenate([part.ending for part in parts]),
            residual=parts[0].residual[:0].copy(),
            fit=np.concatenate([part.fit for part in parts]),
            largest=np.concatenate([part.largest for part in parts]),
        )

    def take(self, rows: RowSelection) -> PathEnds:
        arrays: tuple[Any, ...] = self
        return PathEnds(*(array[rows] for array in arrays))

    def put(self, rows: RowSelection, other: PathEnds) -> None:
        arrays: tuple[Any, ...] = self
        for mine, theirs in zip(arrays, other, strict=True):
            mine[rows] = theirs

    def codes(self, k: int) -> sparse.csr_array:
        used = self.value > 0
        data = self.value[used]
        indices = self.index[used]
        indptr = np.zeros(len(used) + 1, np.int32)
        if len(used) == 1:
            indptr[1] = len(data)
        else:
            np.cumsum(np.count_nonzero(used, axis=1), out=indptr[1:])
        return csr_unchecked(data, indices, indptr, (len(used), k))


class Candidates(NamedTuple):
    """Candidate prototypes of each image of a batch, best first."""

    index: Ints  # type: ignore[assignment]  # n x room
    count: Ints  # type: ignore[assignment]  # n


@lru_cache(maxsize=64)
def _empty(shape: tuple[int, int]) -> Any:
    from scipy import sparse

    return sparse.csr_array(shape, dtype=np.float32)


def csr_unchecked(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> sparse.csr_array:
    """Create a CSR matrix from valid parts without the checks of the constructor.

    The checks take longer than encoding one image.
    """
    empty = _empty(shape)
    matrix: sparse.csr_array = object.__new__(type(empty))
    matrix.__dict__.update(empty.__dict__)
    matrix.data = data
    matrix.indices = indices
    matrix.indptr = indptr
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def all_candidates(n: int, k: int, excluded: Rows | None) -> Candidates:
    """Return all prototypes as candidates of n images, except the excluded one of each."""
    index = np.empty((n, k), np.int32)
    index[:] = np.arange(k)
    count = np.full(n, k, np.int32)
    if excluded is not None:  # the excluded one goes last, where it is not counted
        rows = np.flatnonzero(excluded >= 0)
        index[rows, excluded[rows]] = k - 1
        index[rows, -1] = excluded[rows]
        count[rows] -= 1
    return Candidates(index, count)
