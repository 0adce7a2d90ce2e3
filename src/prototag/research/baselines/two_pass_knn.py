"""2PKNN: nearest neighbours of every tag, then a weighted vote; optionally a learned metric."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from prototag.arrays import Floats, Rows
from prototag.engine import Threads
from prototag.research.baselines import base, knn_search, metric_learning
from prototag.research.baselines.base import (
    AUTO,
    COUNT,
    FOLDS,
    NOT_NEGATIVE,
    POSITIVE,
    Baseline,
    select_best,
)

COUNTS = (1, 2, 3, 5)
SHARPNESSES = (4.0, 8.0, 12.0, 16.0, 20.0, 28.0)


@dataclass(eq=False, repr=False)
class TwoPassKNN(Baseline):
    """Two-pass nearest neighbours (Verma and Jawahar 2012), with metric learning as an option.

    First pass: the K1 nearest images of every tag; their union N(x) has as many images of a rare
    tag as of a frequent one. Second pass, with d the squared distance in units of its mean (all
    feature groups contribute equally, unless a metric is learned):

        score(x, c) = sum_{i in N(x)} exp(-s d(x, x_i)) y_ic
                      / sum_{i in N(x)} exp(-s d(x, x_i))

    The paper has s = 1 for its scale of distances, and no denominator, because it ranks the tags of
    one image; a threshold for all images needs comparable scores.

    Parameters
    ----------
    n_per_tag : int or "auto", default="auto"
        K1. "auto" selects one of ``COUNTS`` on held-out scores.
    sharpness : float or "auto", default="auto"
        s. "auto" selects one of ``SHARPNESSES``.
    metric : {None, "groups", "columns"}, default=None
        Learn a weight for each group or each column, with the large-margin loss of
        :func:`prototag.research.baselines.metric_learning.learn_weights`.
    groups : array-like of shape (m,) or None, default=None
        The feature group of each column.
    push : float, default=100.0
        The weight of the margin in metric learning.
    rate : float, default=0.03
        The first step size of metric learning.
    n_steps : int, default=100
        The number of steps of metric learning.
    n_folds : int, default=2
        A training image is scored with a metric that was fitted on the other folds.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None
        Draws the folds and the batches of metric learning.

    Attributes
    ----------
    n_per_tag_, sharpness_
        The selected values.
    scale_ : ndarray of shape (m,)
        Factors of the columns; their squares are the metric.
    images_ : ndarray of shape (n, m)
        The training images, scaled.
    tags_ : csr_array of shape (n, t)
        The tags of the training images.
    out_of_fold_scores_ : ndarray of shape (n, t)
        Leave-one-out scores, with a learned metric of the other folds.
    """

    n_per_tag: int | str = "auto"
    _: KW_ONLY
    sharpness: float | str = "auto"
    metric: str | None = None
    groups: npt.ArrayLike | None = None
    push: float = 100.0
    rate: float = 0.03
    n_steps: int = 100
    n_folds: int = 2
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._shared_constraints,
        "n_per_tag": [COUNT, AUTO],
        "sharpness": [NOT_NEGATIVE, AUTO],
        "metric": [StrOptions({"groups", "columns"}), None],
        "groups": ["array-like", None],
        "push": [NOT_NEGATIVE],
        "rate": [POSITIVE],
        "n_steps": [COUNT],
        "n_folds": [FOLDS],
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {"n_per_tag_": int, "sharpness_": float}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Store vectors (n x m, scaled to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        group = knn_search.group_numbers(self.groups, X.shape[1])
        scale = knn_search.balanced_scale(X, group)
        if self.metric == "columns":
            group = np.arange(X.shape[1])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.tags_ = Y.astype(bool)
        tags = knn_search.TagLists.of(self.tags_)

        all_rows = np.arange(len(X))
        parts = [all_rows]
        scales = [scale]
        self.scale_ = scale
        if self.metric is not None:
            parts = base.fold_rows(base.draw_folds(len(X), self.n_folds, seed))
            scales = [
                self._learn_scale(X, Y, np.setdiff1d(all_rows, part), scale, group, seed)
                for part in parts
            ]
            self.scale_ = self._learn_scale(X, Y, all_rows, scale, group, seed)

        candidates = self._candidates({"n_per_tag": COUNTS, "sharpness": SHARPNESSES})
        counts = candidates["n_per_tag"]
        sharpnesses = candidates["sharpness"]

        def held_out_scores(count: int, sharpnesses: tuple[float, ...], sample: Rows) -> Floats:
            scores = np.empty((len(sharpnesses), len(sample), Y.shape[1]), np.float32)
            for part, fold_scale in zip(parts, scales, strict=True):
                x = X * fold_scale
                inside = np.isin(sample, part)
                if inside.any():  # a fold may have no image of the sample
                    search = knn_search.Search(x, Y)
                    rows = sample[inside]
                    scores[:, inside] = self._two_pass(
                        x[rows], rows, search, tags, count, sharpnesses
                    )
            return scores

        sample = base.tuning_sample(len(X))
        # The best sharpness hardly depends on the count, so one is selected after the other.
        by_sharpness = held_out_scores(counts[len(counts) // 2], sharpnesses, sample)
        best = select_best(
            range(len(sharpnesses)), lambda number: base.quality(Y[sample], by_sharpness[number])
        )
        self.sharpness_ = sharpnesses[best]

        def count_quality(count: int) -> float:
            scores = held_out_scores(count, (self.sharpness_,), sample)[0]
            return base.quality(Y[sample], scores)

        self.n_per_tag_ = select_best(counts, count_quality)
        scores = held_out_scores(self.n_per_tag_, (self.sharpness_,), all_rows)[0]
        self.images_ = X * self.scale_
        self._normalize_arrays()
        self._end_fit(Y, scores)
        return self

    def _arrays(self) -> dict[str, str]:
        return {"scale_": "f4 m", "images_": "f4 n m", "tags_": "tags n t"}

    def _prepare(self) -> None:
        self._search = knn_search.Search(self.images_, self.tags_)
        self._tags = knn_search.TagLists.of(self.tags_)
        self.images_ = self._search.X  # a view: the images are in memory once

    def _learn_scale(
        self,
        X: Floats,
        Y: sparse.csr_array,
        rows: Rows,
        balanced: Floats,
        group: Rows,
        seed: int,
    ) -> Floats:
        """Return the column factors of a metric fitted on ``rows``, from balanced factors."""
        weight = metric_learning.learn_weights(
            X[rows] * balanced,
            Y[rows],
            group,
            per_tag=2 if self.n_per_tag == "auto" else int(self.n_per_tag),
            push=self.push,
            rate=self.rate,
            n_steps=self.n_steps,
            rng=np.random.default_rng(seed),
        )
        scale = balanced * np.sqrt(weight)
        # The unit is the mean distance again, so that a sharpness has the same effect for all.
        distance = 2 * (X[rows] * scale).var(axis=0, dtype=np.float64).sum()
        return np.asarray(scale / np.sqrt(distance if distance > 0 else 1), np.float32)

    def _two_pass(
        self,
        x: Floats,
        excluded: Rows,
        search: knn_search.Search,
        tags: knn_search.TagLists,
        count: int,
        sharpnesses: tuple[float, ...],
    ) -> Floats:
        """Return the scores for each sharpness, s x q x t, without the excluded images (or -1)."""
        parts = Threads(self.n_jobs).map(
            two_pass,
            [x, excluded],
            [search, tags, count, sharpnesses],
            size=knn_search.BATCH_QUERIES,
        )
        return np.concatenate(parts, axis=1)

    def _scores(self, X: Floats) -> Floats:
        scores = self._two_pass(
            X * self.scale_,
            np.full(len(X), -1),
            self._search,
            self._tags,
            self.n_per_tag_,
            (self.sharpness_,),
        )
        return np.asarray(scores[0])


def two_pass(
    x: Floats,
    excluded: Rows,
    search: knn_search.Search,
    tags: knn_search.TagLists,
    count: int,
    sharpnesses: tuple[float, ...],
) -> Floats:
    """Find the neighbours of every tag for a batch of queries, then vote with each sharpness."""
    neighbours = search.find(x, count, excluded)
    return np.stack([neighbours.votes(neighbours.weights(s), tags) for s in sharpnesses])
