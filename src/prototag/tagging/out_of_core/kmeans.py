"""Rounds of k-means as sums over blocks: an image belongs to the nearest mean of its fold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Floats, Rows
from prototag.engine import Engine, batch_slices, tree_sum
from prototag.engine.task_names import batch_name
from prototag.tagging.out_of_core.features import BLOCK

INNER = 2048  # rows compared with all means at once


class Means(NamedTuple):
    """What some images add to the means of their folds."""

    sums: Floats  # k x m
    size: Array  # k


@batch_name("Find nearest means")
def closest(x: Floats, folds: Rows, centres: Floats, fold_of: Rows) -> tuple[Rows, Floats]:
    """For each image of a block the nearest mean of its own fold, and the squared distance."""
    label = np.empty(len(x), np.intp)
    apart = np.empty(len(x), np.float32)
    for fold in np.unique(folds):
        mine = np.flatnonzero(fold_of == fold)
        inside = np.flatnonzero(folds == fold)
        means = centres[mine]
        half = np.float32(0.5) * np.einsum("ij,ij->i", means, means)
        for part in batch_slices(len(inside), INNER):
            rows = inside[part]
            near = x[rows] @ means.T
            near -= half
            best = near.argmax(axis=1)
            label[rows] = mine[best]
            apart[rows] = np.float32(1) - 2 * near[np.arange(len(rows)), best]
    return label, apart


@batch_name("Sum clusters")
def assign(x: Floats, folds: Rows, centres: Floats, fold_of: Rows) -> Means:
    """The sums of the images of a block that are nearest to each mean."""
    label, _ = closest(x, folds, centres, fold_of)
    ones = np.ones(len(x), np.float32)
    k = len(centres)
    members = sparse.csr_array((ones, label, np.arange(len(x) + 1)), shape=(len(x), k))
    return Means(np.asarray(members.T @ x, np.float32), np.bincount(label, minlength=k))


def both(one: Means, other: Means) -> Means:
    return Means(one.sums + other.sums, one.size + other.size)


def refine(engine: Engine, rows: list[Any], centres: Floats, fold_of: Rows, rounds: int) -> Floats:
    """Better means, from rows of unit length and their folds; one without images stays."""
    for _ in range(rounds):
        found = tree_sum(engine, assign, rows, [centres, fold_of], add=both, size=BLOCK)
        used = found.size > 0
        centres = centres.copy()
        centres[used] = found.sums[used] / found.size[used, None]
    return centres
