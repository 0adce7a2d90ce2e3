"""MCSC, marginalised coupled sparse coding: codes that have to explain a picture and its tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prototag.arrays import Array, Doubles, Floats
from prototag.coding.buffers import PathEnds
from prototag.coding.coder import BATCH_IMAGES, Coder, Encoded
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
    opening: bool = False,
    drop: float = 0.0,
    engine: Engine = SINGLE_THREAD,
) -> Encoded:
    """Codes of images with their tags, from the codes of the iteration before.

    Each pass replaces the loss by working targets that majorise it at the current scores, and
    solves the lasso on ``[x | target]``. The first and the last pass are certified over all
    prototypes; those between are solved over the candidates that the first one left. A code is
    taken only if it lowers its image's cost ``||x - a D||^2 + (lam / p) loss``: so the cost never
    rises, also where the cap cuts the path.
    ``opening``: in the first pass every margin counts as violated. ``drop``: entries of the result
    up to this size are left out, unless that would raise the cost above that of ``codes``.
    """
    parts = engine.map(
        _code_batch,
        [X, Y, label_weight, codes],
        [coder, loss, passes, opening, drop],
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
    opening: bool,
    drop: float,
) -> PathEnds:
    m = coder.m
    y = tags.toarray().astype(bool)
    product = codes @ coder.rows
    visual = x - product[:, :m]
    scores = product[:, m:]
    best = _cost(loss, y, visual, scores, w)
    before = best.copy()
    kept = PathEnds.from_codes(codes, coder.max_nonzeros, coder.rows.shape[1])
    candidates = None
    for number in range(passes):
        first = opening and number == 0
        target = loss.goals(y) if first else loss.targets(y, scores)
        if candidates is None:
            candidates = coder.screen(np.hstack([visual, w[:, None] * (target - scores)]))
        stacked = np.hstack([x, target])
        if number in (0, passes - 1):
            paths = coder.solve(stacked, w, candidates)
            if passes > 2 and number == 0:  # what is closest to joining is right for what follows
                candidates = coder.screen(paths.residual)
        else:
            paths = coder.follow(stacked, w, candidates)
        new_visual = paths.residual[:, :m]
        new_scores = target - paths.residual[:, m:] / w[:, None]
        new = _cost(loss, y, new_visual, new_scores, w)
        better = np.flatnonzero(new < best)
        kept.put(better, paths.take(better))
        visual[better] = new_visual[better]
        scores[better] = new_scores[better]
        best[better] = new[better]
    if drop > 0:
        trimmed = kept._replace(value=np.where(kept.value > drop, kept.value, np.float32(0)))
        product = trimmed.codes(coder.k) @ coder.rows
        fine = _cost(loss, y, x - product[:, :m], product[:, m:], w) <= before
        kept.value[fine] = trimmed.value[fine]
    return kept


def _cost(loss: TagLoss, y: Array, visual: Floats, scores: Floats, w: Floats) -> Doubles:
    """``||x - a D||^2 + (lam / p) loss`` of each image."""
    squared = np.einsum("ij,ij->i", visual, visual, dtype=np.float64)
    return np.asarray(squared + w * loss.value(y, scores))
