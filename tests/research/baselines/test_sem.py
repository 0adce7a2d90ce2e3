"""SEM: without prior and refinement it is 2PKNN; counts and refinement against loops."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from prototag.research.baselines import SEM, TwoPassKNN
from prototag.research.baselines.two_pass_votes import TagCounts, refine_votes
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=120, t=7, k=14, m=10, random_state=0)


def refined(votes, Y, share):
    """Complete votes by loops over pairs of tags."""
    t = Y.shape[1]
    R = np.zeros((t, t))
    for b in range(t):
        for c in range(t):
            R[b, c] = 0 if b == c else np.sum(Y[:, b] * Y[:, c])
        if R[b].sum():
            R[b] /= R[b].sum()
    return (1 - share) * votes + share * votes @ R


def test_without_prior_and_refinement_it_is_2pknn(data):
    options = {"sharpness": 6.0, "threshold": "per_tag"}
    plain = TwoPassKNN(2, **options).fit(data.X, data.Y)
    model = SEM(2, prior=0.0, refinement=0.0, **options).fit(data.X, data.Y)
    assert_array_equal(model.decision_function(data.X), plain.decision_function(data.X))
    assert_array_equal(model.out_of_fold_scores_, plain.out_of_fold_scores_)


@pytest.mark.parametrize(("prior", "share"), [(0.5, 0.0), (-0.5, 0.3), (1.0, 1.0)])
def test_scores_are_those_of_loops_over_the_other_images(data, prior, share):
    """Leave-one-out scores are those of counts that the image has no part in."""
    Y = data.Y.toarray()
    options = {"sharpness": 6.0, "threshold": 0.5}
    plain = TwoPassKNN(2, **options).fit(data.X, Y)
    model = SEM(2, prior=prior, refinement=share, **options).fit(data.X, Y)
    n, t = Y.shape
    scores = model.decision_function(data.X[:5])
    weight = ((Y.sum(axis=0) + 1) / (n + t)) ** prior
    expected = weight * refined(plain.decision_function(data.X[:5]), Y, share)
    assert_allclose(scores, expected, atol=1e-6)
    for i in range(0, n, 9):
        others = np.delete(Y, i, axis=0)
        weight = ((others.sum(axis=0) + 1) / (n - 1 + t)) ** prior
        expected = weight * refined(plain.out_of_fold_scores_[i], others, share)
        assert_allclose(model.out_of_fold_scores_[i], expected, atol=1e-6)


def test_refinement_keeps_the_sum_of_votes_where_tags_co_occur(data):
    votes = np.random.default_rng(0).random((5, 7)).astype("f4")
    counts = TagCounts.of(data.Y)
    out = refine_votes(votes, np.zeros((5, 7), "f4"), counts, 0.4)
    assert_allclose(out.sum(axis=1), votes.sum(axis=1), rtol=1e-5)
    assert_array_equal(refine_votes(votes, np.zeros((5, 7), "f4"), counts, 0.0), votes)


def test_copies_of_the_training_set_with_twice_the_neighbours_score_alike(data):
    twice = sparse.vstack([data.Y, data.Y])
    options = {"sharpness": 6.0, "prior": 0.0, "refinement": 0.3, "threshold": 0.5}
    one = SEM(2, **options).fit(data.X, data.Y)
    two = SEM(4, **options).fit(np.vstack([data.X, data.X]), twice)
    new = planted(n=20, t=7, k=14, m=10, random_state=1).X
    assert_allclose(two.decision_function(new), one.decision_function(new), atol=1e-5)
