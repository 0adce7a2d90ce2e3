"""SLED: relevance judged by scikit-learn's multi-task lasso, propagation by its fixed point."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import MultiTaskLasso

from prototag.research.baselines import SLED, sled
from prototag.research.baselines.sparse_group_lasso import GroupLasso
from prototag.research.datasets import planted

FAST = {"n_folds": 2, "max_iter": 2}


@pytest.fixture(scope="module")
def data():
    return planted(n=150, t=8, k=14, m=10, random_state=3)


@pytest.fixture(scope="module")
def codes(data):
    return GroupLasso.of(data.X[:20], sparsity=0.02).encode(data.X).codes


@pytest.mark.parametrize("penalty", [0.5, 3.0])
def test_relevance_is_that_of_scikit_learn(data, codes, penalty):
    found = sled.group_lasso(codes, data.Y, penalty, max_iter=20_000, tol=1e-8)
    judge = MultiTaskLasso(penalty / 300, fit_intercept=False, tol=1e-10, max_iter=100_000)
    judge.fit(codes.toarray().astype(float), data.Y.toarray().astype(float))
    assert_allclose(found, judge.coef_.T, atol=2e-3)
    near = sled.group_lasso(codes, data.Y, 2 * penalty)
    again = sled.group_lasso(codes, data.Y, penalty, start=near, max_iter=20_000, tol=1e-8)
    assert_allclose(again, found, atol=2e-3)


def test_a_strong_penalty_leaves_nothing(data, codes):
    assert not sled.group_lasso(codes, data.Y, 1e6).any()


def test_neighbours_of_codes_by_cosine(codes):
    unit = sled.unit_codes(codes)
    A = codes.toarray().astype(float)
    A /= np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-12)
    assert_allclose(unit.toarray(), A, atol=1e-6)
    found = sled.nearest_codes(unit, unit, 6, exclude_self=True).toarray()
    cosine = A @ A.T
    np.fill_diagonal(cosine, 0)
    for i in range(150):
        near = np.argsort(-cosine[i])[:6]
        weight = np.maximum(cosine[i, near], 0)
        assert_allclose(found[i, near], weight / weight.sum(), atol=1e-5)
    assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert not np.diag(found).any()


def test_propagation_ends_at_its_fixed_point(data, codes):
    unit = sled.unit_codes(codes)
    found = sled.propagate(unit, data.Y, 0.5, 6)
    S = sled.nearest_codes(unit, unit, 6, exclude_self=True).toarray().astype(float)
    expected = 0.5 * np.linalg.solve(np.eye(150) - 0.5 * S, data.Y.toarray())
    assert_allclose(found, expected, atol=1e-5)
    assert_allclose(sled.propagate(unit, data.Y, 0.0, 6), data.Y.toarray())


def test_scores_are_relevance_and_shares_of_neighbours(data):
    model = SLED(relevance=0.3, share=0.6, **FAST).fit(data.X, data.Y)
    sizes = model.group_sizes_
    weights = np.float32(0.05) * np.sqrt(sizes)
    codes = GroupLasso.of(model.atoms_, sparsity=0.02, sizes=sizes).encode(data.X, weights).codes
    near = sled.nearest_codes(sled.unit_codes(codes), model.codes_, 20)
    expected = 0.6 * (codes @ model.semantics_) + 0.4 * (near @ model.propagated_)
    assert_allclose(model.decision_function(data.X), expected, atol=1e-5)
    alone = SLED(relevance=0.3, share=1.0, **FAST).fit(data.X, data.Y)
    assert_allclose(alone.decision_function(data.X), codes @ model.semantics_, atol=1e-5)
    assert model.setting_ == {"relevance": 0.3, "share": 0.6}


def test_without_images_of_one_tag_there_is_still_a_dictionary(data):
    Y = sparse.csr_array(np.ones((150, 2), np.float32))
    Y[3, 1] = 0
    model = SLED(relevance=0.3, share=0.5, **FAST).fit(data.X, Y)
    assert np.isfinite(model.decision_function(data.X)).all()
