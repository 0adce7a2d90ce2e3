"""A ridge regression whose columns may be joined by rows that did not teach the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from prototag.arrays import Floats, Rows
from prototag.engine import single_threaded_blas


class Part(NamedTuple):
    """One column of a regression: its weights, and what it predicts."""

    weights: Floats
    scores: Floats  # of all rows; of those that taught it as if they had not


class Regression:
    """A ridge over features of all rows. The first rows teach every column, others may join one.

    With ``centred`` features and targets the constant is free of the penalty, as if it had been
    learned too: a picture that is left out takes its part of the mean with it.
    """

    def __init__(
        self, features: Floats, taught: int, penalty: float, *, centred: bool = False
    ) -> None:
        self.features = features
        self.taught = taught
        self.mean_part = np.float32(1 / taught if centred else 0)
        base = features[:taught]
        with single_threaded_blas():
            self.gram = base.T @ base
            self.gram[np.diag_indices_from(self.gram)] += np.float32(penalty)
            self.inverse = _inverse(self.gram)
            self.lever = _levers(base, self.inverse) + self.mean_part

    def extend(self, features: Floats) -> None:
        """More rows, which teach nothing yet."""
        self.features = np.concatenate([self.features, features])

    def column(self, targets: Floats, joined: Rows, values: Floats) -> Part:
        """Learn from the targets of the first rows, and from the values of those that join."""
        F = self.features
        base = self.features[: self.taught]
        inverse = self.inverse
        lever = self.lever
        own = np.empty(0, np.float32)
        many = len(joined) > F.shape[1]  # then the normal equations are smaller than what joins
        with single_threaded_blas():
            if many:
                inverse = _inverse(self.gram + F[joined].T @ F[joined])
                lever = _levers(base, inverse) + self.mean_part
                own = _levers(F[joined], inverse)
            weights = inverse @ (targets @ base + values @ F[joined])
            if len(joined) and not many:
                moved = F[joined] @ inverse
                inner = moved @ F[joined].T
                small = np.linalg.inv(np.eye(len(joined)) + inner.astype(np.float64))
                small = small.astype(np.float32)
                weights -= (small @ (F[joined] @ weights)) @ moved
                reach = base @ moved.T
                lever = lever - np.einsum("ij,ij->i", reach @ small, reach)
                own = np.diag(inner) - np.einsum("ij,ij->i", inner @ small, inner)
            scores = F @ weights
        scores[: self.taught] = _without_own(scores[: self.taught], lever, targets)
        scores[joined] = _without_own(scores[joined], own, values)
        return Part(weights, scores)


def _inverse(gram: Floats) -> Floats:
    factor = linalg.cholesky(gram.astype(np.float64), lower=True, check_finite=False)
    inverse = linalg.cho_solve((factor, True), np.eye(len(gram)), check_finite=False)
    return np.asarray(inverse, np.float32)


def _levers(rows: Floats, inverse: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", rows @ inverse, rows), np.float32)


def _without_own(predicted: Floats, lever: Floats, targets: Floats) -> Floats:
    return np.asarray((predicted - lever * targets) / np.maximum(1 - lever, 1e-3), np.float32)
