"""The loss and its majoriser against the formula of the method."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import oracles
from prototag.mcdl import settings as losses
from scored import steady

scores = st.floats(-3, 6)
pairs = {
    "hinge": lambda C, tau: (losses.squared_hinge(C, tau), oracles.Loss(C, tau)),
    "squared": lambda *_: (losses.squared(), oracles.Loss(0.0, None)),
}


@pytest.mark.parametrize("kind", pairs)
@steady
@given(st.booleans(), scores, scores, st.floats(0, 1), st.floats(-1, 2))
def test_majoriser_touches_and_bounds_the_loss(kind, y, at, s, C, tau):
    ours, formula = pairs[kind](C, tau)
    Y = np.array([[y]])
    target = float(ours.targets(Y, np.array([[at]]))[0, 0])
    assert (target - at) ** 2 == pytest.approx(formula(y, at), abs=1e-5)
    assert (target - s) ** 2 >= formula(y, s) - 1e-5
    opening = float(ours.goals(Y)[0, 0])  # all violated: bounds the loss too, without touching
    assert (opening - s) ** 2 >= formula(y, s) - 1e-5


@pytest.mark.parametrize("kind", pairs)
def test_value_and_targets_equal_the_formula(kind):
    rng = np.random.default_rng(0)
    ours, formula = pairs[kind](0.5, 0.5)
    Y, s = rng.random((30, 7)) < 0.3, rng.uniform(-1, 2, (30, 7)).astype(np.float32)
    s[0, :2] = 1.0, 0.0  # exactly at the goals
    expected = [formula.total(y, row) for y, row in zip(Y, s, strict=True)]
    assert_allclose(ours.value(Y, s), expected, rtol=1e-6)
    targets = [
        [formula.target(v, w) for v, w in zip(*row, strict=True)] for row in zip(Y, s, strict=True)
    ]
    assert_allclose(ours.targets(Y, s), targets, rtol=1e-6)
    assert ours.targets(Y, s).dtype == np.float32
    assert ours.value(Y, s).dtype == np.float64


def test_the_margin_of_the_method():
    """A tag that is present should score tau + C at least, one that is absent tau - C at most."""
    loss = losses.squared_hinge(0.5, 0.75)
    Y, s = np.array([[1, 1, 1, 0, 0, 0]]), np.array([[1.25, 2.0, 1.0, 0.25, 0.0, 0.5]])
    assert_allclose(loss.unmet(Y, s), [[0, 0, 1, 0, 0, 1]])
    assert loss.value(Y, s) == pytest.approx([0.0625 + 0.0625])
