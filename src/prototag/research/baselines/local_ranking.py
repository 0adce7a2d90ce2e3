"""RPLRF: low-rank models that rank the tags of images, one for each neighbourhood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from sklearn.utils._param_validation import StrOptions

from prototag.arrays import Array, Doubles, Floats, Rows
from prototag.engine import Threads, map_rows
from prototag.mcdl.kmeans import k_means, nearest_centroids
from prototag.research.baselines import knn_search
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, POSITIVE
from prototag.research.baselines.cross_validated import CrossValidatedBaseline, Setting

DECAYS = (1e-3, 1e-2)
RIDGE = 0.1  # of the regression from which learning starts, per image
NEVER = -1e6  # is below every score
STEPS = 6  # of L-BFGS, for each factor in a round
BATCH_IMAGES = 256


class Cells(NamedTuple):
    """Centres of the neighbourhoods, and the model of each."""

    centres: Floats  # c x m
    bases: Floats  # c x m x r
    offsets: Floats  # c x r
    factors: Floats  # c x r x t


@dataclass(eq=False, repr=False)
class RPLRF(CrossValidatedBaseline):
    """Ranking-preserving low-rank factorisation by cells (after Li, Shen, Liu and Zhang 2018).

    For a set N of ``n_local`` near images, with z the vectors relative to their mean and a
    constant, minimises over U ((m + 1) x r) and V (r x t), with F = Z U V, present tags P_i and
    absent tags Q_i,

        1/|N| { sum_i sum_(p in P_i, q in Q_i) max(0, 1 - f_ip + f_iq)^2 / (|P_i| |Q_i|)
                + similarity tr(F' L_N F) + correlation tr(F L_T F') }
            + decay (||U||^2 + ||V||^2)

    where L_N is the Laplacian of similarities ``exp(-d_ij / mean) / |N|`` of the images, and L_T
    that of the cosines of tags over all images, in units of their mean degree. Learning starts from
    the truncated singular value decomposition of a ridge regression, and minimises over U and V in
    turn by L-BFGS; each problem is convex. A score is ``z U V`` minus its mean over tags, which
    does not change the ranking.

    ``scope="cells"``: the sets are the images nearest to k-means centroids, and a new image is
    scored by the model of its nearest centroid; with one cell and ``n_local`` of all images this is
    a global model. ``scope="image"``: the paper's way, a set and a fit for each new image, in some
    50 ms per image.

    The abstract says: a local training set for each test image, a low-rank factorisation of the
    coefficients, learned by the ranking of tags, regularised by similarities of samples and
    correlations of tags. The loss, its normalisation, both Laplacians, cells, start and all values
    are our choices.

    Parameters
    ----------
    rank : int, default=30
        r.
    n_local : int, default=200
    scope : {"cells", "image"}, default="cells"
    n_cells : int, default=100
        At most one for every two images.
    loss : {"squared hinge", "squared"}, default="squared hinge"
        "squared" has ``(1 - f_ip + f_iq)^2``, in closed form over pairs.
    similarity, correlation : float, default=0.1
    decay : float or "auto", default="auto"
        "auto" selects one of two values on out-of-fold scores.
    n_rounds : int, default=3
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds and initializes k-means.

    Attributes
    ----------
    centres_ : ndarray of shape (c, m)
    bases_ : ndarray of shape (c, m, r)
    offsets_ : ndarray of shape (c, r)
    factors_ : ndarray of shape (c, r, t)
        The model of cell c is ``(x bases_[c] + offsets_[c]) factors_[c]``.
    images_, tags_
        The training images, with ``scope="image"`` instead of the cells.
    setting_ : dict
        The selected decay.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    X. Li, B. Shen, B.-D. Liu and Y.-J. Zhang, "Ranking-preserving low-rank factorization for image
    annotation with missing labels", IEEE TMM 2018.
    """

    rank: int = 30
    _: KW_ONLY
    n_local: int = 200
    scope: str = "cells"
    n_cells: int = 100
    loss: str = "squared hinge"
    similarity: float = 0.1
    correlation: float = 0.1
    decay: float | str = "auto"
    n_rounds: int = 3
    centres_: Floats = field(init=False)
    bases_: Floats = field(init=False)
    offsets_: Floats = field(init=False)
    factors_: Floats = field(init=False)
    images_: Floats = field(init=False)
    tags_: sparse.csr_array = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossValidatedBaseline._parameter_constraints,
        "rank": [COUNT],
        "n_local": [COUNT],
        "scope": [StrOptions({"cells", "image"})],
        "n_cells": [COUNT],
        "loss": [StrOptions({"squared hinge", "squared"})],
        "similarity": [NOT_NEGATIVE],
        "correlation": [NOT_NEGATIVE],
        "decay": [POSITIVE, AUTO],
        "n_rounds": [COUNT],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"decay": DECAYS}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Any]:
        if self.scope == "image":
            return [Pool(X, Y.astype(bool), setting["decay"]) for setting in settings]
        centres = k_means(X, min(self.n_cells, max(1, len(X) // 2)), np.random.default_rng(seed))
        near = knn_search.Search(X).find_all(centres, min(self.n_local, len(X)))
        tag_laplacian = correlation_laplacian(Y)
        models = []
        for setting in settings:
            shared = [X, Y, tag_laplacian, self._weights(setting["decay"])]
            parts = Threads(self.n_jobs).map(fit_batch, [near.index], shared, size=1)
            bases, offsets, factors = (
                np.concatenate([np.stack([getattr(one, name) for one in part]) for part in parts])
                for name in LocalModel._fields
            )
            models.append(Cells(centres, bases, offsets, factors))
        return models

    def _weights(self, decay: float) -> Weights:
        hinge = self.loss == "squared hinge"
        return Weights(self.rank, hinge, self.similarity, self.correlation, decay, self.n_rounds)

    def _model_scores(self, model: Any, X: Floats) -> Floats:
        if isinstance(model, Pool):
            search = knn_search.Search(model.images)
            tags = model.tags.astype(np.float32)
            shared = [search, tags, correlation_laplacian(tags), self._weights(model.decay)]
            shared.append(min(self.n_local, len(model.images)))
            return map_rows(Threads(self.n_jobs), image_batch, [X], shared, size=1)
        cell = nearest_centroids(X, model.centres)[0]
        return map_rows(
            Threads(self.n_jobs), cell_batch, [X, cell], list(model[1:]), size=BATCH_IMAGES
        )

    def _set_fitted(self, model: Any) -> None:
        if isinstance(model, Pool):
            self.images_ = model.images
            self.tags_ = model.tags
        else:
            self.centres_, self.bases_, self.offsets_, self.factors_ = model

    def _get_fitted(self) -> Any:
        if self.scope == "image":
            return Pool(self.images_, self.tags_, self.setting_["decay"])
        return Cells(self.centres_, self.bases_, self.offsets_, self.factors_)

    def _arrays(self) -> dict[str, str]:
        if self.scope == "image":
            return {"images_": "f4 n m", "tags_": "tags n t"}
        return {
            "centres_": "f4 c m",
            "bases_": "f4 c m r",
            "offsets_": "f4 c r",
            "factors_": "f4 c r t",
        }


class Pool(NamedTuple):
    """The images from which the local set of each new image is taken."""

    images: Floats
    tags: sparse.csr_array
    decay: float


class Weights(NamedTuple):
    rank: int
    hinge: bool
    similarity: float
    correlation: float
    decay: float
    n_rounds: int


class LocalModel(NamedTuple):
    basis: Floats  # m x r
    offset: Floats  # r
    factor: Floats  # r x t

    def scores(self, x: Floats) -> Floats:
        return np.asarray((x @ self.basis + self.offset) @ self.factor)


def fit_batch(
    near: Array, X: Floats, Y: sparse.csr_array, tag_laplacian: Doubles, weights: Weights
) -> list[LocalModel]:
    """Fit the models of a batch of neighbourhoods, which are rows of X."""
    return [fit_local(X[rows], Y[rows].toarray(), tag_laplacian, weights) for rows in near]


def image_batch(
    x: Floats,
    search: knn_search.Search,
    Y: sparse.csr_array,
    tag_laplacian: Doubles,
    weights: Weights,
    n_local: int,
) -> Floats:
    """Return the scores of new images, each by a model of its nearest training images."""
    near = search.find(x, n_local).index
    scores = np.empty((len(x), Y.shape[1]), np.float32)
    for i, rows in enumerate(near):
        model = fit_local(search.X[rows], Y[rows].toarray(), tag_laplacian, weights)
        scores[i] = model.scores(x[i : i + 1])[0]
    return scores


def cell_batch(x: Floats, cell: Rows, bases: Floats, offsets: Floats, factors: Floats) -> Floats:
    """Return the scores of images by the models of their cells."""
    scores = np.empty((len(x), factors.shape[2]), np.float32)
    for number in np.unique(cell):
        rows = np.flatnonzero(cell == number)
        model = LocalModel(bases[number], offsets[number], factors[number])
        scores[rows] = model.scores(x[rows])
    return scores


def correlation_laplacian(Y: sparse.csr_array) -> Doubles:
    """Return the Laplacian of the cosines of tags, in units of their mean degree."""
    tags = Y.astype(np.float64)
    together = (tags.T @ tags).toarray()
    root = np.sqrt(np.maximum(np.diagonal(together), 1))
    cosine = together / root / root[:, None]
    np.fill_diagonal(cosine, 0)
    degree = cosine.sum(axis=1)
    unit = float(degree.mean())
    return np.asarray((np.diag(degree) - cosine) / (unit if unit > 0 else 1))


def similarity_laplacian(z: Doubles) -> Doubles:
    """Return the Laplacian of the similarities of images."""
    squares = np.square(z).sum(axis=1)
    distance = np.maximum(squares[:, None] + squares - 2 * (z @ z.T), 0)
    mean = float(distance.mean())
    similarity = np.exp(-distance / (mean if mean > 0 else 1)) / len(z)
    return np.asarray(np.diag(similarity.sum(axis=1)) - similarity)


def fit_local(x: Floats, y: Array, tag_laplacian: Doubles, weights: Weights) -> LocalModel:
    """Fit the low-rank model of a set of images."""
    mean = x.mean(axis=0, dtype=np.float64)
    centred = x - mean
    axes = np.eye(x.shape[1])
    if len(x) < x.shape[1]:  # the model is in the row space of the images
        axes = np.linalg.svd(centred, full_matrices=False)[2].T
    length = np.sqrt(np.square(centred).sum() / len(x))
    axes = axes / (length if length > 1e-6 else 1)
    problem = Problem.of(centred @ axes, y, tag_laplacian, weights)
    U, V = problem.minimise()
    basis = axes @ U[:-1]
    return LocalModel(
        basis.astype(np.float32),
        (U[-1] - mean @ basis).astype(np.float32),
        (V - V.mean(axis=1, keepdims=True)).astype(np.float32),
    )


class Pairs(NamedTuple):
    """Pairs of images and present tags, of images that also have absent tags."""

    image: Rows
    tag: Rows
    start: Rows  # the first pair of each image in ``unique``
    unique: Rows
    weight: Doubles  # 1 / (present absent), of each pair

    @classmethod
    def of(cls, y: Array) -> Pairs:
        present = y.sum(axis=1)
        absent = y.shape[1] - present
        image, tag = np.nonzero((y > 0) & (absent > 0)[:, None])
        unique, start = np.unique(image, return_index=True)
        return cls(image, tag, start, unique, 1.0 / (present * np.maximum(absent, 1))[image])

    @staticmethod
    def absent_only(y: Array) -> Array:
        """Return what is added to scores so that present tags are never above a margin."""
        return np.where(y > 0, y.dtype.type(NEVER), 0).astype(y.dtype)


class Problem(NamedTuple):
    """The objective of :class:`RPLRF` for one set of images."""

    Z: Doubles  # p x (d + 1)
    y: Array  # p x t; its dtype is the precision of the hinge
    pairs: Pairs
    image_laplacian: Doubles  # p x p
    tag_laplacian: Doubles  # t x t
    weights: Weights

    @classmethod
    def of(cls, z: Doubles, y: Array, tag_laplacian: Doubles, weights: Weights) -> Problem:
        Z = np.column_stack([z, np.ones(len(z))]).astype(np.float64)
        return cls(Z, y, Pairs.of(y), similarity_laplacian(Z), tag_laplacian, weights)

    def ranking(self, F: Doubles) -> tuple[float, Doubles]:
        """Return the ranking loss and its gradient."""
        return self._hinge(F) if self.weights.hinge else self._squared(F)

    def _hinge(self, F: Doubles) -> tuple[float, Doubles]:
        image, tag, start, unique, weight = self.pairs
        gradient = np.zeros_like(F)
        if len(image) == 0:
            return 0.0, gradient
        # Images x tags per pair: most of the time, so in the precision of the tags.
        f = F.astype(self.y.dtype)
        excess = (f + self.pairs.absent_only(self.y))[image]
        excess += (1 - f[image, tag])[:, None]
        np.maximum(excess, 0, out=excess)
        by_tag = weight.astype(f.dtype)
        loss = float(by_tag @ np.einsum("pt,pt->p", excess, excess))
        excess *= by_tag[:, None]
        gradient[unique] = 2 * np.add.reduceat(excess, start, axis=0)
        np.subtract.at(gradient, (image, tag), 2 * excess.sum(axis=1))
        return loss, gradient

    def _squared(self, F: Doubles) -> tuple[float, Doubles]:
        """Return the squared loss of all pairs from the means over present and absent tags."""
        present = self.y.sum(axis=1, keepdims=True)
        absent = self.y.shape[1] - present
        usable = (present > 0) & (absent > 0)
        P = np.where(usable, self.y / np.maximum(present, 1), 0)
        Q = np.where(usable, (1 - self.y) / np.maximum(absent, 1), 0)
        mean_p = (P * F).sum(axis=1, keepdims=True)
        mean_q = (Q * F).sum(axis=1, keepdims=True)
        squares = ((P + Q) * F * F).sum(axis=1, keepdims=True)
        loss = np.where(usable, 1 - 2 * (mean_p - mean_q) + squares - 2 * mean_p * mean_q, 0)
        gradient = 2 * ((P + Q) * F - P * (1 + mean_q) + Q * (1 - mean_p))
        return float(loss.sum()), gradient

    def value(self, U: Doubles, V: Doubles) -> tuple[float, Doubles, Doubles]:
        """Return the objective and its gradients for U and V."""
        weights = self.weights
        projected = self.Z @ U
        F = projected @ V
        loss, slope = self.ranking(F)
        smooth = weights.similarity * (self.image_laplacian @ F)
        smooth += weights.correlation * (F @ self.tag_laplacian)
        loss += float((smooth * F).sum())
        slope = (slope + 2 * smooth) / len(F)
        penalty = weights.decay * (np.square(U).sum() + np.square(V).sum())
        return (
            loss / len(F) + float(penalty),
            self.Z.T @ (slope @ V.T) + 2 * weights.decay * U,
            projected.T @ slope + 2 * weights.decay * V,
        )

    def _left(self, V: Doubles, U: Doubles) -> tuple[float, Doubles]:
        loss, gradient, _ = self.value(U, V)
        return loss, gradient

    def _right(self, U: Doubles, V: Doubles) -> tuple[float, Doubles]:
        loss, _, gradient = self.value(U, V)
        return loss, gradient

    def start(self) -> tuple[Doubles, Doubles]:
        """Return the factors of the truncated ridge regression, padded with zeros."""
        gram = self.Z.T @ self.Z
        gram[np.diag_indices_from(gram)] += RIDGE * len(self.Z)
        W = np.linalg.solve(gram, self.Z.T @ self.y)
        left, value, right = np.linalg.svd(W, full_matrices=False)
        r = self.weights.rank
        root = np.sqrt(value[:r])
        U = np.zeros((len(W), r))
        V = np.zeros((r, W.shape[1]))
        U[:, : len(root)] = left[:, :r] * root
        V[: len(root)] = root[:, None] * right[:r]
        return U, V

    def minimise(self) -> tuple[Doubles, Doubles]:
        """Minimise over U and V in turn; the objective never rises."""
        U, V = self.start()
        for _ in range(self.weights.n_rounds):
            U = descend(partial(self._left, V), U)
            V = descend(partial(self._right, U), V)
        return U, V


def descend(value: Callable[[Doubles], tuple[float, Doubles]], start: Doubles) -> Doubles:
    """Take steps of L-BFGS; the result is never worse than the start."""

    def flat(point: Doubles) -> tuple[float, Doubles]:
        loss, gradient = value(point.reshape(start.shape))
        return loss, gradient.ravel()

    result = minimize(flat, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return np.asarray(result.x.reshape(start.shape))
