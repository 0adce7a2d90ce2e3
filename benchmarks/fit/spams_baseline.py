"""One iteration of the published schedule with the tools of its authors, SPAMS and NumPy.

The same problem and the same order of steps as ``MCDL.published``, with coding by SPAMS's lasso on
the stacked dictionary, the semantic step on the grid 0, 0.05, ..., 5, and NumPy for the rest.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

GRID = np.arange(0, 5.0001, 0.05, dtype=np.float32)


def code(X, Y, D, S, A, *, lam, present, absent, passes, opening, threads, drop=0.001):  # noqa: PLR0913 - parameters of the measured step
    """MCSC by SPAMS: working targets, then the lasso on [x ; sqrt(lam) target]."""
    import spams

    root = np.float32(np.sqrt(lam))
    stacked = np.asfortranarray(np.hstack([D, root * S]).T)
    for number in range(passes):
        scores = A @ S
        if opening and number == 0:
            target = np.where(Y, present, absent)
        else:
            met = np.where(Y, scores >= present, scores <= absent)
            target = np.where(met, scores, np.where(Y, present, absent))
        data = np.asfortranarray(np.hstack([X, root * target]).T.astype(np.float32))
        codes = spams.lasso(
            data, D=stacked, lambda1=1.0, mode=0, pos=True, L=20, numThreads=threads
        )
        A = sparse.csr_array(codes.T)
        A.data[~np.isfinite(A.data)] = 0
    A.data[A.data <= drop] = 0
    A.eliminate_zeros()
    return A


def semantic(Y, A, S, order, *, beta1, rho, present, absent):
    """The grid search of every (prototype, tag) pair, vectorised over tags and grid."""
    columns = A.tocsc()
    scores = np.asarray(A @ S)
    goal = np.where(Y, np.float32(present), np.float32(absent))
    sign = np.where(Y, np.float32(1), np.float32(-1))
    start = S.copy()
    for k in order:
        members = columns.indices[columns.indptr[k] : columns.indptr[k + 1]]
        if not len(members):
            S[k] = 0
            continue
        a = columns.data[columns.indptr[k] : columns.indptr[k + 1]]
        rest = scores[members] - a[:, None] * S[k]
        cost = np.empty((len(GRID), S.shape[1]), np.float32)
        for row, d in enumerate(GRID):
            gap = np.maximum(0, sign[members] * (goal[members] - rest - a[:, None] * d))
            cost[row] = np.einsum("ij,ij->j", gap, gap) + beta1 * d + rho * (d - start[k]) ** 2
        S[k] = GRID[cost.argmin(axis=0)]
        scores[members] = rest + a[:, None] * S[k]
    return S


def rescale(Y, A, S, *, present, absent, beta1):
    """The best factor for each tag, on a grid."""
    scores = A @ S
    goal, sign = np.where(Y, present, absent), np.where(Y, 1.0, -1.0)
    best, factor = np.full(S.shape[1], np.inf), np.ones(S.shape[1], np.float32)
    for g in np.arange(0.5, 1.5, 0.05):
        gap = np.maximum(0, sign * (goal - g * scores))
        cost = np.einsum("ij,ij->j", gap, gap) + beta1 * g * S.sum(axis=0)
        better = cost < best
        best[better], factor[better] = cost[better], g
    return np.minimum(S * factor, 5).astype(np.float32)


def visual(X, A, D, order):
    """Prototype by prototype, on the sphere."""
    columns = A.tocsc()
    residual = X - A @ D
    for k in order:
        members = columns.indices[columns.indptr[k] : columns.indptr[k + 1]]
        if not len(members):
            continue
        a = columns.data[columns.indptr[k] : columns.indptr[k + 1]][:, None]
        part = residual[members] + a * D[k]
        d = (a * part).sum(axis=0)
        D[k] = d / max(np.linalg.norm(d), 1e-12)
        residual[members] = part - a * D[k]
    return D
