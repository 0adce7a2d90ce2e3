"""CASDDL: dictionaries of exclusive tags and a shared dictionary of low rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from prototag.arrays import Floats
from prototag.engine import Threads
from prototag.mcdl import updates
from prototag.mcdl.kmeans import k_means
from prototag.research.baselines import exclusive_tags, fddl
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE
from prototag.research.baselines.cross_validated import Setting
from prototag.research.baselines.dictionary_base import (
    Dictionary,
    DictionaryBaseline,
    count_atoms,
)
from prototag.research.baselines.sled import UNIT, group_lasso, start_group
from prototag.research.baselines.sparse_group_lasso import GroupLasso

RELEVANCES = (10.0, 3.0, 1.0)  # decreasing: each fit starts from the previous solution
GROUP_SIZE = 24  # tags


@dataclass(eq=False, repr=False)
class CASDDL(DictionaryBaseline):
    """Class-specific and shared discriminative dictionary learning (CASDDL).

    Tags are partitioned into groups whose tags rarely occur together. Within each group, for the
    images with exactly one of its tags, a dictionary D_c for each tag, a shared dictionary D_0 and
    codes A minimise

        sum_i ||x_i - a_i D||^2 + ||x_i - a_i^0 D_0 - a_i^own D_own||^2
              + sum_(c not own) ||a_i^c D_c||^2
              + sparsity ||A||_1 + fisher (S_W - S_B + ||A||^2 + ||A^0 - mean||^2)
              + incoherence sum_(c < c') ||D_c D_c''||^2 + low_rank ||D_0||_*

    with S_W and S_B the scatter of the codes A^1, A^2, ... within and between tags, atoms of tags
    in the unit ball and ``||D_0||_*`` the sum of singular values. All images are then coded over
    the atoms of all groups by the lasso, ``1/2 ||x - a D||^2 + sparsity / 2 ||a||_1``, and the
    scores are ``a W``, with W the group lasso of :class:`SLED`'s relevance.

    The paper classifies surface defects of steel, one label for each image. Known of it: shared
    and class sub-dictionaries, their mutual incoherence, a Fisher-like criterion, and low rank.
    Its formula is not known here. The objective is that of LRSDL (Vu and Monga, TIP 2017, twice
    as large), which has these terms, plus incoherence. Groups of exclusive tags make it a problem
    with one label for each image, as in SLED. Groups, all weights and the scores are our choices.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        The number of atoms of tags, or their share of the images; at least one for each tag.
    n_shared : int, default=8
        The number of shared atoms of each group.
    relevance : float or "auto", default="auto"
        "auto" selects one of three values on out-of-fold scores.
    sparsity : float, default=0.02
    fisher : float, default=0.02
    incoherence : float, default=0.001
    low_rank : float, default=0.1
    exclusion : float, default=0.1
        Tags exclude each other if the rarer has the other on at most this share of its images.
    max_iter : int, default=10
        The number of alternations of codes and atoms in each group.
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds and the images, and initializes dictionaries.

    Attributes
    ----------
    atoms_ : ndarray of shape (k, m)
        The atoms of tags and the shared atoms of all groups.
    semantics_ : ndarray of shape (k, t)
        W.
    n_iter_ : int
    setting_ : dict
        The selected relevance.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    S. Zhou, H. Liu, K. Cui and Z. Hao, "JCS: an explainable surface defects detection method by
    joint classification and segmentation" (title shortened), IEEE Access 2021.
    T. H. Vu and V. Monga, "Fast low-rank shared dictionary learning for image classification",
    IEEE TIP 2017.
    """

    _: KW_ONLY
    n_shared: int = 8
    relevance: float | str = "auto"
    sparsity: float = 0.02
    fisher: float = 0.02
    incoherence: float = 0.001
    low_rank: float = 0.1
    exclusion: float = 0.1

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DictionaryBaseline._parameter_constraints,
        "n_shared": [COUNT],
        "relevance": [NOT_NEGATIVE, AUTO],
        "sparsity": [NOT_NEGATIVE],
        "fisher": [NOT_NEGATIVE],
        "incoherence": [NOT_NEGATIVE],
        "low_rank": [NOT_NEGATIVE],
        "exclusion": [UNIT],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"relevance": RELEVANCES}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Dictionary]:
        D = self._learn_atoms(X, Y, np.random.default_rng(seed))
        codes = self._encode(X, D)
        W = None
        models = []
        for setting in settings:
            W = group_lasso(codes, Y, setting["relevance"], start=W)
            models.append(Dictionary(D, W))
        return models

    def _learn_atoms(self, X: Floats, Y: sparse.csr_array, rng: np.random.Generator) -> Floats:
        """Learn the atoms of all groups; shared atoms without use are removed."""
        groups = list(exclusive_tags.partition(Y, shared=self.exclusion, size=GROUP_SIZE))
        n_tags = max(sum(len(tags) for tags in groups), 1)
        per_tag = max(1, count_atoms(self.n_atoms, len(X)) // n_tags)
        problems = [
            with_shared_atoms(problem, self.n_shared, rng)
            for tags in groups
            if (problem := start_group(X, Y, tags, per_tag, rng)) is not None
        ]
        if not problems:  # no image has exactly one tag of a group
            return updates.to_sphere(X[:1])
        penalties = fddl.Penalties(self.sparsity, self.fisher, self.incoherence, self.low_rank)
        batches = Threads(self.n_jobs).map(
            fddl.learn_batch, [problems], [penalties, self.max_iter], size=1
        )
        atoms = np.concatenate([D for batch in batches for D in batch])
        used = np.linalg.norm(atoms, axis=1) > 1e-6
        return updates.to_sphere(atoms[used] if used.any() else atoms)

    def _encode(self, X: Floats, atoms: Floats) -> sparse.csr_array:
        lasso = GroupLasso.of(atoms, sparsity=self.sparsity / 2)
        return lasso.encode(X, n_jobs=self.n_jobs).codes


def with_shared_atoms(group: fddl.Group, count: int, rng: np.random.Generator) -> fddl.Group:
    """Add shared atoms to a group, which start as k-means centroids of all its images."""
    atoms = k_means(group.X, min(count, len(group.X)), rng)
    return group._replace(
        D=np.concatenate([group.D, updates.to_sphere(atoms)]),
        atom_tag=np.concatenate([group.atom_tag, np.full(len(atoms), fddl.SHARED)]),
    )
