"""Helpers that all baselines share."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prototag.evaluation import metrics, thresholds
from prototag.research.baselines import base
from prototag.research.datasets import planted


def test_quality_counts_both_protocols_and_the_ranking():
    data = planted(n=80, t=9, k=12, m=6, random_state=0)
    scores = np.random.default_rng(0).random((80, 9)).astype(np.float32)
    parts = (
        thresholds.best_global_threshold(data.Y, scores)[1],
        metrics.f1_of_means(data.Y, metrics.top_tags(scores, 5)),
        metrics.mean_average_precision(data.Y, scores),
    )
    assert base.quality(data.Y, scores) == pytest.approx(sum(parts))
    few = data.Y[:, :4]
    assert base.quality(few, few.toarray()) == pytest.approx(2)  # five tags of four say nothing


def test_folds_are_even_and_repeatable():
    fold = base.draw_folds(11, 3, 0)
    assert sorted(np.bincount(fold)) == [3, 4, 4]
    assert_array_equal(fold, base.draw_folds(11, 3, 0))
    assert base.draw_folds(2, 5, 0).max() == 1


def test_a_pilot_is_spread_over_all_images():
    assert_array_equal(base.pilot(10), np.arange(10))
    for n in (base.PILOT, base.PILOT + 1, 17_665, 1_000_000):
        rows = base.pilot(n)
        assert base.PILOT / 2 < len(rows) <= base.PILOT
        assert rows[-1] > 0.99 * n - 1


def test_the_first_of_the_best_is_taken_and_a_single_one_not_tried():
    assert base.best([3, -4, 4, 1], abs) == -4
    assert base.best(["only"], lambda _: 1 / 0) == "only"


def test_parameters_are_chosen_in_turn():
    tried = []

    def value(choice):
        tried.append(dict(choice))
        return -2 * abs(choice["a"] - 3) - abs(choice["b"] - choice["a"])

    given = SimpleNamespace(a="auto", b="auto", c=7)
    found = base.in_turn({"a": (0, 3), "b": (0, 3, 5), "c": (1, 2)}, given, value)
    assert found == {"a": 3, "b": 3, "c": 7}  # b follows a, and what was given stays
    assert all(choice["c"] == 7 for choice in tried)
    assert len(tried) == 5
