"""The directions of largest variance, exact, in blocks, or by random projections."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from prototag.arrays import Array
from prototag.engine import ONE, total
from prototag.tagging.reduction.scaling import ZScore
from prototag.tagging.reduction.transformer import (
    ROWS,
    Moments,
    Transformer,
    covariances,
    together,
)

_SMALL = 2000  # up to this many rows or columns the exact decomposition takes seconds at most
_WIDE = 5000  # up to this many columns their covariance matrix is cheap


class PrincipalAxes(ClassNamePrefixFeaturesOutMixin, Transformer):
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
        return self.fit_standard(X)

    def fit_standard(self, X: Array, zscore: ZScore | None = None) -> PrincipalAxes:
        """The same for rows that were checked, z-scored first if that is given, block by block."""
        self.n_features_in_ = X.shape[1]
        self._moments: Moments | None = None
        solver = self.choose_solver(*X.shape)
        if solver == "incremental":
            found = total(ONE, covariances, [X], [zscore], add=together, size=ROWS)
            self._decompose(found)
            return self
        X = X if zscore is None else zscore.transform(X)
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

    @available_if(lambda self: self.solver in ("auto", "incremental"))
    def partial_fit(self, X: Any, y: object = None) -> PrincipalAxes:  # noqa: ARG002
        """Learn from one block of rows more: exact, at the cost of a columns x columns matrix."""
        self._validate_params()
        first = not hasattr(self, "components_")
        known = None if first else self._moments
        if not first and known is None:
            raise ValueError(
                "partial_fit cannot go on from these axes: they were fitted by another solver than "
                "'incremental'. Fit anew with solver='incremental'."
            )
        more = covariances(self._check(X, reset=first))
        self._decompose(more if known is None else known + more)
        return self

    def choose_solver(self, n: int, m: int) -> str:
        """The solver for n rows and m columns."""
        if self.solver != "auto":
            return self.solver
        if m <= _WIDE and m < n:
            return "incremental"
        return "exact" if min(n, m) <= _SMALL else "randomized"

    def _decompose(self, moments: Moments) -> None:
        from scipy.linalg import eigh

        self._moments = moments
        self.n_samples_seen_, self.mean_, scatter = moments
        m = len(scatter)
        count = self._count(self.n_samples_seen_, m)
        values, axes = eigh(scatter, subset_by_index=[m - count, m - 1])
        self._keep(values[::-1], axes.T[::-1], float(np.trace(scatter)))

    def _count(self, n: int, m: int) -> int:
        # n rows span n - 1 directions about their mean; any further axis would be noise.
        return max(1, min(self.n_components, m, n - 1))

    def _keep(self, squares: Array, axes: Array, spread: float) -> None:
        count = self._count(self.n_samples_seen_, axes.shape[1])
        squares, axes = np.maximum(squares[:count], 0), axes[:count]
        # An axis has no direction of its own: let its largest entry be positive, as PCA does.
        largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
        self.components_ = axes * np.where(largest < 0, -1.0, 1.0)
        self.explained_variance_ = squares / max(self.n_samples_seen_ - 1, 1)
        self.explained_variance_ratio_ = squares / spread if spread > 0 else squares

    def transform(self, X: Any) -> Array:
        """(X - mean) on the axes."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        return np.asarray((X - self.mean_.astype(X.dtype)) @ self.components_.T.astype(X.dtype))
