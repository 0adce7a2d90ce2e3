"""Fewer prototypes than images: each the mean of images that look alike and share tags.

k-means on ``[x | w]``, w the tags whitened by frequency and as long as x on average: images of one
scene come together, images that only look alike stay apart. A mean has seen the tags of its images,
so nothing that is learned over it may be judged by them. Therefore every fold has a summary of its
own, of the images outside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.mcdl import steps

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.intp]
ROUNDS = 12  # of k-means; later ones move few images


class Summary(NamedTuple):
    """Which images each prototype is the mean of."""

    members: sparse.csr_array  # k x n, rows sum to 1
    images: Rows  # k, of its images the one nearest to the mean

    def means(self, X: Floats) -> Floats:
        """The prototypes in the space of X (n x m): k x m."""
        return np.ascontiguousarray(self.members @ X, np.float32)


class Fold(NamedTuple):
    """Images that a summary of all others can judge."""

    inside: Rows
    outside: Rows
    summary: Summary  # of the images outside, in their order


class Summaries(NamedTuple):
    """The summary of all images, and that of each fold."""

    whole: Summary
    folds: list[Fold]

    def left_out(
        self, score: Callable[[Rows, Rows, Summary], Floats], shape: tuple[int, ...]
    ) -> Floats:
        """Scores for all images, each by ``score(inside, outside, summary)`` of its fold."""
        scores = np.empty(shape, np.float32)
        for inside, outside, summary in self.folds:
            scores[inside] = score(inside, outside, summary)
        return scores


def summarise(
    X: Floats, Y: sparse.csr_array, k: int, seed: int | list[int], n_jobs: int | None = None
) -> Summary:
    """The summary of images with vectors of unit length (n x m) and tags (n x t) by k prototypes.

    With as many prototypes as images, each image is one.
    """
    n = len(X)
    if k == n:
        return Summary(sparse.csr_array(sparse.identity(n, np.float32, "csr")), np.arange(n))
    joined = np.hstack([X, _whitened(Y)])
    centres = steps.k_means(joined, k, np.random.default_rng(seed), max_iter=ROUNDS, n_jobs=n_jobs)
    label, distance = steps.nearest(joined, centres, n_jobs=n_jobs)
    order = np.lexsort((distance, label))  # by prototype, the nearest image first
    first = np.searchsorted(label[order], np.arange(k))
    empty = np.flatnonzero(np.bincount(label, minlength=k) == 0)
    images = order[np.minimum(first, n - 1)]
    if len(empty):  # the last round has left it: its nearest image becomes its own
        images[empty] = steps.nearest(centres[empty], joined, n_jobs=n_jobs)[0]
    rows, columns = np.append(label, empty), np.append(np.arange(n), images[empty])
    share = np.float32(1) / np.bincount(rows, minlength=k)[rows]
    return Summary(sparse.csr_array((share.astype(np.float32), (rows, columns)), (k, n)), images)


def summarise_folds(
    X: Floats,
    Y: sparse.csr_array,
    k: int,
    fold: Rows,
    seed: int,
    n_jobs: int | None = None,
) -> Summaries:
    """Summaries of all images and of those outside each fold, as coarse as that of all.

    ``fold`` is the number of each image's fold.
    """
    n, folds = len(X), []
    for number in range(int(fold.max()) + 1):
        inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        count = max(1, round(k * len(outside) / n))
        found = summarise(X[outside], Y[outside], count, [seed, number + 1], n_jobs)
        folds.append(Fold(inside, outside, found))
    return Summaries(summarise(X, Y, k, [seed, 0], n_jobs), folds)


def _whitened(Y: sparse.csr_array) -> Floats:
    """``(y - f) / sqrt(f)``, of unit length on average: rare tags weigh as much as frequent."""
    tags = Y.toarray().astype(np.float32)
    frequency = np.maximum(tags.mean(axis=0), 1 / len(tags))
    tags -= frequency
    tags /= np.sqrt(frequency)
    length = np.sqrt(np.einsum("ij,ij->", tags, tags, dtype=np.float64) / len(tags))
    return tags / np.float32(length or 1.0)
