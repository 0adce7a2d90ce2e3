"""Kernel ridge, judged by scikit-learn's and by refits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import kernel_ridge

from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.research.baselines import KernelRidge
from prototag.research.baselines import kernel_ridge as kernel_baseline
from prototag.research.baselines.base import quality
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=120, t=6, k=14, m=8, noise=0.4, random_state=1)


def gram(a, b, gamma):
    return np.exp(-gamma * np.square(a[:, None].astype(float) - b).sum(axis=2)) + 1


def test_scores_are_those_of_scikit_learn(data):
    model = KernelRidge(gamma=1.5, strength=0.4).fit(data.X[:90], data.Y[:90])
    judge = kernel_ridge.KernelRidge(alpha=0.4, kernel="precomputed")
    judge.fit(gram(data.X[:90], data.X[:90], 1.5), data.Y[:90].toarray())
    expected = judge.predict(gram(data.X[90:], data.X[:90], 1.5))
    assert_allclose(model.decision_function(data.X[90:]), expected, atol=1e-3)


@pytest.mark.parametrize("landmarks", [20_000, 40])
def test_held_out_scores_are_those_of_refits(data, landmarks):
    model = KernelRidge(gamma=1.0, strength=0.5, max_landmarks=landmarks).fit(data.X, data.Y)
    assert len(model.landmarks_) == min(landmarks, 120)
    T = data.Y.toarray()
    for image in (0, 60, 119):
        rest = np.arange(120) != image
        if landmarks > 120:
            K = gram(data.X[rest], data.X[rest], 1.0) + 0.5 * np.eye(119)
            dual = np.linalg.solve(K, T[rest])
            expected = gram(data.X[[image]], data.X[rest], 1.0) @ dual
        else:
            L = model.landmarks_
            K, inner = gram(data.X[rest], L, 1.0), gram(L, L, 1.0) + 1e-4 * np.eye(40)
            dual = np.linalg.solve(K.T @ K + 0.5 * inner, K.T @ T[rest])
            expected = gram(data.X[[image]], L, 1.0) @ dual
        assert_allclose(model.out_of_fold_scores_[image], expected[0], atol=2e-3)


def test_settings_are_the_best_of_the_grid_by_held_out_images(data):
    model = KernelRidge().fit(data.X, data.Y)
    chosen = quality(data.Y, correct_loo_bias(data.Y, model.out_of_fold_scores_))
    for gamma in kernel_baseline.GRIDS["gamma"]:
        other = KernelRidge(gamma=gamma, strength=model.strength_).fit(data.X, data.Y)
        assert quality(data.Y, correct_loo_bias(data.Y, other.out_of_fold_scores_)) <= chosen + 1e-9
