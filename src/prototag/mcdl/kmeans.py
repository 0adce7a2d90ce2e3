"""k-means: where prototypes begin, and how images are summarised."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from prototag import _kernels
from prototag.arrays import Floats, Rows
from prototag.coding.coder import QuantizedPrototypes
from prototag.engine import SINGLE_THREAD, Engine, tree_sum
from prototag.engine.task_names import batch_name

BATCH_IMAGES = 512  # images compared with all centres at once
PARTS = 4  # of the images, whose sums are added up
LEAST = 4096  # images in one of them


def k_means(
    X: Floats,
    k: int,
    rng: np.random.Generator,
    *,
    max_iter: int = 20,
    tol: float = 1e-4,
    engine: Engine = SINGLE_THREAD,
) -> Floats:
    """Lloyd's algorithm from random rows of X; an empty cluster takes the worst-fitted vector.

    Ours rather than scikit-learn's because its result is the same bits for any number of threads.
    """
    n = len(X)
    centres = X[np.sort(rng.permutation(n)[:k])].copy()
    last = np.inf
    label = None
    for _ in range(max_iter):
        label, distance = nearest_centroids(X, centres, guess=label, engine=engine)
        size = np.bincount(label, minlength=k)
        empty = np.flatnonzero(size == 0)
        for cluster, image in zip(empty, np.argsort(-distance, kind="stable"), strict=False):
            size[label[image]] -= 1
            label[image] = cluster
            size[cluster] = 1
            distance[image] = 0.0
        part = max(LEAST, -(-n // PARTS))
        sums = tree_sum(engine, _sum_batch, [X, label], [k], add=np.add, size=part)
        filled = size > 0
        centres[filled] = sums[filled] / size[filled, None]
        inertia = float(np.maximum(distance, 0).sum())
        if last - inertia <= tol * inertia:
            break
        last = inertia
    return centres


@batch_name("Sum clusters")
def _sum_batch(x: Floats, label: Rows, k: int) -> Floats:
    """The sums of the vectors of each cluster, k x m."""
    n = len(x)
    members = sparse.csr_array((np.ones(n, np.float32), label, np.arange(n + 1)), shape=(n, k))
    return np.asarray(members.T @ x)


def nearest_centroids(
    X: Floats, centres: Floats, *, guess: Rows | None = None, engine: Engine = SINGLE_THREAD
) -> tuple[Rows, Floats]:
    """For each row of X the number of its nearest centre, and its squared distance.

    ``guess``, what may be nearest, saves time: products of eight bits with a proven bound tell
    which centres could be nearer than that, and only these are looked at.
    """
    half = np.float32(0.5) * np.einsum("ij,ij->i", centres, centres)
    if guess is None:
        parts = engine.map(_nearest_batch, [X], [centres, half], size=BATCH_IMAGES)
    else:
        packed = QuantizedPrototypes.quantize(centres, centres.shape[1], None)
        shared = [np.ascontiguousarray(centres), half, packed]
        parts = engine.map(_nearer_batch, [X, guess], shared, size=BATCH_IMAGES)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


@batch_name("Find nearest centres")
def _nearest_batch(x: Floats, centres: Floats, half: Floats) -> tuple[Rows, Floats]:
    nearness = x @ centres.T
    nearness -= half
    label = nearness.argmax(axis=1)
    squared = np.einsum("ij,ij->i", x, x)
    return label, squared - 2 * nearness[np.arange(len(label)), label]


@batch_name("Find nearer centres")
def _nearer_batch(
    x: Floats, guess: Rows, centres: Floats, half: Floats, packed: QuantizedPrototypes
) -> tuple[Rows, Floats]:
    label = guess.copy()
    nearness = np.empty(len(x), np.float32)
    _kernels.closest(packed, centres, half, np.ascontiguousarray(x), label, nearness)
    return label, np.einsum("ij,ij->i", x, x) - 2 * nearness
