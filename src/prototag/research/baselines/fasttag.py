"""FastTag: joint least squares for completing incomplete tags and predicting them from images."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Doubles, Floats, Rows
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.research.baselines import base, nystroem
from prototag.research.baselines.base import (
    AUTO,
    COUNT,
    FOLDS,
    NOT_NEGATIVE,
    POSITIVE,
    Baseline,
)

# The first of each grid applies while other hyperparameters are selected.
GRIDS: dict[str, tuple[Any, ...]] = {
    "strength": (1e-5, 1e-4, 1e-3),
    "corruption": (0.05, 0.2, 0.5),
    "reconstruction": (10.0, 1.0, 100.0),
    "balance": (0.0, 0.5),
    "n_layers": (1, 2),
}
BATCH_IMAGES = 1024


class Sums(NamedTuple):
    """The sufficient statistics of least squares: weighted means of products over images."""

    xx: Doubles  # m x m
    xy: Doubles  # m x t
    yy: Doubles  # t x t

    def without(self, other: Sums) -> Sums:
        """Return the statistics of all images except those of ``other``."""
        return Sums(*(a - b for a, b in zip(self, other, strict=True)))

    def with_tags(self, B: Doubles) -> Sums:
        """Return the statistics of the same images with tags Y B."""
        return Sums(self.xx, self.xy @ B, B.T @ self.yy @ B)


@dataclass(eq=False, repr=False, kw_only=True)
class FastTag(Baseline):
    """Fast image tagging (Chen, Zheng and Weinberger 2013).

    Tags are incomplete: B (t x t) completes them, W (m x t) predicts the completed tags from an
    image, and a penalty couples the two. y~ is y with each tag removed with probability p:

        sum_i s_i ( ||y_i B - x_i W||^2 + g E ||y_i - y~_i B||^2 )
            + l sum_i s_i ||W||^2

    The expectation follows from S = sum s_i y_i' y_i: E[y~' y] = (1 - p) S and E[y~' y~] =
    (1 - p)^2 S + p (1 - p) diag(S). The paper minimises over B and W in alternation; we solve the
    linear system of the joint minimiser. Layers (the paper's bootstrapping) connect related tags
    that never occur together: each layer learns from the tags that the previous one completed.
    Scores are x W of the last layer.

    Parameters
    ----------
    strength : float or "auto", default="auto"
        l. "auto" here and below: one parameter after the other is selected from ``GRIDS`` on
        out-of-fold scores.
    corruption : float or "auto", default="auto"
        p, above 0 and below 1.
    reconstruction : float or "auto", default="auto"
        g.
    balance : float or "auto", default="auto"
        The weight of an image is s_i = f_i ** -balance with f_i the frequency of its rarest tag.
    n_layers : int or "auto", default="auto"
    kernel : {"rbf", "linear"}, default="rbf"
        The features of an image: of a Gaussian kernel (the paper also maps its histograms to
        features of a kernel), or the vector.
    gamma : float, default=1.5
        The inverse width of the kernel, relative to the mean squared distance.
    n_landmarks : int, default=2000
        The number of images that span the kernel's features.
    n_folds : int, default=3
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None
        Draws landmarks and folds.

    Attributes
    ----------
    choices_ : dict
        The hyperparameters used, after selection.
    coef_ : ndarray of shape (m', t)
        W; its last row is the intercept.
    enrichment_ : ndarray of shape (n_layers, t, t)
        B of each layer.
    landmarks_ : ndarray of shape (l, m)
        The landmarks of the kernel; only with ``kernel="rbf"``.
    dual_ : ndarray of shape (l, t)
        The coefficients of the kernel; with ``kernel="linear"`` those of the vectors, (m, t).
    out_of_fold_scores_ : ndarray of shape (n, t)
    """

    strength: float | str = "auto"
    corruption: float | str = "auto"
    reconstruction: float | str = "auto"
    balance: float | str = "auto"
    n_layers: int | str = "auto"
    kernel: str = "rbf"
    gamma: float = 1.5
    n_landmarks: int = 2000
    n_folds: int = 3
    random_state: Any = None
    landmarks_: Floats = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._shared_constraints,
        "strength": [POSITIVE, AUTO],
        "corruption": [Interval(Real, 0, 1, closed="neither"), AUTO],
        "reconstruction": [POSITIVE, AUTO],
        "balance": [NOT_NEGATIVE, AUTO],
        "n_layers": [COUNT, AUTO],
        "kernel": [StrOptions({"rbf", "linear"})],
        "gamma": [POSITIVE],
        "n_landmarks": [COUNT],
        "n_folds": [FOLDS],
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {"choices_": dict, "width_": float}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to vectors (n x m, scaled to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        rng = check_random_state(self.random_state)
        kernel = (
            nystroem.fit(X, self.gamma, self.n_landmarks, rng) if self.kernel == "rbf" else None
        )
        values = X if kernel is None else kernel.transform(X, self.n_jobs)
        features = np.column_stack([values, np.ones(len(X), np.float32)])
        fold = base.draw_folds(len(X), self.n_folds, rng)
        parts = base.fold_rows(fold)
        cache: dict[float, list[Sums]] = {}  # statistics of the folds, by balance

        def out_of_fold_scores(choices: dict[str, Any], rows: Rows) -> Floats:
            sums = self._fold_sums(cache, features, Y, parts, choices["balance"])
            total = _total(sums)
            scores = np.empty((len(rows), Y.shape[1]), np.float32)
            for number, own in enumerate(sums):
                W, _ = solve(total.without(own), **_solver_options(choices))
                inside = fold[rows] == number
                scores[inside] = features[rows[inside]] @ W.astype(np.float32)
            return scores

        sample = base.tuning_sample(len(X))
        with single_threaded_blas():
            choices = base.coordinate_search(
                self._candidates(GRIDS),
                lambda option: base.quality(Y[sample], out_of_fold_scores(option, sample)),
            )
            self.choices_ = choices
            scores = out_of_fold_scores(choices, np.arange(len(X)))
            total = _total(self._fold_sums(cache, features, Y, parts, choices["balance"]))
            W, layers = solve(total, **_solver_options(choices))
            # With coefficients of the kernel, scoring does not compute the features of new images.
            self.dual_ = W[:-1] if kernel is None else kernel.root.astype(np.float64) @ W[:-1]
        self.coef_ = W
        self.enrichment_ = np.array(layers)
        self.width_ = 0.0 if kernel is None else kernel.gamma
        if kernel is not None:
            self.landmarks_ = kernel.landmarks
        self._normalize_arrays()
        self._end_fit(Y, scores)
        return self

    def _arrays(self) -> dict[str, str]:
        arrays = {"coef_": "f8 r t", "enrichment_": "f8 layers t t"}
        if self.kernel == "rbf":
            return {"landmarks_": "f4 l m", "dual_": "f8 l t", **arrays}
        return {"dual_": "f8 m t", **arrays}

    def _fold_sums(
        self,
        cache: dict[float, list[Sums]],
        features: Floats,
        Y: sparse.csr_array,
        parts: list[Rows],
        balance: float,
    ) -> list[Sums]:
        if balance not in cache:
            weight = image_weights(Y, balance)
            cache.clear()  # statistics are large, and one balance is tried after the other
            batches = Threads(self.n_jobs).map(sums_batch, [parts], [features, Y, weight], size=1)
            cache[balance] = [sums for batch in batches for sums in batch]
        return cache[balance]

    def _scores(self, X: Floats) -> Floats:
        landmarks = self.landmarks_ if self.kernel == "rbf" else None
        shared = [landmarks, self.width_, self.dual_, self.coef_[-1]]
        return map_rows(Threads(self.n_jobs), score_batch, [X], shared, size=BATCH_IMAGES)


def score_batch(
    x: Floats, landmarks: Floats | None, width: float, dual: Doubles, intercept: Doubles
) -> Floats:
    """Score a batch of images in float64: coefficients of the kernel are large and cancel."""
    values = x.astype(np.float64)
    if landmarks is not None:
        values = nystroem.gaussian_kernel(values, landmarks, width)
    return (values @ dual + intercept).astype(np.float32)


def image_weights(Y: sparse.csr_array, balance: float) -> Floats:
    """Return ``f ** -balance`` for the frequency f of each image's rarest tag, with mean one."""
    count = np.maximum(np.asarray(Y.sum(axis=0)).ravel(), 1)
    rarest = np.full(Y.shape[0], Y.shape[0], np.float64)
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    np.minimum.at(rarest, row, count[Y.indices])
    weight = (rarest / Y.shape[0]) ** -balance
    return np.asarray(weight / weight.mean(), np.float32)


def sums_batch(
    parts: list[Rows], features: Floats, Y: sparse.csr_array, weight: Floats
) -> list[Sums]:
    """Compute the statistics of a batch of folds, given as rows of images."""
    return [_sums(features, Y, weight, rows) for rows in parts]


def _sums(features: Floats, Y: sparse.csr_array, weight: Floats, rows: Rows) -> Sums:
    x = features[rows]
    y = Y[rows]
    n = Y.shape[0]
    weighted = x * weight[rows, None]
    scaled = y.multiply(weight[rows, None]).tocsr()
    return Sums(
        (weighted.T @ x).astype(np.float64) / n,
        np.asarray((y.T @ weighted).T, np.float64) / n,
        (scaled.T @ y).toarray().astype(np.float64) / n,
    )


def _total(sums: list[Sums]) -> Sums:
    return Sums(*(np.sum(part, axis=0) for part in zip(*sums, strict=True)))


def _solver_options(choices: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in choices.items() if name != "balance"}


def solve(
    sums: Sums, *, strength: float, corruption: float, reconstruction: float, n_layers: int
) -> tuple[Doubles, list[Doubles]]:
    """Return W of the last layer and B of each layer."""
    from scipy import linalg

    m, t = sums.xy.shape
    penalty = np.full(m, strength)
    penalty[-1] = 1e-6  # the intercept is practically not penalised
    factor = linalg.cho_factor(sums.xx + np.diag(penalty), lower=True, check_finite=False)
    layers: list[Doubles] = []
    for _ in range(n_layers):
        # The optimal W for a given B is `regressed` B; the remaining problem is quadratic in B.
        regressed = linalg.cho_solve(factor, sums.xy, check_finite=False)
        S = sums.yy
        p = corruption
        corrupted = (1 - p) ** 2 * S + p * (1 - p) * np.diag(np.diag(S))
        normal = S + reconstruction * corrupted - sums.xy.T @ regressed
        # The row of a tag without images is empty, and rounding may make it negative.
        normal[np.diag_indices(t)] += 1e-9 * max(1e-3, np.trace(S))
        B = linalg.solve(normal, reconstruction * (1 - p) * S, assume_a="sym")
        layers.append(B)
        sums = sums.with_tags(B)
    W = linalg.cho_solve(factor, sums.xy, check_finite=False)
    return W, layers
