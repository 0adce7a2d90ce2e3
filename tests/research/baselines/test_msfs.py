"""MSFS: the objective, its steps and gradients, and limits that are known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from prototag.research.baselines import MSFS, msfs, neighbour_graph
from prototag.research.datasets import planted

VIEW = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
NO_PENALTY = msfs.Weights(1.0, 0.0, 0.0, 0.0)
ALL = msfs.Weights(0.7, 0.8, 0.5, 0.3)


@pytest.fixture(scope="module")
def data():
    return planted(n=80, t=6, k=12, m=9, random_state=2)


def make(data, view=VIEW):
    X = data.X.astype(np.float64)
    graphs = [
        neighbour_graph.laplacian(neighbour_graph.heat_graph(data.X[:, view == v], 5))
        for v in range(view.max() + 1)
    ]
    return msfs.Problem(X, data.Y, view, graphs)


def test_the_objective_term_by_term(data):
    problem = make(data)
    V, B, W = problem.start(4)
    X, Y = problem.X, problem.Y
    expected = np.square(Y - V @ B).sum() + 0.7 * np.square(X @ W - V).sum()
    expected += 0.8 * sum(np.linalg.norm(row) for row in W)
    traces = []
    for v in range(2):
        graph = neighbour_graph.heat_graph(data.X[:, v == VIEW], 5).toarray()
        apart = np.square(V[:, None] - V).sum(axis=2)
        traces.append((graph * apart).sum() / 2)
    nu = 1 / np.array(traces) / (1 / np.array(traces)).sum()
    assert_allclose(problem.nu, nu, rtol=1e-5)
    for v in range(2):
        expected += nu[v] * (0.3 * traces[v] + 0.5 * np.linalg.norm(W[v == VIEW]))
    assert problem.objective(msfs.Factors(V, B, W), ALL) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("weights", [ALL, NO_PENALTY, msfs.Weights(5, 20, 0, 4)])
def test_no_step_raises_the_objective(data, weights):
    problem = make(data)
    factors = problem.start(4)
    value = problem.objective(factors, weights)
    for _ in range(6):
        for name in "WVB":
            if name == "W":
                new = problem.update_regression(factors.V, factors.W, weights)
            elif name == "V":
                new = problem.update_latent(factors, weights)
            else:
                new = problem.update_basis(factors.V)
            factors = factors._replace(**{name: new})
            after = problem.objective(factors, weights)
            assert after <= value + 1e-8 * abs(value)
            value = after
    assert_allclose(factors.B @ factors.B.T, np.eye(4), atol=1e-10)


def test_gradients_vanish_where_the_steps_end(data):
    """Against differences of the objective, in random directions."""
    problem = make(data)
    factors, history = problem.minimise(problem.start(4), ALL, 400, 0.0)
    assert (np.diff(history) <= 1e-7).all()
    rng = np.random.default_rng(0)
    for name in "VW":
        for _ in range(5):
            move = rng.standard_normal(getattr(factors, name).shape)
            up, down = (
                problem.objective(
                    factors._replace(**{name: getattr(factors, name) + h * move}), ALL
                )
                for h in (1e-4, -1e-4)
            )
            assert abs(up - down) / 2e-4 < 2e-2 * history[-1]
            assert min(up, down) >= history[-1] - 1e-4


def test_without_penalties_and_with_all_tags_it_is_least_squares(data):
    problem = make(data)
    factors, _ = problem.minimise(problem.start(6), NO_PENALTY, 3000, 0.0)
    expected = np.linalg.lstsq(problem.X, problem.Y, rcond=None)[0]
    assert_allclose(factors.W @ factors.B, expected, atol=1e-3)


@pytest.mark.parametrize("consistency", [0.05, 1.0, 20.0])
def test_without_penalties_the_optimum_is_that_of_an_eigenproblem(data, consistency):
    """B spans the leading eigenvectors of Y' (I / b + P_X) Y."""
    problem = make(data)
    weights = NO_PENALTY._replace(consistency=consistency)
    factors, history = problem.minimise(problem.start(3), weights, 5000, 0.0)
    X, Y = problem.X, problem.Y
    projection = X @ np.linalg.pinv(X)
    vectors = np.linalg.eigh(Y.T @ (np.eye(80) / consistency + projection) @ Y)[1][:, -3:]
    assert_allclose(factors.B.T @ factors.B, vectors @ vectors.T, atol=1e-2)

    def reached(B):
        V = (Y @ B.T + consistency * projection @ Y @ B.T) / (1 + consistency)
        for _ in range(2000):
            V = (Y @ B.T + consistency * projection @ V) / (1 + consistency)
        return np.square(Y - V @ B).sum() + consistency * np.square(V - projection @ V).sum()

    assert history[-1] == pytest.approx(reached(vectors.T), rel=1e-4)


def test_a_strong_penalty_removes_rows_and_views(data):
    some = MSFS(n_latent=5, sparsity=0.3, locality=0.0, n_folds=2, tol=1e-5).fit(data.X, data.Y)
    none = MSFS(n_latent=5, sparsity=3.0, locality=0.0, n_folds=2, tol=1e-5).fit(data.X, data.Y)
    few = MSFS(n_latent=5, sparsity=1e-6, view_sparsity=0.0, locality=0.0, n_folds=2, tol=1e-5)
    few.fit(data.X, data.Y)
    limit = 1e-2 * few.feature_norms_.max()
    assert (none.feature_norms_ < limit).all()
    assert 0 < (some.feature_norms_ < limit).sum() < 9
    assert (few.feature_norms_ > limit).all()
    noise = np.random.default_rng(0).standard_normal((80, 5))
    X = np.hstack([data.X, 0.3 * noise])
    groups = np.repeat([0, 1], [9, 5])
    views = MSFS(sparsity=0.0, view_sparsity=0.8, locality=0.0, groups=groups, n_folds=2, tol=1e-5)
    norms = views.fit(X, data.Y).feature_norms_
    assert norms[9:].max() < limit
    assert norms[:9].min() > limit


def test_scores_are_linear_and_unused_columns_do_not_matter(data):
    model = MSFS(n_latent=5, sparsity=0.01, locality=0.1, n_folds=2).fit(data.X, data.Y)
    scores = data.X @ model.coef_ + model.intercept_
    assert_allclose(model.decision_function(data.X), scores, atol=1e-4)
    assert model.setting_ == {"n_latent": 5, "sparsity": 0.01, "locality": 0.1}
    assert 1 <= model.n_iter_ <= 20


def test_one_group_is_one_view(data):
    options = {"n_latent": 5, "sparsity": 0.01, "locality": 0.1, "n_folds": 2}
    one = MSFS(**options).fit(data.X, data.Y)
    same = MSFS(**options, groups=["a"] * 9).fit(data.X, data.Y)
    assert_allclose(one.coef_, same.coef_)


def test_graphs_join_neighbours_of_both_sides(data):
    graph = neighbour_graph.heat_graph(data.X, 3).toarray()
    far = np.square(data.X[:, None] - data.X).sum(axis=2)
    np.fill_diagonal(far, np.inf)
    near = np.argsort(far, axis=1)[:, :3]
    expected = np.zeros((80, 80))
    for i in range(80):
        expected[i, near[i]] = np.exp(-far[i, near[i]] / 2)
    assert_allclose(graph, np.maximum(expected, expected.T), atol=1e-5)
    V = np.random.default_rng(0).standard_normal((80, 2))
    laplacian = neighbour_graph.laplacian(neighbour_graph.heat_graph(data.X, 3))
    apart = np.square(V[:, None] - V).sum(axis=2)
    assert np.vdot(V, laplacian @ V) == pytest.approx((graph * apart).sum() / 2, rel=1e-4)


def test_wide_vectors_are_searched_on_their_principal_axes():
    rng = np.random.default_rng(0)
    low = rng.standard_normal((60, 5))
    X = (low @ rng.standard_normal((5, 150))).astype(np.float32)
    reduced = neighbour_graph.principal_axes(X, 20)
    assert reduced.shape == (60, 20)
    for rows in (X, reduced):
        far = np.square(rows[:, None] - rows).sum(axis=2)
        if rows is X:
            exact = far
    assert_allclose(far, exact, rtol=1e-3, atol=1e-2)
