"""MLDL: a dictionary in a learned subspace, consistent with the tag sets of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.utils._param_validation import StrOptions

from prototag.arrays import Array, Floats, Rows
from prototag.engine import single_threaded_blas
from prototag.mcdl import updates
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, POSITIVE
from prototag.research.baselines.cross_validated import Setting
from prototag.research.baselines.dictionary_base import (
    Dictionary,
    DictionaryBaseline,
    classifier,
    count_atoms,
)
from prototag.research.baselines.sparse_group_lasso import GroupLasso

WEIGHTS = (0.1, 1.0, 10.0)
MAX_IMAGES = 4000  # from which the dictionary is learned
CODING_SWEEPS = 30  # in each round, from the codes of the previous round


class Projected(NamedTuple):
    """The model of MLDL."""

    projection: Floats  # m x p, orthonormal columns
    dictionary: Dictionary


@dataclass(eq=False, repr=False)
class MLDL(DictionaryBaseline):
    """Multi-label dictionary learning with label consistency and partial-identical embedding.

    Minimises over a projection P with orthonormal columns, atoms D in the unit ball, codes A, and
    a map W of codes

        ||X P - A D||^2 + ||X - X P P'||^2 + w ||Q - A W||^2 + l ||A||_1 + g ||W||^2

    where q_ik compares the tags of image i with those of the image from which atom k started:
    their Jaccard index ("partial"), or 1 if the sets are equal and 0 otherwise ("identical"). A
    new image is coded by ``||x P - a D||^2 + l ||a||_1``; its scores are ``a G``, with G the
    ridge regression of the tags on such codes of the training images.

    The paper's objective, as the MCDL paper quotes it, has the terms in P, D, W and A, with Q of
    equal sets. The second term is our choice: without it P could turn to directions without
    variance. The first two terms together are ``||X - A D P'||^2``. Equal sets are rare in large
    vocabularies, so Jaccard indices are the default; they are our reading of the paper's
    partial-identical embedding, and so are the weights, the scores, and the order of updates: A by
    coordinate descent, D atom by atom, W by ridge regression, P by the orthogonal Procrustes
    problem. At most 4,000 images learn P and D, because W and Q grow with the square of atoms.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        The number of atoms, or their share of the images that learn them.
    n_components : int, default=200
        The largest number of columns of P.
    weight : float or "auto", default="auto"
        w, in units of ||X||^2 / ||Q||^2. "auto" selects one of three values on out-of-fold scores.
    partners : {"partial", "identical"}, default="partial"
    sparsity : float, default=0.1
        l.
    ridge : float, default=0.01
        g.
    max_iter : int, default=5
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds and the images.

    Attributes
    ----------
    projection_ : ndarray of shape (m, p)
    atoms_ : ndarray of shape (k, p)
    semantics_ : ndarray of shape (k, t)
        G.
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
    n_components: int = 200
    weight: float | str = "auto"
    partners: str = "partial"
    sparsity: float = 0.1
    ridge: float = 0.01
    max_iter: int = 5
    projection_: Floats = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DictionaryBaseline._parameter_constraints,
        "n_components": [COUNT],
        "weight": [POSITIVE, AUTO],
        "partners": [StrOptions({"partial", "identical"})],
        "sparsity": [NOT_NEGATIVE],
        "ridge": [POSITIVE],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"weight": WEIGHTS}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Projected]:
        rng = np.random.default_rng(seed)
        sample = np.sort(rng.permutation(len(X))[:MAX_IMAGES])
        x = X[sample]
        y = Y[sample]
        starts = covering_images(y, count_atoms(self.n_atoms, len(x)), rng)
        Q = tag_set_similarity(y, y[starts], identical=self.partners == "identical")
        unit = len(x) / max(float(np.square(Q).sum(dtype=np.float64)), 1e-12)
        with single_threaded_blas():
            P = leading_axes(x, min(self.n_components, x.shape[1]))
            models = []
            for setting in settings:
                problem = Problem(x, Q, setting["weight"] * unit, self.sparsity, self.ridge)
                factors = problem.start(P, updates.to_ball((x @ P)[starts]), self.n_jobs)
                order = np.random.default_rng([seed, 1])
                for _ in range(self.max_iter):
                    factors = problem.alternate(factors, order, self.n_jobs)
                # New images have no tags, so G is fitted to codes without them.
                codes = self._encode(X @ factors.P, factors.D)
                model = Dictionary(factors.D, classifier(codes, Y))
                models.append(Projected(factors.P, model))
        return models

    def _encode(self, X: Floats, atoms: Floats) -> sparse.csr_array:
        lasso = GroupLasso.of(atoms, sparsity=self.sparsity / 2)
        return lasso.encode(X, n_jobs=self.n_jobs).codes

    def _model_scores(self, model: Projected, X: Floats) -> Floats:
        return super()._model_scores(model.dictionary, X @ model.projection)

    def _set_fitted(self, model: Projected) -> None:
        super()._set_fitted(model.dictionary)
        self.projection_ = model.projection

    def _get_fitted(self) -> Any:
        return Projected(self.projection_, super()._get_fitted())

    def _arrays(self) -> dict[str, str]:
        return {"projection_": "f4 m p", "atoms_": "f4 k p", "semantics_": "f4 k t"}


class Factors(NamedTuple):
    P: Floats  # m x p
    D: Floats  # k x p
    W: Floats  # k x k
    A: sparse.csr_array  # n x k


class Problem:
    """The objective of MLDL on given images, and its block minimisers."""

    def __init__(self, X: Floats, Q: Floats, weight: float, sparsity: float, ridge: float) -> None:
        self.X = X
        self.Q = Q
        self.weight = weight
        self.sparsity = sparsity
        self.ridge = ridge

    def start(self, P: Floats, D: Floats, n_jobs: int | None = None) -> Factors:
        """Return codes over D alone and their map W."""
        A = GroupLasso.of(D, sparsity=self.sparsity / 2).encode(self.X @ P, n_jobs=n_jobs).codes
        return Factors(P, D, self.update_map(A), A)

    def alternate(
        self, factors: Factors, rng: np.random.Generator, n_jobs: int | None = None
    ) -> Factors:
        """Update codes, atoms, map and projection."""
        A = self.update_codes(factors, n_jobs)
        D = updates.visual_update(factors.D, self.X @ factors.P, A, None, rng, sphere=False)
        return Factors(self.update_projection(A, D), D, self.update_map(A), A)

    def objective(self, factors: Factors) -> float:
        P, D, W, A = factors
        projected = self.X @ P
        return float(
            np.square(projected - A @ D).sum(dtype=np.float64)
            + np.square(self.X - projected @ P.T).sum(dtype=np.float64)
            + self.weight * np.square(self.Q - A @ W).sum(dtype=np.float64)
            + self.sparsity * np.abs(A.data).sum(dtype=np.float64)
            + self.ridge * np.square(W).sum(dtype=np.float64)
        )

    def update_codes(self, factors: Factors, n_jobs: int | None = None) -> sparse.csr_array:
        """Lower the lasso of the stacked vectors ``[x P, sqrt(w) q]``."""
        root = np.float32(np.sqrt(self.weight))
        stacked = np.hstack([self.X @ factors.P, root * self.Q])
        atoms = np.hstack([factors.D, root * factors.W])
        lasso = GroupLasso.of(atoms, sparsity=self.sparsity / 2)
        return lasso.encode(stacked, previous=factors.A, sweeps=CODING_SWEEPS, n_jobs=n_jobs).codes

    def update_map(self, A: sparse.csr_array) -> Floats:
        """Minimise over W: ridge regression of Q on the codes."""
        gram = (A.T @ A).toarray().astype(np.float64)
        gram[np.diag_indices_from(gram)] += self.ridge / self.weight
        return np.asarray(linalg.solve(gram, A.T @ self.Q, assume_a="pos"), np.float32)

    def update_projection(self, A: sparse.csr_array, D: Floats) -> Floats:
        """Minimise ``||X - A D P'||^2`` over P with orthonormal columns."""
        product = (A.T @ self.X).T @ D
        U, _, V = np.linalg.svd(product.astype(np.float64), full_matrices=False)
        return np.asarray(U @ V, np.float32)


def covering_images(Y: sparse.csr_array, count: int, rng: np.random.Generator) -> Rows:
    """Draw images with at least one of each tag as far as ``count`` allows, then at random."""
    order = rng.permutation(Y.shape[0])
    by_tag = Y[order].tocsc()
    images = np.diff(by_tag.indptr)
    first = order[[by_tag.indices[by_tag.indptr[c]] for c in np.flatnonzero(images)]]
    covering = np.unique(first.astype(np.intp))
    if len(covering) > count:
        covering = rng.permutation(covering)[:count]
    others = order[~np.isin(order, covering)][: count - len(covering)]
    return np.sort(np.concatenate([covering, others]))


def tag_set_similarity(Y: sparse.csr_array, T: sparse.csr_array, *, identical: bool) -> Floats:
    """Return the Jaccard indices of rows of tags, n x k, or 1 where they are equal, else 0.

    Two empty sets are equal.
    """
    both = (Y @ T.T).toarray()
    either = np.diff(Y.indptr)[:, None] + np.diff(T.indptr) - both
    jaccard = np.where(either > 0, both / np.maximum(either, 1), 1)
    return np.asarray(jaccard == 1 if identical else jaccard, np.float32)


def leading_axes(X: Floats, count: int) -> Floats:
    """Return the eigenvectors of X' X with the largest eigenvalues, m x count."""
    gram = (X.T @ X).astype(np.float64)
    m = len(gram)
    axes: Array = linalg.eigh(gram, subset_by_index=(m - count, m - 1))[1]
    return np.ascontiguousarray(axes[:, ::-1], np.float32)
