"""Base class of dictionary-learning baselines: sparse codes over atoms, tag weights of atoms."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from prototag.arrays import Floats, Rows
from prototag.engine import Threads
from prototag.mcdl import updates
from prototag.mcdl.kmeans import k_means
from prototag.research.baselines.base import COUNT
from prototag.research.baselines.cross_validated import CrossValidatedBaseline

SHARE = Interval(Real, 0, 1, closed="right")


class Dictionary(NamedTuple):
    atoms: Floats  # k x m, unit rows
    semantics: Floats  # k x t, the tag weights of each atom


@dataclass(eq=False, repr=False)
class DictionaryBaseline(CrossValidatedBaseline):
    """A baseline whose scores are a sparse code over atoms times the tag weights of the atoms."""

    n_atoms: int | float = 0.2
    _: KW_ONLY
    max_iter: int = 10
    atoms_: Floats = field(init=False)
    semantics_: Floats = field(init=False)
    n_iter_: int = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossValidatedBaseline._parameter_constraints,
        "n_atoms": [COUNT, SHARE],
        "max_iter": [COUNT],
    }
    _values: ClassVar[dict[str, type]] = {**CrossValidatedBaseline._values, "n_iter_": int}

    def _encode(self, X: Floats, atoms: Floats) -> sparse.csr_array:
        """Return the codes of images without their tags, as of new images."""
        raise NotImplementedError

    def _initial_atoms(self, X: Floats, seed: int) -> Floats:
        """Return the k-means centroids from which learning starts."""
        k = count_atoms(self.n_atoms, len(X))
        return k_means(X, k, np.random.default_rng(seed), engine=Threads(self.n_jobs))

    def _model_scores(self, model: Any, X: Floats) -> Floats:
        return np.asarray(self._encode(X, model.atoms) @ model.semantics)

    def _set_fitted(self, model: Any) -> None:
        self.atoms_ = model.atoms
        self.semantics_ = model.semantics
        self.n_iter_ = self.max_iter

    def _get_fitted(self) -> Any:
        return Dictionary(self.atoms_, self.semantics_)

    def _arrays(self) -> dict[str, str]:
        return {"atoms_": "f4 k m", "semantics_": "f4 k t"}


def count_atoms(n_atoms: int | float, n: int) -> int:
    """Return the number of atoms, at most one per image: folds have fewer images than the data."""
    if isinstance(n_atoms, int | np.integer):
        return min(int(n_atoms), n)
    return max(1, round(float(n_atoms) * n))


def atoms_per_tag(k: int, Y: sparse.csr_array) -> Rows:
    """Distribute k atoms evenly over tags: at least one, at most the number of images of a tag."""
    images = np.bincount(Y.indices, minlength=Y.shape[1])
    return np.minimum(images, max(1, k // Y.shape[1]))


def tag_atoms(X: Floats, Y: sparse.csr_array, counts: Rows, rng: np.random.Generator) -> Floats:
    """Return k-means centroids of the images of each tag, tag after tag, at unit length."""
    by_tag = Y.tocsc()
    parts = [
        k_means(X[by_tag.indices[by_tag.indptr[c] : by_tag.indptr[c + 1]]], count, rng)
        for c, count in enumerate(counts.tolist())
        if count
    ]
    if not parts:  # no image has a tag
        parts = [X[:1]]
    return updates.to_sphere(np.concatenate(parts))


def tag_weight_unit(X: Floats, Y: sparse.csr_array) -> float:
    """Return ``||X||^2 / ||Y||^2``, by which errors of vectors and of tags count alike."""
    return len(X) / max(Y.nnz, 1)


def classifier(codes: sparse.csr_array, Y: sparse.csr_array, strength: float = 1.0) -> Floats:
    """Fit a ridge regression of the tags on codes, without intercept, k x t."""
    gram = (codes.T @ codes).toarray().astype(np.float64)
    gram[np.diag_indices_from(gram)] += strength
    return np.linalg.solve(gram, (codes.T @ Y).toarray()).astype(np.float32)
