"""2PKNN: neighbours that stand for every tag, then their votes; a metric learned or not."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Floats, Rows
from prototag.engine import Threads
from prototag.research.baselines import base, knn_search, metric_learning
from prototag.research.baselines.base import Baseline

COUNTS = (1, 2, 3, 5)
SHARPNESSES = (4.0, 8.0, 12.0, 16.0, 20.0, 28.0)


class TwoPassKNN(Baseline):
    """Two-pass nearest neighbours (Verma and Jawahar 2012), with metric learning as an option.

    First pass: for every tag the K1 nearest images that have it; their union N(x) holds as many
    images of a rare tag as of a frequent one. Second pass, with d the distance in units of its mean
    (squared; all groups of columns contribute equally, unless a metric is learned):

        score(x, c) = sum_{i in N(x)} exp(-s d(x, x_i)) y_ic
                      / sum_{i in N(x)} exp(-s d(x, x_i))

    The paper has s = 1 for distances of its own scale, and no denominator: it ranks the tags of one
    image, and a threshold for all images needs scores that compare.

    Parameters
    ----------
    n_per_tag : int or "auto", default="auto"
        K1. "auto" is the best of ``COUNTS`` for scores of training images, each left out in turn.
    sharpness : float or "auto", default="auto"
        s. "auto" as above, of ``SHARPNESSES``.
    metric : {None, "groups", "columns"}, default=None
        Learn a weight for each group, or for each column, by the large margin of
        :func:`prototag.research.baselines.metric_learning.learn_weights`.
    groups : array-like of shape (m,) or None, default=None
        Group of each column.
    push : float, default=100.0
        Weight of the margin, where a metric is learned.
    rate : float, default=0.03
        First step of that.
    n_steps : int, default=100
        Number of steps.
    n_folds : int, default=2
        A training image is scored by a metric learned without its fold.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None
        Draws the batches that a metric is learned from, and the folds.

    Attributes
    ----------
    n_per_tag_, sharpness_
        What was chosen.
    scale_ : ndarray of shape (m,)
        Factors of the columns; their squares are the metric.
    images_ : ndarray of shape (n, m)
        The training images, scaled.
    tags_ : csr_array of shape (n, t)
        What they are tagged with.
    out_of_fold_scores_ : ndarray of shape (n, t)
        Scores of the training images, each left out.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_per_tag": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "sharpness": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "metric": [StrOptions({"groups", "columns"}), None],
        "groups": ["array-like", None],
        "push": [Interval(Real, 0, None, closed="left")],
        "rate": [Interval(Real, 0, None, closed="neither")],
        "n_steps": [Interval(Integral, 1, None, closed="left")],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        **Baseline._shared_constraints,
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {"n_per_tag_": int, "sharpness_": float}

    def __init__(  # noqa: PLR0913 - hyperparameters, as scikit-learn wants them
        self,
        n_per_tag: int | str = "auto",
        *,
        sharpness: float | str = "auto",
        metric: str | None = None,
        groups: npt.ArrayLike | None = None,
        push: float = 100.0,
        rate: float = 0.03,
        n_steps: int = 100,
        n_folds: int = 2,
        threshold: str | float = "global",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_per_tag = n_per_tag
        self.sharpness = sharpness
        self.metric = metric
        self.groups = groups
        self.push = push
        self.rate = rate
        self.n_steps = n_steps
        self.n_folds = n_folds
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Remember vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        group = knn_search.group_numbers(self.groups, X.shape[1])
        even = knn_search.even_scale(X, group)
        if self.metric == "columns":
            group = np.arange(X.shape[1])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.tags_ = Y.astype(bool)
        tags = knn_search.TagLists.of(self.tags_)

        every = np.arange(len(X))
        if self.metric is None:
            parts = [every]
            scales = [even]
        else:
            fold = base.draw_folds(len(X), self.n_folds, seed)
            parts = [np.flatnonzero(fold == f) for f in range(fold.max() + 1)]
            scales = [self._learn(X, Y, np.setdiff1d(every, p), even, group, seed) for p in parts]

        counts = COUNTS if self.n_per_tag == "auto" else (int(self.n_per_tag),)
        sharpnesses = SHARPNESSES if self.sharpness == "auto" else (float(self.sharpness),)

        def left_out(count: int, sharpnesses: tuple[float, ...], sample: Rows) -> Floats:
            scores = np.empty((len(sharpnesses), len(sample), Y.shape[1]), np.float32)
            for part, scale in zip(parts, scales, strict=True):
                x = X * scale
                own = np.isin(sample, part)
                if own.any():  # of a pilot, no image may be in a fold
                    search = knn_search.Search(x, Y)
                    rows = sample[own]
                    scores[:, own] = self._two_pass(x[rows], rows, search, tags, count, sharpnesses)
            return scores

        sample = base.pilot(len(X))
        # How sharp hardly depends on how many, so the two are chosen in turn.
        tried = left_out(counts[len(counts) // 2], sharpnesses, sample)
        chosen = base.best(range(len(tried)), lambda place: base.quality(Y[sample], tried[place]))
        self.sharpness_ = sharp = sharpnesses[chosen]
        self.n_per_tag_ = base.best(
            counts, lambda count: base.quality(Y[sample], left_out(count, (sharp,), sample)[0])
        )
        scores = left_out(self.n_per_tag_, (sharp,), every)[0]

        self.scale_ = even if self.metric is None else self._learn(X, Y, every, even, group, seed)
        self.images_ = X * self.scale_
        self._settle()
        self._end_fit(Y, scores)
        return self

    def _arrays(self) -> dict[str, str]:
        return {"scale_": "f4 m", "images_": "f4 n m", "tags_": "tags n t"}

    def _prepare(self) -> None:
        self._search = knn_search.Search(self.images_, self.tags_)
        self._tags = knn_search.TagLists.of(self.tags_)
        self.images_ = self._search.X  # held once

    def _learn(
        self,
        X: Floats,
        Y: sparse.csr_array,
        rows: Rows,
        even: Floats,
        group: Rows,
        seed: int,
    ) -> Floats:
        """The even scale, times what the metric learned from some images adds to it."""
        weight = metric_learning.learn_weights(
            X[rows] * even,
            Y[rows],
            group,
            per_tag=2 if self.n_per_tag == "auto" else int(self.n_per_tag),
            push=self.push,
            rate=self.rate,
            n_steps=self.n_steps,
            rng=np.random.default_rng(seed),
        )
        scale = even * np.sqrt(weight)
        # Again in units of the mean distance, so that one sharpness means the same everywhere.
        apart = 2 * (X[rows] * scale).var(axis=0, dtype=np.float64).sum()
        return np.asarray(scale / np.sqrt(apart if apart > 0 else 1), np.float32)

    def _two_pass(
        self,
        x: Floats,
        own: Rows,
        search: knn_search.Search,
        tags: knn_search.TagLists,
        count: int,
        sharpnesses: tuple[float, ...],
    ) -> Floats:
        """Scores for each sharpness, s x q x t; x are the training images ``own``, or new (-1)."""
        parts = Threads(self.n_jobs).map(
            two_pass, [x, own], [search, tags, count, sharpnesses], size=knn_search.BLOCK
        )
        return np.concatenate(parts, axis=1)

    def _scores(self, X: Floats) -> Floats:
        found = self._two_pass(
            X * self.scale_,
            np.full(len(X), -1),
            self._search,
            self._tags,
            self.n_per_tag_,
            (self.sharpness_,),
        )
        return np.asarray(found[0])


def two_pass(
    x: Floats,
    own: Rows,
    search: knn_search.Search,
    tags: knn_search.TagLists,
    count: int,
    sharpnesses: tuple[float, ...],
) -> Floats:
    """A block of queries: neighbours for every tag, then their votes for each sharpness."""
    found = search.find(x, count, own)
    return np.stack([found.votes(found.weights(s), tags) for s in sharpnesses])
