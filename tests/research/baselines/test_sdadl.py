"""SDADL: the objective term by term, steps that never raise it, and limits of its penalties."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from prototag.research.baselines import SDADL, sdadl
from prototag.research.datasets import planted

OWNER = np.array([0, 0, 1, 2, 2, 2, 4])
WEIGHTS = sdadl.Weights(0.3, 0.4, 0.05, 0.02)


@pytest.fixture(scope="module")
def data():
    return planted(n=100, t=5, k=12, m=9, random_state=2)


def make(data, weights=WEIGHTS, owner=OWNER):
    problem = sdadl.Problem(data.X.astype(np.float64), data.Y, owner, weights)
    return problem, problem.start(data.X[: len(owner)].astype(np.float64))


def test_the_objective_term_by_term(data):
    problem, factors = make(data)
    rng = np.random.default_rng(0)
    G, intercept = rng.standard_normal((7, 5)), rng.standard_normal(5)
    U = rng.standard_normal((100, 7))
    factors = factors._replace(U=U, G=G, intercept=intercept)
    Y, D = data.Y.toarray(), factors.D
    total = 0.05 * np.square(D).sum() + 0.02 * np.square(G).sum()
    for x, u, y in zip(data.X.astype(float), U, Y, strict=True):
        for k, tag in enumerate(OWNER):
            answer = x @ D[k]
            ideal = y[tag] / np.sqrt((tag == OWNER).sum())
            total += (answer - u[k]) ** 2 + 0.4 * (ideal - u[k]) ** 2
            total += 0.3 * answer**2 * (y[tag] == 0)
        for c in range(5):
            margin = (2 * y[c] - 1) * (u @ G[:, c] + intercept[c])
            total += 0.02 * sdadl.LOSS * max(0, 1 - margin) ** 2
    assert problem.objective(factors) == pytest.approx(total, rel=1e-6)


STEPS = ("update_classifier", "update_codes", "update_atoms")


@pytest.mark.parametrize(
    "weights", [WEIGHTS, sdadl.Weights(0.005, 0.0, 5e-4, 5e-4), sdadl.Weights(50, 1, 0.1, 1)]
)
def test_no_step_raises_the_objective(data, weights):
    problem, factors = make(data, weights)
    value = problem.objective(factors)
    for _ in range(10):
        for step in STEPS:
            factors = getattr(problem, step)(factors)
            new = problem.objective(factors)
            assert new <= value + 1e-9 * abs(value)
            value = new


def test_gradients_vanish_where_the_steps_end(data):
    problem, factors = make(data)
    for _ in range(3000):
        factors = problem.alternate(factors)
    value = problem.objective(factors)
    rng = np.random.default_rng(0)
    for name in ("D", "U", "G", "intercept"):
        block = getattr(factors, name)
        for _ in range(4):
            move = rng.standard_normal(block.shape)
            up, down = (
                problem.objective(factors._replace(**{name: block + h * move}))
                for h in (1e-4, -1e-4)
            )
            assert abs(up - down) / 2e-4 < 1e-2
            assert min(up, down) > value - 1e-6


def test_strong_structure_makes_atoms_silent_on_foreign_images(data):
    answers = []
    for structure in (0.0, 100.0):
        problem, factors = make(data, WEIGHTS._replace(structure=structure))
        for _ in range(50):
            factors = problem.alternate(factors)
        foreign = data.Y.toarray()[:, OWNER] == 0
        answers.append(np.square(data.X @ factors.D.T)[foreign].mean())
    assert answers[1] < 0.05 * answers[0]


def test_scores_are_linear_in_the_answers_of_unit_atoms(data):
    model = SDADL(n_per_tag=2, agreement=0.5, strength=1.0, n_folds=2).fit(data.X, data.Y)
    assert_allclose(np.linalg.norm(model.atoms_, axis=1), 1, atol=1e-5)
    assert model.atoms_.shape == (10, 9)
    expected = data.X @ model.atoms_.T @ model.coef_ + model.intercept_
    assert_allclose(model.decision_function(data.X), expected, atol=1e-4)
    assert model.setting_ == {"agreement": 0.5, "strength": 1.0}
