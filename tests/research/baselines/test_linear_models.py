"""Linear baselines: held-out scores against refits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from prototag.research.baselines import Logistic, Ridge, linear_models
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=90, t=6, k=12, m=8, missing=0.2, random_state=2)


def test_ridge_scores_an_image_as_if_it_had_not_been_there(data):
    model = Ridge(strength=0.1).fit(data.X, data.Y)
    X, T = data.X.astype(np.float64), data.Y.toarray()
    penalty = np.append(np.full(8, 0.1 * X.var(axis=0).mean() * 90), 0.0)  # the constant is free
    wide = np.hstack([X, np.ones((90, 1))])
    for image in (0, 44, 89):
        rest = np.arange(90) != image
        gram = wide[rest].T @ wide[rest] + np.diag(penalty)
        left_out = wide[image] @ np.linalg.solve(gram, wide[rest].T @ T[rest])
        assert_allclose(model.out_of_fold_scores_[image], left_out, atol=1e-4)


def test_the_strength_chosen_ranks_held_out_images_no_worse_than_others(data):
    model = Ridge().fit(data.X, data.Y)
    chosen = linear_models.quality(data.Y, model.out_of_fold_scores_)
    for strength in linear_models.RIDGE_STRENGTHS:
        other = Ridge(strength=strength).fit(data.X, data.Y)
        assert linear_models.quality(data.Y, other.out_of_fold_scores_) <= chosen + 1e-9
    assert any(np.isclose(model.strength_, linear_models.RIDGE_STRENGTHS))


def test_scores_are_linear(data):
    model = Logistic(strength=1.0).fit(data.X, data.Y)
    scores = data.X @ model.coef_ + model.intercept_
    assert_allclose(model.decision_function(data.X), scores, atol=1e-4)
    assert model.setting_["strength"] == 1.0
