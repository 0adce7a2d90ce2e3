"""Columns to mean 0 and deviation 1, rows to length 1."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from prototag.arrays import Array, unit
from prototag.engine import ONE, total
from prototag.tagging.reduction.transformer import ROWS, Moments, Transformer, together, variances


class ZScore(OneToOneFeatureMixin, Transformer):
    """Every column with mean 0 and deviation 1; a constant column becomes 0.

    Parameters
    ----------
    prior : float, default=0.0
        Draws the variances of columns to their mean, as if so many rows more had shown that: the
        deviations of few rows say little, and divide noise by noise. 0 draws nothing.

    Attributes
    ----------
    mean_, var_, scale_ : arrays of the number of columns
    n_samples_seen_ : int
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "prior": [Interval(Real, 0, None, closed="left")]
    }

    def __init__(self, *, prior: float = 0.0) -> None:
        self.prior = prior

    def fit(self, X: Any, y: object = None) -> ZScore:  # noqa: ARG002
        """Learn mean and deviation of the columns."""
        self._validate_params()
        X = self._check(X, reset=True)
        self._keep(total(ONE, variances, [X], add=together, size=ROWS))
        return self

    def partial_fit(self, X: Any, y: object = None) -> ZScore:  # noqa: ARG002
        """Learn from one block of rows more."""
        first = not hasattr(self, "mean_")
        more = variances(self._check(X, reset=first))
        if not first:
            n = self.n_samples_seen_
            more = Moments(n, self.mean_, self.var_ * n) + more
        self._keep(more)
        return self

    def _keep(self, moments: Moments) -> None:
        self.n_samples_seen_, self.mean_, squares = moments
        self.var_ = squares / self.n_samples_seen_
        deviation = np.sqrt(self.var_)
        # of the sums
        noise = 2 * self.n_samples_seen_ * np.finfo(np.float64).eps * np.abs(self.mean_)
        n, drawn = self.n_samples_seen_, deviation
        if self.prior > 0:
            drawn = np.sqrt((n * self.var_ + self.prior * self.var_.mean()) / (n + self.prior))
        self.scale_ = np.where(deviation > noise, drawn, 1.0)

    def transform(self, X: Any) -> Array:
        """(X - mean) / deviation."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        return np.asarray((X - self.mean_.astype(X.dtype)) / self.scale_.astype(X.dtype))


class UnitNorm(OneToOneFeatureMixin, Transformer):
    """Every row divided by its l2 norm; a row of zeros stays."""

    def fit(self, X: Any, y: object = None) -> UnitNorm:  # noqa: ARG002
        """Only the number of columns is learned."""
        self._check(X, reset=True)
        return self

    def transform(self, X: Any) -> Array:
        """X / ||X||, row by row."""
        check_is_fitted(self)
        return unit(self._check(X, reset=False))
