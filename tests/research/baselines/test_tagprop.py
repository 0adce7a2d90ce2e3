"""TagProp: the likelihood against a loop, its derivatives and maximum against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, log_expit, softmax
from sklearn.linear_model import LogisticRegression

from prototag.evaluation import metrics
from prototag.research.baselines import TagProp, tagprop
from prototag.research.datasets import planted

from . import oracles

GROUPS = np.array([0, 0, 0, 1, 1, 1])


@pytest.fixture(scope="module")
def data():
    return planted(n=60, t=5, k=10, m=6, random_state=0)


def sample_of(model, data):
    model.fit(data.X, data.Y)
    x = data.X * model.scale_
    return x, model._neighbours(model._gallery, x, data.Y)


@pytest.mark.parametrize("sigma", [False, True])
@pytest.mark.parametrize(("weights", "groups"), [("rank", None), ("distance", GROUPS)])
def test_likelihood_and_its_derivatives(data, weights, groups, sigma):
    model = TagProp(weights, sigma=sigma, n_neighbours=8, groups=groups, random_state=0)
    x, sample = sample_of(model, data)
    sigmoids = tagprop.Sigmoids(np.linspace(2, 4, 5), np.linspace(-2, -1, 5)) if sigma else None
    if weights == "rank":
        theta = np.linspace(1, -1, 8)
        given = {"gamma": softmax(theta)}
    else:
        theta = np.array([3.0, 1.5])
        given = {"w": theta, "group": GROUPS}
    value, slope = model._likelihood(theta, sample, sigmoids)
    Y = data.Y.toarray()
    assert value == pytest.approx(
        oracles.tagprop_likelihood(x, Y, 8, sigmoids=sigmoids, **given), rel=1e-4
    )
    numeric = approx_fprime(theta, lambda at: model._likelihood(at, sample, sigmoids)[0], 1e-2)
    assert_allclose(slope, numeric, atol=0.02 * np.abs(numeric).max())


@pytest.mark.parametrize("weights", ["rank", "distance"])
def test_weights_maximise_the_likelihood(data, weights):
    model = TagProp(weights, sigma=False, n_neighbours=6, groups=GROUPS, random_state=0)
    x, sample = sample_of(model, data)
    Y = data.Y.toarray()
    if weights == "rank":
        # Expectation and maximisation on the simplex, which is concave: another way to the top.
        present, absent = 1 / Y.sum(), 1 / (Y.size - Y.sum())
        has = Y[sample.neighbours.index]  # n x k x t
        chance = np.where(
            Y[:, None] > 0, np.where(has > 0, 1 - 1e-5, 1e-5), np.where(has > 0, 1e-5, 1 - 1e-5)
        )
        cost = np.where(Y > 0, present, absent)
        gamma = np.full(6, 1 / 6)
        for _ in range(3000):
            share = gamma[None, :, None] * chance
            gamma = (cost[:, None] * share / share.sum(axis=1, keepdims=True)).sum(axis=(0, 2))
            gamma /= gamma.sum()
        best = oracles.tagprop_likelihood(x, Y, 6, gamma=gamma)
        assert model.weights_.sum() == pytest.approx(1)
    else:
        found = minimize(
            lambda w: -oracles.tagprop_likelihood(x, Y, 6, w=np.abs(w), group=GROUPS),
            [1.0, 1.0],
            method="Nelder-Mead",
            options={"maxfev": 80},
        )
        best = -found.fun
        assert (model.weights_ >= 0).all()
    assert model.log_likelihood_ == pytest.approx(best, abs=2e-4)


def test_sigmoids_are_those_of_logistic_regression():
    rng = np.random.default_rng(0)
    x = rng.random((300, 4)).astype(np.float32)
    Y = rng.random((300, 4)) < expit(3 * x - [1, 2, 3, 0.5])
    (slope, offset), value = tagprop.fit_sigmoids(x, Y)
    weight = np.where(Y, 1 / Y.sum(), 1 / (~Y).sum())
    for tag in range(4):
        judge = LogisticRegression(C=1e8, tol=1e-9, max_iter=1000).fit(
            x[:, [tag]], Y[:, tag], sample_weight=weight[:, tag]
        )
        assert slope[tag] == pytest.approx(judge.coef_[0, 0], rel=2e-3)
        assert offset[tag] == pytest.approx(judge.intercept_[0], rel=2e-3)
    expected = (weight * log_expit(np.where(Y, 1, -1) * (slope * x + offset))).sum()
    assert value == pytest.approx(expected, abs=1e-5)


def test_sigmoids_of_tags_on_all_images_or_none():
    x = np.random.default_rng(1).random((40, 3)).astype(np.float32)
    Y = np.stack([np.ones(40, bool), np.zeros(40, bool), x[:, 2] > 0.5], axis=1)
    (slope, offset), _ = tagprop.fit_sigmoids(x, Y)
    p = expit(slope * x + offset)
    assert np.isfinite(p).all()
    assert p[:, 0].min() > 0.9
    assert p[:, 1].max() < 0.1
    assert ((p[:, 2] > 0.5) == Y[:, 2]).all()


def test_rounds_never_lower_the_likelihood(data):
    values = [
        TagProp(n_neighbours=10, n_rounds=rounds, random_state=0)
        .fit(data.X, data.Y)
        .log_likelihood_
        for rounds in (1, 2, 4)
    ]
    assert values[0] <= values[1] + 1e-6 <= values[2] + 2e-6


def test_sigmoids_help_rare_tags():
    """What they were made for: more tags found at least once, with five on each image."""
    data = planted(n=900, t=40, k=80, m=16, noise=0.6, random_state=3)
    train, test = slice(0, 600), slice(600, None)
    with_sigma, without = (
        metrics.n_plus(
            data.Y[test],
            TagProp(sigma=sigma, n_neighbours=60, random_state=0)
            .fit(data.X[train], data.Y[train])
            .predict(data.X[test], count=5),
        )
        for sigma in (True, False)
    )
    assert with_sigma > without


def test_a_group_of_noise_loses_its_weight():
    data = planted(n=300, t=8, k=16, m=8, noise=0.3, random_state=2)
    noise = np.random.default_rng(0).standard_normal((300, 8)) / 3
    X = np.hstack([data.X, noise])
    model = TagProp(groups=[0] * 8 + [1] * 8, n_neighbours=50, random_state=0).fit(X, data.Y)
    assert model.weights_[1] < 0.5 * model.weights_[0]
