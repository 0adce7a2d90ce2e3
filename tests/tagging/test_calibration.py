"""Probabilities: rising, honest for few and for many images, and never sure of noise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from prototag.engine import SINGLE_THREAD
from prototag.evaluation import metrics
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.tagging import calibration
from prototag.tagging.task import Task


def drawn(n, seed, t=6):
    """Scores whose square is the probability of the tag."""
    rng = np.random.default_rng(seed)
    scores = rng.random((n, t)).astype(np.float32)
    return (rng.random(scores.shape) < scores**2).astype(np.int8), scores


def test_probabilities_are_those_that_drew_the_tags():
    Y, scores = drawn(4000, 0)
    found = calibration.fit(Y, scores)(scores)
    assert np.abs(found - scores**2).mean() < 0.02
    assert found.min() > 0
    assert found.max() < 1


def test_probabilities_rise_with_the_score():
    knots, rates, offset = calibration.fit(*drawn(300, 1))
    assert (np.diff(knots) > 0).all()
    assert (np.diff(rates) >= 0).all()
    assert offset.shape == (6,)


@pytest.mark.parametrize("n", [30, 100, 300, 4000])
def test_reliable_on_fresh_images(n):
    """Over several draws the promised and the true share agree; few images promise less."""
    promised, true = [], []
    for seed in range(20 if n < 1000 else 2):
        model = calibration.fit(*drawn(n, seed))
        Y, scores = drawn(2000, 1000 + seed)
        p = model(scores)
        promised.append(p[p > 0.5].mean())
        true.append(Y[p > 0.5].mean())
    assert np.mean(true) - (0.05 if n == 30 else 0.02) < np.mean(promised) < np.mean(true) + 0.02


def test_held_out_images_are_scored_by_the_others():
    """With another answer for one image its own probability stays."""
    Y, scores = drawn(60, 2)

    def held_out(labels):
        task = Task(
            scores, sparse.csr_array(labels), labels, None, False, 0, np.arange(60), SINGLE_THREAD
        )
        # The correction of leave-one-out scores uses the label: scores are kept apart from it.
        corrected = scores * 2 / (1 + correct_loo_bias(labels, np.ones_like(scores)))
        return calibration.calibrate(task, corrected, np.ones(Y.shape[1]), "per_tag").probabilities

    before = held_out(Y)
    changed = Y.copy()
    changed[7] = 1 - changed[7]
    after = held_out(changed)
    assert_allclose(after[7], before[7], atol=1e-6)
    assert np.abs(after - before).max() > 0


def test_scores_without_meaning_are_as_likely_as_the_tag_is_frequent():
    rng = np.random.default_rng(0)
    for n in (30, 100, 1000):
        scores = rng.random((n, 8))
        Y = rng.random((n, 8)) < 0.2
        found = calibration.fit(Y, scores)(rng.random((1000, 8)))
        assert np.quantile(found, 0.99) < 0.5
        assert found.mean() < 0.25


def test_a_tag_whose_scores_lie_is_moved():
    Y, scores = drawn(2000, 3)
    scores[:, 0] = np.minimum(scores[:, 0] + 0.3, 1)
    model = calibration.fit(Y, scores)
    assert model.offset[0] < -0.2
    assert np.abs(model.offset[1:]).max() < 0.2


def test_no_tag_at_all_is_hardly_probable():
    model = calibration.fit(np.zeros((5, 2), int), np.ones((5, 2)))
    assert model(np.array([[0.0, 2.0]])).max() < 1e-5


def test_reliability_counts_pairs():
    Y, scores = drawn(500, 4)
    promised, true, pairs = metrics.reliability(Y, scores**2)
    assert pairs.sum() == scores.size
    assert_allclose(promised, true, atol=0.12)
