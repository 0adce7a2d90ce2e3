"""The recommended annotator of network vectors, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.metaestimators import available_if

from prototag.arrays import Array, Arrays, Bools, Doubles, Floats, add_prefix, select_prefix
from prototag.engine import Engine, Threads
from prototag.errors import ModelFileError
from prototag.estimator import TagEstimator
from prototag.evaluation.ranking import check_same_shape, check_tags
from prototag.events import Progress
from prototag.knowledge.concepts import NamePrior, concept_map
from prototag.knowledge.concepts import name_prior as knowledge_of_names
from prototag.mcdl.prototype_estimator import (
    COUNT,
    N_PROTOTYPES,
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
from prototag.tagging.reduction import FeatureGroups
from prototag.tagging.task import Task, group_examples

if TYPE_CHECKING:
    from prototag.tagging.incremental.more_images import MoreImages

ZERO_TO_ONE = Interval(Real, 0, 1, closed="both")
ANY_NUMBER = Interval(Real, None, None, closed="neither")


def _has_several_tags(tagger: Tagger) -> bool:
    if getattr(tagger, "_single_label", True):
        raise AttributeError(
            "predict_proba needs a fit to an n x t matrix of tags: probabilities() also has those "
            "of classes."
        )
    return True


class Tagger(TagEstimator):
    """Weighted sum of sparse codes, kernel ridge regression and what the tags' names say.

    The scores of an image are ``((1 - g) a S + g k B + M) * c`` with

    - ``a``: its code over the training images or their means; ``S`` is learned from leave-one-out
      or out-of-fold codes (:class:`prototag.ExemplarMCDL`);
    - ``k``: its kernel ``exp(-gamma ||x - x_l||^2)`` with the same prototypes; ``B`` are the
      coefficients of a ridge regression;
    - ``M``: the weighted scores of the tags by their names
      (:mod:`prototag.tagging.name_knowledge`);
    - ``c``: a factor for each tag, ``mean_score^-level frequency^-boost`` with the mean score of
      its own images. It moves tags with low scores and rare tags up among the five best tags of an
      image; thresholds include it, so it changes nothing else.

    Codes and kernel share one vector: z-scored columns of unit length. Default vectors get concept
    columns beside them: scores of public concepts, by which images are more alike that people
    would describe with the same words.

    Parameters that are None are selected in ``fit`` on held-out scores, those of the kernel on
    a sample of the images. No step sees test images.

    Parameters
    ----------
    n_prototypes : int or float, default=1.0
        Number of prototypes, or their share of the training images, for codes and kernel: the size
        of the model and the time to annotate grow with it. By default every image is a prototype;
        fewer prototypes are means of similar images with common tags
        (:mod:`prototag.mcdl.prototype_clustering`).
    feature_groups : sequence of int, or of (int, float), optional
        Widths, or widths and weights, of columns that belong together, such as the outputs of
        different networks. Without weights, all groups but the first have the weight 0.7. Columns
        are z-scored one by one, so that groups need not be given.
    n_components : int, default=300
        Principal components of the vectors, if there are ten images for each; fewer images keep
        all columns.
    max_nonzeros : int, default=25
        Non-zeros of a code.
    gamma : float, optional
        Sharpness of the kernel.
    strength : float, optional
        Penalty of the kernel ridge regression.
    kernel_share : float, optional
        g, the share of the kernel regression against the codes.
    level : float, optional
        Exponent that brings the scores of all tags to one level.
    boost : float, optional
        Exponent that favors rare tags.
    max_landmarks : int, default=20000
        The largest number of images that are held in memory, and of landmarks of the kernel. With
        more images the fit is out-of-core: docs/method/many-images.md.
    out_of_core : bool, optional
        Whether the fit is out-of-core; by default the number of images decides.
    pilot : int, default=3000
        Size of the sample on which gamma and strength are selected.
    threshold : {"per_tag", "global"} or float, default="per_tag"
        "per_tag" maximizes the expected F1 of each tag (:func:`expected_f1_thresholds
        <prototag.evaluation.thresholds.expected_f1_thresholds>`). A number is compared with the
        scores.
    concepts : bool, default=True
        Whether default vectors get concept columns; vectors of other networks have none.
    tag_names : sequence of t str, optional
        The names of the tags, in any of sixteen languages: public knowledge of how words look
        helps where labels are few (:mod:`prototag.tagging.name_knowledge`). Vectors must be the
        default ones; with others names have no effect.
    n_jobs, engine : as in :class:`prototag.MCDL`
    random_state : int, RandomState or None, default=0
    progress : callable, optional
        Called with an :class:`prototag.events.Event` after each stage.

    Attributes
    ----------
    model_ : TagModel
        The arrays that score new images.
    result_ : FitResult
        The model, selected parameters and held-out evidence (:mod:`prototag.tagging.fit_result`).
        Model files do not contain it.
    choices_ : dict
        The selected parameters; ``out_of_fold_f1`` and ``out_of_fold_map`` are estimates for new
        images, ``codes_gap`` and ``codes_stalled`` bound the errors of the codes.
    out_of_fold_scores_ : ndarray of shape (n, t) or None
        Held-out scores of the training images; None after an out-of-core fit. Model files do not
        contain them.
    threshold_, classes_, n_features_in_, feature_names_in_
        As in :class:`prototag.MCDL`.
    """

    kind = "tagger"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_prototypes": N_PROTOTYPES,
        "feature_groups": ["array-like", None],
        "n_components": [COUNT],
        "max_nonzeros": [COUNT],
        "gamma": [POSITIVE, None],
        "strength": [POSITIVE, None],
        "kernel_share": [ZERO_TO_ONE, None],
        "level": [ANY_NUMBER, None],
        "boost": [ANY_NUMBER, None],
        "max_landmarks": [COUNT],
        "out_of_core": ["boolean", None],
        "pilot": [Interval(Integral, 2, None, closed="left")],
        "threshold": THRESHOLD,
        "concepts": ["boolean"],
        "tag_names": ["array-like", None],
        "n_jobs": [Integral, None],
        "engine": [Engine, None],
        "random_state": ["random_state"],
        "progress": [callable, None],
    }

    def __init__(
        self,
        n_prototypes: int | float = 1.0,
        *,
        feature_groups: Sequence[int] | FeatureGroups | None = None,
        n_components: int = 300,
        max_nonzeros: int = 25,
        gamma: float | None = None,
        strength: float | None = None,
        kernel_share: float | None = None,
        level: float | None = None,
        boost: float | None = None,
        max_landmarks: int = 20_000,
        out_of_core: bool | None = None,
        pilot: int = 3_000,
        threshold: str | float = "per_tag",
        concepts: bool = True,
        tag_names: Sequence[str] | None = None,
        n_jobs: int | None = None,
        engine: Engine | None = None,
        random_state: Any = 0,
        progress: Progress | None = None,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.feature_groups = feature_groups
        self.n_components = n_components
        self.max_nonzeros = max_nonzeros
        self.gamma = gamma
        self.strength = strength
        self.kernel_share = kernel_share
        self.level = level
        self.boost = boost
        self.max_landmarks = max_landmarks
        self.out_of_core = out_of_core
        self.pilot = pilot
        self.threshold = threshold
        self.concepts = concepts
        self.tag_names = tag_names
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.progress = progress

    model_: TagModel
    result_: FitResult
    choices_: dict[str, float]
    out_of_fold_scores_: Floats | None
    _examples: Any  # vectors of the examples of a fit, for partial_fit
    _more_images: MoreImages | None

    # -- fitting -----------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        unlabeled: Any = None,
        groups: Any = None,
        work: Any = None,
        name_prior: NamePrior | None = None,
        concepts: Any = None,
    ) -> Self:
        """Fit to network vectors (n x m, not normalized) and tags (n x t, 0/1).

        Parameters
        ----------
        X : array of shape (n, m), or :class:`prototag.storage.npy_rows.StoredRows`
            Rows stored in files make the fit out-of-core.
        y : array or sparse matrix of shape (n, t)
        unlabeled : array or sparse matrix of shape (n, t), optional
            Marks pairs of image and tag without a label. They have no influence on the fit and on
            its estimates.
        groups : array of n numbers, optional
            The near-duplicate group of each image, which is one example. Without it copies and
            bursts are detected (:func:`prototag.tagging.near_duplicates.near_duplicate_groups`).
        work : path, optional
            Folder of the stage cache of an out-of-core fit: an interrupted fit resumes from its
            last finished stage. Such a fit has no unlabeled pairs, and each image is an example.
        name_prior : NamePrior, optional
            Prior scores of the tags for vectors of another network, instead of those of
            ``tag_names``.
        concepts : array of shape (m, c), optional
            Another map from vectors to concept columns.
        """
        prepared = self.prepare(
            X,
            y,
            unlabeled=unlabeled,
            groups=groups,
            work=work,
            name_prior=name_prior,
            concepts=concepts,
        )
        self.fit_prepared(prepared)
        self._examples = prepared.task.X
        self._more_images = None
        return self

    def prepare(
        self,
        X: Any,
        y: Any,
        *,
        unlabeled: Any = None,
        groups: Any = None,
        work: Any = None,
        name_prior: NamePrior | None = None,
        concepts: Any = None,
    ) -> Steps:
        """Validate the arguments of ``fit`` and group near-duplicates, for :meth:`fit_prepared`."""
        out_of_core = self.out_of_core
        if out_of_core is None:
            many = hasattr(X, "shape") and X.shape[:1] > (self.max_landmarks,)
            out_of_core = many and unlabeled is None and groups is None
        if isinstance(X, StoredRows) or out_of_core:
            return self._prepare_out_of_core(X, y, work, name_prior, concepts)
        X, Y = self.validate_training_data(X, y)
        n = len(X)
        if n < 2:
            raise ValueError("n_samples=1: leave-one-out needs two or more images.")
        seed = self._draw_seed()
        unlabeled_pairs = None if unlabeled is None else check_tags(unlabeled, name="unlabeled")
        if unlabeled_pairs is not None:
            check_same_shape(np.empty(Y.shape, bool), unlabeled_pairs, "unlabeled")
            unlabeled_pairs = (
                unlabeled_pairs & (Y.toarray() == 0) if unlabeled_pairs.any() else None
            )
        if groups is not None:
            groups = column_or_1d(groups)
            check_consistent_length(X, groups)
        X, unlabeled_pairs, examples = group_examples(X, Y, unlabeled_pairs, groups)
        Y = examples.Y
        sample = np.sort(np.random.default_rng(seed).permutation(len(X))[: self.pilot])
        task = Task(
            X,
            Y,
            Y.toarray(),
            unlabeled_pairs,
            self._single_label,
            seed,
            sample,
            self._engine,
            self._name_prior(X, Y) if name_prior is None else name_prior,
            self._concepts(X.shape[1], concepts),
        )
        return InMemory(task, examples)

    def _name_prior(self, X: Any, Y: sparse.csr_array) -> NamePrior | None:
        """Return the prior scores by ``tag_names``; None without names or knowledge."""
        if self.tag_names is None:
            return None
        names = [str(name) for name in self.tag_names]
        if len(names) != Y.shape[1]:
            raise ValueError(f"tag_names has {len(names)} names for {Y.shape[1]} tags: name all.")
        return knowledge_of_names(names, X.shape[1])

    def _concepts(self, width: int, given: Any) -> Floats | None:
        """Return the map to concept columns: the given one, or that of default vectors."""
        if not self.concepts:
            return None
        return concept_map(width) if given is None else np.asarray(given, np.float32)

    def _prepare_out_of_core(
        self, X: Any, y: Any, work: Any, name_prior: NamePrior | None, concepts: Any
    ) -> Steps:
        from prototag.tagging.out_of_core import features, steps
        from prototag.tagging.out_of_core.stage_cache import StageCache

        if isinstance(X, StoredRows):
            Y = self._validate_tags(y)
        else:
            X, Y = self.validate_training_data(X, y)
        if X.shape[0] != Y.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} images and Y has tags for {Y.shape[0]}: give both for all."
            )
        collection = features.gather(
            X,
            Y,
            labels=self._single_label,
            pilot=self.pilot,
            seed=self._draw_seed(),
            engine=self._engine,
            stage_cache=StageCache(work),
            name_prior=self._name_prior(X, Y) if name_prior is None else name_prior,
            concepts=self._concepts(X.shape[1], concepts),
        )
        return steps.OutOfCore(collection)

    def fit_prepared(self, steps: Steps) -> Self:
        """Fit to the result of :meth:`prepare`, or to some of its columns."""
        steps = copy(steps)  # because the caller may fit to it again
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

    # -- scores ------------------------------------------------------------------------------------

    def _scores(self, X: Floats) -> Floats:
        return self.model_.scores(X, self._engine)

    def probabilities(self, X: Any) -> Doubles:
        """Return the calibrated probability of each tag for each image, n x t.

        Scores are calibrated on held-out scores of the training images: of the pairs of image and
        tag with a probability of 0.7, about 70% are correct by the labels that people gave.
        """
        x = self._validate_vectors(X)
        return self.model_.probabilities(x, self._engine)

    @available_if(_has_several_tags)
    def predict_proba(self, X: Any) -> Doubles:
        """Return the calibrated probability of each tag for each image, n x t.

        As :meth:`probabilities`, under the name of scikit-learn. A model of one class per image has
        no such method: the probabilities of its classes are calibrated one by one, and their sum is
        not 1.
        """
        return self.probabilities(X)

    def explain(self, X: Any, tags: npt.ArrayLike | None = None) -> list[list[Contribution]]:
        """Explain the tags of each image by the prototypes (training images) that contribute.

        As :meth:`prototag.MCDL.explain`. The contributions of prototypes are those of the code; the
        part's ``rest`` holds the kernel regression, the scores by names and constants.
        """
        x = self._validate_vectors(X)
        scores = self._scores(x)
        return [
            self._parts(x[[image]], scores[image], columns)
            for image, columns in enumerate(self._columns_to_explain(scores, tags))
        ]

    def _parts(
        self, x: Floats, scores: Floats, columns: npt.NDArray[np.intp]
    ) -> list[Contribution]:
        columns = columns[np.argsort(-scores[columns], kind="stable")]
        contributions = self.model_.explain(x, columns.tolist())
        parts = []
        for column, shares in zip(columns, contributions.code_scores.T, strict=True):
            order = np.argsort(-shares, kind="stable")
            order = order[shares[order] != 0]
            score = float(scores[column])
            rest = float(scores[column] - shares.sum())
            prototypes = contributions.prototypes[order].astype(np.intp)
            parts.append(
                Contribution(self.classes_[column], score, prototypes, shares[order], rest)
            )
        return parts

    # -- more images -------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Add images with their tags to a fitted model; the first call is a full fit.

        The parameters of each tag are refitted to all images in closed form (Woodbury updates);
        what all tags share (prototypes, kernel, weights of the parts) stays that of the fit.
        ``result_`` stays, too, and ``out_of_fold_scores_`` becomes None. Call ``fit`` on all images
        now and then, such as when their number has doubled.

        Parameters
        ----------
        X : array of shape (n, m)
        y : array or sparse matrix of shape (n, t), or n classes
            With the tags, or from the classes, of the first fit.
        classes : array, optional
            All classes, as for scikit-learn. The first call must have images of each.
        """
        if not hasattr(self, "classes_"):
            self.fit(X, y)
            self._check_classes(classes)
            return self
        if getattr(self, "_examples", None) is None:
            raise ValueError(
                "partial_fit continues a fit in memory by this object, and a loaded model lacks "
                "its training images: call fit, or use a Library, which keeps them."
            )
        self._check_classes(classes)
        X = self._validate_vectors(X)
        Y = self._further_labels(y)
        check_consistent_length(X, Y)
        if self._more_images is None:
            from prototag.tagging.incremental.more_images import MoreImages

            self._more_images = MoreImages(self.result_, self._examples, self._engine)
        self.model_ = self._more_images.add(X, Y)
        self.threshold_ = self.model_.threshold
        self.out_of_fold_scores_ = None
        return self

    def _check_classes(self, classes: Any) -> None:
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes has {len(np.unique(classes))} classes, and the first fit had "
                f"{len(self.classes_)}: fit images of all classes first."
            )

    def _further_labels(self, y: Any) -> Bools:
        """Convert tags or classes of further images to a matrix with the tags of the fit."""
        if self._single_label:
            labels = column_or_1d(y)
            if unknown := sorted(set(labels.tolist()) - set(self.classes_.tolist())):
                raise ValueError(f"y has the new classes {unknown[:5]!r}: call fit on all images.")
            return np.asarray(labels[:, None] == self.classes_)
        Y = check_tags(y, name="y")
        names = getattr(y, "columns", None)
        if Y.shape[1] != len(self.classes_) or (
            names is not None and list(names) != self.classes_.tolist()
        ):
            raise ValueError(
                f"y has {Y.shape[1]} tags, and the fit had {len(self.classes_)}: give the same "
                "tags in the same order, or call fit on all images."
            )
        return Y

    # -- model file --------------------------------------------------------------------------------

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        config, arrays = self.model_.to_arrays()
        return {"model": config, "choices": self.choices_}, add_prefix("model", arrays)

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        self.model_ = TagModel.from_arrays(config["model"], select_prefix(arrays, "model"))
        self.choices_ = {str(name): float(value) for name, value in config["choices"].items()}
        same_threshold = np.array_equal(
            np.broadcast_to(self.threshold_, self.model_.n_tags), self.model_.threshold
        )
        same_tags = self.model_.n_tags == len(self.classes_)
        if not (same_threshold and same_tags and self.model_.n_features == self.n_features_in_):
            raise ModelFileError("the parts of the model do not fit each other: it is damaged.")


def recommended(**overrides: Any) -> Tagger:
    """Return the recommended annotator: a :class:`Tagger` that selects its parameters.

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
