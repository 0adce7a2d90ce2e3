"""TagProp: neighbour weights that maximise the likelihood of the training tags."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit, log_expit, softmax
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from prototag.arrays import Bools, Doubles, Floats, Rows
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.research.baselines import base, knn_search
from prototag.research.baselines.base import COUNT, FOLDS, Baseline

EPSILON = 1e-5  # probability of a tag that no neighbour has: keeps likelihoods above zero
INITIAL_SHARPNESS = 10.0  # sum of the initial weights of squared distances
SIGMOID_PENALTY = 1e-7  # keeps slopes finite for tags that x separates perfectly
BATCH_IMAGES = 1024
BATCH_TAGS = 16
BATCH_DISTANCES = 32  # images: each needs the whole vectors of its neighbours
LBFGS_OPTIONS: Any = {"maxiter": 30, "ftol": 1e-7}


class Sigmoids(NamedTuple):
    """``sigma(slope_c x_ic + offset_c)`` for each tag c."""

    slope: Doubles
    offset: Doubles


@dataclass(frozen=True)
class Sample:
    """Images with their tags, their neighbours and distances. Rows can be indexed."""

    neighbours: knn_search.Neighbours
    distance: Floats  # n x k x g
    Y: Bools  # n x t
    tags: knn_search.TagLists

    def __len__(self) -> int:
        return len(self.Y)

    def __getitem__(self, rows: slice | Rows) -> Sample:
        return Sample(self.neighbours[rows], self.distance[rows], self.Y[rows], self.tags)


class _Gallery:
    """Training images among which neighbours are searched."""

    def __init__(self, X: Floats, Y: sparse.csr_array, group: Rows) -> None:
        self.search = knn_search.Search(X)
        self.tags = knn_search.TagLists.of(Y)
        count = int(group.max()) + 1
        self._column_groups = np.eye(count, dtype=np.float32)[group] * count  # m x g

    def distances(self, x: Floats, neighbours: knn_search.Neighbours, n_jobs: int | None) -> Floats:
        """Return squared distances per feature group, in units of the mean, n x k x g."""
        if self._column_groups.shape[1] == 1:
            return neighbours.distance[:, :, None]
        shared = [self.search.X, self._column_groups]
        rows = [x, neighbours.index]
        return map_rows(Threads(n_jobs), distances_batch, rows, shared, size=BATCH_DISTANCES)


@dataclass(eq=False, repr=False)
class TagProp(Baseline):
    """Tag propagation (Guillaumin, Mensink, Verbeek and Schmid 2009).

    A new image has tag c with probability

        p_c = e + (1 - 2 e) x_c,   x_c = sum_{j in N(x)} pi_j y_jc
        or, with the sigma model of each tag,
        p_c = sigma(a_c x_c + b_c)

    over its k nearest images, whose weights depend on rank, ``pi_j = gamma_rank(j)``, or distance,
    ``pi_j ~ exp(-sum_g w_g d_g(x, x_j))`` with a weight w_g >= 0 for each feature group. gamma (at
    least 0, summing to 1) or w, and a and b, maximise

        sum_ic  1/n+ y_ic ln p_ic + 1/n- (1 - y_ic) ln(1 - p_ic)

    over training images, none of which is its own neighbour; n+ and n- count present and absent
    tags. The sigmoids let rare tags, which few neighbours have, reach high probabilities.

    Parameters
    ----------
    weights : {"distance", "rank"}, default="distance"
    sigma : bool, default=True
        Learn a sigmoid for each tag, in alternation with the weights.
    n_neighbours : int, default=200
        k; the weights determine how many neighbours matter.
    groups : array-like of shape (m,) or None, default=None
        The feature group of each column: with distances, a weight is learned for each group.
    n_rounds : int, default=3
        The number of alternations of weights and sigmoids.
    n_folds : int, default=2
        A training image is scored with parameters that were fitted on the other folds.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None
        Draws the folds.

    Attributes
    ----------
    weights_ : ndarray
        gamma (k numbers), or w (one for each group; of squared distances in units of their mean).
    theta_ : ndarray
        The optimised parameters: the logits of gamma, or w.
    images_ : ndarray of shape (n, m)
        The training images, scaled.
    tags_ : csr_array of shape (n, t)
        The tags of the training images.
    slope_ : ndarray of shape (t,)
        a, with the sigma model.
    offset_ : ndarray of shape (t,)
        b, with the sigma model.
    log_likelihood_ : float
        The maximum that was reached.
    out_of_fold_scores_ : ndarray of shape (n, t)
    """

    weights: str = "distance"
    _: KW_ONLY
    sigma: bool = True
    n_neighbours: int = 200
    groups: npt.ArrayLike | None = None
    n_rounds: int = 3
    n_folds: int = 2
    random_state: Any = None
    slope_: Doubles = field(init=False)
    offset_: Doubles = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._shared_constraints,
        "weights": [StrOptions({"distance", "rank"})],
        "sigma": ["boolean"],
        "n_neighbours": [COUNT],
        "groups": ["array-like", None],
        "n_rounds": [COUNT],
        "n_folds": [FOLDS],
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {"log_likelihood_": float}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to vectors (n x m, scaled to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        group = knn_search.group_numbers(self.groups, X.shape[1])
        self.scale_ = knn_search.balanced_scale(X, group)
        x = X * self.scale_
        fold = base.draw_folds(len(X), self.n_folds, check_random_state(self.random_state))
        scores = np.empty(Y.shape, np.float32)
        sample = self._neighbours(_Gallery(x, Y, group), x, Y)
        # Products between batches are small, and slower with several BLAS threads.
        with single_threaded_blas():
            for number in range(fold.max() + 1):
                held_out = np.flatnonzero(fold == number)
                others = np.flatnonzero(fold != number)
                if len(others) < 2:
                    others = np.arange(len(X))  # each of two images has only the other
                # Held-out images are not even neighbours of the images that are learned from.
                gallery = _Gallery(x[others], Y[others], group)
                theta, sigmoids, _ = self._learn(self._neighbours(gallery, x[others], Y[others]))
                scores[held_out] = self._probabilities(sample[held_out], theta, sigmoids)
            self.theta_, sigmoids, self.log_likelihood_ = self._learn(sample)
        if sigmoids is not None:
            self.slope_ = sigmoids.slope
            self.offset_ = sigmoids.offset
        self.images_ = x
        self.tags_ = Y.astype(bool)
        self._normalize_arrays()
        self._end_fit(Y, scores)
        return self

    def _arrays(self) -> dict[str, str]:
        arrays = {"scale_": "f4 m", "images_": "f4 n m", "tags_": "tags n t", "theta_": "f8 k"}
        return arrays | ({"slope_": "f8 t", "offset_": "f8 t"} if self.sigma else {})

    def _prepare(self) -> None:
        group = knn_search.group_numbers(self.groups, self.images_.shape[1])
        rank = self.weights == "rank"
        expected = min(self.n_neighbours, len(self.images_) - 1) if rank else int(group.max()) + 1
        if len(self.theta_) != expected:
            raise ValueError(f"theta_ has {len(self.theta_)} numbers, {expected} are needed.")
        self._gallery = _Gallery(self.images_, self.tags_, group)
        self.images_ = self._gallery.search.X  # a view: the images are in memory once
        self.weights_ = softmax(self.theta_) if rank else self.theta_
        self._sigmoids = Sigmoids(self.slope_, self.offset_) if self.sigma else None

    def _neighbours(
        self, gallery: _Gallery, x: Floats, Y: sparse.csr_array | None = None
    ) -> Sample:
        """Find neighbours of queries; with Y, the gallery's images are the queries."""
        is_gallery = Y is not None
        k = min(self.n_neighbours, len(gallery.search.X) - is_gallery)
        neighbours = gallery.search.find_all(x, k, exclude_self=is_gallery, n_jobs=self.n_jobs)
        present = np.zeros((len(x), gallery.tags.t), bool) if Y is None else Y.toarray() > 0
        distance = gallery.distances(x, neighbours, self.n_jobs)
        return Sample(neighbours, distance, present, gallery.tags)

    # -- likelihood ----------------------------------------------------------------------------

    def _probabilities(self, sample: Sample, theta: Doubles, sigmoids: Sigmoids | None) -> Floats:
        x = _votes(theta, sample, self.weights)[1]
        if sigmoids is None:
            return np.asarray(EPSILON + (1 - 2 * EPSILON) * x, np.float32)
        return np.asarray(expit(sigmoids.slope * x + sigmoids.offset), np.float32)

    def _likelihood(
        self, theta: Doubles, sample: Sample, sigmoids: Sigmoids | None
    ) -> tuple[float, Doubles]:
        """Return the log-likelihood and its derivatives by theta."""
        shared = [theta, sigmoids, self.weights, _costs(sample.Y)]
        parts = Threads(self.n_jobs).map(likelihood_batch, [sample], shared, size=BATCH_IMAGES)
        value = sum(part[0] for part in parts)
        slope = np.sum([part[1] for part in parts], axis=0)
        if self.weights == "rank":
            gamma = softmax(theta)
            slope = gamma * (slope - gamma @ slope)
        return value, slope

    def _learn(self, sample: Sample) -> tuple[Doubles, Sigmoids | None, float]:
        """Maximise the likelihood by weights and by sigmoids, in alternation."""
        from scipy.optimize import minimize

        k, g = sample.distance.shape[1:]
        rank = self.weights == "rank"
        theta: Any = -np.arange(k) / 10.0 if rank else np.full(g, INITIAL_SHARPNESS / g)
        bounds = None if rank else [(0, None)] * g
        sigmoids: Sigmoids | None = None
        value = -np.inf
        for _ in range(self.n_rounds if self.sigma else 1):

            def negative_likelihood(theta: Any, sigmoids: Any = sigmoids) -> Any:
                value, slope = self._likelihood(theta, sample, sigmoids)
                return -value, -slope

            result = minimize(
                negative_likelihood,
                theta,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options=LBFGS_OPTIONS,
            )
            theta = result.x
            value = -float(result.fun)
            if self.sigma:
                x = _votes(theta, sample, self.weights)[1]
                sigmoids, value = fit_sigmoids(x, sample.Y, sigmoids, n_jobs=self.n_jobs)
        return theta, sigmoids, value

    def _scores(self, X: Floats) -> Floats:
        sample = self._neighbours(self._gallery, X * self.scale_)
        return self._probabilities(sample, self.theta_, self._sigmoids)


def distances_batch(
    x: Floats, index: npt.NDArray[np.int32], X: Floats, column_groups: Floats
) -> Floats:
    """Return squared distances of a batch of queries to their neighbours, per feature group."""
    return np.asarray(np.square(x[:, None] - X[index]) @ column_groups)


def _neighbour_weights(theta: Doubles, sample: Sample, weights: str) -> Floats:
    """Return the weights of neighbours, n x k, from the logits of gamma or from w."""
    if weights == "rank":
        # Small collections have fewer neighbours, and so fewer ranks; others get weight 0.
        gamma = np.zeros(max(len(theta), sample.distance.shape[1]))
        gamma[: len(theta)] = softmax(theta)
        weight = np.where(sample.neighbours.present(), gamma[: sample.distance.shape[1]], 0)
    else:
        logits = -(sample.distance @ theta.astype(np.float32))
        logits[~sample.neighbours.present()] = -np.inf
        weight = softmax(logits, axis=1)
    return np.ascontiguousarray(weight, np.float32)


def _votes(theta: Doubles, sample: Sample, weights: str) -> tuple[Floats, Floats]:
    pi = _neighbour_weights(theta, sample, weights)
    return pi, sample.neighbours.votes(pi, sample.tags)


def likelihood_batch(
    sample: Sample,
    theta: Doubles,
    sigmoids: Sigmoids | None,
    weights: str,
    costs: tuple[float, float],
) -> tuple[float, Doubles]:
    """Return the log-likelihood of a batch of images and its derivatives by gamma or theta."""
    Y = sample.Y
    (present, absent) = costs
    pi, x = _votes(theta, sample, weights)
    if sigmoids is None:
        # If all neighbours have a tag, weights sum to one except for rounding errors, which are
        # not small compared with epsilon.
        x = np.where(x > 1 - 1e-6, 1.0, x.astype(np.float64))
        p = EPSILON + (1 - 2 * EPSILON) * x
        value = np.where(Y, present * np.log(p), absent * np.log1p(-p)).sum()
        slope = np.where(Y, present / p, -absent / (1 - p)) * (1 - 2 * EPSILON)
    else:
        z = sigmoids.slope * x + sigmoids.offset
        sign = np.where(Y, 1.0, -1.0)
        cost = np.where(Y, present, absent)
        value = (cost * log_expit(sign * z)).sum()
        slope = cost * sign * expit(-sign * z) * sigmoids.slope
    by_pi = sample.neighbours.gather(slope.astype(np.float32), sample.tags).astype(np.float64)
    if weights == "rank":
        return float(value), by_pi.sum(axis=0)
    centred = pi * (by_pi - (pi * by_pi).sum(axis=1, keepdims=True))
    return float(value), -np.einsum("ik,ikg->g", centred, sample.distance)


def _costs(Y: Bools) -> tuple[float, float]:
    """Return 1 / n+ and 1 / n-, so that present and absent tags have equal total weight."""
    present = int(np.count_nonzero(Y))
    return 1 / max(present, 1), 1 / max(Y.size - present, 1)


def fit_sigmoids(
    x: Floats,
    Y: Bools,
    start: Sigmoids | None = None,
    *,
    n_jobs: int | None = None,
) -> tuple[Sigmoids, float]:
    """Fit the sigmoid of each tag by Newton's method; return the penalised log-likelihood too."""
    t = Y.shape[1]
    if start is None:
        start = Sigmoids(np.ones(t), np.full(t, -1.0))

    parts = Threads(n_jobs).map(
        sigmoids_batch, [x.T, Y.T, start.slope, start.offset], [_costs(Y)], size=BATCH_TAGS
    )
    slope, offset, value = zip(*parts, strict=True)
    return Sigmoids(np.concatenate(slope), np.concatenate(offset)), float(sum(value))


def sigmoids_batch(
    x: Floats, Y: Bools, a: Doubles, b: Doubles, costs: tuple[float, float]
) -> tuple[Doubles, Doubles, float]:
    """Fit slopes a and offsets b of a batch of tags (rows) by Newton's method.

    A step that does not raise a tag's likelihood is halved.
    """
    x = np.ascontiguousarray(x, np.float64)
    Y = np.ascontiguousarray(Y)
    cost = np.where(Y, *costs)
    sign = np.where(Y, 1.0, -1.0)

    def value(a: Doubles, b: Doubles) -> Doubles:
        z = a[:, None] * x + b[:, None]
        return np.asarray(
            (cost * log_expit(sign * z)).sum(axis=1) - SIGMOID_PENALTY * (a * a + b * b)
        )

    current = value(a, b)
    for _ in range(30):
        p = expit(a[:, None] * x + b[:, None])
        residual = cost * (Y - p)
        curvature = cost * p * (1 - p)
        da = (residual * x).sum(axis=1) - 2 * SIGMOID_PENALTY * a
        db = residual.sum(axis=1) - 2 * SIGMOID_PENALTY * b
        aa = (curvature * x * x).sum(axis=1) + 2 * SIGMOID_PENALTY
        ab = (curvature * x).sum(axis=1)
        bb = curvature.sum(axis=1) + 2 * SIGMOID_PENALTY
        det = aa * bb - ab * ab
        step_a = (bb * da - ab * db) / det
        step_b = (aa * db - ab * da) / det
        length = np.ones(len(a))
        for _ in range(12):
            proposed = value(a + length * step_a, b + length * step_b)
            worse = proposed < current
            if not worse.any():
                break
            length[worse] /= 2
        length[worse] = 0
        proposed = np.where(worse, current, proposed)
        a = a + length * step_a
        b = b + length * step_b
        gain = float((proposed - current).sum())
        current = proposed
        if gain < 1e-8 * abs(current.sum()):
            break
    return a, b, float(current.sum())
