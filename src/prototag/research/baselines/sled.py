"""SLED: Fisher dictionaries of exclusive tags, group-sparse codes, and propagation of tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from prototag.arrays import Floats, Ints, Rows
from prototag.engine import Threads, single_threaded_blas
from prototag.errors import ModelFileError
from prototag.mcdl import updates
from prototag.mcdl.kmeans import k_means
from prototag.research.baselines import exclusive_tags, fddl
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE
from prototag.research.baselines.cross_validated import Setting
from prototag.research.baselines.dictionary_base import DictionaryBaseline, count_atoms
from prototag.research.baselines.sparse_group_lasso import GroupLasso

RELEVANCES = (3.0, 1.0, 0.3)  # decreasing: each fit starts from the previous solution
SHARES = (1.0, 0.7, 0.4)
MAX_IMAGES_PER_TAG = 60  # from which the dictionary of a tag in a group is learned
PROPAGATION_STEPS = 20
BATCH_IMAGES = 128

UNIT = Interval(Real, 0, 1, closed="both")


class Embedding(NamedTuple):
    """The model of SLED."""

    atoms: Floats  # k x m
    sizes: Ints  # g, atoms of each tag of each group; they are contiguous
    relevance: Floats  # k x t
    codes: sparse.csr_array  # n x k, codes of training images at unit length
    propagated: Floats  # n x t, their tags after propagation
    share: float


@dataclass(eq=False, repr=False)
class SLED(DictionaryBaseline):
    """Semantic label embedding dictionary: discriminative dictionaries of exclusive tags.

    1. Graph shift finds groups of tags that exclude each other: from every tag that is in no group
       yet, ``s' E s`` rises over the simplex, where E_cc' = 1 - n_cc' / min(n_c, n_c') for n_cc'
       images with both tags. Groups may overlap.
    2. Within each group, for the images with exactly one of its tags, dictionaries D_c and codes A
       minimise the Fisher criterion

           sum_i ||x_i - a_i D||^2 + ||x_i - a_i^own D_own||^2
                 + sum_(c not own) ||a_i^c D_c||^2
                 + sparsity ||A||_1 + fisher (S_W(A) - S_B(A) + ||A||^2)

       with S_W and S_B the scatter of codes within and between tags.
    3. All images are coded over the dictionaries of all groups,

           1/2 ||x - a D||^2 + l1 ||a||_1 + l2 sum_g sqrt(k_g) ||a_g||_2

       where a_g are the k_g coefficients of one tag in one group (sparse group lasso).
    4. The relevance R of atoms to tags minimises ``||Y - A R||^2 + relevance sum_k ||r_k||_2``,
       and the tags of training images propagate: F = (1 - alpha) (I - alpha S)^-1 Y, with S the
       cosines of codes of the ``n_neighbours`` nearest images, whose sum is 1. The scores of a new
       image are ``share a R + (1 - share) s F``, with s its row of S.

    Known of the paper: exclusive groups by graph shift, a Fisher dictionary for each group, group
    sparsity over all dictionaries, and a last stage of relevance and propagation. We chose E, the
    order of expansion (the largest gain first, at most ``group_size`` tags), at most 60 images
    for a tag in a group, the form of step 4, and all weights.

    Parameters
    ----------
    n_atoms : int or float, default=0.2
        The number of atoms, or their share of the images; distributed evenly over the tags of all
        groups, at least one for each.
    relevance : float or "auto", default="auto"
        "auto" here and below: selected from a small grid on out-of-fold scores.
    share : float or "auto", default="auto"
        From 0 to 1.
    sparsity : float, default=0.05
    fisher : float, default=0.05
    l1 : float, default=0.02
    l2 : float, default=0.05
    alpha : float, default=0.5
        From 0 (no propagation among training images) to less than 1.
    n_neighbours : int, default=20
    group_size : int, default=30
    max_iter : int, default=10
        The number of alternations of codes and atoms in each group.
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds and the images, and initializes dictionaries.

    Attributes
    ----------
    atoms_ : ndarray of shape (k, m)
    group_sizes_ : ndarray of shape (g,)
        The number of atoms of each tag of each group.
    semantics_ : ndarray of shape (k, t)
        R.
    codes_ : csr_array of shape (n, k)
        Codes of the training images, at unit length.
    propagated_ : ndarray of shape (n, t)
        F.
    n_iter_ : int
    setting_ : dict
        The selected relevance and share.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    X. Cao, H. Zhang, X. Guo, S. Liu and D. Meng, "SLED: semantic label embedding dictionary
    representation for multilabel image annotation", IEEE TIP 2015.
    M. Yang, L. Zhang, X. Feng and D. Zhang, "Fisher discrimination dictionary learning for sparse
    representation", ICCV 2011.
    H. Liu and S. Yan, "Robust graph mode seeking by graph shift", ICML 2010.
    """

    _: KW_ONLY
    relevance: float | str = "auto"
    share: float | str = "auto"
    sparsity: float = 0.05
    fisher: float = 0.05
    l1: float = 0.02
    l2: float = 0.05
    alpha: float = 0.5
    n_neighbours: int = 20
    group_size: int = 30
    group_sizes_: Ints = field(init=False)
    codes_: sparse.csr_array = field(init=False)
    propagated_: Floats = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DictionaryBaseline._parameter_constraints,
        "relevance": [NOT_NEGATIVE, AUTO],
        "share": [UNIT, AUTO],
        "sparsity": [NOT_NEGATIVE],
        "fisher": [NOT_NEGATIVE],
        "l1": [NOT_NEGATIVE],
        "l2": [NOT_NEGATIVE],
        "alpha": [Interval(Real, 0, 1, closed="left")],
        "n_neighbours": [COUNT],
        "group_size": [COUNT],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"relevance": RELEVANCES, "share": SHARES}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Embedding]:
        atoms, sizes = self._learn_atoms(X, Y, np.random.default_rng(seed))
        codes = self._encode_groups(X, atoms, sizes)
        unit = unit_codes(codes)
        F = propagate(unit, Y, self.alpha, self.n_neighbours, self.n_jobs)
        relevances: dict[float, Floats] = {}
        W = None
        for setting in settings:
            if setting["relevance"] not in relevances:
                W = group_lasso(codes, Y, setting["relevance"], start=W)
                relevances[setting["relevance"]] = W
        return [
            Embedding(atoms, sizes, relevances[s["relevance"]], unit, F, s["share"])
            for s in settings
        ]

    def _learn_atoms(
        self, X: Floats, Y: sparse.csr_array, rng: np.random.Generator
    ) -> tuple[Floats, Ints]:
        """Learn the atoms of the tags of all groups; return them and the atoms of each tag."""
        groups = exclusive_tags.graph_shift(Y, size=self.group_size)
        pairs = sum(len(tags) for tags in groups)
        per_tag = max(1, count_atoms(self.n_atoms, len(X)) // max(pairs, 1))
        problems = [
            problem
            for tags in groups
            if (problem := start_group(X, Y, tags, per_tag, rng)) is not None
        ]
        if not problems:  # no image has exactly one tag of a group
            return updates.to_sphere(X[:1]), np.ones(1, np.int32)
        penalties = fddl.Penalties(self.sparsity, self.fisher)
        batches = Threads(self.n_jobs).map(
            fddl.learn_batch, [problems], [penalties, self.max_iter], size=1
        )
        atoms = np.concatenate([D for batch in batches for D in batch])
        sizes = np.concatenate([np.bincount(problem.atom_tag) for problem in problems])
        return updates.to_sphere(atoms), sizes[sizes > 0].astype(np.int32)

    def _encode_groups(self, X: Floats, atoms: Floats, sizes: Ints) -> sparse.csr_array:
        lasso = GroupLasso.of(atoms, sparsity=self.l1, sizes=sizes)
        weights = np.float32(self.l2) * np.sqrt(sizes)
        return lasso.encode(X, weights, n_jobs=self.n_jobs).codes

    def _model_scores(self, model: Embedding, X: Floats) -> Floats:
        codes = self._encode_groups(X, model.atoms, model.sizes)
        scores = codes @ model.relevance
        if model.share == 1:
            return np.asarray(scores)
        near = nearest_codes(unit_codes(codes), model.codes, self.n_neighbours, self.n_jobs)
        share = np.float32(model.share)
        return np.asarray(share * scores + (1 - share) * (near @ model.propagated))

    def _set_fitted(self, model: Embedding) -> None:
        self.atoms_ = model.atoms
        self.group_sizes_ = model.sizes
        self.semantics_ = model.relevance
        self.codes_ = model.codes
        self.propagated_ = model.propagated
        self.n_iter_ = self.max_iter

    def _get_fitted(self) -> Any:
        return Embedding(
            self.atoms_,
            self.group_sizes_,
            self.semantics_,
            self.codes_,
            self.propagated_,
            self.setting_["share"],
        )

    def _arrays(self) -> dict[str, str]:
        return {
            "atoms_": "f4 k m",
            "group_sizes_": "i4 g",
            "semantics_": "f4 k t",
            "propagated_": "f4 n t",
            "codes_": "codes n k",
        }

    def _prepare(self) -> None:
        if self.group_sizes_.min() < 1 or self.group_sizes_.sum() != len(self.atoms_):
            raise ModelFileError(
                f"The groups have {self.group_sizes_.sum()} atoms of {len(self.atoms_)}: the model "
                "is damaged."
            )


def start_group(
    X: Floats, Y: sparse.csr_array, tags: Rows, per_tag: int, rng: np.random.Generator
) -> fddl.Group | None:
    """Return the images of a group of tags and k-means centroids of each tag, or None."""
    group = fddl.collect_group(
        X,
        Y,
        tags,
        np.empty((0, X.shape[1]), np.float32),
        np.empty(0, np.intp),
        rng,
        max_images_per_tag=MAX_IMAGES_PER_TAG,
    )
    if group is None:
        return None
    atoms = []
    atom_tag = []
    for number in np.unique(group.tag):
        own = group.X[group.tag == number]
        atoms.append(k_means(own, min(per_tag, len(own)), rng))
        atom_tag.append(np.full(len(atoms[-1]), number))
    return group._replace(
        D=updates.to_sphere(np.concatenate(atoms)), atom_tag=np.concatenate(atom_tag)
    )


def unit_codes(codes: sparse.csr_array) -> sparse.csr_array:
    """Scale the rows to unit length; rows of zeros stay."""
    length = np.sqrt(np.asarray(codes.multiply(codes).sum(axis=1)).ravel())
    scale = sparse.diags_array(1 / np.where(length > 0, length, 1), dtype=np.float32)
    unit = sparse.csr_array(scale @ codes).astype(np.float32)
    unit.sort_indices()
    return unit


def nearest_codes(
    queries: sparse.csr_array,
    codes: sparse.csr_array,
    count: int,
    n_jobs: int | None = None,
    *,
    exclude_self: bool = False,
) -> sparse.csr_array:
    """Return the positive cosines of the ``count`` most similar codes, scaled to sum 1, q x n."""
    own = np.arange(queries.shape[0]) if exclude_self else np.full(queries.shape[0], -1)
    parts = Threads(n_jobs).map(
        nearest_batch, [queries, own], [codes.T.tocsr(), count], size=BATCH_IMAGES
    )
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def nearest_batch(
    queries: sparse.csr_array, own: Rows, transposed: sparse.csr_array, count: int
) -> sparse.csr_array:
    """Find the most similar codes of a batch of queries, except the codes ``own`` (or -1)."""
    cosine = (queries @ transposed).toarray()
    rows = np.flatnonzero(own >= 0)
    cosine[rows, own[rows]] = 0
    count = min(count, cosine.shape[1])
    nearest = np.sort(np.argpartition(-cosine, count - 1, axis=1)[:, :count], axis=1)
    weight = np.maximum(np.take_along_axis(cosine, nearest, axis=1), 0)
    total = weight.sum(axis=1, keepdims=True)
    weight /= np.where(total > 0, total, 1)
    indptr = np.arange(0, nearest.size + 1, count)
    return sparse.csr_array((weight.ravel(), nearest.ravel(), indptr), shape=cosine.shape)


def propagate(
    codes: sparse.csr_array,
    Y: sparse.csr_array,
    alpha: float,
    n_neighbours: int,
    n_jobs: int | None = None,
) -> Floats:
    """Return ``(1 - alpha) (I - alpha S)^-1 Y`` by ``PROPAGATION_STEPS`` fixed-point steps."""
    own = Y.toarray()
    if alpha == 0:
        return own
    similarity = nearest_codes(codes, codes, n_neighbours, n_jobs, exclude_self=True)
    start = np.float32(1 - alpha) * own
    F = own
    for _ in range(PROPAGATION_STEPS):
        F = np.float32(alpha) * (similarity @ F) + start
    return np.asarray(F, np.float32)


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
    """Bound the largest eigenvalue by the power method and a margin of 5%."""
    # A random start has a part of every eigenvector.
    v = np.random.default_rng(0).standard_normal(len(gram)).astype(np.float32)
    v /= np.linalg.norm(v)
    for _ in range(50):
        v = gram @ v
        length = float(np.linalg.norm(v))
        if length == 0:
            return 0.0
        v /= np.float32(length)
    return 1.05 * float(np.linalg.norm(gram @ v))
