"""SLED: dictionaries of mutually exclusive tags, and a group lasso from their atoms to all tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from prototag.arrays import Floats, Rows
from prototag.engine import Threads, single_threaded_blas
from prototag.mcdl import updates
from prototag.research.baselines import fddl
from prototag.research.baselines.base import AUTO, NOT_NEGATIVE
from prototag.research.baselines.cross_validated import Setting
from prototag.research.baselines.dictionary_base import (
    Dictionary,
    DictionaryBaseline,
    atoms_per_tag,
    count_atoms,
    tag_atoms,
)

RELEVANCES = (10.0, 3.0, 1.0)  # decreasing: each fit starts from the previous solution
GROUP_SIZE = 12  # tags
MAX_IMAGES_PER_TAG = 200  # from which the dictionary of a tag is learned


@dataclass(eq=False, repr=False)
class SLED(DictionaryBaseline):
    """Semantic label embedding dictionary: discriminative dictionaries of exclusive tags.

    First, tags are partitioned into groups whose tags rarely occur together. Second, for the images
    with exactly one tag of a group, dictionaries D_c of its tags and codes A minimise the Fisher
    criterion

        sum_i ||x_i - a_i D||^2 + ||x_i - a_i^own D_own||^2
              + sum_(c not own) ||a_i^c D_c||^2
              + sparsity ||A||_1 + fisher (S_W(A) - S_B(A) + ||A||^2)

    with S_W and S_B the scatter of codes within and between tags. Third, all images are coded over
    all dictionaries, and the relevance of atoms to tags is learned for all tags together,

        min_W ||Y - A W||^2 + relevance * sum_k ||w_k||_2,

    whose group penalty selects an atom for all tags or for none. Last, the scores of a new image
    are
    ``a W``.

    The paper describes these steps without all details. Differences: we group tags greedily without
    overlap (the paper uses graph shift), and codes are non-negative with the budget of
    :class:`prototag.MCDL` instead of group-sparse. We chose the norm of W, at most 200 images for
    the dictionary of a tag, and one step of label propagation along codes, by W.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        The number of atoms, or their share of the images; distributed evenly, at least one for each
        tag.
    relevance : float or "auto", default="auto"
        "auto" selects one of three values on out-of-fold scores.
    sparsity : float, default=0.05
    fisher : float, default=0.05
    exclusion : float, default=0.1
        Tags exclude each other if the rarer has the other on at most this share of its images.
    max_nonzeros : int, default=20
    max_iter : int, default=10
        The number of alternations of codes and atoms in each group.
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds and the images, and initializes dictionaries.

    Attributes
    ----------
    atoms_ : ndarray of shape (k, m)
    semantics_ : ndarray of shape (k, t)
    n_iter_ : int
    setting_ : dict
        The selected relevance.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    X. Cao, H. Zhang, X. Guo, S. Liu and D. Meng, "SLED: semantic label embedding dictionary
    representation for multilabel image annotation", IEEE TIP 2015.
    """

    _: KW_ONLY
    relevance: float | str = "auto"
    sparsity: float = 0.05
    fisher: float = 0.05
    exclusion: float = 0.1

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DictionaryBaseline._parameter_constraints,
        "relevance": [NOT_NEGATIVE, AUTO],
        "sparsity": [NOT_NEGATIVE],
        "fisher": [NOT_NEGATIVE],
        "exclusion": [Interval(Real, 0, 1, closed="both")],
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
        """Learn the atoms of all tags, in the order of :func:`tag_atoms`."""
        counts = atoms_per_tag(count_atoms(self.n_atoms, len(X)), Y)
        D = tag_atoms(X, Y, counts, rng)
        atom_tag = np.repeat(np.arange(len(counts)), counts)
        rows = []
        groups = []
        for tags in fddl.exclusive_groups(Y, shared=self.exclusion, size=GROUP_SIZE):
            group = collect_group(X, Y, tags, D, atom_tag, rng)
            if group is not None:
                rows.append(np.flatnonzero(np.isin(atom_tag, tags)))
                groups.append(group)
        shared = [self.sparsity, self.fisher, self.max_iter]
        batches = Threads(self.n_jobs).map(groups_batch, [groups], shared, size=1)
        dictionaries = [atoms for batch in batches for atoms in batch]
        for group_rows, atoms in zip(rows, dictionaries, strict=True):
            D[group_rows] = atoms
        return updates.to_sphere(D)


def groups_batch(
    groups: list[fddl.Group], sparsity: float, fisher: float, max_iter: int
) -> list[Floats]:
    """Learn the dictionaries of a batch of groups."""
    return [
        fddl.learn(group, sparsity=sparsity, fisher=fisher, max_iter=max_iter)[0]
        for group in groups
    ]


def collect_group(
    X: Floats,
    Y: sparse.csr_array,
    tags: Rows,
    D: Floats,
    atom_tag: Rows,
    rng: np.random.Generator,
) -> fddl.Group | None:
    """Return the images with exactly one tag of a group and its atoms; None without any image.

    A random sample of at most ``MAX_IMAGES_PER_TAG`` images represents each tag.
    """
    has = Y[:, tags].toarray() > 0
    single = np.flatnonzero(has.sum(axis=1) == 1)
    single = rng.permutation(single)
    label = has[single].argmax(axis=1)
    kept = np.sort(
        np.concatenate(
            [single[label == number][:MAX_IMAGES_PER_TAG] for number in range(len(tags))]
        )
    )
    if not len(kept):
        return None
    own_atoms = np.isin(atom_tag, tags)
    number = {tag: position for position, tag in enumerate(tags.tolist())}
    atom_number = np.array([number[tag] for tag in atom_tag[own_atoms].tolist()])
    return fddl.Group(X[kept], has[kept].argmax(axis=1), D[own_atoms], atom_number)


def group_lasso(
    codes: sparse.csr_array,
    Y: sparse.csr_array,
    penalty: float,
    *,
    start: Floats | None = None,
    max_iter: int = 100,
    tol: float = 1e-3,
) -> Floats:
    """Solve ``min_W ||Y - A W||^2 + penalty * sum_k ||w_k||_2`` by accelerated proximal gradient.

    The momentum restarts when it points away from the last change (adaptive restart).
    """
    gram = (codes.T @ codes).toarray().astype(np.float32)
    inner = (codes.T @ Y).toarray().astype(np.float32)
    with single_threaded_blas():
        step = np.float32(0.5 / max(_largest_eigenvalue(gram), 1e-12))
        W = np.zeros_like(inner) if start is None else start
        extrapolated = W
        momentum = 1.0
        for _ in range(max_iter):
            descended = extrapolated - 2 * step * (gram @ extrapolated - inner)
            length = np.linalg.norm(descended, axis=1, keepdims=True)
            shrinkage = np.maximum(1 - step * np.float32(penalty) / np.maximum(length, 1e-12), 0)
            new = descended * shrinkage
            next_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            change = new - W
            if np.vdot(extrapolated - new, change) > 0:
                next_momentum = 1.0
            extrapolated = new + np.float32((momentum - 1) / next_momentum) * change
            W = new
            momentum = next_momentum
            if np.linalg.norm(change) <= tol * max(float(np.linalg.norm(W)), 1e-12):
                break
    return W


def _largest_eigenvalue(gram: Floats) -> float:
    """Bound the largest eigenvalue by the power method and a margin of 5%.

    ``gram`` has no negative entries, so its leading eigenvector has none, and ones are a safe
    start.
    """
    v = np.ones(len(gram), np.float32)
    for _ in range(30):
        v = gram @ v
        length = float(np.linalg.norm(v))
        if length == 0:
            return 0.0
        v /= np.float32(length)
    return 1.05 * float(np.linalg.norm(gram @ v))
