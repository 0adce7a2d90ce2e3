"""One-vs-rest linear baselines: ridge, logistic, and SVM with tolerance of missing tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from prototag.arrays import Array, Floats, Rows
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.research.baselines import newton_cg
from prototag.research.baselines.base import AUTO, COUNT, POSITIVE, Baseline, quality
from prototag.research.baselines.cross_validated import CrossValidatedBaseline, Setting
from prototag.research.baselines.newton_cg import Linear
from prototag.tagging import loo_ridge

RIDGE_STRENGTHS = (0.002, 0.007, 0.02, 0.07, 0.2)  # in mean sums of squares of a column
LOGISTIC_STRENGTHS = (1.0, 0.3, 0.1, 0.03)  # decreasing: each fit starts from the previous solution
SVM_STRENGTHS = (30.0, 10.0, 3.0, 1.0)
TOLERANCES = (0.0, 0.5, 1.0)
BATCH_IMAGES = 256  # images whose neighbours are searched together


@dataclass(eq=False, repr=False, kw_only=True)
class Ridge(Baseline):
    """One-vs-rest ridge regression on 0/1.

    Scores are ``x B + b``, for each tag the minimiser of

        sum_i (y_ic - x_i b_c - b_0c)^2 + strength v n ||b_c||^2

    with v the mean variance of a column. Leave-one-out scores are exact, in closed form.

    Parameters
    ----------
    strength : float or "auto", default="auto"
        "auto" selects one of five values on leave-one-out scores.
    threshold : {"global", "per_tag"} or float, default="global"
        "per_tag" thresholds of rare tags are shrunk to the global one.
    n_jobs : int, optional
        Without effect: all tags are solved together.

    Attributes
    ----------
    coef_ : ndarray of shape (m, t)
    intercept_ : ndarray of shape (t,)
    strength_ : float
    out_of_fold_scores_ : ndarray of shape (n, t)
        Leave-one-out scores.
    threshold_, classes_, n_features_in_, feature_names_in_
        As in :class:`prototag.MCDL`.
    """

    strength: float | str = "auto"

    _correct_loo_bias = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "strength": [POSITIVE, AUTO],
    } | Baseline._shared_constraints
    _values: ClassVar[dict[str, type]] = {"strength_": float}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to vectors (n x m, scaled to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        strengths = self._candidates({"strength": RIDGE_STRENGTHS})["strength"]
        variance = max(float(X.var(axis=0).mean()), 1e-12)
        with single_threaded_blas():
            model = loo_ridge.ridge(
                X, Y.toarray(), np.multiply(strengths, variance), lambda s: quality(Y, s)
            )
        self.coef_ = model.coef
        self.intercept_ = model.intercept
        self.strength_ = model.strength / variance
        self._normalize_arrays()
        self._end_fit(Y, model.loo_predictions)
        return self

    def _arrays(self) -> dict[str, str]:
        return {"coef_": "f4 m t", "intercept_": "f4 t"}

    def _scores(self, X: Floats) -> Floats:
        return Linear(self.coef_, self.intercept_).scores(X)


@dataclass(eq=False, repr=False, kw_only=True)
class LinearBaseline(CrossValidatedBaseline):
    """A cross-validated baseline with a linear model."""

    coef_: Floats = field(init=False)
    intercept_: Floats = field(init=False)

    def _model_scores(self, model: Linear, X: Floats) -> Floats:
        return model.scores(X)

    def _set_fitted(self, model: Linear) -> None:
        self.coef_ = model.coef
        self.intercept_ = model.intercept

    def _get_fitted(self) -> Linear:
        return Linear(self.coef_, self.intercept_)

    def _arrays(self) -> dict[str, str]:
        return {"coef_": "f4 m t", "intercept_": "f4 t"}


@dataclass(eq=False, repr=False, kw_only=True)
class Logistic(LinearBaseline):
    """One-vs-rest logistic regression, fitted to all tags together by Newton's method.

    Scores are the log-odds ``x b_c + b_0c`` that minimise for each tag

        sum_i log(1 + exp(-z_ic (x_i b_c + b_0c)))
            + strength / 2 ||b_c||^2,   z = 2 y - 1.

    Parameters
    ----------
    strength : float or "auto", default="auto"
        1 / C of scikit-learn. "auto" selects one of four values on out-of-fold scores.
    threshold : {"global", "per_tag"} or float, default="global"
    n_folds : int, default=3
        The number of folds for the out-of-fold scores.
    n_jobs : int, optional
    random_state : int, RandomState or None, default=0
        Draws the folds.

    Attributes
    ----------
    coef_ : ndarray of shape (m, t)
    intercept_ : ndarray of shape (t,)
    setting_ : dict
        The selected strength.
    out_of_fold_scores_ : ndarray of shape (n, t)
    threshold_, classes_, n_features_in_, feature_names_in_
        As in :class:`prototag.MCDL`.
    """

    strength: float | str = "auto"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossValidatedBaseline._parameter_constraints,
        "strength": [POSITIVE, AUTO],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"strength": LOGISTIC_STRENGTHS}

    def _fit_models(
        self,
        X: Floats,
        Y: sparse.csr_array,
        settings: Sequence[Setting],
        seed: int,  # noqa: ARG002
    ) -> list[Linear]:
        solver = newton_cg.Solver(X)
        present = Y.toarray() > 0
        B = None
        models = []
        for setting in settings:
            B = solver.minimise(
                present, newton_cg.logistic, setting["strength"], start=B, n_jobs=self.n_jobs
            )
            models.append(solver.linear(B))
        return models


@dataclass(eq=False, repr=False, kw_only=True)
class SVM(LinearBaseline):
    """One-vs-rest linear SVM whose loss tolerates missing tags (KSVM-VT).

    For each tag, with the squared hinge and z = 2 y - 1, scores ``x b_c + b_0c`` minimise

        sum_i (1 - tolerance v_ic) max(0, 1 - z_ic (x_i b_c + b_0c))^2
            + strength / 2 ||b_c||^2.

    v is 0 where the tag is present. Where it is absent, v estimates how likely it is missing, as
    the larger of two cues: the share of the image's neighbours that have the tag, relative to the
    mean share around images with the tag (at most 1); and the probability of the tag given the most
    predictive of the image's own tags, ``max_c' P(c | c')``. With tolerance 0 this is the plain
    SVM.

    As in the paper, a tolerance from visual similarity and from the dependence of tags shrinks the
    hinge of such negatives. We chose the form of each cue, their maximum, and the squared hinge on
    the vectors themselves, by which all tags are solved together; for the paper's kernel, map
    vectors beforehand.

    Parameters
    ----------
    strength : float or "auto", default="auto"
        1 / C of scikit-learn's ``LinearSVC``. "auto" selects one of four values on out-of-fold
        scores.
    tolerance : float or "auto", default="auto"
        From 0 to 1. "auto" selects 0, 0.5 or 1 on out-of-fold scores.
    n_neighbours : int, default=20
        The size of a neighbourhood.
    threshold, n_folds, n_jobs, random_state
        As in :class:`Logistic`.

    Attributes
    ----------
    coef_, intercept_, out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.
    setting_ : dict
        The selected strength and tolerance.

    References
    ----------
    Y. Verma and C. V. Jawahar, "Exploring SVM for image annotation in presence of confusing
    labels", BMVC 2013.
    """

    strength: float | str = "auto"
    tolerance: float | str = "auto"
    n_neighbours: int = 20

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossValidatedBaseline._parameter_constraints,
        "strength": [POSITIVE, AUTO],
        "tolerance": [Interval(Real, 0, 1, closed="both"), AUTO],
        "n_neighbours": [COUNT],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {
        "tolerance": TOLERANCES,
        "strength": SVM_STRENGTHS,
    }

    def _fit_models(
        self,
        X: Floats,
        Y: sparse.csr_array,
        settings: Sequence[Setting],
        seed: int,  # noqa: ARG002
    ) -> list[Linear]:
        solver = newton_cg.Solver(X)
        present = Y.toarray() > 0
        B = None
        p_missing: Any = 0
        if any(setting["tolerance"] for setting in settings):
            p_missing = missing_tag_cues(X, Y, self.n_neighbours, self.n_jobs)
        models = []
        for setting in settings:
            tolerance = np.float32(setting["tolerance"])
            weight = 1 - tolerance * p_missing if tolerance else None
            B = solver.minimise(
                present,
                newton_cg.squared_hinge,
                setting["strength"],
                weight=weight,
                start=B,
                n_jobs=self.n_jobs,
            )
            models.append(solver.linear(B))
        return models


def missing_tag_cues(
    X: Floats, Y: sparse.csr_array, n_neighbours: int, n_jobs: int | None = None
) -> Floats:
    """Estimate how likely each absent tag is missing, n x t from 0 to 1; 0 for present tags."""
    count = min(n_neighbours, max(len(X) - 1, 1))
    together = (Y.T @ Y).toarray()  # t x t: images with both
    images = np.maximum(np.diag(together), 1).astype(np.float32)
    conditional = together / images[:, None]  # P(column | row)
    engine = Threads(n_jobs)
    shares = map_rows(
        engine, shares_batch, [X, np.arange(len(X))], [X, Y, count], size=BATCH_IMAGES
    )
    mean_share = np.asarray(Y.multiply(shares).sum(axis=0)).ravel() / images
    mean_share[mean_share == 0] = np.inf
    return map_rows(engine, cues_batch, [Y, shares], [conditional, mean_share], size=BATCH_IMAGES)


def shares_batch(x: Floats, rows: Rows, X: Floats, Y: sparse.csr_array, count: int) -> Floats:
    """Return the share of neighbours with each tag, for a batch of images, ``rows`` of X."""
    similarity = x @ X.T
    similarity[np.arange(len(similarity)), rows] = -np.inf
    nearest = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
    weights = np.full(nearest.size, 1 / count, np.float32)
    indptr = np.arange(0, nearest.size + 1, count)
    votes = sparse.csr_array((weights, nearest.ravel(), indptr), shape=similarity.shape) @ Y
    return np.asarray(votes.toarray())


def cues_batch(
    y: sparse.csr_array, shares: Floats, conditional: Array, mean_share: Array
) -> Floats:
    """Return the larger of both cues for a batch of images with tags ``y``."""
    from_tags = np.zeros(y.shape, np.float32)
    rows = np.flatnonzero(np.diff(y.indptr))
    if len(rows):  # the maximum over the tags of each image
        from_tags[rows] = np.maximum.reduceat(conditional[y.indices], y.indptr[rows], axis=0)
    visual = np.minimum(shares / mean_share, 1)
    return np.where(y.toarray() > 0, 0, np.maximum(visual, from_tags)).astype(np.float32)
