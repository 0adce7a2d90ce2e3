"""Products whose bits depend on the row alone, so that an image gets the same scores in any batch.

BLAS multiplies one row, a few and many by different code, whose sums end in different bits: a tag
at its threshold would be given in one batch and not in another.
"""

from __future__ import annotations

import numpy as np

from prototag import _kernels
from prototag.arrays import Floats, squares


def product(rows: Floats, matrix: Floats) -> Floats:
    """``rows @ matrix``."""
    found = np.empty((len(rows), matrix.shape[1]), np.float32)
    _kernels.multiply_rows(np.ascontiguousarray(rows, np.float32), matrix, found)
    return found


def likeness(rows: Floats, landmarks: Floats, gamma: float, lengths: Floats) -> Floats:
    """``exp(-gamma ||x - d||^2)``, n x l, with the squared lengths of the landmarks."""
    rows = np.ascontiguousarray(rows, np.float32)
    values = np.empty((len(rows), len(landmarks)), np.float32)
    _kernels.compare_rows(rows, landmarks, values)
    values *= np.float32(2 * gamma)
    values -= np.float32(gamma) * lengths
    values -= np.float32(gamma) * squares(rows)[:, None]
    return np.asarray(np.exp(values, out=values))
