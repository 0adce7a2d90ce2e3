"""Orthogonal matching pursuit for many images at once, and the atoms of K-SVD."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from prototag.arrays import Bools, Floats, Rows
from prototag.engine import Threads

BLOCK = 256
NOTHING = 1e-5  # a correlation with a unit vector that is nothing but noise
TURNS = 4  # of the power method for each atom in a sweep


def pursue(
    X: Floats, atoms: Floats, nonzeros: int, *, n_jobs: int | None = None
) -> sparse.csr_array:
    """Codes of at most ``nonzeros`` atoms (unit rows, or zeros), by orthogonal matching pursuit.

    Each step takes, for every image of a block, the atom most correlated with what is left of it,
    and fits all atoms taken so far by least squares. An image that is fitted takes no more.
    """
    shared = [atoms, atoms @ atoms.T, min(nonzeros, len(atoms))]
    parts = Threads(n_jobs).map(pursue_block, [X], shared, size=BLOCK)
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def pursue_block(x: Floats, atoms: Floats, gram: Floats, nonzeros: int) -> sparse.csr_array:
    """Codes of a block of images; ``gram`` are the inner products of the atoms."""
    k = len(atoms)
    ridge = np.float32(1e-6)
    first = x @ atoms.T
    left = first.copy()
    taken = np.zeros((len(first), nonzeros), np.intp)
    value = np.zeros((len(first), nonzeros), np.float32)
    count = np.zeros(len(first), np.intp)
    rows = np.arange(len(first))
    for step in range(nonzeros):
        size = np.abs(left[rows])
        best = size.argmax(axis=1)
        rows, best = _kept(rows, best, size[np.arange(len(rows)), best] > NOTHING)
        if not len(rows):
            break
        taken[rows, step] = best
        count[rows] = step + 1
        chosen = taken[rows, : step + 1]
        inner = gram[chosen[:, :, None], chosen[:, None, :]]
        inner += ridge * np.eye(step + 1, dtype=np.float32)
        right = np.take_along_axis(first[rows], chosen, axis=1)
        fit = np.linalg.solve(inner, right[:, :, None])[:, :, 0]
        value[rows, : step + 1] = fit
        code = _code(chosen, fit, np.full(len(rows), step + 1), k)
        left[rows] = first[rows] - code @ gram
        left[rows[:, None], chosen] = 0  # exact but for rounding
    return _code(taken, value, count, k)


def _kept(rows: Rows, best: Rows, keep: Bools) -> tuple[Rows, Rows]:
    return rows[keep], best[keep]


def _code(index: Rows, value: Floats, count: Rows, k: int) -> sparse.csr_array:
    used = np.arange(index.shape[1]) < count[:, None]
    start = np.concatenate([[0], np.cumsum(count)])
    code = sparse.csr_array((value[used], index[used], start), shape=(len(index), k))
    code.sort_indices()
    return code


def sweep(
    X: Floats, atoms: Floats, codes: sparse.csr_array, *, turns: int = TURNS
) -> tuple[Floats, sparse.csr_array]:
    """K-SVD's update: each atom in turn, with its own coefficients, the best for what others leave.

    That is the first singular pair of the residual of the images that use the atom; the power
    method turns the atom toward it, and never away, so the squared error never rises. An atom that
    no image uses becomes the image that is fitted worst.
    """
    atoms, columns = atoms.copy(), codes.tocsc()
    left = X - codes @ atoms
    for j in range(len(atoms)):
        span = slice(columns.indptr[j], columns.indptr[j + 1])
        rows = columns.indices[span]
        value = columns.data[span]
        if not len(rows):
            worst = int(np.einsum("ij,ij->i", left, left).argmax())
            length = np.linalg.norm(X[worst])
            atoms[j] = X[worst] / length if length > 0 else 0
            continue
        own = left[rows] + value[:, None] * atoms[j]
        for _ in range(turns):
            turned = value @ own
            length = np.linalg.norm(turned)
            if length <= NOTHING:
                break
            atoms[j] = turned / length
            value = own @ atoms[j]
        columns.data[span] = value
        left[rows] = own - value[:, None] * atoms[j]
    return atoms, columns.tocsr()
