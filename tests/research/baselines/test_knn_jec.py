"""kNN and JEC against loops."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from prototag.research.baselines import JEC, KNN, base
from prototag.research.datasets import planted

from . import oracles


@pytest.fixture(scope="module")
def data():
    return planted(n=140, t=8, k=14, m=10, random_state=0)


GROUPS = [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("groups", [None, GROUPS], ids=["one group", "three"])
def test_knn_is_a_weighted_vote(data, groups):
    X, Y, new = data.X[:100], data.Y[:100].toarray(), data.X[100:]
    model = KNN(6, sharpness=5.0, groups=groups).fit(X, Y)
    scale = oracles.even_scale(X, groups or [0] * 10)
    scores = model.decision_function(new)
    for i, x in enumerate(new):
        found = oracles.nearest(x * scale, X * scale, 6)
        assert_allclose(scores[i], oracles.votes(x * scale, X * scale, Y, found, 5.0), atol=1e-4)
    for i in range(0, 100, 7):
        found = oracles.nearest(X[i] * scale, X * scale, 6, own=i)
        expected = oracles.votes(X[i] * scale, X * scale, Y, found, 5.0)
        assert_allclose(model.out_of_fold_scores_[i], expected, atol=1e-4)


def test_jec_transfers_tags_greedily(data):
    X, Y, new = data.X[:100], data.Y[:100].toarray(), data.X[100:]
    model = JEC(5, groups=GROUPS).fit(X, Y)
    scale = oracles.even_scale(X, GROUPS)
    scores = model.decision_function(new)
    for i, x in enumerate(new):
        assert_allclose(scores[i], oracles.jec(x * scale, X * scale, Y, 5), atol=1e-5)
    for i in range(100):
        expected = oracles.jec(X[i] * scale, X * scale, Y, 5, own=i)
        assert_allclose(model.out_of_fold_scores_[i], expected, atol=1e-5)


def test_selected_parameters_are_best_for_held_out_images(data):
    chosen = KNN().fit(data.X, data.Y)

    def quality(model):
        return base.quality(data.Y, model.out_of_fold_scores_)

    for sharpness in (0.0, 8.0, 24.0):
        other = KNN(chosen.n_neighbours_, sharpness=sharpness).fit(data.X, data.Y)
        if chosen.n_neighbours_ == 80:  # sharpness is chosen with as many
            assert quality(chosen) >= quality(other)
    for count in (5, 10, 20, 40, 80):
        other = KNN(count, sharpness=chosen.sharpness_).fit(data.X, data.Y)
        assert quality(chosen) >= quality(other)


def test_more_neighbours_than_images_are_all_of_them(data):
    model = KNN(1000, sharpness=0.0).fit(data.X, data.Y)
    mean = data.Y.toarray().mean(axis=0)
    assert_allclose(model.decision_function(data.X[:5]), np.tile(mean, (5, 1)), atol=1e-5)


def test_jec_needs_a_second_neighbour(data):
    with pytest.raises(ValueError, match=r"'n_neighbours' parameter of JEC must be"):
        JEC(1).fit(data.X, data.Y)
