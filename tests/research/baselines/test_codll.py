"""CODLL: the objective term by term, steps that never raise it, and limits of its penalties."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from prototag.research.baselines import CODLL, codll
from prototag.research.baselines.sparse_group_lasso import GroupLasso
from prototag.research.datasets import planted

COUNTS = np.array([3, 1, 2, 0, 2, 3])
WEIGHTS = codll.Weights(0.3, 0.2, 0.05, 0.7)


@pytest.fixture(scope="module")
def data():
    return planted(n=100, t=6, k=12, m=9, random_state=2)


def make(data, weights=WEIGHTS):
    D = data.X[:11].astype(np.float32)
    problem = codll.Problem(data.X, data.Y.toarray(), COUNTS, weights)
    return problem, problem.start(D)


def test_the_objective_term_by_term(data):
    problem, factors = make(data)
    D, G, A = factors.D, factors.G, factors.A.toarray()
    Y = data.Y.toarray()
    owner = np.repeat(np.arange(6), COUNTS)
    total = np.square(data.X - A @ D).sum() + 0.3 * np.square(Y - A @ G).sum()
    total += 0.7 * np.square(G).sum() + codll.CODE_RIDGE * np.square(A).sum()
    for i in range(100):
        for c in range(6):
            total += 0.2 * np.linalg.norm(A[i, owner == c]) * (Y[i, c] == 0)
    for c in range(6):
        for d in range(c + 1, 6):
            total += 0.05 * np.square(D[owner == c] @ D[owner == d].T).sum()
    assert problem.objective(factors) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize(
    "weights", [WEIGHTS, WEIGHTS._replace(incoherence=20.0), codll.Weights(5.0, 0.0, 0.0, 0.1)]
)
def test_no_step_raises_the_objective(data, weights):
    problem, factors = make(data, weights)
    value = problem.objective(factors)
    for _ in range(6):
        after = problem.alternate(factors)
        for step in (factors._replace(A=after.A), after._replace(G=factors.G), after):
            new = problem.objective(step)
            assert new <= value + 1e-4 * abs(value)
            value = new
        factors = after
    assert (np.linalg.norm(factors.D, axis=1) <= 1 + 1e-5).all()


def test_a_strong_penalty_leaves_codes_over_own_atoms(data):
    problem, factors = make(data, WEIGHTS._replace(foreign=1e3))
    owner = np.repeat(np.arange(6), COUNTS)
    foreign = data.Y.toarray()[:, owner] == 0
    A = problem.alternate(factors).A.toarray()
    assert not A[foreign].any()
    assert A[~foreign].any()


def test_incoherence_moves_groups_apart(data):
    owner = np.repeat(np.arange(6), COUNTS)
    other = owner[:, None] != owner
    coherence = []
    for weight in (0.0, 20.0):
        problem, factors = make(data, WEIGHTS._replace(incoherence=weight))
        for _ in range(10):
            factors = problem.alternate(factors)
        coherence.append(np.square(factors.D @ factors.D.T)[other].mean())
    assert coherence[1] < 0.6 * coherence[0]


def test_tag_weights_are_a_ridge_regression(data):
    _, factors = make(data)
    A = factors.A.toarray().astype(float)
    rows = np.vstack([A, np.sqrt(0.7 / 0.3) * np.eye(11)])
    goal = np.vstack([data.Y.toarray(), np.zeros((11, 6))])
    assert_allclose(factors.G, np.linalg.lstsq(rows, goal, rcond=None)[0], atol=1e-3)


def test_new_images_are_coded_with_all_groups_penalised(data):
    model = CODLL(24, weight=1.0, n_folds=2, max_iter=2).fit(data.X, data.Y)
    lasso = GroupLasso.of(model.atoms_, ridge=codll.CODE_RIDGE, sizes=model.group_sizes_)
    codes = lasso.encode(data.X, 0.15).codes
    assert_allclose(model.decision_function(data.X), codes @ model.semantics_, atol=1e-3)
    assert model.group_sizes_.sum() == len(model.atoms_)
    A, Y = codes.toarray().astype(float), data.Y.toarray()
    k = A.shape[1]
    expected = np.linalg.solve(A.T @ A + np.eye(k), A.T @ Y)  # G is fitted to such codes
    assert_allclose(model.semantics_, expected, atol=1e-3)
