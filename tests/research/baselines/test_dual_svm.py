"""Hinge-loss SVMs: judged by scikit-learn, a slow twin, and the conditions of an optimum."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.svm import LinearSVC

from prototag import _kernels
from prototag.research.baselines import dual_svm
from tests.research.baselines import oracles

HERE = _kernels.instructions()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 37))
    X[:, -1] = 1
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    present = X @ rng.standard_normal((37, 4)) + 0.2 * rng.standard_normal((120, 4)) > 0.1
    upper = rng.uniform(0, 3, (120, 4))
    return X.astype(np.float32), present, upper.astype(np.float32)


def solve(data, upper, **options):
    X, present, _ = data
    return dual_svm.solve(X, present, upper, **{"epochs": 5000, "tol": 1e-4, **options})


def objective(w, X, present, upper, margin=1.0):
    z = np.where(present, 1, -1)
    return w @ w / 2 + (upper * np.maximum(margin - z * (X @ w), 0)).sum()


def test_weighted_machines_are_those_of_scikit_learn(data):
    X, present, upper = data
    found = solve(data, upper)
    for tag in range(4):
        judge = LinearSVC(loss="hinge", C=1, fit_intercept=False, tol=1e-8, max_iter=1_000_000)
        judge.fit(X, present[:, tag], sample_weight=upper[:, tag])
        assert_allclose(found.w[tag], judge.coef_[0], atol=2e-3)


def test_the_optimum_has_its_conditions(data):
    X, present, upper = data
    found = solve(data, upper)
    assert (found.violation <= 1e-4).all()
    z = np.where(present.T, 1, -1)
    assert_allclose(found.w, (found.alpha * z) @ X, atol=1e-4)
    slope = z * (found.w @ X.T) - 1
    assert (found.alpha >= 0).all()
    assert (found.alpha <= upper.T).all()
    free = (found.alpha > 1e-6) & (found.alpha < upper.T - 1e-6)
    assert np.abs(slope[free]).max() < 1e-3
    assert slope[found.alpha <= 1e-6].min() > -1e-3
    assert slope[found.alpha >= upper.T - 1e-6].max() < 1e-3


@pytest.mark.parametrize("margin", [1.0, "by image"])
def test_machines_are_those_of_the_slow_twin(data, margin):
    X, present, upper = data
    X, present, upper = X[:40], present[:40], upper[:40]
    by_image = np.random.default_rng(2).uniform(0, 1, upper.shape) if margin != 1.0 else 1.0
    found = dual_svm.solve(X, present, upper, margin=by_image, epochs=5000, tol=1e-5)
    margins = np.broadcast_to(by_image, upper.shape)
    for tag in range(4):
        w, _ = oracles.dual_svm(X, present[:, tag], upper[:, tag], margins[:, tag])
        assert_allclose(found.w[tag], w, atol=2e-3)


def test_a_bound_of_zero_removes_the_image(data):
    X, present, _ = data
    upper = np.full(present.shape, 2.0, np.float32)
    upper[::3] = 0
    kept = np.arange(120) % 3 > 0
    some = dual_svm.solve(X[kept], present[kept], 2.0, epochs=5000, tol=1e-5)
    assert_allclose(solve(data, upper, tol=1e-5).w, some.w, atol=2e-3)


def test_a_start_and_the_set_of_instructions_do_not_matter(data):
    X, present, upper = data
    found = solve(data, upper)
    warm = solve(data, upper / 2, start=found.alpha)
    cold = solve(data, upper / 2)
    assert_allclose(warm.w, cold.w, atol=2e-3)
    _kernels.instructions("portable")
    other = solve(data, upper)
    _kernels.instructions(HERE)
    assert_allclose(other.w, found.w, atol=2e-3)
    for tag in range(4):
        value = objective(found.w[tag], X, present[:, tag], upper[:, tag])
        for seed in range(5):
            moved = found.w[tag] + 0.01 * np.random.default_rng(seed).standard_normal(37)
            assert value < objective(moved, X, present[:, tag], upper[:, tag])
