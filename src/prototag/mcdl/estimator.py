"""Marginalized coupled dictionary learning (MCDL) as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import asdict
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.engine import Engine, memory_forecast
from prototag.errors import ModelFileError
from prototag.events import Meter, Progress
from prototag.mcdl import settings as losses
from prototag.mcdl.algorithm1 import MCDLState, Problem, VisualStarts, run_iterations
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
    r"""Marginalized coupled dictionary learning as in the paper.

    It minimizes over visual prototypes D, semantic prototypes S and codes A

        sum_i [ (p_i / lam) ||x_i - a_i D||^2
                + sum_c loss(y_ic, a_i S[:, c]) ] + beta1 sum |S|

    subject to ``a_i >= 0``, ``sum(a_i) <= beta0``, ``||d_k|| <= 1`` and ``0 <= S <= v``, with the
    squared hinge ``loss(y, s) = max(0, C - (2 y - 1)(s - tau))^2`` and ``lam = eta^2 / t``. A new
    image is coded over D alone; its scores are the code times S.

    Training codes leak labels: they depend on their own image's tags, and on prototypes that the
    image has shaped. Codes of new images do neither. :class:`prototag.ExemplarMCDL` removes this
    leakage.

    Parameters
    ----------
    n_prototypes : int or float, default=0.2
        Number of prototypes k, or their share of the training images.
    recipe : {"paper", "published"} or Recipe, default="paper"
        The choices in which the paper and the authors' published code differ; see
        :class:`prototag.mcdl.settings.Recipe`.
    eta : float, default=0.5
        Weight of the tags against the picture in coupled coding; ``lam = eta^2 / t``.
    beta0 : float, default=1.0
        Upper bound of the sum of a code.
    beta1 : float, default=0.15
        Sparsity of S.
    v : float, default=5.0
        Upper bound of the entries of S.
    margin : float, default=0.5
        C, the margin of the squared hinge.
    tau : float, optional
        Centre of the margin; by default the recipe's, ``0.25 + C / 2`` in the paper.
    loss : {"squared_hinge", "squared"}, default="squared_hinge"
        "squared" fits the scores to the tags, as in CDL.
    max_iter : int, default=15
        R, the number of outer iterations. 0 returns the initialization (UDL).
    n_passes : int, default=4
        Passes of coupled coding (MCSC) in each iteration.
    rho : float, default=0.1
        Proximal weight of the semantic update, in units of sqrt(k) times the iteration.
    max_nonzeros : int, default=20
        Maximum number of prototypes in a code.
    init_iter : int, default=100
        Alternations of visual coding and visual update after k-means.
    threshold : {"global", "per_tag"} or float, default="global"
        A tag is applied if its score exceeds the threshold: one value, or one per tag, selected
        for the best F1 on training images that are coded without their tags; or a given number.
    n_jobs : int, optional
        Number of threads; None is one, -1 all cores. Results are bit-identical for any number.
    engine : Engine, optional
        Runs batches instead of threads, for example on a cluster
        (:class:`prototag.engine.dask.Dask`), with bit-identical results. Model files do not store
        it.
    random_state : int, RandomState or None, default=None
        Seed of k-means and of the order of sweeps.
    progress : callable, optional
        Called with a :class:`prototag.events.Event` after the initialization and each iteration.
    checkpoint : path, optional
        File that stores the state after each iteration. A fit with the same data and parameters
        resumes from it with bit-identical results. The file remains after the fit.

    Attributes
    ----------
    visual_prototypes_ : ndarray of shape (k, m)
    semantic_prototypes_ : csr_array of shape (k, t)
    threshold_ : float or ndarray of shape (t,)
    objective_ : structured ndarray of shape (n_iter_ + 1,)
        Terms "visual", "loss", "sparsity" and "total" of the initialization and each iteration.
    tag_objective_ : ndarray of shape (t,)
        Loss and sparsity of each tag after the last semantic update.
    n_iter_ : int
    codes_gap_ : float
        Largest duality gap of the training images' visual codes, without capped ones.
    n_capped_ : int
        Number of these codes whose path ended at ``max_nonzeros``.
    n_stalled_ : int
        Number of these codes whose path ended for lack of numerical precision.
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
    _unsaved_parameters = PrototypeEstimator._unsaved_parameters | {"checkpoint"}
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
        """Create the paper's recipe; the published code settles what the paper leaves open."""
        return cls(n_prototypes, **overrides)

    @classmethod
    def published(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """Create the recipe of the authors' published code."""
        return cls(n_prototypes, **{"recipe": "published", **overrides})

    @classmethod
    def udl(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """Create uncoupled dictionary learning (UDL), the paper's baseline: the initialization."""
        return cls(n_prototypes, **{"max_iter": 0, **overrides})

    @classmethod
    def cdl(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """Create coupled dictionary learning (CDL), the paper's baseline: squared loss, dense S."""
        return cls(n_prototypes, **{"loss": "squared", "beta1": 0.0, **overrides})

    # -- training ----------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn prototypes from vectors and tags.

        Parameters
        ----------
        X : array-like of shape (n, m)
            Visual vectors of any length; they are normalized.
        y : array-like or sparse matrix of shape (n, t), or array-like of shape (n,)
            Tags as 0/1, or one class per image.
        """
        return self.fit_from(X, y, {})

    def fit_from(self, X: Any, y: Any, starts: VisualStarts) -> Self:
        """Fit with a cache of visual initializations; the result is bit-identical to ``fit``.

        Pass the same ``starts`` to all fits of the same images, and an empty one to the first.
        """
        X, Y = self.validate_training_data(X, y)
        k = self.count_prototypes(len(X))
        size = (len(X), X.shape[1], Y.shape[1], k)
        memory_forecast.require_memory(estimate_mcdl(*size, self.max_nonzeros), REMEDY)
        problem = self._problem(X, Y)
        checkpoint = Checkpoint.open(self, X, Y)
        seed = checkpoint.seed(self._draw_seed())
        state = checkpoint.state or problem.initialise(k, seed, starts)
        meter = Meter("Learning prototypes", self.max_iter, self.progress)

        def after_iteration(state: MCDLState) -> None:
            checkpoint.write(state)
            self._report(meter, state)

        after_iteration(state)
        state = run_iterations(
            problem, state, seed=seed, max_iter=self.max_iter, after_iteration=after_iteration
        )
        # A reseeded prototype without semantics would still be selected by the image it equals.
        last = "clear" if problem.recipe.unused == "reseed" else problem.recipe.unused
        D, S = problem.handle_unused(state, last)
        self._set_prototypes(D, S, state.objective, state.tag_objective)
        encoded = self._coder.encode(X, engine=self._engine)  # without tags, as in prediction
        self._set_certificate(encoded.certificate)
        self._fit_threshold(Y, self._score_codes(encoded.codes))
        return self

    def _problem(self, X: Any, Y: Any) -> Problem:
        recipe = RECIPES[self.recipe] if isinstance(self.recipe, str) else self.recipe
        hinge = self.loss == "squared_hinge"
        tau = self.margin_centre()
        loss = losses.squared_hinge(self.margin, tau) if hinge else losses.squared()
        return Problem(
            X,
            Y,
            recipe,
            self.code_settings(),
            SemanticSettings(loss, self.beta1, self.v, rescale=recipe.rescale),
            self.eta,
            self.rho,
            self.n_passes,
            self.init_iter,
            self._engine,
        )

    def margin_centre(self) -> float:
        """Return tau, the parameter's or the recipe's."""
        recipe = RECIPES[self.recipe] if isinstance(self.recipe, str) else self.recipe
        return float(0.25 + recipe.tau_share * self.margin if self.tau is None else self.tau)

    def code_settings(self) -> CodeSettings:
        """Return the settings of visual coding."""
        return CodeSettings(self.beta0, self.max_nonzeros)

    def _report(self, meter: Meter, state: MCDLState) -> None:
        """Send a progress event with the objective; resumed iterations count as instant."""
        done = len(state.objective) - 1
        new = done - meter.done
        message = f"objective {state.objective[-1][-1]:.9g}"
        meter.advance(new, instant=new - 1 if new > 1 else 0, message=message)

    @property
    def n_iter_(self) -> int:
        """Number of completed iterations."""
        return len(self.objective_) - 1

    def result_parameters(self) -> dict[str, Any]:
        """Return the parameters that determine the result, as plain values."""
        parameters = super().result_parameters()
        if isinstance(self.recipe, Recipe):
            parameters["recipe"] = asdict(self.recipe)
        return parameters

    @classmethod
    def from_state(cls, config: dict[str, Any], arrays: Any) -> Self:
        """Restore the estimator from the result of :meth:`to_state`."""
        parameters = config.get("recipe")
        if isinstance(parameters, dict) and isinstance(parameters.get("recipe"), dict):
            try:
                parameters = {**parameters, "recipe": Recipe(**parameters["recipe"])}
            except (TypeError, ValueError) as error:
                raise ModelFileError(f"the recipe of the model is not known: {error}") from error
        return super().from_state({**config, "recipe": parameters}, arrays)
