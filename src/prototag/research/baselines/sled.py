"""SLED: dictionaries of mutually exclusive tags, and what their atoms say of every tag."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from prototag.arrays import Floats, Rows
from prototag.engine import Threads, single_threaded_blas
from prototag.mcdl import updates
from prototag.research.baselines import fddl
from prototag.research.baselines.cross_validated import AUTO, COUNT, FOLDED, Setting, grid
from prototag.research.baselines.dictionary_base import (
    SHARE,
    Dictionary,
    DictionaryBaseline,
    count_atoms,
    share_out,
    tag_atoms,
)

RELEVANCES = (10.0, 3.0, 1.0)  # falling: each starts where the one before ended
GROUP_SIZE = 12  # tags
PER_TAG = 200  # images of a tag that its dictionary is learned from, at most
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")


class SLED(DictionaryBaseline):
    """Semantic label embedding dictionary: tags that exclude each other are told apart.

    First, tags are cut into groups that hardly occur together. Second, for the images with exactly
    one tag of a group, dictionaries D_c of its tags and codes A minimise the Fisher criterion

        sum_i ||x_i - a_i D||^2 + ||x_i - a_i^own D_own||^2
              + sum_(c not own) ||a_i^c D_c||^2
              + sparsity ||A||_1 + fisher (S_W(A) - S_B(A) + ||A||^2)

    with S_W and S_B the scatter of codes within and between tags. Third, all images are coded over
    all dictionaries, and the relevance of atoms to tags is learned for all tags together,

        min_W ||Y - A W||^2 + relevance * sum_k ||w_k||_2,

    which embeds what occurs together: an atom serves all its tags or none. Last, the scores of
    a new image are ``a W``.

    Written from what the paper says of its steps. What differs here: groups are found greedily
    and do not overlap (graph shift there); codes are non-negative with the budget of
    :class:`prototag.MCDL` in place of group-sparse ones. Choices made here: the norm of W, at most
    200 images for the dictionary of a tag, and labels that propagate along codes in one step, by W.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        Number of atoms, or their share of the images; shared out evenly, at least one for each tag.
    relevance : float or "auto", default="auto"
        "auto" is the best of three by left-out images.
    sparsity : float, default=0.05
    fisher : float, default=0.05
    exclusion : float, default=0.1
        Tags exclude each other if the rarer has the other on at most this share of its images.
    max_nonzeros : int, default=20
    max_iter : int, default=10
        Alternations of codes and atoms in each group.
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds and the images, and starts dictionaries.

    Attributes
    ----------
    atoms_ : ndarray of shape (k, m)
    semantics_ : ndarray of shape (k, t)
    n_iter_ : int
    setting_ : dict
        The relevance chosen.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    X. Cao, H. Zhang, X. Guo, S. Liu and D. Meng, "SLED: semantic label embedding dictionary
    representation for multilabel image annotation", IEEE TIP 2015.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_atoms": [COUNT, SHARE],
        "relevance": [NOT_NEGATIVE, AUTO],
        "sparsity": [NOT_NEGATIVE],
        "fisher": [NOT_NEGATIVE],
        "exclusion": [Interval(Real, 0, 1, closed="both")],
        "max_nonzeros": [COUNT],
        "max_iter": [COUNT],
    } | FOLDED

    def __init__(  # noqa: PLR0913 - hyperparameters, as scikit-learn wants them
        self,
        n_atoms: int | float = 0.2,
        *,
        relevance: float | str = "auto",
        sparsity: float = 0.05,
        fisher: float = 0.05,
        exclusion: float = 0.1,
        max_nonzeros: int = 20,
        max_iter: int = 10,
        threshold: str | float = "global",
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_atoms = n_atoms
        self.relevance = relevance
        self.sparsity = sparsity
        self.fisher = fisher
        self.exclusion = exclusion
        self.max_nonzeros = max_nonzeros
        self.max_iter = max_iter
        self.threshold = threshold
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _settings(self) -> list[Setting]:
        return grid(relevance=RELEVANCES if self.relevance == "auto" else self.relevance)

    def _learn(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Dictionary]:
        D = self._dictionary(X, Y, np.random.default_rng(seed))
        codes = self._encode(X, D)
        W = None
        models = []
        for setting in settings:
            W = shared_lasso(codes, Y, setting["relevance"], start=W)
            models.append(Dictionary(D, W))
        return models

    def _dictionary(self, X: Floats, Y: sparse.csr_array, rng: np.random.Generator) -> Floats:
        """The atoms of all tags, in the order of :func:`tag_atoms`."""
        share = share_out(count_atoms(self.n_atoms, len(X)), Y)
        D = tag_atoms(X, Y, share, rng)
        owner = np.repeat(np.arange(len(share)), share)
        groups = fddl.exclusive_groups(Y, shared=self.exclusion, size=GROUP_SIZE)
        places = []
        members = []
        for tags in groups:
            group = _members(X, Y, tags, D, owner, rng)
            if group is not None:
                places.append(np.flatnonzero(np.isin(owner, tags)))
                members.append(group)
        shared = [self.sparsity, self.fisher, self.max_iter]
        learned = Threads(self.n_jobs).map(groups_block, [members], shared, size=1)
        for place, atoms in zip(places, (atoms for part in learned for atoms in part), strict=True):
            D[place] = atoms
        return updates.to_sphere(D)


def groups_block(
    groups: list[fddl.Group], sparsity: float, weight: float, max_iter: int
) -> list[Floats]:
    """The dictionaries of some groups."""
    return [
        fddl.learn(group, sparsity=sparsity, fisher=weight, max_iter=max_iter)[0]
        for group in groups
    ]


def _members(
    X: Floats,
    Y: sparse.csr_array,
    tags: Rows,
    D: Floats,
    owner: Rows,
    rng: np.random.Generator,
) -> fddl.Group | None:
    """Images with exactly one tag of a group, at most ``PER_TAG`` of each; None if none."""
    has = Y[:, tags].toarray() > 0
    single = np.flatnonzero(has.sum(axis=1) == 1)
    single = rng.permutation(single)
    label = has[single].argmax(axis=1)
    kept = np.sort(
        np.concatenate([single[label == number][:PER_TAG] for number in range(len(tags))])
    )
    if not len(kept):
        return None
    mine = np.isin(owner, tags)
    number = {tag: place for place, tag in enumerate(tags.tolist())}
    atoms = np.array([number[tag] for tag in owner[mine].tolist()])
    return fddl.Group(X[kept], has[kept].argmax(axis=1), D[mine], atoms)


def shared_lasso(
    codes: sparse.csr_array,
    Y: sparse.csr_array,
    penalty: float,
    *,
    start: Floats | None = None,
    max_iter: int = 100,
    tol: float = 1e-3,
) -> Floats:
    """``min_W ||Y - A W||^2 + penalty * sum_k ||w_k||_2`` by accelerated proximal gradient."""
    gram = (codes.T @ codes).toarray().astype(np.float32)
    inner = (codes.T @ Y).toarray().astype(np.float32)
    with single_threaded_blas():
        step = np.float32(0.5 / max(_largest_eigenvalue(gram), 1e-12))
        W = np.zeros_like(inner) if start is None else start
        ahead = W
        momentum = 1.0
        for _ in range(max_iter):
            moved = ahead - 2 * step * (gram @ ahead - inner)
            length = np.linalg.norm(moved, axis=1, keepdims=True)
            shrunk = np.maximum(1 - step * np.float32(penalty) / np.maximum(length, 1e-12), 0)
            new = moved * shrunk
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            change = new - W
            if np.vdot(ahead - new, change) > 0:  # the momentum leads astray: begin it again
                following = 1.0
            ahead = new + np.float32((momentum - 1) / following) * change
            W = new
            momentum = following
            if np.linalg.norm(change) <= tol * max(float(np.linalg.norm(W)), 1e-12):
                break
    return W


def _largest_eigenvalue(gram: Floats) -> float:
    """By the power method, a little above; gram has no negative entries, so neither its vector."""
    v = np.ones(len(gram), np.float32)
    for _ in range(30):
        v = gram @ v
        length = float(np.linalg.norm(v))
        if length == 0:
            return 0.0
        v /= np.float32(length)
    return 1.05 * float(np.linalg.norm(gram @ v))
