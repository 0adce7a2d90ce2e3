"""A metric that draws images of the same tags together: 2PKNN's large margin, diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Floats
from prototag.engine import single_threaded_blas
from prototag.research.baselines import knn_search

BATCH = 64


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
    """Weights of groups of columns, at least 0, by stochastic sub-gradients and projection.

    ``d_v(p, q) = sum_g v_g ||x_p - x_q||_g^2`` is learned as Verma and Jawahar extend LMNN to many
    tags. The targets T_p of image p are the ``per_tag`` nearest of each of its own tags, impostors
    I_p the nearest of each other tag; an impostor counts by the share of its tags that p lacks:

        sum_p  mean_{q in T_p} d(p, q)
             + push mean_{q in T_p, r in I_p} (1 - |Y_p & Y_r| / |Y_r|) [1 + d(p, q) - d(p, r)]_+

    Both are found anew for each batch, by the metric of that moment.

    Parameters
    ----------
    X : array of shape (n, m), groups at an even scale
    Y : CSR array of shape (n, t)
    group : array of shape (m,)
        Group of each column, from 0.

    Returns
    -------
    array of shape (m,)
        The weight of each column: the mean over the second half of the steps.
    """
    square = X * X
    tags = knn_search.TagLists.of(Y)
    known = Y.toarray() > 0
    # In units of each group's mean distance, all weights move at one pace.
    spread = np.bincount(group, weights=2 * X.var(axis=0, dtype=np.float64))
    spread[spread <= 0] = np.inf
    v = np.ones(len(spread))
    total = np.zeros(len(spread))
    summed = 0
    tagged = np.flatnonzero(np.diff(Y.indptr))  # the others have no target
    if not len(tagged):
        return np.ones(X.shape[1], np.float32)
    with single_threaded_blas():
        for step in range(n_steps):
            p = np.sort(rng.choice(tagged, min(BATCH, len(tagged)), replace=False))
            scaled = X * np.sqrt(v)[group].astype(np.float32)
            found = knn_search.Search(scaled, Y).find(scaled[p], per_tag, p)
            pull = coefficients(found, known[p], known, tags, per_tag, push)
            g = np.bincount(group, weights=_gradient(X, square, p, found.index, pull))
            v = np.maximum(v - rate / np.sqrt(1 + step) * g / spread, 0)
            if not v.any():
                v = np.full_like(v, 1e-3)  # a metric that sees nothing has no neighbours
            if step >= n_steps // 2:
                total, summed = total + v, summed + 1
    return np.asarray((total / max(summed, 1) if summed else v)[group], np.float32)


def coefficients(
    found: knn_search.Neighbours,
    own: npt.NDArray[np.bool_],
    known: npt.NDArray[np.bool_],
    tags: knn_search.TagLists,
    per_tag: int,
    push: float,
) -> npt.NDArray[Any]:
    """How much the loss, mean over images, grows with the distance to each image found, q x w.

    Positive for targets, which are pulled, negative for impostors within the margin.
    """
    q, w = found.index.shape
    present = found.present()
    row, tag = np.nonzero(own)
    has = known[found.index[row], tag[:, None]] & present[row]
    apart = np.where(has, found.distance[row], np.inf)
    place = np.argsort(apart, axis=1, kind="stable")[:, :per_tag]
    target = np.zeros((q, w), bool)
    target[row[:, None], place] = np.isfinite(np.take_along_axis(apart, place, axis=1))

    shared = found.gathered(own.astype(np.float32), tags)
    size = np.maximum(known[found.index].sum(axis=2), 1)
    differs = np.where(present & ~target, 1 - shared / size, 0)

    # Targets of each image to the front, so that pairs of target and impostor stay few.
    count = target.sum(axis=1)
    front = np.argsort(~target, axis=1, kind="stable")[:, : max(count.max(), 1)]
    is_target = np.take_along_axis(target, front, axis=1)
    near = np.take_along_axis(found.distance, front, axis=1)
    active = (1 + near[:, :, None] > found.distance[:, None, :]) & is_target[:, :, None]
    pairs = np.maximum(count * (present & ~target).sum(axis=1), 1)[:, None]
    pushed = push / pairs
    answer = -pushed * differs * active.sum(axis=1)
    pulled = is_target / np.maximum(count, 1)[:, None]
    pulled = pulled + pushed * np.einsum("iqr,ir->iq", active, differs)
    np.put_along_axis(
        answer, front, np.take_along_axis(answer, front, axis=1) + pulled * is_target, axis=1
    )
    return np.asarray(answer / q)


def _gradient(
    X: Floats,
    square: Floats,
    p: npt.NDArray[np.intp],
    index: npt.NDArray[np.int32],
    pull: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """``sum_ij pull_ij (x_pi - x_j)^2`` for each column."""
    start = np.arange(0, index.size + 1, index.shape[1])
    A = sparse.csr_array(
        (pull.ravel().astype(np.float32), index.ravel(), start), shape=(len(p), len(X))
    )
    x = X[p]
    own = pull.sum(axis=1).astype(np.float32) @ square[p]
    return np.asarray(own - 2 * (x * (A @ X)).sum(axis=0) + (A @ square).sum(axis=0))
