"""Large-margin metric learning for 2PKNN (multi-label LMNN with a diagonal metric)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Floats
from prototag.engine import single_threaded_blas
from prototag.research.baselines import knn_search

BATCH_IMAGES = 64


def learn_weights(
    X: Floats,
    Y: sparse.csr_array,
    group: npt.NDArray[np.intp],
    *,
    per_tag: int,
    push: float,
    rate: float,
    n_steps: int,
    rng: np.random.Generator,
) -> Floats:
    """Learn non-negative weights of feature groups by projected stochastic sub-gradients.

    The distance is ``d_v(p, q) = sum_g v_g ||x_p - x_q||_g^2``, and the loss is the extension of
    LMNN to several tags by Verma and Jawahar. The targets T_p of image p are the ``per_tag``
    nearest of each of its own tags, the impostors I_p the nearest of each other tag; an impostor
    counts by the share of its tags that p lacks:

        sum_p  mean_{q in T_p} d(p, q)
             + push mean_{q in T_p, r in I_p} (1 - |Y_p & Y_r| / |Y_r|) [1 + d(p, q) - d(p, r)]_+

    Targets and impostors are searched for each batch, with the current metric.

    Parameters
    ----------
    X : array of shape (n, m), with balanced groups
    Y : CSR array of shape (n, t)
    group : array of shape (m,)
        The group of each column, numbered from 0.

    Returns
    -------
    array of shape (m,)
        The weight of each column, averaged over the second half of the steps.
    """
    square = X * X
    tags = knn_search.TagLists.of(Y)
    known = Y.toarray() > 0
    # Steps are in units of each group's mean distance, so that all weights change equally fast.
    spread = np.bincount(group, weights=2 * X.var(axis=0, dtype=np.float64))
    spread[spread <= 0] = np.inf
    v = np.ones(len(spread))
    total = np.zeros(len(spread))
    summed = 0
    tagged = np.flatnonzero(np.diff(Y.indptr))  # images without tags have no target
    if not len(tagged):
        return np.ones(X.shape[1], np.float32)
    with single_threaded_blas():
        for step in range(n_steps):
            p = np.sort(rng.choice(tagged, min(BATCH_IMAGES, len(tagged)), replace=False))
            scaled = X * np.sqrt(v)[group].astype(np.float32)
            neighbours = knn_search.Search(scaled, Y).find(scaled[p], per_tag, p)
            slope = loss_by_distance(neighbours, known[p], known, tags, per_tag, push)
            g = np.bincount(group, weights=_gradient(X, square, p, neighbours.index, slope))
            v = np.maximum(v - rate / np.sqrt(1 + step) * g / spread, 0)
            if not v.any():
                v = np.full_like(v, 1e-3)  # with all weights zero, all distances are equal
            if step >= n_steps // 2:
                total += v
                summed += 1
    return np.asarray((total / max(summed, 1) if summed else v)[group], np.float32)


def loss_by_distance(
    neighbours: knn_search.Neighbours,
    own: npt.NDArray[np.bool_],
    known: npt.NDArray[np.bool_],
    tags: knn_search.TagLists,
    per_tag: int,
    push: float,
) -> npt.NDArray[Any]:
    """Return the derivative of the mean loss by the distance to each neighbour, q x w.

    It is positive for targets, negative for impostors within the margin.
    """
    q, w = neighbours.index.shape
    present = neighbours.present()
    row, tag = np.nonzero(own)
    has = known[neighbours.index[row], tag[:, None]] & present[row]
    distance = np.where(has, neighbours.distance[row], np.inf)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :per_tag]
    target = np.zeros((q, w), bool)
    target[row[:, None], nearest] = np.isfinite(np.take_along_axis(distance, nearest, axis=1))

    shared = neighbours.gather(own.astype(np.float32), tags)
    size = np.maximum(known[neighbours.index].sum(axis=2), 1)
    differs = np.where(present & ~target, 1 - shared / size, 0)

    # Targets come first, so that the array of pairs of target and impostor is small.
    count = target.sum(axis=1)
    front = np.argsort(~target, axis=1, kind="stable")[:, : max(count.max(), 1)]
    is_target = np.take_along_axis(target, front, axis=1)
    near = np.take_along_axis(neighbours.distance, front, axis=1)
    active = (1 + near[:, :, None] > neighbours.distance[:, None, :]) & is_target[:, :, None]
    pairs = np.maximum(count * (present & ~target).sum(axis=1), 1)[:, None]
    pushed = push / pairs
    slope = -pushed * differs * active.sum(axis=1)
    pulled = is_target / np.maximum(count, 1)[:, None]
    pulled = pulled + pushed * np.einsum("iqr,ir->iq", active, differs)
    np.put_along_axis(
        slope, front, np.take_along_axis(slope, front, axis=1) + pulled * is_target, axis=1
    )
    return np.asarray(slope / q)


def _gradient(
    X: Floats,
    square: Floats,
    p: npt.NDArray[np.intp],
    index: npt.NDArray[np.int32],
    slope: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """Return ``sum_ij slope_ij (x_pi - x_j)^2`` for each column."""
    start = np.arange(0, index.size + 1, index.shape[1])
    A = sparse.csr_array(
        (slope.ravel().astype(np.float32), index.ravel(), start), shape=(len(p), len(X))
    )
    x = X[p]
    own = slope.sum(axis=1).astype(np.float32) @ square[p]
    return np.asarray(own - 2 * (x * (A @ X)).sum(axis=0) + (A @ square).sum(axis=0))
