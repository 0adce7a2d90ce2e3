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
from scipy import sparse

from prototag.arrays import Floats, Rows
from prototag.engine import SINGLE_THREAD, Engine
from prototag.mcdl.kmeans import k_means, nearest_centroids

KMEANS_ITERATIONS = 12  # of k-means; later ones move few images


class Clustering(NamedTuple):
    """Which images each prototype is the mean of."""

    members: sparse.csr_array  # k x n, rows sum to 1
    images: Rows  # k, of its images the one nearest to the mean

    def means(self, X: Floats) -> Floats:
        """The prototypes in the space of X (n x m): k x m."""
        return np.ascontiguousarray(self.members @ X, np.float32)


class Fold(NamedTuple):
    """Images that a clustering of all others can judge."""

    inside: Rows
    outside: Rows
    clustering: Clustering  # of the images outside, in their order


class FoldClusterings(NamedTuple):
    """The clustering of all images, and that of each fold."""

    whole: Clustering
    folds: list[Fold]

    def left_out(
        self, score: Callable[[Rows, Rows, Clustering], Floats], shape: tuple[int, ...]
    ) -> Floats:
        """Scores for all images, each by ``score(inside, outside, clustering)`` of its fold."""
        scores = np.empty(shape, np.float32)
        for inside, outside, clustering in self.folds:
            scores[inside] = score(inside, outside, clustering)
        return scores


def cluster(
    X: Floats, Y: sparse.csr_array, k: int, seed: int | list[int], engine: Engine = SINGLE_THREAD
) -> Clustering:
    """The summary of images with vectors of unit length (n x m) and tags (n x t) by k prototypes.

    With as many prototypes as images, each image is one.
    """
    n = len(X)
    if k == n:
        return Clustering(sparse.csr_array(sparse.identity(n, np.float32, "csr")), np.arange(n))
    joined = np.hstack([X, _whitened(Y)])
    centres = k_means(
        joined, k, np.random.default_rng(seed), max_iter=KMEANS_ITERATIONS, engine=engine
    )
    label, distance = nearest_centroids(joined, centres, engine=engine)
    order = np.lexsort((distance, label))  # by prototype, the nearest image first
    first = np.searchsorted(label[order], np.arange(k))
    empty = np.flatnonzero(np.bincount(label, minlength=k) == 0)
    images = order[np.minimum(first, n - 1)]
    if len(empty):  # the last round has left it: its nearest image becomes its own
        images[empty] = nearest_centroids(centres[empty], joined, engine=engine)[0]
    rows = np.append(label, empty)
    columns = np.append(np.arange(n), images[empty])
    share = np.float32(1) / np.bincount(rows, minlength=k)[rows]
    return Clustering(sparse.csr_array((share.astype(np.float32), (rows, columns)), (k, n)), images)


def cluster_folds(
    X: Floats,
    Y: sparse.csr_array,
    k: int,
    fold: Rows,
    seed: int,
    engine: Engine = SINGLE_THREAD,
) -> FoldClusterings:
    """Clusterings of all images and of those outside each fold, as coarse as that of all.

    ``fold`` is the number of each image's fold.
    """
    n = len(X)
    folds = []
    for number in range(int(fold.max()) + 1):
        inside = np.flatnonzero(fold == number)
        outside = np.flatnonzero(fold != number)
        count = max(1, round(k * len(outside) / n))
        found = cluster(X[outside], Y[outside], count, [seed, number + 1], engine)
        folds.append(Fold(inside, outside, found))
    return FoldClusterings(cluster(X, Y, k, [seed, 0], engine), folds)


def _whitened(Y: sparse.csr_array) -> Floats:
    """``(y - f) / sqrt(f)``, of unit length on average: rare tags weigh as much as frequent."""
    tags = Y.toarray().astype(np.float32)
    frequency = np.maximum(tags.mean(axis=0), 1 / len(tags))
    tags -= frequency
    tags /= np.sqrt(frequency)
    length = np.sqrt(np.einsum("ij,ij->", tags, tags, dtype=np.float64) / len(tags))
    return tags / np.float32(length or 1.0)
