"""Dictionaries of exclusive tags that tell them apart, by the Fisher criterion (FDDL)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Floats
from prototag.mcdl import updates

STEPS = 5  # of projected gradient on the codes in each alternation


class Group(NamedTuple):
    """Images that have exactly one of some tags that seldom meet."""

    X: Floats  # n x m
    tag: npt.NDArray[np.intp]  # n, number within the group
    D: Floats  # k x m
    owner: npt.NDArray[np.intp]  # k, the tag each atom belongs to


def exclusive_groups(
    Y: sparse.csr_array, *, shared: float, size: int
) -> Iterator[npt.NDArray[np.intp]]:
    """Cut the tags into groups of at most ``size`` that hardly occur together.

    Two tags exclude each other where the rarer has the other on at most the share ``shared`` of its
    images. Tags join, the most frequent first, the first group that has none they do not exclude.
    """
    together = (Y.T @ Y).toarray()
    images = np.diag(together)
    rarer = np.maximum(np.minimum(images[:, None], images[None, :]), 1)
    excludes = together <= shared * rarer
    groups: list[list[int]] = []
    for tag in np.argsort(-images, kind="stable"):
        if images[tag]:
            fits = (g for g in groups if len(g) < size and excludes[tag, g].all())
            group = next(fits, None)
            if group is None:
                groups.append([int(tag)])
            else:
                group.append(int(tag))
    return (np.array(group) for group in groups)


def learn(
    group: Group, *, sparsity: float, fisher: float, max_iter: int
) -> tuple[Floats, Floats, list[float]]:
    """Dictionary, codes (both in float32) and objective after each alternation."""
    D = group.D
    A = np.zeros((len(group.X), len(group.D)), np.float32)
    history = []
    for _ in range(max_iter):
        A = _code(group, D, A, sparsity, fisher)
        D = _atoms(group, D, A)
        history.append(objective(group, D, A, sparsity, fisher))
    return D, A, history


def objective(group: Group, D: Any, A: Any, sparsity: float, fisher: float) -> float:
    """``sum_i ||x - a D||^2 + ||x - a_own D||^2 + sum_other ||a_j D_j||^2 + ...``, see SLED."""
    X = group.X
    own = _own(group)
    fit = np.square(X - A @ D).sum() + np.square(X - (A * own) @ D).sum()
    for j in range(group.tag.max() + 1):
        stray = A[group.tag != j][:, group.owner == j] @ D[group.owner == j]
        fit += np.square(stray).sum()
    inside, between = _means(group, A)
    scatter = np.square(A - inside).sum() - np.square(inside - between).sum() + np.square(A).sum()
    return float(fit + sparsity * np.abs(A).sum() + fisher * scatter)


def _own(group: Group) -> npt.NDArray[np.bool_]:
    return np.asarray(group.tag[:, None] == group.owner)  # n x k


def _means(group: Group, A: Floats) -> tuple[Floats, Floats]:
    """The mean code of each image's tag, and that of all."""
    member = (group.tag[:, None] == np.arange(group.tag.max() + 1)).astype(A.dtype)
    count = np.maximum(member.sum(axis=0), 1)
    return ((member.T @ A) / count[:, None])[group.tag], A.mean(axis=0)


def _code(group: Group, D: Floats, A: Floats, sparsity: float, fisher: float) -> Floats:
    """Steps of projected gradient; the step is safe, so each lowers the objective."""
    own = _own(group)
    gram = D @ D.T
    target = group.X @ D.T
    same = group.owner[:, None] == group.owner  # blocks of atoms of one tag
    blocks = gram * same
    # Curvature: the fit to all, that within blocks, and Fisher's (which is 2 at most).
    bound = 2 * (np.linalg.eigvalsh(gram)[-1] + np.linalg.eigvalsh(blocks)[-1] + 2 * fisher)
    step = np.float32(1 / max(bound, 1e-12))
    for _ in range(STEPS):
        inside, between = _means(group, A)
        # Whether own (||x - a_own D||^2) or stray (||a_j D_j||^2), a part meets its own block.
        slope = A @ gram - target + A @ blocks - target * own
        slope += np.float32(fisher) * (2 * A - 2 * inside + between)
        A = np.maximum(A - step * (2 * slope + np.float32(sparsity)), 0)
    return A


def _atoms(group: Group, D: Floats, A: Floats) -> Floats:
    """One sweep over the atoms, each the minimiser in the unit ball with all others fixed."""
    D, own = D.copy(), _own(group)
    same = group.owner[:, None] == group.owner
    gram = A.T @ A
    gram = gram + gram * same  # fit to all, and of each block alone
    target = A.T @ group.X + (A * own).T @ group.X
    for j in np.flatnonzero(np.diag(gram) > 1e-10):
        free = D[j] + (target[j] - gram[j] @ D) / gram[j, j]
        D[j] = updates.to_ball(free[None])[0]
    return D
