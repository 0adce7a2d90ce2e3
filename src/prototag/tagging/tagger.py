"""Raw network vectors in, tags out: the method as we recommend it, in one object."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import _fit_context
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval

from prototag.arrays import Array, Arrays, Doubles, Floats, add_prefix, select_prefix
from prototag.engine import Engine, Threads
from prototag.errors import ModelFileError
from prototag.estimator import TagEstimator
from prototag.evaluation.ranking import check_same_shape, check_tags
from prototag.events import Progress
from prototag.mcdl.prototype_estimator import (
    COUNT,
    N_PROTOTYPES,
    NOT_NEGATIVE,
    POSITIVE,
    THRESHOLD,
    Contribution,
)
from prototag.storage.npy_rows import StoredRows
from prototag.tagging import pipeline
from prototag.tagging.fit_result import FitResult
from prototag.tagging.in_memory import InMemory
from prototag.tagging.model import TagModel
from prototag.tagging.pipeline import FitOptions, Steps
from prototag.tagging.reduction import Blocks
from prototag.tagging.task import Task, gather

SHARE = Interval(Real, 0, 1, closed="both")
ANY = Interval(Real, None, None, closed="neither")


class Tagger(TagEstimator):
    """Codes over lifted images and a kernel regression, weighed by what they give left-out images.

    The scores of an image are ``r((1 - u) ((1 - g) a S + g k B) + u l) * c`` with

    - ``a`` its code over the lifted training images or a summary of them, ``S`` learned out of fold
      (:class:`prototag.ExemplarMCDL` on the vectors of :class:`prototag.Lifting`);
    - ``k`` its likeness ``exp(-gamma ||x - x_l||^2)`` to the same prototypes and ``B`` a ridge
      regression;
    - ``l`` the linear predictions that lift the vectors;
    - ``r(s) = s + h (s R + o)`` what the scores of all tags say of each, a ridge regression of what
      the scores of left-out images lack;
    - ``c`` a factor for each tag, ``reached^-level frequency^-boost`` with the score that its own
      images reach, that gives faint and rare tags their share of the best five; thresholds take
      it into account, so it changes nothing else.

    What is not given below is chosen inside ``fit`` from predictions for left-out images, what must
    be tried often from a sample of them. No step sees test images.

    Parameters
    ----------
    n_prototypes : int or float, default=1.0
        Number of prototypes, or their share of the training images, for codes and kernel alike:
        the size of the model and the time to annotate grow with it. By default every image is one;
        fewer are means of images that look alike and share tags
        (:mod:`prototag.mcdl.prototype_clustering`).
    blocks : sequence of int, or of (int, float), optional
        Widths of columns that belong together, such as outputs of different networks. Those after
        the first get the weights by which left-out images are annotated best, 0 where they do not
        help, unless weights are given.
    n_components : int, default=200
        Principal components that predictions are appended to.
    width : int, default=200
        Principal axes of the lifted vectors that codes are made of.
    kernel_components : int, default=300
        Principal components in the vectors of the kernel.
    max_nonzeros : int, default=25
    lift : float, optional
        Weight of the predicted tags in the lifted vectors.
    gamma : float, optional
        Sharpness of the kernel.
    strength : float, optional
        Penalty of its regression.
    share : float, optional
        g, the share of the kernel regression against that of the codes.
    linear : float, optional
        u, the share of the linear predictions in the scores.
    relations : float, default=0.5
        h, how far scores follow those of other tags.
    level : float, optional
        How far tags are brought to one level, among those of one image.
    boost : float, optional
        How far rare tags are favoured there.
    max_landmarks : int, default=20000
        Up to so many images all are in memory and, with one prototype for each, the kernel
        regression is exact. More are learned from block by block: docs/method/many-images.md.
    streamed : bool, optional
        Whether to learn block by block, whatever the number of images.
    pilot : int, default=3000
        Images on which lift, gamma and strength are tried (lift with all others as prototypes).
    threshold : {"per_tag", "global"} or float, default="per_tag"
        "per_tag" is shrunk to the global one for rare tags. A number is compared with the scores.
    n_jobs, engine : as in :class:`prototag.MCDL`
    random_state : int, RandomState or None, default=0
    progress : callable, optional
        Told an :class:`prototag.events.Event` after each stage.

    Attributes
    ----------
    model_ : TagModel
        All that annotating needs.
    result_ : FitResult
        The model, what was selected, and held-out evidence (:mod:`prototag.tagging.fit_result`).
        Not kept in a model file.
    choices_ : dict
        What fit chose; ``out_of_fold_f1`` and ``out_of_fold_map``: what it promises; ``codes_gap``
        and ``codes_stalled``: how exact the codes are.
    out_of_fold_scores_ : ndarray of shape (n, t) or None
        Held-out scores of the training images; None where the fit keeps only a sample. Not kept in
        a model file.
    threshold_, classes_, n_features_in_, feature_names_in_
        As in :class:`prototag.MCDL`.
    """

    kind = "tagger"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_prototypes": N_PROTOTYPES,
        "blocks": ["array-like", None],
        "n_components": [COUNT],
        "width": [COUNT],
        "kernel_components": [COUNT],
        "max_nonzeros": [COUNT],
        "lift": [NOT_NEGATIVE, None],
        "gamma": [POSITIVE, None],
        "strength": [POSITIVE, None],
        "share": [SHARE, None],
        "linear": [SHARE, None],
        "relations": [SHARE],
        "level": [ANY, None],
        "boost": [ANY, None],
        "max_landmarks": [COUNT],
        "streamed": ["boolean", None],
        "pilot": [Interval(Integral, 2, None, closed="left")],
        "threshold": THRESHOLD,
        "n_jobs": [Integral, None],
        "engine": [Engine, None],
        "random_state": ["random_state"],
        "progress": [callable, None],
    }

    def __init__(
        self,
        n_prototypes: int | float = 1.0,
        *,
        blocks: Sequence[int] | Blocks | None = None,
        n_components: int = 200,
        width: int = 200,
        kernel_components: int = 300,
        max_nonzeros: int = 25,
        lift: float | None = None,
        gamma: float | None = None,
        strength: float | None = None,
        share: float | None = None,
        linear: float | None = None,
        relations: float = 0.5,
        level: float | None = None,
        boost: float | None = None,
        max_landmarks: int = 20_000,
        streamed: bool | None = None,
        pilot: int = 3_000,
        threshold: str | float = "per_tag",
        n_jobs: int | None = None,
        engine: Engine | None = None,
        random_state: Any = 0,
        progress: Progress | None = None,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.blocks = blocks
        self.n_components = n_components
        self.width = width
        self.kernel_components = kernel_components
        self.max_nonzeros = max_nonzeros
        self.lift = lift
        self.gamma = gamma
        self.strength = strength
        self.share = share
        self.linear = linear
        self.relations = relations
        self.level = level
        self.boost = boost
        self.max_landmarks = max_landmarks
        self.streamed = streamed
        self.pilot = pilot
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.progress = progress

    model_: TagModel
    result_: FitResult
    choices_: dict[str, float]
    out_of_fold_scores_: Floats | None

    # -- learning ----------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any, *, unknown: Any = None, groups: Any = None, work: Any = None
    ) -> Self:
        """Learn from network vectors (n x m, as they are) and tags (n x t, 0/1).

        Vectors may lie in files (:class:`prototag.storage.npy_rows.StoredRows`). Where the fit is
        out-of-core, ``work`` names a folder that keeps finished stages: an interrupted fit goes on
        from its last stage. No pair is unlabeled then, and each image is an example.

        ``unknown`` (n x t, 0/1, optional) marks unlabeled pairs of image and tag: the tag is
        neither there nor ruled out. They teach nothing, and nothing is judged by them. ``groups``
        (n numbers, optional) says which images are near-duplicates: each group is one example.
        Without it copies and bursts are looked for (:func:`prototag.tagging.task.bursts`).
        """
        return self.fit_prepared(self.prepare(X, y, unknown=unknown, groups=groups, work=work))

    def prepare(
        self, X: Any, y: Any, *, unknown: Any = None, groups: Any = None, work: Any = None
    ) -> Steps:
        """Validate what ``fit`` is given and group near-duplicates, for :meth:`fit_prepared`."""
        many = hasattr(X, "shape") and X.shape[:1] > (self.max_landmarks,)
        usual = many and unknown is None and groups is None
        if isinstance(X, StoredRows) or (usual if self.streamed is None else self.streamed):
            return self._out_of_core(X, y, work)
        X, Y = self.validate_training_data(X, y)
        n = len(X)
        if n < 2:
            raise ValueError("n_samples=1: predictions leave one image out, give two or more.")
        seed = self._draw_seed()
        silent = None if unknown is None else check_tags(unknown, name="unknown")
        if silent is not None:
            check_same_shape(np.empty(Y.shape, bool), silent, "unknown")
            silent = silent & (Y.toarray() == 0) if silent.any() else None
        if groups is not None:
            groups = column_or_1d(groups)
            check_consistent_length(X, groups)
        X, silent, examples = gather(X, Y, silent, groups)
        Y = examples.Y
        sample = np.sort(np.random.default_rng(seed).permutation(len(X))[: self.pilot])
        task = Task(X, Y, Y.toarray(), silent, self._labels, seed, sample, self._engine)
        return InMemory(task, examples)

    def _out_of_core(self, X: Any, y: Any, work: Any) -> Steps:
        from prototag.tagging.out_of_core import features, steps
        from prototag.tagging.out_of_core.stage_cache import Scratch

        if isinstance(X, StoredRows):
            Y = self._validate_tags(y)
        else:
            X, Y = self.validate_training_data(X, y)
        if X.shape[0] != Y.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} images and Y has tags for {Y.shape[0]}: give both for all."
            )
        many = features.gather(
            X,
            Y,
            labels=self._labels,
            pilot=self.pilot,
            seed=self._draw_seed(),
            engine=self._engine,
            scratch=Scratch(work),
        )
        return steps.OutOfCore(many)

    def fit_prepared(self, steps: Steps) -> Self:
        """Learn from what :meth:`prepare` returned, or from some columns of it."""
        steps = copy(steps)  # which may serve another fit
        self.n_features_in_ = steps.task.X.shape[1]
        options = FitOptions(
            **{option.name: getattr(self, option.name) for option in fields(FitOptions)}
        )
        self.result_ = result = pipeline.fit(steps, options, self.progress)
        self.model_ = result.model
        self.choices_ = result.choices
        self.threshold_ = result.threshold
        self.out_of_fold_scores_ = result.oof_scores
        return self

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _vectors(self, X: npt.NDArray[Any]) -> Floats:
        return np.ascontiguousarray(X, np.float32)

    @property
    def _engine(self) -> Engine:
        return Threads(self.n_jobs) if self.engine is None else self.engine

    # -- using -------------------------------------------------------------------------------------

    def _scores(self, X: Floats) -> Floats:
        return self.model_.scores(X, self._engine)

    def probabilities(self, X: Any) -> Doubles:
        """How likely each tag is right for each image, n x t.

        Scores are calibrated by what left-out training images scored: of the pairs of image and
        tag given a probability of 0.7, about 70 % are right (by the tags that people gave).
        """
        x = self._validate_vectors(X)
        return self.model_.probabilities(x, self._engine)

    def explain(self, X: Any, tags: npt.ArrayLike | None = None) -> list[list[Contribution]]:
        """Why each image was given its tags: the prototypes behind them (training images).

        As :meth:`prototag.MCDL.explain`. The shares of the prototypes are those of the code; what
        the kernel regression, the linear predictions and constants bring is the part's ``rest``.
        """
        x = self._validate_vectors(X)
        scores = self._scores(x)
        return [
            self._parts(x[[image]], scores[image], columns)
            for image, columns in enumerate(self._explained(scores, tags))
        ]

    def _parts(
        self, x: Floats, scores: Floats, columns: npt.NDArray[np.intp]
    ) -> list[Contribution]:
        columns = columns[np.argsort(-scores[columns], kind="stable")]
        found = self.model_.explain(x, columns.tolist())
        parts = []
        for column, shares in zip(columns, found.coded.T, strict=True):
            order = np.argsort(-shares, kind="stable")
            order = order[shares[order] != 0]
            score = float(scores[column])
            rest = float(scores[column] - shares.sum())
            prototypes = found.prototypes[order].astype(np.intp)
            parts.append(
                Contribution(self.classes_[column], score, prototypes, shares[order], rest)
            )
        return parts

    # -- on disk -----------------------------------------------------------------------------------

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        config, arrays = self.model_.to_arrays()
        return {"model": config, "choices": self.choices_}, add_prefix("model", arrays)

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        self.model_ = TagModel.from_arrays(config["model"], select_prefix(arrays, "model"))
        self.choices_ = {str(name): float(value) for name, value in config["choices"].items()}
        same = np.array_equal(
            np.broadcast_to(self.threshold_, self.model_.n_tags), self.model_.threshold
        )
        fits = self.model_.n_tags == len(self.classes_)
        if not (same and fits and self.model_.n_features == self.n_features_in_):
            raise ModelFileError("the parts of the model do not fit each other: it is damaged.")


def recommended(**overrides: Any) -> Tagger:
    """What to run on raw network vectors: a :class:`Tagger` that chooses for itself.

    Examples
    --------
    >>> from prototag import recommended
    >>> from prototag.research.datasets import planted
    >>> data = planted(n=200, t=12, k=30, random_state=0)
    >>> model = recommended().fit(data.X, data.Y)
    >>> model.predict(data.X).shape
    (200, 12)
    """
    return Tagger(**overrides)
