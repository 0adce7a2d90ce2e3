"""MCDL without label leakage: exemplar or mean prototypes, S trained on leave-one-out codes.

Codes are leakage-free: an image influences neither its own dictionary nor its own semantic
prototypes. Either D is all training images, and an image is encoded over the others
(leave-one-out); or D are means of images (:mod:`prototag.mcdl.prototype_clustering`), and an image
is scored by means of the other folds (out-of-fold). S minimizes

    sum_i sum_c loss(y_ic, a_i S[:, c]) + beta1 sum |S| + rho ||S - S_0||^2

by few sweeps from S_0, the tags of the prototypes' images. If many labels are missing, S is instead
S_0 after one step of label propagation along the codes. Thresholds are selected on scores by an S
that was trained on the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Arrays, Floats, Rows
from prototag.coding.coder import Certificate, Encoded
from prototag.engine import Engine, memory_forecast
from prototag.evaluation import ranking
from prototag.evaluation.thresholds import THRESHOLD_SHRINKAGE, validation_score
from prototag.events import Progress, notify
from prototag.mcdl import updates
from prototag.mcdl.algorithm1 import MCDLState
from prototag.mcdl.memory_estimates import REMEDY, estimate_exemplars
from prototag.mcdl.prototype_clustering import Clustering, FoldClusterings, cluster_folds
from prototag.mcdl.prototype_estimator import (
    COUNT,
    N_PROTOTYPES,
    NOT_NEGATIVE,
    THRESHOLD,
    PrototypeEstimator,
)
from prototag.mcdl.settings import CodeSettings, SemanticSettings, squared_hinge
from prototag.storage import modelfile

MAX_SEMANTIC = 5.0  # v, the upper bound of the entries of S, as in the paper
RHO_GRID = (None, 0.3, 1.0, 3.0)  # None keeps S at S_0
SPREAD_GRID = (0.15, 0.3, 0.45, 0.6)
# Relative gain of the validation score that label propagation must reach, as it triples the
# non-zeros of S.
MIN_SPREAD_GAIN = 0.015
MIN_SEMANTIC = 0.01  # smaller entries of a propagated S are set to zero; an own tag is 1


class ExemplarMCDL(PrototypeEstimator):
    """MCDL without label leakage: codes and scores of an image do not depend on its own tags.

    :class:`prototag.MCDL` fits S and thresholds to codes that differ from those of new images. Here
    D is the training images, or means of similar images with shared tags. An image is encoded
    without its tags, over all prototypes but its own, or scored by prototypes of other folds. S
    starts from the tags of the prototypes' images, with a proximal term:

        sum_i sum_c loss(y_ic, a_i S[:, c])
            + beta1 sum |S| + rho ||S - S_0||^2

    with the squared hinge of :class:`prototag.MCDL`.

    Parameters
    ----------
    n_prototypes : int or float, default=1.0
        Number of prototypes k, or their share of the training images; by default each image is one.
    beta1 : float, default=0.15
        Sparsity of S.
    margin : float, default=0.5
        C, the margin of the squared hinge, whose centre is ``0.25 + C / 2``.
    rho : float, None or "auto", default="auto"
        Proximal weight of S; None keeps S at S_0; "auto" selects the value with the best
        out-of-fold mean average precision.
    n_sweeps : int, default=1
        Sweeps of coordinate descent over S.
    spread : float or "auto", default="auto"
        Share of propagated labels in S, which compensates missing labels: one step of label
        propagation along the leave-one-out codes replaces the sweeps. Requires every image to be a
        prototype. "auto" selects the share with the best leave-one-out validation score, or 0 if
        sweeps are as good.
    max_nonzeros : int, default=25
        Maximum number of prototypes in a code.
    n_folds : int, default=3
        Folds for the out-of-fold scores on which thresholds are selected.
    threshold : {"per_tag", "global"} or float, default="per_tag"
        As in :class:`prototag.MCDL`, on out-of-fold scores; shrunk to the global one for rare tags.
    n_jobs, engine, random_state
        As in :class:`prototag.MCDL`.
    progress : callable, optional
        Called with a :class:`prototag.events.Event` when a stage begins.

    Attributes
    ----------
    visual_prototypes_, semantic_prototypes_, threshold_, tag_objective_, classes_
        As in :class:`prototag.MCDL`.
    codes_gap_, n_capped_, n_stalled_
        As in :class:`prototag.MCDL`, of the codes on which S was trained.
    objective_ : structured ndarray of shape (2,)
        Terms "visual", "loss", "sparsity" and "total" before and after the training of S.
    out_of_fold_scores_ : ndarray of shape (n, t)
        Scores of the training images by an S of the other folds.
    codes_ : csr_array of shape (n, k)
        Leave-one-out codes of the training images, or codes over the means.
    folds_ : ndarray of shape (n,)
    clusterings_ : Clusterings or None
        The images of which each prototype is the mean; None if every image is a prototype. A model
        file stores neither these nor the three attributes above.
    prototype_images_ : ndarray of shape (k,)
        Training image of each prototype; of a mean, the nearest of its images.
    rho_ : float or None
    spread_ : float
        The selected proximal weight and share.

    Examples
    --------
    >>> from prototag import ExemplarMCDL
    >>> from prototag.research.datasets import planted
    >>> data = planted(n=300, t=12, k=30, random_state=0)
    >>> model = ExemplarMCDL(random_state=0).fit(data.X, data.Y)
    >>> model.predict(data.X).shape
    (300, 12)
    """

    kind = "exemplars"
    _threshold_shrinkage = THRESHOLD_SHRINKAGE
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_prototypes": N_PROTOTYPES,
        "beta1": [NOT_NEGATIVE],
        "margin": [NOT_NEGATIVE],
        "rho": [NOT_NEGATIVE, StrOptions({"auto"}), None],
        "n_sweeps": [COUNT],
        "spread": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "max_nonzeros": [COUNT],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "threshold": THRESHOLD,
        "n_jobs": [Integral, None],
        "engine": [Engine, None],
        "random_state": ["random_state"],
        "progress": [callable, None],
    }

    def __init__(  # noqa: PLR0913 - hyperparameters, as scikit-learn wants them
        self,
        n_prototypes: int | float = 1.0,
        *,
        beta1: float = 0.15,
        margin: float = 0.5,
        rho: float | Literal["auto"] | None = "auto",
        n_sweeps: int = 1,
        spread: float | Literal["auto"] = "auto",
        max_nonzeros: int = 25,
        n_folds: int = 3,
        threshold: str | float = "per_tag",
        n_jobs: int | None = None,
        engine: Engine | None = None,
        random_state: Any = None,
        progress: Progress | None = None,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.beta1 = beta1
        self.margin = margin
        self.rho = rho
        self.n_sweeps = n_sweeps
        self.spread = spread
        self.max_nonzeros = max_nonzeros
        self.n_folds = n_folds
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.progress = progress

    prototype_images_: Rows
    out_of_fold_scores_: Floats
    codes_: sparse.csr_array
    folds_: Rows
    clusterings_: FoldClusterings | None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn prototypes from vectors (n x m, of any length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        k = self.count_prototypes(len(X))
        size = (len(X), X.shape[1], Y.shape[1], k)
        memory_forecast.require_memory(estimate_exemplars(*size, self.max_nonzeros), REMEDY)
        notify(self.progress, "Learning prototypes")
        fitted = fit_exemplars(X, Y, k, self._draw_seed(), self.settings())
        state = fitted.state
        self.prototype_images_ = fitted.images
        self.folds_ = fitted.folds
        self.rho_ = fitted.rho
        self.spread_ = fitted.spread
        self.codes_ = state.A
        self.clusterings_ = fitted.clusterings
        self.out_of_fold_scores_ = fitted.scores
        self._set_prototypes(state.D, state.S, state.objective, state.tag_objective)
        self._set_certificate(fitted.certificate)
        self._fit_threshold(Y, fitted.scores)
        return self

    def settings(self) -> ExemplarSettings:
        """Return all settings but the number of prototypes and the seed."""
        loss = squared_hinge(self.margin, 0.25 + self.margin / 2)
        return ExemplarSettings(
            self.code_settings(),
            SemanticSettings(loss, self.beta1, MAX_SEMANTIC, self.n_sweeps),
            self.rho,
            self.spread,
            self.n_folds,
            self._engine,
        )

    def code_settings(self) -> CodeSettings:
        """Return the settings of visual coding."""
        return CodeSettings(max_nonzeros=self.max_nonzeros)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        config, arrays = super()._fitted_state()
        config |= {"rho": self.rho_, "spread": self.spread_}
        return config, arrays | {"prototype_images": self.prototype_images_.astype(np.int64)}

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(config, arrays)
        k = len(self.visual_prototypes_)
        self.prototype_images_ = modelfile.expect_array(arrays, "prototype_images", (k,), "i8")
        self.rho_ = None if config["rho"] is None else float(config["rho"])
        self.spread_ = float(config["spread"])


@dataclass(frozen=True)
class ExemplarSettings:
    """Settings of :func:`fit_exemplars`."""

    codes: CodeSettings
    semantics: SemanticSettings
    rho: float | Literal["auto"] | None  # "auto": from RHO_GRID
    spread: float | Literal["auto"]  # "auto": 0 or from SPREAD_GRID
    n_folds: int
    engine: Engine


class ExemplarFit(NamedTuple):
    """Result of :func:`fit_exemplars`."""

    state: MCDLState  # its objective before and after the training of S
    images: Rows  # k, the image that each prototype is, or the nearest one
    scores: Floats  # n x t, out-of-fold
    folds: Rows  # the fold of each image
    rho: float | None
    spread: float
    certificate: Certificate
    clusterings: FoldClusterings | None  # None if every image is a prototype


def fit_exemplars(
    X: Floats, Y: sparse.csr_array, k: int, seed: int, settings: ExemplarSettings
) -> ExemplarFit:
    """Select k prototypes, encode all images without leakage, and train S."""
    n = len(X)
    if n < 2:
        raise ValueError("n_samples=1: an image is encoded over the others, give two or more.")
    folds = np.random.default_rng(seed).permutation(n) % min(settings.n_folds, n)
    rhos: tuple[float | None, ...] = RHO_GRID if settings.rho == "auto" else (settings.rho,)
    if k == n:
        D = X
        images = np.arange(n)
        clusterings = None
        coder = settings.codes.coder(D)
        encoded = coder.encode(X, excluded=images, engine=settings.engine)
        semantics = SemanticLearner(encoded.codes, Y, seed, settings, Y.toarray())
        candidates = semantics.out_of_fold(folds, rhos)
    else:
        clusterings = cluster_folds(X, Y, k, folds, seed, settings.engine)
        images = clusterings.whole.images
        D, encoded = _encode_over_means(X, clusterings.whole, settings)
        semantics = SemanticLearner(encoded.codes, Y, seed, settings)
        candidates = _clustered_out_of_fold(X, Y, clusterings, rhos, seed, settings)
    best = int(np.argmax([ranking.mean_average_precision(Y, scores) for scores in candidates]))
    rho = rhos[best]
    scores = candidates[best]
    spread = 0.0
    if k == n and settings.spread != 0:
        propagated = _propagate_labels(encoded.codes, Y, scores, settings.spread)
        if propagated is not None:
            spread, semantics.start, scores = propagated
            rho = None

    state = MCDLState(D, semantics.start, encoded.codes, np.empty(0))
    ones = np.ones(n, np.float32)
    engine = settings.engine
    for S in (semantics.start, semantics.learn(rho)):
        state.S = S
        state.objective.append(
            updates.objective(X, Y, D, S, state.A, ones, settings.semantics, engine)
        )
    state.tag_objective = updates.tag_objective(state.S, state.A, Y, settings.semantics, engine)
    return ExemplarFit(state, images, scores, folds, rho, spread, encoded.certificate, clusterings)


def _propagate_labels(
    codes: sparse.csr_array,
    Y: sparse.csr_array,
    swept_scores: Floats,
    spread: float | Literal["auto"],
) -> tuple[float, Floats, Floats] | None:
    """Propagate labels one step along the codes; return the share, S and leave-one-out scores.

    An image's own labels return to it through the images whose codes use it; its leave-one-out
    scores exclude this part. The result is None if no share clearly exceeds the validation score of
    ``swept_scores``, which means that few labels are missing.
    """
    tags = Y.toarray()
    propagated = (codes @ Y).toarray()
    returned = np.asarray(codes.multiply(codes.T).sum(axis=1), np.float32)[:, None]

    def start(share: float) -> Floats:
        S = np.float32(1 - share) * tags + np.float32(share) * propagated
        return np.where(S < MIN_SEMANTIC, np.float32(0), S)

    def loo_scores(share: float) -> Floats:
        return np.asarray(codes @ start(share) - np.float32(share) * returned * tags)

    if isinstance(spread, str):
        validation_scores = {
            share: validation_score(Y, loo_scores(share), five=True) for share in SPREAD_GRID
        }
        share = max(validation_scores, key=lambda share: validation_scores[share])
        without = validation_score(Y, swept_scores, five=True)
        if validation_scores[share] < (1 + MIN_SPREAD_GAIN) * without:
            return None
    else:
        share = float(spread)
    return share, start(share), loo_scores(share)


def _encode_over_means(
    X: Floats, clustering: Clustering, settings: ExemplarSettings
) -> tuple[Floats, Encoded]:
    """Return the means of a clustering of X, and the codes of X over them."""
    D = updates.to_sphere(clustering.means(X))
    return D, settings.codes.coder(D).encode(X, engine=settings.engine)


def _clustered_out_of_fold(
    X: Floats,
    Y: sparse.csr_array,
    clusterings: FoldClusterings,
    rhos: tuple[float | None, ...],
    seed: int,
    settings: ExemplarSettings,
) -> list[Floats]:
    """Compute out-of-fold scores for each rho, by prototypes and S of the other folds."""

    def score(inside: Rows, outside: Rows, clustering: Clustering) -> Floats:
        D, encoded = _encode_over_means(X[outside], clustering, settings)
        codes = settings.codes.coder(D).encode(X[inside], engine=settings.engine).codes
        semantics = SemanticLearner(encoded.codes, Y[outside], seed, settings)
        return np.stack([codes @ semantics.learn(rho) for rho in rhos], axis=1)

    scores = clusterings.out_of_fold(score, (len(X), len(rhos), Y.shape[1]))
    return [scores[:, number] for number in range(len(rhos))]


class SemanticLearner:
    """Trains S on codes and tags; by default S_0 is the least-squares initialization."""

    def __init__(
        self,
        codes: sparse.csr_array,
        Y: sparse.csr_array,
        seed: int,
        settings: ExemplarSettings,
        start: Floats | None = None,
    ) -> None:
        self.codes = codes
        self.Y = Y
        self.seed = seed
        self.settings = settings
        if start is None:
            start = updates.initial_semantics(codes, Y, positive=1.0, v=settings.semantics.v)
        self.start = start

    def out_of_fold(self, folds: Rows, rhos: tuple[float | None, ...]) -> list[Floats]:
        """Compute the scores of all images for each rho, by an S of the other folds."""
        scores_by_rho = [np.empty(self.Y.shape, np.float32) for _ in rhos]
        for number in range(folds.max() + 1):
            inside = np.flatnonzero(folds == number)
            outside = np.flatnonzero(folds != number)
            for scores, rho in zip(scores_by_rho, rhos, strict=True):
                scores[inside] = self.codes[inside] @ self.learn(rho, outside)
        return scores_by_rho

    def learn(self, rho: float | None, rows: Rows | None = None) -> Floats:
        """Train S on all images or on some ``rows``; without rho, return S_0."""
        if rho is None:
            return self.start
        codes = self.codes if rows is None else self.codes[rows]
        Y = self.Y if rows is None else self.Y[rows]
        return updates.semantic_update(
            self.start,
            codes,
            Y,
            np.random.default_rng([self.seed, 1]),
            self.settings.semantics,
            rho=rho,
            engine=self.settings.engine,
        ).S
