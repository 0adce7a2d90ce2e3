"""Votes of the nearest images: plain k nearest neighbours, and joint equal contribution."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Floats
from prototag.engine import Threads, map_rows
from prototag.research.baselines import base, knn_search
from prototag.research.baselines.base import Baseline

COUNTS = (5, 10, 20, 40, 80)
SHARPNESSES = (0.0, 4.0, 8.0, 12.0, 16.0, 24.0)


class KNN(Baseline):
    """Tags of the k nearest training images, weighted by distance.

    With N(x) the k nearest images and d the squared distance in units of its mean,

        score(x, c) = sum_{i in N(x)} w_i y_ic,
        w_i = exp(-s d(x, x_i)) / sum_j exp(-s d(x, x_j))

    so that a score is the share of the neighbours' weight that has the tag. Columns may be in
    groups (one for each kind of feature); each group's distance is scaled to a mean of one and all
    contribute equally, as in JEC.

    Parameters
    ----------
    n_neighbours : int or "auto", default="auto"
        k. "auto" is the best of ``COUNTS`` for scores of training images, each left out in turn.
    sharpness : float or "auto", default="auto"
        s; 0 counts all neighbours alike. "auto" as above, of ``SHARPNESSES``.
    groups : array-like of shape (m,) or None, default=None
        Group of each column.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None

    Attributes
    ----------
    n_neighbours_, sharpness_
        What was chosen.
    scale_ : ndarray of shape (m,)
        Factors of the columns.
    images_ : ndarray of shape (n, m)
        The training images, scaled.
    tags_ : csr_array of shape (n, t)
        What they are tagged with.
    out_of_fold_scores_ : ndarray of shape (n, t)
        Scores of the training images, each left out.
    """

    _one_left_out = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_neighbours": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "sharpness": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "groups": ["array-like", None],
        **Baseline._shared_constraints,
    }
    _values: ClassVar[dict[str, type]] = {"n_neighbours_": int, "sharpness_": float}

    def __init__(
        self,
        n_neighbours: int | str = "auto",
        *,
        sharpness: float | str = "auto",
        groups: npt.ArrayLike | None = None,
        threshold: str | float = "global",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbours = n_neighbours
        self.sharpness = sharpness
        self.groups = groups
        self.threshold = threshold
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Remember vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        self._remember(X, Y)
        counts = COUNTS if self.n_neighbours == "auto" else (int(self.n_neighbours),)
        sharpnesses = SHARPNESSES if self.sharpness == "auto" else (float(self.sharpness),)
        found = self._search.find_all(
            X * self.scale_, min(max(counts), len(X) - 1), own=True, n_jobs=self.n_jobs
        )

        rows = base.pilot(len(X))
        few = found[rows]
        Y_few = Y[rows]

        def quality(count: int, sharpness: float) -> float:
            return base.quality(Y_few, self._vote(few.first(count), sharpness))

        # Far neighbours hardly count when weights are sharp: first how sharp, then how many.
        self.sharpness_ = base.best(sharpnesses, lambda s: quality(max(counts), s))
        self.n_neighbours_ = base.best(counts, lambda count: quality(count, self.sharpness_))
        self._end_fit(Y, self._vote(found.first(self.n_neighbours_), self.sharpness_))
        return self

    def _vote(self, found: knn_search.Neighbours, sharpness: float) -> Floats:
        return found.votes(found.weights(sharpness), self._tags)

    def _remember(self, X: Floats, Y: sparse.csr_array) -> None:
        self.scale_ = knn_search.even_scale(X, knn_search.group_numbers(self.groups, X.shape[1]))
        self.images_ = X * self.scale_
        self.tags_ = Y.astype(bool)
        self._settle()

    def _arrays(self) -> dict[str, str]:
        return {"scale_": "f4 m", "images_": "f4 n m", "tags_": "tags n t"}

    def _prepare(self) -> None:
        self._search = knn_search.Search(self.images_)
        self._tags = knn_search.TagLists.of(self.tags_)
        self.images_ = self._search.X  # held once

    def _scores(self, X: Floats) -> Floats:
        shared = [self.scale_, self._search, self._tags, self.n_neighbours_, self.sharpness_]
        return map_rows(
            Threads(self.n_jobs), knn_search.vote_block, [X], shared, size=knn_search.BLOCK
        )


class JEC(KNN):
    """Joint equal contribution: tags of the nearest image first, then what goes with them.

    The distance is the mean over groups of columns of each group's own distance, scaled alike
    (Makadia, Pavlovic and Kumar 2008). Tags are transferred greedily: first those of the nearest
    image, the frequent ones first; then those of the other k - 1 neighbours, by the product of how
    often they occur there and how often they occur together with the nearest image's tags. As one
    score, with f the frequency of a tag against that of the most frequent one:

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

    _one_left_out = False  # tags of the nearest come first, whatever their number
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: rule for name, rule in KNN._parameter_constraints.items() if name != "sharpness"},
        "n_neighbours": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"})],
    }
    _values: ClassVar[dict[str, type]] = {"n_neighbours_": int}

    def __init__(
        self,
        n_neighbours: int | str = "auto",
        *,
        groups: npt.ArrayLike | None = None,
        threshold: str | float = "global",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbours = n_neighbours
        self.groups = groups
        self.threshold = threshold
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Remember vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        self._remember(X, Y)
        counts = COUNTS if self.n_neighbours == "auto" else (int(self.n_neighbours),)
        found = self._search.find_all(
            X * self.scale_, min(max(counts), len(X) - 1), own=True, n_jobs=self.n_jobs
        )

        def scores(found: knn_search.Neighbours, tags: sparse.csr_array) -> Floats:
            # Leaving image i out takes its pairs of tags from the counts of images.
            return map_rows(
                Threads(self.n_jobs),
                transfer,
                [found, tags],
                [self._tags, self._together],
                size=knn_search.BLOCK,
            )

        rows = base.pilot(len(X))
        few = found[rows]
        Y_few = Y[rows]
        self.n_neighbours_ = base.best(
            counts, lambda count: base.quality(Y_few, scores(few.first(count), Y_few))
        )
        self._end_fit(Y, scores(found.first(self.n_neighbours_), Y))
        return self

    def _prepare(self) -> None:
        super()._prepare()
        Y = self.tags_.astype(np.float32)
        self._together = np.asarray((Y.T @ Y).toarray(), np.float32)  # t x t

    def _scores(self, X: Floats) -> Floats:
        shared = [self.scale_, self._search, self._tags, self._together, self.n_neighbours_]
        return map_rows(Threads(self.n_jobs), transfer_block, [X], shared, size=knn_search.BLOCK)


def transfer_block(
    x: Floats,
    scale: Floats,
    search: knn_search.Search,
    tags: knn_search.TagLists,
    together: Floats,
    k: int,
) -> Floats:
    """JEC's scores of a block of new images."""
    return transfer(search.find(x * scale, k), None, tags, together)


def transfer(
    found: knn_search.Neighbours,
    left_out: sparse.csr_array | None,
    tags: knn_search.TagLists,
    together: Floats,
) -> Floats:
    """JEC's scores of queries with these neighbours.

    ``left_out`` are tags of queries that are training images and do not count as such;
    ``together``, t x t, counts the images with both of two tags.
    """
    own = None if left_out is None else left_out.toarray()
    q = len(found.index)
    place = np.arange(found.index.shape[1])
    first = found.votes(np.broadcast_to(place == 0, found.index.shape).astype(np.float32), tags)
    others = np.maximum(found.count - 1, 1)[:, None]
    rest = found.votes(((place > 0) / others).astype(np.float32), tags)
    count = np.diagonal(together)
    frequency = np.broadcast_to(count, (q, len(count)))
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
