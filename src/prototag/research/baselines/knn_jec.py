"""k nearest neighbours (kNN) and joint equal contribution (JEC)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from prototag.arrays import Floats
from prototag.engine import Threads, map_rows
from prototag.research.baselines import base, knn_search
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, Baseline, select_best

COUNTS = (5, 10, 20, 40, 80)
SHARPNESSES = (0.0, 4.0, 8.0, 12.0, 16.0, 24.0)


@dataclass(eq=False, repr=False)
class NearestNeighbourBaseline(Baseline):
    """A baseline that scores images by the tags of the nearest training images."""

    n_neighbours: int | str = "auto"
    _: KW_ONLY
    groups: npt.ArrayLike | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._shared_constraints,
        "n_neighbours": [COUNT, AUTO],
        "groups": ["array-like", None],
    }

    def _set_images(self, X: Floats, Y: sparse.csr_array) -> None:
        self.scale_ = knn_search.balanced_scale(
            X, knn_search.group_numbers(self.groups, X.shape[1])
        )
        self.images_ = X * self.scale_
        self.tags_ = Y.astype(bool)
        self._normalize_arrays()

    def _find_neighbours(self, X: Floats, k: int) -> knn_search.Neighbours:
        """Return the k nearest other images of the training images X."""
        return self._search.find_all(
            X * self.scale_, min(k, len(X) - 1), exclude_self=True, n_jobs=self.n_jobs
        )

    def _arrays(self) -> dict[str, str]:
        return {"scale_": "f4 m", "images_": "f4 n m", "tags_": "tags n t"}

    def _prepare(self) -> None:
        self._search = knn_search.Search(self.images_)
        self._tags = knn_search.TagLists.of(self.tags_)
        self.images_ = self._search.X  # a view: the images are in memory once


@dataclass(eq=False, repr=False)
class KNN(NearestNeighbourBaseline):
    """k nearest neighbours, weighted by distance.

    With N(x) the k nearest images and d the squared distance in units of its mean,

        score(x, c) = sum_{i in N(x)} w_i y_ic,
        w_i = exp(-s d(x, x_i)) / sum_j exp(-s d(x, x_j))

    so that a score is the share of the neighbours' weight that has the tag. Columns may be in
    feature groups; the distance of each group is scaled to a mean of one, so that all groups
    contribute equally, as in JEC.

    Parameters
    ----------
    n_neighbours : int or "auto", default="auto"
        k. "auto" selects one of ``COUNTS`` on leave-one-out scores.
    sharpness : float or "auto", default="auto"
        s; 0 weighs all neighbours equally. "auto" selects one of ``SHARPNESSES``.
    groups : array-like of shape (m,) or None, default=None
        The feature group of each column.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None

    Attributes
    ----------
    n_neighbours_, sharpness_
        The selected values.
    scale_ : ndarray of shape (m,)
        Factors of the columns.
    images_ : ndarray of shape (n, m)
        The training images, scaled.
    tags_ : csr_array of shape (n, t)
        The tags of the training images.
    out_of_fold_scores_ : ndarray of shape (n, t)
        Leave-one-out scores.
    """

    _: KW_ONLY
    sharpness: float | str = "auto"

    _correct_loo_bias = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **NearestNeighbourBaseline._parameter_constraints,
        "sharpness": [NOT_NEGATIVE, AUTO],
    }
    _values: ClassVar[dict[str, type]] = {"n_neighbours_": int, "sharpness_": float}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Store vectors (n x m, scaled to unit length) and tags (n x t, 0/1), select parameters."""
        X, Y = self.validate_training_data(X, y)
        self._set_images(X, Y)
        candidates = self._candidates({"n_neighbours": COUNTS, "sharpness": SHARPNESSES})
        counts = candidates["n_neighbours"]
        neighbours = self._find_neighbours(X, max(counts))

        rows = base.tuning_sample(len(X))
        sample = neighbours[rows]
        Y_sample = Y[rows]

        def quality(count: int, sharpness: float) -> float:
            return base.quality(Y_sample, self._vote(sample.first(count), sharpness))

        # Sharp weights make distant neighbours irrelevant, so sharpness is selected first.
        self.sharpness_ = select_best(candidates["sharpness"], lambda s: quality(max(counts), s))
        self.n_neighbours_ = select_best(counts, lambda count: quality(count, self.sharpness_))
        self._end_fit(Y, self._vote(neighbours.first(self.n_neighbours_), self.sharpness_))
        return self

    def _vote(self, neighbours: knn_search.Neighbours, sharpness: float) -> Floats:
        return neighbours.votes(neighbours.weights(sharpness), self._tags)

    def _scores(self, X: Floats) -> Floats:
        shared = [self.scale_, self._search, self._tags, self.n_neighbours_, self.sharpness_]
        return map_rows(
            Threads(self.n_jobs), knn_search.vote_batch, [X], shared, size=knn_search.BATCH_QUERIES
        )


@dataclass(eq=False, repr=False)
class JEC(NearestNeighbourBaseline):
    """Joint equal contribution: greedy label transfer from the nearest images.

    The distance is the mean over feature groups of each group's distance, on one scale (Makadia,
    Pavlovic and Kumar 2008). First the tags of the nearest image are transferred, frequent ones
    first; then those of the other k - 1 neighbours, by the product of their frequency there and
    their co-occurrence with the nearest image's tags. As one score, with f the frequency of a tag
    relative to the most frequent one:

        score(x, c) = 1 + f_c,  if the nearest image has c; otherwise
                      share of i in N(x) \\ first with c
                      * mean over the nearest's tags b of P(c | b)

    Parameters
    ----------
    n_neighbours : int or "auto", default="auto"
        k, at least 2; the paper transfers from five.
    groups, threshold, n_jobs
        As in :class:`KNN`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **NearestNeighbourBaseline._parameter_constraints,
        "n_neighbours": [Interval(Integral, 2, None, closed="left"), AUTO],
    }
    _values: ClassVar[dict[str, type]] = {"n_neighbours_": int}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Store vectors (n x m, scaled to unit length) and tags (n x t, 0/1), select k."""
        X, Y = self.validate_training_data(X, y)
        self._set_images(X, Y)
        counts = self._candidates({"n_neighbours": COUNTS})["n_neighbours"]
        neighbours = self._find_neighbours(X, max(counts))

        def loo_scores(neighbours: knn_search.Neighbours, own_tags: sparse.csr_array) -> Floats:
            # Co-occurrences are counted without the image itself.
            return map_rows(
                Threads(self.n_jobs),
                transfer,
                [neighbours, own_tags],
                [self._tags, self._together],
                size=knn_search.BATCH_QUERIES,
            )

        rows = base.tuning_sample(len(X))
        sample = neighbours[rows]
        Y_sample = Y[rows]
        self.n_neighbours_ = select_best(
            counts,
            lambda count: base.quality(Y_sample, loo_scores(sample.first(count), Y_sample)),
        )
        self._end_fit(Y, loo_scores(neighbours.first(self.n_neighbours_), Y))
        return self

    def _prepare(self) -> None:
        super()._prepare()
        Y = self.tags_.astype(np.float32)
        self._together = np.asarray((Y.T @ Y).toarray(), np.float32)  # t x t

    def _scores(self, X: Floats) -> Floats:
        shared = [self.scale_, self._search, self._tags, self._together, self.n_neighbours_]
        return map_rows(
            Threads(self.n_jobs), transfer_batch, [X], shared, size=knn_search.BATCH_QUERIES
        )


def transfer_batch(
    x: Floats,
    scale: Floats,
    search: knn_search.Search,
    tags: knn_search.TagLists,
    together: Floats,
    k: int,
) -> Floats:
    """Return JEC's scores of a batch of new images."""
    return transfer(search.find(x * scale, k), None, tags, together)


def transfer(
    neighbours: knn_search.Neighbours,
    own_tags: sparse.csr_array | None,
    tags: knn_search.TagLists,
    together: Floats,
) -> Floats:
    """Return JEC's scores of queries with these neighbours.

    ``own_tags`` are the tags of queries that are training images: they are subtracted from
    ``together``, t x t, which counts the images with both of two tags.
    """
    own = None if own_tags is None else own_tags.toarray()
    shape = neighbours.index.shape
    rank = np.arange(shape[1])
    first = neighbours.votes(np.broadcast_to(rank == 0, shape).astype(np.float32), tags)
    others = np.maximum(neighbours.count - 1, 1)[:, None]
    rest = neighbours.votes(((rank > 0) / others).astype(np.float32), tags)
    count = np.diagonal(together)
    frequency = np.broadcast_to(count, (shape[0], len(count)))
    if own is not None:
        frequency = frequency - own
    # sum_b first_b (together_bc - own_b own_c) / frequency_b, over the tags b of the nearest
    weight = first / np.maximum(frequency, 1)
    weight /= np.maximum(first.sum(axis=1, keepdims=True), 1)
    with_first = weight @ together
    if own is not None:
        with_first -= (weight * own).sum(axis=1, keepdims=True) * own
    highest = np.maximum(frequency.max(axis=1, keepdims=True), 1)
    return np.asarray(np.where(first > 0, 1 + frequency / highest, rest * with_first), np.float32)
