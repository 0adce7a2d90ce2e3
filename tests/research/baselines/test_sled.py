"""SLED: relevance judged by scikit-learn's multi-task lasso; who teaches which dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import MultiTaskLasso

from prototag.coding.coder import Coder
from prototag.research.baselines import SLED, sled
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=150, t=8, k=14, m=10, random_state=3)


@pytest.mark.parametrize("penalty", [0.5, 3.0])
def test_relevance_is_that_of_scikit_learn(data, penalty):
    codes = Coder(data.X[:20]).encode(data.X).codes
    found = sled.group_lasso(codes, data.Y, penalty, max_iter=20_000, tol=1e-8)
    judge = MultiTaskLasso(penalty / 300, fit_intercept=False, tol=1e-10, max_iter=100_000)
    judge.fit(codes.toarray().astype(float), data.Y.toarray().astype(float))
    assert_allclose(found, judge.coef_.T, atol=2e-3)
    near = sled.group_lasso(codes, data.Y, 2 * penalty)
    again = sled.group_lasso(codes, data.Y, penalty, start=near, max_iter=20_000, tol=1e-8)
    assert_allclose(again, found, atol=2e-3)


def test_a_strong_penalty_leaves_nothing(data):
    codes = Coder(data.X[:20]).encode(data.X).codes
    assert not sled.group_lasso(codes, data.Y, 1e6).any()


def test_members_have_one_tag_of_the_group(data, monkeypatch):
    monkeypatch.setattr(sled, "MAX_IMAGES_PER_TAG", 5)
    owner, Y = np.repeat(np.arange(8), 2), data.Y.toarray()
    tags = np.array([6, 1, 3])
    group = sled.collect_group(data.X, data.Y, tags, data.X[:16], owner, np.random.default_rng(0))
    assert np.bincount(group.tag).max() <= 5
    assert_allclose(group.D, data.X[[2, 3, 6, 7, 12, 13]])
    assert tags[group.atom_tag].tolist() == [1, 1, 3, 3, 6, 6]
    for x, number in zip(group.X, group.tag, strict=True):
        image = np.flatnonzero((x == data.X).all(axis=1))[0]
        assert Y[image, tags].sum() == 1
        assert Y[image, tags[number]] == 1
    nobody = sparse.csr_array(np.ones((150, 8), np.float32))
    assert (
        sled.collect_group(data.X, nobody, tags, data.X[:16], owner, np.random.default_rng(0))
        is None
    )


def test_scores_are_codes_times_relevance(data):
    model = SLED(relevance=0.3, n_folds=2, max_iter=2).fit(data.X, data.Y)
    codes = Coder(model.atoms_).encode(data.X).codes
    assert_allclose(model.decision_function(data.X), codes @ model.semantics_, atol=1e-5)
    assert model.setting_ == {"relevance": 0.3}
