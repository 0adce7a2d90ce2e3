"""The repaired core: prototypes are images or means of images, S learned from codes out of fold.

No code has been shaped by its own image, neither by its vector nor by its tags. D is all training
images, and an image is coded over the others; or D are means of images
(:mod:`prototag.mcdl.prototype_clustering`), and an image is judged by means of the other folds. S
minimises

    sum_i sum_c loss(y_ic, a_i S[:, c]) + beta1 sum |S| + rho ||S - S_0||^2

by few sweeps from S_0, the tags of the prototypes' images; or, where many tags were forgotten, S is
these tags and, in part, those of the images that a prototype is coded by. The scores that
thresholds are chosen from come from S learned from the other folds.
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

MAX_SEMANTIC = 5.0  # the largest entry of S, as in the paper
RHO_GRID = (None, 0.3, 1.0, 3.0)  # None keeps S at its start
SPREAD_GRID = (0.15, 0.3, 0.45, 0.6)
MIN_SPREAD_GAIN = (
    0.015  # by how much passing tags on must be better: S has three times the entries then
)
MIN_SEMANTIC = 0.01  # what a prototype says of a tag, where a tag of its own counts 1


class ExemplarMCDL(PrototypeEstimator):
    """MCDL with the label leak removed: no code has seen its own image, nor its tags.

    As the paper learns (:class:`prototag.MCDL`), S and thresholds are fitted to codes that never
    occur for a new image. Here D is the training images, or means of few that look alike and share
    tags; an image is coded without its tags, over all prototypes but the one that it became, or
    judged by prototypes of other folds; S starts from the images' tags and is held to them:

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
        How firmly S is held to the tags of the prototypes' images; None keeps it there; "auto"
        takes the value with the best mean average precision out of fold.
    n_sweeps : int, default=1
        Sweeps over S.
    spread : float or "auto", default="auto"
        How much of S comes from the tags of the images that a prototype is coded by: people forget
        tags, and images that look alike remember them. S is then not swept. Only with every image a
        prototype; "auto" takes the share that annotates left-out images best, 0 where sweeping
        does.
    max_nonzeros : int, default=25
        Largest number of prototypes in a code.
    n_folds : int, default=3
        Folds of the images that learn S, for the scores that thresholds are chosen from.
    threshold : {"per_tag", "global"} or float, default="per_tag"
        As in :class:`prototag.MCDL`, from left-out images; shrunk to the global one for rare tags.
    n_jobs, engine, random_state
        As in :class:`prototag.MCDL`.
    progress : callable, optional
        Called with an :class:`prototag.events.Event` when a stage begins.

    Attributes
    ----------
    visual_prototypes_, semantic_prototypes_, threshold_, tag_objective_, classes_
        As in :class:`prototag.MCDL`.
    codes_gap_, n_capped_, n_stalled_
        As in :class:`prototag.MCDL`, of the codes that S was learned from.
    objective_ : structured ndarray of shape (2,)
        Terms "visual", "loss", "sparsity" and "total" before and after S was learned.
    out_of_fold_scores_ : ndarray of shape (n, t)
        What the training images would score as new ones.
    codes_ : csr_array of shape (n, k)
        Codes of the training images, each without the prototype that it became.
    folds_ : ndarray of shape (n,)
    clusterings_ : Clusterings or None
        Which images each prototype is the mean of; None where every image is one. These four are
        not kept in a model file.
    prototype_images_ : ndarray of shape (k,)
        Which training image each prototype is; with fewer prototypes than images, the nearest of
        those that it is the mean of.
    rho_ : float or None
    spread_ : float
        The strength and the share used.

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
    _shrink = THRESHOLD_SHRINKAGE
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
        """Learn prototypes from vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        k = self._count_prototypes(len(X))
        size = (len(X), X.shape[1], Y.shape[1], k)
        memory_forecast.require_memory(estimate_exemplars(*size, self.max_nonzeros), REMEDY)
        notify(self.progress, "Learning prototypes")
        learned = fit_exemplars(X, Y, k, self._draw_seed(), self.settings())
        self.prototype_images_ = learned.images
        self.folds_ = learned.folds
        self.rho_ = learned.rho
        self.spread_ = learned.spread
        self.codes_ = learned.state.A
        self.clusterings_ = learned.clusterings
        self.out_of_fold_scores_ = learned.scores
        state = learned.state
        self._keep(state.D, state.S, state.objective, state.tag_objective)
        self._keep_certificate(learned.certificate)
        self._fit_threshold(Y, learned.scores)
        return self

    def settings(self) -> ExemplarSettings:
        """All that decides a fit but the number of prototypes and the seed."""
        loss = squared_hinge(self.margin, 0.25 + self.margin / 2)
        return ExemplarSettings(
            self._code_settings(),
            SemanticSettings(loss, self.beta1, MAX_SEMANTIC, self.n_sweeps),
            self.rho,
            self.spread,
            self.n_folds,
            self._engine,
        )

    def _code_settings(self) -> CodeSettings:
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
    """All that decides a fit out of fold."""

    codes: CodeSettings
    semantics: SemanticSettings
    rho: float | Literal["auto"] | None  # "auto": the one of RHOS that ranks left-out images best
    spread: float | Literal["auto"]  # "auto": the one of SPREADS that annotates them best, or 0
    n_folds: int
    engine: Engine


class ExemplarFit(NamedTuple):
    """What learning out of fold gives an estimator."""

    state: MCDLState  # prototypes, codes, objective before and after S was learned
    images: Rows  # which image each prototype is, or is nearest to
    scores: Floats  # n x t, what the images would score as new ones
    folds: Rows  # the fold of each image
    rho: float | None
    spread: float
    certificate: Certificate
    clusterings: FoldClusterings | None  # where the prototypes are fewer than the images


def fit_exemplars(
    X: Floats, Y: sparse.csr_array, k: int, seed: int, settings: ExemplarSettings
) -> ExemplarFit:
    """Find k prototypes, code all images over those that they did not shape, learn S."""
    n = len(X)
    if n < 2:
        raise ValueError("n_samples=1: an image is coded over the others, give two or more.")
    folds = np.random.default_rng(seed).permutation(n) % min(settings.n_folds, n)
    rhos: tuple[float | None, ...] = RHO_GRID if settings.rho == "auto" else (settings.rho,)
    if k == n:
        D = X
        images = np.arange(n)
        clusterings = None
        coder = settings.codes.coder(D)
        encoded = coder.encode(X, excluded=images, engine=settings.engine)
        semantics = SemanticLearner(encoded.codes, Y, seed, settings, Y.toarray())
        found = semantics.out_of_fold(folds, rhos)
    else:
        clusterings = cluster_folds(X, Y, k, folds, seed, settings.engine)
        images = clusterings.whole.images
        D, encoded = _encode_over_means(X, clusterings.whole, settings)
        semantics = SemanticLearner(encoded.codes, Y, seed, settings)
        found = _clustered_out_of_fold(X, Y, clusterings, rhos, seed, settings)
    best = int(np.argmax([ranking.mean_average_precision(Y, scores) for scores in found]))
    rho = rhos[best]
    scores = found[best]
    spread = 0.0
    if k == n and settings.spread != 0:
        passed = _spread_labels(encoded.codes, Y, scores, settings.spread)
        if passed is not None:
            spread, semantics.start, scores = passed
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


def _spread_labels(
    codes: sparse.csr_array, Y: sparse.csr_array, swept: Floats, spread: float | Literal["auto"]
) -> tuple[float, Floats, Floats] | None:
    """Tags passed on to the images that are coded by them: the share, S, scores of left-out images.

    People forget tags; images that look alike remember them. An image's own tags come back to it
    through others that it takes part in: what does is taken off its scores. None where no share
    annotates left-out images clearly better than S ``swept`` does: few tags were forgotten.
    """
    tags = Y.toarray()
    passed = (codes @ Y).toarray()
    back = np.asarray(codes.multiply(codes.T).sum(axis=1), np.float32)[:, None]

    def start(share: float) -> Floats:
        S = np.float32(1 - share) * tags + np.float32(share) * passed
        return np.where(S < MIN_SEMANTIC, np.float32(0), S)

    def left_out(share: float) -> Floats:
        return np.asarray(codes @ start(share) - np.float32(share) * back * tags)

    if isinstance(spread, str):
        qualities = {
            share: validation_score(Y, left_out(share), five=True) for share in SPREAD_GRID
        }
        share = max(qualities, key=lambda share: qualities[share])
        if qualities[share] < (1 + MIN_SPREAD_GAIN) * validation_score(Y, swept, five=True):
            return None
    else:
        share = float(spread)
    return share, start(share), left_out(share)


def _encode_over_means(
    X: Floats, clustering: Clustering, settings: ExemplarSettings
) -> tuple[Floats, Encoded]:
    """The prototypes of a clustering of X, and codes of X over them."""
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
    """For each rho the scores of all images, each by prototypes and S of the other folds."""

    def score(inside: Rows, outside: Rows, clustering: Clustering) -> Floats:
        D, encoded = _encode_over_means(X[outside], clustering, settings)
        codes = settings.codes.coder(D).encode(X[inside], engine=settings.engine).codes
        semantics = SemanticLearner(encoded.codes, Y[outside], seed, settings)
        return np.stack([codes @ semantics.learn(rho) for rho in rhos], axis=1)

    found = clusterings.left_out(score, (len(X), len(rhos), Y.shape[1]))
    return [found[:, number] for number in range(len(rhos))]


class SemanticLearner:
    """S from codes and tags of images, by default from where least squares lays their tags."""

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
        """For each rho the scores of all images, each with an S learned from the other folds."""
        found = [np.empty(self.Y.shape, np.float32) for _ in rhos]
        for number in range(folds.max() + 1):
            inside = np.flatnonzero(folds == number)
            outside = np.flatnonzero(folds != number)
            for scores, rho in zip(found, rhos, strict=True):
                scores[inside] = self.codes[inside] @ self.learn(rho, outside)
        return found

    def learn(self, rho: float | None, rows: Rows | None = None) -> Floats:
        """S by sweeps over all images, or some; with no rho, its start."""
        if rho is None:
            return self.start
        codes, Y = (self.codes, self.Y) if rows is None else (self.codes[rows], self.Y[rows])
        return updates.semantic_step(
            self.start,
            codes,
            Y,
            np.random.default_rng([self.seed, 1]),
            self.settings.semantics,
            rho=rho,
            engine=self.settings.engine,
        ).S
