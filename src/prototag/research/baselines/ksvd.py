"""Dictionaries that also classify, by K-SVD: D-KSVD (discriminative), LC-KSVD (consistent)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Floats
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
    share_out,
    tag_atoms,
)
from prototag.research.baselines.omp import pursue, sweep

WEIGHTS = (0.02, 0.06, 0.2)


class DKSVD(DictionaryBaseline):
    """Discriminative K-SVD: one dictionary for pictures and a linear classifier of its codes.

    Minimises over unit rows of ``[D, sqrt(g) W]`` and codes of at most s atoms

        ||X - A D||^2 + g ||Y - A W||^2

    by orthogonal matching pursuit and K-SVD on the stacked vectors ``[x, sqrt(g) y]``. At the end
    rows of D are brought to unit length and those of W with them; a new image is coded over D
    alone, and its scores are ``a W``. The paper has one class for each image; here y is the row of
    tags, and g is ``weight`` in units of ||X||^2 / ||Y||^2, the two parts equally long. D begins as
    k-means, W as the ridge regression of the tags on the codes over it.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        Number of atoms, or their share of the images.
    weight : float or "auto", default="auto"
        "auto" is the best of three by left-out images.
    max_nonzeros : int, default=5
        s, atoms in a code.
    max_iter : int, default=10
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
    Q. Zhang and B. Li, "Discriminative K-SVD for dictionary learning in face recognition", CVPR
    2010.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_atoms": [COUNT, SHARE],
        "weight": [POSITIVE, AUTO],
        "max_nonzeros": [COUNT],
        "max_iter": [COUNT],
    } | FOLDED

    def __init__(
        self,
        n_atoms: int | float = 0.2,
        *,
        weight: float | str = "auto",
        max_nonzeros: int = 5,
        max_iter: int = 10,
        threshold: str | float = "global",
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_atoms = n_atoms
        self.weight = weight
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
        D = updates.to_sphere(k_means(X, k, rng, engine=Threads(self.n_jobs)))
        unit = len(X) / max(Y.nnz, 1)
        return [
            self._alternate(X, Y, D, np.full(Y.shape[1], setting["weight"] * unit))
            for setting in settings
        ]

    def _alternate(
        self, X: Floats, Y: sparse.csr_array, D: Floats, weights: npt.NDArray[Any]
    ) -> Dictionary:
        """K-SVD on stacked vectors, from D; the squared error of tag c counts ``weights[c]``."""
        root = np.sqrt(weights).astype(np.float32)
        stacked = np.hstack([X, Y.toarray() * root])
        codes = self._encode(X, D)
        atoms = updates.to_sphere(np.hstack([D, classifier(codes, Y) * root]))
        for _ in range(self.max_iter):
            codes = self._encode(stacked, atoms)
            atoms, codes = sweep(stacked, atoms, codes)
        visual = atoms[:, : X.shape[1]]
        tags = atoms[:, X.shape[1] :] / root
        length = np.linalg.norm(visual, axis=1, keepdims=True)
        length[length < 1e-3] = np.inf  # all tags and no picture: no image finds it
        return Dictionary(visual / length, tags / length)

    def _encode(self, X: Floats, atoms: Floats) -> sparse.csr_array:
        return pursue(X, atoms, self.max_nonzeros, n_jobs=self.n_jobs)


class LCKSVD(DKSVD):
    """Label-consistent K-SVD: every atom belongs to a tag, and codes should use atoms of own tags.

    Minimises, with codes of at most s atoms,

        ||X - A D||^2 + alpha ||Q - A G||^2 + beta ||Y - A W||^2,

    where row i of Q is 1 at the atoms of the tags of image i: the code that image should have, up
    to a linear map G. The columns of Q that belong to atoms of one tag are equal, and equal to that
    tag's column of Y; so are the columns of G, from their start by ridge regression through every
    step of K-SVD. Hence the second and third terms are one, ``sum_c (alpha r_c + beta)
    ||y_c - A w_c||^2`` with r_c the number of atoms of tag c, which is how it is computed here
    (Kviatkovsky et al. 2017 prove it for one class an image). What remains of LC-KSVD against
    :class:`DKSVD` is where it starts and what tags weigh: D begins with the k-means of each tag's
    own images. Atoms are shared out evenly, at least one for each tag that has images; alpha and
    beta are ``consistency`` and ``weight``, in the units of :class:`DKSVD`.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        Number of atoms, or their share of the images; at least one for each tag.
    consistency : float or "auto", default="auto"
        "auto" is the best of three by left-out images, in units of the atoms of a tag: only
        ``alpha r_c + beta`` matters.
    weight : float, default=0.01
    max_nonzeros, max_iter, threshold, n_folds, n_jobs, random_state
        As in :class:`DKSVD`.

    Attributes
    ----------
    atoms_, semantics_, out_of_fold_scores_, threshold_, classes_
        As in :class:`DKSVD`.
    n_iter_ : int
    setting_ : dict
        The consistency chosen.

    References
    ----------
    Z. Jiang, Z. Lin and L. Davis, "Label consistent K-SVD", TPAMI 2013.
    I. Kviatkovsky, M. Gabel, E. Rivlin and I. Shimshoni, "On the equivalence of the LC-KSVD and the
    D-KSVD algorithms", TPAMI 2017.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = DKSVD._parameter_constraints | {
        "consistency": [POSITIVE, AUTO],
        "weight": [POSITIVE],
    }

    def __init__(
        self,
        n_atoms: int | float = 0.2,
        *,
        consistency: float | str = "auto",
        weight: float = 0.01,
        max_nonzeros: int = 5,
        max_iter: int = 10,
        threshold: str | float = "global",
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            n_atoms,
            weight=weight,
            max_nonzeros=max_nonzeros,
            max_iter=max_iter,
            threshold=threshold,
            n_folds=n_folds,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.consistency = consistency

    def _settings(self) -> list[Setting]:
        return grid(consistency=WEIGHTS if self.consistency == "auto" else self.consistency)

    def _learn(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Dictionary]:
        rng = np.random.default_rng(seed)
        share = share_out(count_atoms(self.n_atoms, len(X)), Y)
        D = tag_atoms(X, Y, share, rng)
        unit = len(X) / max(Y.nnz, 1)
        mean = max(share.mean(), 1)
        return [
            self._alternate(
                X, Y, D, (setting["consistency"] * share / mean + float(self.weight)) * unit
            )
            for setting in settings
        ]
