"""Ridge regression with extra rows for single targets, by low-rank (Woodbury) updates.

Predictions of rows that a target is fitted to are leave-one-out predictions in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from prototag.arrays import Floats, Rows
from prototag.engine import single_threaded_blas
from prototag.tagging.loo_ridge import loo_predictions


class ColumnFit(NamedTuple):
    """The regression of one target."""

    weights: Floats  # features
    scores: Floats  # rows; leave-one-out scores of those that it was fitted to


class Regression:
    """A ridge regression whose first rows are fitted to all targets, and others to some of them.

    With ``centered`` features and targets the intercept is not penalized; leave-one-out scores then
    exclude an image from the mean, too.

    Attributes
    ----------
    features : array of shape (rows, m)
    n_fit : int
        Number of the first rows, which are fitted to all targets.
    gram, inverse : arrays of shape (m, m)
        The penalized Gram matrix of the first rows, and its inverse.
    leverage : array of n_fit
    """

    def __init__(
        self, features: Floats, n_fit: int, penalty: float, *, centered: bool = False
    ) -> None:
        self.features = features
        self.n_fit = n_fit
        self.mean_leverage = np.float32(1 / n_fit if centered else 0)
        fit_features = features[:n_fit]
        with single_threaded_blas():
            self.gram = fit_features.T @ fit_features
            self.gram[np.diag_indices_from(self.gram)] += np.float32(penalty)
            self.inverse = _inverse(self.gram)
            self.leverage = _leverage(fit_features, self.inverse) + self.mean_leverage

    def extend(self, features: Floats) -> None:
        """Append rows that are fitted to no target yet."""
        self.features = np.concatenate([self.features, features])

    def fit_column(self, targets: Floats, extra_rows: Rows, extra_targets: Floats) -> ColumnFit:
        """Fit one target to the first rows and to ``extra_rows``."""
        F = self.features
        extra = F[extra_rows]
        fit_features = F[: self.n_fit]
        inverse = self.inverse
        leverage = self.leverage
        extra_leverage = np.empty(0, np.float32)
        # With more extra rows than features, new normal equations are smaller than the update.
        refits = len(extra_rows) > F.shape[1]
        with single_threaded_blas():
            if refits:
                inverse = _inverse(self.gram + F[extra_rows].T @ F[extra_rows])
                leverage = _leverage(fit_features, inverse) + self.mean_leverage
                extra_leverage = _leverage(extra, inverse)
            weights = inverse @ (targets @ fit_features + extra_targets @ extra)
            if len(extra_rows) and not refits:
                projected = extra @ inverse
                inner = projected @ extra.T
                core = np.linalg.inv(np.eye(len(extra_rows)) + inner.astype(np.float64))
                core = core.astype(np.float32)
                weights -= (core @ (extra @ weights)) @ projected
                cross = fit_features @ projected.T
                leverage = leverage - np.einsum("ij,ij->i", cross @ core, cross)
                extra_leverage = np.diag(inner) - np.einsum("ij,ij->i", inner @ core, inner)
            scores = F @ weights
        scores[: self.n_fit] = loo_predictions(scores[: self.n_fit], leverage, targets)
        scores[extra_rows] = loo_predictions(scores[extra_rows], extra_leverage, extra_targets)
        return ColumnFit(weights, scores)


def _inverse(gram: Floats) -> Floats:
    factor = linalg.cholesky(gram.astype(np.float64), lower=True, check_finite=False)
    inverse = linalg.cho_solve((factor, True), np.eye(len(gram)), check_finite=False)
    return np.asarray(inverse, np.float32)


def _leverage(rows: Floats, inverse: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", rows @ inverse, rows), np.float32)
