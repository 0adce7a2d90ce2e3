"""Which tags were learned, and which cut keeps a precision."""

from __future__ import annotations

import numpy as np
import pytest

from prototag.annotator.operating_points import DEFAULT_PRECISION, OperatingPoints, TagSelector
from prototag.errors import InputError, ModelFileError


def drawn(seed, n=400, t=12, noise=()):
    """Probabilities that hold, but for tags of noise, whose probabilities are another's."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.4, 1.6, (n, t))
    Y = rng.random((n, t)) < p
    for tag in noise:
        p[:, tag] = rng.permutation(p[:, tag])
    return Y, p


def test_noise_is_not_learned_and_the_rest_is():
    Y, p = drawn(0, noise=(3, 7))
    points = OperatingPoints.from_predictions(Y, p, p)
    assert np.flatnonzero(~points.learnable).tolist() == [3, 7]
    assert points.auc[points.learnable].min() > 0.6
    assert np.abs(points.auc[[3, 7]] - 0.5).max() < 0.15


def test_random_tags_are_learned_once_in_a_hundred_times():
    passed = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        Y, scores = rng.random((60, 40)) < 0.15, rng.random((60, 40))
        passed.append(
            OperatingPoints.from_predictions(Y, scores, np.full(Y.shape, 0.15)).learnable.mean()
        )
    assert np.mean(passed) < 0.02


@pytest.mark.parametrize("precision", [0.5, 0.7, 0.9])
def test_the_precision_is_kept_on_fresh_pictures(precision):
    kept = []
    for seed in range(12):
        points = OperatingPoints.from_predictions(*[drawn(seed)[i] for i in (0, 1, 1)])
        Y, p = drawn(1000 + seed)
        given = (p >= points.threshold_for(precision)) & points.learnable
        kept += [Y[given].mean()] if given.any() else []
    assert len(kept) >= 3
    assert np.mean(kept) > precision
    assert min(kept) > precision - 0.05


def test_no_tag_is_applied_if_the_precision_cannot_be_reached():
    Y, p = drawn(1, n=30)
    points = OperatingPoints.from_predictions(Y, p, p)
    assert points.threshold_for(0.995) == np.inf
    assert points.estimated_precision(np.inf) == 0.0
    nothing = OperatingPoints.from_predictions(
        np.zeros((20, 3), bool), np.ones((20, 3)), np.full((20, 3), 0.1)
    )
    assert not nothing.learnable.any()
    assert nothing.threshold_for(0.1) == np.inf


def test_a_tag_on_every_picture_cannot_be_learned():
    Y = np.ones((50, 2), bool)
    Y[:25, 1] = False
    scores = np.random.default_rng(0).random((50, 2)) + Y
    points = OperatingPoints.from_predictions(Y, scores, np.where(Y, 0.9, 0.1))
    assert points.learnable.tolist() == [False, True]


def test_survives_a_model_file_and_is_checked():
    Y, p = drawn(2)
    points = OperatingPoints.from_predictions(Y, p, p)
    arrays = points.to_arrays()
    again = OperatingPoints.from_arrays(arrays, 12)
    for mine, theirs in zip(again, points, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for name, change in [
        ("positives", lambda a: a[:-1]),
        ("curve_thresholds", lambda a: a[::-1].copy()),
        ("curve_lower_bound", lambda a: a + 2),
        ("auc", lambda a: a * np.nan),
        ("learnable", lambda a: a.astype(np.uint8)),
    ]:
        with pytest.raises(ModelFileError):
            OperatingPoints.from_arrays({**arrays, name: change(arrays[name])}, 12)


@pytest.mark.parametrize("precision", [0, -1, 1.5])
def test_a_precision_outside_its_range_is_refused(precision):
    points = OperatingPoints.from_predictions(*[drawn(1)[i] for i in (0, 1, 1)])
    with pytest.raises(InputError, match="above 0 and at most 1"):
        points.threshold_for(precision)
    assert 0 < points.threshold_for(DEFAULT_PRECISION) < 1


def test_what_is_given_and_what_is_suggested():
    probability = np.array([0.9, 0.6, 0.4, 0.3, 0.1])
    allowed = np.array([True, True, False, True, True])
    choice = TagSelector(allowed, None, 0.7, None)
    given = choice.applied(probability, probability)
    assert given.tolist() == [0]
    assert choice.suggested(probability, given).tolist() == [1, 3]
    by_number = TagSelector(allowed, None, None, 2)
    assert by_number.applied(probability, probability).tolist() == [0, 1]
    assert by_number.suggested(probability, given).size == 0
