"""MLDL: a dictionary whose codes agree in their tags wherever images share tags."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from prototag.arrays import Array, Floats, Rows
from prototag.coding.buffers import PathEnds
from prototag.coding.coder import BATCH_IMAGES, Coder
from prototag.engine import Threads
from prototag.mcdl import updates
from prototag.mcdl.kmeans import k_means
from prototag.research.baselines.cross_validated import AUTO, COUNT, FOLDED, POSITIVE, Setting, grid
from prototag.research.baselines.dictionary_base import (
    SHARE,
    Dictionary,
    DictionaryBaseline,
    classifier,
    count_atoms,
)

WEIGHTS = (0.1, 0.3, 1.0)
RIDGE = 1.0  # images' worth of evidence that an atom says nothing


class MLDL(DictionaryBaseline):
    """Multi-label dictionary learning with label consistency and partial-identical embedding.

    Minimises over D (rows in the unit ball), G, and codes ``a_i >= 0`` with ``sum(a_i) <= 1``

        sum_i ||x_i - a_i D||^2 + w ||y_i - a_i G||^2
              + w agreement ||a_i G - sum_j s_ij a_j G||^2

    and a ridge on G: the picture; label consistency; and the embedding of tags, where an image is
    represented by its partners. Partners have the same tags, or share some; s_ij is proportional to
    the shared part ``|Y_i and Y_j| / |Y_i or Y_j|`` of the ``n_partners`` with the largest (of
    equals, those that look most alike), and sums to 1. So images with equal tags gather, those with
    partly equal tags speak for each other, and tags that people left out are filled in. A new image
    is coded over D alone; its scores are ``a G``.

    Written from what the paper says its terms are for: a dictionary with label consistency in the
    space of pictures, partial-identical embedding in that of tags. Choices made here are the exact
    form of the terms, their weights, s and the number of partners, codes (non-negative with a
    budget, as everywhere here), and the order of steps: codes with the last scores of partners, one
    sweep over D, G in closed form; at the end G again, from codes over D alone as new images have.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        Number of atoms, or their share of the images.
    weight : float or "auto", default="auto"
        w, in units of ||X||^2 / ||Y||^2. "auto" is the best of three by left-out images.
    agreement : float, default=0.5
    n_partners : int, default=10
    max_nonzeros : int, default=20
    max_iter : int, default=5
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds, and starts k-means.

    Attributes
    ----------
    atoms_ : ndarray of shape (k, m)
    semantics_ : ndarray of shape (k, t)
    n_iter_ : int
    setting_ : dict
        The weight chosen.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    X.-Y. Jing, F. Wu, Z. Li, R. Hu and D. Zhang, "Multi-label dictionary learning for image
    annotation", IEEE TIP 2016.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_atoms": [COUNT, SHARE],
        "weight": [POSITIVE, AUTO],
        "agreement": [Interval(Real, 0, None, closed="left")],
        "n_partners": [COUNT],
        "max_nonzeros": [COUNT],
        "max_iter": [COUNT],
    } | FOLDED

    def __init__(
        self,
        n_atoms: int | float = 0.2,
        *,
        weight: float | str = "auto",
        agreement: float = 0.5,
        n_partners: int = 10,
        max_nonzeros: int = 20,
        max_iter: int = 5,
        threshold: str | float = "global",
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_atoms = n_atoms
        self.weight = weight
        self.agreement = agreement
        self.n_partners = n_partners
        self.max_nonzeros = max_nonzeros
        self.max_iter = max_iter
        self.threshold = threshold
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _settings(self) -> list[Setting]:
        return grid(weight=WEIGHTS if self.weight == "auto" else self.weight)

    def _learn(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Dictionary]:
        rng = np.random.default_rng(seed)
        k = count_atoms(self.n_atoms, len(X))
        D = updates.to_ball(k_means(X, k, rng, engine=Threads(self.n_jobs)))
        A = self._encode(X, D)
        partners = share_tags(X, Y, self.n_partners, self.n_jobs)
        unit = len(X) / max(Y.nnz, 1)
        return [
            self._alternate(X, Y, partners, D, A, setting["weight"] * unit, seed)
            for setting in settings
        ]

    def _alternate(
        self,
        X: Floats,
        Y: sparse.csr_array,
        partners: sparse.csr_array,
        D: Floats,
        A: sparse.csr_array,
        weight: float,
        seed: int,
    ) -> Dictionary:
        rng = np.random.default_rng([seed, 1])
        G = classifier(A, Y, RIDGE)
        for _ in range(self.max_iter):
            embedded = embed(Y, partners @ (A @ G), self.agreement)
            coder = Coder(D, G, max_nonzeros=self.max_nonzeros)
            A = code(coder, X, embedded, A, weight * (1 + self.agreement), self.n_jobs)
            D = updates.visual_step(D, X, A, None, rng, sphere=False)
            G = consistent(A, Y, partners, self.agreement)
        # New images have no tags to be coded with: what codes mean is learned from such codes.
        A = self._encode(X, D)
        return Dictionary(D, consistent(A, Y, partners, self.agreement))


def share_tags(
    X: Floats, Y: sparse.csr_array, count: int, n_jobs: int | None = None
) -> sparse.csr_array:
    """S, n x n: for each image those that share most of its tags, rows summing to 1.

    An image that shares tags with nobody is its own partner.
    """
    n, count = len(X), min(count, max(len(X) - 1, 1))
    size = np.diff(Y.indptr).astype(np.float32)
    parts = Threads(n_jobs).map(
        partners_block,
        [X, Y, size, np.arange(n)],
        [X, Y.T.tocsr(), size, count],
        size=BATCH_IMAGES,
    )
    answer = sparse.csr_array(sparse.vstack(parts, format="csr"))
    answer.eliminate_zeros()
    return answer


def partners_block(
    x: Floats,
    own: sparse.csr_array,
    own_size: Floats,
    me: Rows,
    X: Floats,
    columns: sparse.csr_array,
    size: Floats,
    count: int,
) -> sparse.csr_array:
    """Partners of a block of images ``me``; ``columns`` are the images of each tag."""
    both = (own @ columns).toarray()
    shared = both / np.maximum(own_size[:, None] + size - both, 1)
    shared[np.arange(len(me)), me] = 0
    # Of equal shares the more alike; the smallest difference of shares is 1 / t^2.
    rank = shared + np.float32(0.25 / own.shape[1] ** 2) * (x @ X.T)
    rank[shared == 0] = -1
    found = np.argpartition(-rank, count - 1, axis=1)[:, :count]
    amount = np.take_along_axis(shared, found, axis=1)
    alone = amount.sum(axis=1) == 0
    found[alone, 0] = me[alone]
    amount[alone, 0] = 1
    amount /= amount.sum(axis=1, keepdims=True)
    rows = np.arange(0, found.size + 1, count)
    return sparse.csr_array((amount.ravel(), found.ravel(), rows), shape=(len(me), len(X)))


def embed(Y: sparse.csr_array, partners: Floats, agreement: float) -> Floats:
    """What the scores of images are pulled to: their tags, and what their partners score."""
    share = np.float32(agreement / (1 + agreement))
    return (share * partners + (1 - share) * Y.toarray()).astype(np.float32)


def code(
    coder: Coder,
    X: Floats,
    target: Floats,
    before: sparse.csr_array,
    weight: float,
    n_jobs: int | None,
) -> sparse.csr_array:
    """Codes of least ``||x - a D||^2 + weight ||target - a G||^2``; none is worse than before."""
    parts = Threads(n_jobs).map(code_block, [X, target, before], [coder, weight], size=BATCH_IMAGES)
    return coder.collect(parts).codes


def code_block(
    x: Floats, target: Floats, before: sparse.csr_array, coder: Coder, weight: float
) -> PathEnds:
    """Codes of a block of images."""
    w = np.full(len(x), weight, np.float32)
    scale = np.concatenate([np.ones(coder.m), np.full(target.shape[1], weight)]).astype(np.float32)
    stacked = np.hstack([x, target])
    left = stacked - before @ coder.rows
    paths = coder.solve(stacked, w, coder.screen(left * scale))
    kept = PathEnds.from_codes(before, coder.max_nonzeros, coder.rows.shape[1])
    after = stacked - paths.codes(coder.k) @ coder.rows
    better = np.flatnonzero(np.square(after) @ scale < np.square(left) @ scale)
    kept.put(better, paths.take(better))
    return kept


def consistent(
    A: sparse.csr_array, Y: sparse.csr_array, partners: sparse.csr_array, agreement: float
) -> Floats:
    """G of least ``||Y - A G||^2 + agreement ||(A - S A) G||^2 + RIDGE ||G||^2``."""
    apart = A - partners @ A
    gram: Array = (A.T @ A + np.float32(agreement) * (apart.T @ apart)).toarray()
    gram = gram.astype(np.float64)
    gram[np.diag_indices_from(gram)] += RIDGE
    return np.linalg.solve(gram, (A.T @ Y).toarray()).astype(np.float32)
