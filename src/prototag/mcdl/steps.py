"""Algorithm 2: prototypes are initialised, swept over, and put to use again.

Everything here is a function of the codes: the visual step needs two sums over images, the semantic
step is one independent convex problem for each tag.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag import _kernels
from prototag.coding.losses import TagLoss
from prototag.engine import threads

Floats = npt.NDArray[np.float32]
TAGS = 8  # tags per block: few enough to share the work evenly


def k_means(
    X: Floats,
    k: int,
    rng: np.random.Generator,
    *,
    max_iter: int = 20,
    tol: float = 1e-4,
    n_jobs: int | None = None,
) -> Floats:
    """Lloyd's algorithm from random rows of X; an empty cluster takes the worst-fitted vector.

    Ours rather than scikit-learn's because its result is the same bits for any number of threads.
    """
    n = len(X)
    centres = X[np.sort(rng.permutation(n)[:k])].copy()
    last = np.inf
    for _ in range(max_iter):
        label, distance = nearest(X, centres, n_jobs=n_jobs)
        size = np.bincount(label, minlength=k)
        empty = np.flatnonzero(size == 0)
        for cluster, image in zip(empty, np.argsort(-distance, kind="stable"), strict=False):
            size[label[image]] -= 1
            label[image], size[cluster], distance[image] = cluster, 1, 0.0
        members = sparse.csr_array((np.ones(n, np.float32), label, np.arange(n + 1)), shape=(n, k))
        sums = members.T @ X
        filled = size > 0
        centres[filled] = sums[filled] / size[filled, None]
        inertia = float(np.maximum(distance, 0).sum())
        if last - inertia <= tol * inertia:
            break
        last = inertia
    return centres


def nearest(
    X: Floats, centres: Floats, *, n_jobs: int | None = None
) -> tuple[npt.NDArray[np.intp], Floats]:
    """For each row of X the number of its nearest centre, and its squared distance."""
    squared = np.einsum("ij,ij->i", X, X)
    half = np.float32(0.5) * np.einsum("ij,ij->i", centres, centres)

    def block(part: slice) -> tuple[Any, Any]:
        nearness = X[part] @ centres.T
        nearness -= half
        label = nearness.argmax(axis=1)
        return label, squared[part] - 2 * nearness[np.arange(len(label)), label]

    parts = threads.map_blocks(block, len(X), size=512, n_jobs=n_jobs)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def to_sphere(D: Floats) -> Floats:
    """Rows at unit length; a row of zeros stays."""
    length = np.linalg.norm(D.astype(np.float64), axis=1, keepdims=True)
    return (D / np.where(length > 0, length, 1)).astype(np.float32)


def to_ball(D: Floats) -> Floats:
    """Rows at unit length at most."""
    length = np.linalg.norm(D.astype(np.float64), axis=1, keepdims=True)
    return (D / np.maximum(length, 1)).astype(np.float32)


def visual_step(
    D: Floats,
    X: Floats,
    codes: sparse.csr_array,
    weights: Floats | None,
    rng: np.random.Generator,
    *,
    sphere: bool,
) -> Floats:
    """One sweep over the visual prototypes in random order: each its block's minimiser."""
    D = D.copy()
    weighted = codes if weights is None else codes.multiply(weights[:, None]).tocsr()
    gram = (weighted.T @ codes).tocsr()  # A^T P A
    target = np.ascontiguousarray(weighted.T @ X)  # A^T P X
    order = rng.permutation(len(D)).astype(np.int32)
    _kernels.visual_sweep(
        gram.indptr.astype(np.int32),
        gram.indices.astype(np.int32),
        gram.data.astype(np.float32),
        target.astype(np.float32),
        order,
        sphere,
        D,
    )
    return D


def initial_semantics(
    codes: sparse.csr_array, Y: sparse.csr_array, *, positive: float, most: float
) -> Floats:
    """``s_k = min(v, sum_i a_ik y_i / sum_i a_ik^2)``, k x t, with present tags at ``positive``."""
    S = (codes.T @ Y).toarray().astype(np.float32) * np.float32(positive)
    squared = np.asarray(codes.multiply(codes).sum(axis=0), np.float32).ravel()
    S /= np.where(squared > 0, squared, 1)[:, None]
    return np.minimum(S, np.float32(most))


def semantic_step(
    S: Floats,
    codes: sparse.csr_array,
    Y: sparse.csr_array,
    rng: np.random.Generator,
    *,
    loss: TagLoss,
    beta1: float,
    rho: float,
    most: float,
    sweeps: int = 1,
    rescale: bool = False,
    n_jobs: int | None = None,
) -> Floats:
    """For each tag, sweeps of exact coordinate descent held near their start by rho."""
    by_tag = S.T.copy(order="C")  # never S itself, whatever its order
    columns, tags = codes.tocsc(), Y.tocsc()
    order = rng.permutation(len(S)).astype(np.int32)
    objective = np.empty(len(by_tag))
    column_start, column_index = columns.indptr.astype(np.int32), columns.indices.astype(np.int32)
    row_start, row_index = codes.indptr.astype(np.int32), codes.indices.astype(np.int32)
    tag_start, tag_index = tags.indptr.astype(np.int32), tags.indices.astype(np.int32)

    def block(part: slice) -> None:
        _kernels.semantic_sweeps(
            column_start,
            column_index,
            columns.data,
            row_start,
            row_index,
            tag_start[part.start : part.stop + 1],
            tag_index,
            order,
            loss.present,
            loss.absent,
            loss.hinge,
            beta1,
            rho,
            most,
            sweeps,
            rescale,
            by_tag[part],
            objective[part],
        )

    threads.map_blocks(block, len(by_tag), size=TAGS, n_jobs=n_jobs)
    return np.ascontiguousarray(by_tag.T)


def revive(
    D: Floats,
    S: Floats,
    X: Floats,
    codes: sparse.csr_array,
    *,
    how: str,
) -> tuple[Floats, Floats]:
    """What becomes of prototypes that no code uses; nothing of it raises the objective.

    "zero" clears their semantics, "reseed" also moves them to the images that are fitted worst,
    "rest" also sets them to zero, where no image finds them, "leave" leaves them alone.
    """
    unused = np.flatnonzero(np.bincount(codes.indices, minlength=len(D)) == 0)
    if how == "leave" or not len(unused):
        return D, S
    D, S = D.copy(), S.copy()
    S[unused] = 0
    if how == "rest":
        D[unused] = 0
    if how == "reseed":
        error = np.linalg.norm(X - codes @ D, axis=1)
        worst = np.argsort(-error, kind="stable")[: len(unused)]
        D[unused[: len(worst)]] = X[worst]
    return D, S
