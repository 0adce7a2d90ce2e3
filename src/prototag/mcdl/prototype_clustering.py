"""Prototype reduction by k-means: each prototype is the mean of similar images with shared tags.

The clustered vectors are ``[x | w]``, where w are the tags, whitened by their frequency and scaled
to the average length of x. A mean depends on the tags of its images, so scores over it are biased
for these images. Each fold therefore has its own clustering, of the images outside the fold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Floats, Rows
from prototag.engine import SINGLE_THREAD, Engine
from prototag.mcdl.kmeans import k_means, nearest_centroids

KMEANS_ITERATIONS = 12  # later ones move few images


class Clustering(NamedTuple):
    """The images of which each prototype is the mean."""

    members: sparse.csr_array  # k x n, rows sum to 1
    images: Rows  # k, the image nearest to each mean

    def means(self, X: Floats) -> Floats:
        """Compute the prototypes (k x m) from vectors (n x m)."""
        return np.ascontiguousarray(self.members @ X, np.float32)


class Fold(NamedTuple):
    """A fold, and the clustering of the images outside it."""

    inside: Rows
    outside: Rows
    clustering: Clustering  # of the images outside, in this order


class FoldClusterings(NamedTuple):
    """The clustering of all images, and one clustering for each fold."""

    whole: Clustering
    folds: list[Fold]

    def out_of_fold(
        self, score: Callable[[Rows, Rows, Clustering], Floats], shape: tuple[int, ...]
    ) -> Floats:
        """Collect out-of-fold scores by ``score(inside, outside, clustering)`` of each fold."""
        scores = np.empty(shape, np.float32)
        for inside, outside, clustering in self.folds:
            scores[inside] = score(inside, outside, clustering)
        return scores


def cluster(
    X: Floats, Y: sparse.csr_array, k: int, seed: int | list[int], engine: Engine = SINGLE_THREAD
) -> Clustering:
    """Cluster images with unit vectors (n x m) and tags (n x t) into k prototypes.

    If k is n, each image is its own prototype.
    """
    n = len(X)
    if k == n:
        return Clustering(sparse.csr_array(sparse.identity(n, np.float32, "csr")), np.arange(n))
    joined = np.hstack([X, _whitened(Y)])
    centroids = k_means(
        joined, k, np.random.default_rng(seed), max_iter=KMEANS_ITERATIONS, engine=engine
    )
    label, distance = nearest_centroids(joined, centroids, engine=engine)
    order = np.lexsort((distance, label))  # by prototype, the nearest image first
    first = np.searchsorted(label[order], np.arange(k))
    empty = np.flatnonzero(np.bincount(label, minlength=k) == 0)
    images = order[np.minimum(first, n - 1)]
    if len(empty):  # after the last iteration; such a cluster takes its nearest image
        images[empty] = nearest_centroids(centroids[empty], joined, engine=engine)[0]
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
    """Cluster all images, and the images outside each fold, with the same images per prototype.

    ``fold`` is the fold index of each image.
    """
    n = len(X)
    folds = []
    for number in range(int(fold.max()) + 1):
        inside = np.flatnonzero(fold == number)
        outside = np.flatnonzero(fold != number)
        count = max(1, round(k * len(outside) / n))
        clustering = cluster(X[outside], Y[outside], count, [seed, number + 1], engine)
        folds.append(Fold(inside, outside, clustering))
    return FoldClusterings(cluster(X, Y, k, [seed, 0], engine), folds)


def _whitened(Y: sparse.csr_array) -> Floats:
    """Whiten tags, ``(y - f) / sqrt(f)``, to unit length on average; rare tags weigh as much."""
    tags = Y.toarray().astype(np.float32)
    frequency = np.maximum(tags.mean(axis=0), 1 / len(tags))
    tags -= frequency
    tags /= np.sqrt(frequency)
    length = np.sqrt(np.einsum("ij,ij->", tags, tags, dtype=np.float64) / len(tags))
    return tags / np.float32(length or 1.0)
