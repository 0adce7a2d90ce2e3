"""Neighbours in the space where vectors and tags correlate: CCA-KNN, and KCCA with a kernel."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Doubles, Floats, Rows
from prototag.arrays import normalize_rows_at_any_scale as unit
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.research.baselines import base, knn_search, nystroem
from prototag.research.baselines.base import Baseline

STRENGTHS = (0.03, 0.003, 0.3)
POWERS = (0.0, 0.5, 1.0)
SHARPNESSES = (12.0, 8.0, 16.0)
COUNTS = {"2pknn": (2, 1, 4), "knn": (40, 10, 20, 80, 160)}


class Canonical(NamedTuple):
    """Directions of vectors that correlate most with directions of tags."""

    mean: Doubles  # m
    axes: Doubles  # m x d, at unit variance under the regularised covariance
    tag_axes: Doubles  # t x d
    correlation: Doubles  # d, falling


@dataclass(frozen=True)
class Moments:
    """Sums over images from which covariances are made; those of folds can be subtracted."""

    n: float
    x: Doubles
    y: Doubles
    xx: Doubles
    xy: Doubles
    yy: Doubles

    def without(self, other: Moments) -> Moments:
        return Moments(
            *(getattr(self, part.name) - getattr(other, part.name) for part in fields(self))
        )

    @classmethod
    def total(cls, parts: list[Moments]) -> Moments:
        return cls(*(sum(getattr(one, part.name) for one in parts) for part in fields(cls)))


class CCAKNN(Baseline):
    """Canonical correlation analysis, then neighbours (Murthy, Maji and Manmatha 2015).

    Directions A of vectors and B of tags are found for which x A and y B correlate most:

        max trace(A' C_xy B)
        s.t. A' (C_xx + r v_x I) A = I,  B' (C_yy + r v_y I) B = I

    where C are covariances and v their mean variances. An image, of which only the vector is known,
    is z = unit((x - mean) A diag(correlation) ** q), and its tags are voted by its neighbours among
    the training images' z: by the two passes of :class:`TwoPassKNN`, as in the paper, or by the k
    nearest, with weights exp(-s d) that sum to one; d is the squared distance over its mean.

    Parameters
    ----------
    n_components : int or None, default=None
        d at most; None for as many as there are.
    strength : float or "auto", default="auto"
        r. "auto" here and below: the best of ``STRENGTHS`` and so on for scores out of fold, one
        parameter after the other.
    power : float or "auto", default="auto"
        q: how much more directions of high correlation count.
    vote : {"2pknn", "knn"}, default="2pknn"
    n_neighbours : int or "auto", default="auto"
        Of each tag ("2pknn"), or in all ("knn").
    sharpness : float or "auto", default="auto"
    n_folds : int, default=3
        A training image is scored by an embedding and neighbours of the other folds.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None
        Draws the folds.

    Attributes
    ----------
    choices_ : dict
        What "auto" became.
    correlation_ : ndarray of shape (d,)
    mean_ : ndarray of shape (m,)
    axes_ : ndarray of shape (m, d)
    scale_ : ndarray of shape (d,)
        z is ``unit((x - mean_) @ axes_) * scale_``, its mean squared distance one.
    images_ : ndarray of shape (n, d)
        z of the training images.
    tags_ : csr_array of shape (n, t)
        What they are tagged with.
    out_of_fold_scores_ : ndarray of shape (n, t)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "strength": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "power": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "vote": [StrOptions({"2pknn", "knn"})],
        "n_neighbours": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "sharpness": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        **Baseline._shared_constraints,
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {"choices_": dict}

    def __init__(
        self,
        n_components: int | None = None,
        *,
        strength: float | str = "auto",
        power: float | str = "auto",
        vote: str = "2pknn",
        n_neighbours: int | str = "auto",
        sharpness: float | str = "auto",
        n_folds: int = 3,
        threshold: str | float = "global",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.strength = strength
        self.power = power
        self.vote = vote
        self.n_neighbours = n_neighbours
        self.sharpness = sharpness
        self.n_folds = n_folds
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        rng = check_random_state(self.random_state)
        features = self._learn_features(X, rng)
        fold = base.draw_folds(len(X), self.n_folds, rng)
        parts = [np.flatnonzero(fold == number) for number in range(fold.max() + 1)]
        with single_threaded_blas():
            sums = [moments(features[part], Y[part]) for part in parts]
            total = Moments.total(sums)
            spaces: dict[float, list[Canonical]] = {}

            def out_of_fold(choices: dict[str, Any], rows: Rows) -> Floats:
                strength = choices["strength"]
                if strength not in spaces:
                    spaces[strength] = [
                        canonical(total.without(own), strength, self.n_components) for own in sums
                    ]
                scores = np.empty((len(rows), Y.shape[1]), np.float32)
                for number, space in enumerate(spaces[strength]):
                    inside = fold[rows] == number
                    outside = np.flatnonzero(fold != number)
                    gallery = Gallery.of(features[outside], Y[outside], space, choices, self.vote)
                    scores[inside] = gallery.scores(features[rows[inside]], self.n_jobs)
                return scores

            grids: dict[str, tuple[Any, ...]] = {
                "strength": STRENGTHS,
                "power": POWERS,
                "sharpness": SHARPNESSES,
                "n_neighbours": COUNTS[self.vote],
            }
            sample = base.pilot(len(X))
            choices = base.in_turn(
                grids, self, lambda tried: base.quality(Y[sample], out_of_fold(tried, sample))
            )
            self.choices_ = choices
            space = canonical(total, choices["strength"], self.n_components)
            self.correlation_ = space.correlation
            gallery = Gallery.of(features, Y, space, choices, self.vote)
            self.mean_ = gallery.mean
            self.axes_ = gallery.axes
            self.scale_ = gallery.scale
            self.images_ = gallery.search.X
            self.tags_ = Y.astype(bool)
            self._settle()
            self._end_fit(Y, out_of_fold(choices, np.arange(len(X))))
        return self

    def _arrays(self) -> dict[str, str]:
        return {
            "mean_": "f4 m",
            "axes_": "f4 m d",
            "correlation_": "f8 d",
            "scale_": "f4 d",
            "images_": "f4 n d",
            "tags_": "tags n t",
        }

    def _prepare(self) -> None:
        by_tag = self.tags_ if self.vote == "2pknn" else None
        self._gallery = Gallery(
            self.mean_,
            self.axes_,
            self.scale_,
            knn_search.Search(self.images_, by_tag),
            knn_search.TagLists.of(self.tags_),
            self.choices_["n_neighbours"],
            self.choices_["sharpness"],
        )
        self.images_ = self._gallery.search.X  # held once

    def _learn_features(self, X: Floats, rng: Any) -> Floats:  # noqa: ARG002
        return self._features(X)

    def _features(self, X: Floats) -> Floats:
        return X

    def _scores(self, X: Floats) -> Floats:
        return self._gallery.scores(self._features(X), self.n_jobs)


class KCCA(CCAKNN):
    """Kernel CCA, then neighbours (Ballan, Uricchio, Seidenari and Del Bimbo 2014).

    :class:`CCAKNN` on the features of a Gaussian kernel, exp(-gamma d) with d the squared distance
    over its mean: exactly kernel CCA (linear in the tags) if all images are landmarks, and in the
    span of the landmarks otherwise. The paper votes by the k nearest.

    Parameters
    ----------
    n_components, strength, power, n_neighbours, sharpness, n_folds, threshold, n_jobs
        As in :class:`CCAKNN`.
    vote : {"2pknn", "knn"}, default="knn"
    gamma : float, default=1.5
    n_landmarks : int, default=1500
    random_state : int, RandomState or None
        Draws landmarks and folds.

    Attributes
    ----------
    landmarks_ : ndarray of shape (l, m)
    width_ : float
    root_ : ndarray of shape (l, r)
        Features are ``exp(-width_ ||x - landmark||^2) @ root_``.
    choices_, correlation_, mean_, axes_, scale_, images_, tags_, out_of_fold_scores_
        As in :class:`CCAKNN`, of the features.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CCAKNN._parameter_constraints,
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
    }
    _values: ClassVar[dict[str, type]] = {**CCAKNN._values, "width_": float}

    def __init__(  # noqa: PLR0913 - hyperparameters, as scikit-learn wants them
        self,
        n_components: int | None = None,
        *,
        gamma: float = 1.5,
        n_landmarks: int = 1500,
        strength: float | str = "auto",
        power: float | str = "auto",
        vote: str = "knn",
        n_neighbours: int | str = "auto",
        sharpness: float | str = "auto",
        n_folds: int = 3,
        threshold: str | float = "global",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            n_components,
            strength=strength,
            power=power,
            vote=vote,
            n_neighbours=n_neighbours,
            sharpness=sharpness,
            n_folds=n_folds,
            threshold=threshold,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.gamma = gamma
        self.n_landmarks = n_landmarks

    def _learn_features(self, X: Floats, rng: Any) -> Floats:
        self.landmarks_, self.root_, self.width_ = nystroem.gaussian(
            X, self.gamma, self.n_landmarks, rng
        )
        return self._features(X)

    def _features(self, X: Floats) -> Floats:
        made = nystroem.Map(self.landmarks_, self.root_, self.width_)
        return made.transform(X, self.n_jobs)

    def _arrays(self) -> dict[str, str]:
        kept = {name: form.replace("m", "r") for name, form in super()._arrays().items()}
        return {"landmarks_": "f4 l m", "root_": "f4 l r", **kept}


class Gallery(NamedTuple):
    """Training images in the canonical space, ready to be voted by."""

    mean: Floats  # m
    axes: Floats  # m x d
    scale: Floats  # d
    search: knn_search.Search
    tags: knn_search.TagLists
    n_neighbours: int
    sharpness: float

    @classmethod
    def of(
        cls,
        features: Floats,
        Y: sparse.csr_array,
        space: Canonical,
        choices: dict[str, Any],
        vote: str,
    ) -> Gallery:
        mean = space.mean.astype(np.float32)
        axes = (space.axes * space.correlation ** choices["power"]).astype(np.float32)
        z = embed(features, mean, axes)
        scale = knn_search.even_scale(z, np.zeros(z.shape[1], np.intp))
        search = knn_search.Search(z * scale, Y if vote == "2pknn" else None)
        tags = knn_search.TagLists.of(Y)
        return cls(mean, axes, scale, search, tags, choices["n_neighbours"], choices["sharpness"])

    def scores(self, features: Floats, n_jobs: int | None) -> Floats:
        if not len(features):  # of a pilot, no image may be in a fold
            return np.empty((0, self.tags.t), np.float32)
        return map_rows(Threads(n_jobs), gallery_block, [features], [self], size=knn_search.BLOCK)


def embed(features: Floats, mean: Floats, axes: Floats) -> Floats:
    return unit((features - mean) @ axes)


def gallery_block(features: Floats, gallery: Gallery) -> Floats:
    """Scores of a block of images, embedded and voted for."""
    z = embed(features, gallery.mean, gallery.axes)
    return knn_search.vote_block(
        z, gallery.scale, gallery.search, gallery.tags, gallery.n_neighbours, gallery.sharpness
    )


def moments(x: Floats, Y: sparse.csr_array) -> Moments:
    """Sums of products of vectors and tags."""
    return Moments(
        float(len(x)),
        x.sum(axis=0, dtype=np.float64),
        np.asarray(Y.sum(axis=0), np.float64).ravel(),
        (x.T @ x).astype(np.float64),
        np.asarray((Y.T @ x).T, np.float64),
        (Y.T @ Y).toarray().astype(np.float64),
    )


def canonical(sums: Moments, strength: float, n_components: int | None = None) -> Canonical:
    """Regularised canonical correlation analysis: whitening, then singular values."""
    from scipy import linalg

    mean_x = sums.x / sums.n
    mean_y = sums.y / sums.n
    xx = sums.xx / sums.n - np.outer(mean_x, mean_x)
    yy = sums.yy / sums.n - np.outer(mean_y, mean_y)
    xy = sums.xy / sums.n - np.outer(mean_x, mean_y)
    roots = [_whitening(xx, strength), _whitening(yy, strength)]
    U, correlation, Vt = linalg.svd(roots[0].T @ xy @ roots[1], full_matrices=False)
    d = min(len(correlation), n_components or len(correlation))
    return Canonical(
        mean_x, roots[0] @ U[:, :d], roots[1] @ Vt[:d].T, np.clip(correlation[:d], 0, None)
    )


def _whitening(covariance: Doubles, strength: float) -> Doubles:
    """R with R' (C + strength * mean variance * I) R = I, in the span of C."""
    from scipy import linalg

    value, vector = linalg.eigh(covariance, check_finite=False)
    variance = max(value.mean(), 1e-12)
    return np.asarray(vector / np.sqrt(np.maximum(value, 0) + strength * variance))
