"""The rows of an incremental tagger: arrays with one row for each example or pool image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Array, Floats
from prototag.tagging.incremental.fit_state import UNDECIDED


@dataclass(eq=False)
class Rows:
    """Labels, vectors, codes and scores of the examples of a fit, followed by the pool.

    Scores of rows that a tag was fitted to are held-out scores.
    """

    labels: npt.NDArray[np.int8]  # rows x t, HAS, LACKS or UNDECIDED
    X: Floats  # rows x m
    vectors: Floats  # rows x width, unit length
    codes: sparse.csr_array  # rows x k
    fit_kernel_scores: Floats  # rows x t, scores of the kernel regression by the fit
    fit_raw: Floats  # rows x t, scores of all parts by the fit
    raw: Floats  # rows x t, the same with all updates

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_tags(self) -> int:
        """Number of tags, those added since the fit included."""
        return int(self.labels.shape[1])

    def append(self, other: Rows) -> None:
        """Append the rows of ``other``, which has the same tags."""
        self.labels = np.concatenate([self.labels, other.labels])
        self.X = np.concatenate([self.X, other.X])
        self.vectors = np.concatenate([self.vectors, other.vectors])
        self.codes = sparse.csr_array(sparse.vstack([self.codes, other.codes], format="csr"))
        self.fit_kernel_scores = np.concatenate([self.fit_kernel_scores, other.fit_kernel_scores])
        self.fit_raw = np.concatenate([self.fit_raw, other.fit_raw])
        self.raw = np.concatenate([self.raw, other.raw])

    def add_column(self) -> None:
        """Add a tag without labels, whose scores are 0."""
        self.labels = widen(self.labels, 1, UNDECIDED)
        self.fit_kernel_scores = widen(self.fit_kernel_scores, 1)
        self.fit_raw = widen(self.fit_raw, 1)
        self.raw = widen(self.raw, 1)


def widen(array: Array, count: int, value: float = 0.0) -> Array:
    """Append columns that hold one value."""
    return np.hstack([array, np.full((len(array), count), value, array.dtype)])
