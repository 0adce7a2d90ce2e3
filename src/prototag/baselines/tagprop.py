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

from prototag import parallel
from prototag.baselines import base, nearest
from prototag.baselines.base import Rival
from prototag.estimator import Floats

EPSILON = 1e-5  # how likely a neighbour without a tag gives it, so that no likelihood is zero
SHARPNESS = 10.0  # where the search for the scale of distances begins
RIDGE = 1e-7  # keeps the sigmoid of a tag that x separates from becoming a step
ROWS = 1024
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

    def rows(self, chosen: npt.NDArray[np.intp]) -> Sample:
        found = nearest.Found(*(array[chosen] for array in self.found))
        return Sample(found, self.distance[chosen], self.Y[chosen], self.tags)


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
        self._X = X * self.scale_
        self._search, self._tags = nearest.Search(self._X), nearest.TagLists.of(Y)
        sample = self._sample(self._X, Y)
        fold = base.draw_folds(len(X), self.n_folds, check_random_state(self.random_state))
        scores = np.empty(Y.shape, np.float32)
        for number in range(fold.max() + 1):
            inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            theta, sigmoids, _ = self._learn(sample.rows(outside))
            scores[inside] = self._probabilities(sample.rows(inside), theta, sigmoids)
        theta, sigmoids, self.log_likelihood_ = self._learn(sample)
        self.weights_ = softmax(theta) if self.weights == "rank" else theta
        self._theta, self._sigmoids = theta, sigmoids
        if sigmoids is not None:
            self.slope_, self.offset_ = sigmoids
        self._end_fit(Y, scores)
        return self

    def _sample(self, x: Floats, Y: sparse.csr_array | None) -> Sample:
        """Neighbours of queries, or with Y of the training images, each but itself."""
        own = Y is not None
        most = min(self.n_neighbours, len(self._X) - own)
        found = self._search.find_all(x, most, own=own, n_jobs=self.n_jobs)
        found = found.first(most)
        known = np.zeros((len(x), self._tags.t), bool) if Y is None else Y.toarray() > 0
        return Sample(found, self._distances(x, found), known, self._tags)

    def _distances(self, x: Floats, found: nearest.Found) -> Floats:
        """Squared distances in each group of columns, in units of the mean, n x k x g."""
        count = int(self._group.max()) + 1
        if count == 1:
            return found.distance[:, :, None]
        which = np.eye(count, dtype=np.float32)[self._group] * count  # m x g

        def block(part: slice) -> Floats:
            apart = np.square(x[part, None] - self._X[found.index[part]])
            return apart @ which

        # Few queries at once: each needs its neighbours' whole vectors.
        return np.concatenate(parallel.map_blocks(block, len(x), size=32, n_jobs=self.n_jobs))

    # -- likelihood ----------------------------------------------------------------------------

    def _pi(self, theta: Doubles, sample: Sample) -> Floats:
        """Weights of neighbours, n x k, from gamma's logits or the weights of distances."""
        if self.weights == "rank":
            present = sample.found.present()
            weight = np.where(present, softmax(theta)[: present.shape[1]], 0)
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
            rows = Sample(
                nearest.Found(*(array[part] for array in sample.found)),
                sample.distance[part],
                Y[part],
                sample.tags,
            )
            pi, x = self._votes(theta, rows)
            if sigmoids is None:
                p = EPSILON + (1 - 2 * EPSILON) * np.clip(x.astype(np.float64), 0, 1)
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

        parts = parallel.map_blocks(block, len(Y), size=ROWS, n_jobs=self.n_jobs)
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
        theta = -np.arange(k) / 10.0 if rank else np.full(g, SHARPNESS / g)
        bounds = None if rank else [(0, None)] * g
        sigmoids: Sigmoids | None = None
        value = -np.inf
        for _ in range(self.n_rounds if self.sigma else 1):

            def down(theta: Doubles, sigmoids: Any = sigmoids) -> tuple[float, Doubles]:
                value, slope = self._likelihood(theta, sample, sigmoids)
                return -value, -slope

            options = {"maxiter": 30}
            result = minimize(
                down, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options
            )
            theta, value = result.x, -float(result.fun)
            if self.sigma:
                x = self._votes(theta, sample)[1]
                sigmoids, value = fit_sigmoids(x, sample.Y, sigmoids)
        return theta, sigmoids, value

    def _scores(self, X: Floats) -> Floats:
        return self._probabilities(self._sample(X * self.scale_, None), self._theta, self._sigmoids)


def _costs(Y: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """1 / n+ and 1 / n-: tags present and absent weigh the same in total."""
    present = int(np.count_nonzero(Y))
    return 1 / max(present, 1), 1 / max(Y.size - present, 1)


def fit_sigmoids(
    x: Floats, Y: npt.NDArray[np.bool_], start: Sigmoids | None = None, *, n_steps: int = 25
) -> tuple[Sigmoids, float]:
    """The sigmoid of each tag by Newton's steps, all tags at once; and the log-likelihood.

    A step that does not raise a tag's likelihood is halved until it does.
    """
    t = Y.shape[1]
    present, absent = _costs(Y)
    cost = np.where(Y, present, absent)
    sign = np.where(Y, 1.0, -1.0)
    x = x.astype(np.float64)

    def value(a: Doubles, b: Doubles) -> Doubles:
        fit = (cost * log_expit(sign * (a * x + b))).sum(axis=0)
        return np.asarray(fit - RIDGE * (a * a + b * b))

    a, b = (np.ones(t), np.full(t, -1.0)) if start is None else (start.slope, start.offset)
    current = value(a, b)
    for _ in range(n_steps):
        p = expit(a * x + b)
        force = cost * (Y - p)
        bend = cost * p * (1 - p)
        da = (force * x).sum(axis=0) - 2 * RIDGE * a
        db = force.sum(axis=0) - 2 * RIDGE * b
        aa = (bend * x * x).sum(axis=0) + 2 * RIDGE
        ab = (bend * x).sum(axis=0)
        bb = bend.sum(axis=0) + 2 * RIDGE
        det = aa * bb - ab * ab
        step_a, step_b = (bb * da - ab * db) / det, (aa * db - ab * da) / det
        length = np.ones(t)
        for _ in range(8):
            proposed = value(a + length * step_a, b + length * step_b)
            worse = proposed < current
            if not worse.any():
                break
            length[worse] /= 2
        else:
            length[worse] = 0
            proposed = np.where(worse, current, proposed)
        a, b = a + length * step_a, b + length * step_b
        gain, current = (proposed - current).sum(), proposed
        if gain < 1e-9 * abs(current.sum()):
            break
    return Sigmoids(a, b), float((cost * log_expit(sign * (a * x + b))).sum())
