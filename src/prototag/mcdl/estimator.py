"""Algorithm 1: marginalized coupled dictionary learning, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import asdict
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.engine import Engine, memory_forecast
from prototag.errors import ModelFileError
from prototag.events import Meter, Progress
from prototag.mcdl import settings as losses
from prototag.mcdl.algorithm1 import MCDLState, Problem, VisualStarts
from prototag.mcdl.checkpoint import Checkpoint
from prototag.mcdl.memory_estimates import REMEDY, estimate_mcdl
from prototag.mcdl.prototype_estimator import (
    COUNT,
    N_PROTOTYPES,
    NOT_NEGATIVE,
    POSITIVE,
    THRESHOLD,
    PrototypeEstimator,
)
from prototag.mcdl.settings import RECIPES, CodeSettings, Recipe, SemanticSettings


class MCDL(PrototypeEstimator):
    r"""Marginalized coupled dictionary learning, as the paper has it.

    Minimises over visual prototypes D, semantic prototypes S and codes A

        sum_i [ (p_i / lam) ||x_i - a_i D||^2
                + sum_c loss(y_ic, a_i S[:, c]) ] + beta1 sum |S|

    subject to ``a_i >= 0``, ``sum(a_i) <= beta0``, ``||d_k|| <= 1`` and ``0 <= S <= v``, with the
    squared hinge ``loss(y, s) = max(0, C - (2 y - 1)(s - tau))^2`` and ``lam = eta^2 / t``. A new
    image is coded over D alone; its scores are the code times S.

    While learning, a code has seen its own image's tags, and an image has shaped the prototypes
    that it is coded over; a new image has done neither. :class:`prototag.ExemplarMCDL` repairs
    that.

    Parameters
    ----------
    n_prototypes : int or float, default=0.2
        Number of prototypes k, or their share of the training images.
    recipe : {"paper", "published"} or Recipe, default="paper"
        The points in which the paper and the authors' published code differ; see
        :class:`prototag.mcdl.settings.Recipe`.
    eta : float, default=0.5
        Weight of the tags against the picture in coupled coding; ``lam = eta^2 / t``.
    beta0 : float, default=1.0
        The largest sum of a code.
    beta1 : float, default=0.15
        Sparsity of S.
    v : float, default=5.0
        The largest entry of S.
    margin : float, default=0.5
        C, the margin of the squared hinge.
    tau : float, optional
        Centre of the margin; by default the recipe's, ``0.25 + C / 2`` in the paper.
    loss : {"squared_hinge", "squared"}, default="squared_hinge"
        "squared" pulls scores to the tags themselves (CDL).
    max_iter : int, default=15
        R, outer iterations. 0 leaves the initialisation (UDL).
    n_passes : int, default=4
        Coding passes (MCSC) in each iteration.
    rho : float, default=0.1
        How firmly S is held to where it was, in units of sqrt(k) and of the iteration's number.
    max_nonzeros : int, default=20
        Largest number of prototypes in a code.
    init_iter : int, default=100
        Alternations of visual coding and visual update between k-means and the first iteration.
    threshold : {"global", "per_tag"} or float, default="global"
        Scores above it give a tag: one value or one for each tag, chosen for the best F1 on the
        training images coded without their tags; or a number of your own.
    n_jobs : int, optional
        Threads; None is one, -1 all cores. The result is the same bits for any number.
    engine : Engine, optional
        What runs the work instead of threads, to the same bits: a cluster, for example
        (:class:`prototag.engine.dask.Dask`). Not kept in a model file.
    random_state : int, RandomState or None, default=None
        Start of k-means and the order of sweeps.
    progress : callable, optional
        Called with an :class:`prototag.events.Event` after the initialisation and each iteration.
    checkpoint : path, optional
        File that keeps the state after each iteration. A fit that finds it goes on from there and
        ends in the same bits; it is left in place at the end.

    Attributes
    ----------
    visual_prototypes_ : ndarray of shape (k, m)
    semantic_prototypes_ : csr_array of shape (k, t)
    threshold_ : float or ndarray of shape (t,)
    objective_ : structured ndarray of shape (n_iter_ + 1,)
        Terms "visual", "loss", "sparsity" and "total", from the initialisation on.
    tag_objective_ : ndarray of shape (t,)
        Loss and sparsity of each tag after the last semantic step.
    n_iter_ : int
    codes_gap_ : float
        Largest duality gap of the training images' visual codes that the cap did not end.
    n_capped_ : int
        How many of these codes the cap ended.
    n_stalled_ : int
        For how many no next step could be told.
    classes_ : ndarray of shape (t,)
        Names of the tags: the columns of a DataFrame, else their numbers.
    n_features_in_ : int
    feature_names_in_ : ndarray, if X was a DataFrame

    Examples
    --------
    >>> from prototag import MCDL
    >>> from prototag.research.datasets import planted
    >>> data = planted(n=300, t=12, k=30, random_state=0)
    >>> model = MCDL(n_prototypes=30, init_iter=5, random_state=0)
    >>> model.fit(data.X, data.Y).predict(data.X).shape
    (300, 12)
    """

    kind = "mcdl"
    _not_kept = PrototypeEstimator._not_kept | {"checkpoint"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_prototypes": N_PROTOTYPES,
        "recipe": [StrOptions(set(RECIPES)), Recipe],
        "eta": [POSITIVE],
        "beta0": [POSITIVE],
        "beta1": [NOT_NEGATIVE],
        "v": [POSITIVE],
        "margin": [NOT_NEGATIVE],
        "tau": [Interval(Real, None, None, closed="neither"), None],
        "loss": [StrOptions({"squared_hinge", "squared"})],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "n_passes": [COUNT],
        "rho": [NOT_NEGATIVE],
        "max_nonzeros": [COUNT],
        "init_iter": [Interval(Integral, 0, None, closed="left")],
        "threshold": THRESHOLD,
        "n_jobs": [Integral, None],
        "engine": [Engine, None],
        "random_state": ["random_state"],
        "progress": [callable, None],
        "checkpoint": [str, Path, None],
    }

    def __init__(  # noqa: PLR0913 - hyperparameters, as scikit-learn wants them
        self,
        n_prototypes: int | float = 0.2,
        *,
        recipe: str | Recipe = "paper",
        eta: float = 0.5,
        beta0: float = 1.0,
        beta1: float = 0.15,
        v: float = 5.0,
        margin: float = 0.5,
        tau: float | None = None,
        loss: str = "squared_hinge",
        max_iter: int = 15,
        n_passes: int = 4,
        rho: float = 0.1,
        max_nonzeros: int = 20,
        init_iter: int = 100,
        threshold: str | float = "global",
        n_jobs: int | None = None,
        engine: Engine | None = None,
        random_state: Any = None,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.recipe = recipe
        self.eta = eta
        self.beta0 = beta0
        self.beta1 = beta1
        self.v = v
        self.margin = margin
        self.tau = tau
        self.loss = loss
        self.max_iter = max_iter
        self.n_passes = n_passes
        self.rho = rho
        self.max_nonzeros = max_nonzeros
        self.init_iter = init_iter
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.progress = progress
        self.checkpoint = checkpoint

    # -- presets -----------------------------------------------------------------------------------

    @classmethod
    def paper(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """The recipe as the paper states it; what it leaves open is as in its published code."""
        return cls(n_prototypes, **overrides)

    @classmethod
    def published(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """The recipe of the authors' published code."""
        return cls(n_prototypes, **{"recipe": "published", **overrides})

    @classmethod
    def udl(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """Uncoupled dictionary learning, the paper's baseline: the initialisation alone."""
        return cls(n_prototypes, **{"max_iter": 0, **overrides})

    @classmethod
    def cdl(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """Coupled dictionary learning, the paper's baseline: squared loss, S not sparse."""
        return cls(n_prototypes, **{"loss": "squared", "beta1": 0.0, **overrides})

    # -- learning ----------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn prototypes from vectors and tags.

        Parameters
        ----------
        X : array-like of shape (n, m)
            Visual vectors; brought to unit length here.
        y : array-like or sparse matrix of shape (n, t), or array-like of shape (n,)
            Tags as 0/1. One-dimensional: one label for each image.
        """
        return self.fit_from(X, y, {})

    def fit_from(self, X: Any, y: Any, starts: VisualStarts) -> Self:
        """As ``fit``, to the same bits, with what fits of the same images have found in common.

        ``starts`` is theirs: empty for the first, then where the visual prototypes begin.
        """
        X, Y = self.validate_training_data(X, y)
        k = self._count_prototypes(len(X))
        size = (len(X), X.shape[1], Y.shape[1], k)
        memory_forecast.require_memory(estimate_mcdl(*size, self.max_nonzeros), REMEDY)
        problem = self._problem(X, Y)
        saved = Checkpoint.open(self, X, Y)
        seed = saved.seed(self._draw_seed())
        state = saved.state or problem.initialise(k, seed, starts)
        meter = Meter("Learning prototypes", self.max_iter, self.progress)
        saved.keep(state)
        self._tell(meter, state)
        for iteration in range(len(state.objective), self.max_iter + 1):
            rng = np.random.default_rng([seed, iteration])
            state.D, state.S = problem.revive(state, problem.recipe.unused)
            state.A = problem.code(state, opening=iteration == 1)  # MCSC
            state.D = problem.visual(state, rng)
            state.S, state.tag_objective = problem.semantic(state, rng, iteration)
            state.objective.append(problem.objective(state))
            saved.keep(state)
            self._tell(meter, state)

        # Without tags a prototype that was moved in vain would still catch the image it sits on.
        last = "rest" if problem.recipe.unused == "reseed" else problem.recipe.unused
        self._keep(*problem.revive(state, last), state.objective, state.tag_objective)
        encoded = self._coder.encode(X, engine=self._engine)  # as new images are: without tags
        self._keep_certificate(encoded.certificate)
        self._fit_threshold(Y, self._combined(encoded.codes))
        return self

    def _problem(self, X: Any, Y: Any) -> Problem:
        recipe = RECIPES[self.recipe] if isinstance(self.recipe, str) else self.recipe
        tau = 0.25 + recipe.tau_share * self.margin if self.tau is None else self.tau
        hinge = self.loss == "squared_hinge"
        loss = losses.squared_hinge(self.margin, tau) if hinge else losses.squared()
        return Problem(
            X,
            Y,
            recipe,
            self._code_settings(),
            SemanticSettings(loss, self.beta1, self.v, rescale=recipe.rescale),
            self.eta,
            self.rho,
            self.n_passes,
            self.init_iter,
            self._engine,
        )

    def _code_settings(self) -> CodeSettings:
        return CodeSettings(self.beta0, self.max_nonzeros)

    def _tell(self, meter: Meter, state: MCDLState) -> None:
        """One event for each state, with its objective; the first counts as no work."""
        done = len(state.objective) - 1
        new = done - meter.done
        message = f"objective {state.objective[-1][-1]:.9g}"
        meter.advance(new, instant=new - 1 if new > 1 else 0, message=message)

    @property
    def n_iter_(self) -> int:
        """Iterations made."""
        return len(self.objective_) - 1

    def _recipe(self) -> dict[str, Any]:
        given = super()._recipe()
        if isinstance(self.recipe, Recipe):
            given["recipe"] = asdict(self.recipe)
        return given

    @classmethod
    def from_state(cls, config: dict[str, Any], arrays: Any) -> Self:
        """The estimator that :meth:`to_state` described."""
        given = config.get("recipe")
        if isinstance(given, dict) and isinstance(given.get("recipe"), dict):
            try:
                given = {**given, "recipe": Recipe(**given["recipe"])}
            except (TypeError, ValueError) as error:
                raise ModelFileError(f"the recipe of the model is not known: {error}") from error
        return super().from_state({**config, "recipe": given}, arrays)
