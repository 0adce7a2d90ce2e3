"""MVSAE: gradients against finite differences; groups are separate; training lowers the loss."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prototag.research.baselines import MVSAE
from prototag.research.baselines.autoencoder import (
    ENCODER,
    JOINT,
    Penalties,
    adam,
    encoder_loss,
    group_mask,
    initial_parameters,
    joint_loss,
    logits,
    network_loss,
    tag_loss,
    tag_weights,
)
from prototag.research.datasets import planted

GROUPS = [0] * 3 + [1] * 4


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    mask = group_mask(np.array(GROUPS), 6).astype(float)
    p = initial_parameters(mask, 5, 4, rng)
    p = {name: value + 0.1 * rng.standard_normal(value.shape) for name, value in p.items()}
    p["encoder"] = p["encoder"] * mask
    x = rng.standard_normal((9, 7))
    noisy = np.where(rng.random((9, 7)) < 0.2, 0, x)
    y = (rng.random((9, 4)) < 0.4).astype(float)
    return p, x, noisy, y, mask


def check_gradient(loss, p, names, fixed=None):
    value, gradient = loss(p)
    assert np.isfinite(value)
    assert set(gradient) == set(names)
    for name in names:
        slopes = np.zeros_like(p[name])
        for place in np.ndindex(p[name].shape):
            if fixed is not None and name == "encoder" and not fixed[place]:
                continue
            moved = []
            for step in (1e-6, -1e-6):
                changed = {**p, name: p[name].copy()}
                changed[name][place] += step
                moved.append(loss(changed)[0])
            slopes[place] = (moved[0] - moved[1]) / 2e-6
        assert_allclose(gradient[name], slopes, rtol=1e-5, atol=1e-6)


def test_gradient_of_the_encoders(parts):
    p, x, noisy, _, mask = parts
    check_gradient(lambda q: encoder_loss(q, x, noisy, mask, 0.01), p, ENCODER, mask)


def test_gradient_of_the_joint_layer(parts):
    p, x, _, y, _ = parts
    hidden = np.maximum(x @ p["encoder"], 0)
    noisy = hidden * (np.random.default_rng(1).random(hidden.shape) > 0.2)
    check_gradient(lambda q: joint_loss(q, hidden, y, noisy, 0.01), p, JOINT)


def test_gradient_of_fine_tuning(parts):
    p, x, noisy, y, mask = parts
    weights = np.array([1.0, 2.0, 3.0, 0.5])
    penalties = Penalties(0.01, 0.3)
    names = (*ENCODER, *JOINT)
    loss = lambda q: network_loss(q, x, y, noisy, mask, weights, penalties)  # noqa: E731
    check_gradient(loss, p, names, mask)


def test_the_tag_loss_is_weighted_cross_entropy(parts):
    p, x, _, y, _ = parts
    weights = np.array([1.0, 2.0, 3.0, 0.5])
    s = logits(p, x)
    q = 1 / (1 + np.exp(-s))
    expected = -(weights * y * np.log(q) + (1 - y) * np.log(1 - q)).sum() / 9
    assert_allclose(tag_loss(s, y, weights), expected)


def test_rare_tags_weigh_more_and_none_weighs_less_than_one():
    y = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]], float)
    assert_allclose(tag_weights(y, 0.5), np.sqrt([3.0, 1.0, 3.0]))
    assert_allclose(tag_weights(y, 0.0), 1)


def test_units_see_the_columns_of_their_group_only():
    data = planted(n=80, t=5, k=10, m=7, random_state=0)
    options = {"balance": 0.3, "n_hidden": 14, "n_joint": 8, "n_epochs": 4, "threshold": 0.0}
    model = MVSAE(groups=GROUPS, **options).fit(data.X, data.Y)
    mask = group_mask(np.array(GROUPS), 14)
    assert (model.encoder_[mask == 0] == 0).all()
    assert (model.encoder_[mask == 1] != 0).all()


def test_one_group_is_no_groups():
    data = planted(n=80, t=5, k=10, m=7, random_state=0)
    options = {"balance": 0.3, "n_hidden": 14, "n_joint": 8, "n_epochs": 4, "threshold": 0.0}
    one = MVSAE(groups=["a"] * 7, **options).fit(data.X, data.Y)
    none = MVSAE(**options).fit(data.X, data.Y)
    assert_array_equal(one.decision_function(data.X), none.decision_function(data.X))


def test_training_fits_one_batch(parts):
    p, x, _, y, mask = parts
    weights = np.ones(4)
    wide = initial_parameters(np.ones((7, 40)), 30, 4, np.random.default_rng(0))

    def loss(q, _):
        return network_loss(q, x, y, x, np.ones((7, 40)), weights, Penalties(0.0, 0.0))

    epochs = adam(wide, loss, np.arange(9), np.random.default_rng(0), 0.01)
    values = [loss(q, None)[0] for _, q in zip(range(300), epochs, strict=False)]
    assert values[-1] < 0.01 < values[0]
    small = adam(p, lambda q, _: network_loss(q, x, y, x, mask, weights, Penalties(0.01, 0.1)),
                 np.arange(9), np.random.default_rng(0), 1e-4)  # fmt: skip
    falling = [
        network_loss(q, x, y, x, mask, weights, Penalties(0.01, 0.1))[0]
        for _, q in zip(range(20), small, strict=False)
    ]
    assert (np.diff(falling) < 0).all()


def test_seeds_differ_and_repeat():
    data = planted(n=80, t=5, k=10, m=7, random_state=0)
    options = {"balance": 0.3, "n_hidden": 14, "n_joint": 8, "n_epochs": 2, "threshold": 0.0}
    scores = [
        MVSAE(random_state=seed, **options).fit(data.X, data.Y).decision_function(data.X)
        for seed in (0, 0, 1)
    ]
    assert_array_equal(scores[0], scores[1])
    assert np.abs(scores[0] - scores[2]).max() > 1e-3
