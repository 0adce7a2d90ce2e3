"""Nearest training images, overall or tag by tag, and the votes of their tags.

One product of a block of queries with all training images gives every closeness; a kernel keeps the
closest. Distances are squared and Euclidean, so that a sum over groups of columns, each with its
weight, is still one product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag import _kernels
from prototag.arrays import Bools, Floats, Ints, Rows
from prototag.engine import Threads

BLOCK = 64  # queries: their closeness to 20,000 images just fits a cache of 5 MB
_LANES = 8  # queries that the kernel compares at once


@dataclass(frozen=True)
class TagLists:
    """The tags of each image as kernels read them."""

    start: Ints
    index: Ints
    t: int

    @classmethod
    def of(cls, Y: sparse.csr_array) -> TagLists:
        start, index = (part.astype(np.int32, copy=False) for part in (Y.indptr, Y.indices))
        return cls(start, index, Y.shape[1])


@dataclass(frozen=True)
class Neighbours:
    """Of each query: the first ``count`` places of its row. Rows are taken as those of an array."""

    index: Ints  # q x w
    distance: Floats  # q x w, squared
    count: Ints  # q

    @classmethod
    def joined(cls, parts: list[Neighbours]) -> Neighbours:
        return cls(
            np.concatenate([part.index for part in parts]),
            np.concatenate([part.distance for part in parts]),
            np.concatenate([part.count for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.count)

    def __getitem__(self, chosen: slice | Rows) -> Neighbours:
        return Neighbours(self.index[chosen], self.distance[chosen], self.count[chosen])

    def first(self, k: int) -> Neighbours:
        """The k nearest, of neighbours that are sorted by distance."""
        return Neighbours(
            np.ascontiguousarray(self.index[:, :k]),
            np.ascontiguousarray(self.distance[:, :k]),
            np.minimum(self.count, k).astype(np.int32),
        )

    def present(self) -> Bools:
        return np.arange(self.index.shape[1]) < self.count[:, None]

    def weights(self, sharpness: float) -> Floats:
        """``exp(-sharpness d)``, to a sum of one for each query."""
        present = self.present()
        nearest = np.min(self.distance, axis=1, where=present, initial=np.inf, keepdims=True)
        nearest[~np.isfinite(nearest)] = 0
        # Relative to the nearest, which the sum cancels: no query is so far that all underflow.
        weight = np.exp(np.float32(-sharpness) * (self.distance - nearest)) * present
        total = weight.sum(axis=1, keepdims=True)
        return np.asarray(weight / np.where(total > 0, total, 1), np.float32)

    def votes(self, weight: Floats, tags: TagLists) -> Floats:
        """Sum over the neighbours that have a tag of their weights, q x t."""
        scores = np.empty((len(self.index), tags.t), np.float32)
        _kernels.vote(self.index, weight, self.count, tags.start, tags.index, scores)
        return scores

    def gathered(self, value: Floats, tags: TagLists) -> Floats:
        """Sum of a query's values over the tags of each neighbour, q x w."""
        out = np.empty(self.index.shape, np.float32)
        _kernels.gather(self.index, self.count, tags.start, tags.index, value, out)
        return out


class Search:
    """Exact search among training images ``X`` (n x m).

    Parameters
    ----------
    X : array of shape (n, m)
    Y : CSR array of shape (n, t), optional
        Search in the images of each tag apart; otherwise in all images at once.
    """

    def __init__(self, X: Floats, Y: sparse.csr_array | None = None) -> None:
        n = len(X)
        # x.d - |d|^2 / 2 orders images as their distance does; the last column brings the second.
        half = np.einsum("ij,ij->i", X, X, dtype=np.float64) / 2
        self._wide = np.column_stack([X, -half]).astype(np.float32)
        self._lists = (
            TagLists(np.arange(n + 1, dtype=np.int32), np.zeros(n, np.int32), 1)
            if Y is None
            else TagLists.of(Y)
        )

    @property
    def X(self) -> Floats:
        """The images searched, n x m: a view, not a copy."""
        return self._wide[:, :-1]

    def find(self, x: Floats, k: int, own: npt.ArrayLike | None = None) -> Neighbours:
        """The k nearest (of each tag) for a block of queries, image own[i] left out."""
        n = len(self._wide)
        q = len(x)
        padded = -(-q // _LANES) * _LANES
        wide = np.zeros((padded, x.shape[1] + 1), np.float32)
        wide[:q, :-1] = x
        wide[:, -1] = 1
        left_out = np.full(padded, -1, np.int32)
        if own is not None:
            left_out[:q] = own
        width = min(self._lists.t * k, n)
        index = np.zeros((padded, width), np.int32)
        near = np.zeros((padded, width), np.float32)
        count = np.empty(padded, np.int32)
        closeness = self._wide @ wide.T  # n x q
        lists = self._lists
        _kernels.nearest(
            closeness, lists.start, lists.index, lists.t, min(k, n), left_out, index, near, count
        )
        squared = np.einsum("ij,ij->i", x, x)[:, None]
        distance = np.maximum(squared - 2 * near[:q], 0)
        return Neighbours(index[:q], distance, count[:q])

    def find_all(
        self, x: Floats, k: int, *, own: bool = False, n_jobs: int | None = None
    ) -> Neighbours:
        """As :meth:`find` for any number of queries; with ``own`` query i is training image i."""
        left_out = np.arange(len(x)) if own else np.full(len(x), -1)
        return Neighbours.joined(
            Threads(n_jobs).map(find_block, [x, left_out], [self, k], size=BLOCK)
        )


def find_block(x: Floats, own: Rows, search: Search, k: int) -> Neighbours:
    """Neighbours of a block of queries; own[i] = -1 leaves none out."""
    return search.find(x, k, own)


def vote_block(
    x: Floats, scale: Floats, search: Search, tags: TagLists, k: int, sharpness: float
) -> Floats:
    """Scores of a block of queries, once scaled as the images searched are."""
    found = search.find(x * scale, k)
    return found.votes(found.weights(sharpness), tags)


def group_numbers(groups: npt.ArrayLike | None, m: int) -> npt.NDArray[np.intp]:
    """The group of each of m columns, counted from 0; without groups all are in one."""
    if groups is None:
        return np.zeros(m, np.intp)
    given = np.asarray(groups)
    if given.shape != (m,):
        raise ValueError(
            f"groups has shape {given.shape} for {m} columns: give the group of each column, "
            "such as [0, 0, 1], or None for a single group."
        )
    return np.asarray(np.unique(given, return_inverse=True)[1], np.intp)


def even_scale(X: Floats, group: npt.NDArray[np.intp]) -> Floats:
    """Factors of columns by which all groups contribute equally to a mean distance of one.

    Two images, drawn at random, are on average ``2 sum_j var_j`` apart in the columns of a group.
    """
    apart = np.bincount(group, weights=2 * X.var(axis=0, dtype=np.float64))
    apart[apart <= 0] = 1.0  # columns that are constant say nothing at any scale
    return np.asarray(1 / np.sqrt(len(apart) * apart[group]), np.float32)
