"""Algorithm 1: marginalized coupled dictionary learning, as a scikit-learn estimator."""

from __future__ import annotations

import time
from collections.abc import Callable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from prototag.engine import memory
from prototag.errors import ModelFileError
from prototag.estimator import TagEstimator
from prototag.evaluation.thresholds import best_tag_thresholds as tag_thresholds
from prototag.mcdl import checkpoint as checkpoints
from prototag.mcdl import exemplars, explanation
from prototag.mcdl.explanation import Part
from prototag.mcdl.problem import OBJECTIVE, Problem, State, coder_of
from prototag.storage import modelfile
from prototag.storage.provenance import provenance

Floats = npt.NDArray[np.float32]
TERMS = ("visual", "loss", "sparsity", "total")


# What both of the paper's recipes share, where MCDL() differs.
_COUPLED = {"learning": "coupled", "rho": 0.1, "max_nonzeros": 20, "threshold": "global"}


class Progress(NamedTuple):
    """What a callback is told after each iteration."""

    iteration: int  # 0: the initialisation
    max_iter: int
    objective: float
    seconds_left: float | None  # None until an iteration has shown how long one takes


class MCDL(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TagEstimator):
    r"""Marginalized coupled dictionary learning.

    Minimises over visual prototypes D, semantic prototypes S and codes A

        sum_i [ (p_i / lam) ||x_i - a_i D||^2 + sum_c loss(y_ic, a_i S[:, c]) ] + beta1 sum |S|

    subject to ``a_i >= 0``, ``sum(a_i) <= beta0``, ``||d_k|| <= 1`` and ``0 <= S <= v``, with the
    squared hinge ``loss(y, s) = max(0, C - (2 y - 1)(s - tau))^2`` and ``lam = eta^2 / t``. A new
    image is coded over D alone; its scores are the code times S.

    As the paper learns (``MCDL.paper()``, ``MCDL.published()``), a code has seen its own image's
    tags and an image has shaped the prototypes that it is coded over; a new image has done neither,
    so S and thresholds are fitted to codes that never occur. ``MCDL()`` repairs this: D is the
    training images, or means of few that look alike and share tags; an image is coded without its
    tags, over all prototypes but the one that it became, or judged by prototypes of other folds; S
    starts from the images' tags and is held to them (:mod:`prototag.mcdl.exemplars`).

    Parameters
    ----------
    n_prototypes : int or float, default=1.0
        Number of prototypes k, or their share of the training images.
    learning : {"out_of_fold", "coupled"}, default="out_of_fold"
        "coupled" is Algorithm 1 of the paper. Out of fold neither ``max_iter`` and the parameters
        of its iterations play a part (eta, n_passes, drop, norm, init, init_iter, init_positive,
        rho_growth, rescale, unused), nor ``checkpoint``, which is refused.
    eta : float, default=0.5
        Weight of the tags against the picture in coupled coding; ``lam = eta^2 / t``.
    beta1 : float, default=0.15
        Sparsity of S.
    budget : float, default=1.0
        beta0, the largest sum of a code.
    most : float, default=5.0
        v, the largest entry of S.
    margin : float, default=0.5
        C, the margin of the squared hinge.
    tau : float, optional
        Centre of the margin; ``0.25 + C / 2`` by default.
    max_iter : int, default=15
        R, outer iterations. 0 leaves the initialisation (UDL).
    n_passes : int, default=4
        Coding passes (MCSC) in each iteration.
    loss : {"squared_hinge", "squared"}, default="squared_hinge"
        "squared" pulls scores to the tags themselves (CDL).
    max_nonzeros : int, default=25
        Largest number of prototypes in a code.
    drop : float, default=0.0
        Entries of a coupled code up to this size are left out.
    image_weight : {"tags", "uniform"}, default="tags"
        Whether the visual term of an image is weighted by its number of tags p_i.
    norm : {"ball", "sphere"}, default="ball"
        Whether visual prototypes have at most, or exactly, unit length.
    init : {"visual", "coupled"}, default="visual"
        k-means on ``x`` or on ``[x, sqrt(lam) y]``.
    init_iter : int, default=10
        Alternations of visual coding and visual update that follow k-means.
    init_positive : {"one", "margin"}, default="one"
        Score that present tags aim at when S is initialised: 1, or ``max(1, tau + C)``.
    rho : float, None or "auto", default="auto"
        How firmly S is held to where it was. Coupled: in units of sqrt(k), 0.1 by default. Out of
        fold: to the tags of the prototypes' images, where None keeps it; "auto" takes the value
        with the best mean average precision out of fold.
    rho_growth : bool, default=True
        Multiply it by the number of the iteration.
    n_sweeps : int, default=1
        Semantic sweeps in each iteration.
    rescale : bool, default=False
        End each semantic update with the best factor for every tag.
    unused : {"reseed", "zero", "leave"}, default="reseed"
        What becomes of a prototype that no code uses: moved to the worst-fitted image before the
        next iteration (and set to zero if it is unused in the end), its semantics set to zero, or
        nothing.
    spread : float or "auto", default="auto"
        How much of S comes from the tags of the images that a prototype is coded by: people forget
        tags, and images that look alike remember them. S is then not swept. Only out of fold, with
        every image a prototype; "auto" takes the share that annotates left-out images best, 0 where
        sweeping does.
    n_folds : int, default=3
        Folds of the images that learn S, for the scores that thresholds are chosen from.
    threshold : {"per_tag", "global"} or float, default="per_tag"
        Scores above it give a tag: one value or one for each tag, chosen for the best F1 on the
        training images coded without their tags; or a number of your own. Out of fold, thresholds
        per tag are shrunk to the global one for rare tags.
    exact : bool, default=False
        See :func:`prototag.sparse_encode`.
    gram : bool, optional
        Keep k x k matrices of inner products while coding. By default for coupled coding when
        they fit 256 MB.
    n_jobs : int, optional
        Threads; None is one, -1 all cores. The result is the same bits for any number.
    random_state : int, RandomState or None, default=None
        Start of k-means and the order of sweeps.
    callback : callable, optional
        Called with a :class:`Progress` after each iteration.
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
    n_iter_ : int
    out_of_fold_scores_ : ndarray of shape (n, t)
        What the training images would score as new ones. Not kept in a model file.
    prototype_images_ : ndarray of shape (k,)
        Which training image each prototype is; with fewer prototypes than images, the nearest of
        those that it is the mean of. These two only after learning out of fold.
    summaries_ : Summaries or None
        Which images each prototype is the mean of, see :mod:`prototag.mcdl.clustering`; None where
        every image is one. Not kept in a model file.
    rho_ : float or None
    spread_ : float
        The strength and the share used. Not kept in a model file.
    codes_gap_ : float
        Largest duality gap of the training images' visual codes that the cap did not end.
    classes_ : ndarray of shape (t,)
        Names of the tags: the columns of a DataFrame, else their numbers.
    n_features_in_ : int
    feature_names_in_ : ndarray, if X was a DataFrame

    Examples
    --------
    >>> from prototag import MCDL
    >>> from prototag.research.datasets import planted
    >>> data = planted(n=300, t=12, k=30, random_state=0)
    >>> model = MCDL(n_prototypes=30, random_state=0).fit(data.X, data.Y)
    >>> model.predict(data.X).shape
    (300, 12)
    """

    kind = "mcdl"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_prototypes": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
        ],
        "learning": [StrOptions({"out_of_fold", "coupled"})],
        "eta": [Interval(Real, 0, None, closed="neither")],
        "beta1": [Interval(Real, 0, None, closed="left")],
        "budget": [Interval(Real, 0, None, closed="neither")],
        "most": [Interval(Real, 0, None, closed="neither")],
        "margin": [Interval(Real, 0, None, closed="left")],
        "tau": [Interval(Real, None, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        "loss": [StrOptions({"squared_hinge", "squared"})],
        "max_nonzeros": [Interval(Integral, 1, None, closed="left")],
        "drop": [Interval(Real, 0, None, closed="left")],
        "image_weight": [StrOptions({"tags", "uniform"})],
        "norm": [StrOptions({"ball", "sphere"})],
        "init": [StrOptions({"visual", "coupled"})],
        "init_iter": [Interval(Integral, 0, None, closed="left")],
        "init_positive": [StrOptions({"one", "margin"})],
        "rho": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"}), None],
        "rho_growth": ["boolean"],
        "n_sweeps": [Interval(Integral, 1, None, closed="left")],
        "rescale": ["boolean"],
        "unused": [StrOptions({"reseed", "zero", "leave"})],
        "spread": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "threshold": [
            StrOptions({"global", "per_tag"}),
            Interval(Real, None, None, closed="neither"),
        ],
        "exact": ["boolean"],
        "gram": ["boolean", None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "callback": [callable, None],
        "checkpoint": [str, Path, None],
    }

    def __init__(
        self,
        n_prototypes: int | float = 1.0,
        *,
        learning: str = "out_of_fold",
        eta: float = 0.5,
        beta1: float = 0.15,
        budget: float = 1.0,
        most: float = 5.0,
        margin: float = 0.5,
        tau: float | None = None,
        max_iter: int = 15,
        n_passes: int = 4,
        loss: str = "squared_hinge",
        max_nonzeros: int = 25,
        drop: float = 0.0,
        image_weight: str = "tags",
        norm: str = "ball",
        init: str = "visual",
        init_iter: int = 10,
        init_positive: str = "one",
        rho: float | str | None = "auto",
        rho_growth: bool = True,
        n_sweeps: int = 1,
        rescale: bool = False,
        unused: str = "reseed",
        spread: float | str = "auto",
        n_folds: int = 3,
        threshold: str | float = "per_tag",
        exact: bool = False,
        gram: bool | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        callback: Callable[[Progress], None] | None = None,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.learning = learning
        self.eta = eta
        self.beta1 = beta1
        self.budget = budget
        self.most = most
        self.margin = margin
        self.tau = tau
        self.max_iter = max_iter
        self.n_passes = n_passes
        self.loss = loss
        self.max_nonzeros = max_nonzeros
        self.drop = drop
        self.image_weight = image_weight
        self.norm = norm
        self.init = init
        self.init_iter = init_iter
        self.init_positive = init_positive
        self.rho = rho
        self.rho_growth = rho_growth
        self.n_sweeps = n_sweeps
        self.rescale = rescale
        self.unused = unused
        self.spread = spread
        self.n_folds = n_folds
        self.threshold = threshold
        self.exact = exact
        self.gram = gram
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.checkpoint = checkpoint

    # -- the recipes of METHOD, section 5 ----------------------------------------------------------

    @classmethod
    def paper(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """The recipe as the paper states it; what it leaves open is as in its published code."""
        recipe = {"init_iter": 100, "unused": "leave"}
        return cls(n_prototypes, **{**_COUPLED, **recipe, **overrides})

    @classmethod
    def published(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """The recipe of the authors' published code."""
        margin = overrides.get("margin", 0.5)
        recipe = {
            "tau": 0.25 + margin,
            "image_weight": "uniform",
            "init": "coupled",
            "init_iter": 100,
            "init_positive": "margin",
            "drop": 0.001,
            "norm": "sphere",
            "rescale": True,
            "unused": "zero",
        }
        return cls(n_prototypes, **{**_COUPLED, **recipe, **overrides})

    @classmethod
    def udl(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """Uncoupled dictionary learning, the paper's baseline: the initialisation alone."""
        return cls.paper(n_prototypes, **{"max_iter": 0, **overrides})

    @classmethod
    def cdl(cls, n_prototypes: int | float = 0.2, **overrides: Any) -> Self:
        """Coupled dictionary learning, the paper's baseline: squared loss, S not sparse."""
        return cls.paper(n_prototypes, **{"loss": "squared", "beta1": 0.0, **overrides})

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

    def fit_from(self, X: Any, y: Any, starts: dict[Any, Any]) -> Self:
        """As ``fit``, to the same bits, with what fits of the same images have found in common.

        ``starts`` is theirs: empty for the first, then where the visual prototypes begin.
        """
        X, Y = self._begin_fit(X, y)
        k = self._count_prototypes(len(X))
        memory.require(n=len(X), m=X.shape[1], t=Y.shape[1], k=k, nonzeros=self.max_nonzeros)
        problem = Problem(self, X, Y)
        if self.learning == "coupled":
            return self._fit_coupled(problem, k, starts)
        return self._fit_out_of_fold(problem, k)

    def _fit_coupled(self, problem: Problem, k: int, starts: dict[Any, Any]) -> Self:
        """Algorithm 1."""
        X, Y = problem.X, problem.Y
        saved = checkpoints.Checkpoint.open(
            self.checkpoint, self._recipe(), X, Y, seed=self.random_state, max_iter=self.max_iter
        )
        seed = saved.seed(self._draw_seed())
        began = time.monotonic()

        state = State(*saved.state) if saved.state else None
        if state is None:
            state = problem.initialise(k, seed, starts)
            saved.keep(state.D, state.S, state.A, state.objective)
            self._report(0, state, began, 0)
        start, began = len(state.objective) - 1, time.monotonic()
        for iteration in range(start + 1, self.max_iter + 1):
            rng = np.random.default_rng([seed, iteration])
            state.D, state.S = problem.revive(state, self.unused)
            state.A = problem.code(state, opening=iteration == 1)  # MCSC
            state.D = problem.visual(state, rng)
            state.S = problem.semantic(state, rng, iteration)
            state.objective.append(problem.objective(state))
            saved.keep(state.D, state.S, state.A, state.objective)
            self._report(iteration, state, began, start)

        # Without tags a prototype that was moved in vain would still catch the image it sits on.
        last = "rest" if self.unused == "reseed" else self.unused
        D, S = problem.revive(state, last)
        self._keep(D, S, state.objective)
        encoded = self._coder.encode(X, n_jobs=self.n_jobs)  # as a new image would be: without tags
        self.codes_gap_ = float(encoded.gap[~encoded.capped].max(initial=0.0))
        self._fit_threshold(Y, encoded.codes @ self._S)
        return self

    def _fit_out_of_fold(self, problem: Problem, k: int) -> Self:
        """Images as prototypes, S from codes that never use their own image."""
        if self.checkpoint is not None:
            raise ValueError(
                f"checkpoint={str(self.checkpoint)!r}: learning out of fold codes each image once, "
                "there is nothing to go on from. Leave it out, or use MCDL.paper()."
            )
        began = time.monotonic()
        learned = exemplars.learn(self, problem, k, self._draw_seed())
        self.prototype_images_, self.rho_ = learned.images, learned.rho
        self.spread_ = learned.spread
        self.out_of_fold_scores_, self.summaries_ = learned.scores, learned.summaries
        self._keep(learned.state.D, learned.state.S, learned.state.objective)
        self.codes_gap_ = learned.gap
        self._report(self.n_iter_, learned.state, began, 0)
        self._fit_threshold(problem.Y, learned.scores)
        return self

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _keep(self, D: Floats, S: Floats, objective: list[tuple[float, ...]]) -> None:
        self.visual_prototypes_ = D
        self.semantic_prototypes_ = sparse.csr_array(S)
        self.objective_ = np.array(objective, OBJECTIVE)
        self.n_iter_ = len(objective) - 1
        self._prepare()

    def _fit_threshold(self, Y: sparse.csr_array, scores: Floats) -> None:
        if self.threshold == "per_tag" and self.learning == "out_of_fold":
            self.threshold_ = tag_thresholds(Y, scores, shrink=exemplars.SHRINK)
        else:
            super()._fit_threshold(Y, scores)

    def _count_prototypes(self, n: int) -> int:
        if isinstance(self.n_prototypes, Integral):
            if self.n_prototypes > n:
                raise ValueError(
                    f"n_prototypes={self.n_prototypes} but there are only {n} images: give at most "
                    "one prototype for each image, or a share between 0 and 1."
                )
            return int(self.n_prototypes)
        return max(1, round(float(self.n_prototypes) * n))

    def _report(self, iteration: int, state: State, began: float, start: int) -> None:
        if self.callback is not None:
            done = iteration - start
            left = (time.monotonic() - began) / done * (self.max_iter - iteration) if done else None
            self.callback(Progress(iteration, self.max_iter, state.objective[-1][-1], left))

    # -- using -------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._S = self.semantic_prototypes_.toarray()
        self._coder = coder_of(self, self.visual_prototypes_)

    def _scores(self, X: Floats) -> Floats:
        return np.asarray(self._coder.encode(X, n_jobs=self.n_jobs).codes @ self._S)

    def decision_scores(self, X: Floats) -> Floats:
        """Scores of vectors that are known to be sound, without checking them again."""
        return self._scores(X)

    def transform(self, X: Any) -> Any:
        """Codes of the images, CSR of n x k; dense where ``set_output`` asks for a data frame."""
        x = self._begin_use(X)
        codes = self._coder.encode(x, n_jobs=self.n_jobs).codes
        wants_frame = _get_output_config("transform", self)["dense"] != "default"
        return codes.toarray() if wants_frame else codes

    def explain(self, X: Any, tags: npt.ArrayLike | None = None) -> list[list[Part]]:
        """Why each image was given its tags: for each tag, the prototypes behind its score.

        Parameters
        ----------
        X : array-like of shape (n, m)
        tags : sequence of names in ``classes_``, optional
            Tags to explain for every image; by default those it is given.

        Returns
        -------
        list of list of Part
            For each image its tags, the highest score first; the shares add up to the score.
        """
        x = self._begin_use(X)
        codes = self._coder.encode(x, n_jobs=self.n_jobs).codes
        scores = codes @ self._S
        chosen = self._explained(scores, tags)
        return explanation.parts(codes, self._S, scores, chosen, self.classes_)

    @property
    def _n_features_out(self) -> int:
        return len(self.visual_prototypes_)

    def __sklearn_tags__(self) -> Any:
        answer = super().__sklearn_tags__()
        answer.transformer_tags.preserves_dtype = []  # codes are float32, whatever comes in
        return answer

    # -- on disk -----------------------------------------------------------------------------------

    def _recipe(self) -> dict[str, Any]:
        """The parameters that decide the result."""
        skip = {"callback", "checkpoint", "n_jobs", "random_state", "gram"}
        return {name: value for name, value in self.get_params().items() if name not in skip}

    def to_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What a model file keeps: a header of plain values, and arrays."""
        check_is_fitted(self)
        config, arrays = self._tags_state()
        config["recipe"] = self._recipe()
        config["shape"] = [*self.visual_prototypes_.shape, self.semantic_prototypes_.shape[1]]
        arrays["visual_prototypes"] = self.visual_prototypes_
        arrays |= modelfile.pack_csr("semantic_prototypes", self.semantic_prototypes_)
        arrays["objective"] = np.array(self.objective_.tolist()).reshape(-1, len(TERMS))
        arrays["codes_gap"] = np.array([self.codes_gap_])
        if hasattr(self, "prototype_images_"):
            arrays["prototype_images"] = self.prototype_images_.astype(np.int64)
        return config, arrays

    @classmethod
    def from_state(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The estimator that :meth:`to_state` described."""
        try:
            model = cls(**config["recipe"])
            model._validate_params()
            k, m, t = (int(size) for size in config["shape"])
            model._restore_tags(config, arrays, m)
            if len(model.classes_) != t:
                raise ModelFileError(f"The vocabulary does not name {t} different tags.")
            model.visual_prototypes_ = modelfile.expect(arrays, "visual_prototypes", (k, m), "f4")
            modelfile.expect(arrays, "semantic_prototypes/data", (None,), "f4")
            model.semantic_prototypes_ = modelfile.unpack_csr(arrays, "semantic_prototypes", (k, t))
            objective = modelfile.expect(arrays, "objective", (None, len(TERMS)), "f8")
            if "prototype_images" in arrays:
                images = modelfile.expect(arrays, "prototype_images", (k,), "i8")
                model.prototype_images_ = images
            model.codes_gap_ = float(modelfile.expect(arrays, "codes_gap", (1,), "f8")[0])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"the model's description is not complete: {error}") from error
        model.objective_ = np.array([tuple(row) for row in objective], OBJECTIVE)
        model.n_iter_ = len(objective) - 1
        model._prepare()
        return model

    def save(self, path: str | Path) -> None:
        """Write the model to one file, atomically; see docs/model-file.md."""
        config, arrays = self.to_state()
        modelfile.write(path, {"kind": "mcdl", **config, "provenance": provenance()}, arrays)
