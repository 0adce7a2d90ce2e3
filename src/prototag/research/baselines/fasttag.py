"""FastTag: tags completed from incomplete tags, and predicted from images, by one least squares."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Doubles, Floats, Rows
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.research.baselines import base, nystroem
from prototag.research.baselines.base import Baseline

GRIDS: dict[str, tuple[Any, ...]] = {  # the first of each stands while others are chosen
    "strength": (1e-5, 1e-4, 1e-3),
    "corruption": (0.05, 0.2, 0.5),
    "reconstruction": (10.0, 1.0, 100.0),
    "balance": (0.0, 0.5),
    "n_layers": (1, 2),
}
ROWS = 1024


class Sums(NamedTuple):
    """All that least squares needs to know of images: weighted means of products."""

    xx: Doubles  # m x m
    xy: Doubles  # m x t
    yy: Doubles  # t x t

    def without(self, other: Sums) -> Sums:
        return Sums(*(a - b for a, b in zip(self, other, strict=True)))

    def enriched(self, B: Doubles) -> Sums:
        """The same for tags Y B."""
        return Sums(self.xx, self.xy @ B, B.T @ self.yy @ B)


class FastTag(Baseline):
    """Fast image tagging (Chen, Zheng and Weinberger 2013).

    Tags are incomplete: B (t x t) completes them, W (m x t) predicts the completed ones from an
    image, and each is held to the other. y~ is y with each tag blanked out with probability p:

        sum_i s_i ( ||y_i B - x_i W||^2 + g E ||y_i - y~_i B||^2 )
            + l sum_i s_i ||W||^2

    The expectation is a matter of two products of the tags, S = sum s_i y_i' y_i:
    E[y~' y] = (1 - p) S and E[y~' y~] = (1 - p)^2 S + p (1 - p) diag(S). The paper minimises over B
    and W in turn; the joint minimiser is one linear system, which is solved here. Tags that go
    together without ever being given together are reached by layers (the paper's bootstrapping):
    the next one learns from the tags that the last one completed. Scores are x W of the last.

    Parameters
    ----------
    strength : float or "auto", default="auto"
        l. "auto" here and below: the best of ``GRIDS`` out of fold, one parameter after the other.
    corruption : float or "auto", default="auto"
        p, above 0 and below 1.
    reconstruction : float or "auto", default="auto"
        g.
    balance : float or "auto", default="auto"
        An image counts by s_i = f_i ** -balance, where f_i is the frequency of its rarest tag.
    n_layers : int or "auto", default="auto"
    kernel : {"rbf", "linear"}, default="rbf"
        Features of an image: of a Gaussian kernel (the paper, too, lifts its histograms to those of
        a kernel), or the vector.
    gamma : float, default=1.5
        Of the kernel, in units of the mean squared distance.
    n_landmarks : int, default=2000
        Images that the kernel's features are made from.
    n_folds : int, default=3
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None
        Draws landmarks and folds.

    Attributes
    ----------
    choices_ : dict
        What "auto" became.
    coef_ : ndarray of shape (m', t)
        W; its last row is the constant.
    enrichment_ : ndarray of shape (n_layers, t, t)
        B of each layer.
    landmarks_ : ndarray of shape (l, m)
        Of the kernel; without one there are none.
    dual_ : ndarray of shape (l, t)
        Coefficients of the kernel; without one the vectors' own, of shape (m, t).
    out_of_fold_scores_ : ndarray of shape (n, t)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "strength": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "corruption": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto"})],
        "reconstruction": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "balance": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_layers": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "kernel": [StrOptions({"rbf", "linear"})],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        **Baseline._shared_constraints,
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {"choices_": dict, "width_": float}

    def __init__(  # noqa: PLR0913 - hyperparameters, as scikit-learn wants them
        self,
        *,
        strength: float | str = "auto",
        corruption: float | str = "auto",
        reconstruction: float | str = "auto",
        balance: float | str = "auto",
        n_layers: int | str = "auto",
        kernel: str = "rbf",
        gamma: float = 1.5,
        n_landmarks: int = 2000,
        n_folds: int = 3,
        threshold: str | float = "global",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.strength = strength
        self.corruption = corruption
        self.reconstruction = reconstruction
        self.balance = balance
        self.n_layers = n_layers
        self.kernel = kernel
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.n_folds = n_folds
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        rng = check_random_state(self.random_state)
        kernel = (
            nystroem.gaussian(X, self.gamma, self.n_landmarks, rng)
            if self.kernel == "rbf"
            else None
        )
        values = X if kernel is None else kernel.transform(X, self.n_jobs)
        features = np.column_stack([values, np.ones(len(X), np.float32)])
        fold = base.draw_folds(len(X), self.n_folds, rng)
        parts = [np.flatnonzero(fold == number) for number in range(fold.max() + 1)]
        kept: dict[float, list[Sums]] = {}  # by balance, of the folds

        def out_of_fold(choices: dict[str, Any], rows: Rows) -> Floats:
            sums = self._fold_sums(kept, features, Y, parts, choices["balance"])
            total = _total(sums)
            scores = np.empty((len(rows), Y.shape[1]), np.float32)
            for number, own in enumerate(sums):
                W, _ = solve(total.without(own), **_settings(choices))
                inside = fold[rows] == number
                scores[inside] = features[rows[inside]] @ W.astype(np.float32)
            return scores

        sample = base.pilot(len(X))
        with single_threaded_blas():
            choices = base.in_turn(
                GRIDS, self, lambda tried: base.quality(Y[sample], out_of_fold(tried, sample))
            )
            self.choices_ = choices
            scores = out_of_fold(choices, np.arange(len(X)))
            total = _total(self._fold_sums(kept, features, Y, parts, choices["balance"]))
            W, layers = solve(total, **_settings(choices))
            # Coefficients of the kernel itself: the features of new images are never made.
            self.dual_ = W[:-1] if kernel is None else kernel.root.astype(np.float64) @ W[:-1]
        self.coef_ = W
        self.enrichment_ = np.array(layers)
        self.width_ = 0.0 if kernel is None else kernel.gamma
        if kernel is not None:
            self.landmarks_ = kernel.landmarks
        self._settle()
        self._end_fit(Y, scores)
        return self

    def _arrays(self) -> dict[str, str]:
        kept = {"coef_": "f8 r t", "enrichment_": "f8 layers t t"}
        if self.kernel == "rbf":
            return {"landmarks_": "f4 l m", "dual_": "f8 l t", **kept}
        return {"dual_": "f8 m t", **kept}

    def _fold_sums(
        self,
        kept: dict[float, list[Sums]],
        features: Floats,
        Y: sparse.csr_array,
        parts: list[Rows],
        balance: float,
    ) -> list[Sums]:
        if balance not in kept:
            weight = image_weights(Y, balance)
            kept.clear()  # they are large, and one balance is tried after the other
            found = Threads(self.n_jobs).map(sums_block, [parts], [features, Y, weight], size=1)
            kept[balance] = [sums for block in found for sums in block]
        return kept[balance]

    def _scores(self, X: Floats) -> Floats:
        known = self.landmarks_ if self.kernel == "rbf" else None
        shared = [known, self.width_, self.dual_, self.coef_[-1]]
        return map_rows(Threads(self.n_jobs), score_block, [X], shared, size=ROWS)


def score_block(
    x: Floats, known: Floats | None, width: float, dual: Doubles, constant: Doubles
) -> Floats:
    """In float64: coefficients of kernels are large, and cancel."""
    values = x.astype(np.float64)
    if known is not None:
        values = nystroem.likeness(values, known, width)
    return (values @ dual + constant).astype(np.float32)


def image_weights(Y: sparse.csr_array, balance: float) -> Floats:
    """``f ** -balance`` for the frequency f of each image's rarest tag, to a mean of one."""
    count = np.maximum(np.asarray(Y.sum(axis=0)).ravel(), 1)
    rarest = np.full(Y.shape[0], Y.shape[0], np.float64)
    row = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    np.minimum.at(rarest, row, count[Y.indices])
    weight = (rarest / Y.shape[0]) ** -balance
    return np.asarray(weight / weight.mean(), np.float32)


def sums_block(
    parts: list[Rows], features: Floats, Y: sparse.csr_array, weight: Floats
) -> list[Sums]:
    """Of some folds, which are given as rows of images."""
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


def _settings(choices: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in choices.items() if name != "balance"}


def solve(
    sums: Sums, *, strength: float, corruption: float, reconstruction: float, n_layers: int
) -> tuple[Doubles, list[Doubles]]:
    """W of the last layer and B of each, from sums over images."""
    from scipy import linalg

    m, t = sums.xy.shape
    penalty = np.full(m, strength)
    penalty[-1] = 1e-6  # the constant is hardly held to zero
    factor = linalg.cho_factor(sums.xx + np.diag(penalty), lower=True, check_finite=False)
    layers: list[Doubles] = []
    for _ in range(n_layers):
        # The best W for a given B is `regressed` B; what remains is quadratic in B alone.
        regressed = linalg.cho_solve(factor, sums.xy, check_finite=False)
        S = sums.yy
        p = corruption
        blanked = (1 - p) ** 2 * S + p * (1 - p) * np.diag(np.diag(S))
        normal = S + reconstruction * blanked - sums.xy.T @ regressed
        # A tag that no image has leaves its row empty, and rounding may leave it below zero.
        normal[np.diag_indices(t)] += 1e-9 * max(1e-3, np.trace(S))
        B = linalg.solve(normal, reconstruction * (1 - p) * S, assume_a="sym")
        layers.append(B)
        sums = sums.enriched(B)
    W = linalg.cho_solve(factor, sums.xy, check_finite=False)
    return W, layers
