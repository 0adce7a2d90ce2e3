"""The kernels that sort scores, against their slow twins and NumPy's sorts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from prototag.evaluation import ranking
from scored import collections, steady

KINDS = (np.float32, np.float64)


def many(kind, n=700, t=9, decimals=2):
    """Enough scores for the radix sort, with ties, both signs and both zeros."""
    rng = np.random.default_rng(5)
    Y = rng.random((n, t)) < 0.2
    scores = np.round(rng.normal(size=Y.shape) + Y, decimals).astype(kind)
    scores[rng.random(Y.shape) < 0.1] *= 0  # of either sign
    return Y, scores


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_scores_in_order_are_those_of_a_stable_sort(kind, scale):
    Y, scores = many(kind)
    scores *= kind(scale)
    order = np.argsort(scores, axis=None, kind="stable")
    values, right = ranking.sort_scores(Y, scores)
    assert values.dtype == kind
    assert_array_equal(values, scores.ravel()[order])
    assert_array_equal(right, Y.ravel()[order])


@steady
@given(collections())
def test_ranks_of_tags_are_those_counted_by_hand(collection):
    Y, scores = collection
    found = ranking.rank_tags(Y, scores)
    for tag in np.flatnonzero(Y.any(axis=0)):
        expected = oracles.rank_column(Y[:, tag], scores[:, tag])
        assert_allclose([part[tag] for part in found], expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_many_scores_are_ranked_as_few(kind):
    Y, scores = many(kind)
    found = ranking.rank_tags(Y, scores)
    assert found.best.dtype == found.lower.dtype == kind
    for tag in range(Y.shape[1]):
        expected = oracles.rank_column(Y[:, tag], scores[:, tag])
        assert_allclose([part[tag] for part in found], expected, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_tags_that_no_image_has_or_all_have(kind):
    scores = np.array([[1, 3], [2, 1], [2, 2]], kind)
    found = ranking.rank_tags(np.array([[0, 1], [0, 1], [0, 1]], bool), scores)
    assert_array_equal(found.precision, [np.nan, 1])
    assert_array_equal(found.area, [0.5, 0.5])
    assert (found.best[1], found.lower[1]) == (1, -np.inf)


@pytest.mark.parametrize("kind", KINDS)
def test_cuts_keep_the_precision_of_scores_and_the_order_of_memory_does_not_matter(kind):
    Y, scores = many(kind)
    (plain,) = ranking.sweep_thresholds(Y, scores)
    (other,) = ranking.sweep_thresholds(np.asfortranarray(Y), np.asfortranarray(scores))
    assert plain.scores.dtype == kind
    assert_array_equal(plain.scores, np.unique(scores)[::-1])
    for ours, expected in zip(other, plain, strict=True):
        assert_array_equal(ours, expected)
    for kept, expected in zip(
        ranking.rank_tags(Y[::2, ::2], scores[::2, ::2]), range(4), strict=True
    ):
        assert_array_equal(
            kept, ranking.rank_tags(Y[::2, ::2].copy(), scores[::2, ::2].copy())[expected]
        )
