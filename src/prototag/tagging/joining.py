"""A ridge regression whose columns may be joined by rows that did not teach the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from prototag.arrays import Floats, Rows
from prototag.engine import one_thread


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
        self.features, self.taught = features, taught
        base = features[:taught]
        with one_thread():
            gram = (base.T @ base).astype(np.float64)
            gram[np.diag_indices_from(gram)] += penalty
            factor = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
            inverse = linalg.cho_solve((factor, True), np.eye(len(gram)), check_finite=False)
            self.inverse = inverse.astype(np.float32)
            self.lever = np.einsum("ij,ij->i", base @ self.inverse, base)
        if centred:
            self.lever += np.float32(1 / taught)

    def column(self, targets: Floats, joined: Rows, values: Floats) -> Part:
        """Learn from the targets of the first rows, and from the values of those that join."""
        F, base, inverse = self.features, self.features[: self.taught], self.inverse
        lever, own = self.lever, np.empty(0, np.float32)
        with one_thread():
            weights = inverse @ (targets @ base + values @ F[joined])
            if len(joined):
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


def _without_own(predicted: Floats, lever: Floats, targets: Floats) -> Floats:
    return np.asarray((predicted - lever * targets) / np.maximum(1 - lever, 1e-3), np.float32)
