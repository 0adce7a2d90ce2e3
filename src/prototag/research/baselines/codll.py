"""CODLL: dictionaries of tags whose atoms code the images of their own tags."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Bools, Floats, Ints, Rows
from prototag.engine import single_threaded_blas
from prototag.errors import ModelFileError
from prototag.mcdl import updates
from prototag.research.baselines.base import AUTO, NOT_NEGATIVE, POSITIVE
from prototag.research.baselines.cross_validated import Setting
from prototag.research.baselines.dictionary_base import (
    Dictionary,
    DictionaryBaseline,
    atoms_per_tag,
    classifier,
    count_atoms,
    tag_atoms,
    tag_weight_unit,
)
from prototag.research.baselines.sparse_group_lasso import GroupLasso

WEIGHTS = (0.03, 0.1, 1.0)
MAX_IMAGES = 4000  # from which the dictionary is learned
CODING_SWEEPS = 20  # in each round, from the codes of the previous round
CODE_RIDGE = 1e-3  # of all codes: codes over own atoms have no other penalty


class Grouped(NamedTuple):
    """The model of CODLL."""

    dictionary: Dictionary
    sizes: Ints  # g, atoms of each tag that has images


@dataclass(eq=False, repr=False)
class CODLL(DictionaryBaseline):
    """Class-oriented discriminative dictionary learning (CODLL), for several tags.

    Atoms form groups D_c, one for each tag. Minimises over atoms in the unit ball, codes A and tag
    weights G

        ||X - A D||^2 + foreign sum_i sum_(c not in Y_i) ||a_i^c||_2
            + incoherence sum_(c < c') ||D_c D_c''||^2
            + w ||Y - A G||^2 + ridge ||G||^2 + 0.001 ||A||^2

    so images are coded by the atoms of their own tags. A new image has no tags: it is coded with
    the penalty ``foreign`` on all groups, and its scores are ``a G``, where G is at the end fitted
    to such codes of the training images.

    Known of the paper, which has one class for each image: atoms form groups that describe one
    class each, coefficients reconstruct an image by the group of its class, and atoms and
    coefficients are made discriminative. Its formula is not known here: every term, the weights,
    the order of updates (codes by block coordinate descent, one sweep over the groups of atoms by
    projected gradient, G in closed form) and the scores are our choices. At most 4,000 images learn
    the dictionary, a limit of time.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        The number of atoms, or their share of the images that learn them; at least one for each
        tag.
    weight : float or "auto", default="auto"
        w, in units of ||X||^2 / ||Y||^2. "auto" selects one of three values on out-of-fold scores.
    foreign : float, default=0.3
    incoherence : float, default=0.001
    ridge : float, default=1.0
    max_iter : int, default=5
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds and the images, and initializes k-means.

    Attributes
    ----------
    atoms_ : ndarray of shape (k, m)
    group_sizes_ : ndarray of shape (g,)
        The number of atoms of each tag that has images.
    semantics_ : ndarray of shape (k, t)
        G.
    n_iter_ : int
    setting_ : dict
        The selected weight.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    J. Ling, Z. Chen and F. Wu, "Class-oriented discriminative dictionary learning for image
    classification", IEEE TCSVT 2020.
    """

    _: KW_ONLY
    weight: float | str = "auto"
    foreign: float = 0.3
    incoherence: float = 0.001
    ridge: float = 1.0
    max_iter: int = 5
    group_sizes_: Ints = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DictionaryBaseline._parameter_constraints,
        "weight": [POSITIVE, AUTO],
        "foreign": [NOT_NEGATIVE],
        "incoherence": [NOT_NEGATIVE],
        "ridge": [POSITIVE],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"weight": WEIGHTS}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Grouped]:
        rng = np.random.default_rng(seed)
        sample = np.sort(rng.permutation(len(X))[:MAX_IMAGES])
        x = X[sample]
        y = Y[sample]
        counts = atoms_per_tag(count_atoms(self.n_atoms, len(x)), y)
        D = tag_atoms(x, y, counts, rng)
        if not counts.any():  # no image has a tag: one atom, which belongs to the first tag
            counts[0] = 1
        sizes = counts[counts > 0].astype(np.int32)
        unit = tag_weight_unit(x, y)
        models = []
        with single_threaded_blas():
            for setting in settings:
                weights = Weights(
                    setting["weight"] * unit, self.foreign, self.incoherence, self.ridge
                )
                problem = Problem(x, y.toarray(), counts, weights)
                factors = problem.start(D, self.n_jobs)
                for _ in range(self.max_iter):
                    factors = problem.alternate(factors, self.n_jobs)
                codes = self._encode_groups(X, factors.D, sizes)
                dictionary = Dictionary(factors.D, classifier(codes, Y, self.ridge))
                models.append(Grouped(dictionary, sizes))
        return models

    def _encode_groups(self, X: Floats, atoms: Floats, sizes: Ints) -> sparse.csr_array:
        """Return the codes of images whose tags are not known."""
        lasso = GroupLasso.of(atoms, ridge=CODE_RIDGE, sizes=sizes)
        return lasso.encode(X, self.foreign / 2, n_jobs=self.n_jobs).codes

    def _model_scores(self, model: Grouped, X: Floats) -> Floats:
        dictionary, sizes = model
        return np.asarray(self._encode_groups(X, dictionary.atoms, sizes) @ dictionary.semantics)

    def _set_fitted(self, model: Grouped) -> None:
        super()._set_fitted(model.dictionary)
        self.group_sizes_ = model.sizes

    def _get_fitted(self) -> Any:
        return Grouped(super()._get_fitted(), self.group_sizes_)

    def _arrays(self) -> dict[str, str]:
        return {**super()._arrays(), "group_sizes_": "i4 g"}

    def _prepare(self) -> None:
        if self.group_sizes_.min() < 1 or self.group_sizes_.sum() != len(self.atoms_):
            raise ModelFileError(
                f"The groups have {self.group_sizes_.sum()} atoms of {len(self.atoms_)}: the model "
                "is damaged."
            )


class Weights(NamedTuple):
    """The weights of the terms of CODLL."""

    tags: float
    foreign: float
    incoherence: float
    ridge: float


class Factors(NamedTuple):
    D: Floats  # k x m
    G: Floats  # k x t
    A: sparse.csr_array  # n x k


class Problem:
    """The objective of CODLL on given images, and its block updates.

    Parameters
    ----------
    X, Y : vectors and dense tags
    counts : ndarray of shape (t,)
        The number of atoms of each tag.
    weights : Weights
    """

    def __init__(self, X: Floats, Y: Floats, counts: Rows, weights: Weights) -> None:
        self.X = X
        self.Y = Y
        self.weights = weights
        self.sizes = counts[counts > 0]
        self.group = np.repeat(np.arange(len(self.sizes)), self.sizes)  # of each atom
        # Half of each penalty, because the coder minimises half of the squared error.
        foreign: Bools = Y[:, counts > 0] == 0
        self.penalty = (np.float32(weights.foreign / 2) * foreign).astype(np.float32)

    def start(self, D: Floats, n_jobs: int | None = None) -> Factors:
        """Return codes over D without the term of tags, and their tag weights."""
        lasso = GroupLasso.of(D, ridge=CODE_RIDGE, sizes=self.sizes)
        A = lasso.encode(self.X, self.penalty, sweeps=CODING_SWEEPS, n_jobs=n_jobs).codes
        return Factors(D, self.update_semantics(A), A)

    def alternate(self, factors: Factors, n_jobs: int | None = None) -> Factors:
        """Update codes, atoms and tag weights."""
        A = self.update_codes(factors, n_jobs)
        D = self.update_atoms(factors.D, A)
        return Factors(D, self.update_semantics(A), A)

    def objective(self, factors: Factors) -> float:
        D, G, A = factors
        dense = A.toarray()
        start = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        lengths = np.sqrt(np.add.reduceat(np.square(dense, dtype=np.float64), start, axis=1))
        products = np.where(self.group[:, None] == self.group, 0, D @ D.T)
        return float(
            np.square(self.X - A @ D).sum(dtype=np.float64)
            + 2 * (self.penalty * lengths).sum()
            + self.weights.incoherence * np.square(products).sum(dtype=np.float64) / 2
            + self.weights.tags * np.square(self.Y - A @ G).sum(dtype=np.float64)
            + self.weights.ridge * np.square(G).sum(dtype=np.float64)
            + CODE_RIDGE * np.square(A.data).sum(dtype=np.float64)
        )

    def update_codes(self, factors: Factors, n_jobs: int | None = None) -> sparse.csr_array:
        """Lower the group lasso of the stacked vectors ``[x, sqrt(w) y]``."""
        root = np.float32(np.sqrt(self.weights.tags))
        lasso = GroupLasso.of(
            np.hstack([factors.D, root * factors.G]), ridge=CODE_RIDGE, sizes=self.sizes
        )
        stacked = np.hstack([self.X, root * self.Y])
        return lasso.encode(
            stacked, self.penalty, previous=factors.A, sweeps=CODING_SWEEPS, n_jobs=n_jobs
        ).codes

    def update_atoms(self, D: Floats, A: sparse.csr_array) -> Floats:
        """Take a projected gradient step for the atoms of one tag after the other.

        The step is bounded by the curvature of the fit and of the incoherence with the other
        atoms, so none raises the objective.
        """
        D = D.copy()
        gram = (A.T @ A).toarray().astype(np.float32)
        target = np.asarray(A.T @ self.X, np.float32)
        weight = np.float32(self.weights.incoherence)
        squares = np.square(D).sum(axis=1)
        limits = np.concatenate([[0], np.cumsum(self.sizes)])
        for first, end in itertools.pairwise(limits):
            own = slice(first, end)
            slope = gram[own] @ D - target[own]
            bound = np.linalg.eigvalsh(gram[own, own])[-1] * (1 + 1e-5)
            if weight:
                product = D[own] @ D.T
                product[:, own] = 0
                slope += weight * (product @ D)
                bound += weight * (squares.sum() - squares[own].sum())
            if bound > 1e-10:
                D[own] = updates.to_ball(D[own] - slope / np.float32(bound))
                squares[own] = np.square(D[own]).sum(axis=1)
        return D

    def update_semantics(self, A: sparse.csr_array) -> Floats:
        """Minimise over G: ridge regression of the tags on the codes."""
        gram = (A.T @ A).toarray().astype(np.float64)
        gram[np.diag_indices_from(gram)] += self.weights.ridge / self.weights.tags
        return np.linalg.solve(gram, (A.T @ self.Y).astype(np.float64)).astype(np.float32)
