"""AHL: labels propagated over a hypergraph with learned edge weights, and a learned projection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from prototag.arrays import Array, Doubles, Floats
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.research.baselines import knn_search
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, POSITIVE
from prototag.research.baselines.cross_validated import CrossValidatedBaseline, Setting

SHARE = Interval(Real, 0, 1, closed="both")
SHARPNESSES = (8.0, 16.0)
PROJECTIONS = (0.0, 0.3)
VOTERS = 80  # training images that a new image receives soft tags from
CG_STEPS = 50
CG_TOLERANCE = 1e-5  # of the residual, relative to the right-hand side


class Propagation(NamedTuple):
    """Soft tags of the training images, and the projection to tags."""

    images: Floats  # n x m, scaled by ``scale``
    scale: float
    soft: Floats  # n x t
    coef: Floats  # m x t
    intercept: Floats  # t
    weights: Floats  # n, of the hyperedges
    sharpness: float
    projection: float


@dataclass(eq=False, repr=False)
class AHL(CrossValidatedBaseline):
    """Adaptive hypergraph learning (after Tang et al. 2019): edge weights are learned.

    Every training image and its k nearest are a hyperedge e, with incidence
    ``h_ie = exp(-d(x_i, x_e) / mean)`` over the mean distance of neighbours. Minimises over soft
    tags F, edge weights w >= 0 with mean one, and a linear projection (P, b)

        tr(F' L(w) F) + trust ||F - Y||^2
            + agreement (||X P + b - F||^2 + ridge ||P||^2) + spread ||w||^2,
        L(w) = diag(H w) - H diag(w) D_e^-1 H',   D_e = diag(column sums of H)

    by exact steps in turn: a ridge regression for P, conjugate gradients for F, and the projection
    of w on the simplex, because the objective is linear in w but for its penalty. A new image is
    scored by

        projection (x P + b) + (1 - projection) sum_i v_i F_i

    with ``v_i`` proportional to ``exp(-sharpness d(x, x_i))`` over the 80 nearest training images:
    one step of propagation. Distances d are squared, in units of their mean.

    The abstract says: labels are propagated over a hypergraph that is learned, a projection to a
    latent space is learned with it, and unlabeled images take part. What adapts (the weights), the
    unnormalised Laplacian, on which all steps are exact, and the rule for new images are our
    choices. The method is transductive in print; here unlabeled test images take no part, as for
    all baselines.

    Parameters
    ----------
    n_neighbours : int, default=20
        k.
    sharpness : float or "auto", default="auto"
        "auto" selects one of two values on out-of-fold scores.
    projection : float or "auto", default="auto"
        The share of the projection in the score. "auto" selects one of two values.
    trust, agreement, ridge, spread : float
        Weights of the terms. ``ridge`` is relative to the images times the variance of a column,
        ``spread`` to the mean cost of a hyperedge at F = Y.
    n_rounds : int, default=3
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds.

    Attributes
    ----------
    images_ : ndarray of shape (n, m)
    soft_tags_ : ndarray of shape (n, t)
        F.
    edge_weights_ : ndarray of shape (n,)
    coef_ : ndarray of shape (m, t)
    intercept_ : ndarray of shape (t,)
    scale_ : float
    setting_ : dict
        The selected sharpness and projection.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    C. Tang, X. Liu, P. Wang, C. Zhang, M. Li and L. Wang, "Adaptive hypergraph embedded
    semi-supervised multi-label image annotation", IEEE TMM 21, 2019.
    """

    n_neighbours: int = 20
    _: KW_ONLY
    sharpness: float | str = "auto"
    projection: float | str = "auto"
    trust: float = 10.0
    agreement: float = 1.0
    ridge: float = 0.02
    spread: float = 1.0
    n_rounds: int = 3
    images_: Floats = field(init=False)
    soft_tags_: Floats = field(init=False)
    edge_weights_: Floats = field(init=False)
    coef_: Floats = field(init=False)
    intercept_: Floats = field(init=False)
    scale_: float = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossValidatedBaseline._parameter_constraints,
        "n_neighbours": [COUNT],
        "sharpness": [NOT_NEGATIVE, AUTO],
        "projection": [SHARE, AUTO],
        "trust": [POSITIVE],
        "agreement": [NOT_NEGATIVE],
        "ridge": [POSITIVE],
        "spread": [POSITIVE],
        "n_rounds": [COUNT],
    }
    _values: ClassVar[dict[str, type]] = {**CrossValidatedBaseline._values, "scale_": float}
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {
        "sharpness": SHARPNESSES,
        "projection": PROJECTIONS,
    }

    def _fit_models(
        self,
        X: Floats,
        Y: sparse.csr_array,
        settings: Sequence[Setting],
        seed: int,  # noqa: ARG002
    ) -> list[Propagation]:
        scale = float(knn_search.balanced_scale(X, np.zeros(X.shape[1], np.intp))[0])
        images = X * np.float32(scale)
        k = min(self.n_neighbours, max(len(X) - 1, 1))
        near = knn_search.Search(images).find_all(images, k, exclude_self=True, n_jobs=self.n_jobs)
        ridge = self.ridge * len(X) * max(float(X.var(axis=0, dtype=np.float64).mean()), 1e-12)
        with single_threaded_blas():
            problem = Problem.of(
                incidence(near), X, Y.toarray(), self.trust, self.agreement, ridge, self.spread
            )
            state = problem.minimise(self.n_rounds)
        return [
            Propagation(
                images,
                scale,
                np.ascontiguousarray(state.soft, np.float32),
                np.ascontiguousarray(state.coef, np.float32),
                np.asarray(state.intercept, np.float32),
                np.asarray(state.weights, np.float32),
                setting["sharpness"],
                setting["projection"],
            )
            for setting in settings
        ]

    def _model_scores(self, model: Propagation, X: Floats) -> Floats:
        search = knn_search.Search(model.images)
        near = search.find_all(X * np.float32(model.scale), VOTERS, n_jobs=self.n_jobs)
        weight = near.weights(model.sharpness)
        shared = [model.soft, model.coef, model.intercept, model.projection]
        return map_rows(
            Threads(self.n_jobs),
            propagate_batch,
            [X, near.index, weight],
            shared,
            size=knn_search.BATCH_QUERIES,
        )

    def _set_fitted(self, model: Propagation) -> None:
        self.images_ = model.images
        self.scale_ = model.scale
        self.soft_tags_ = model.soft
        self.edge_weights_ = model.weights
        self.coef_ = model.coef
        self.intercept_ = model.intercept

    def _get_fitted(self) -> Propagation:
        return Propagation(
            self.images_,
            self.scale_,
            self.soft_tags_,
            self.coef_,
            self.intercept_,
            self.edge_weights_,
            self.setting_["sharpness"],
            self.setting_["projection"],
        )

    def _arrays(self) -> dict[str, str]:
        return {
            "images_": "f4 n m",
            "soft_tags_": "f4 n t",
            "edge_weights_": "f4 n",
            "coef_": "f4 m t",
            "intercept_": "f4 t",
        }


def propagate_batch(
    x: Floats,
    index: Array,
    weight: Floats,
    soft: Floats,
    coef: Floats,
    intercept: Floats,
    projection: float,
) -> Floats:
    """Return the scores of a batch of images from their neighbours and the projection."""
    q, k = index.shape
    votes = sparse.csr_array(
        (weight.ravel(), index.ravel(), np.arange(0, q * k + 1, k)), shape=(q, len(soft))
    )
    scores = np.float32(1 - projection) * (votes @ soft)
    if projection > 0:
        scores += np.float32(projection) * (x @ coef + intercept)
    return np.asarray(scores, np.float32)


def incidence(near: knn_search.Neighbours) -> sparse.csr_array:
    """Return H, n x n: each image and its neighbours are an edge (a column)."""
    n, k = near.index.shape
    mean = float(near.distance.mean())
    value = np.exp(-near.distance / (mean if mean > 0 else 1)) * near.present()
    members = np.column_stack([np.arange(n), near.index]).ravel()
    values = np.column_stack([np.ones(n), value]).ravel().astype(np.float32)
    by_edge = sparse.csr_array((values, members, np.arange(0, members.size + 1, k + 1)), (n, n))
    by_edge.sum_duplicates()
    return sparse.csr_array(by_edge.T.tocsr())


class State(NamedTuple):
    soft: Array  # n x t
    coef: Array  # m x t
    intercept: Array  # t
    weights: Array  # n


class Problem(NamedTuple):
    """The objective of :class:`AHL` and its exact steps."""

    H: sparse.csr_array  # n x e
    X: Array
    Y: Array
    trust: float
    agreement: float
    ridge: float
    spread: float

    @classmethod
    def of(
        cls,
        H: sparse.csr_array,
        X: Array,
        Y: Array,
        trust: float,
        agreement: float,
        ridge: float,
        spread: float,
    ) -> Problem:
        """Return the problem with ``spread`` in units of the mean cost of an edge at F = Y."""
        problem = cls(H, X, Y, trust, agreement, ridge, 1.0)
        unit = float(problem.edge_costs(Y).mean())
        return problem._replace(spread=spread * (unit if unit > 0 else 1.0))

    def objective(self, state: State) -> float:
        F, P, b, w = state
        difference = self.X @ P + b - F
        projection = np.square(difference).sum() + self.ridge * np.square(P).sum()
        return float(
            w @ self.edge_costs(F)
            + self.trust * np.square(F - self.Y).sum()
            + self.agreement * projection
            + self.spread * np.square(w).sum()
        )

    def laplacian_product(self, weights: Array, F: Array) -> Array:
        """Return ``L(w) F``."""
        size = np.asarray(self.H.sum(axis=0)).ravel()
        within = (weights / size)[:, None] * (self.H.T @ F)
        return np.asarray((self.H @ weights)[:, None] * F - self.H @ within)

    def edge_costs(self, F: Array) -> Doubles:
        """Return ``c`` with ``tr(F' L(w) F) = w . c``: the spread of F within each edge."""
        size = np.asarray(self.H.sum(axis=0), np.float64).ravel()
        squares = self.H.T @ np.square(F).sum(axis=1, dtype=np.float64)
        sums = np.square(self.H.T @ F).sum(axis=1, dtype=np.float64)
        return np.asarray(np.maximum(squares - sums / size, 0), np.float64)

    def project(self, F: Array) -> tuple[Array, Array]:
        """Return the ridge regression of F on X, with an intercept."""
        mean = self.X.mean(axis=0, dtype=np.float64)
        centred = self.X.astype(np.float64) - mean
        gram = centred.T @ centred
        gram[np.diag_indices_from(gram)] += self.ridge
        middle = F.mean(axis=0, dtype=np.float64)
        P = np.linalg.solve(gram, centred.T @ (F - middle))
        return P.astype(self.X.dtype), (middle - mean @ P).astype(self.X.dtype)

    def propagate(self, state: State) -> Array:
        """Minimise over F by conjugate gradients, from the present F."""
        F, P, b, w = state
        target = self.trust * self.Y + self.agreement * (self.X @ P + b)
        diagonal = self.trust + self.agreement
        weights = w.astype(F.dtype)

        def product(V: Array) -> Array:
            return np.asarray(self.laplacian_product(weights, V) + F.dtype.type(diagonal) * V)

        return conjugate_gradients(product, target.astype(F.dtype), F)

    def weigh(self, F: Array) -> Doubles:
        """Minimise ``w . c + spread ||w||^2`` over w >= 0 with mean one."""
        cost = self.edge_costs(F) / (2 * self.spread)
        return to_simplex(-cost, float(len(cost)))

    def minimise(self, rounds: int) -> State:
        """Alternate the exact steps, from F = Y and equal weights; the objective never rises."""
        Y = self.Y.astype(self.X.dtype)
        state = State(Y, *self.project(Y), np.ones(self.H.shape[1]))
        for _ in range(rounds):
            state = state._replace(soft=self.propagate(state))
            coef, intercept = self.project(state.soft)
            state = State(state.soft, coef, intercept, self.weigh(state.soft))
        return state


def conjugate_gradients(product: Any, target: Array, start: Array) -> Array:
    """Solve a positive definite system for all columns together, each with its own steps."""
    solution = start.copy()
    residual = target - product(solution)
    direction = residual.copy()
    square = np.einsum("ij,ij->j", residual, residual)
    enough = CG_TOLERANCE**2 * np.maximum(np.einsum("ij,ij->j", target, target), 1e-30)
    for _ in range(CG_STEPS):
        if (square <= enough).all():
            break
        image = product(direction)
        curvature = np.einsum("ij,ij->j", direction, image)
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0)
        solution += step * direction
        residual -= step * image
        last = square
        square = np.einsum("ij,ij->j", residual, residual)
        direction = residual + np.divide(square, last, out=np.zeros_like(last), where=last > 0) * (
            direction
        )
    return solution


def to_simplex(values: Doubles, total: float) -> Doubles:
    """Project on the vectors that are not negative and have this sum."""
    falling = np.sort(values)[::-1]
    excess = np.cumsum(falling) - total
    count = np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling - excess / count > 0)[-1]
    return np.asarray(np.maximum(values - excess[last] / (last + 1), 0))
