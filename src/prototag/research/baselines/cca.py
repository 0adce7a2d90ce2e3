"""Nearest neighbours after canonical correlation analysis: CCA-KNN, and KCCA with a kernel."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from prototag.arrays import Doubles, Floats, Rows
from prototag.arrays import normalize_rows_at_any_scale as unit
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.research.baselines import base, knn_search, nystroem
from prototag.research.baselines.base import (
    AUTO,
    COUNT,
    FOLDS,
    NOT_NEGATIVE,
    POSITIVE,
    Baseline,
)

# The first of each grid applies while other hyperparameters are selected.
GRIDS: dict[str, tuple[Any, ...]] = {
    "strength": (0.03, 0.003, 0.3),
    "power": (0.0, 0.5, 1.0),
    "sharpness": (12.0, 8.0, 16.0),
}
COUNTS = {"2pknn": (2, 1, 4), "knn": (40, 10, 20, 80, 160)}


class Canonical(NamedTuple):
    """The directions of vectors and of tags that correlate most with each other."""

    mean: Doubles  # m
    axes: Doubles  # m x d, at unit variance under the regularised covariance
    tag_axes: Doubles  # t x d
    correlation: Doubles  # d, decreasing


@dataclass(frozen=True)
class Moments:
    """Sums over images that determine covariances; the sums of a fold can be subtracted."""

    n: float
    x: Doubles
    y: Doubles
    xx: Doubles
    xy: Doubles
    yy: Doubles

    def without(self, other: Moments) -> Moments:
        """Return the sums over all images except those of ``other``."""
        return Moments(
            *(getattr(self, part.name) - getattr(other, part.name) for part in fields(self))
        )

    @classmethod
    def total(cls, parts: list[Moments]) -> Moments:
        return cls(*(sum(getattr(one, part.name) for one in parts) for part in fields(cls)))


@dataclass(eq=False, repr=False)
class CCAKNN(Baseline):
    """Canonical correlation analysis, then nearest neighbours (Murthy, Maji and Manmatha 2015).

    Directions A of vectors and B of tags maximise the correlation of x A and y B:

        max trace(A' C_xy B)
        s.t. A' (C_xx + r v_x I) A = I,  B' (C_yy + r v_y I) B = I

    where C are covariances and v their mean variances. An image is represented by its vector alone,
    z = unit((x - mean) A diag(correlation) ** q). Its neighbours among the z of the training images
    vote for tags: by the two passes of :class:`TwoPassKNN`, as in the paper, or as the k nearest,
    with weights exp(-s d) that sum to one; d is the squared distance over its mean.

    Parameters
    ----------
    n_components : int or None, default=None
        The largest d; None uses all directions.
    strength : float or "auto", default="auto"
        r. "auto" here and below: one parameter after the other is selected from ``GRIDS`` and
        ``COUNTS`` on out-of-fold scores.
    power : float or "auto", default="auto"
        q, which emphasises directions of high correlation.
    vote : {"2pknn", "knn"}, default="2pknn"
    n_neighbours : int or "auto", default="auto"
        The number of neighbours, of each tag ("2pknn") or in total ("knn").
    sharpness : float or "auto", default="auto"
    n_folds : int, default=3
        A training image is scored with an embedding and neighbours of the other folds.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None
        Draws the folds.

    Attributes
    ----------
    choices_ : dict
        The hyperparameters used, after selection.
    correlation_ : ndarray of shape (d,)
    mean_ : ndarray of shape (m,)
    axes_ : ndarray of shape (m, d)
    scale_ : ndarray of shape (d,)
        z is ``unit((x - mean_) @ axes_) * scale_``, its mean squared distance one.
    images_ : ndarray of shape (n, d)
        z of the training images.
    tags_ : csr_array of shape (n, t)
        The tags of the training images.
    out_of_fold_scores_ : ndarray of shape (n, t)
    """

    n_components: int | None = None
    _: KW_ONLY
    strength: float | str = "auto"
    power: float | str = "auto"
    vote: str = "2pknn"
    n_neighbours: int | str = "auto"
    sharpness: float | str = "auto"
    n_folds: int = 3
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._shared_constraints,
        "n_components": [COUNT, None],
        "strength": [POSITIVE, AUTO],
        "power": [NOT_NEGATIVE, AUTO],
        "vote": [StrOptions({"2pknn", "knn"})],
        "n_neighbours": [COUNT, AUTO],
        "sharpness": [NOT_NEGATIVE, AUTO],
        "n_folds": [FOLDS],
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {"choices_": dict}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to vectors (n x m, scaled to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        rng = check_random_state(self.random_state)
        features = self._fit_features(X, rng)
        fold = base.draw_folds(len(X), self.n_folds, rng)
        with single_threaded_blas():
            sums = [moments(features[part], Y[part]) for part in base.fold_rows(fold)]
            total = Moments.total(sums)
            spaces: dict[float, list[Canonical]] = {}

            def out_of_fold_scores(choices: dict[str, Any], rows: Rows) -> Floats:
                strength = choices["strength"]
                if strength not in spaces:
                    spaces[strength] = [
                        canonical(total.without(own), strength, self.n_components) for own in sums
                    ]
                scores = np.empty((len(rows), Y.shape[1]), np.float32)
                for number, space in enumerate(spaces[strength]):
                    inside = fold[rows] == number
                    others = np.flatnonzero(fold != number)
                    gallery = Gallery.of(features[others], Y[others], space, choices, self.vote)
                    scores[inside] = gallery.scores(features[rows[inside]], self.n_jobs)
                return scores

            sample = base.tuning_sample(len(X))
            choices = base.coordinate_search(
                self._candidates({**GRIDS, "n_neighbours": COUNTS[self.vote]}),
                lambda option: base.quality(Y[sample], out_of_fold_scores(option, sample)),
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
            self._normalize_arrays()
            self._end_fit(Y, out_of_fold_scores(choices, np.arange(len(X))))
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
        self.images_ = self._gallery.search.X  # a view: the images are in memory once

    def _fit_features(self, X: Floats, rng: Any) -> Floats:  # noqa: ARG002
        return self._features(X)

    def _features(self, X: Floats) -> Floats:
        return X

    def _scores(self, X: Floats) -> Floats:
        return self._gallery.scores(self._features(X), self.n_jobs)


@dataclass(eq=False, repr=False)
class KCCA(CCAKNN):
    """Kernel CCA, then nearest neighbours (Ballan, Uricchio, Seidenari and Del Bimbo 2014).

    :class:`CCAKNN` on the features of a Gaussian kernel, exp(-gamma d) with d the squared distance
    over its mean: exactly kernel CCA (linear in the tags) if all images are landmarks, and in the
    span of the landmarks otherwise. In the paper, the k nearest vote.

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

    _: KW_ONLY
    vote: str = "knn"
    gamma: float = 1.5
    n_landmarks: int = 1500

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CCAKNN._parameter_constraints,
        "gamma": [POSITIVE],
        "n_landmarks": [COUNT],
    }
    _values: ClassVar[dict[str, type]] = {**CCAKNN._values, "width_": float}

    def _fit_features(self, X: Floats, rng: Any) -> Floats:
        kernel_map = nystroem.fit(X, self.gamma, self.n_landmarks, rng)
        self.landmarks_ = kernel_map.landmarks
        self.root_ = kernel_map.root
        self.width_ = kernel_map.gamma
        return self._features(X)

    def _features(self, X: Floats) -> Floats:
        kernel_map = nystroem.Map(self.landmarks_, self.root_, self.width_)
        return kernel_map.transform(X, self.n_jobs)

    def _arrays(self) -> dict[str, str]:
        arrays = super()._arrays().items()
        in_features = {name: declaration.replace("m", "r") for name, declaration in arrays}
        return {"landmarks_": "f4 l m", "root_": "f4 l r", **in_features}


class Gallery(NamedTuple):
    """Training images in the canonical space, among which neighbours are searched."""

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
        scale = knn_search.balanced_scale(z, np.zeros(z.shape[1], np.intp))
        search = knn_search.Search(z * scale, Y if vote == "2pknn" else None)
        tags = knn_search.TagLists.of(Y)
        return cls(mean, axes, scale, search, tags, choices["n_neighbours"], choices["sharpness"])

    def scores(self, features: Floats, n_jobs: int | None) -> Floats:
        if not len(features):  # a fold may have no image of the tuning sample
            return np.empty((0, self.tags.t), np.float32)
        return map_rows(
            Threads(n_jobs), gallery_batch, [features], [self], size=knn_search.BATCH_QUERIES
        )


def embed(features: Floats, mean: Floats, axes: Floats) -> Floats:
    """Return the unit vectors of images in the canonical space."""
    return unit((features - mean) @ axes)


def gallery_batch(features: Floats, gallery: Gallery) -> Floats:
    """Return the scores of a batch of images."""
    z = embed(features, gallery.mean, gallery.axes)
    return knn_search.vote_batch(
        z, gallery.scale, gallery.search, gallery.tags, gallery.n_neighbours, gallery.sharpness
    )


def moments(x: Floats, Y: sparse.csr_array) -> Moments:
    """Sum products of vectors and tags."""
    return Moments(
        float(len(x)),
        x.sum(axis=0, dtype=np.float64),
        np.asarray(Y.sum(axis=0), np.float64).ravel(),
        (x.T @ x).astype(np.float64),
        np.asarray((Y.T @ x).T, np.float64),
        (Y.T @ Y).toarray().astype(np.float64),
    )


def canonical(sums: Moments, strength: float, n_components: int | None = None) -> Canonical:
    """Solve regularised canonical correlation analysis by whitening and an SVD."""
    from scipy import linalg

    mean_x = sums.x / sums.n
    mean_y = sums.y / sums.n
    xx = sums.xx / sums.n - np.outer(mean_x, mean_x)
    yy = sums.yy / sums.n - np.outer(mean_y, mean_y)
    xy = sums.xy / sums.n - np.outer(mean_x, mean_y)
    whiten_x = _whitening(xx, strength)
    whiten_y = _whitening(yy, strength)
    U, correlation, Vt = linalg.svd(whiten_x.T @ xy @ whiten_y, full_matrices=False)
    d = min(len(correlation), n_components or len(correlation))
    return Canonical(
        mean_x, whiten_x @ U[:, :d], whiten_y @ Vt[:d].T, np.clip(correlation[:d], 0, None)
    )


def _whitening(covariance: Doubles, strength: float) -> Doubles:
    """Return R with R' (C + strength * mean variance * I) R = I, in the span of C."""
    from scipy import linalg

    value, vector = linalg.eigh(covariance, check_finite=False)
    variance = max(value.mean(), 1e-12)
    return np.asarray(vector / np.sqrt(np.maximum(value, 0) + strength * variance))
