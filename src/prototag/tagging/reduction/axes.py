"""The directions of largest variance, exact, in blocks, or by random projections."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from prototag.engine.threads import blocks
from prototag.tagging.reduction.step import ROWS, Step

_SMALL = 2000  # up to this many rows or columns the exact decomposition takes seconds at most
_WIDE = 5000  # up to this many columns their covariance matrix is cheap


class PrincipalAxes(ClassNamePrefixFeaturesOutMixin, Step):
    """Projection on the axes of largest variance (PCA).

    Parameters
    ----------
    n_components : int
        Axes to keep; fewer where rows or columns are fewer.
    solver : {"auto", "exact", "incremental", "randomized"}
        "exact" decomposes the centred matrix. "incremental" sums the covariance over blocks of
        rows, one pass and exact too: for many rows, and with :meth:`partial_fit`. "randomized" is
        for many rows and very many columns. "auto" takes the first that is cheap.
    random_state : int, generator or None
        Of the randomized solver.

    Attributes
    ----------
    mean_ : array of the number of columns
    components_ : array, n_components_ x columns
    explained_variance_, explained_variance_ratio_ : arrays of n_components_
    """

    _stored: ClassVar[tuple[str, ...]] = (
        "mean_",
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "n_samples_seen_",
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "exact", "incremental", "randomized"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self, n_components: int = 200, *, solver: str = "auto", random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.random_state = random_state

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def fit(self, X: Any, y: object = None) -> PrincipalAxes:  # noqa: ARG002
        """Learn the axes."""
        self._validate_params()
        X = self._check(X, reset=True, least=2)
        self._forget()
        solver = self.choose_solver(*X.shape)
        if solver == "incremental":
            return self.fit_blocks(X[rows] for rows in blocks(len(X), ROWS))
        self.n_samples_seen_, self.mean_ = len(X), X.mean(axis=0, dtype=np.float64)
        centred = X - self.mean_.astype(X.dtype)
        spread = float(np.square(centred).sum(dtype=np.float64))
        if solver == "exact":
            values, axes = np.linalg.svd(centred, full_matrices=False)[1:]
        else:
            from sklearn.utils.extmath import randomized_svd

            _, values, axes = randomized_svd(
                centred,
                self._count(*X.shape),
                random_state=check_random_state(self.random_state),
            )
        self._keep(values.astype(np.float64) ** 2, axes.astype(np.float64), spread)
        return self

    def fit_blocks(self, parts: Iterable[np.ndarray]) -> PrincipalAxes:
        """Learn the axes from blocks of rows, with memory for one block and one covariance."""
        for number, part in enumerate(parts):
            X = self._check(part, reset=number == 0)
            if number == 0:
                self._forget()
            self._add(X)
        self._decompose()
        return self

    @available_if(lambda self: self.solver in ("auto", "incremental"))
    def partial_fit(self, X: Any, y: object = None) -> PrincipalAxes:  # noqa: ARG002
        """Learn from one block of rows more: exact, at the cost of a columns x columns matrix."""
        self._validate_params()
        first = not hasattr(self, "components_")
        if not first and getattr(self, "_scatter", None) is None:
            raise ValueError(
                "partial_fit cannot go on from these axes: they were read from a file or fitted by "
                "another solver than 'incremental'. Fit anew with solver='incremental'."
            )
        X = self._check(X, reset=first)
        if first:
            self._forget()
        self._add(X)
        self._decompose()
        return self

    def choose_solver(self, n: int, m: int) -> str:
        """The solver for n rows and m columns."""
        if self.solver != "auto":
            return self.solver
        if m <= _WIDE and m < n:
            return "incremental"
        return "exact" if min(n, m) <= _SMALL else "randomized"

    def _forget(self) -> None:
        self.n_samples_seen_ = 0
        self.mean_ = np.zeros(self.n_features_in_)
        self._scatter: np.ndarray | None = None

    def _add(self, X: np.ndarray) -> None:
        n, total = len(X), self.n_samples_seen_ + len(X)
        mean = X.mean(axis=0, dtype=np.float64)
        centred = X - mean.astype(X.dtype)
        step = mean - self.mean_
        scatter = (centred.T @ centred).astype(np.float64)
        scatter += np.outer(step, step) * (self.n_samples_seen_ * n / total)
        self._scatter = scatter if self._scatter is None else self._scatter + scatter
        self.mean_ = self.mean_ + step * (n / total)
        self.n_samples_seen_ = total

    def _decompose(self) -> None:
        from scipy.linalg import eigh

        if self._scatter is None:
            raise ValueError("no rows were given: axes need at least two.")
        m = len(self._scatter)
        count = self._count(self.n_samples_seen_, m)
        values, axes = eigh(self._scatter, subset_by_index=[m - count, m - 1])
        self._keep(values[::-1], axes.T[::-1], float(np.trace(self._scatter)))

    def _count(self, n: int, m: int) -> int:
        # n rows span n - 1 directions about their mean; any further axis would be noise.
        return max(1, min(self.n_components, m, n - 1))

    def _keep(self, squares: np.ndarray, axes: np.ndarray, spread: float) -> None:
        count = self._count(self.n_samples_seen_, axes.shape[1])
        squares, axes = np.maximum(squares[:count], 0), axes[:count]
        # An axis has no direction of its own: let its largest entry be positive, as PCA does.
        largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
        self.components_ = axes * np.where(largest < 0, -1.0, 1.0)
        self.explained_variance_ = squares / max(self.n_samples_seen_ - 1, 1)
        self.explained_variance_ratio_ = squares / spread if spread > 0 else squares

    def transform(self, X: Any) -> np.ndarray:
        """(X - mean) on the axes."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        return (X - self.mean_.astype(X.dtype)) @ self.components_.T.astype(X.dtype)
