"""FastTag: one linear system against the paper's alternation, and against its loss by drawing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from prototag.evaluation import metrics
from prototag.research.baselines import FastTag, fasttag
from prototag.research.datasets import planted

from . import oracles

SETTINGS = {"strength": 0.01, "corruption": 0.3, "reconstruction": 0.5}


@pytest.fixture(scope="module")
def data():
    return planted(n=200, t=7, k=14, m=10, random_state=0)


@pytest.fixture(scope="module")
def linear(data):
    options = {"balance": 0.0, "n_layers": 1, "kernel": "linear", "random_state": 0}
    return FastTag(**SETTINGS, **options).fit(data.X, data.Y)


def wide(data):
    return np.column_stack([data.X, np.ones(len(data.X))]).astype(np.float64)


def test_joint_minimiser_is_where_the_alternation_ends(data, linear):
    B, W = oracles.fasttag(wide(data), data.Y.toarray(), **SETTINGS)
    assert_allclose(linear.enrichment_[0], B, atol=1e-4)
    assert_allclose(linear.coef_, W, atol=1e-3)
    assert_allclose(linear.decision_function(data.X), wide(data) @ W, atol=1e-4)


def test_no_other_matrices_have_a_lower_loss(data, linear):
    B, W = linear.enrichment_[0], linear.coef_.astype(np.float64)
    X, Y = wide(data), data.Y.toarray()

    def loss(B, W):  # the same draws each time
        return oracles.fasttag_loss(B, W, X, Y, rng=np.random.default_rng(0), draws=300, **SETTINGS)

    least, rng = loss(B, W), np.random.default_rng(1)
    for _ in range(10):
        away = 0.05 * rng.standard_normal(B.shape)
        assert loss(B + away, W) > least
        assert loss(B, W + 0.05 * rng.standard_normal(W.shape)) > least


def test_completed_tags_fill_in_what_goes_together():
    """With tag 0 always comes tag 1, and half of the time people left it out."""
    data = planted(n=400, t=6, k=12, m=8, random_state=0)
    Y = data.Y.toarray()
    Y[:, 1] = Y[:, 0]
    given = Y.copy()
    given[::2, 1] = 0
    options = {"balance": 0.0, "n_layers": 1, "kernel": "linear"}
    model = FastTag(**SETTINGS, **options).fit(data.X, given)
    completed = given @ model.enrichment_[0]
    left_out = (Y[:, 1] == 1) & (given[:, 1] == 0)
    absent = Y[:, 1] == 0
    assert completed[left_out, 1].mean() > completed[absent, 1].mean() + 0.2


def test_a_second_layer_learns_from_the_tags_of_the_first(data):
    options = {"balance": 0.0, "kernel": "linear", "random_state": 0}
    two = FastTag(**SETTINGS, n_layers=2, **options).fit(data.X, data.Y)
    first, _ = oracles.fasttag(wide(data), data.Y.toarray(), **SETTINGS)
    second, W = oracles.fasttag(wide(data), data.Y.toarray() @ first, **SETTINGS)
    assert_allclose(two.enrichment_[1], second, atol=2e-3)
    assert_allclose(two.coef_, W, atol=2e-3)


def test_images_of_rare_tags_count_more():
    Y = sparse.csr_array(np.array([[1, 0], [1, 0], [1, 0], [1, 1], [0, 0]], np.float32))
    weight = fasttag.image_weights(Y, 1.0)
    expected = np.array([5 / 4, 5 / 4, 5 / 4, 5, 1])
    assert_allclose(weight, expected / expected.mean(), rtol=1e-6)
    assert_allclose(fasttag.image_weights(Y, 0.0), 1)


def test_held_out_scores_are_those_of_a_model_of_the_other_folds(data):
    options = {**SETTINGS, "balance": 0.0, "n_layers": 1, "kernel": "linear", "n_folds": 2}
    model = FastTag(random_state=0, **options).fit(data.X, data.Y)
    from sklearn.utils import check_random_state

    from prototag.research.baselines.base import draw_folds

    fold = draw_folds(200, 2, check_random_state(0))
    n = (fold == 1).sum()
    _, W = oracles.fasttag(
        wide(data)[fold == 1],
        data.Y.toarray()[fold == 1],
        **{**SETTINGS, "strength": 0.01 * 200 / n},
    )
    expected = wide(data)[fold == 0] @ W
    assert_allclose(model.out_of_fold_scores_[fold == 0], expected, atol=5e-3)


def test_the_kernel_sees_what_is_not_linear():
    data = planted(n=600, t=8, k=40, m=6, noise=0.1, random_state=4)
    train, test = slice(0, 400), slice(400, None)
    scores = {
        kernel: FastTag(kernel=kernel, random_state=0)
        .fit(data.X[train], data.Y[train])
        .decision_function(data.X[test])
        for kernel in ("linear", "rbf")
    }
    quality = {k: metrics.mean_average_precision(data.Y[test], s) for k, s in scores.items()}
    assert quality["rbf"] > quality["linear"] + 0.1
