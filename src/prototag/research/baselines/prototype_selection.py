"""2PKNN among selected training images: prototype selection for scalable annotation."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from prototag.arrays import Bools, Floats, Rows
from prototag.engine import Threads
from prototag.mcdl.kmeans import k_means, nearest_centroids
from prototag.research.baselines import base, knn_search
from prototag.research.baselines.base import (
    AUTO,
    COUNT,
    FOLDS,
    NOT_NEGATIVE,
    POSITIVE,
    Baseline,
    select_best,
)
from prototag.research.baselines.dictionary_base import SHARE, count_atoms
from prototag.research.baselines.two_pass_knn import COUNTS, SHARPNESSES, two_pass

MIN_PER_TAG = 3  # images that a tag keeps, if it has as many
ROUNDS = 10  # of k-means
BISECTIONS = 12  # of the share of each tag's images


class Gallery(NamedTuple):
    """The selected images, scaled, with their tags."""

    search: knn_search.Search
    tags: knn_search.TagLists


@dataclass(eq=False, repr=False)
class PrototypeSelection(Baseline):
    """2PKNN with selected training images instead of all (after Shooroki and Chahooki 2017).

    ``rule="tags"``: from the rarest tag to the most frequent one, the images of a tag that are not
    selected yet are clustered by k-means, and the medoid of each cluster (the image nearest to the
    centroid) is selected, until the same share of the images of every tag is selected, and at least
    three. ``rule="images"``: k-means clusters of ``[x ; tag_weight^(1/2) y / ||y||]``, and their
    medoids. ``rule="random"``: the counts of "tags", drawn at random. Scores are those of
    :class:`TwoPassKNN` among the selected images, with their own tags.

    The literature says of the paper that it clusters the training images and selects one or a few
    images, or representatives, of each cluster. The rules are our choices. With as many prototypes
    as images the scores are those of 2PKNN.

    Parameters
    ----------
    n_prototypes : int or float, default=0.2
        The number of selected images, or their share; the rules by tags reach it approximately.
    rule : {"tags", "images", "random"}, default="tags"
    tag_weight : float, default=0.5
        The weight of tags in ``rule="images"``.
    n_per_tag, sharpness
        As in :class:`TwoPassKNN`, selected on out-of-fold scores.
    n_folds : int, default=3
        A training image is scored by images that are selected in the other folds.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=0
        Draws the folds and initializes k-means.

    Attributes
    ----------
    selected_ : ndarray of shape (k,)
        The rows of the selected training images.
    images_ : ndarray of shape (k, m)
        The selected images, scaled.
    tags_ : csr_array of shape (k, t)
    scale_ : ndarray of shape (m,)
    n_per_tag_, sharpness_
        The selected values.
    out_of_fold_scores_ : ndarray of shape (n, t)

    References
    ----------
    H. Kouchi Shooroki and M. A. Z. Chahooki, "Selection of effective training instances for
    scalable automatic image annotation", Multimedia Tools and Applications 76, 2017.
    """

    n_prototypes: int | float = 0.2
    _: KW_ONLY
    rule: str = "tags"
    tag_weight: float = 0.5
    n_per_tag: int | str = "auto"
    sharpness: float | str = "auto"
    n_folds: int = 3
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._shared_constraints,
        "n_prototypes": [COUNT, SHARE],
        "rule": [StrOptions({"tags", "images", "random"})],
        "tag_weight": [POSITIVE],
        "n_per_tag": [COUNT, AUTO],
        "sharpness": [NOT_NEGATIVE, AUTO],
        "n_folds": [FOLDS],
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {"n_per_tag_": int, "sharpness_": float}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Select images of X (n x m, scaled to unit length) with tags y (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        group = knn_search.group_numbers(None, X.shape[1])
        self.scale_ = knn_search.balanced_scale(X, group)
        x = X * self.scale_
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        folds = base.fold_rows(base.draw_folds(len(X), self.n_folds, seed))
        share = count_atoms(self.n_prototypes, len(X)) / len(X)
        galleries = []
        for rows in folds:
            others = np.setdiff1d(np.arange(len(X)), rows)
            chosen = others[self._select(x[others], Y[others], share, seed)]
            galleries.append(gallery(x[chosen], Y[chosen]))

        def held_out(count: int, sharpnesses: tuple[float, ...], sample: Rows) -> Floats:
            scores = np.empty((len(sharpnesses), len(sample), Y.shape[1]), np.float32)
            for rows, fold_gallery in zip(folds, galleries, strict=True):
                inside = np.isin(sample, rows)
                if inside.any():
                    queries = x[sample[inside]]
                    scores[:, inside] = self._two_pass(queries, fold_gallery, count, sharpnesses)
            return scores

        sample = base.tuning_sample(len(X))
        candidates = self._candidates({"n_per_tag": COUNTS, "sharpness": SHARPNESSES})
        counts = candidates["n_per_tag"]
        sharpnesses = candidates["sharpness"]
        by_sharpness = held_out(counts[len(counts) // 2], sharpnesses, sample)
        best = select_best(
            range(len(sharpnesses)), lambda number: base.quality(Y[sample], by_sharpness[number])
        )
        self.sharpness_ = sharpnesses[best]
        self.n_per_tag_ = select_best(
            counts,
            lambda count: base.quality(Y[sample], held_out(count, (self.sharpness_,), sample)[0]),
        )
        scores = held_out(self.n_per_tag_, (self.sharpness_,), np.arange(len(X)))[0]
        self.selected_ = self._select(x, Y, share, seed)
        self.images_ = x[self.selected_]
        self.tags_ = Y[self.selected_].astype(bool)
        self._normalize_arrays()
        self._end_fit(Y, scores)
        return self

    def _select(self, x: Floats, Y: sparse.csr_array, share: float, seed: int) -> Rows:
        """Return the rows of the selected images, in increasing order."""
        rng = np.random.default_rng(seed)
        size = max(1, round(share * len(x)))
        if size >= len(x):
            return np.arange(len(x))
        if self.rule == "images":
            norm = np.sqrt(np.diff(Y.indptr))[:, None]
            tags = Y.toarray() / np.where(norm > 0, norm, 1)
            joined = np.hstack([x, np.sqrt(self.tag_weight) * tags]).astype(np.float32)
            return medoids(joined, size, rng, self.n_jobs)
        per_tag = find_share(Y, size, seed)
        if self.rule == "random":
            return select_by_tags(Y, per_tag, lambda rows, count: rng.permutation(rows)[:count])
        return select_by_tags(
            Y, per_tag, lambda rows, count: rows[medoids(x[rows], count, rng, self.n_jobs)]
        )

    def _arrays(self) -> dict[str, str]:
        return {"scale_": "f4 m", "images_": "f4 k m", "tags_": "tags k t"}

    def _prepare(self) -> None:
        self._gallery = gallery(self.images_, self.tags_)
        self.images_ = self._gallery.search.X  # a view: the images are in memory once

    def _two_pass(
        self, x: Floats, among: Gallery, count: int, sharpnesses: tuple[float, ...]
    ) -> Floats:
        parts = Threads(self.n_jobs).map(
            two_pass,
            [x, np.full(len(x), -1)],
            [among.search, among.tags, count, sharpnesses],
            size=knn_search.BATCH_QUERIES,
        )
        return np.concatenate(parts, axis=1)

    def _scores(self, X: Floats) -> Floats:
        x = X * self.scale_
        scores = self._two_pass(x, self._gallery, self.n_per_tag_, (self.sharpness_,))
        return np.asarray(scores[0])


def gallery(images: Floats, Y: sparse.csr_array) -> Gallery:
    return Gallery(knn_search.Search(images, Y), knn_search.TagLists.of(Y))


def medoids(x: Floats, k: int, rng: np.random.Generator, n_jobs: int | None = None) -> Rows:
    """Return the image nearest to each of k centroids, in increasing order and without repeats."""
    if k >= len(x):
        return np.arange(len(x))
    centroids = k_means(x, k, rng, max_iter=ROUNDS, engine=Threads(n_jobs))
    cell, distance = nearest_centroids(x, centroids, engine=Threads(n_jobs))
    # Both images of a pair are equally near to their centroid, up to rounding.
    unit = max(float(distance.mean()), 1e-12)
    order = np.lexsort((np.round(distance / unit, 3), cell))
    first = np.concatenate([[True], np.diff(cell[order]) > 0])
    return np.sort(order[first])


def select_by_tags(Y: sparse.csr_array, share: float, pick: Any) -> Rows:
    """Select a share of the images of every tag, from the rarest tag on.

    ``pick(rows, count)`` selects among the images of a tag that are not selected yet.
    """
    by_tag = Y.tocsc()
    number = np.diff(by_tag.indptr)
    selected: Bools = np.zeros(Y.shape[0], bool)
    for tag in np.argsort(number, kind="stable"):
        rows = by_tag.indices[by_tag.indptr[tag] : by_tag.indptr[tag + 1]]
        wanted = min(len(rows), max(MIN_PER_TAG, int(np.ceil(share * len(rows)))))
        wanted -= int(np.count_nonzero(selected[rows]))
        if wanted > 0:
            selected[pick(rows[~selected[rows]], wanted)] = True
    if not selected.any():  # no image has a tag
        selected[0] = True
    return np.flatnonzero(selected)


def find_share(Y: sparse.csr_array, size: int, seed: int) -> float:
    """Return the share of each tag's images at which about ``size`` images are selected.

    The number of selected images hardly depends on which images of a tag are selected, so it is
    found by bisection with random ones.
    """
    low = 0.0
    high = 1.0
    for _ in range(BISECTIONS):
        share = (low + high) / 2
        rng = np.random.default_rng(seed)
        found = select_by_tags(Y, share, lambda rows, count, rng=rng: rng.permutation(rows)[:count])
        if len(found) > size:
            high = share
        else:
            low = share
    return low
