"""TagProp: neighbours whose weights maximise the likelihood of the training tags."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit, log_expit, softmax
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Floats
from prototag.engine import threads
from prototag.research.rivals import base, nearest
from prototag.research.rivals.base import Rival

EPSILON = 1e-5  # how likely a neighbour without a tag gives it, so that no likelihood is zero
SHARPNESS = 10.0  # where the search for the scale of distances begins
RIDGE = 1e-7  # keeps the sigmoid of a tag that x separates from becoming a step
ROWS = 1024
TAGS = 16
LIMITS: Any = {"maxiter": 30, "ftol": 1e-7}
Doubles = npt.NDArray[np.float64]


class Sigmoids(NamedTuple):
    """``sigma(slope_c x_ic + offset_c)`` for each tag c."""

    slope: Doubles
    offset: Doubles


class Sample(NamedTuple):
    """Images with their neighbours, and the tags to be explained by those of the neighbours."""

    found: nearest.Found
    distance: Floats  # n x k x g
    Y: npt.NDArray[np.bool_]  # n x t
    tags: nearest.TagLists

    def rows(self, chosen: slice | npt.NDArray[np.intp]) -> Sample:
        found = self.found.rows(chosen)
        return Sample(found, self.distance[chosen], self.Y[chosen], self.tags)


class _Gallery:
    """Training images to find neighbours among."""

    def __init__(self, X: Floats, Y: sparse.csr_array, group: npt.NDArray[np.intp]) -> None:
        self.X, self.search, self.tags = X, nearest.Search(X), nearest.TagLists.of(Y)
        count = int(group.max()) + 1
        self._which = np.eye(count, dtype=np.float32)[group] * count  # m x g

    def distances(self, x: Floats, found: nearest.Found, n_jobs: int | None) -> Floats:
        """Squared distances in each group of columns, in units of the mean, n x k x g."""
        if self._which.shape[1] == 1:
            return found.distance[:, :, None]

        def block(part: slice) -> Floats:
            apart = np.square(x[part, None] - self.X[found.index[part]])
            return np.asarray(apart @ self._which)

        # Few queries at once: each needs its neighbours' whole vectors.
        return np.concatenate(threads.map_blocks(block, len(x), size=32, n_jobs=n_jobs))


class TagProp(Rival):
    """Tag propagation (Guillaumin, Mensink, Verbeek and Schmid 2009).

    A new image has tag c with probability

        x_c = sum_{j in N(x)} pi_j y_jc                     p_c = e + (1 - 2 e) x_c
        or, with the sigma model of each tag,               p_c = sigma(a_c x_c + b_c)

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
    slope_, offset_ : ndarray of shape (t,)
        a and b, with the sigma model.
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
        **Rival._shared_constraints,
        "random_state": ["random_state"],
    }

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
        X, Y = self._begin_fit(X, y)
        self._group = nearest.group_numbers(self.groups, X.shape[1])
        self.scale_ = nearest.even_scale(X, self._group)
        x = X * self.scale_
        fold = base.draw_folds(len(X), self.n_folds, check_random_state(self.random_state))
        scores = np.empty(Y.shape, np.float32)
        self._gallery = _Gallery(x, Y, self._group)
        sample = self._neighbours(self._gallery, x, Y)
        for number in range(fold.max() + 1):
            inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            if len(outside) < 2:
                outside = np.arange(len(X))  # two images have none but each other
            # Not even as a neighbour of others may an image have a say in what scores it.
            others = _Gallery(x[outside], Y[outside], self._group)
            theta, sigmoids, _ = self._learn(self._neighbours(others, x[outside], Y[outside]))
            scores[inside] = self._probabilities(sample.rows(inside), theta, sigmoids)
        theta, sigmoids, self.log_likelihood_ = self._learn(sample)
        self.weights_ = softmax(theta) if self.weights == "rank" else theta
        self._theta, self._sigmoids = theta, sigmoids
        if sigmoids is not None:
            self.slope_, self.offset_ = sigmoids
        self._end_fit(Y, scores)
        return self

    def _neighbours(
        self, gallery: _Gallery, x: Floats, Y: sparse.csr_array | None = None
    ) -> Sample:
        """Neighbours of queries; with Y they are the gallery's images, and not their own."""
        own = Y is not None
        most = min(self.n_neighbours, len(gallery.X) - own)
        found = gallery.search.find_all(x, most, own=own, n_jobs=self.n_jobs)
        known = np.zeros((len(x), gallery.tags.t), bool) if Y is None else Y.toarray() > 0
        return Sample(found, gallery.distances(x, found, self.n_jobs), known, gallery.tags)

    # -- likelihood ----------------------------------------------------------------------------

    def _pi(self, theta: Doubles, sample: Sample) -> Floats:
        """Weights of neighbours, n x k, from gamma's logits or the weights of distances."""
        if self.weights == "rank":
            # Of fewer images fewer ranks were learned; a rank beyond them counts for nothing.
            gamma = np.zeros(max(len(theta), sample.distance.shape[1]))
            gamma[: len(theta)] = softmax(theta)
            weight = np.where(sample.found.present(), gamma[: sample.distance.shape[1]], 0)
        else:
            logits = -(sample.distance @ theta.astype(np.float32))
            logits[~sample.found.present()] = -np.inf
            weight = softmax(logits, axis=1)
        return np.ascontiguousarray(weight, np.float32)

    def _votes(self, theta: Doubles, sample: Sample) -> tuple[Floats, Floats]:
        pi = self._pi(theta, sample)
        return pi, sample.found.votes(pi, sample.tags)

    def _probabilities(self, sample: Sample, theta: Doubles, sigmoids: Sigmoids | None) -> Floats:
        x = self._votes(theta, sample)[1]
        if sigmoids is None:
            return np.asarray(EPSILON + (1 - 2 * EPSILON) * x, np.float32)
        return np.asarray(expit(sigmoids.slope * x + sigmoids.offset), np.float32)

    def _likelihood(
        self, theta: Doubles, sample: Sample, sigmoids: Sigmoids | None
    ) -> tuple[float, Doubles]:
        """The log-likelihood and its derivatives by theta."""
        Y, present, absent = sample.Y, *_costs(sample.Y)

        def block(part: slice) -> tuple[float, Doubles]:
            rows = sample.rows(part)
            pi, x = self._votes(theta, rows)
            if sigmoids is None:
                # Where all neighbours have a tag, weights add up to one but for rounding, which
                # beside epsilon would show.
                x = np.where(x > 1 - 1e-6, 1.0, x.astype(np.float64))
                p = EPSILON + (1 - 2 * EPSILON) * x
                value = np.where(Y[part], present * np.log(p), absent * np.log1p(-p)).sum()
                slope = np.where(Y[part], present / p, -absent / (1 - p)) * (1 - 2 * EPSILON)
            else:
                z = sigmoids.slope * x + sigmoids.offset
                sign = np.where(Y[part], 1.0, -1.0)
                cost = np.where(Y[part], present, absent)
                value = (cost * log_expit(sign * z)).sum()
                slope = cost * sign * expit(-sign * z) * sigmoids.slope
            by_pi = rows.found.gathered(slope.astype(np.float32), rows.tags).astype(np.float64)
            if self.weights == "rank":
                return float(value), by_pi.sum(axis=0)
            centred = pi * (by_pi - (pi * by_pi).sum(axis=1, keepdims=True))
            return float(value), -np.einsum("ik,ikg->g", centred, rows.distance)

        parts = threads.map_blocks(block, len(Y), size=ROWS, n_jobs=self.n_jobs)
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
            theta, value = result.x, -float(result.fun)
            if self.sigma:
                x = self._votes(theta, sample)[1]
                sigmoids, value = fit_sigmoids(x, sample.Y, sigmoids, n_jobs=self.n_jobs)
        return theta, sigmoids, value

    def _scores(self, X: Floats) -> Floats:
        sample = self._neighbours(self._gallery, X * self.scale_)
        return self._probabilities(sample, self._theta, self._sigmoids)


def _costs(Y: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """1 / n+ and 1 / n-: tags present and absent weigh the same in total."""
    present = int(np.count_nonzero(Y))
    return 1 / max(present, 1), 1 / max(Y.size - present, 1)


def fit_sigmoids(
    x: Floats,
    Y: npt.NDArray[np.bool_],
    start: Sigmoids | None = None,
    *,
    n_jobs: int | None = None,
) -> tuple[Sigmoids, float]:
    """The sigmoid of each tag by Newton's steps; and the log-likelihood, less a tiny penalty."""
    t = Y.shape[1]
    costs = _costs(Y)
    if start is None:
        start = Sigmoids(np.ones(t), np.full(t, -1.0))

    def block(part: slice) -> tuple[Doubles, Doubles, float]:
        # Tags are columns; together as rows they fit a cache.
        rows = np.ascontiguousarray(x[:, part].T, np.float64)
        known = np.ascontiguousarray(Y[:, part].T)
        return _newton(rows, known, costs, start.slope[part], start.offset[part])

    found = threads.map_blocks(block, t, size=TAGS, n_jobs=n_jobs)
    slope, offset, value = zip(*found, strict=True)
    return Sigmoids(np.concatenate(slope), np.concatenate(offset)), float(sum(value))


def _newton(
    x: Doubles, Y: npt.NDArray[np.bool_], costs: tuple[float, float], a: Doubles, b: Doubles
) -> tuple[Doubles, Doubles, float]:
    """Slopes and offsets of some tags; a step that does not raise a tag's likelihood is halved."""
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
        step_a, step_b = (bb * da - ab * db) / det, (aa * db - ab * da) / det
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
