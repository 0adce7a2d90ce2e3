"""AHL: a Laplacian of edges, exact steps, and the ridge regression in the limit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import Ridge

from prototag.research.baselines import AHL, knn_search
from prototag.research.baselines.hypergraph import Problem, State, incidence, to_simplex
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=80, t=5, k=10, m=8, random_state=0)


@pytest.fixture(scope="module")
def problem(data):
    near = knn_search.Search(data.X).find_all(data.X, 4, exclude_self=True)
    H = incidence(near).astype(np.float64)
    return Problem.of(H, data.X.astype(float), data.Y.toarray().astype(float), 2.0, 0.7, 0.5, 0.3)


def laplacian(problem, weights):
    """L(w), dense, from its definition."""
    H = problem.H.toarray()
    within = H @ np.diag(weights / H.sum(axis=0)) @ H.T
    return np.diag(H @ weights) - within


def test_an_edge_is_an_image_and_its_neighbours(data):
    near = knn_search.Search(data.X).find_all(data.X, 4, exclude_self=True)
    H = incidence(near).toarray()
    for edge in range(80):
        members = {edge, *near.index[edge].tolist()}
        assert set(np.flatnonzero(H[:, edge]).tolist()) == members
        assert H[edge, edge] == 1
    assert_allclose(H[near.index[3], 3], np.exp(-near.distance[3] / near.distance.mean()), 1e-5)


def test_the_laplacian_is_not_negative_and_ignores_constants(problem):
    weights = np.linspace(0, 2, 80)
    L = laplacian(problem, weights)
    assert np.linalg.eigvalsh(L).min() > -1e-10
    assert_allclose(L @ np.ones(80), 0, atol=1e-10)
    F = np.random.default_rng(0).random((80, 3))
    assert_allclose(problem.laplacian_product(weights, F), L @ F, atol=1e-10)
    assert_allclose(weights @ problem.edge_costs(F), np.trace(F.T @ L @ F), rtol=1e-8)


def test_edges_of_two_images_are_half_a_graph(data):
    pairs = [(0, 1), (1, 2), (5, 7), (0, 7)]
    H = np.zeros((10, len(pairs)))
    W = np.zeros((10, 10))
    for edge, (i, j) in enumerate(pairs):
        H[[i, j], edge] = 1
        W[i, j] = W[j, i] = edge + 1
    problem = Problem(sparse.csr_array(H), data.X[:10], data.Y[:10].toarray(), 1, 1, 1, 1)
    graph = np.diag(W.sum(axis=1)) - W
    F = np.random.default_rng(0).random((10, 2))
    weights = np.arange(1.0, 5.0)
    assert_allclose(problem.laplacian_product(weights, F), graph @ F / 2, atol=1e-12)


def test_every_step_lowers_the_objective(problem):
    state = State(problem.Y, *problem.project(problem.Y), np.ones(80))
    values = [problem.objective(state)]
    for _ in range(4):
        state = state._replace(soft=problem.propagate(state))
        values.append(problem.objective(state))
        coef, intercept = problem.project(state.soft)
        state = state._replace(coef=coef, intercept=intercept)
        values.append(problem.objective(state))
        state = state._replace(weights=problem.weigh(state.soft))
        values.append(problem.objective(state))
    assert (np.diff(values) <= 1e-8 * values[0]).all()
    assert values[-1] < 0.99 * values[0]
    assert_allclose(state.weights.sum(), 80)


def test_soft_tags_solve_the_linear_system(problem):
    weights = np.linspace(0.5, 1.5, 80)
    state = State(problem.Y, *problem.project(problem.Y), weights)
    system = laplacian(problem, weights) + 2.7 * np.eye(80)
    target = 2.0 * problem.Y + 0.7 * (problem.X @ state.coef + state.intercept)
    assert_allclose(problem.propagate(state), np.linalg.solve(system, target), atol=1e-4)


def test_weights_are_those_of_a_general_solver(problem):
    F = np.random.default_rng(0).random((80, 5))
    cost = problem.edge_costs(F)
    weights = problem.weigh(F)
    unit = problem.spread

    def value(w):
        return (w @ cost) / unit + np.square(w).sum(), cost / unit + 2 * w

    found = minimize(
        value, np.ones(80), jac=True, method="SLSQP", bounds=[(0, None)] * 80,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 80, "jac": lambda _: np.ones(80)},
    )  # fmt: skip
    assert value(weights)[0] <= value(found.x)[0] + 1e-6
    assert_allclose(weights, found.x, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_projection_on_the_simplex_is_the_nearest_point(seed):
    rng = np.random.default_rng(seed)
    values = 3 * rng.standard_normal(12)
    point = to_simplex(values, 5.0)
    assert_allclose(point.sum(), 5.0)
    assert (point >= 0).all()
    for _ in range(50):
        other = rng.dirichlet(np.ones(12)) * 5
        assert np.square(point - values).sum() <= np.square(other - values).sum() + 1e-9


def test_with_full_trust_the_projection_is_ridge_regression(data):
    options = {"trust": 1e6, "ridge": 0.1, "sharpness": 8.0, "projection": 1.0, "threshold": 0.5}
    model = AHL(5, **options).fit(data.X, data.Y)
    alpha = 0.1 * 80 * data.X.var(axis=0).mean()
    ridge = Ridge(alpha=alpha).fit(data.X, data.Y.toarray())
    assert_allclose(model.decision_function(data.X), ridge.predict(data.X), atol=1e-3)


def test_unequal_edges_get_unequal_weights(data):
    options = {"sharpness": 8.0, "projection": 0.0, "threshold": 0.5}
    free = AHL(5, spread=0.2, **options).fit(data.X, data.Y)
    even = AHL(5, spread=1e6, **options).fit(data.X, data.Y)
    assert_allclose(even.edge_weights_, 1, atol=1e-3)
    assert free.edge_weights_.max() > 1.3
    assert_allclose(free.edge_weights_.mean(), 1, rtol=1e-4)
