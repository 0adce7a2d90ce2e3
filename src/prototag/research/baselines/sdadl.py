"""SDADL: an analysis dictionary whose atoms answer to the images of their own tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import linalg, sparse

from prototag.arrays import Floats, Rows
from prototag.engine import single_threaded_blas
from prototag.mcdl import updates
from prototag.research.baselines import newton_cg
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, POSITIVE
from prototag.research.baselines.cross_validated import CrossValidatedBaseline, Setting
from prototag.research.baselines.dictionary_base import tag_atoms
from prototag.research.baselines.newton_cg import Linear

AGREEMENTS = (0.05, 0.5)
STRENGTHS = (10.0, 3.0, 1.0)  # decreasing: each fit starts from the previous solution
MAX_IMAGES = 4000  # from which the dictionary is learned
MAJORISATIONS = 3  # of the hinge, in each update
CG_ITERATIONS = 3


class Analysis(NamedTuple):
    """The model of SDADL."""

    atoms: Floats  # k x m
    linear: Linear  # of codes


@dataclass(eq=False, repr=False, kw_only=True)
class SDADL(CrossValidatedBaseline):
    """Structured discriminant analysis dictionary learning (SDADL), for several tags.

    An analysis dictionary D has atoms for each tag; codes are the products ``x D'``, without sparse
    coding. Minimises over D, codes U, tag weights G and intercepts c

        ||X D' - U||^2 + structure sum_k sum_(i without the tag of k) (x_i d_k)^2
            + agreement ||Q - U||^2 + ridge ||D||^2
            + margin (||G||^2 + 5 sum_ic max(0, 1 - z_ic (u_i g_c + c_c))^2),   z = 2 y - 1

    where q_ik is 1 over the root of the number of atoms of a tag if atom k belongs to a tag of
    image i, and 0 otherwise. The terms are the code error, the structured term (atoms answer 0 to
    images without their tag), the discriminant code error (images of one tag have similar codes),
    and the classification error. At the end atoms are scaled to unit length, and G and c become
    linear SVMs (squared hinge) of the codes of all images: scores are ``x D' G + c``.

    Known of the paper, which has one class for each image: class-specific analysis
    sub-dictionaries, a classification error, a discriminant code error and a structured term, and
    a classification scheme of its own. Its formula is not known here. Without the discriminant
    code error this is class-aware analysis dictionary learning (CADL, Wang et al. 2017) as its
    public code states it, with these default weights, except that the code error counts for all
    images. Q, the weights of both, and the scores are our choices. Updates: U and G by majorisation
    of the hinge (ridge regressions), D by preconditioned conjugate gradients. At most 4,000 images
    learn D, a limit of time.

    Parameters
    ----------
    n_per_tag : int, default=1
        The number of atoms of a tag.
    agreement : float or "auto", default="auto"
        "auto" here and below: selected from a small grid on out-of-fold scores.
    strength : float or "auto", default="auto"
        The penalty of the final SVMs, 1 / C of scikit-learn's ``LinearSVC``.
    structure : float, default=0.005
    margin : float, default=0.0005
    ridge : float, default=0.0005
    max_iter : int, default=10
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds and the images, and initializes k-means.

    Attributes
    ----------
    atoms_ : ndarray of shape (k, m)
    coef_ : ndarray of shape (k, t)
    intercept_ : ndarray of shape (t,)
    n_iter_ : int
    setting_ : dict
        The selected agreement and strength.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    H. Du et al., "Structured discriminant analysis dictionary learning for pattern
    classification", Knowledge-Based Systems 2021.
    J. Wang, Y. Guo, J. Guo, X. Luo and X. Kong, "Class-aware analysis dictionary learning for
    pattern classification", IEEE SPL 2017.
    """

    n_per_tag: int = 1
    agreement: float | str = "auto"
    strength: float | str = "auto"
    structure: float = 0.005
    margin: float = 0.0005
    ridge: float = 0.0005
    max_iter: int = 10
    atoms_: Floats = field(init=False)
    coef_: Floats = field(init=False)
    intercept_: Floats = field(init=False)
    n_iter_: int = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossValidatedBaseline._parameter_constraints,
        "n_per_tag": [COUNT],
        "agreement": [NOT_NEGATIVE, AUTO],
        "strength": [POSITIVE, AUTO],
        "structure": [NOT_NEGATIVE],
        "margin": [POSITIVE],
        "ridge": [POSITIVE],
        "max_iter": [COUNT],
    }
    _values: ClassVar[dict[str, type]] = {**CrossValidatedBaseline._values, "n_iter_": int}
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {
        "agreement": AGREEMENTS,
        "strength": STRENGTHS,
    }

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Analysis]:
        dictionaries = {
            agreement: self._learn_atoms(X, Y, agreement, np.random.default_rng(seed))
            for agreement in dict.fromkeys(setting["agreement"] for setting in settings)
        }
        present = Y.toarray() > 0
        models = []
        for agreement, atoms in dictionaries.items():
            solver = newton_cg.Solver(X @ atoms.T)
            B = None
            for setting in settings:
                if setting["agreement"] == agreement:
                    B = solver.minimise(
                        present,
                        newton_cg.squared_hinge,
                        setting["strength"],
                        start=B,
                        n_jobs=self.n_jobs,
                    )
                    models.append(Analysis(atoms, solver.linear(B)))
        return models

    def _learn_atoms(
        self, X: Floats, Y: sparse.csr_array, agreement: float, rng: np.random.Generator
    ) -> Floats:
        sample = np.sort(rng.permutation(len(X))[:MAX_IMAGES])
        x = X[sample]
        y = Y[sample]
        images = np.bincount(y.indices, minlength=y.shape[1])
        counts = np.minimum(images, self.n_per_tag)
        start = updates.to_sphere(tag_atoms(x, y, counts, rng) - x.mean(axis=0))
        atom_tag = np.repeat(np.arange(len(counts)), counts)
        if not len(atom_tag):  # no image has a tag
            atom_tag = np.zeros(1, np.intp)
        weights = Weights(self.structure, agreement, self.ridge, self.margin)
        with single_threaded_blas():
            problem = Problem(x, y, atom_tag, weights)
            factors = problem.start(start)
            for _ in range(self.max_iter):
                factors = problem.alternate(factors)
        return updates.to_sphere(factors.D)

    def _model_scores(self, model: Analysis, X: Floats) -> Floats:
        return model.linear.scores(X @ model.atoms.T)

    def _set_fitted(self, model: Analysis) -> None:
        self.atoms_ = model.atoms
        self.coef_ = model.linear.coef
        self.intercept_ = model.linear.intercept
        self.n_iter_ = self.max_iter

    def _get_fitted(self) -> Analysis:
        return Analysis(self.atoms_, Linear(self.coef_, self.intercept_))

    def _arrays(self) -> dict[str, str]:
        return {"atoms_": "f4 k m", "coef_": "f4 k t", "intercept_": "f4 t"}


LOSS = 5.0  # weight of the hinge beside the squares of G, as in the public code of CADL


class Weights(NamedTuple):
    """The weights of the terms of SDADL."""

    structure: float
    agreement: float
    ridge: float
    margin: float


class Factors(NamedTuple):
    D: Floats  # k x m
    U: Floats  # n x k
    G: Floats  # k x t
    intercept: Floats  # t


class Problem:
    """The objective of SDADL on given images, and its block updates."""

    def __init__(self, X: Floats, Y: sparse.csr_array, atom_tag: Rows, weights: Weights) -> None:
        self.X = X
        self.weights = weights
        self.sign = (2 * Y.toarray() - 1).astype(X.dtype)
        self.own = Y.toarray()[:, atom_tag]  # n x k: the tag of an atom is present
        size = np.bincount(atom_tag, minlength=Y.shape[1])[atom_tag]
        self.Q = (self.own / np.sqrt(size)).astype(X.dtype)
        values, self.axes = np.linalg.eigh((X.T @ X).astype(np.float64))
        self.spectrum = np.maximum(values, 0)

    def start(self, D: Floats) -> Factors:
        """Return the answers of D as codes, and tag weights of zero."""
        t = self.sign.shape[1]
        zeros = np.zeros((len(D), t), self.X.dtype)
        return Factors(D.astype(self.X.dtype), self.X @ D.T, zeros, np.zeros(t, self.X.dtype))

    def alternate(self, factors: Factors) -> Factors:
        """Update tag weights, codes and atoms."""
        factors = self.update_classifier(factors)
        factors = self.update_codes(factors)
        return self.update_atoms(factors)

    def objective(self, factors: Factors) -> float:
        D, U, G, intercept = factors
        weights = self.weights
        answers = self.X @ D.T
        hinge = np.maximum(1 - self.sign * (U @ G + intercept), 0)
        classification = np.square(G).sum() + LOSS * np.square(hinge).sum(dtype=np.float64)
        return float(
            np.square(answers - U).sum(dtype=np.float64)
            + weights.structure * np.square(answers * (1 - self.own)).sum(dtype=np.float64)
            + weights.agreement * np.square(self.Q - U).sum(dtype=np.float64)
            + weights.ridge * np.square(D).sum(dtype=np.float64)
            + weights.margin * classification
        )

    def _targets(self, scores: Floats) -> Floats:
        """Return t such that ``(s - t)^2`` majorises the squared hinge at the given scores."""
        return np.where(self.sign * scores < 1, self.sign, scores)

    def update_classifier(self, factors: Factors) -> Factors:
        """Lower the classification error in G and the intercepts, by ridge regressions."""
        _, U, G, intercept = factors
        wide = np.hstack([U, np.ones((len(U), 1), U.dtype)])
        system = (wide.T @ wide).astype(np.float64)
        system[np.diag_indices_from(system)] += 1 / LOSS
        system[-1, -1] -= 1 / LOSS  # intercepts have no penalty
        factor = linalg.cho_factor(system)
        for _ in range(MAJORISATIONS):
            target = self._targets(U @ G + intercept)
            solution = linalg.cho_solve(factor, wide.T @ target).astype(U.dtype)
            G = solution[:-1]
            intercept = solution[-1]
        return factors._replace(G=G, intercept=intercept)

    def update_codes(self, factors: Factors) -> Factors:
        """Lower the objective in the codes, by ridge regressions that share one system."""
        D, U, G, intercept = factors
        loss = self.weights.margin * LOSS
        system = loss * (G @ G.T).astype(np.float64)
        system[np.diag_indices_from(system)] += 1 + self.weights.agreement
        factor = linalg.cho_factor(system)
        fixed = self.X @ D.T + np.asarray(self.weights.agreement * self.Q, U.dtype)
        for _ in range(MAJORISATIONS):
            target = self._targets(U @ G + intercept)
            right = fixed + np.asarray(loss * ((target - intercept) @ G.T), U.dtype)
            U = np.ascontiguousarray(linalg.cho_solve(factor, right.T).T.astype(U.dtype))
        return factors._replace(U=U)

    def update_atoms(self, factors: Factors) -> Factors:
        """Lower the objective in D by conjugate gradients, for all atoms at once.

        The system of an atom differs from ``(1 + structure) X'X + ridge I``, the preconditioner, by
        the images of its tag.
        """
        D, U, _, _ = factors
        structure = self.weights.structure
        inverse = (1 + structure) * self.spectrum + self.weights.ridge
        foreign = np.asarray(1 + structure * (1 - self.own), D.dtype)

        def system(atoms: Floats) -> Floats:
            image = (foreign * (self.X @ atoms.T)).T @ self.X
            return np.asarray(image + np.asarray(self.weights.ridge, D.dtype) * atoms)

        def precondition(rows: Floats) -> Floats:
            return np.asarray(((rows @ self.axes) / inverse) @ self.axes.T, D.dtype)

        residual = U.T @ self.X - system(D)
        direction = step = precondition(residual)
        inner = np.einsum("ij,ij->i", residual, step)
        for _ in range(CG_ITERATIONS):
            image = system(direction)
            along = np.einsum("ij,ij->i", direction, image)
            length = _ratio(inner, along)
            D = D + length * direction
            residual = residual - length * image
            step = precondition(residual)
            new = np.einsum("ij,ij->i", residual, step)
            direction = step + _ratio(new, inner) * direction
            inner = new
        return factors._replace(D=D)


def _ratio(one: Floats, other: Floats) -> Floats:
    """Return ``one / other`` as a column, 0 where ``other`` is not positive."""
    return np.where(other > 0, one / np.where(other > 0, other, 1), 0)[:, None].astype(one.dtype)
