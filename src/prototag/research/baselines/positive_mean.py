"""Positive means: an image is compared with the mean vector of the images of each tag."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from prototag.arrays import Array, Doubles, Floats
from prototag.coding.coder import Coder
from prototag.engine import Threads, map_rows
from prototag.errors import ModelFileError
from prototag.mcdl import updates
from prototag.mcdl.kmeans import k_means, nearest_centroids
from prototag.research.baselines.base import COUNT, Baseline

DICTIONARY_ROUNDS = 5
MAX_NONZEROS = 20  # of a sparse code, as in the dictionary baselines
BATCH_IMAGES = 256


@dataclass(eq=False, repr=False)
class PositiveMean(Baseline):
    """Cosine of an image and the mean of a tag's images (the annotator of Chen et al. 2020).

    With e(x) the encoding of an image, minus the mean encoding of all training images, and m_c the
    mean of e over the images with tag c,

        score(x, c) = e(x) . m_c / (||e(x)|| ||m_c||)

    Encodings:

    - None: the given vector.
    - "sparse": a non-negative code with a budget over a dictionary of ``n_centres`` atoms, which is
      learned without tags, as UDL.
    - "vlad": with the columns as ``n_local`` local vectors of equal width (such as the crops of an
      image), the sums of residuals ``z - centre`` over the local vectors that are nearest to each
      of ``n_centres`` centres, with signed square roots, unit length for each centre, then in all
      (Jegou, Douze, Schmid and Perez 2010). A given vector is a single local vector.

    The abstract says: features of an intermediate layer, sparse coding of images, concepts as
    means of positive samples, and the vocabulary of the largest similarity. That this is the paper
    which the literature calls VLAD is inferred; its maps of an intermediate layer are replaced by
    the given vectors. Centring is our choice: without it all means are nearly equal. Leave-one-out
    scores are exact, in closed form.

    Parameters
    ----------
    encoding : {None, "sparse", "vlad"}, default=None
    n_centres : int, default=64
    n_local : int, default=1
        The number of local vectors in a row, for "vlad".
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=0
        Initializes k-means.

    Attributes
    ----------
    means_ : ndarray of shape (t, e)
        Mean encodings of the tags, at unit length.
    center_ : ndarray of shape (e,)
        The mean encoding of all training images.
    centres_ : ndarray of shape (n_centres, m / n_local)
        With an encoding.
    out_of_fold_scores_ : ndarray of shape (n, t)
        Leave-one-out scores.

    References
    ----------
    Y. Chen et al., "The image annotation algorithm using convolutional features from intermediate
    layer of deep learning", Multimedia Tools and Applications 80, 2021.
    """

    encoding: str | None = None
    _: KW_ONLY
    n_centres: int = 64
    n_local: int = 1
    random_state: Any = 0
    centres_: Floats = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._shared_constraints,
        "encoding": [StrOptions({"sparse", "vlad"}), None],
        "n_centres": [COUNT],
        "n_local": [COUNT],
        "random_state": ["random_state"],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to vectors (n x m, scaled to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self._fit_encoding(X, rng)
        E = self._encode(X)
        self.center_ = np.asarray(E.mean(axis=0, dtype=np.float64), np.float32).ravel()
        number = np.bincount(Y.indices, minlength=Y.shape[1])
        total: Any = Y.T @ E
        if sparse.issparse(E):
            total = total.toarray()
        sums = total.astype(np.float64) - number[:, None] * self.center_.astype(np.float64)
        scores = map_rows(
            Threads(self.n_jobs),
            loo_batch,
            [E, Y],
            [sums.astype(np.float32), np.square(sums).sum(axis=1), number, self.center_],
            size=BATCH_IMAGES,
        )
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        self.means_ = sums / np.where(length > 0, length, 1)
        self._normalize_arrays()
        self._end_fit(Y, scores)
        return self

    def _fit_encoding(self, X: Floats, rng: np.random.Generator) -> None:
        if self.encoding is None:
            return
        if X.shape[1] % self.n_local:
            raise ValueError(
                f"n_local={self.n_local} with {X.shape[1]} columns: give the number of local "
                "vectors of equal width that a row holds."
            )
        local = X.reshape(-1, X.shape[1] // self.n_local) if self.encoding == "vlad" else X
        k = min(self.n_centres, len(local))
        centres = k_means(local, k, rng, engine=Threads(self.n_jobs))
        if self.encoding == "sparse":
            centres = updates.to_ball(centres)
            for _ in range(DICTIONARY_ROUNDS):
                codes = self._codes(X, centres)
                centres = updates.visual_update(centres, X, codes, None, rng, sphere=False)
        self.centres_ = centres

    def _codes(self, X: Floats, atoms: Floats) -> sparse.csr_array:
        coder = Coder(atoms, max_nonzeros=MAX_NONZEROS)
        return coder.encode(X, engine=Threads(self.n_jobs)).codes

    def _encode(self, X: Floats) -> Any:
        """Return the encodings, n x e: dense vectors, sparse codes or sparse residuals."""
        if self.encoding is None:
            return X
        if self.encoding == "sparse":
            return self._codes(X, self.centres_)
        parts = Threads(self.n_jobs).map(
            vlad_batch, [X], [self.centres_, self.n_local], size=BATCH_IMAGES
        )
        return sparse.csr_array(sparse.vstack(parts, format="csr"))

    def _arrays(self) -> dict[str, str]:
        arrays = {"means_": "f4 t e", "center_": "f4 e"}
        return arrays if self.encoding is None else {**arrays, "centres_": "f4 k d"}

    def _prepare(self) -> None:
        m = self.n_features_in_
        width = m
        if self.encoding is not None:
            k, d = self.centres_.shape
            vlad = self.encoding == "vlad"
            width = k * d if vlad else k
            m = d * self.n_local if vlad else d
        if len(self.center_) != width or m != self.n_features_in_:
            raise ModelFileError(
                "The means do not fit the encoding: the file was not written by prototag."
            )

    def _scores(self, X: Floats) -> Floats:
        return map_rows(
            Threads(self.n_jobs),
            score_batch,
            [self._encode(X)],
            [self.means_, self.center_],
            size=BATCH_IMAGES,
        )


def vlad_batch(x: Floats, centres: Floats, n_local: int) -> sparse.csr_array:
    """Return the VLAD encodings of a batch of images, q x (k d), as sparse rows."""
    q = len(x)
    k, d = centres.shape
    local = np.ascontiguousarray(x.reshape(q * n_local, d))
    cell = nearest_centroids(local, centres)[0]
    image = np.repeat(np.arange(q), n_local)
    pair, place = np.unique(image * k + cell, return_inverse=True)
    residual = np.zeros((len(pair), d))
    np.add.at(residual, place, (local - centres[cell]).astype(np.float64))
    residual = np.sign(residual) * np.sqrt(np.abs(residual))
    length = np.linalg.norm(residual, axis=1, keepdims=True)
    residual /= np.where(length > 0, length, 1)
    occupied = np.bincount(pair // k, minlength=q)
    residual /= np.sqrt(np.repeat(occupied, occupied))[:, None]
    columns = (pair % k * d)[:, None] + np.arange(d)
    indptr = np.concatenate([[0], np.cumsum(occupied * d)])
    data = residual.astype(np.float32).ravel()
    return sparse.csr_array((data, columns.ravel(), indptr), shape=(q, k * d))


def centred_products(e: Any, rows: Floats, center: Floats) -> tuple[Doubles, Doubles]:
    """Return ``(e - center) . rows`` and ``||e - center||^2`` for dense or sparse encodings."""
    middle = center.astype(np.float64)
    product = np.asarray(e @ rows.T, np.float64) - rows.astype(np.float64) @ middle
    squared: Any = e * e  # by entry, also of sparse arrays
    norm = (
        np.asarray(squared.sum(axis=1), np.float64) - 2 * np.asarray(e @ middle) + middle @ middle
    )
    return product, np.maximum(norm, 0)


def score_batch(e: Any, means: Floats, center: Floats) -> Floats:
    """Return the cosines of a batch of encodings and the means of all tags."""
    product, norm = centred_products(e, means, center)
    length = np.sqrt(norm)[:, None]
    return np.divide(product, length, out=np.zeros_like(product), where=length > 1e-6).astype("f4")


def loo_batch(
    e: Any, y: sparse.csr_array, sums: Floats, squares: Doubles, number: Array, center: Floats
) -> Floats:
    """Return the cosines of training images and the means of the other images of each tag."""
    own = y.toarray() > 0
    product, norm = centred_products(e, sums, center)
    norm = norm[:, None]
    mean_square = np.where(own, squares - 2 * product + norm, squares)
    product = np.where(own, product - norm, product)
    # A tag without another image has no mean; rounding leaves a small rest of its square.
    usable = (number - own > 0) & (norm > 1e-12) & (mean_square > 1e-6 * (norm + 1e-12))
    scale = np.sqrt(np.where(usable, norm * mean_square, 1))
    return np.where(usable, product / scale, 0).astype(np.float32)
