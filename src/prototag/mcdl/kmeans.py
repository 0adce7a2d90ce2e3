"""k-means clustering with results that do not depend on the number of threads."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from prototag import _kernels
from prototag.arrays import Floats, Rows
from prototag.coding.coder import QuantizedPrototypes
from prototag.engine import SINGLE_THREAD, Engine, tree_sum
from prototag.engine.task_names import batch_name

BATCH_IMAGES = 512  # rows whose distances to all centroids are computed at once
SUM_BATCHES = 4  # partial sums over images; each holds a k x m matrix
MIN_SUM_BATCH = 4096  # images


def sum_batch_size(n: int) -> int:
    """Return the batch size for sums over n images whose partial sums are large."""
    return max(MIN_SUM_BATCH, -(-n // SUM_BATCHES))


def k_means(
    X: Floats,
    k: int,
    rng: np.random.Generator,
    *,
    max_iter: int = 20,
    tol: float = 1e-4,
    engine: Engine = SINGLE_THREAD,
) -> Floats:
    """Run Lloyd's algorithm from random rows of X, and return the centroids (k x m).

    An empty cluster takes the vector with the largest distance to its centroid. Unlike those of
    scikit-learn, the results are bit-identical for any number of threads.
    """
    n = len(X)
    centroids = X[np.sort(rng.permutation(n)[:k])].copy()
    last_inertia = np.inf
    label = None
    for _ in range(max_iter):
        label, distance = nearest_centroids(X, centroids, guess=label, engine=engine)
        members = np.bincount(label, minlength=k)
        empty = np.flatnonzero(members == 0)
        for cluster, image in zip(empty, np.argsort(-distance, kind="stable"), strict=False):
            members[label[image]] -= 1
            label[image] = cluster
            members[cluster] = 1
            distance[image] = 0.0
        size = sum_batch_size(n)
        sums = tree_sum(engine, _sum_batch, [X, label], [k], add=np.add, size=size)
        filled = members > 0
        centroids[filled] = sums[filled] / members[filled, None]
        inertia = float(np.maximum(distance, 0).sum())
        if last_inertia - inertia <= tol * inertia:
            break
        last_inertia = inertia
    return centroids


@batch_name("Sum clusters")
def _sum_batch(x: Floats, label: Rows, k: int) -> Floats:
    """Sum the vectors of each cluster, k x m."""
    n = len(x)
    members = sparse.csr_array((np.ones(n, np.float32), label, np.arange(n + 1)), shape=(n, k))
    return np.asarray(members.T @ x)


def nearest_centroids(
    X: Floats, centroids: Floats, *, guess: Rows | None = None, engine: Engine = SINGLE_THREAD
) -> tuple[Rows, Floats]:
    """Return the index of the nearest centroid of each row of X, and its squared distance.

    An initial ``guess`` of the indices saves time: int8 products with a proven error bound exclude
    most centroids, and only the others are compared exactly.
    """
    half_squared_norms = np.float32(0.5) * np.einsum("ij,ij->i", centroids, centroids)
    if guess is None:
        parts = engine.map(_nearest_batch, [X], [centroids, half_squared_norms], size=BATCH_IMAGES)
    else:
        quantized = QuantizedPrototypes.quantize(centroids, centroids.shape[1], None)
        shared = [np.ascontiguousarray(centroids), half_squared_norms, quantized]
        parts = engine.map(_nearer_batch, [X, guess], shared, size=BATCH_IMAGES)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


@batch_name("Find nearest centroids")
def _nearest_batch(x: Floats, centroids: Floats, half_squared_norms: Floats) -> tuple[Rows, Floats]:
    affinity = x @ centroids.T
    affinity -= half_squared_norms
    label = affinity.argmax(axis=1)
    squared = np.einsum("ij,ij->i", x, x)
    return label, squared - 2 * affinity[np.arange(len(label)), label]


@batch_name("Find nearer centroids")
def _nearer_batch(
    x: Floats,
    guess: Rows,
    centroids: Floats,
    half_squared_norms: Floats,
    quantized: QuantizedPrototypes,
) -> tuple[Rows, Floats]:
    label = guess.copy()
    affinity = np.empty(len(x), np.float32)
    _kernels.nearest_centroids(
        quantized, centroids, half_squared_norms, np.ascontiguousarray(x), label, affinity
    )
    return label, np.einsum("ij,ij->i", x, x) - 2 * affinity
