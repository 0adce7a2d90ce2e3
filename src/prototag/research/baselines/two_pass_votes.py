"""Base class of the baselines that change the votes of 2PKNN by statistics of the tags."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import _fit_context

from prototag.arrays import Doubles, Floats, Rows
from prototag.engine import Threads, map_rows
from prototag.research.baselines import base, knn_search
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, Baseline, select_best
from prototag.research.baselines.two_pass_knn import COUNTS, SHARPNESSES, two_pass

Setting = dict[str, float]


class TagCounts(NamedTuple):
    """The number of images, and of images with both of two tags."""

    n: int
    together: Doubles  # t x t; the diagonal has the images of each tag

    @classmethod
    def of(cls, Y: sparse.csr_array) -> TagCounts:
        tags = Y.astype(np.float64)
        return cls(Y.shape[0], np.ascontiguousarray((tags.T @ tags).toarray()))

    def frequency(self, own: Floats) -> Doubles:
        """Return the images of each tag, q x t, without the queries that are training images."""
        return np.asarray(np.diagonal(self.together) - own, np.float64)

    def column(self, tag: Rows, own: Floats) -> Doubles:
        """Return the images with ``tag[i]`` and each other tag, q x t, without query i."""
        return self.together[tag] - own * own[np.arange(len(own)), tag][:, None]


def refine_votes(votes: Floats, own: Floats, counts: TagCounts, share: float) -> Floats:
    """Return the votes of neighbours whose tags are completed by co-occurring tags.

    A neighbour's tags ``y`` become ``(1 - share) y + share y R``, where the row of a tag in R is
    its co-occurrence with the other tags, divided by the sum of the row. Votes are linear in y.
    ``own`` has the tags of queries that are training images, whose own co-occurrences are removed,
    and zeros for new images.
    """
    if share == 0:
        return votes
    others = counts.together - np.diag(np.diagonal(counts.together))
    totals = others.sum(axis=1) - own * (own.sum(axis=1, keepdims=True) - 1)
    weight = votes / np.where(totals > 0, totals, 1)
    from_own = weight * own
    refined = weight @ others - own * (from_own.sum(axis=1, keepdims=True) - from_own)
    return np.asarray((1 - share) * votes + share * refined, np.float32)


@dataclass(eq=False, repr=False)
class TwoPassVotes(Baseline):
    """A baseline whose scores are a function of 2PKNN's votes and of counts of tags.

    A subclass declares the grids of its own hyperparameters (``_grids``) and the batch function
    ``_transform(votes, own_tags, counts, setting)``. For queries that are training images,
    ``counts`` has one image less, and ``own_tags`` (CSR) must have no effect on the scores; new
    images have none.
    """

    n_per_tag: int | str = "auto"
    _: KW_ONLY
    sharpness: float | str = "auto"
    groups: npt.ArrayLike | None = None
    choices_: Setting = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._shared_constraints,
        "n_per_tag": [COUNT, AUTO],
        "sharpness": [NOT_NEGATIVE, AUTO],
        "groups": ["array-like", None],
    }
    _values: ClassVar[dict[str, type]] = {
        "n_per_tag_": int,
        "sharpness_": float,
        "choices_": dict,
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {}

    @staticmethod
    def _transform(
        votes: Floats, own: sparse.csr_array, counts: TagCounts, setting: Setting
    ) -> Floats:
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Store vectors (n x m, scaled to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        group = knn_search.group_numbers(self.groups, X.shape[1])
        self.scale_ = knn_search.balanced_scale(X, group)
        self.images_ = X * self.scale_
        self.tags_ = Y.astype(bool)
        self._normalize_arrays()

        sample = base.tuning_sample(len(X))
        Y_sample = Y[sample]
        x = self.images_[sample]
        candidates = self._candidates({"n_per_tag": COUNTS, "sharpness": SHARPNESSES})
        own = self._candidates(self._grids)
        first = {name: values[0] for name, values in own.items()}

        def quality(votes: Floats, setting: Setting) -> float:
            return base.quality(Y_sample, self._transformed(votes, Y_sample, setting))

        # As in 2PKNN: the best sharpness hardly depends on the count.
        counts = candidates["n_per_tag"]
        sharpnesses = candidates["sharpness"]
        by_sharpness = self._votes(x, sample, counts[len(counts) // 2], sharpnesses)
        best = select_best(range(len(sharpnesses)), lambda i: quality(by_sharpness[i], first))
        self.sharpness_ = sharpnesses[best]
        by_count = {count: self._votes(x, sample, count, (self.sharpness_,))[0] for count in counts}
        self.n_per_tag_ = select_best(counts, lambda count: quality(by_count[count], first))
        votes = by_count[self.n_per_tag_]
        self.choices_ = base.coordinate_search(own, lambda setting: quality(votes, setting))
        all_rows = np.arange(len(X))
        votes = self._votes(self.images_, all_rows, self.n_per_tag_, (self.sharpness_,))[0]
        self._end_fit(Y, self._transformed(votes, Y, self.choices_))
        return self

    def _votes(
        self, x: Floats, excluded: Rows, count: int, sharpnesses: tuple[float, ...]
    ) -> Floats:
        """Return the votes for each sharpness, s x q x t, without the excluded images (or -1)."""
        shared = [self._search, self._tags, count, sharpnesses]
        parts = Threads(self.n_jobs).map(
            two_pass, [x, excluded], shared, size=knn_search.BATCH_QUERIES
        )
        return np.concatenate(parts, axis=1)

    def _transformed(self, votes: Floats, own: sparse.csr_array | None, setting: Setting) -> Floats:
        counts = self._counts
        tags: Any = own
        if own is None:
            tags = sparse.csr_array(votes.shape, dtype=np.float32)
        else:
            counts = counts._replace(n=counts.n - 1)
        return map_rows(
            Threads(self.n_jobs),
            self._transform,
            [votes, tags],
            [counts, setting],
            size=knn_search.BATCH_QUERIES,
        )

    def _arrays(self) -> dict[str, str]:
        return {"scale_": "f4 m", "images_": "f4 n m", "tags_": "tags n t"}

    def _prepare(self) -> None:
        self._search = knn_search.Search(self.images_, self.tags_)
        self._tags = knn_search.TagLists.of(self.tags_)
        self._counts = TagCounts.of(self.tags_)
        self.images_ = self._search.X  # a view: the images are in memory once

    def _scores(self, X: Floats) -> Floats:
        excluded = np.full(len(X), -1)
        votes = self._votes(X * self.scale_, excluded, self.n_per_tag_, (self.sharpness_,))[0]
        return self._transformed(votes, None, self.choices_)
