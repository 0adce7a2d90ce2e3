"""Marginalized coupled sparse coding (MCSC): codes that reconstruct an image and its tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prototag.arrays import Array, Doubles, Floats
from prototag.coding.coder import BATCH_IMAGES, Coder, Encoded, PathEnds
from prototag.engine import SINGLE_THREAD, Engine
from prototag.engine.task_names import batch_name
from prototag.mcdl.settings import TagLoss

if TYPE_CHECKING:
    from scipy import sparse


def coupled_encode(
    coder: Coder,
    X: Floats,
    Y: sparse.csr_array,
    codes: sparse.csr_array,
    *,
    loss: TagLoss,
    label_weight: Floats,
    passes: int,
    all_violated: bool = False,
    drop: float = 0.0,
    engine: Engine = SINGLE_THREAD,
) -> Encoded:
    """Encode images with their tags by majorize-minimize, starting from ``codes``.

    Each pass replaces the loss by a quadratic majorizer at the current scores (working targets),
    and solves the lasso on ``[x | target]``. The first and the last pass are certified over all
    prototypes; the passes between use the candidates of the first one. A cost code is accepted only
    if it lowers its image's cost ``||x - a D||^2 + (lam / p) loss``, so the cost never rises, even
    if ``max_nonzeros`` cuts the path.

    Parameters
    ----------
    label_weight : array of shape (n,)
        ``lam / p_i``.
    all_violated : bool
        Whether the first pass treats every margin as violated.
    drop : float
        Entries up to this size are removed, unless this raises the cost above that of ``codes``.
    """
    parts = engine.map(
        _code_batch,
        [X, Y, label_weight, codes],
        [coder, loss, passes, all_violated, drop],
        size=BATCH_IMAGES,
    )
    return coder.collect(parts)


@batch_name("Code images with their tags")
def _code_batch(
    x: Floats,
    tags: sparse.csr_array,
    w: Floats,
    codes: sparse.csr_array,
    coder: Coder,
    loss: TagLoss,
    passes: int,
    all_violated: bool,
    drop: float,
) -> PathEnds:
    m = coder.m
    y = tags.toarray().astype(bool)
    product = codes @ coder.rows
    visual = x - product[:, :m]
    scores = product[:, m:]
    best_cost = _cost(loss, y, visual, scores, w)
    initial_cost = best_cost.copy()
    best_paths = PathEnds.from_codes(codes, coder.max_nonzeros, coder.rows.shape[1])
    candidates = None
    for number in range(passes):
        at_margins = all_violated and number == 0
        target = loss.goals(y) if at_margins else loss.targets(y, scores)
        if candidates is None:
            candidates = coder.screen(np.hstack([visual, w[:, None] * (target - scores)]))
        stacked = np.hstack([x, target])
        if number in (0, passes - 1):
            paths = coder.solve(stacked, w, candidates)
            if (
                passes > 2 and number == 0
            ):  # the next passes enter what correlates with the residual
                candidates = coder.screen(paths.residual)
        else:
            paths = coder.follow(stacked, w, candidates)
        new_visual = paths.residual[:, :m]
        new_scores = target - paths.residual[:, m:] / w[:, None]
        cost = _cost(loss, y, new_visual, new_scores, w)
        improved = np.flatnonzero(cost < best_cost)
        best_paths.put(improved, paths.take(improved))
        visual[improved] = new_visual[improved]
        scores[improved] = new_scores[improved]
        best_cost[improved] = cost[improved]
    if drop > 0:
        trimmed = best_paths._replace(
            value=np.where(best_paths.value > drop, best_paths.value, np.float32(0))
        )
        product = trimmed.codes(coder.k) @ coder.rows
        accepted = _cost(loss, y, x - product[:, :m], product[:, m:], w) <= initial_cost
        best_paths.value[accepted] = trimmed.value[accepted]
    return best_paths


def _cost(loss: TagLoss, y: Array, visual: Floats, scores: Floats, w: Floats) -> Doubles:
    """Compute ``||x - a D||^2 + (lam / p) loss`` of each image."""
    squared = np.einsum("ij,ij->i", visual, visual, dtype=np.float64)
    return np.asarray(squared + w * loss.value(y, scores))
