"""Closed-form leave-one-out against explicit refits, and regressions against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import kernel_ridge as judge

from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import SINGLE_THREAD, Threads
from prototag.tagging import loo_ridge


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6)).astype(np.float32)
    T = (rng.random((40, 3)) < 0.4).astype(np.float32)
    return X, T


@pytest.fixture
def units(data):
    X, T = data
    return X / np.linalg.norm(X, axis=1, keepdims=True), T


def test_ridge_leave_one_out_is_a_refit_without_the_image(data):
    X, T = data
    n = len(X)
    predictions = loo_ridge.ridge(X, T, 0.1).loo_predictions
    for image in range(n):
        rest = np.arange(n) != image
        # the penalty is in units of n: keep its absolute size
        refit = loo_ridge.ridge(X[rest], T[rest], 0.1 * n / (n - 1))
        assert_allclose(predictions[image], X[image] @ refit.coef + refit.intercept, atol=1e-4)


def test_ridge_takes_the_strength_that_predicts_best(data):
    X, T = data
    strengths = (0.01, 0.1, 1.0, 10.0)
    errors = [np.square(loo_ridge.ridge(X, T, s).loo_predictions - T).sum() for s in strengths]
    assert loo_ridge.ridge(X, T, strengths).strength == strengths[int(np.argmin(errors))]
    chosen = loo_ridge.ridge(X, T, strengths, quality=lambda p: -float(p.var(axis=0).sum()))
    assert chosen.strength == 10.0


def test_ridge_needs_a_strength(data):
    with pytest.raises(ValueError, match="give at least one"):
        loo_ridge.ridge(*data, ())


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_kernel_ridge_leave_one_out_is_a_refit_without_the_image(units, gamma):
    X, T = units
    options = {"gamma": gamma, "strength": 0.3}
    predictions = loo_ridge.kernel_ridge(X, T, **options).loo_predictions
    for image in range(len(X)):
        rest = np.arange(len(X)) != image
        dual = loo_ridge.kernel_ridge(X[rest], T[rest], **options).dual
        expected = rbf_kernel_with_constant(X[[image]], X[rest], gamma) @ dual
        assert_allclose(predictions[[image]], expected, atol=1e-4)


def test_kernel_ridge_is_that_of_scikit_learn(units):
    X, T = units
    ours = loo_ridge.kernel_ridge(X, T, gamma=1.5, strength=0.3, engine=Threads(2))
    K = np.exp(-1.5 * np.square(X[:, None] - X[None]).sum(axis=2)) + 1
    model = judge.KernelRidge(alpha=0.3, kernel="precomputed").fit(K, T)
    assert_allclose(ours.dual, model.dual_coef_, atol=1e-3)
    assert_allclose(rbf_kernel_with_constant(X, X, 1.5), K, atol=1e-5)


def test_landmarks_leave_one_out_is_a_refit_with_the_same_landmarks(units):
    X, T = units
    chosen = np.arange(0, 40, 4)
    model = loo_ridge._nystroem_ridge(X, T, X[chosen], 1.0, 0.3, SINGLE_THREAD)
    for image in range(len(X)):
        rest = np.arange(len(X)) != image
        refit = loo_ridge._nystroem_ridge(X[rest], T[rest], X[chosen], 1.0, 0.3, SINGLE_THREAD)
        expected = rbf_kernel_with_constant(X[[image]], X[chosen], 1.0) @ refit.dual
        assert_allclose(model.loo_predictions[[image]], expected, atol=2e-3)


def test_landmarks_that_are_all_images_are_the_exact_regression(units):
    X, T = units
    exact = loo_ridge.kernel_ridge(X, T, gamma=1.0, strength=0.3, landmark_rows=np.arange(40))
    spanned = loo_ridge._nystroem_ridge(X, T, X, 1.0, 0.3, SINGLE_THREAD)
    assert_allclose(
        rbf_kernel_with_constant(X, X, 1.0) @ spanned.dual,
        rbf_kernel_with_constant(X, X, 1.0) @ exact.dual,
        atol=5e-3,
    )


def test_any_landmarks_give_the_best_of_their_span(units):
    """No other coefficients have a lower penalised error (normal equations, in float64)."""
    X, T = units
    rng = np.random.default_rng(1)
    landmarks = (X[:12] + X[12:24] + 0.1 * rng.standard_normal((12, X.shape[1]))) / 2
    landmarks = landmarks.astype(np.float32)
    dual = loo_ridge.landmark_ridge(X, T, landmarks, gamma=1.0, strength=0.3)
    K = rbf_kernel_with_constant(X, landmarks, 1.0).astype(np.float64)
    inner = rbf_kernel_with_constant(landmarks, landmarks, 1.0).astype(np.float64)
    gradient = K.T @ (K @ dual - T) + 0.3 * (inner + 1e-4 * np.eye(12)) @ dual
    assert np.abs(gradient).max() < 1e-3 * np.abs(K.T @ T).max()


def test_threads_change_no_bit(units):
    X, T = units
    one, two = (
        loo_ridge.kernel_ridge(X, T, gamma=1.0, strength=0.3, engine=Threads(jobs))
        for jobs in (1, 2)
    )
    assert np.array_equal(one.dual, two.dual)
    assert np.array_equal(one.loo_predictions, two.loo_predictions)


def test_few_images_of_many_columns_are_the_same_regression():
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((2, 40, 12)).astype(np.float32)
    X, T = X - X.mean(axis=0), T - T.mean(axis=0)
    for penalty in (4.0, 0.3):
        by_columns = loo_ridge._primal_solver(X, T)(penalty)
        by_images = loo_ridge._dual_solver(X, T)(penalty)
        for ours, theirs in zip(by_images, by_columns, strict=True):
            assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [2, 3, 5, 12, 30, 60, 100, 300])
@pytest.mark.parametrize("m", [4, 1280])
def test_leave_one_out_is_a_refit_at_every_size(n, m):
    """Also where few images of many columns lie about their common mean."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, m)).astype(np.float32)
    X -= X.mean(axis=0)
    T = (rng.random((n, 3)) < 0.4).astype(np.float32)
    T -= T.mean(axis=0)
    predictions = loo_ridge.ridge(X, T, 0.07).loo_predictions
    for image in range(0, n, max(1, n // 5)):
        rest = np.arange(n) != image
        refit = loo_ridge.ridge(X[rest], T[rest], 0.07 * n / (n - 1))
        expected = X[image] @ refit.coef + refit.intercept
        assert_allclose(predictions[image], expected, atol=2e-3)


def test_the_score_of_a_held_out_image_does_not_use_its_label():
    """Random targets, few images: predictions must not go with them."""
    rng = np.random.default_rng(0)
    together = []
    for _ in range(40):
        X = rng.standard_normal((20, 400)).astype(np.float32)
        T = rng.standard_normal((20, 1)).astype(np.float32)
        X, T = (X - X.mean(axis=0)) / X.std(axis=0), T - T.mean(axis=0)
        predictions = loo_ridge.ridge(X, T, 0.02).loo_predictions
        together.append(np.corrcoef(predictions[:, 0], T[:, 0])[0, 1])
    assert np.mean(together) < 0.05
