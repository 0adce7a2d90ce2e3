"""Neighbours in the space where vectors and tags correlate: CCA-KNN, and KCCA with a kernel."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Floats
from prototag.arrays import unit_at_any_scale as unit
from prototag.engine import threads
from prototag.research.rivals import base, landmarks, nearest
from prototag.research.rivals.base import Rival

STRENGTHS = (0.03, 0.003, 0.3)
POWERS = (0.0, 0.5, 1.0)
SHARPNESSES = (12.0, 8.0, 16.0)
COUNTS = {"2pknn": (2, 1, 4), "knn": (40, 10, 20, 80, 160)}
ROWS = 1024
Doubles = npt.NDArray[np.float64]


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


class CCAKNN(Rival):
    """Canonical correlation analysis, then neighbours (Murthy, Maji and Manmatha 2015).

    Directions A of vectors and B of tags are found for which x A and y B correlate most:

        max trace(A' C_xy B)   with   A' (C_xx + r v_x I) A = I,   B' (C_yy + r v_y I) B = I

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
        **Rival._shared_constraints,
        "random_state": ["random_state"],
    }

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
        X, Y = self._begin_fit(X, y)
        rng = check_random_state(self.random_state)
        self._map = self._feature_map(X, rng)
        features = self._features(X)
        fold = base.draw_folds(len(X), self.n_folds, rng)
        parts = [np.flatnonzero(fold == number) for number in range(fold.max() + 1)]
        with threads.one_thread():
            sums = [moments(features[part], Y[part]) for part in parts]
            total = Moments.total(sums)
            spaces: dict[float, list[Canonical]] = {}

            def out_of_fold(choices: dict[str, Any], rows: npt.NDArray[np.intp]) -> Floats:
                strength = choices["strength"]
                if strength not in spaces:
                    spaces[strength] = [
                        canonical(total.without(own), strength, self.n_components) for own in sums
                    ]
                scores = np.empty((len(rows), Y.shape[1]), np.float32)
                for number, space in enumerate(spaces[strength]):
                    inside, outside = fold[rows] == number, np.flatnonzero(fold != number)
                    gallery = _Gallery(features[outside], Y[outside], space, choices, self.vote)
                    scores[inside] = gallery.scores(features[rows[inside]], self.n_jobs)
                return scores

            grids: dict[str, tuple[Any, ...]] = {
                "strength": STRENGTHS,
                "power": POWERS,
                "sharpness": SHARPNESSES,
                "n_neighbours": COUNTS[self.vote],
            }
            few = base.pilot(len(X))
            choices = base.in_turn(
                grids, self, lambda tried: base.quality(Y[few], out_of_fold(tried, few))
            )
            self.choices_ = choices
            space = canonical(total, choices["strength"], self.n_components)
            self.correlation_ = space.correlation
            self._gallery = _Gallery(features, Y, space, choices, self.vote)
            self._end_fit(Y, out_of_fold(choices, np.arange(len(X))))
        return self

    def _feature_map(self, X: Floats, rng: Any) -> landmarks.Map | None:  # noqa: ARG002
        return None

    def _features(self, X: Floats) -> Floats:
        return X if self._map is None else self._map.transform(X, self.n_jobs)

    def _scores(self, X: Floats) -> Floats:
        return self._gallery.scores(self._features(X), self.n_jobs)


class KCCA(CCAKNN):
    """Kernel CCA, then neighbours (Ballan, Uricchio, Seidenari and Del Bimbo 2014).

    :class:`CCAKNN` on the features of a Gaussian kernel, exp(-gamma d) with d the squared distance
    over its mean: exactly kernel CCA (linear in the tags) if all images are landmarks, and in the
    span of the landmarks otherwise. The paper votes by the k nearest.

    Parameters
    ----------
    n_components, strength, power, vote, n_neighbours, sharpness, n_folds, threshold, n_jobs
        As in :class:`CCAKNN`; ``vote`` is "knn" by default.
    gamma : float, default=1.5
    n_landmarks : int, default=1500
    random_state : int, RandomState or None
        Draws landmarks and folds.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CCAKNN._parameter_constraints,
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
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

    def _feature_map(self, X: Floats, rng: Any) -> landmarks.Map | None:
        return landmarks.gaussian(X, self.gamma, self.n_landmarks, rng)


class _Gallery:
    """Training images in the canonical space, ready to be voted by."""

    def __init__(
        self,
        features: Floats,
        Y: sparse.csr_array,
        space: Canonical,
        choices: dict[str, Any],
        vote: str,
    ) -> None:
        self._mean = space.mean.astype(np.float32)
        scaled = space.axes * space.correlation ** choices["power"]
        self._axes = scaled.astype(np.float32)
        z = self._embed(features)
        self._scale = nearest.even_scale(z, np.zeros(z.shape[1], np.intp))
        self._search = nearest.Search(z * self._scale, Y if vote == "2pknn" else None)
        self._tags = nearest.TagLists.of(Y)
        self._count, self._sharpness = choices["n_neighbours"], choices["sharpness"]

    def _embed(self, features: Floats) -> Floats:
        return unit((features - self._mean) @ self._axes)

    def scores(self, features: Floats, n_jobs: int | None) -> Floats:
        def block(part: slice) -> Floats:
            found = self._search.find(self._embed(features[part]) * self._scale, self._count)
            return found.votes(found.weights(self._sharpness), self._tags)

        if not len(features):  # of a pilot, no image may be in a fold
            return np.empty((0, self._tags.t), np.float32)
        return np.concatenate(
            threads.map_blocks(block, len(features), size=nearest.BLOCK, n_jobs=n_jobs)
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

    mean_x, mean_y = sums.x / sums.n, sums.y / sums.n
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
