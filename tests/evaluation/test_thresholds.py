"""Thresholds against brute force over every cut; cuts that survive float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.metrics import f1_score

from prototag.evaluation import metrics, ranking, thresholds
from scored import collections, count_by_hand, steady


def every_cut(scores):
    """A threshold below each distinct score, highest first, in float64 where halves are exact."""
    distinct = np.unique(scores).astype(float)
    return np.append((distinct[1:] / 2 + distinct[:-1] / 2)[::-1], distinct[0] - 1.0)


def best_by_brute_force(Y, scores):
    values = []
    for threshold in every_cut(scores):
        precision, recall = count_by_hand(Y, scores > np.asarray(threshold))
        total = precision + recall
        values.append(2 * precision * recall / total if total else 0.0)
    return values


@steady
@given(collections())
def test_global_threshold_is_the_best_of_all_cuts(collection):
    Y, scores = collection
    threshold, f1 = thresholds.best_global_threshold(Y, scores)
    values = best_by_brute_force(Y, scores)
    assert f1 == pytest.approx(max(values), abs=1e-12)
    assert metrics.f1_of_means(Y, scores > threshold) == pytest.approx(f1, abs=1e-12)
    if f1 > 0:  # of equals the highest
        first = next(i for i, value in enumerate(values) if value >= max(values) - 1e-12)
        assert_array_equal(scores > threshold, scores > np.asarray(every_cut(scores)[first]))
    else:
        assert not (scores > threshold).any()


@steady
@given(collections(), st.integers(1, 20))
def test_global_threshold_does_not_depend_on_bands(collection, cells):
    Y, scores = collection
    expected = thresholds.best_global_threshold(Y, scores)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            thresholds,
            "sweep_thresholds",
            lambda Y, scores: ranking.sweep_thresholds(Y, scores, cells=cells),
        )
        threshold, f1 = thresholds.best_global_threshold(Y, scores)
    assert f1 == pytest.approx(expected[1], abs=1e-12)
    assert threshold == expected[0]


@steady
@given(collections())
def test_tag_thresholds_are_best_for_each_tag(collection):
    Y, scores = collection
    found = thresholds.best_tag_thresholds(sparse.csr_matrix(Y), scores)
    assert found.dtype == scores.dtype
    general, _ = thresholds.best_global_threshold(Y, scores)
    for true, column, threshold in zip(Y.T, scores.T, found, strict=True):
        if not true.any():
            assert threshold == general
            continue
        judged = [
            f1_score(true, column > np.asarray(cut), zero_division=0) for cut in every_cut(column)
        ]
        assert f1_score(true, column > threshold) == pytest.approx(max(judged), abs=1e-12)


floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@steady
@given(floats32, floats32)
@example(1.0, float(np.nextafter(np.float32(1), np.float32(2))))
@example(1 + 2.0**-23, 1 + 2.0**-22)  # here halfway rounds up to the higher score
@example(3 * 2.0**-149, 4 * 2.0**-149)
@example(0.0, 1e-45)
@example(-1e-45, 1e-45)
@example(-3.4028234663852886e38, 3.4028234663852886e38)
def test_threshold_separates_any_two_floats(a, b):
    scores = np.array([[a], [b]], dtype=np.float32)
    Y = scores == scores.max()
    threshold, f1 = thresholds.best_global_threshold(Y, scores)
    assert f1 == 1.0
    for limit in (threshold, np.float32(threshold), np.asarray(threshold)):
        assert_array_equal(scores > limit, Y)
    assert_array_equal(scores > thresholds.best_tag_thresholds(Y, scores), Y)
    assert_array_equal(thresholds.assign_tags(scores, threshold=threshold).toarray(), Y)


def test_threshold_lies_halfway():
    Y, scores = np.array([[1], [0], [0]]), np.array([[3.0], [1.0], [0.0]])
    assert thresholds.best_global_threshold(Y, scores) == (2.0, 1.0)
    assert thresholds.best_tag_thresholds(Y, scores) == [2.0]


def test_shrinking_moves_rare_tags_most():
    rng = np.random.default_rng(3)
    Y = rng.random((300, 3)) < [0.02, 0.5, 0.0]
    scores = (rng.normal(size=Y.shape) + Y).astype(np.float32)
    general, _ = thresholds.best_global_threshold(Y, scores)
    own = thresholds.best_tag_thresholds(Y, scores)
    p = Y.sum(axis=0)
    assert p[0] < 20 < p[1]
    for shrink in (1.0, 10.0, 1e9):
        weight = shrink / (shrink + p)
        found = thresholds.best_tag_thresholds(Y, scores, shrink=shrink)
        np.testing.assert_allclose(found, weight * general + (1 - weight) * own, rtol=1e-6)
    np.testing.assert_allclose(found, general, rtol=1e-5)
    assert own[2] == np.float32(general)


@steady
@given(collections(), st.data())
def test_assign_applies_threshold_and_count(collection, data):
    _, scores = collection
    n, t = scores.shape
    count = data.draw(st.integers(1, t))
    limits = np.linspace(-0.5, 0.5, t)
    limits[0] = np.inf
    above = thresholds.assign_tags(scores, threshold=limits)
    assert_array_equal(above.toarray(), scores > limits)
    assert above.has_canonical_format
    best = thresholds.assign_tags(scores, count=count)
    assert_array_equal(best.toarray(), metrics.top_tags(scores, count).toarray())
    both = thresholds.assign_tags(scores, threshold=limits, count=count)
    assert_array_equal(both.toarray(), above.toarray() & best.toarray())
    assert above.dtype == best.dtype == both.dtype == np.int8
    assert above.shape == best.shape == both.shape == (n, t)


def test_wrong_arguments_are_named():
    scores = np.zeros((2, 3))
    with pytest.raises(ValueError, match="give one of them, or both"):
        thresholds.assign_tags(scores)
    with pytest.raises(ValueError, match=r"shape \(2,\).*give one number for all tags or 3"):
        thresholds.assign_tags(scores, threshold=[0.1, 0.2])
    with pytest.raises(ValueError, match="none of them NaN"):
        thresholds.assign_tags(scores, threshold=np.nan)
    with pytest.raises(ValueError, match="shrink=-1"):
        thresholds.best_tag_thresholds(scores, scores, shrink=-1)
