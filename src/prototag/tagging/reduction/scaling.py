"""Columns to mean 0 and deviation 1, rows to length 1."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from prototag.engine.threads import blocks
from prototag.tagging.reduction.step import ROWS, Step


class ZScore(OneToOneFeatureMixin, Step):
    """Every column with mean 0 and deviation 1; a constant column becomes 0.

    Attributes
    ----------
    mean_, var_, scale_ : arrays of the number of columns
    n_samples_seen_ : int
    """

    _stored: ClassVar[tuple[str, ...]] = ("mean_", "var_", "scale_", "n_samples_seen_")

    def fit(self, X: Any, y: object = None) -> ZScore:  # noqa: ARG002
        """Learn mean and deviation of the columns."""
        X = self._check(X, reset=True)
        self._forget()
        for rows in blocks(len(X), ROWS):
            self._add(X[rows])
        return self

    def partial_fit(self, X: Any, y: object = None) -> ZScore:  # noqa: ARG002
        """Learn from one block of rows more."""
        first = not hasattr(self, "mean_")
        X = self._check(X, reset=first)
        if first:
            self._forget()
        self._add(X)
        return self

    def _forget(self) -> None:
        self.n_samples_seen_ = 0
        self.mean_ = np.zeros(self.n_features_in_)
        self.var_ = np.zeros(self.n_features_in_)

    def _add(self, X: np.ndarray) -> None:
        n, total = len(X), self.n_samples_seen_ + len(X)
        mean = X.mean(axis=0, dtype=np.float64)
        # Chan's update: squares about the two means, and what the means differ by.
        squares = self.var_ * self.n_samples_seen_ + np.square(X - mean).sum(axis=0)
        squares += (mean - self.mean_) ** 2 * (self.n_samples_seen_ * n / total)
        self.mean_ = self.mean_ + (mean - self.mean_) * (n / total)
        self.n_samples_seen_ = total
        self.var_ = squares / total
        deviation = np.sqrt(self.var_)
        noise = 2 * total * np.finfo(np.float64).eps * np.abs(self.mean_)  # of the sums
        self.scale_ = np.where(deviation > noise, deviation, 1.0)

    def transform(self, X: Any) -> np.ndarray:
        """(X - mean) / deviation."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        return (X - self.mean_.astype(X.dtype)) / self.scale_.astype(X.dtype)


class UnitNorm(OneToOneFeatureMixin, Step):
    """Every row divided by its l2 norm; a row of zeros stays."""

    def fit(self, X: Any, y: object = None) -> UnitNorm:  # noqa: ARG002
        """Only the number of columns is learned."""
        self._check(X, reset=True)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """X / ||X||, row by row."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        return X / np.where(norms > 0, norms, 1).astype(X.dtype)
