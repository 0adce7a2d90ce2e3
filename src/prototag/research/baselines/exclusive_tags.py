"""Groups of tags that rarely occur together: a greedy partition, and dense subgraphs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Array, Rows

REPLICATOR_STEPS = 200
EXPANSIONS = 20
MIN_MASS = 1e-3  # of a tag in a group, relative to the largest
MIN_GAIN = 1e-6  # of density by which a tag joins


def partition(Y: sparse.csr_array, *, shared: float, size: int) -> Iterator[npt.NDArray[np.intp]]:
    """Partition the tags into groups of at most ``size`` tags that rarely occur together.

    Two tags exclude each other if at most the share ``shared`` of the rarer tag's images has the
    other. In order of decreasing frequency, each tag joins the first group all of whose tags it
    excludes.
    """
    together, images = _counts(Y)
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


def exclusiveness(Y: sparse.csr_array) -> Array:
    """Return ``1 - n_cc' / min(n_c, n_c')``, t x t; 0 on the diagonal and for unused tags."""
    together, images = _counts(Y)
    rarer = np.minimum(images[:, None], images[None, :])
    E = np.where(rarer > 0, 1 - together / np.maximum(rarer, 1), 0)
    np.fill_diagonal(E, 0)
    return np.asarray(E)


def graph_shift(Y: sparse.csr_array, *, size: int) -> list[npt.NDArray[np.intp]]:
    """Cover the tags by overlapping dense subgraphs of :func:`exclusiveness` of at most ``size``.

    In order of decreasing frequency, each tag that is in no group yet starts one. Of equal gains,
    tags in no group are preferred, then frequent ones. A tag that its own subgraph expels is a
    group of its own.
    """
    E = exclusiveness(Y)
    images = _counts(Y)[1]
    order = np.argsort(-images, kind="stable")
    order = order[images[order] > 0]
    groups: list[npt.NDArray[np.intp]] = []
    covered = np.zeros(len(images), bool)
    for tag in order:
        if covered[tag]:
            continue
        preferred = order[np.argsort(covered[order], kind="stable")]
        mass, _ = dense_subgraph(E, int(tag), preferred, size)
        group = np.flatnonzero(mass)
        if not mass[tag]:
            group = np.array([tag])
        covered[group] = True
        if not any(np.array_equal(group, other) for other in groups):
            groups.append(group)
    return groups


def dense_subgraph(E: Array, start: int, order: Rows, size: int) -> tuple[Array, list[float]]:
    """Raise ``s' E s`` over the simplex from one tag; return s and the densities on the way.

    Replicator steps ``s <- s * (E s) / (s' E s)`` alternate with expansions to the tags whose gain
    ``(E s)_c`` exceeds the density, the largest gains first (ties in ``order``), until none is
    left. An expansion moves mass toward the new tags as far as the density rises.
    """
    s = np.zeros(len(E))
    s[start] = 1
    densities = [0.0]
    for _ in range(EXPANSIONS):
        gain = E @ s
        outside = order[s[order] == 0]
        outside = outside[gain[outside] > densities[-1] + MIN_GAIN]
        outside = outside[np.argsort(-gain[outside], kind="stable")]
        joining = outside[: size - np.count_nonzero(s)]
        if not len(joining):
            break
        s = _expand(E, s, joining)
        densities.append(float(s @ E @ s))
        for _ in range(REPLICATOR_STEPS):
            s = s * (E @ s) / densities[-1]
            densities.append(float(s @ E @ s))
            if densities[-1] - densities[-2] <= 1e-9:
                break
        s = np.where(s >= MIN_MASS * s.max(), s, 0)
        s /= s.sum()
        densities[-1] = float(s @ E @ s)
    return s, densities


def _expand(E: Array, s: Array, joining: Rows) -> Array:
    """Move mass uniformly to new tags, to the exact maximum of the density on this line."""
    u = np.zeros(len(E))
    u[joining] = 1 / len(joining)
    direction = u - s
    slope = float(s @ E @ direction)
    curvature = float(direction @ E @ direction)
    step = min(-slope / curvature, 1) if curvature < 0 else 1.0
    return np.asarray(s + step * direction)


def _counts(Y: sparse.csr_array) -> tuple[Array, Array]:
    together = (Y.T @ Y).toarray().astype(np.float64)
    return together, np.diag(together).copy()
