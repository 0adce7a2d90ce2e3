"""The repaired core: prototypes are images or means of images, S learned from codes out of fold."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Arrays, Floats, Rows
from prototag.coding import losses
from prototag.engine import memory
from prototag.evaluation.thresholds import SHRINK
from prototag.events import Progress, tell
from prototag.mcdl import out_of_fold
from prototag.mcdl.base import COUNT, N_PROTOTYPES, NOT_NEGATIVE, THRESHOLD, PrototypeEstimator
from prototag.mcdl.clustering import Clusterings
from prototag.mcdl.settings import CodeSettings, SemanticSettings
from prototag.storage import modelfile

V = 5.0  # the largest entry of S, as in the paper


class ExemplarMCDL(PrototypeEstimator):
    """MCDL with the label leak removed: no code has seen its own image, nor its tags.

    As the paper learns (:class:`prototag.MCDL`), S and thresholds are fitted to codes that never
    occur for a new image. Here D is the training images, or means of few that look alike and share
    tags; an image is coded without its tags, over all prototypes but the one that it became, or
    judged by prototypes of other folds; S starts from the images' tags and is held to them:

        sum_i sum_c loss(y_ic, a_i S[:, c]) + beta1 sum |S| + rho ||S - S_0||^2

    with the squared hinge of :class:`prototag.MCDL` (:mod:`prototag.mcdl.out_of_fold`).

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
    n_jobs, random_state
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
    _shrink = SHRINK
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
        "random_state": ["random_state"],
        "progress": [callable, None],
    }

    def __init__(
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
        self.random_state = random_state
        self.progress = progress

    prototype_images_: Rows
    out_of_fold_scores_: Floats
    codes_: sparse.csr_array
    folds_: Rows
    clusterings_: Clusterings | None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn prototypes from vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self._begin_fit(X, y)
        k = self._count_prototypes(len(X))
        memory.require(memory.exemplars(len(X), X.shape[1], Y.shape[1], k, self.max_nonzeros))
        tell(self.progress, "Learning prototypes")
        learned = out_of_fold.learn(X, Y, k, self._draw_seed(), self._settings())
        self.prototype_images_, self.folds_ = learned.images, learned.folds
        self.rho_, self.spread_ = learned.rho, learned.spread
        self.codes_, self.clusterings_ = learned.state.A, learned.clusterings
        self.out_of_fold_scores_ = learned.scores
        state = learned.state
        self._keep(state.D, state.S, state.objective, state.tag_objective)
        self._keep_certificate(learned.certificate)
        self._fit_threshold(Y, learned.scores)
        return self

    def _settings(self) -> out_of_fold.Settings:
        loss = losses.squared_hinge(self.margin, 0.25 + self.margin / 2)
        return out_of_fold.Settings(
            self._code_settings(),
            SemanticSettings(loss, self.beta1, V, self.n_sweeps),
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
        self.prototype_images_ = modelfile.expect(arrays, "prototype_images", (k,), "i8")
        self.rho_ = None if config["rho"] is None else float(config["rho"])
        self.spread_ = float(config["spread"])
