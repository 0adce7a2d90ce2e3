"""k-means within folds, as sums over batches: an image joins the nearest centroid of its fold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Floats, Rows
from prototag.engine import Engine, batch_slices, tree_sum
from prototag.engine.task_names import batch_name
from prototag.tagging.out_of_core.features import SUM_BATCH

DISTANCE_BATCH = 2048  # rows whose distances are computed at once


class ClusterSums(NamedTuple):
    """Sums and sizes of clusters."""

    sums: Floats  # k x m
    size: Array  # k


@batch_name("Find nearest means")
def nearest_centroids(
    x: Floats, folds: Rows, centroids: Floats, centroid_folds: Rows
) -> tuple[Rows, Floats]:
    """Return the nearest centroid of each image within its fold, and the squared distance."""
    label = np.empty(len(x), np.intp)
    distance = np.empty(len(x), np.float32)
    for fold in np.unique(folds):
        candidates = np.flatnonzero(centroid_folds == fold)
        inside = np.flatnonzero(folds == fold)
        means = centroids[candidates]
        half_norms = np.float32(0.5) * np.einsum("ij,ij->i", means, means)
        for part in batch_slices(len(inside), DISTANCE_BATCH):
            rows = inside[part]
            similarity = x[rows] @ means.T
            similarity -= half_norms
            best = similarity.argmax(axis=1)
            label[rows] = candidates[best]
            distance[rows] = np.float32(1) - 2 * similarity[np.arange(len(rows)), best]
    return label, distance


@batch_name("Sum clusters")
def sum_clusters(x: Floats, folds: Rows, centroids: Floats, centroid_folds: Rows) -> ClusterSums:
    """Return the sums of the images of a batch that are nearest to each centroid."""
    label, _ = nearest_centroids(x, folds, centroids, centroid_folds)
    ones = np.ones(len(x), np.float32)
    k = len(centroids)
    members = sparse.csr_array((ones, label, np.arange(len(x) + 1)), shape=(len(x), k))
    return ClusterSums(np.asarray(members.T @ x, np.float32), np.bincount(label, minlength=k))


def add_sums(one: ClusterSums, other: ClusterSums) -> ClusterSums:
    """Add the sums of two batches."""
    return ClusterSums(one.sums + other.sums, one.size + other.size)


def refine(
    engine: Engine, rows: list[Any], centroids: Floats, centroid_folds: Rows, rounds: int
) -> Floats:
    """Run k-means on rows of unit length and their folds; empty clusters keep their centroid."""
    for _ in range(rounds):
        clusters = tree_sum(
            engine, sum_clusters, rows, [centroids, centroid_folds], add=add_sums, size=SUM_BATCH
        )
        used = clusters.size > 0
        centroids = centroids.copy()
        centroids[used] = clusters.sums[used] / clusters.size[used, None]
    return centroids
