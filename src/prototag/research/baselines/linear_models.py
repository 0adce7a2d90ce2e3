"""One-vs-rest linear baselines: ridge and logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context

from prototag.arrays import Floats
from prototag.engine import single_threaded_blas
from prototag.research.baselines import newton_cg
from prototag.research.baselines.base import AUTO, POSITIVE, Baseline, quality
from prototag.research.baselines.cross_validated import CrossValidatedBaseline, Setting
from prototag.research.baselines.newton_cg import Linear
from prototag.tagging import loo_ridge

RIDGE_STRENGTHS = (0.002, 0.007, 0.02, 0.07, 0.2)  # in mean sums of squares of a column
LOGISTIC_STRENGTHS = (1.0, 0.3, 0.1, 0.03)  # decreasing: each fit starts from the previous solution


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
