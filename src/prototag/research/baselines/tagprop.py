"""TagProp: neighbours whose weights maximise the likelihood of the training tags."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit, log_expit, softmax
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Bools, Doubles, Floats, Rows
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.research.baselines import base, knn_search
from prototag.research.baselines.base import Baseline

EPSILON = 1e-5  # how likely a neighbour without a tag gives it, so that no likelihood is zero
SHARPNESS = 10.0  # where the search for the scale of distances begins
RIDGE = 1e-7  # keeps the sigmoid of a tag that x separates from becoming a step
ROWS = 1024
TAGS = 16
LIMITS: Any = {"maxiter": 30, "ftol": 1e-7}


class Sigmoids(NamedTuple):
    """``sigma(slope_c x_ic + offset_c)`` for each tag c."""

    slope: Doubles
    offset: Doubles


@dataclass(frozen=True)
class Sample:
    """Images with their neighbours, and the tags to be explained by those of the neighbours.

    Rows are taken as those of an array.
    """

    found: knn_search.Neighbours
    distance: Floats  # n x k x g
    Y: Bools  # n x t
    tags: knn_search.TagLists

    def __len__(self) -> int:
        return len(self.Y)

    def __getitem__(self, chosen: slice | Rows) -> Sample:
        return Sample(self.found[chosen], self.distance[chosen], self.Y[chosen], self.tags)


class _Gallery:
    """Training images to find neighbours among."""

    def __init__(self, X: Floats, Y: sparse.csr_array, group: Rows) -> None:
        self.search = knn_search.Search(X)
        self.tags = knn_search.TagLists.of(Y)
        count = int(group.max()) + 1
        self._which = np.eye(count, dtype=np.float32)[group] * count  # m x g

    def distances(self, x: Floats, found: knn_search.Neighbours, n_jobs: int | None) -> Floats:
        """Squared distances in each group of columns, in units of the mean, n x k x g."""
        if self._which.shape[1] == 1:
            return found.distance[:, :, None]
        # Few queries at once: each needs its neighbours' whole vectors.
        shared = [self.search.X, self._which]
        return map_rows(Threads(n_jobs), apart_block, [x, found.index], shared, size=32)


class TagProp(Baseline):
    """Tag propagation (Guillaumin, Mensink, Verbeek and Schmid 2009).

    A new image has tag c with probability

        p_c = e + (1 - 2 e) x_c,   x_c = sum_{j in N(x)} pi_j y_jc
        or, with the sigma model of each tag,
        p_c = sigma(a_c x_c + b_c)

    over its k nearest images, whose weights depend on rank, ``pi_j = gamma_rank(j)``, or distance,
    ``pi_j ~ exp(-sum_g w_g d_g(x, x_j))`` with a weight w_g >= 0 for each group of columns.
    gamma (at least 0, summing to 1) or w, and a and b, maximise

        sum_ic  1/n+ y_ic ln p_ic + 1/n- (1 - y_ic) ln(1 - p_ic)

    over training images, none of them its own neighbour; n+ and n- count tags present and absent.
    The sigmoids let rare tags, which few neighbours ever have, reach high probabilities.

    Parameters
    ----------
    weights : {"distance", "rank"}, default="distance"
    sigma : bool, default=True
        Learn a sigmoid for each tag, in turn with the weights.
    n_neighbours : int, default=200
        k. The weights say how many count.
    groups : array-like of shape (m,) or None, default=None
        Group of each column: with distances a weight is learned for each, otherwise one scale.
    n_rounds : int, default=3
        Of sigmoids and weights in turn.
    n_folds : int, default=2
        A training image is scored by parameters that were learned without its fold.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None
        Draws the folds.

    Attributes
    ----------
    weights_ : ndarray
        gamma (k numbers), or w (one for each group; of squared distances in units of their mean).
    theta_ : ndarray
        What was optimised: the logits of gamma, or w.
    images_ : ndarray of shape (n, m)
        The training images, scaled.
    tags_ : csr_array of shape (n, t)
        What they are tagged with.
    slope_ : ndarray of shape (t,)
        a, with the sigma model.
    offset_ : ndarray of shape (t,)
        b, with the sigma model.
    log_likelihood_ : float
        What was maximised, at the end.
    out_of_fold_scores_ : ndarray of shape (n, t)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "weights": [StrOptions({"distance", "rank"})],
        "sigma": ["boolean"],
        "n_neighbours": [Interval(Integral, 1, None, closed="left")],
        "groups": ["array-like", None],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        **Baseline._shared_constraints,
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {"log_likelihood_": float}

    def __init__(
        self,
        weights: str = "distance",
        *,
        sigma: bool = True,
        n_neighbours: int = 200,
        groups: npt.ArrayLike | None = None,
        n_rounds: int = 3,
        n_folds: int = 2,
        threshold: str | float = "global",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.weights = weights
        self.sigma = sigma
        self.n_neighbours = n_neighbours
        self.groups = groups
        self.n_rounds = n_rounds
        self.n_folds = n_folds
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        group = knn_search.group_numbers(self.groups, X.shape[1])
        self.scale_ = knn_search.even_scale(X, group)
        x = X * self.scale_
        fold = base.draw_folds(len(X), self.n_folds, check_random_state(self.random_state))
        scores = np.empty(Y.shape, np.float32)
        sample = self._neighbours(_Gallery(x, Y, group), x, Y)
        # The steps between blocks are small: more threads of BLAS would only get in their way.
        with single_threaded_blas():
            for number in range(fold.max() + 1):
                inside = np.flatnonzero(fold == number)
                outside = np.flatnonzero(fold != number)
                if len(outside) < 2:
                    outside = np.arange(len(X))  # two images have none but each other
                # Not even as a neighbour of others may an image have a say in what scores it.
                others = _Gallery(x[outside], Y[outside], group)
                theta, sigmoids, _ = self._learn(self._neighbours(others, x[outside], Y[outside]))
                scores[inside] = self._probabilities(sample[inside], theta, sigmoids)
            self.theta_, sigmoids, self.log_likelihood_ = self._learn(sample)
        if sigmoids is not None:
            self.slope_, self.offset_ = sigmoids
        self.images_ = x
        self.tags_ = Y.astype(bool)
        self._settle()
        self._end_fit(Y, scores)
        return self

    def _arrays(self) -> dict[str, str]:
        kept = {"scale_": "f4 m", "images_": "f4 n m", "tags_": "tags n t", "theta_": "f8 k"}
        return kept | ({"slope_": "f8 t", "offset_": "f8 t"} if self.sigma else {})

    def _prepare(self) -> None:
        group = knn_search.group_numbers(self.groups, self.images_.shape[1])
        rank = self.weights == "rank"
        wanted = min(self.n_neighbours, len(self.images_) - 1) if rank else int(group.max()) + 1
        if len(self.theta_) != wanted:
            raise ValueError(f"theta_ has {len(self.theta_)} numbers, {wanted} are needed.")
        self._gallery = _Gallery(self.images_, self.tags_, group)
        self.images_ = self._gallery.search.X  # held once
        self.weights_ = softmax(self.theta_) if rank else self.theta_
        self._sigmoids = Sigmoids(self.slope_, self.offset_) if self.sigma else None

    def _neighbours(
        self, gallery: _Gallery, x: Floats, Y: sparse.csr_array | None = None
    ) -> Sample:
        """Neighbours of queries; with Y they are the gallery's images, and not their own."""
        own = Y is not None
        k = min(self.n_neighbours, len(gallery.search.X) - own)
        found = gallery.search.find_all(x, k, own=own, n_jobs=self.n_jobs)
        known = np.zeros((len(x), gallery.tags.t), bool) if Y is None else Y.toarray() > 0
        return Sample(found, gallery.distances(x, found, self.n_jobs), known, gallery.tags)

    # -- likelihood ----------------------------------------------------------------------------

    def _probabilities(self, sample: Sample, theta: Doubles, sigmoids: Sigmoids | None) -> Floats:
        x = _votes(theta, sample, self.weights)[1]
        if sigmoids is None:
            return np.asarray(EPSILON + (1 - 2 * EPSILON) * x, np.float32)
        return np.asarray(expit(sigmoids.slope * x + sigmoids.offset), np.float32)

    def _likelihood(
        self, theta: Doubles, sample: Sample, sigmoids: Sigmoids | None
    ) -> tuple[float, Doubles]:
        """The log-likelihood and its derivatives by theta."""
        shared = [theta, sigmoids, self.weights, _costs(sample.Y)]
        parts = Threads(self.n_jobs).map(likelihood_block, [sample], shared, size=ROWS)
        value = sum(part[0] for part in parts)
        slope = np.sum([part[1] for part in parts], axis=0)
        if self.weights == "rank":
            gamma = softmax(theta)
            slope = gamma * (slope - gamma @ slope)
        return value, slope

    def _learn(self, sample: Sample) -> tuple[Doubles, Sigmoids | None, float]:
        """Weights and sigmoids in turn, each step a maximisation."""
        from scipy.optimize import minimize

        k, g = sample.distance.shape[1:]
        rank = self.weights == "rank"
        theta: Any = -np.arange(k) / 10.0 if rank else np.full(g, SHARPNESS / g)
        bounds = None if rank else [(0, None)] * g
        sigmoids: Sigmoids | None = None
        value = -np.inf
        for _ in range(self.n_rounds if self.sigma else 1):

            def down(theta: Any, sigmoids: Any = sigmoids) -> Any:
                value, slope = self._likelihood(theta, sample, sigmoids)
                return -value, -slope

            result = minimize(
                down, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=LIMITS
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


def apart_block(x: Floats, index: npt.NDArray[np.int32], X: Floats, which: Floats) -> Floats:
    """Squared distances of a block of queries to their neighbours, in each group of columns."""
    return np.asarray(np.square(x[:, None] - X[index]) @ which)


def _pi(theta: Doubles, sample: Sample, weights: str) -> Floats:
    """Weights of neighbours, n x k, from gamma's logits or the weights of distances."""
    if weights == "rank":
        # Of fewer images fewer ranks were learned; a rank beyond them counts for nothing.
        gamma = np.zeros(max(len(theta), sample.distance.shape[1]))
        gamma[: len(theta)] = softmax(theta)
        weight = np.where(sample.found.present(), gamma[: sample.distance.shape[1]], 0)
    else:
        logits = -(sample.distance @ theta.astype(np.float32))
        logits[~sample.found.present()] = -np.inf
        weight = softmax(logits, axis=1)
    return np.ascontiguousarray(weight, np.float32)


def _votes(theta: Doubles, sample: Sample, weights: str) -> tuple[Floats, Floats]:
    pi = _pi(theta, sample, weights)
    return pi, sample.found.votes(pi, sample.tags)


def likelihood_block(
    sample: Sample,
    theta: Doubles,
    sigmoids: Sigmoids | None,
    weights: str,
    costs: tuple[float, float],
) -> tuple[float, Doubles]:
    """The log-likelihood of a block of images, and its derivatives by gamma or theta."""
    Y = sample.Y
    (present, absent) = costs
    pi, x = _votes(theta, sample, weights)
    if sigmoids is None:
        # Where all neighbours have a tag, weights add up to one but for rounding, which
        # beside epsilon would show.
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
    by_pi = sample.found.gathered(slope.astype(np.float32), sample.tags).astype(np.float64)
    if weights == "rank":
        return float(value), by_pi.sum(axis=0)
    centred = pi * (by_pi - (pi * by_pi).sum(axis=1, keepdims=True))
    return float(value), -np.einsum("ik,ikg->g", centred, sample.distance)


def _costs(Y: Bools) -> tuple[float, float]:
    """1 / n+ and 1 / n-: tags present and absent weigh the same in total."""
    present = int(np.count_nonzero(Y))
    return 1 / max(present, 1), 1 / max(Y.size - present, 1)


def fit_sigmoids(
    x: Floats,
    Y: Bools,
    start: Sigmoids | None = None,
    *,
    n_jobs: int | None = None,
) -> tuple[Sigmoids, float]:
    """The sigmoid of each tag by Newton's steps; and the log-likelihood, less a tiny penalty."""
    t = Y.shape[1]
    if start is None:
        start = Sigmoids(np.ones(t), np.full(t, -1.0))

    found = Threads(n_jobs).map(
        sigmoid_block, [x.T, Y.T, start.slope, start.offset], [_costs(Y)], size=TAGS
    )
    slope, offset, value = zip(*found, strict=True)
    return Sigmoids(np.concatenate(slope), np.concatenate(offset)), float(sum(value))


def sigmoid_block(
    x: Floats, Y: Bools, a: Doubles, b: Doubles, costs: tuple[float, float]
) -> tuple[Doubles, Doubles, float]:
    """Slopes and offsets of some tags (rows), by Newton's steps.

    A step that does not raise a tag's likelihood is halved.
    """
    x, Y = np.ascontiguousarray(x, np.float64), np.ascontiguousarray(Y)
    cost = np.where(Y, *costs)
    sign = np.where(Y, 1.0, -1.0)

    def value(a: Doubles, b: Doubles) -> Doubles:
        z = a[:, None] * x + b[:, None]
        return np.asarray((cost * log_expit(sign * z)).sum(axis=1) - RIDGE * (a * a + b * b))

    current = value(a, b)
    for _ in range(30):
        p = expit(a[:, None] * x + b[:, None])
        force = cost * (Y - p)
        bend = cost * p * (1 - p)
        da = (force * x).sum(axis=1) - 2 * RIDGE * a
        db = force.sum(axis=1) - 2 * RIDGE * b
        aa = (bend * x * x).sum(axis=1) + 2 * RIDGE
        ab = (bend * x).sum(axis=1)
        bb = bend.sum(axis=1) + 2 * RIDGE
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
        a, b = a + length * step_a, b + length * step_b
        gain, current = float((proposed - current).sum()), proposed
        if gain < 1e-8 * abs(current.sum()):
            break
    return a, b, float(current.sum())
