"""Linear classifiers of all tags at once, judged by scikit-learn's of one tag at a time."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from prototag.research.baselines import newton_cg


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 6)) * [3, 1, 1, 0.5, 0.1, 1] + 1
    scores = X @ rng.standard_normal((6, 5)) + rng.standard_normal((150, 5)) - [0, 0, 1, 3, 5]
    return X, scores > 0


@pytest.mark.parametrize("loss", [newton_cg.logistic, newton_cg.squared_hinge])
def test_slopes_and_curvatures_are_those_of_the_value(loss):
    margin = np.linspace(-5, 5, 101) + 0.013  # away from the kink at 1
    h = 1e-5
    slope = (loss.value(margin + h) - loss.value(margin - h)) / (2 * h)
    assert_allclose(loss.slope(margin), slope, atol=1e-8)
    curvature = (loss.slope(margin + h) - loss.slope(margin - h)) / (2 * h)
    assert_allclose(loss.curvature(margin), curvature, atol=1e-8)


@pytest.mark.parametrize("strength", [0.1, 3.0])
def test_logistic_is_that_of_scikit_learn(data, strength):
    X, present = data
    solver = newton_cg.Solver(X)
    found = solver.linear(solver.minimise(present, newton_cg.logistic, strength, tol=1e-7))
    for tag in range(5):
        judge = LogisticRegression(C=1 / strength, tol=1e-10, max_iter=10_000)
        judge.fit(X, present[:, tag])
        assert_allclose(found.coef[:, tag], judge.coef_[0], atol=2e-3)
        assert_allclose(found.intercept[tag], judge.intercept_[0], atol=2e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_squared_hinge_is_that_of_scikit_learn(data, weighted):
    X, present = data
    weight = np.random.default_rng(1).uniform(0.1, 1, present.shape) if weighted else None
    solver = newton_cg.Solver(X)
    found = solver.linear(
        solver.minimise(present, newton_cg.squared_hinge, 0.5, weight=weight, tol=1e-7)
    )
    for tag in range(5):
        # A large scaling leaves the constant as good as free, as it is here.
        judge = LinearSVC(C=2.0, dual=False, tol=1e-10, max_iter=100_000, intercept_scaling=100)
        judge.fit(X, present[:, tag], sample_weight=None if weight is None else weight[:, tag])
        assert_allclose(found.coef[:, tag], judge.coef_[0], atol=2e-3)
        assert_allclose(found.intercept[tag], judge.intercept_[0], atol=2e-3)


@pytest.mark.parametrize("loss", [newton_cg.logistic, newton_cg.squared_hinge])
def test_float32_threads_and_a_start_end_in_the_same_place(data, loss, monkeypatch):
    X, present = data
    exact = newton_cg.Solver(X)
    target = exact.linear(exact.minimise(present, loss, 1.0, tol=1e-8)).scores(X)
    monkeypatch.setattr(newton_cg, "BATCH_TAGS", 2)
    solver = newton_cg.Solver(X.astype(np.float32))
    one = solver.minimise(present, loss, 1.0, tol=1e-4)
    assert_array_equal(solver.minimise(present, loss, 1.0, tol=1e-4, n_jobs=2), one)
    assert one.dtype == np.float32
    near = solver.minimise(present, loss, 3.0)
    again = solver.minimise(present, loss, 1.0, start=near, tol=1e-4)
    for coefficients in (one, again):
        assert_allclose(solver.linear(coefficients).scores(X), target, atol=0.02)


def test_a_tag_on_all_or_no_images_stays_finite(data):
    X, _ = data
    present = np.repeat([[True, False]], 150, axis=0)
    solver = newton_cg.Solver(X)
    for loss in (newton_cg.logistic, newton_cg.squared_hinge):
        scores = solver.linear(solver.minimise(present, loss, 1.0)).scores(X)
        assert (scores[:, 0] > 0).all()
        assert (scores[:, 1] < 0).all()
        assert np.abs(scores).max() < 50
