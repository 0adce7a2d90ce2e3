"""Ten numbers a tag answer what all scores would have answered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prototag.annotator.operating_points import OperatingPoints
from prototag.errors import ModelFileError
from prototag.evaluation import metrics


def drawn(seed, n=40, t=4, ties=False):
    rng = np.random.default_rng(seed)
    Y = rng.random((n, t)) < 0.3
    Y[0] = True
    scores = (0.5 * Y + rng.random((n, t))).astype(np.float32)
    return Y, scores.round(1) if ties else scores


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.floats(0.01, 1))
def test_thresholds_are_those_of_the_full_search(seed, ties, precision):
    Y, scores = drawn(seed, ties=ties)
    kept = OperatingPoints.collect(Y, scores, 0.5)
    expected = full_search(Y, scores, precision)
    found = kept.thresholds(precision)
    assert np.array_equal(scores > found, expected)
    assert np.array_equal(np.isinf(found), ~expected.any(axis=0))


def full_search(Y, scores, precision):
    """What is given above the lowest cut that reaches the precision, at a picture with the tag."""
    given = np.zeros(Y.shape, bool)
    for tag in range(Y.shape[1]):
        for cut in sorted(scores[Y[:, tag], tag], reverse=True):
            above = scores[:, tag] >= cut
            if np.count_nonzero(Y[above, tag]) / np.count_nonzero(above) >= precision:
                given[:, tag] = above
    return given


def test_figures_are_those_of_the_metrics():
    Y, scores = drawn(3)
    Y[:, 2] = False  # a tag that no picture has
    kept = OperatingPoints.collect(Y, scores, np.array([0.5, 0.9, 0.2, 5.0]))
    precision, recall = metrics.tag_precision_recall(Y, scores > [0.5, 0.9, 0.2, 5.0])
    assert np.array_equal(kept.precision, precision)
    assert np.array_equal(kept.recall, recall)
    assert kept.count.tolist() == Y.sum(axis=0).tolist()
    assert kept.weak.tolist() == [False, False, True, True]
    assert np.isinf(kept.thresholds(0.01)[2])


def test_survives_a_model_file_and_is_checked():
    kept = OperatingPoints.collect(*drawn(1), 0.5)
    arrays = kept.to_arrays()
    again = OperatingPoints.of(arrays, 4)
    assert all(np.array_equal(a, b) for a, b in zip(kept, again, strict=True))
    with pytest.raises(ModelFileError, match="do not fit the tags"):
        OperatingPoints.of({**arrays, "limits": arrays["limits"][::-1].copy()}, 4)


@pytest.mark.parametrize("precision", [0, -1, 1.5])
def test_a_precision_outside_its_range_is_refused(precision):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        OperatingPoints.collect(*drawn(1), 0.5).thresholds(precision)
