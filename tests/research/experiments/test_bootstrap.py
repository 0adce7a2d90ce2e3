"""Intervals of differences: the first draw is the plain figure, equal annotators differ by 0."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from prototag.evaluation import metrics
from prototag.research.experiments import bootstrap
from prototag.research.experiments.trials import Trial


def trial(scores, threshold=0.5):
    cut = np.full(scores.shape[1], threshold)
    return Trial({}, scores.astype(np.float32), cut)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    Y = sparse.csr_array((rng.random((60, 7)) < 0.25).astype(np.float32))
    scores = np.round(rng.random((60, 7)) + 0.3 * Y.toarray(), 1)  # rounded, so that some are equal
    return Y, scores


def test_all_images_once_give_the_plain_figures(case):
    Y, scores = case
    found = bootstrap.figures(Y, [trial(scores)], bootstrap.draws(60, 3, seed=0))
    f1, precision, five = found
    kept = scores.astype(np.float32)
    assert_allclose(five[0], metrics.f1_of_means(Y, metrics.top_tags(kept, 5)))
    assert_allclose(f1[0], metrics.f1_of_means(Y, scores.astype(np.float32) > 0.5))
    assert_allclose(precision[0], metrics.mean_average_precision(Y, scores))


def test_a_draw_equals_the_figures_of_the_images_drawn(case):
    """Its twin lists the images as often as they are drawn."""
    Y, scores = case
    drawn = bootstrap.draws(60, 5, seed=1)
    f1, precision, five = bootstrap.figures(Y, [trial(scores)], drawn)
    for number in range(1, 6):
        rows = np.repeat(np.arange(60), drawn[number].astype(int))
        given = scores[rows].astype(np.float32) > 0.5
        assert_allclose(f1[number], metrics.f1_of_means(Y[rows], given))
        assert_allclose(precision[number], metrics.mean_average_precision(Y[rows], scores[rows]))
        best = metrics.top_tags(scores[rows].astype(np.float32), 5)
        assert_allclose(five[number], metrics.f1_of_means(Y[rows], best))


def test_differences(case):
    Y, scores = case
    drawn = bootstrap.draws(60, 200, seed=2)
    good = bootstrap.figures(Y, [trial(scores + Y.toarray())], drawn)
    poor = bootstrap.figures(Y, [trial(scores)], drawn)
    same = bootstrap.difference(good, good)
    assert set(same) == {0.0}
    gap = bootstrap.difference(good, poor)
    assert 0 < gap.f1_low < gap.f1 < gap.f1_high
    assert 0 < gap.map_low < gap.map < gap.map_high
    assert 0 < gap.five_low < gap.five < gap.five_high


def test_seeds_are_averaged(case):
    Y, scores = case
    drawn = bootstrap.draws(60, 10, seed=3)
    one, other = (bootstrap.figures(Y, [trial(s)], drawn)[0] for s in (scores, scores[::-1]))
    both = bootstrap.figures(Y, [trial(scores), trial(scores[::-1])], drawn)[0]
    assert_allclose(both, (one + other) / 2)
