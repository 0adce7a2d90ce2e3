"""What the transformers share: checked input in float32 or float64, sums over blocks of rows."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from prototag.arrays import Array, Doubles

ROWS = 4096  # in one block


class Transformer(TransformerMixin, BaseEstimator):
    """A transformer of vectors."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    n_features_in_: int

    def _check(self, X: Any, *, reset: bool, least: int = 1) -> Array:
        return np.asarray(
            validate_data(
                self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=least
            )
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class Moments(NamedTuple):
    """Of some rows: how many, their mean, and sums of squares or products about it."""

    n: int
    mean: Doubles  # m
    squares: Doubles  # m, or m x m

    def __add__(self, other: Moments) -> Moments:  # type: ignore[override]
        """Of both together: squares about the two means, and what the means differ by (Chan)."""
        n = self.n + other.n
        step = other.mean - self.mean
        apart = np.outer(step, step) if self.squares.ndim == 2 else step**2
        squares = self.squares + other.squares + apart * (self.n * other.n / n)
        return Moments(n, self.mean + step * (other.n / n), squares)


def variances(x: Array) -> Moments:
    """Moments of a block, column by column."""
    mean = x.mean(axis=0, dtype=np.float64)
    return Moments(len(x), mean, np.square(x - mean).sum(axis=0))


def covariances(x: Array, zscore: Any = None) -> Moments:
    """Moments of a block, of all pairs of columns; of z-scored ones, if that is given."""
    if zscore is not None:
        x = zscore.transform(x)
    mean = x.mean(axis=0, dtype=np.float64)
    centred = x - mean.astype(x.dtype)
    return Moments(len(x), mean, (centred.T @ centred).astype(np.float64))


def together(one: Moments, other: Moments) -> Moments:
    """Of both blocks."""
    return one + other
