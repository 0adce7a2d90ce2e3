"""Scores as probabilities: rising, honest, and fixed where nothing is known."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from prototag.evaluation import metrics
from prototag.tagging import calibration


def drawn(n, seed):
    """Scores whose square is the probability of the tag."""
    rng = np.random.default_rng(seed)
    scores = rng.random((n, 6)).astype(np.float32)
    return (rng.random(scores.shape) < scores**2).astype(np.int8), scores


def test_probabilities_are_those_that_drew_the_tags():
    Y, scores = drawn(4000, 0)
    found = calibration.fit(Y, scores)(scores)
    assert np.abs(found - scores**2).mean() < 0.02
    assert found.min() >= 0
    assert found.max() <= 1


def test_probabilities_rise_with_the_score():
    knots, probabilities = calibration.fit(*drawn(300, 1))
    assert (np.diff(knots) > 0).all()
    assert (np.diff(probabilities) >= 0).all()


def test_reliable_on_fresh_images():
    model = calibration.fit(*drawn(4000, 2))
    Y, scores = drawn(4000, 3)
    promised, true, pairs = metrics.reliability(Y, model(scores))
    assert_allclose(promised[pairs > 500], true[pairs > 500], atol=0.05)
    assert pairs.sum() == scores.size


def test_no_tag_at_all_is_probability_zero():
    model = calibration.fit(np.zeros((5, 2), int), np.ones((5, 2)))
    assert model(np.array([[0.0, 2.0]])).tolist() == [[0, 0]]
