"""MLDL: dictionary learning in which images that share tags get similar tag scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Floats, Rows
from prototag.coding.coder import BATCH_IMAGES, Coder, PathEnds
from prototag.engine import Threads
from prototag.mcdl import updates
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, POSITIVE
from prototag.research.baselines.cross_validated import Setting
from prototag.research.baselines.dictionary_base import (
    Dictionary,
    DictionaryBaseline,
    classifier,
    tag_weight_unit,
)

WEIGHTS = (0.1, 0.3, 1.0)
SEMANTIC_RIDGE = 1.0  # penalty of the tag weights of an atom, in images


@dataclass(eq=False, repr=False)
class MLDL(DictionaryBaseline):
    """Multi-label dictionary learning with label consistency and partial-identical embedding.

    Minimises over D (rows in the unit ball), G, and codes ``a_i >= 0`` with ``sum(a_i) <= 1``

        sum_i ||x_i - a_i D||^2 + w ||y_i - a_i G||^2
              + w agreement ||a_i G - sum_j s_ij a_j G||^2

    and a ridge penalty on G. The terms are reconstruction, label consistency and partial-identical
    embedding, in which partners represent an image. Partners share tags: s_ij is proportional to
    the Jaccard index ``|Y_i and Y_j| / |Y_i or Y_j|`` of the ``n_partners`` images with the largest
    (the most similar vectors break ties), and sums to 1. So scores of images with equal tags become
    similar, and missing tags are imputed from partners. A new image is coded over D alone; its
    scores are ``a G``.

    The paper describes the purpose of its terms: a dictionary with label consistency for images,
    partial-identical embedding for tags. We chose the exact form of the terms, their weights, s and
    the number of partners, codes (non-negative with a budget, as everywhere in this package), and
    the order of updates: codes with the last scores of partners, one sweep over D, G in closed
    form; at the end G again, from codes over D alone, because new images have no tags.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        The number of atoms, or their share of the images.
    weight : float or "auto", default="auto"
        w, in units of ||X||^2 / ||Y||^2. "auto" selects one of three values on out-of-fold scores.
    agreement : float, default=0.5
    n_partners : int, default=10
    max_nonzeros : int, default=20
    max_iter : int, default=5
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds and initializes k-means.

    Attributes
    ----------
    atoms_ : ndarray of shape (k, m)
    semantics_ : ndarray of shape (k, t)
    n_iter_ : int
    setting_ : dict
        The selected weight.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    X.-Y. Jing, F. Wu, Z. Li, R. Hu and D. Zhang, "Multi-label dictionary learning for image
    annotation", IEEE TIP 2016.
    """

    _: KW_ONLY
    weight: float | str = "auto"
    agreement: float = 0.5
    n_partners: int = 10
    max_iter: int = 5

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DictionaryBaseline._parameter_constraints,
        "weight": [POSITIVE, AUTO],
        "agreement": [NOT_NEGATIVE],
        "n_partners": [COUNT],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"weight": WEIGHTS}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Dictionary]:
        D = updates.to_ball(self._initial_atoms(X, seed))
        A = self._encode(X, D)
        partners = find_partners(X, Y, self.n_partners, self.n_jobs)
        unit = tag_weight_unit(X, Y)
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
        G = classifier(A, Y, SEMANTIC_RIDGE)
        for _ in range(self.max_iter):
            targets = embed_tags(Y, partners @ (A @ G), self.agreement)
            coder = Coder(D, G, max_nonzeros=self.max_nonzeros)
            A = update_codes(coder, X, targets, A, weight * (1 + self.agreement), self.n_jobs)
            D = updates.visual_update(D, X, A, None, rng, sphere=False)
            G = fit_semantics(A, Y, partners, self.agreement)
        # New images are coded without tags, so the final G is fitted to such codes.
        A = self._encode(X, D)
        return Dictionary(D, fit_semantics(A, Y, partners, self.agreement))


def find_partners(
    X: Floats, Y: sparse.csr_array, count: int, n_jobs: int | None = None
) -> sparse.csr_array:
    """Return S, n x n: for each image the weights of the images that share most tags with it.

    Rows sum to 1. An image that shares no tag with another is its own partner.
    """
    n = len(X)
    count = min(count, max(n - 1, 1))
    size = np.diff(Y.indptr).astype(np.float32)
    parts = Threads(n_jobs).map(
        partners_batch,
        [X, Y, size, np.arange(n)],
        [X, Y.T.tocsr(), size, count],
        size=BATCH_IMAGES,
    )
    partners = sparse.csr_array(sparse.vstack(parts, format="csr"))
    partners.eliminate_zeros()
    return partners


def partners_batch(
    x: Floats,
    y: sparse.csr_array,
    n_tags: Floats,
    rows: Rows,
    X: Floats,
    Y_transposed: sparse.csr_array,
    all_n_tags: Floats,
    count: int,
) -> sparse.csr_array:
    """Find the partners of a batch of images, which are ``rows`` of X."""
    both = (y @ Y_transposed).toarray()
    jaccard = both / np.maximum(n_tags[:, None] + all_n_tags - both, 1)
    jaccard[np.arange(len(rows)), rows] = 0
    # Similar vectors break ties; the smallest difference of two Jaccard indices is 1 / t^2.
    rank = jaccard + np.float32(0.25 / y.shape[1] ** 2) * (x @ X.T)
    rank[jaccard == 0] = -1
    nearest = np.argpartition(-rank, count - 1, axis=1)[:, :count]
    weight = np.take_along_axis(jaccard, nearest, axis=1)
    alone = weight.sum(axis=1) == 0
    nearest[alone, 0] = rows[alone]
    weight[alone, 0] = 1
    weight /= weight.sum(axis=1, keepdims=True)
    indptr = np.arange(0, nearest.size + 1, count)
    return sparse.csr_array((weight.ravel(), nearest.ravel(), indptr), shape=(len(rows), len(X)))


def embed_tags(Y: sparse.csr_array, partner_scores: Floats, agreement: float) -> Floats:
    """Return the targets of tag scores: the average of own tags and scores of partners."""
    share = np.float32(agreement / (1 + agreement))
    return (share * partner_scores + (1 - share) * Y.toarray()).astype(np.float32)


def update_codes(
    coder: Coder,
    X: Floats,
    target: Floats,
    previous: sparse.csr_array,
    weight: float,
    n_jobs: int | None,
) -> sparse.csr_array:
    """Minimise ``||x - a D||^2 + weight ||target - a G||^2``; no code is worse than before."""
    parts = Threads(n_jobs).map(
        codes_batch, [X, target, previous], [coder, weight], size=BATCH_IMAGES
    )
    return coder.collect(parts).codes


def codes_batch(
    x: Floats, target: Floats, previous: sparse.csr_array, coder: Coder, weight: float
) -> PathEnds:
    """Update the codes of a batch of images."""
    w = np.full(len(x), weight, np.float32)
    scale = np.concatenate([np.ones(coder.m), np.full(target.shape[1], weight)]).astype(np.float32)
    stacked = np.hstack([x, target])
    residual = stacked - previous @ coder.rows
    paths = coder.solve(stacked, w, coder.screen(residual * scale))
    kept = PathEnds.from_codes(previous, coder.max_nonzeros, coder.rows.shape[1])
    new_residual = stacked - paths.codes(coder.k) @ coder.rows
    better = np.flatnonzero(np.square(new_residual) @ scale < np.square(residual) @ scale)
    kept.put(better, paths.take(better))
    return kept


def fit_semantics(
    A: sparse.csr_array, Y: sparse.csr_array, partners: sparse.csr_array, agreement: float
) -> Floats:
    """Minimise ``||Y - A G||^2 + agreement ||(A - S A) G||^2`` and a ridge penalty on G."""
    difference = A - partners @ A
    gram: Array = (A.T @ A + np.float32(agreement) * (difference.T @ difference)).toarray()
    gram = gram.astype(np.float64)
    gram[np.diag_indices_from(gram)] += SEMANTIC_RIDGE
    return np.linalg.solve(gram, (A.T @ Y).toarray()).astype(np.float32)
