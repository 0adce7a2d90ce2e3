"""One-vs-rest linear annotators: ridge, logistic, and SVM with tolerance of missing tags."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from prototag.arrays import Array, Floats, Rows
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.research.baselines import newton_cg
from prototag.research.baselines.base import Baseline, quality
from prototag.research.baselines.cross_validated import (
    AUTO,
    COUNT,
    FOLDED,
    POSITIVE,
    CrossValidatedBaseline,
    Setting,
    grid,
)
from prototag.research.baselines.newton_cg import Linear
from prototag.tagging import loo_ridge

RIDGE_STRENGTHS = (0.002, 0.007, 0.02, 0.07, 0.2)  # in sums of squares of a mean column
STRENGTHS = (1.0, 0.3, 0.1, 0.03)  # falling: each starts where the one before ended
SVM_STRENGTHS = (30.0, 10.0, 3.0, 1.0)
TOLERANCES = (0.0, 0.5, 1.0)
BLOCK = 256  # images whose neighbours are sought at once


class Ridge(Baseline):
    """One-vs-rest ridge regression on 0/1.

    Scores are ``x B + b``, for each tag the minimiser of

        sum_i (y_ic - x_i b_c - b_0c)^2 + strength v n ||b_c||^2

    with v the mean variance of a column. Scores of left-out images are exact, in closed form.

    Parameters
    ----------
    strength : float or "auto", default="auto"
        "auto" is the best of five by left-out images.
    threshold : {"global", "per_tag"} or float, default="global"
        "per_tag" is shrunk to the global one for rare tags.
    n_jobs : int, optional
        Without effect: the regression is one solution for all tags.

    Attributes
    ----------
    coef_ : ndarray of shape (m, t)
    intercept_ : ndarray of shape (t,)
    strength_ : float
    out_of_fold_scores_ : ndarray of shape (n, t)
        Of each training image by the regression without it.
    threshold_, classes_, n_features_in_, feature_names_in_
        As in :class:`prototag.MCDL`.
    """

    _one_left_out = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "strength": [POSITIVE, AUTO],
    } | Baseline._shared_constraints
    _values: ClassVar[dict[str, type]] = {"strength_": float}

    def __init__(
        self,
        *,
        strength: float | str = "auto",
        threshold: str | float = "global",
        n_jobs: int | None = None,
    ) -> None:
        self.strength = strength
        self.threshold = threshold
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        strengths = RIDGE_STRENGTHS if self.strength == "auto" else (self.strength,)
        variance = max(float(X.var(axis=0).mean()), 1e-12)
        with single_threaded_blas():
            model = loo_ridge.ridge(
                X, Y.toarray(), np.multiply(strengths, variance), lambda s: quality(Y, s)
            )
        self.coef_ = model.coef
        self.intercept_ = model.intercept
        self.strength_ = model.strength / variance
        self._settle()
        self._end_fit(Y, model.loo_predictions)
        return self

    def _arrays(self) -> dict[str, str]:
        return {"coef_": "f4 m t", "intercept_": "f4 t"}

    def _scores(self, X: Floats) -> Floats:
        return Linear(self.coef_, self.intercept_).scores(X)


class LinearBaseline(CrossValidatedBaseline):
    """Base of the annotators whose models are linear."""

    coef_: Floats
    intercept_: Floats

    def _apply(self, model: Linear, X: Floats) -> Floats:
        return model.scores(X)

    def _keep(self, model: Linear) -> None:
        self.coef_, self.intercept_ = model

    def _kept(self) -> Linear:
        return Linear(self.coef_, self.intercept_)

    def _arrays(self) -> dict[str, str]:
        return {"coef_": "f4 m t", "intercept_": "f4 t"}


class Logistic(LinearBaseline):
    """One-vs-rest logistic regression, all tags at once by Newton's method.

    Scores are the log-odds ``x b_c + b_0c`` that minimise for each tag

        sum_i log(1 + exp(-z_ic (x_i b_c + b_0c)))
            + strength / 2 ||b_c||^2,   z = 2 y - 1.

    Parameters
    ----------
    strength : float or "auto", default="auto"
        1 / C of scikit-learn. "auto" is the best of four by left-out images.
    threshold : {"global", "per_tag"} or float, default="global"
    n_folds : int, default=3
        Folds that give the scores of left-out images.
    n_jobs : int, optional
    random_state : int, RandomState or None, default=0
        Of the folds.

    Attributes
    ----------
    coef_ : ndarray of shape (m, t)
    intercept_ : ndarray of shape (t,)
    setting_ : dict
        The strength chosen.
    out_of_fold_scores_ : ndarray of shape (n, t)
    threshold_, classes_, n_features_in_, feature_names_in_
        As in :class:`prototag.MCDL`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"strength": [POSITIVE, AUTO]} | FOLDED

    def __init__(
        self,
        *,
        strength: float | str = "auto",
        threshold: str | float = "global",
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.strength = strength
        self.threshold = threshold
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _settings(self) -> list[Setting]:
        return grid(strength=STRENGTHS if self.strength == "auto" else self.strength)

    def _learn(
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


class SVM(LinearBaseline):
    """One-vs-rest linear SVM whose loss tolerates tags that people may have left out (KSVM-VT).

    For each tag, with the squared hinge and z = 2 y - 1, scores ``x b_c + b_0c`` minimise

        sum_i (1 - tolerance v_ic) max(0, 1 - z_ic (x_i b_c + b_0c))^2
            + strength / 2 ||b_c||^2.

    v is 0 where the tag is present. Where it is absent it says how likely it was left out, as the
    larger of two cues: how much of the image's neighbourhood has the tag, against what images with
    the tag see around them on average (1 at most); and how probable the tag is given the most
    telling of the image's own tags, ``max_c' P(c | c')``. With tolerance 0 this is the plain SVM.

    The idea is the paper's: a tolerance from visual similarity and from the dependence of tags
    shrinks the hinge of such negatives. The form of each cue, their maximum, and the squared hinge
    on the vectors themselves, which lets all tags be solved together, are choices made here; for
    the paper's kernel, map vectors beforehand.

    Parameters
    ----------
    strength : float or "auto", default="auto"
        1 / C of scikit-learn's ``LinearSVC``. "auto" is the best of four by left-out images.
    tolerance : float or "auto", default="auto"
        From 0 to 1. "auto" is the best of 0, 0.5 and 1 by left-out images.
    n_neighbors : int, default=20
        Size of a neighbourhood.
    threshold, n_folds, n_jobs, random_state
        As in :class:`Logistic`.

    Attributes
    ----------
    coef_, intercept_, out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.
    setting_ : dict
        The strength and the tolerance chosen.

    References
    ----------
    Y. Verma and C. V. Jawahar, "Exploring SVM for image annotation in presence of confusing
    labels", BMVC 2013.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "strength": [POSITIVE, AUTO],
        "tolerance": [Interval(Real, 0, 1, closed="both"), AUTO],
        "n_neighbors": [COUNT],
    } | FOLDED

    def __init__(
        self,
        *,
        strength: float | str = "auto",
        tolerance: float | str = "auto",
        n_neighbors: int = 20,
        threshold: str | float = "global",
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.strength = strength
        self.tolerance = tolerance
        self.n_neighbors = n_neighbors
        self.threshold = threshold
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _settings(self) -> list[Setting]:
        return grid(
            tolerance=TOLERANCES if self.tolerance == "auto" else self.tolerance,
            strength=SVM_STRENGTHS if self.strength == "auto" else self.strength,
        )

    def _learn(
        self,
        X: Floats,
        Y: sparse.csr_array,
        settings: Sequence[Setting],
        seed: int,  # noqa: ARG002
    ) -> list[Linear]:
        solver = newton_cg.Solver(X)
        present = Y.toarray() > 0
        B = None
        forgotten: Any = 0
        if any(setting["tolerance"] for setting in settings):
            forgotten = left_out_cues(X, Y, self.n_neighbors, self.n_jobs)
        models = []
        for setting in settings:
            tolerance = np.float32(setting["tolerance"])
            weight = 1 - tolerance * forgotten if tolerance else None
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


def left_out_cues(
    X: Floats, Y: sparse.csr_array, n_neighbors: int, n_jobs: int | None = None
) -> Floats:
    """How likely each absent tag was left out, n x t from 0 to 1; 0 where the tag is present."""
    count = min(n_neighbors, max(len(X) - 1, 1))
    together = (Y.T @ Y).toarray()  # t x t: images with both
    images = np.maximum(np.diag(together), 1).astype(np.float32)
    depends = together / images[:, None]  # P(column | row)
    engine = Threads(n_jobs)
    shares = map_rows(engine, shares_block, [X, np.arange(len(X))], [X, Y, count], size=BLOCK)
    usual = np.asarray(Y.multiply(shares).sum(axis=0)).ravel() / images
    usual[usual == 0] = np.inf
    return map_rows(engine, cues_block, [Y, shares], [depends, usual], size=BLOCK)


def shares_block(x: Floats, own: Rows, X: Floats, Y: sparse.csr_array, count: int) -> Floats:
    """The share of its neighbours that have each tag, for a block of images."""
    near = x @ X.T
    near[np.arange(len(near)), own] = -np.inf
    found = np.argpartition(-near, count - 1, axis=1)[:, :count]
    ones = np.full(found.size, 1 / count, np.float32)
    rows = np.arange(0, found.size + 1, count)
    votes = sparse.csr_array((ones, found.ravel(), rows), shape=near.shape) @ Y
    return np.asarray(votes.toarray())


def cues_block(own: sparse.csr_array, shares: Floats, depends: Array, usual: Array) -> Floats:
    """The larger of both cues for a block of images with tags ``own``."""
    telling = np.zeros(own.shape, np.float32)
    rows = np.flatnonzero(np.diff(own.indptr))
    if len(rows):  # the largest over the tags of each image
        telling[rows] = np.maximum.reduceat(depends[own.indices], own.indptr[rows], axis=0)
    visual = np.minimum(shares / usual, 1)
    return np.where(own.toarray() > 0, 0, np.maximum(visual, telling)).astype(np.float32)
