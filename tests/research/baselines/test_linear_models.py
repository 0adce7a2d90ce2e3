"""Linear baselines: held-out scores against refits, cues of missing tags against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from prototag.evaluation import metrics
from prototag.research.baselines import SVM, Logistic, Ridge, linear_models
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


def cues_by_hand(X, Y, count):
    n, t = Y.shape
    shares = np.zeros((n, t))
    for i in range(n):
        near = X @ X[i]
        near[i] = -np.inf
        shares[i] = Y[np.argsort(-near)[:count]].mean(axis=0)
    answer = np.zeros((n, t))
    for i in range(n):
        for c in range(t):
            if Y[i, c]:
                continue
            usual = shares[Y[:, c] == 1, c].mean() if Y[:, c].any() else 0.0
            visual = min(shares[i, c] / usual, 1.0) if usual > 0 else 0.0
            own = np.flatnonzero(Y[i])
            depends = [Y[Y[:, other] == 1, c].mean() for other in own]
            answer[i, c] = max([visual, *depends])
    return answer


def test_cues_of_missing_tags(data):
    Y = data.Y.toarray()
    Y[:7] = 0  # images without tags
    Y = np.hstack([Y, np.zeros((90, 1))])  # a tag without images
    found = linear_models.missing_tag_cues(data.X, sparse.csr_array(Y.astype(np.float32)), 5)
    assert_allclose(found, cues_by_hand(data.X, Y, 5), atol=1e-5)


def test_tolerance_finds_missing_labels():
    """Of the absent tags those that were right and left out rank higher with tolerance."""
    data = planted(n=400, t=20, k=30, m=40, missing=0.4, random_state=0)
    absent = data.Y.toarray() == 0
    right = data.Y_true.toarray() > 0
    rank = {}
    for tolerance in (0.0, 1.0):
        model = SVM(strength=0.3, tolerance=tolerance, n_folds=2).fit(data.X, data.Y)
        scores = np.where(absent, model.decision_function(data.X), -1e3)
        rank[tolerance] = metrics.mean_average_precision(right & absent, scores)
    assert rank[1.0] > rank[0.0] + 0.05


def test_without_tolerance_it_is_the_plain_svm(data):
    plain = SVM(strength=1.0, tolerance=0.0).fit(data.X, data.Y)
    other = SVM(strength=1.0, tolerance=0.0, n_neighbours=3).fit(data.X, data.Y)
    assert_array_equal(plain.coef_, other.coef_)


@pytest.mark.parametrize("kind", [Logistic, SVM])
def test_scores_are_linear(data, kind):
    model = kind(strength=1.0).fit(data.X, data.Y)
    scores = data.X @ model.coef_ + model.intercept_
    assert_allclose(model.decision_function(data.X), scores, atol=1e-4)
    assert model.setting_["strength"] == 1.0
