"""Fisher discrimination dictionary learning (FDDL) for exclusive tags, and shared atoms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Floats, Rows
from prototag.mcdl import updates

GRADIENT_STEPS = 5  # of proximal gradient on the codes in each alternation
SHARED = -1  # in place of the tag of an atom


class Group(NamedTuple):
    """The images that have exactly one tag of a group of tags that rarely occur together."""

    X: Floats  # n x m
    tag: npt.NDArray[np.intp]  # n, number of the tag within the group
    D: Floats  # k x m
    atom_tag: npt.NDArray[np.intp]  # k, number of the tag of each atom, or SHARED


class Penalties(NamedTuple):
    """The weights of the criterion of :func:`objective`."""

    sparsity: float
    fisher: float
    incoherence: float = 0.0
    low_rank: float = 0.0


def learn(
    group: Group, penalties: Penalties, *, max_iter: int
) -> tuple[Floats, Floats, list[float]]:
    """Return the dictionary, the codes (both in float32) and the objective per alternation."""
    D = group.D
    A = np.zeros((len(group.X), len(group.D)), np.float32)
    history = []
    for _ in range(max_iter):
        A = _update_codes(group, D, A, penalties)
        D = _update_atoms(group, D, A, penalties)
        history.append(objective(group, D, A, penalties))
    return D, A, history


def objective(group: Group, D: Any, A: Any, penalties: Penalties) -> float:
    """Return the criterion

        sum_i ||x_i - a_i D||^2 + ||x_i - a_i^0 D_0 - a_i^own D_own||^2
              + sum_(c not own) ||a_i^c D_c||^2
              + sparsity ||A||_1 + fisher (S_W - S_B + ||A||^2 + ||A^0 - mean||^2)
              + incoherence sum_(c < c') ||D_c D_c''||^2 + low_rank ||D_0||_*

    where D_0 are shared atoms (c = 0 in the sum of incoherence), S_W, S_B and ``||A||^2`` are the
    scatter within and between tags and the squares of the codes of the other atoms, and the mean
    is that of all images. Without D_0 and incoherence this is FDDL; with D_0 and without
    incoherence it is twice LRSDL (Vu and Monga, TIP 2017).
    """
    X = group.X
    own, shared, same = _masks(group)
    foreign = A * ~own
    fit = np.square(X - A @ D).sum() + np.square(X - (A * own) @ D).sum()
    # Codes of other tags' atoms: the reconstructions of two tags do not add.
    fit += np.vdot(foreign.T @ foreign, (D @ D.T) * same)
    inside, mean = _means(group, A)
    within = np.square(A - inside).sum(axis=0)
    between = np.square(inside - mean).sum(axis=0)
    squares = np.square(A).sum(axis=0)
    scatter = np.where(shared, np.square(A - mean).sum(axis=0), within - between + squares).sum()
    coherence = np.square(np.where(same, 0, D @ D.T)).sum() / 2
    rank = np.linalg.svd(D[shared], compute_uv=False).sum() if shared.any() else 0
    return float(
        fit
        + penalties.sparsity * np.abs(A).sum()
        + penalties.fisher * scatter
        + penalties.incoherence * coherence
        + penalties.low_rank * rank
    )


def _masks(group: Group) -> tuple[Any, Any, Any]:
    """Return own or shared atoms of images (n x k), shared atoms (k), atoms of one tag (k x k)."""
    shared = group.atom_tag == SHARED
    own = (group.tag[:, None] == group.atom_tag) | shared
    return own, shared, group.atom_tag[:, None] == group.atom_tag


def _means(group: Group, A: Floats) -> tuple[Floats, Floats]:
    """Return the mean code of each image's tag, and the mean of all codes."""
    member = (group.tag[:, None] == np.arange(group.tag.max() + 1)).astype(A.dtype)
    count = np.maximum(member.sum(axis=0), 1)
    return ((member.T @ A) / count[:, None])[group.tag], A.mean(axis=0)


def codes_gradient(group: Group, D: Floats, A: Floats, penalties: Penalties) -> Floats:
    """Return half the gradient of the smooth part of the criterion in the codes."""
    own, shared, same = _masks(group)
    gram = D @ D.T
    target = group.X @ D.T
    inside, mean = _means(group, A)
    slope = A @ gram - target
    slope += own * ((A * own) @ gram - target) + (A * ~own) @ (gram * same)
    slope += np.float32(penalties.fisher) * np.where(shared, A - mean, 2 * A - 2 * inside + mean)
    return np.asarray(slope, A.dtype)


def _update_codes(group: Group, D: Floats, A: Floats, penalties: Penalties) -> Floats:
    """Take proximal gradient steps; the step is 1 / L, so none raises the objective."""
    # L: curvature of the fit by all atoms, of the fits per tag, and of the Fisher term (at most 2).
    bound = 2 * (2 * np.linalg.eigvalsh(D @ D.T)[-1] * (1 + 1e-5) + 2 * penalties.fisher)
    step = np.float32(1 / max(bound, 1e-12))
    for _ in range(GRADIENT_STEPS):
        moved = A - 2 * step * codes_gradient(group, D, A, penalties)
        A = np.sign(moved) * np.maximum(np.abs(moved) - step * np.float32(penalties.sparsity), 0)
    return A


def _update_atoms(group: Group, D: Floats, A: Floats, penalties: Penalties) -> Floats:
    """Sweep over the atoms of tags, in the unit ball, then take a proximal step on shared atoms.

    Without incoherence each atom becomes the minimiser with the others fixed. With it, the
    curvature of the incoherence is bounded by the squares of the other atoms.
    """
    D = D.copy()
    own, shared, same = _masks(group)
    own_codes = A * own
    foreign = A * ~own
    gram = A.T @ A + own_codes.T @ own_codes + (foreign.T @ foreign) * same
    target = A.T @ group.X + own_codes.T @ group.X
    weight = np.float32(penalties.incoherence)
    for j in np.flatnonzero((np.diag(gram) > 1e-10) & ~shared):
        slope = gram[j] @ D - target[j]
        curvature = gram[j, j]
        if weight:
            others = D[~same[j]]
            slope += weight * ((others @ D[j]) @ others)
            curvature += weight * np.square(others).sum()
        D[j] = updates.to_ball((D[j] - slope / curvature)[None])[0]
    if shared.any():
        D[shared] = _update_shared(D, gram[shared], target[shared], shared, penalties)
    return D


def _update_shared(D: Floats, gram: Floats, target: Floats, shared: Rows, penalties: Any) -> Floats:
    """Take a gradient step on the shared atoms and shrink their singular values."""
    weight = np.float32(penalties.incoherence)
    tags = D[~shared]
    slope = gram @ D - target + weight * ((D[shared] @ tags.T) @ tags)
    bound = np.linalg.eigvalsh(gram[:, shared])[-1] * (1 + 1e-5) + weight * np.square(tags).sum()
    if bound <= 1e-10:
        return D[shared]
    U, values, V = np.linalg.svd(D[shared] - slope / np.float32(bound), full_matrices=False)
    values = np.maximum(values - penalties.low_rank / (2 * bound), 0)
    return np.asarray((U * values) @ V, np.float32)


def collect_group(
    X: Floats,
    Y: sparse.csr_array,
    tags: Rows,
    atoms: Floats,
    atom_tag: Rows,
    rng: np.random.Generator,
    *,
    max_images_per_tag: int,
) -> Group | None:
    """Return the images with exactly one tag of a group and its atoms; None without any image.

    ``atom_tag`` has the position of each atom's tag in ``tags``, or SHARED. A random sample of at
    most ``max_images_per_tag`` images represents each tag.
    """
    has = Y[:, tags].toarray() > 0
    single = np.flatnonzero(has.sum(axis=1) == 1)
    single = rng.permutation(single)
    label = has[single].argmax(axis=1)
    kept = np.sort(
        np.concatenate(
            [single[label == number][:max_images_per_tag] for number in range(len(tags))]
        )
    )
    if not len(kept):
        return None
    return Group(X[kept], has[kept].argmax(axis=1), atoms, atom_tag)


def learn_batch(groups: list[Group], penalties: Penalties, max_iter: int) -> list[Floats]:
    """Learn the dictionaries of a batch of groups."""
    return [learn(group, penalties, max_iter=max_iter)[0] for group in groups]
