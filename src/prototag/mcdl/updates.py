"""Algorithm 2: the updates of the visual and semantic prototypes for given codes.

The visual update needs two sums over images. The semantic update is an independent convex problem
for each tag.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from prototag import _kernels
from prototag.arrays import Array, Doubles, Floats, Ints
from prototag.engine import SINGLE_THREAD, Engine, batch_slices, tree_sum
from prototag.engine.task_names import batch_name
from prototag.mcdl.kmeans import sum_batch_size
from prototag.mcdl.settings import SemanticSettings, TagLoss

BATCH_IMAGES = 512  # images whose objective is computed at once
BATCH_TAGS = 8  # tags per batch; small enough to balance the load of threads


def to_sphere(D: Floats) -> Floats:
    """Project rows onto the unit sphere; rows of zeros stay."""
    length = np.linalg.norm(D.astype(np.float64), axis=1, keepdims=True)
    return (D / np.where(length > 0, length, 1)).astype(np.float32)


def to_ball(D: Floats) -> Floats:
    """Project rows onto the unit ball."""
    length = np.linalg.norm(D.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(D / np.maximum(length, 1), np.float32)


def visual_update(
    D: Floats,
    X: Floats,
    codes: sparse.csr_array,
    weights: Floats | None,
    rng: np.random.Generator,
    *,
    sphere: bool,
    engine: Engine = SINGLE_THREAD,
) -> Floats:
    """Minimize over one visual prototype at a time, in random order (block coordinate descent)."""
    size = sum_batch_size(len(X))
    gram, target = tree_sum(engine, _sums_batch, [X, codes, weights], add=_add, size=size)
    D = D.copy()
    _kernels.visual_sweep(
        gram.indptr.astype(np.int32),
        gram.indices.astype(np.int32),
        gram.data.astype(np.float32),
        target.astype(np.float32),
        rng.permutation(len(D)).astype(np.int32),
        sphere,
        D,
    )
    return D


Sums = tuple[sparse.csr_array, Array]


@batch_name("Sum products of codes")
def _sums_batch(x: Floats, codes: sparse.csr_array, weights: Floats | None) -> Sums:
    """Compute ``A^T P A`` and ``A^T P X`` of a batch of images."""
    weighted = codes if weights is None else codes.multiply(weights[:, None]).tocsr()
    gram = sparse.csr_array((weighted.T @ codes).tocsr())
    return gram, np.ascontiguousarray(weighted.T @ x)


def _add(one: Sums, other: Sums) -> Sums:
    return one[0] + other[0], one[1] + other[1]


def initial_semantics(
    codes: sparse.csr_array, Y: sparse.csr_array, *, positive: float, v: float
) -> Floats:
    """Compute ``s_k = min(v, sum_i a_ik y_i / sum_i a_ik^2)`` (k x t), y_i 0 or ``positive``."""
    S = (codes.T @ Y).toarray().astype(np.float32) * np.float32(positive)
    squared = np.asarray(codes.multiply(codes).sum(axis=0), np.float32).ravel()
    S /= np.where(squared > 0, squared, 1)[:, None]
    return np.asarray(np.minimum(S, np.float32(v)))


class SemanticUpdate(NamedTuple):
    """Result of a semantic update."""

    S: Floats  # k x t
    objective: Doubles  # t, loss and sparsity of each tag


def semantic_update(
    S: Floats,
    codes: sparse.csr_array,
    Y: sparse.csr_array,
    rng: np.random.Generator,
    settings: SemanticSettings,
    *,
    rho: float,
    engine: Engine = SINGLE_THREAD,
) -> SemanticUpdate:
    """Minimize over S by exact coordinate descent with the proximal term ``rho ||S - S_0||^2``."""
    by_column = codes.tocsc()
    columns = _Codes(
        by_column.indptr.astype(np.int32, copy=False),
        by_column.indices.astype(np.int32, copy=False),
        by_column.data,
        codes.indptr.astype(np.int32, copy=False),
        codes.indices.astype(np.int32, copy=False),
        rng.permutation(len(S)).astype(np.int32),
    )
    rows = [np.ascontiguousarray(S.T), Y.T.tocsr()]
    parts = engine.map(_semantic_batch, rows, [columns, settings, rho], size=BATCH_TAGS)
    del rows
    updated = np.empty(S.shape, np.float32)
    for part, tags in zip(parts, batch_slices(S.shape[1], BATCH_TAGS), strict=True):
        updated[:, tags] = part.S.T
    return SemanticUpdate(updated, np.concatenate([part.objective for part in parts]))


def tag_objective(
    S: Floats,
    codes: sparse.csr_array,
    Y: sparse.csr_array,
    settings: SemanticSettings,
    engine: Engine = SINGLE_THREAD,
) -> Doubles:
    """Compute loss and sparsity of each tag."""
    without_sweeps = replace(settings, sweeps=0, rescale=False)
    rng = np.random.default_rng(0)  # unused without sweeps
    return semantic_update(S, codes, Y, rng, without_sweeps, rho=0.0, engine=engine).objective


class _Codes(NamedTuple):
    """Codes in the layout of the kernel, and the order in which it visits the prototypes."""

    column_start: Ints
    column_index: Ints
    value: Floats
    row_start: Ints
    row_index: Ints
    order: Ints


@batch_name("Learn semantic prototypes")
def _semantic_batch(
    by_tag: Floats, tags: sparse.csr_array, codes: _Codes, settings: SemanticSettings, rho: float
) -> SemanticUpdate:
    """Update S for a batch of tags; here S has one row per tag."""
    by_tag = by_tag.copy()
    objective = np.empty(len(by_tag))
    loss: TagLoss = settings.loss
    _kernels.semantic_sweeps(
        codes.column_start,
        codes.column_index,
        codes.value,
        codes.row_start,
        codes.row_index,
        tags.indptr.astype(np.int32),
        tags.indices.astype(np.int32),
        codes.order,
        loss.present,
        loss.absent,
        loss.hinge,
        settings.beta1,
        rho,
        settings.v,
        settings.sweeps,
        settings.rescale,
        by_tag,
        objective,
    )
    return SemanticUpdate(by_tag, objective)


def handle_unused(
    D: Floats, S: Floats, X: Floats, codes: sparse.csr_array, *, how: str
) -> tuple[Floats, Floats]:
    """Return D and S after treating prototypes that no code uses, without raising the objective.

    "zero" sets their semantics to zero. "reseed" also moves them to the images with the largest
    reconstruction error. "clear" also sets their vectors to zero, so that no code selects them.
    "leave" changes nothing.
    """
    unused = np.flatnonzero(np.bincount(codes.indices, minlength=len(D)) == 0)
    if how == "leave" or not len(unused):
        return D, S
    D = D.copy()
    S = S.copy()
    S[unused] = 0
    if how == "clear":
        D[unused] = 0
    if how == "reseed":
        error = np.linalg.norm(X - codes @ D, axis=1)
        worst = np.argsort(-error, kind="stable")[: len(unused)]
        D[unused[: len(worst)]] = X[worst]
    return D, S


def objective(
    X: Floats,
    Y: sparse.csr_array,
    D: Floats,
    S: Floats,
    A: sparse.csr_array,
    weight: Floats,
    semantics: SemanticSettings,
    engine: Engine,
) -> tuple[float, ...]:
    """Compute the visual term (weighted by image), the loss, the sparsity term, and their sum."""
    shared = [D, S, semantics.loss]
    rows = [X, Y, A, weight]
    sums = tree_sum(engine, _objective_batch, rows, shared, add=np.add, size=BATCH_IMAGES)
    visual, loss = sums.tolist()
    sparsity = float(semantics.beta1 * S.sum(dtype=np.float64))
    return visual, loss, sparsity, visual + loss + sparsity


@batch_name("Add up the objective")
def _objective_batch(
    x: Floats,
    y: sparse.csr_array,
    a: sparse.csr_array,
    weight: Floats,
    D: Floats,
    S: Floats,
    loss: TagLoss,
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    visual = x - a @ D
    squared = np.einsum("ij,ij->i", visual, visual, dtype=np.float64)
    value = loss.value(y.toarray() > 0, a @ S)
    return np.array([weight @ squared, value.sum()])
