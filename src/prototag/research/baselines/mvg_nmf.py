"""Mvg-NMF: common and individual non-negative factors of feature groups, then 2PKNN."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import _fit_context
from sklearn.utils import check_random_state

from prototag.arrays import Array, Bools, Floats, Ints, Rows
from prototag.engine import Threads, single_threaded_blas
from prototag.errors import ModelFileError
from prototag.research.baselines import base, knn_search
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, Baseline, select_best
from prototag.research.baselines.sparse_group_lasso import GroupLasso
from prototag.research.baselines.two_pass_knn import COUNTS, SHARPNESSES, two_pass

MAX_IMAGES = 4000  # from which the factors are learned
CODING_SWEEPS = 60
TOLERANCE = 1e-4  # relative fall of the objective at which learning stops


class Spaces(NamedTuple):
    """The factors of all feature groups as one matrix of basis vectors."""

    basis: Floats  # r x w
    space: Ints  # r, the number of the latent space of each basis vector
    column_scale: Floats  # w, by which columns are multiplied first


@dataclass(eq=False, repr=False, kw_only=True)
class MvgNMF(Baseline):
    """Multi-view-group non-negative matrix factorisation (Mvg-NMF), then 2PKNN.

    The columns of the vectors form views, and the views form families. For each family, common
    coefficients H and, for each view v, individual coefficients S_v minimise

        sum_v w_v ||X_v - H B_v - S_v C_v||^2,   w_v = 1 / ||X_v||^2,   all factors >= 0.

    An image is represented by its coefficients (H and S_v of all families) for fixed B and C. The
    squared distances in these latent spaces, each over its mean, are summed, and the neighbours of
    every tag vote as in :class:`TwoPassKNN`.

    Known of the paper: common and individual factors of views, homogeneous groups of views with
    latent spaces for each, test images mapped into them, one unified distance, and tags from
    nearest neighbours. We chose the objective, its weights and ranks, squared distances, and
    2PKNN. Columns with negative numbers are split into positive and negative parts; vectors that
    are not reduced to principal components have none. Updates are hierarchical alternating
    least squares from a non-negative double singular value decomposition; at most 4,000 images
    learn B and C, a limit of time. With one view and one family, H and S differ by their start
    only.

    Parameters
    ----------
    n_common : int, default=100
        The number of columns of H, for each family.
    n_individual : int, default=20
        The number of columns of S, for each view; 0 for common factors only.
    n_per_tag, sharpness
        As in :class:`TwoPassKNN`.
    groups : array-like of shape (m,) or None, default=None
        The view of each column.
    families : array-like of shape (m,) or None, default=None
        The family of the view of each column.
    max_iter : int, default=100
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=0
        Draws the images that learn the factors.

    Attributes
    ----------
    basis_ : ndarray of shape (r, w)
        B and C of all families and views; w is m, or 2 m if columns were split.
    space_ : ndarray of shape (r,)
        The number of the latent space of each row of the basis.
    column_scale_ : ndarray of shape (w,)
        The root of w_v for each column.
    scale_ : ndarray of shape (r,)
        Factors of the coefficients, by which all spaces contribute equally.
    images_ : ndarray of shape (n, r)
        The coefficients of the training images, scaled.
    tags_ : csr_array of shape (n, t)
    n_per_tag_, sharpness_
        The selected values.
    n_iter_ : int
        The number of rounds in which B and C were learned.
    out_of_fold_scores_ : ndarray of shape (n, t)
        Leave-one-out scores; the factors do not depend on tags.

    References
    ----------
    R. Rad and M. Jamzad, "A multi-view-group non-negative matrix factorization approach for
    automatic image annotation", Multimedia Tools and Applications 2018.
    """

    n_common: int = 100
    n_individual: int = 20
    n_per_tag: int | str = "auto"
    sharpness: float | str = "auto"
    groups: npt.ArrayLike | None = None
    families: npt.ArrayLike | None = None
    max_iter: int = 100
    random_state: Any = 0
    basis_: Floats = field(init=False)
    space_: Ints = field(init=False)
    column_scale_: Floats = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._shared_constraints,
        "n_common": [COUNT],
        "n_individual": [NOT_NEGATIVE],
        "n_per_tag": [COUNT, AUTO],
        "sharpness": [NOT_NEGATIVE, AUTO],
        "groups": ["array-like", None],
        "families": ["array-like", None],
        "max_iter": [COUNT],
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {
        "n_per_tag_": int,
        "sharpness_": float,
        "n_iter_": int,
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to vectors (n x m, scaled to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        spaces = self._learn_spaces(X, np.random.default_rng(seed))
        self.basis_ = spaces.basis
        self.space_ = spaces.space
        self.column_scale_ = spaces.column_scale
        codes = self._codes(X)
        self.scale_ = space_scale(codes, spaces.space.astype(np.intp))
        self.images_ = codes * self.scale_
        self.tags_ = Y.astype(bool)
        self._normalize_arrays()

        sample = base.tuning_sample(len(X))
        candidates = self._candidates({"n_per_tag": COUNTS, "sharpness": SHARPNESSES})
        counts = candidates["n_per_tag"]
        sharpnesses = candidates["sharpness"]
        # As in 2PKNN: the best sharpness hardly depends on the count.
        by_sharpness = self._votes(
            self.images_[sample], sample, counts[len(counts) // 2], sharpnesses
        )
        best = select_best(
            range(len(sharpnesses)), lambda number: base.quality(Y[sample], by_sharpness[number])
        )
        self.sharpness_ = sharpnesses[best]

        def count_quality(count: int) -> float:
            votes = self._votes(self.images_[sample], sample, count, (self.sharpness_,))
            return base.quality(Y[sample], votes[0])

        self.n_per_tag_ = select_best(counts, count_quality)
        rows = np.arange(len(X))
        self._end_fit(Y, self._votes(self.images_, rows, self.n_per_tag_, (self.sharpness_,))[0])
        return self

    def _learn_spaces(self, X: Floats, rng: np.random.Generator) -> Spaces:
        m = X.shape[1]
        view = knn_search.group_numbers(self.groups, m)
        family = knn_search.group_numbers(self.families, m)
        x = X[np.sort(rng.permutation(len(X))[:MAX_IMAGES])]
        copies = 2 if x.min() < 0 else 1
        x = nonnegative(x, copies)
        view = np.tile(view, copies)
        family = np.tile(family, copies)
        squares = np.bincount(view, weights=np.square(x).sum(axis=0, dtype=np.float64))
        # The objective is then of order 1000, far from the smallest numbers of float32.
        column_scale = np.sqrt(1000 / np.where(squares > 0, squares, 1))[view].astype(np.float32)
        blocks = [(family == number, self.n_common) for number in range(family.max() + 1)]
        blocks += [(view == number, int(self.n_individual)) for number in range(view.max() + 1)]
        with single_threaded_blas():
            A, F, space, mask = start(x * column_scale, blocks, rng)
            _, F, history = factorise(x * column_scale, A, F, mask, self.max_iter)
        self.n_iter_ = len(history)
        total = F.sum(axis=1, keepdims=True)
        basis = (F / np.where(total > 0, total, 1)).astype(np.float32)
        return Spaces(basis, space, column_scale)

    def _codes(self, X: Floats) -> Floats:
        """Return the coefficients of images for the fixed basis (non-negative least squares)."""
        copies = self.basis_.shape[1] // X.shape[1]
        length = np.linalg.norm(self.basis_, axis=1)
        # Basis vectors of unit length make the tolerance of the coder relative to the image.
        scale = (1 / np.where(length > 0, length, 1)).astype(np.float32)
        lasso = GroupLasso.of(self.basis_ * scale[:, None], nonnegative=True)
        x = nonnegative(X, copies) * self.column_scale_
        size = np.linalg.norm(x, axis=1, keepdims=True)
        unit = (x / np.where(size > 0, size, 1)).astype(np.float32)
        codes = lasso.encode(unit, sweeps=CODING_SWEEPS, n_jobs=self.n_jobs).codes
        return np.asarray(codes.toarray() * scale * size, np.float32)

    def _votes(
        self, x: Floats, excluded: Rows, count: int, sharpnesses: tuple[float, ...]
    ) -> Floats:
        """Return the scores for each sharpness, s x q x t, without the excluded images (or -1)."""
        shared = [self._search, self._tags, count, sharpnesses]
        parts = Threads(self.n_jobs).map(
            two_pass, [x, excluded], shared, size=knn_search.BATCH_QUERIES
        )
        return np.concatenate(parts, axis=1)

    def _arrays(self) -> dict[str, str]:
        return {
            "basis_": "f4 r w",
            "space_": "i4 r",
            "column_scale_": "f4 w",
            "scale_": "f4 r",
            "images_": "f4 n r",
            "tags_": "tags n t",
        }

    def _prepare(self) -> None:
        if self.basis_.shape[1] not in (self.n_features_in_, 2 * self.n_features_in_):
            raise ModelFileError(
                f"The basis has {self.basis_.shape[1]} columns for {self.n_features_in_} features: "
                "the model is damaged."
            )
        self._search = knn_search.Search(self.images_, self.tags_)
        self._tags = knn_search.TagLists.of(self.tags_)
        self.images_ = self._search.X  # a view: the images are in memory once

    def _scores(self, X: Floats) -> Floats:
        codes = self._codes(X) * self.scale_
        nobody = np.full(len(X), -1)
        return np.asarray(self._votes(codes, nobody, self.n_per_tag_, (self.sharpness_,))[0])


def space_scale(codes: Floats, space: Rows) -> Floats:
    """Return factors by which the spaces contribute equally to a mean distance of one.

    A space whose codes differ by rounding errors only gets no large factor.
    """
    scale = knn_search.balanced_scale(codes, space)
    size = float(np.sqrt(np.square(codes).mean(dtype=np.float64)))
    return np.minimum(scale, np.float32(100 / max(size, 1e-12)))


def nonnegative(X: Floats, copies: int) -> Floats:
    """Return the positive parts of X, and with two copies its negative parts beside them."""
    positive = np.maximum(X, 0)
    return positive if copies == 1 else np.hstack([positive, np.maximum(-X, 0)])


def start(
    X: Floats, blocks: list[tuple[Bools, int]], rng: np.random.Generator
) -> tuple[Floats, Floats, Ints, Bools]:
    """Return coefficients and basis vectors of all blocks, one after the other.

    A block has the columns that its basis vectors may use and their number. The first vectors of
    columns come from X, later ones from the positive part of what earlier ones leave. Also returned
    are the block of each basis vector and its columns.
    """
    A = np.empty((len(X), 0), np.float32)
    F = np.empty((0, X.shape[1]), np.float32)
    sizes = []
    for columns, count in blocks:
        residual = np.maximum(X - A @ F, 0) * columns
        a, f = nndsvd(residual, min(count, len(X), int(columns.sum())), rng)
        A = np.hstack([A, a])
        F = np.vstack([F, f])
        sizes.append(len(f))
    block = np.repeat(np.arange(len(blocks), dtype=np.int32), sizes)
    masks = np.stack([columns for columns, _ in blocks])
    return A, F, block, masks[block]


def nndsvd(X: Floats, rank: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return non-negative factors from singular vectors (Boutsidis and Gallopoulos 2008)."""
    from sklearn.utils.extmath import randomized_svd

    if rank == 0:
        return np.empty((len(X), 0), np.float32), np.empty((0, X.shape[1]), np.float32)
    seed = int(rng.integers(2**31 - 1))
    U, values, V = randomized_svd(X, rank, random_state=seed)
    U = U.T
    # The parts of a pair of equal sign; the larger product stays.
    positive = np.linalg.norm(np.maximum(U, 0), axis=1) * np.linalg.norm(np.maximum(V, 0), axis=1)
    negative = np.linalg.norm(np.minimum(U, 0), axis=1) * np.linalg.norm(np.minimum(V, 0), axis=1)
    sign = np.where(positive >= negative, 1, -1)[:, None]
    u = np.maximum(sign * U, 0)
    v = np.maximum(sign * V, 0)
    length = np.sqrt(values * np.maximum(positive, negative))[:, None]
    return (
        np.ascontiguousarray((length * _unit(u)).T, np.float32),
        np.ascontiguousarray(length * _unit(v), np.float32),
    )


def _unit(rows: Array) -> Array:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1))


def factorise(
    X: Floats, A: Floats, F: Floats, mask: Bools, max_iter: int, tol: float = TOLERANCE
) -> tuple[Floats, Floats, list[float]]:
    """Minimise ``||X - A F||^2`` over non-negative factors, F zero outside ``mask``.

    Hierarchical alternating least squares: every row of F and column of A in turn becomes the
    minimiser with the others fixed. Returns the factors and the objective after each round.
    """
    F = F * mask
    coefficients = np.ascontiguousarray(A.T)
    squares = float(np.square(X).sum(dtype=np.float64))
    history: list[float] = []
    for _ in range(max_iter):
        F = _sweep(F, coefficients @ coefficients.T, coefficients @ X, mask)
        gram = F @ F.T
        inner = F @ X.T
        coefficients = _sweep(coefficients, gram, inner, None)
        fit = np.vdot(coefficients @ coefficients.T, gram) - 2 * np.vdot(coefficients, inner)
        history.append(squares + float(fit))
        if len(history) > 1 and history[-2] - history[-1] <= tol * abs(history[-2]):
            break
    return np.ascontiguousarray(coefficients.T), F, history


def _sweep(rows: Floats, gram: Floats, target: Floats, mask: Bools | None) -> Floats:
    """Minimise ``tr(R' gram R) - 2 tr(R' target)`` over one non-negative row after the other."""
    rows = rows.copy()
    for j in np.flatnonzero(np.diag(gram) > 1e-12):
        row = np.maximum(rows[j] + (target[j] - gram[j] @ rows) / gram[j, j], 0)
        rows[j] = row if mask is None else row * mask[j]
    return rows
