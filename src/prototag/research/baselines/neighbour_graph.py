"""Graphs of nearest neighbours with heat-kernel weights, and their Laplacian."""

from __future__ import annotations

import numpy as np
from scipy import linalg, sparse

from prototag.arrays import Floats
from prototag.engine import single_threaded_blas
from prototag.research.baselines import knn_search

# Neighbours are searched on this many principal axes of wider vectors: a limit of time.
MAX_SEARCH_COLUMNS = 128


def heat_graph(
    X: Floats, n_neighbours: int, *, width: float = 1.0, n_jobs: int | None = None
) -> sparse.csr_array:
    """Return symmetric weights ``exp(-||x_i - x_j||^2 / (2 width^2))`` of neighbours, n x n.

    Images i and j are neighbours if one is among the ``n_neighbours`` nearest of the other.
    """
    x = principal_axes(X, MAX_SEARCH_COLUMNS)
    near = knn_search.Search(x).find_all(x, n_neighbours, exclude_self=True, n_jobs=n_jobs)
    present = near.present()
    weight = np.exp(np.float32(-0.5 / width**2) * near.distance[present])
    start = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    graph = sparse.csr_array((weight, near.index[present], start), shape=(len(X), len(X)))
    return sparse.csr_array(graph.maximum(graph.T)).astype(np.float32)


def laplacian(graph: sparse.csr_array) -> sparse.csr_array:
    """Return ``diag(S 1) - S``: ``V' L V`` sums half of ``s_ij ||v_i - v_j||^2``."""
    degree = np.asarray(graph.sum(axis=1)).ravel()
    return sparse.csr_array(sparse.diags_array(degree, format="csr") - graph).astype(np.float32)


def principal_axes(X: Floats, count: int) -> Floats:
    """Return X, or its coordinates on the first ``count`` principal axes if it is wider."""
    m = X.shape[1]
    if m <= count:
        return X
    with single_threaded_blas():
        centred = X - X.mean(axis=0, dtype=np.float64).astype(np.float32)
        gram = (centred.T @ centred).astype(np.float64)
        axes = linalg.eigh(gram, subset_by_index=(m - count, m - 1))[1]
        return np.ascontiguousarray(centred @ axes.astype(np.float32))
