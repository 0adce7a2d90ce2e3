"""What annotators with a dictionary share: codes over atoms, and what the atoms mean for tags."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from prototag.arrays import Floats, Rows
from prototag.coding.coder import Coder
from prototag.engine import Threads
from prototag.mcdl import updates
from prototag.mcdl.kmeans import k_means
from prototag.research.baselines.cross_validated import CrossValidatedBaseline

SHARE = Interval(Real, 0, 1, closed="right")


class Dictionary(NamedTuple):
    atoms: Floats  # k x m, unit rows
    semantics: Floats  # k x t


class DictionaryBaseline(CrossValidatedBaseline):
    """Base of the annotators whose scores are a code over atoms times what the atoms mean."""

    max_nonzeros: int
    max_iter: int
    atoms_: Floats
    semantics_: Floats
    _values: ClassVar[dict[str, type]] = {**CrossValidatedBaseline._values, "n_iter_": int}

    def _encode(self, X: Floats, atoms: Floats) -> sparse.csr_array:
        """Codes over atoms alone, as new images have them: non-negative, with a budget."""
        coder = Coder(atoms, max_nonzeros=self.max_nonzeros)
        return coder.encode(X, engine=Threads(self.n_jobs)).codes

    def _apply(self, model: Dictionary, X: Floats) -> Floats:
        return np.asarray(self._encode(X, model.atoms) @ model.semantics)

    def _keep(self, model: Dictionary) -> None:
        self.atoms_, self.semantics_ = model
        self.n_iter_ = self.max_iter

    def _kept(self) -> Dictionary:
        return Dictionary(self.atoms_, self.semantics_)

    def _arrays(self) -> dict[str, str]:
        return {"atoms_": "f4 k m", "semantics_": "f4 k t"}


def count_atoms(n_atoms: int | float, n: int) -> int:
    """Never more than images: folds are smaller than the collection."""
    if isinstance(n_atoms, int | np.integer):
        return min(int(n_atoms), n)
    return max(1, round(float(n_atoms) * n))


def share_out(k: int, Y: sparse.csr_array) -> Rows:
    """Atoms for each tag: evenly, at least one, at most its images; none for a tag without any."""
    images = np.bincount(Y.indices, minlength=Y.shape[1])
    return np.minimum(images, max(1, k // Y.shape[1]))


def tag_atoms(X: Floats, Y: sparse.csr_array, share: Rows, rng: np.random.Generator) -> Floats:
    """The k-means of the images of each tag, tag after tag, at unit length."""
    by_tag = Y.tocsc()
    parts = [
        k_means(X[by_tag.indices[by_tag.indptr[c] : by_tag.indptr[c + 1]]], count, rng)
        for c, count in enumerate(share.tolist())
        if count
    ]
    if not parts:  # no image has a tag
        parts = [X[:1]]
    return updates.to_sphere(np.concatenate(parts))


def classifier(codes: sparse.csr_array, Y: sparse.csr_array, strength: float = 1.0) -> Floats:
    """Ridge regression of the tags on codes, without a constant, k x t."""
    gram = (codes.T @ codes).toarray().astype(np.float64)
    gram[np.diag_indices_from(gram)] += strength
    return np.linalg.solve(gram, (codes.T @ Y).toarray()).astype(np.float32)
