"""Fisher discrimination dictionary learning (FDDL) for groups of exclusive tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Floats
from prototag.mcdl import updates

GRADIENT_STEPS = 5  # of projected gradient on the codes in each alternation


class Group(NamedTuple):
    """The images that have exactly one tag of a group of tags that rarely occur together."""

    X: Floats  # n x m
    tag: npt.NDArray[np.intp]  # n, number of the tag within the group
    D: Floats  # k x m
    atom_tag: npt.NDArray[np.intp]  # k, number of the tag of each atom


def exclusive_groups(
    Y: sparse.csr_array, *, shared: float, size: int
) -> Iterator[npt.NDArray[np.intp]]:
    """Partition the tags into groups of at most ``size`` tags that rarely occur together.

    Two tags exclude each other if at most the share ``shared`` of the rarer tag's images has the
    other. In order of decreasing frequency, each tag joins the first group all of whose tags it
    excludes.
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
    """Return the dictionary, the codes (both in float32) and the objective per alternation."""
    D = group.D
    A = np.zeros((len(group.X), len(group.D)), np.float32)
    history = []
    for _ in range(max_iter):
        A = _update_codes(group, D, A, sparsity, fisher)
        D = _update_atoms(group, D, A)
        history.append(objective(group, D, A, sparsity, fisher))
    return D, A, history


def objective(group: Group, D: Any, A: Any, sparsity: float, fisher: float) -> float:
    """Return the objective of SLED: reconstruction, sparsity and the Fisher criterion."""
    X = group.X
    own = _is_own_atom(group)
    fit = np.square(X - A @ D).sum() + np.square(X - (A * own) @ D).sum()
    for j in range(group.tag.max() + 1):
        foreign = A[group.tag != j][:, group.atom_tag == j] @ D[group.atom_tag == j]
        fit += np.square(foreign).sum()
    inside, between = _means(group, A)
    scatter = np.square(A - inside).sum() - np.square(inside - between).sum() + np.square(A).sum()
    return float(fit + sparsity * np.abs(A).sum() + fisher * scatter)


def _is_own_atom(group: Group) -> npt.NDArray[np.bool_]:
    return np.asarray(group.tag[:, None] == group.atom_tag)  # n x k


def _means(group: Group, A: Floats) -> tuple[Floats, Floats]:
    """Return the mean code of each image's tag, and the mean of all codes."""
    member = (group.tag[:, None] == np.arange(group.tag.max() + 1)).astype(A.dtype)
    count = np.maximum(member.sum(axis=0), 1)
    return ((member.T @ A) / count[:, None])[group.tag], A.mean(axis=0)


def _update_codes(group: Group, D: Floats, A: Floats, sparsity: float, fisher: float) -> Floats:
    """Take projected gradient steps; the step is 1 / L, so none raises the objective."""
    own = _is_own_atom(group)
    gram = D @ D.T
    target = group.X @ D.T
    same = group.atom_tag[:, None] == group.atom_tag  # atoms of one tag
    tag_gram = gram * same
    # L: curvature of the fit by all atoms, of the fits per tag, and of the Fisher term (at most 2).
    bound = 2 * (np.linalg.eigvalsh(gram)[-1] + np.linalg.eigvalsh(tag_gram)[-1] + 2 * fisher)
    step = np.float32(1 / max(bound, 1e-12))
    for _ in range(GRADIENT_STEPS):
        inside, between = _means(group, A)
        # ||x - a_own D||^2 and ||a_j D_j||^2 both couple the atoms of one tag only.
        slope = A @ gram - target + A @ tag_gram - target * own
        slope += np.float32(fisher) * (2 * A - 2 * inside + between)
        A = np.maximum(A - step * (2 * slope + np.float32(sparsity)), 0)
    return A


def _update_atoms(group: Group, D: Floats, A: Floats) -> Floats:
    """Sweep over the atoms: each becomes the minimiser in the unit ball with the others fixed."""
    D = D.copy()
    own = _is_own_atom(group)
    same = group.atom_tag[:, None] == group.atom_tag
    gram = A.T @ A
    gram = gram + gram * same  # the fit by all atoms, and by those of each tag
    target = A.T @ group.X + (A * own).T @ group.X
    for j in np.flatnonzero(np.diag(gram) > 1e-10):
        free = D[j] + (target[j] - gram[j] @ D) / gram[j, j]
        D[j] = updates.to_ball(free[None])[0]
    return D
