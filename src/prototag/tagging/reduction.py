"""Dimensionality reduction: z-score, concept columns, principal component analysis and unit norm.

Each step is a scikit-learn transformer. :class:`Reduction` combines the three and processes rows in
batches, so that the vectors may be a memory-mapped file.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from prototag.arrays import Array, Doubles, normalize_rows
from prototag.engine import SINGLE_THREAD, batch_slices, tree_sum

ROW_BATCH = 4096  # rows in one batch, which bounds memory
FeatureGroups = Sequence[tuple[int, float]]  # width and weight of columns that belong together


class Transformer(TransformerMixin, BaseEstimator):
    """Base class of transformers of vectors."""

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
    """Count, mean, and sums of squares or products of deviations, of some rows."""

    n: int
    mean: Doubles  # m
    squares: Doubles  # m, or m x m

    def __add__(self, other: Moments) -> Moments:  # type: ignore[override]
        """Combine the moments of two sets of rows (Chan et al.)."""
        n = self.n + other.n
        step = other.mean - self.mean
        apart = np.outer(step, step) if self.squares.ndim == 2 else step**2
        squares = self.squares + other.squares + apart * (self.n * other.n / n)
        return Moments(n, self.mean + step * (other.n / n), squares)


def variances(x: Array) -> Moments:
    """Return the moments of each column of a batch."""
    mean = x.mean(axis=0, dtype=np.float64)
    return Moments(len(x), mean, np.square(x - mean).sum(axis=0))


def covariances(x: Array, zscore: Any = None) -> Moments:
    """Return the moments of all pairs of columns of a batch, z-scored if ``zscore`` is given."""
    if zscore is not None:
        x = zscore.transform(x)
    mean = x.mean(axis=0, dtype=np.float64)
    centred = x - mean.astype(x.dtype)
    return Moments(len(x), mean, (centred.T @ centred).astype(np.float64))


def add_moments(one: Moments, other: Moments) -> Moments:
    """Combine the moments of two batches."""
    return one + other


class ZScore(OneToOneFeatureMixin, Transformer):
    """Standardization of columns to mean 0 and deviation 1; a constant column becomes 0.

    Parameters
    ----------
    feature_groups : sequence of (width, weight), optional
        Columns that belong together: their z-scores are multiplied by the weight of the group.

    Attributes
    ----------
    mean_, var_, scale_ : arrays of the number of columns
    n_samples_seen_ : int
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_groups": ["array-like", None],
    }

    def __init__(self, *, feature_groups: FeatureGroups | None = None) -> None:
        self.feature_groups = feature_groups

    def fit(self, X: Any, y: object = None) -> ZScore:  # noqa: ARG002
        """Compute mean and deviation of the columns."""
        self._validate_params()
        X = self._check(X, reset=True)
        self._keep(tree_sum(SINGLE_THREAD, variances, [X], add=add_moments, size=ROW_BATCH))
        return self

    def partial_fit(self, X: Any, y: object = None) -> ZScore:  # noqa: ARG002
        """Update mean and deviation with one more batch of rows."""
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
        # Bound of the rounding errors of the sums.
        noise = 2 * self.n_samples_seen_ * np.finfo(np.float64).eps * np.abs(self.mean_)
        scale = np.where(deviation > noise, deviation, 1.0)
        start = 0
        for width, weight in self.feature_groups or [(len(deviation), 1.0)]:
            part = slice(start, start + int(width))
            start = part.stop
            scale[part] = scale[part] / weight if weight > 0 else np.inf
        self.scale_ = scale

    def transform(self, X: Any) -> Array:
        """Return ``(X - mean) / deviation``."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        return np.asarray((X - self.mean_.astype(X.dtype)) / self.scale_.astype(X.dtype))


class UnitNorm(OneToOneFeatureMixin, Transformer):
    """Division of every row by its l2 norm; a row of zeros stays."""

    def fit(self, X: Any, y: object = None) -> UnitNorm:  # noqa: ARG002
        """Store the number of columns."""
        self._check(X, reset=True)
        return self

    def transform(self, X: Any) -> Array:
        """Return rows divided by their norms."""
        check_is_fitted(self)
        return normalize_rows(self._check(X, reset=False))


MAX_EXACT_SIZE = 2000  # rows or columns; up to this size an exact decomposition takes seconds
MAX_COVARIANCE_COLUMNS = 5000  # up to so many columns the covariance matrix is cheap


class PrincipalAxes(ClassNamePrefixFeaturesOutMixin, Transformer):
    """Principal component analysis (PCA).

    Parameters
    ----------
    n_components : int
        Axes to keep; fewer where rows or columns are fewer.
    solver : {"auto", "exact", "incremental", "randomized"}
        "exact" decomposes the centered matrix. "incremental" sums the covariance over batches of
        rows, also exact: for many rows, and with :meth:`partial_fit`. "randomized" is for many
        rows and very many columns. "auto" selects by the numbers of rows and columns.
    random_state : int, generator or None
        Seed of the randomized solver.

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
        """Compute the axes."""
        self._validate_params()
        X = self._check(X, reset=True, least=2)
        return self.fit_standard(X)

    def fit_standard(self, X: Array, zscore: ZScore | None = None) -> PrincipalAxes:
        """Fit to validated rows, which ``zscore`` standardizes first if given."""
        self.n_features_in_ = X.shape[1]
        self._moments: Moments | None = None
        solver = self.choose_solver(*X.shape)
        if solver == "incremental":
            moments = tree_sum(
                SINGLE_THREAD, covariances, [X], [zscore], add=add_moments, size=ROW_BATCH
            )
            self._decompose(moments)
            return self
        X = X if zscore is None else zscore.transform(X)
        self.n_samples_seen_ = len(X)
        self.mean_ = X.mean(axis=0, dtype=np.float64)
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
        """Update the axes with one more batch of rows: exact, with a columns x columns matrix."""
        self._validate_params()
        first = not hasattr(self, "components_")
        known = None if first else self._moments
        if not first and known is None:
            raise ValueError(
                "partial_fit cannot continue from these axes: they were fitted by a solver other "
                "than 'incremental'. Fit again with solver='incremental'."
            )
        more = covariances(self._check(X, reset=first))
        self._decompose(more if known is None else known + more)
        return self

    def choose_solver(self, n: int, m: int) -> str:
        """Return the solver for n rows and m columns."""
        if self.solver != "auto":
            return self.solver
        if m <= MAX_COVARIANCE_COLUMNS and m < n:
            return "incremental"
        return "exact" if min(n, m) <= MAX_EXACT_SIZE else "randomized"

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
        # The sign of an axis is arbitrary: its largest entry is positive, as in scikit-learn.
        largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
        self.components_ = axes * np.where(largest < 0, -1.0, 1.0)
        self.explained_variance_ = squares / max(self.n_samples_seen_ - 1, 1)
        self.explained_variance_ratio_ = squares / spread if spread > 0 else squares

    def transform(self, X: Any) -> Array:
        """Project ``X - mean`` on the axes."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        return np.asarray((X - self.mean_.astype(X.dtype)) @ self.components_.T.astype(X.dtype))


class Reduction(ClassNamePrefixFeaturesOutMixin, Transformer):
    """z-score, concept columns, principal axes and unit norm.

    Concept columns are linear functions of the vectors, by which public collections say which
    images are alike (:func:`prototag.knowledge.concepts.concept_map`). They are appended to the
    z-scored columns with the same mean squared length, so that a distance is half of the one and
    half of the other.

    Parameters
    ----------
    n_components : int or None, default=200
        Of :class:`PrincipalAxes`; None keeps all columns as they are.
    solver, random_state
        Of :class:`PrincipalAxes`.
    feature_groups
        Of :class:`ZScore`.
    concepts : array of shape (m, c), optional
        The map from vectors to concept columns.

    Attributes
    ----------
    zscore_ : ZScore
    concepts_ : array of shape (m, c), or None
        The map from z-scored vectors to concept columns of the length above.
    axes_ : PrincipalAxes or None
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrincipalAxes._parameter_constraints,
        **ZScore._parameter_constraints,
        "n_components": [*PrincipalAxes._parameter_constraints["n_components"], None],
        "concepts": ["array-like", None],
    }

    def __init__(
        self,
        n_components: int | None = 200,
        *,
        solver: str = "auto",
        feature_groups: FeatureGroups | None = None,
        concepts: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.feature_groups = feature_groups
        self.concepts = concepts
        self.random_state = random_state

    @property
    def n_features_out(self) -> int:
        """Columns of reduced vectors."""
        if self.axes_ is not None:
            return len(self.axes_.components_)
        return self.n_features_in_ + (0 if self.concepts_ is None else self.concepts_.shape[1])

    _n_features_out = n_features_out  # which scikit-learn reads

    def fit(self, X: Any, y: object = None) -> Reduction:  # noqa: ARG002
        """Fit the z-score, then the axes; the incremental solver holds one batch in memory."""
        self._validate_params()
        X = self._check(X, reset=True, least=2)
        if self.concepts is not None and self.n_components is not None:
            moments = tree_sum(SINGLE_THREAD, covariances, [X], add=add_moments, size=ROW_BATCH)
            return self.fit_moments(moments)
        self.zscore_ = ZScore(feature_groups=self.feature_groups).fit(X)
        self.concepts_: Array | None = None
        if self.concepts is not None:
            columns = X @ np.asarray(self.concepts, X.dtype)
            self._keep_concepts(float(columns.var(axis=0, dtype=np.float64).sum()))
        self.axes_: PrincipalAxes | None = None
        if self.n_components is not None:
            options = {"solver": self.solver, "random_state": self.random_state}
            self.axes_ = PrincipalAxes(self.n_components, **options)
            self.axes_.fit_standard(X, self.zscore_)
        return self

    def _keep_concepts(self, spread: float) -> None:
        """Store the map of concepts, whose columns have a mean squared length of ``spread``."""
        scale = self.zscore_.scale_
        wanted = float((self.zscore_.var_ / scale**2).sum())
        length = np.sqrt(wanted / spread) if spread > 0 else 0.0
        finite = np.where(np.isfinite(scale), scale, 0)
        self.concepts_ = length * finite[:, None] * np.asarray(self.concepts, np.float64)

    def fit_moments(self, moments: Moments) -> Reduction:
        """Fit to the moments of all pairs of columns."""
        self._validate_params()
        n, mean, squares = moments
        self.n_features_in_ = len(mean)
        self.zscore_ = ZScore(feature_groups=self.feature_groups)
        self.zscore_.n_features_in_ = len(mean)
        self.zscore_._keep(Moments(n, mean, np.diag(squares)))
        self.concepts_ = None
        self.axes_ = None
        scale = self.zscore_.scale_
        standard = squares / np.outer(scale, scale)
        if self.concepts is not None:
            concepts = np.asarray(self.concepts, np.float64)
            self._keep_concepts(float(np.einsum("ij,ij->", concepts, squares @ concepts)) / n)
            assert self.concepts_ is not None
            across = standard @ self.concepts_
            standard = np.block([[standard, across], [across.T, self.concepts_.T @ across]])
        if self.n_components is not None:
            self.axes_ = PrincipalAxes(self.n_components, random_state=self.random_state)
            self.axes_.n_features_in_ = len(standard)
            self.axes_._decompose(Moments(n, np.zeros(len(standard)), standard))
        return self

    @property
    def linear_map(self) -> Array:
        """The map from z-scored vectors to reduced ones before unit norm, m x columns.

        Without axes it lacks the z-scored columns themselves, which come first.
        """
        concepts = self.concepts_
        m = self.n_features_in_
        if self.axes_ is None:
            return np.empty((m, 0)) if concepts is None else concepts
        components = self.axes_.components_.T
        if concepts is None:
            return components
        return np.asarray(components[:m] + concepts @ components[m:])

    def transform(self, X: Any) -> Array:
        """Return reduced vectors of unit length."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        linear_map = self.linear_map.astype(X.dtype)
        center = None if self.axes_ is None else self.axes_.mean_
        reduced = np.empty((len(X), self.n_features_out), X.dtype)
        for rows in batch_slices(len(X), ROW_BATCH):
            standard = self.zscore_.transform(X[rows])
            if center is None:
                reduced[rows] = np.hstack([standard, standard @ linear_map])
            elif self.concepts_ is None:
                reduced[rows] = (standard - center.astype(X.dtype)) @ linear_map
            else:
                reduced[rows] = standard @ linear_map  # the means are 0
        return normalize_rows(reduced)
