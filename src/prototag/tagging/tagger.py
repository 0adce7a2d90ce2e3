"""Raw network vectors in, tags out: the method as we recommend it, in one object."""

from __future__ import annotations

from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from prototag.errors import ModelFileError
from prototag.estimator import TagEstimator
from prototag.evaluation import metrics, thresholds
from prototag.mcdl import explanation
from prototag.mcdl.clustering import Summaries, Summary, summarise_folds
from prototag.mcdl.estimator import MCDL
from prototag.mcdl.exemplars import SHRINK
from prototag.mcdl.explanation import Part
from prototag.mcdl.problem import coder_of
from prototag.storage import modelfile
from prototag.storage.provenance import provenance
from prototag.tagging import calibration, ridge
from prototag.tagging.lifting import Lifting
from prototag.tagging.model import Scorer
from prototag.tagging.reduction import Reduction

Floats = npt.NDArray[np.float32]
RELATIONS = 10.0  # penalty, in images whose scores are right or wrong by 1
LANDMARKS = 6_000  # of more images than an exact regression can take

# What fit chooses from, by how images score that were left out.
LIFTS = (0.0, 0.5, 1.0)
GAMMAS = (0.5, 1.0, 2.0)
STRENGTHS = (0.1, 0.3, 1.0)
SHARES = (0.0, 0.25, 0.5, 0.65, 0.8, 1.0)
LINEARS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.8)
BOOSTS = (0.0, 0.05, 0.1, 0.15, 0.2)


class Tagger(TagEstimator):
    """Codes over lifted images and a kernel regression, weighed by what they give left-out images.

    The scores of an image are ``r((1 - u) ((1 - g) a S + g k B) + u l) * c`` with

    - ``a`` its code over the lifted training images or a summary of them, ``S`` learned out of fold
      (:class:`MCDL` on the vectors of :class:`Lifting`);
    - ``k`` its likeness ``exp(-gamma ||x - x_l||^2)`` to the same prototypes and ``B`` a ridge
      regression;
    - ``l`` the linear predictions that lift the vectors;
    - ``r(s) = s + h (s R + o)`` what the scores of all tags say of each, a ridge regression of what
      the scores of left-out images lack;
    - ``c`` a factor for each tag, ``frequency^-boost``, that gives rare tags their share of the
      best five; thresholds take it into account, so it changes nothing else.

    Every choice below that is not given is made inside ``fit`` from predictions for left-out
    images, those that must be tried often on a sample of them. No step sees test images.

    Parameters
    ----------
    n_prototypes : int or float, default=1.0
        Number of prototypes, or their share of the training images, for codes and kernel alike:
        the size of the model and the time to annotate grow with it. By default every image is one;
        fewer are means of images that look alike and share tags (:mod:`prototag.mcdl.clustering`).
    n_components : int, default=200
        Principal components that predictions are appended to.
    width : int, default=200
        Principal axes of the lifted vectors that codes are made of.
    kernel_components : int, default=300
        Principal components in the vectors of the kernel.
    max_nonzeros : int, default=25
    lift : float, optional
        Weight of the predicted tags in the lifted vectors.
    gamma, strength : float, optional
        Sharpness of the kernel and penalty of its regression.
    share : float, optional
        g, the share of the kernel regression against that of the codes.
    linear : float, optional
        u, the share of the linear predictions in the scores.
    relations : float, default=0.5
        h, how far scores follow those of other tags.
    boost : float, optional
        How much rare tags are favoured among the tags of one image.
    max_landmarks : int, default=20000
        With more prototypes than this the kernel has 6,000 of its own. With one prototype for each
        image, and no more than this, the regression is exact.
    pilot : int, default=3000
        Images on which lift, gamma and strength are tried (lift with all others as prototypes).
    threshold : {"per_tag", "global"} or float, default="per_tag"
        "per_tag" is shrunk to the global one for rare tags. A number is compared with the scores.
    n_jobs : int, optional
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    lifting_ : Lifting
    mcdl_ : MCDL
    reduction_ : Reduction
    landmarks_, dual_ : arrays of the kernel regression
    linear_scale_, linear_offset_ : arrays of shape (t,)
        Turn predictions of the lifting into their share of the scores.
    relation_, offset_ : arrays of shape (t, t) and (t,)
    tag_scale_ : ndarray of shape (t,)
    choices_ : dict
        What fit chose, and ``out_of_fold_f1`` and ``out_of_fold_map``: what it promises.
    out_of_fold_scores_ : ndarray of shape (n, t)
        What the training images would score as new ones. Not kept in a model file.
    threshold_, classes_, n_features_in_, feature_names_in_
        As in :class:`MCDL`.
    """

    kind = "tagger"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_prototypes": MCDL._parameter_constraints["n_prototypes"],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "width": [Interval(Integral, 1, None, closed="left")],
        "kernel_components": [Interval(Integral, 1, None, closed="left")],
        "max_nonzeros": [Interval(Integral, 1, None, closed="left")],
        "lift": [Interval(Real, 0, None, closed="left"), None],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "strength": [Interval(Real, 0, None, closed="neither"), None],
        "share": [Interval(Real, 0, 1, closed="both"), None],
        "linear": [Interval(Real, 0, 1, closed="both"), None],
        "relations": [Interval(Real, 0, 1, closed="both")],
        "boost": [Interval(Real, 0, 1, closed="both"), None],
        "max_landmarks": [Interval(Integral, 1, None, closed="left")],
        "pilot": [Interval(Integral, 2, None, closed="left")],
        "threshold": [
            StrOptions({"global", "per_tag"}),
            Interval(Real, None, None, closed="neither"),
        ],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_prototypes: int | float = 1.0,
        *,
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
        boost: float | None = None,
        max_landmarks: int = 20_000,
        pilot: int = 3_000,
        threshold: str | float = "per_tag",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_prototypes = n_prototypes
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
        self.boost = boost
        self.max_landmarks = max_landmarks
        self.pilot = pilot
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- learning ----------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from network vectors (n x m, as they are) and tags (n x t, 0/1)."""
        X, Y = self._begin_fit(X, y)
        n, T = len(X), Y.toarray()
        if n < 2:
            raise ValueError("n_samples=1: predictions leave one image out, give two or more.")
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rng = np.random.default_rng(self._seed)
        chosen: dict[str, float] = {}

        self.reduction_ = Reduction(self.kernel_components, random_state=self._seed).fit(X)
        short = self.reduction_.transform(X)
        sample = np.sort(rng.permutation(n)[: self.pilot])
        chosen["gamma"], chosen["strength"] = self._choose_kernel(short[sample], T[sample])

        self.lifting_, lifted = self._lift(X, Y, sample)
        chosen["lift"] = self.lifting_.weight
        self.mcdl_ = self._core().fit(lifted, Y)
        smooth = self._regress(short, T, lifted, Y, chosen)

        frequency = np.maximum(T.mean(axis=0), 1 / n)
        spread = (self.lifting_.scale_ * np.sqrt(frequency)).astype(np.float32)
        straight = (self.lifting_.left_out_ * spread + frequency).astype(np.float32)
        left = _Left(self.mcdl_.out_of_fold_scores_, smooth, straight)
        fair = left._replace(straight=self._straight(X, T, straight))
        chosen["share"], chosen["linear"] = self._choose_shares(Y, fair)
        plain = self._relate(left.mix(chosen["share"], chosen["linear"]), T)
        self.linear_scale_ = np.float32(chosen["linear"]) * spread
        self.linear_offset_ = np.float32(chosen["linear"]) * frequency.astype(np.float32)
        chosen["boost"] = self._choose_boost(Y, plain, frequency)
        self.tag_scale_ = _tag_scale(frequency, chosen["boost"])
        self.choices_ = {name: float(value) for name, value in chosen.items()}
        self._fit_threshold(Y, plain)
        self.knots_, self.probabilities_ = calibration.fit(Y, plain)
        self.out_of_fold_scores_ = plain * self.tag_scale_
        self.choices_["out_of_fold_f1"] = metrics.f1_of_means(
            T, self.out_of_fold_scores_ > self.threshold_
        )
        self.choices_["out_of_fold_map"] = metrics.mean_average_precision(Y, plain)
        self._prepare()
        return self

    def _vectors(self, X: npt.NDArray[Any]) -> Floats:
        return np.ascontiguousarray(X, np.float32)

    def _lift(
        self, X: Floats, Y: sparse.csr_array, sample: npt.NDArray[np.intp]
    ) -> tuple[Lifting, Floats]:
        """Lift by the weight that annotates a sample best, coded over all other images."""
        lifting = Lifting(self.n_components, weight=1.0, random_state=self._seed)
        lifted = lifting.fit_transform(X, Y)

        def quality(weight: float) -> float:
            x = lifting.reweigh(lifted, weight)
            coder = coder_of(self._core(), x)
            codes = coder.encode(x[sample], own=sample, n_jobs=self.n_jobs).codes
            return _quality(Y[sample], (codes @ Y).toarray())

        weight = max(LIFTS, key=quality) if self.lift is None else self.lift
        lifted = lifting.reweigh(lifted, weight)
        return lifting.set_params(weight=weight), lifting.compress(lifted, self.width)

    def _core(self) -> MCDL:
        return MCDL(
            self.n_prototypes,
            max_nonzeros=self.max_nonzeros,
            n_jobs=self.n_jobs,
            random_state=self._seed,
        )

    def _choose_kernel(self, x: Floats, T: Floats) -> tuple[float, float]:
        gammas = GAMMAS if self.gamma is None else (self.gamma,)
        strengths = STRENGTHS if self.strength is None else (self.strength,)
        pairs = [(gamma, strength) for gamma in gammas for strength in strengths]
        if len(pairs) == 1:
            return pairs[0]

        def quality(pair: tuple[float, float]) -> float:
            model = ridge.kernel_ridge(x, T, gamma=pair[0], strength=pair[1], n_jobs=self.n_jobs)
            return _quality(T, model.left_out)

        return max(pairs, key=quality)

    def _regress(
        self,
        short: Floats,
        T: Floats,
        lifted: Floats,
        Y: sparse.csr_array,
        chosen: dict[str, float],
    ) -> Floats:
        """Learn the kernel regression; its predictions for left-out images."""
        n, count = len(short), len(self.mcdl_.visual_prototypes_)
        if count > self.max_landmarks:
            count = min(LANDMARKS, self.max_landmarks)
        options: Any = {
            "gamma": chosen["gamma"],
            "strength": chosen["strength"],
            "n_jobs": self.n_jobs,
        }
        if count == n:
            exact = ridge.kernel_ridge(short, T, **options)
            self.landmarks_, self.dual_ = short, exact.dual
            return exact.left_out

        def learn(x: Floats, t: Floats, summary: Summary) -> tuple[Floats, Floats]:
            landmarks = summary.means(x)
            return landmarks, ridge.landmark_ridge(x, t, landmarks, **options)

        def score(inside: Any, outside: Any, summary: Summary) -> Floats:
            landmarks, dual = learn(short[outside], T[outside], summary)
            return ridge.kernel(short[inside], landmarks, options["gamma"]) @ dual

        summaries = self._summaries(lifted, Y, count)
        self.landmarks_, self.dual_ = learn(short, T, summaries.whole)
        return summaries.left_out(score, T.shape)

    def _summaries(self, lifted: Floats, Y: sparse.csr_array, count: int) -> Summaries:
        """Those of the codes, so that both know the same prototypes, unless they are too many."""
        known = self.mcdl_.summaries_
        if known is not None and len(known.whole.images) == count:
            return known
        fold = np.random.default_rng(self._seed).permutation(len(lifted)) % self.mcdl_.n_folds
        return summarise_folds(lifted, Y, count, fold, self._seed, self.n_jobs)

    def _straight(self, X: Floats, T: Floats, left_out: Floats) -> Floats:
        """The linear predictions for left-out images, learned from the images the others had.

        One image fewer takes less from a part than a third of them: weighed against scores of
        folds, predictions that leave one image out would seem better than they are. Thresholds
        are chosen from the latter all the same, which are nearer to what new images get.
        """
        summaries = self.mcdl_.summaries_
        if summaries is None or self.linear is not None:
            return left_out
        standard = self.lifting_.reduction_.zscore_.transform(X).astype(np.float32)

        def score(inside: Any, outside: Any, _: Summary) -> Floats:
            found = ridge.ridge(standard[outside], T[outside], self.lifting_.strength_)
            return standard[inside] @ found.coef + found.intercept

        return summaries.left_out(score, T.shape)

    def _choose_shares(self, Y: sparse.csr_array, left: _Left) -> tuple[float, float]:
        """First that of the kernel against the codes, then that of the linear predictions."""
        shares = SHARES if self.share is None else (self.share,)
        linears = LINEARS if self.linear is None else (self.linear,)

        def quality(share: float, linear: float) -> float:
            return _quality(Y, left.mix(share, linear))

        share = max(shares, key=lambda g: quality(g, 0.0)) if len(shares) > 1 else shares[0]
        linear = max(linears, key=lambda u: quality(share, u)) if len(linears) > 1 else linears[0]
        return share, linear

    def _relate(self, scores: Floats, T: Floats) -> Floats:
        """Learn R and o; the scores of left-out images with what those of other tags add.

        The penalty does not grow with n: few images say little of how tags go together. It is not
        chosen from these scores, which understate the gain: leaving an image out pushes the scores
        of its neighbours away from its tags, and a regression on them learns that, too.
        """
        found = ridge.ridge(scores, T - scores, RELATIONS / len(T))
        h = np.float32(self.relations)
        self.relation_ = np.eye(T.shape[1], dtype=np.float32) + h * found.coef
        self.offset_ = h * found.intercept
        return scores + h * found.left_out

    def _choose_boost(self, Y: sparse.csr_array, plain: Floats, frequency: Floats) -> float:
        """For the best F1 with five tags on each image, at little cost to the one threshold."""
        if self.boost is not None:
            return self.boost
        if self._labels or Y.shape[1] <= 5:
            return 0.0

        def quality(boost: float) -> float:
            scores = plain * _tag_scale(frequency, boost)
            five = metrics.f1_of_means(Y, metrics.top(scores, 5))
            return five + thresholds.best_global_threshold(Y, scores)[1]

        return max(BOOSTS, key=quality)

    def _fit_threshold(self, Y: sparse.csr_array, scores: Floats) -> None:
        """From scores without the factors of tags, which are then applied to thresholds too."""
        if isinstance(self.threshold, str):
            cut: Any = (
                thresholds.best_tag_thresholds(Y, scores, shrink=SHRINK)
                if self.threshold == "per_tag"
                else np.full(Y.shape[1], thresholds.best_global_threshold(Y, scores)[0])
            )
            self.threshold_ = (cut * self.tag_scale_).astype(np.float64)
        else:
            self.threshold_ = float(self.threshold)

    # -- using -------------------------------------------------------------------------------------

    def _scores(self, X: Floats) -> Floats:
        return self._plain(X) * self.tag_scale_

    def _prepare(self) -> None:
        config, arrays = self._state()
        # In memory tags may be called anything, and names play no part in scores.
        config |= {"vocabulary": list(range(len(self.tag_scale_))), "per_tag": False}
        self._scorer = Scorer(config, {**arrays, "threshold": np.zeros(1)})

    def _plain(self, X: Floats) -> Floats:
        self._scorer.n_jobs = self.n_jobs
        return self._scorer.plain(X)

    def probabilities(self, X: Any) -> npt.NDArray[np.float64]:
        """How likely each tag is right for each image, n x t.

        Scores are calibrated by what left-out training images scored: of the pairs of image and
        tag given a probability of 0.7, about 70 % are right (by the tags that people gave).
        """
        return calibration.apply(self._plain(self._begin_use(X)), self.knots_, self.probabilities_)

    def explain(self, X: Any, tags: npt.ArrayLike | None = None) -> list[list[Part]]:
        """Why each image was given its tags: the prototypes behind them (training images).

        As :meth:`MCDL.explain`, for the coded share of the scores; the rest of a score comes from
        the kernel regression, to which all prototypes contribute, the linear predictions and the
        other tags.
        """
        x = self._begin_use(X)
        scores = self._scores(x)
        weight = (1 - self.choices_["linear"]) * (1 - self.choices_["share"]) * self.tag_scale_
        chosen = self._explained(scores, tags)
        codes = self.mcdl_.transform(self.lifting_.transform(x))
        found = explanation.parts(codes, self.mcdl_._S, scores, chosen, self.classes_)
        column = {name: number for number, name in enumerate(self.classes_.tolist())}
        return [
            [
                part._replace(
                    score=float(scores[image, column[part.tag]]),
                    shares=part.shares * np.float32(weight[column[part.tag]]),
                )
                for part in parts
            ]
            for image, parts in enumerate(found)
        ]

    # -- on disk -----------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What a model file keeps: a header of plain values, and arrays."""
        check_is_fitted(self)
        config, arrays = self._tags_state()
        more, kept = self._state()
        return config | more, arrays | kept

    def _state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """The same without what tags are called and their thresholds."""
        config: dict[str, Any] = {}
        arrays: dict[str, npt.NDArray[Any]] = {}
        skip = {"n_jobs", "random_state"}
        config["recipe"] = {k: v for k, v in self.get_params().items() if k not in skip}
        config["choices"] = self.choices_
        config["shape"] = [self.n_features_in_, *self.landmarks_.shape, len(self.tag_scale_)]
        for name, part in self._parts().items():
            config[name], kept = part.to_state()
            arrays |= {f"{name}/{key}": array for key, array in kept.items()}
        arrays["kernel/landmarks"] = self.landmarks_
        arrays["kernel/dual"] = self.dual_
        arrays["linear/scale"] = self.linear_scale_
        arrays["linear/offset"] = self.linear_offset_
        arrays["relations/coef"] = self.relation_
        arrays["relations/offset"] = self.offset_
        arrays["tag_scale"] = self.tag_scale_
        arrays["calibration/knots"] = self.knots_
        arrays["calibration/probabilities"] = self.probabilities_
        return config, arrays

    def _parts(self) -> dict[str, Any]:
        return {"lifting": self.lifting_, "mcdl": self.mcdl_, "reduction": self.reduction_}

    @classmethod
    def from_state(cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """The estimator that :meth:`to_state` described."""

        def part(kind: Any, name: str) -> Any:
            inside = {
                key.partition("/")[2]: array
                for key, array in arrays.items()
                if key.startswith(f"{name}/")
            }
            return kind.from_state(config[name], inside)

        try:
            model = cls(**config["recipe"])
            model._validate_params()
            m, count, width, t = (int(size) for size in config["shape"])
            model._restore_tags(config, arrays, m)
            model.choices_ = {name: float(value) for name, value in config["choices"].items()}
            model.lifting_ = part(Lifting, "lifting")
            model.mcdl_ = part(MCDL, "mcdl")
            model.reduction_ = part(Reduction, "reduction")
            model.landmarks_ = modelfile.expect(arrays, "kernel/landmarks", (count, width), "f4")
            model.dual_ = modelfile.expect(arrays, "kernel/dual", (count, t), "f4")
            for name in ("scale", "offset"):
                if "linear" in model.choices_:
                    linear = modelfile.expect(arrays, f"linear/{name}", (t,), "f4")
                else:  # a file from before there was a linear part
                    linear = np.zeros(t, np.float32)
                setattr(model, f"linear_{name}_", linear)
            model.choices_.setdefault("linear", 0.0)
            model.relation_ = modelfile.expect(arrays, "relations/coef", (t, t), "f4")
            model.offset_ = modelfile.expect(arrays, "relations/offset", (t,), "f4")
            model.tag_scale_ = modelfile.expect(arrays, "tag_scale", (t,), "f4")
            model.knots_ = modelfile.expect(arrays, "calibration/knots", (None,), "f8")
            size = (len(model.knots_),)
            model.probabilities_ = modelfile.expect(arrays, "calibration/probabilities", size, "f8")
            missing = {"share", "gamma"} - model.choices_.keys()
            if missing:
                raise ModelFileError(f"the choices lack {sorted(missing)}: it is not complete.")
            model._check_parts(m, width, t)
            model._prepare()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"the model's description is not complete: {error}") from error
        return model

    def _check_parts(self, m: int, width: int, t: int) -> None:
        """Parts that do not fit each other are refused before an image meets them."""
        fits = (
            self.lifting_.n_features_in_ == self.reduction_.n_features_in_ == m
            and self.lifting_._n_features_out == self.mcdl_.n_features_in_
            and self.reduction_._n_features_out == width
            and len(self.mcdl_.classes_) == t
        )
        if not fits:
            raise ModelFileError("the parts of the model do not fit each other: it is damaged.")

    def save(self, path: str | Path) -> None:
        """Write the model to one file, atomically; see docs/model-file.md."""
        config, arrays = self.to_state()
        modelfile.write(path, {"kind": "tagger", **config, "provenance": provenance()}, arrays)


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


class _Left(NamedTuple):
    """What each part of the scores says of left-out images, n x t."""

    coded: Floats
    smooth: Floats
    straight: Floats

    def mix(self, share: float, linear: float) -> Floats:
        mixed = np.float32((1 - linear) * (1 - share)) * self.coded
        mixed += np.float32((1 - linear) * share) * self.smooth
        mixed += np.float32(linear) * self.straight
        return mixed


def _tag_scale(frequency: Floats, boost: float) -> Floats:
    scale = frequency.astype(np.float64) ** -boost
    return (scale / scale.mean()).astype(np.float32)


def _quality(Y: Any, scores: Floats) -> float:
    """F1 with the best threshold plus mean average precision: how tags and rankings come out."""
    return thresholds.best_global_threshold(Y, scores)[1] + metrics.mean_average_precision(
        Y, scores
    )
