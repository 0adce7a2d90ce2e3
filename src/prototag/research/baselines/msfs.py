"""MSFS: sparse regression of a reduced representation of tags, with graphs of feature groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from prototag.arrays import Array, Floats
from prototag.engine import single_threaded_blas
from prototag.research.baselines import knn_search, neighbour_graph
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, POSITIVE
from prototag.research.baselines.cross_validated import CrossValidatedBaseline, Setting
from prototag.research.baselines.linear_models import LinearBaseline
from prototag.research.baselines.newton_cg import Linear

RANKS = (100, 300)
LOCALITIES = (0.01, 0.1)
SPARSITIES = (0.001, 0.01)
SMOOTHING = 1e-8  # added to squared norms, by which their roots have derivatives at zero
REWEIGHTINGS = 3  # of the regression in each round
CG_ITERATIONS = 15
CG_TOLERANCE = 1e-3  # of the residual, relative to the right-hand side


class Weights(NamedTuple):
    """The weights of the terms of MSFS."""

    consistency: float
    sparsity: float
    view_sparsity: float
    locality: float


class Factors(NamedTuple):
    V: Floats  # n x r, reduced tags of images
    B: Floats  # r x t, orthonormal rows
    W: Array  # m x r


@dataclass(eq=False, repr=False, kw_only=True)
class MSFS(LinearBaseline):
    """Multi-view multi-label sparse feature selection (MSFS).

    Tags Y (centred) are decomposed into a reduced representation V and a basis B, and V is
    regressed on the vectors X (centred) by a matrix W with few rows. Minimises

        ||Y - V B||^2 + b ||X W - V||^2 + g sum_j ||w_j||_2
            + sum_v nu_v (a tr(V' L_v V) + h ||W_v||_F)          s.t. B B' = I

    where L_v is the Laplacian of the nearest neighbours in view v (a feature group), W_v are the
    rows of its columns and ``nu_v = (1 / tr(V' L_v V)) / sum_u (1 / tr(V' L_u V))``. The scores of
    an image are ``x W B`` plus the frequency of the tag.

    The terms are those of the paper, with nu_v and the graph (five neighbours, heat kernel of
    width 1) of a public implementation by other authors. We chose ``B B' = I``: with a free B, V
    could shrink and B grow without end, and the penalties on V and W would vanish. We also chose
    all weights, r, the start (V from the leading singular vectors of Y), nu_v from the starting V
    (fixed, so that the objective cannot rise), and exact steps instead of gradients: B from a
    singular value decomposition, V by conjugate gradients, W by reweighted least squares, whose
    penalties are ``sqrt(||w||^2 + 1e-8)``. The paper selects features for another classifier;
    ``feature_norms_`` ranks them. With one view this is close to MIFS (Jian et al., IJCAI 2016).

    Parameters
    ----------
    n_latent : int or "auto", default="auto"
        r, at most the number of tags and of images. "auto" here and below: selected from a small
        grid on out-of-fold scores.
    consistency : float, default=1.0
        b.
    sparsity : float or "auto", default="auto"
        g, as a share of the value from which W is zero.
    view_sparsity : float, default=0.001
        h, in the same unit.
    locality : float or "auto", default="auto"
        a.
    n_neighbours : int, default=5
    groups : array-like of shape (m,) or None, default=None
        The view of each column.
    max_iter : int, default=20
    tol : float, default=1e-3
        Learning stops when the objective falls by less than this share, as in the public
        implementation.
    threshold, n_folds, n_jobs, random_state
        As in :class:`Logistic`.

    Attributes
    ----------
    coef_ : ndarray of shape (m, t)
        ``W B``.
    intercept_ : ndarray of shape (t,)
    feature_norms_ : ndarray of shape (m,)
        ``||w_j||_2``, by which the paper ranks features.
    n_iter_ : int
        The number of rounds.
    setting_ : dict
        The selected n_latent, sparsity and locality.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    Y. Zhang, J. Wu, Z. Cai and P. S. Yu, "Multi-view multi-label learning with sparse feature
    selection for image annotation", IEEE TMM 2020.
    """

    n_latent: int | str = "auto"
    consistency: float = 1.0
    sparsity: float | str = "auto"
    view_sparsity: float = 0.001
    locality: float | str = "auto"
    n_neighbours: int = 5
    groups: npt.ArrayLike | None = None
    max_iter: int = 20
    tol: float = 1e-3
    feature_norms_: Floats = field(init=False)
    n_iter_: int = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossValidatedBaseline._parameter_constraints,
        "n_latent": [COUNT, AUTO],
        "consistency": [POSITIVE],
        "sparsity": [NOT_NEGATIVE, AUTO],
        "view_sparsity": [NOT_NEGATIVE],
        "locality": [NOT_NEGATIVE, AUTO],
        "n_neighbours": [COUNT],
        "groups": ["array-like", None],
        "max_iter": [COUNT],
        "tol": [NOT_NEGATIVE],
    }
    _values: ClassVar[dict[str, type]] = {**CrossValidatedBaseline._values, "n_iter_": int}
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {
        "n_latent": RANKS,
        "locality": LOCALITIES,
        "sparsity": SPARSITIES,
    }

    def _fit_models(
        self,
        X: Floats,
        Y: sparse.csr_array,
        settings: Sequence[Setting],
        seed: int,  # noqa: ARG002
    ) -> list[Any]:
        view = knn_search.group_numbers(self.groups, X.shape[1])
        graphs = [
            neighbour_graph.heat_graph(
                np.ascontiguousarray(X[:, view == v]), self.n_neighbours, n_jobs=self.n_jobs
            )
            for v in range(view.max() + 1)
        ]
        models = []
        with single_threaded_blas():
            problem = Problem(X, Y, view, [neighbour_graph.laplacian(graph) for graph in graphs])
            for setting in settings:
                start = problem.start(min(int(setting["n_latent"]), *Y.shape))
                unit = problem.sparsity_unit(start.V, self.consistency)
                weights = Weights(
                    self.consistency,
                    setting["sparsity"] * unit,
                    self.view_sparsity * unit,
                    setting["locality"],
                )
                factors, history = problem.minimise(start, weights, self.max_iter, self.tol)
                coef = (factors.W @ factors.B).astype(np.float32)
                intercept = problem.y_mean - problem.x_mean @ coef
                norms = np.linalg.norm(factors.W, axis=1)
                linear = Linear(coef, intercept.astype(np.float32))
                models.append((linear, norms, len(history) - 1))
        return models

    def _model_scores(self, model: Any, X: Floats) -> Floats:
        return super()._model_scores(model[0], X)

    def _set_fitted(self, model: Any) -> None:
        linear, self.feature_norms_, self.n_iter_ = model
        super()._set_fitted(linear)

    def _get_fitted(self) -> Any:
        return super()._get_fitted(), self.feature_norms_, self.n_iter_

    def _arrays(self) -> dict[str, str]:
        return {**super()._arrays(), "feature_norms_": "f4 m"}


class Problem:
    """The objective of MSFS on given images, and its block minimisers.

    Parameters
    ----------
    X, Y : vectors and tags
    view : ndarray of shape (m,)
        The number of the view of each column.
    laplacians : one for each view
    """

    def __init__(
        self,
        X: Floats,
        Y: sparse.csr_array,
        view: npt.NDArray[np.intp],
        laplacians: Sequence[sparse.csr_array],
    ) -> None:
        self.x_mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        self.X = X - self.x_mean
        self.y_mean = np.asarray(Y.mean(axis=0)).ravel().astype(X.dtype)
        self.Y = (Y.toarray() - self.y_mean).astype(X.dtype)
        self.view = view
        self.laplacians = laplacians
        self.gram = (self.X.T @ self.X).astype(np.float64)
        self.nu = np.ones(len(laplacians))

    def start(self, rank: int) -> Factors:
        """Return the leading singular vectors of Y, W by ridge regression, and set nu."""
        vectors = np.linalg.eigh((self.Y.T @ self.Y).astype(np.float64))[1]
        B = np.ascontiguousarray(vectors[:, ::-1][:, :rank].T).astype(self.X.dtype)
        V = self.Y @ B.T
        trace = np.array([np.vdot(V, graph @ V) for graph in self.laplacians], np.float64)
        inverse = 1 / np.maximum(trace, 1e-12)
        self.nu = inverse / inverse.sum()
        ridge = 0.01 * max(float(np.trace(self.gram)) / len(self.gram), 1e-12)
        W = linalg.solve(self.gram + ridge * np.eye(len(self.gram)), self.X.T @ V, assume_a="pos")
        return Factors(V, B, W)

    def sparsity_unit(self, V: Floats, consistency: float) -> float:
        """Return the penalty of rows from which W is zero for this V: the largest gradient."""
        slope = 2 * consistency * np.linalg.norm(self.X.T @ V, axis=1)
        return float(slope.max())

    def minimise(
        self, start: Factors, weights: Weights, max_iter: int, tol: float
    ) -> tuple[Factors, list[float]]:
        """Alternate over the blocks; return the factors and the objective after each round."""
        factors = start
        history = [self.objective(factors, weights)]
        for _ in range(max_iter):
            W = self.update_regression(factors.V, factors.W, weights)
            V = self.update_latent(factors._replace(W=W), weights)
            B = self.update_basis(V)
            factors = Factors(V, B, W)
            history.append(self.objective(factors, weights))
            if history[-2] - history[-1] <= tol * abs(history[-2]):
                break
        return factors, history

    def objective(self, factors: Factors, weights: Weights) -> float:
        """Return the smoothed objective."""
        V, B, W = factors
        rows = np.square(W).sum(axis=1)
        views = np.bincount(self.view, weights=rows)
        graph = sum(
            nu * np.vdot(V, laplacian @ V)
            for nu, laplacian in zip(self.nu, self.laplacians, strict=True)
        )
        return float(
            np.square(self.Y - V @ B).sum(dtype=np.float64)
            + weights.consistency * np.square(self.X @ W.astype(V.dtype) - V).sum(dtype=np.float64)
            + weights.sparsity * np.sqrt(rows + SMOOTHING).sum()
            + weights.view_sparsity * (self.nu * np.sqrt(views + SMOOTHING)).sum()
            + weights.locality * graph
        )

    def update_regression(self, V: Floats, W: Array, weights: Weights) -> Array:
        """Lower the sparse regression of V by reweighted least squares."""
        right = (self.X.T @ V).astype(np.float64)
        for _ in range(REWEIGHTINGS):
            penalty = self.regression_penalty(W, weights)
            system = self.gram.copy()
            # The ridge keeps the system regular without penalties.
            ridge = 1e-9 * max(float(np.trace(self.gram)), 1e-12)
            system[np.diag_indices_from(system)] += penalty / weights.consistency + ridge
            W = linalg.solve(system, right, assume_a="pos", check_finite=False)
        return W

    def regression_penalty(self, W: Array, weights: Weights) -> Array:
        """Return half the curvature of the quadratic majoriser of both penalties, by row."""
        rows = np.square(W).sum(axis=1)
        views = np.bincount(self.view, weights=rows)
        by_row = weights.sparsity / (2 * np.sqrt(rows + SMOOTHING))
        by_view = weights.view_sparsity * self.nu / (2 * np.sqrt(views + SMOOTHING))
        return np.asarray(by_row + by_view[self.view])

    def update_latent(self, factors: Factors, weights: Weights) -> Floats:
        """Lower the objective in V by conjugate gradients, for all columns at once."""
        V, B, W = factors
        right = self.Y @ B.T + np.float32(weights.consistency) * (self.X @ W.astype(V.dtype))
        diagonal = np.float32(1 + weights.consistency)

        def system(U: Floats) -> Floats:
            image = diagonal * U
            for nu, laplacian in zip(self.nu, self.laplacians, strict=True):
                image += np.float32(weights.locality * nu) * (laplacian @ U)
            return image

        if weights.locality == 0:
            return np.asarray(right / diagonal)
        residual = right - system(V)
        direction = residual
        squares = np.einsum("ij,ij->j", residual, residual)
        target = CG_TOLERANCE**2 * np.einsum("ij,ij->j", right, right)
        for _ in range(CG_ITERATIONS):
            if not (squares > target).any():
                break
            image = system(direction)
            along = np.einsum("ij,ij->j", direction, image)
            length = np.where(along > 0, squares / np.where(along > 0, along, 1), 0)
            V = V + length * direction
            residual = residual - length * image
            new = np.einsum("ij,ij->j", residual, residual)
            direction = residual + new / np.where(squares > 0, squares, 1) * direction
            squares = new
        return np.asarray(V)

    def update_basis(self, V: Floats) -> Floats:
        """Minimise over B with orthonormal rows (orthogonal Procrustes problem)."""
        P, _, Q = np.linalg.svd((V.T @ self.Y).astype(np.float64), full_matrices=False)
        return np.asarray(P @ Q, V.dtype)
