"""Discriminative dictionary learning by K-SVD: D-KSVD and LC-KSVD (label-consistent)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Floats
from prototag.mcdl import updates
from prototag.research.baselines import omp
from prototag.research.baselines.base import AUTO, COUNT, POSITIVE
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

WEIGHTS = (0.02, 0.06, 0.2)


@dataclass(eq=False, repr=False)
class DKSVD(DictionaryBaseline):
    """Discriminative K-SVD: a dictionary for images and a linear classifier of its codes.

    Minimises over unit rows of ``[D, sqrt(g) W]`` and codes of at most s atoms

        ||X - A D||^2 + g ||Y - A W||^2

    by orthogonal matching pursuit and K-SVD on the stacked vectors ``[x, sqrt(g) y]``. At the end,
    rows of D are scaled to unit length, and those of W with them; a new image is coded over D
    alone, and its scores are ``a W``. The paper has one class per image; here y is the row of
    tags, and g is ``weight`` in units of ||X||^2 / ||Y||^2. D is initialized by k-means, W by ridge
    regression of the tags on the codes over D.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        The number of atoms, or their share of the images.
    weight : float or "auto", default="auto"
        "auto" selects one of three values on out-of-fold scores.
    max_nonzeros : int, default=5
        s, the largest number of atoms in a code.
    max_iter : int, default=10
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
    Q. Zhang and B. Li, "Discriminative K-SVD for dictionary learning in face recognition", CVPR
    2010.
    """

    _: KW_ONLY
    weight: float | str = "auto"
    max_nonzeros: int = 5

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DictionaryBaseline._parameter_constraints,
        "weight": [POSITIVE, AUTO],
        "max_nonzeros": [COUNT],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"weight": WEIGHTS}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Dictionary]:
        D = updates.to_sphere(self._initial_atoms(X, seed))
        unit = tag_weight_unit(X, Y)
        return [
            self._alternate(X, Y, D, np.full(Y.shape[1], setting["weight"] * unit))
            for setting in settings
        ]

    def _alternate(
        self, X: Floats, Y: sparse.csr_array, D: Floats, weights: npt.NDArray[Any]
    ) -> Dictionary:
        """Run K-SVD on stacked vectors from D; ``weights[c]`` weighs the squared error of tag c."""
        root = np.sqrt(weights).astype(np.float32)
        stacked = np.hstack([X, Y.toarray() * root])
        codes = self._encode(X, D)
        atoms = updates.to_sphere(np.hstack([D, classifier(codes, Y) * root]))
        for _ in range(self.max_iter):
            codes = self._encode(stacked, atoms)
            atoms, codes = omp.sweep(stacked, atoms, codes)
        visual = atoms[:, : X.shape[1]]
        tags = atoms[:, X.shape[1] :] / root
        length = np.linalg.norm(visual, axis=1, keepdims=True)
        length[length < 1e-3] = np.inf  # an atom without a visual part: no code uses it
        return Dictionary(visual / length, tags / length)

    def _encode(self, X: Floats, atoms: Floats) -> sparse.csr_array:
        return omp.encode(X, atoms, self.max_nonzeros, n_jobs=self.n_jobs)


@dataclass(eq=False, repr=False)
class LCKSVD(DKSVD):
    """Label-consistent K-SVD: atoms belong to tags, and codes should use atoms of their own tags.

    Minimises, with codes of at most s atoms,

        ||X - A D||^2 + alpha ||Q - A G||^2 + beta ||Y - A W||^2,

    where row i of Q is 1 at the atoms of the tags of image i: the code that this image should have,
    up to a linear map G. The columns of Q that belong to atoms of one tag equal that tag's column
    of Y; the same columns of G are equal after their initialization by ridge regression, and every
    step of K-SVD keeps them equal. So the second and third terms are one, ``sum_c (alpha r_c +
    beta) ||y_c - A w_c||^2`` with r_c the number of atoms of tag c, which is what we compute
    (Kviatkovsky et al. 2017 prove it for one class per image). LC-KSVD differs from :class:`DKSVD`
    in its initialization and its tag weights: D starts from k-means on the images of each tag.
    Atoms are distributed evenly, at least one for each tag that has images; alpha and beta are
    ``consistency`` and ``weight``, in the units of :class:`DKSVD`.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        The number of atoms, or their share of the images; at least one for each tag.
    consistency : float or "auto", default="auto"
        "auto" selects one of three values on out-of-fold scores, in units of the atoms of a tag:
        only ``alpha r_c + beta`` matters.
    weight : float, default=0.01
    max_nonzeros, max_iter, threshold, n_folds, n_jobs, random_state
        As in :class:`DKSVD`.

    Attributes
    ----------
    atoms_, semantics_, out_of_fold_scores_, threshold_, classes_
        As in :class:`DKSVD`.
    n_iter_ : int
    setting_ : dict
        The selected consistency.

    References
    ----------
    Z. Jiang, Z. Lin and L. Davis, "Label consistent K-SVD", TPAMI 2013.
    I. Kviatkovsky, M. Gabel, E. Rivlin and I. Shimshoni, "On the equivalence of the LC-KSVD and the
    D-KSVD algorithms", TPAMI 2017.
    """

    _: KW_ONLY
    consistency: float | str = "auto"
    weight: float | str = 0.01

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DKSVD._parameter_constraints,
        "consistency": [POSITIVE, AUTO],
        "weight": [POSITIVE],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"consistency": WEIGHTS}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Dictionary]:
        rng = np.random.default_rng(seed)
        counts = atoms_per_tag(count_atoms(self.n_atoms, len(X)), Y)
        D = tag_atoms(X, Y, counts, rng)
        unit = tag_weight_unit(X, Y)
        mean = max(counts.mean(), 1)
        return [
            self._alternate(
                X, Y, D, (setting["consistency"] * counts / mean + float(self.weight)) * unit
            )
            for setting in settings
        ]
