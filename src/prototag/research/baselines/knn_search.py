"""Exact nearest-neighbour search, over all images or per tag, and weighted votes of neighbours.

One matrix product of a batch of queries with all training images gives all similarities; a kernel
selects the largest. Distances are squared Euclidean, so that a weighted sum over feature groups is
still one product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag import _kernels
from prototag.arrays import Bools, Floats, Ints, Rows
from prototag.engine import Threads

BATCH_QUERIES = 64  # their similarities to 20,000 images fit into a cache of 5 MB
_KERNEL_QUERIES = 8  # that the kernel compares together


@dataclass(frozen=True)
class TagLists:
    """The tags of each image, as int32 index arrays for the kernels."""

    start: Ints
    index: Ints
    t: int

    @classmethod
    def of(cls, Y: sparse.csr_array) -> TagLists:
        start, index = (part.astype(np.int32, copy=False) for part in (Y.indptr, Y.indices))
        return cls(start, index, Y.shape[1])


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of queries: the first ``count`` entries of each row. Rows can be indexed."""

    index: Ints  # q x w
    distance: Floats  # q x w, squared
    count: Ints  # q

    @classmethod
    def concatenate(cls, parts: list[Neighbours]) -> Neighbours:
        return cls(
            np.concatenate([part.index for part in parts]),
            np.concatenate([part.distance for part in parts]),
            np.concatenate([part.count for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.count)

    def __getitem__(self, rows: slice | Rows) -> Neighbours:
        return Neighbours(self.index[rows], self.distance[rows], self.count[rows])

    def first(self, k: int) -> Neighbours:
        """Return the k nearest; neighbours must be sorted by distance."""
        return Neighbours(
            np.ascontiguousarray(self.index[:, :k]),
            np.ascontiguousarray(self.distance[:, :k]),
            np.minimum(self.count, k).astype(np.int32),
        )

    def present(self) -> Bools:
        """Return the mask of entries that are neighbours, q x w."""
        return np.arange(self.index.shape[1]) < self.count[:, None]

    def weights(self, sharpness: float) -> Floats:
        """Return ``exp(-sharpness d)``, normalised to a sum of one per query (a softmax)."""
        present = self.present()
        nearest = np.min(self.distance, axis=1, where=present, initial=np.inf, keepdims=True)
        nearest[~np.isfinite(nearest)] = 0
        # Subtracting the smallest distance does not change the result and prevents underflow;
        # entries that are no neighbours have no distance, and may be below it.
        gap = np.where(present, self.distance - nearest, 0)
        weight = np.exp(np.float32(-sharpness) * gap) * present
        total = weight.sum(axis=1, keepdims=True)
        return np.asarray(weight / np.where(total > 0, total, 1), np.float32)

    def votes(self, weight: Floats, tags: TagLists) -> Floats:
        """Sum the weights of the neighbours that have a tag, q x t."""
        scores = np.empty((len(self.index), tags.t), np.float32)
        _kernels.vote(self.index, weight, self.count, tags.start, tags.index, scores)
        return scores

    def gather(self, value: Floats, tags: TagLists) -> Floats:
        """Sum a query's values over the tags of each neighbour, q x w."""
        out = np.empty(self.index.shape, np.float32)
        _kernels.sum_over_tags(self.index, self.count, tags.start, tags.index, value, out)
        return out


class Search:
    """Exact search among training images ``X`` (n x m).

    Parameters
    ----------
    X : array of shape (n, m)
    Y : CSR array of shape (n, t), optional
        With Y, the images of each tag are searched separately; otherwise all images together.
    """

    def __init__(self, X: Floats, Y: sparse.csr_array | None = None) -> None:
        n = len(X)
        # x.d - |d|^2 / 2 orders images d by distance from x; the last column adds the second term.
        half = np.einsum("ij,ij->i", X, X, dtype=np.float64) / 2
        self._extended = np.column_stack([X, -half]).astype(np.float32)
        self._lists = (
            TagLists(np.arange(n + 1, dtype=np.int32), np.zeros(n, np.int32), 1)
            if Y is None
            else TagLists.of(Y)
        )

    @property
    def X(self) -> Floats:
        """The searched images, n x m: a view, not a copy."""
        return self._extended[:, :-1]

    def find(self, x: Floats, k: int, exclude: npt.ArrayLike | None = None) -> Neighbours:
        """Find the k nearest images (of each tag) to a batch of queries, except ``exclude[i]``."""
        n = len(self._extended)
        q = len(x)
        padded = -(-q // _KERNEL_QUERIES) * _KERNEL_QUERIES
        queries = np.zeros((padded, x.shape[1] + 1), np.float32)
        queries[:q, :-1] = x
        queries[:, -1] = 1
        excluded = np.full(padded, -1, np.int32)
        if exclude is not None:
            excluded[:q] = exclude
        width = min(self._lists.t * k, n)
        index = np.zeros((padded, width), np.int32)
        nearest = np.zeros((padded, width), np.float32)
        count = np.empty(padded, np.int32)
        similarity = self._extended @ queries.T  # n x q
        lists = self._lists
        _kernels.nearest_per_tag(
            similarity,
            lists.start,
            lists.index,
            lists.t,
            min(k, n),
            excluded,
            index,
            nearest,
            count,
        )
        squared = np.einsum("ij,ij->i", x, x)[:, None]
        distance = np.maximum(squared - 2 * nearest[:q], 0)
        return Neighbours(index[:q], distance, count[:q])

    def find_all(
        self, x: Floats, k: int, *, exclude_self: bool = False, n_jobs: int | None = None
    ) -> Neighbours:
        """Find neighbours of any number of queries.

        With ``exclude_self``, query i is training image i and not its own neighbour.
        """
        excluded = np.arange(len(x)) if exclude_self else np.full(len(x), -1)
        return Neighbours.concatenate(
            Threads(n_jobs).map(find_batch, [x, excluded], [self, k], size=BATCH_QUERIES)
        )


def find_batch(x: Floats, excluded: Rows, search: Search, k: int) -> Neighbours:
    """Find the neighbours of a batch of queries; -1 excludes no image."""
    return search.find(x, k, excluded)


def vote_batch(
    x: Floats, scale: Floats, search: Search, tags: TagLists, k: int, sharpness: float
) -> Floats:
    """Return the scores of a batch of queries, which are scaled like the searched images."""
    neighbours = search.find(x * scale, k)
    return neighbours.votes(neighbours.weights(sharpness), tags)


def group_numbers(groups: npt.ArrayLike | None, m: int) -> npt.NDArray[np.intp]:
    """Number the groups of m columns from 0; without groups, all columns form one group."""
    if groups is None:
        return np.zeros(m, np.intp)
    names = np.asarray(groups)
    if names.shape != (m,):
        raise ValueError(
            f"groups has shape {names.shape} for {m} columns: give the group of each column, "
            "such as [0, 0, 1], or None for a single group."
        )
    return np.asarray(np.unique(names, return_inverse=True)[1], np.intp)


def balanced_scale(X: Floats, group: npt.NDArray[np.intp]) -> Floats:
    """Return column factors by which all groups contribute equally to a mean distance of one.

    The mean squared distance of two random images in the columns of a group is ``2 sum_j var_j``.
    """
    distance = np.bincount(group, weights=2 * X.var(axis=0, dtype=np.float64))
    distance[distance <= 0] = 1.0  # constant columns have no distance to scale
    return np.asarray(1 / np.sqrt(len(distance) * distance[group]), np.float32)
