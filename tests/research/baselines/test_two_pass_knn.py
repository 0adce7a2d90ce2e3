"""2PKNN against loops; its metric learns which columns say something of tags."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from prototag.evaluation import metrics
from prototag.research.baselines import TwoPassKNN, knn_search, metric_learning
from prototag.research.datasets import planted

from . import oracles


@pytest.fixture(scope="module")
def data():
    return planted(n=140, t=8, k=14, m=10, random_state=0)


@pytest.mark.parametrize("count", [1, 3])
def test_two_passes_are_those_of_a_loop(data, count):
    X, Y, new = data.X[:100], data.Y[:100].toarray(), data.X[100:]
    groups = [0] * 4 + [1] * 6
    model = TwoPassKNN(count, sharpness=4.0, groups=groups).fit(X, Y)
    scale = oracles.even_scale(X, groups)
    scores = model.decision_function(new)
    for i, x in enumerate(new):
        found = oracles.nearest_by_tag(x * scale, X * scale, Y, count)
        assert_allclose(scores[i], oracles.votes(x * scale, X * scale, Y, found, 4.0), atol=1e-4)
    for i in range(0, 100, 7):
        found = oracles.nearest_by_tag(X[i] * scale, X * scale, Y, count, own=i)
        expected = oracles.votes(X[i] * scale, X * scale, Y, found, 4.0)
        assert_allclose(model.out_of_fold_scores_[i], expected, atol=1e-4)


def test_margin_gradient_is_that_of_the_loss(data):
    """Neighbours and signs stay within a small step: the loss is linear there."""
    X, Y = data.X.astype(np.float64), data.Y.toarray()
    tags, known, images = knn_search.TagLists.of(data.Y), Y > 0, np.array([3, 10, 50])
    v = np.linspace(0.5, 1.5, 10)
    scaled = (X * np.sqrt(v)).astype(np.float32)
    found = knn_search.Search(scaled, data.Y).find(scaled[images], 2, images)
    pull = metric_learning.loss_by_distance(found, known[images], known, tags, 2, 7.0)
    assert (pull > 0).any()
    assert (pull < 0).any()
    gradient = sum(
        pull[i, j] * np.square(X[p] - X[found.index[i, j]])
        for i, p in enumerate(images)
        for j in range(found.count[i])
    )
    step = 1e-6
    for column in range(10):
        up, down = v.copy(), v.copy()
        up[column] += step
        down[column] -= step
        slope = (
            oracles.margin_loss(up, X, Y, images, 2, 7.0)
            - oracles.margin_loss(down, X, Y, images, 2, 7.0)
        ) / (2 * step)
        assert gradient[column] == pytest.approx(slope, abs=2e-4)


def with_noise(data, seed=0):
    """The vectors, and beside them as many columns that say nothing."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(data.X.shape).astype(np.float32)
    noise *= np.linalg.norm(data.X, axis=1, keepdims=True) / np.linalg.norm(
        noise, axis=1, keepdims=True
    )
    return np.hstack([data.X, noise]), [0] * data.X.shape[1] + [1] * data.X.shape[1]


@pytest.mark.parametrize("metric", ["groups", "columns"])
def test_columns_of_noise_lose_their_weight(metric):
    data = planted(n=500, t=10, k=20, m=12, noise=0.3, random_state=2)
    X, groups = with_noise(data)
    train, test = slice(0, 350), slice(350, None)
    options = {"n_per_tag": 2, "sharpness": 12.0, "groups": groups, "random_state": 0}
    plain = TwoPassKNN(**options).fit(X[train], data.Y[train])
    learned = TwoPassKNN(metric=metric, rate=0.3, **options).fit(X[train], data.Y[train])
    weight = np.square(learned.scale_ / plain.scale_)
    assert weight[12:].mean() < 0.6 * weight[:12].mean()
    before, after = (
        metrics.mean_average_precision(data.Y[test], model.decision_function(X[test]))
        for model in (plain, learned)
    )
    assert after > before + 0.03
    assert (learned.scale_ >= 0).all()


def test_learning_a_metric_lowers_its_loss():
    data = planted(n=200, t=6, k=12, m=8, noise=0.3, random_state=1)
    X, _ = with_noise(data)
    scaled = X * knn_search.balanced_scale(X, np.zeros(16, np.intp))
    Y, images = data.Y.toarray(), np.arange(0, 200, 10)
    v = metric_learning.learn_weights(
        scaled, data.Y, np.arange(16), per_tag=2, push=10.0, rate=0.1, n_steps=40,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    before = oracles.margin_loss(np.ones(16), scaled, Y, images, 2, 10.0)
    assert oracles.margin_loss(v, scaled, Y, images, 2, 10.0) < 0.95 * before


def test_without_tags_there_is_no_metric_to_learn():
    X = np.random.default_rng(0).random((10, 3)).astype(np.float32)
    options = {"per_tag": 1, "push": 1.0, "rate": 0.1, "n_steps": 3}
    v = metric_learning.learn_weights(
        X, sparse.csr_array((10, 2)), np.arange(3), rng=np.random.default_rng(0), **options
    )
    assert_array_equal(v, 1)
