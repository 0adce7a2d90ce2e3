"""Orthogonal matching pursuit (OMP) in batches, and the atom update of K-SVD."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from prototag.arrays import Floats, Rows
from prototag.engine import Threads

BATCH_IMAGES = 256
MIN_CORRELATION = 1e-5  # with a unit vector; smaller ones are rounding errors of float32
POWER_ITERATIONS = 4  # for each atom in a sweep


def encode(
    X: Floats, atoms: Floats, nonzeros: int, *, n_jobs: int | None = None
) -> sparse.csr_array:
    """Encode images with at most ``nonzeros`` atoms (unit rows, or zeros) by OMP.

    Each step selects, for every image of a batch, the atom that correlates most with the residual,
    and fits all selected atoms by least squares. An image without residual selects no more.
    """
    shared = [atoms, atoms @ atoms.T, min(nonzeros, len(atoms))]
    parts = Threads(n_jobs).map(encode_batch, [X], shared, size=BATCH_IMAGES)
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def encode_batch(x: Floats, atoms: Floats, gram: Floats, nonzeros: int) -> sparse.csr_array:
    """Encode a batch of images; ``gram`` are the inner products of the atoms."""
    k = len(atoms)
    ridge = np.float32(1e-6)
    first = x @ atoms.T
    correlation = first.copy()
    selected = np.zeros((len(first), nonzeros), np.intp)
    value = np.zeros((len(first), nonzeros), np.float32)
    count = np.zeros(len(first), np.intp)
    rows = np.arange(len(first))
    for step in range(nonzeros):
        size = np.abs(correlation[rows])
        best = size.argmax(axis=1)
        unfinished = size[np.arange(len(rows)), best] > MIN_CORRELATION
        rows = rows[unfinished]
        best = best[unfinished]
        if not len(rows):
            break
        selected[rows, step] = best
        count[rows] = step + 1
        support = selected[rows, : step + 1]
        inner = gram[support[:, :, None], support[:, None, :]]
        inner += ridge * np.eye(step + 1, dtype=np.float32)
        right = np.take_along_axis(first[rows], support, axis=1)
        fit = np.linalg.solve(inner, right[:, :, None])[:, :, 0]
        value[rows, : step + 1] = fit
        code = _to_csr(support, fit, np.full(len(rows), step + 1), k)
        correlation[rows] = first[rows] - code @ gram
        correlation[rows[:, None], support] = 0  # zero except for rounding
    return _to_csr(selected, value, count, k)


def _to_csr(index: Rows, value: Floats, count: Rows, k: int) -> sparse.csr_array:
    used = np.arange(index.shape[1]) < count[:, None]
    start = np.concatenate([[0], np.cumsum(count)])
    code = sparse.csr_array((value[used], index[used], start), shape=(len(index), k))
    code.sort_indices()
    return code


def sweep(
    X: Floats, atoms: Floats, codes: sparse.csr_array, *, iterations: int = POWER_ITERATIONS
) -> tuple[Floats, sparse.csr_array]:
    """Update one atom after the other, with its coefficients, to fit the residual (K-SVD).

    The optimum is the first singular pair of the residual of the images that use the atom. The
    power method moves the atom toward it without raising the squared error. An atom that no image
    uses is replaced by the image with the largest residual.
    """
    atoms = atoms.copy()
    columns = codes.tocsc()
    residual = X - codes @ atoms
    for j in range(len(atoms)):
        span = slice(columns.indptr[j], columns.indptr[j + 1])
        rows = columns.indices[span]
        value = columns.data[span]
        if not len(rows):
            worst = int(np.einsum("ij,ij->i", residual, residual).argmax())
            length = np.linalg.norm(X[worst])
            atoms[j] = X[worst] / length if length > 0 else 0
            continue
        own = residual[rows] + value[:, None] * atoms[j]
        for _ in range(iterations):
            direction = value @ own
            length = np.linalg.norm(direction)
            if length <= MIN_CORRELATION:
                break
            atoms[j] = direction / length
            value = own @ atoms[j]
        columns.data[span] = value
        residual[rows] = own - value[:, None] * atoms[j]
    return atoms, columns.tocsr()
