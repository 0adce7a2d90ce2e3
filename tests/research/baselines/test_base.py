"""Helpers that all baselines share."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prototag.evaluation import metrics, thresholds
from prototag.research.baselines import KNN, base
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


def test_the_tuning_sample_is_spread_over_all_images():
    assert_array_equal(base.tuning_sample(10), np.arange(10))
    for n in (base.MAX_TUNING_IMAGES, base.MAX_TUNING_IMAGES + 1, 17_665, 1_000_000):
        rows = base.tuning_sample(n)
        assert base.MAX_TUNING_IMAGES / 2 < len(rows) <= base.MAX_TUNING_IMAGES
        assert rows[-1] > 0.99 * n - 1


def test_the_first_of_the_best_is_taken_and_a_single_one_not_tried():
    assert base.select_best([3, -4, 4, 1], abs) == -4
    assert base.select_best(["only"], lambda _: 1 / 0) == "only"


def test_hyperparameters_are_selected_one_after_the_other():
    tried = []

    def value(option):
        tried.append(dict(option))
        return -2 * abs(option["a"] - 3) - abs(option["b"] - option["a"])

    selected = base.coordinate_search({"a": (0, 3), "b": (0, 3, 5), "c": (7,)}, value)
    assert selected == {"a": 3, "b": 3, "c": 7}  # b is selected for the best a
    assert all(option["c"] == 7 for option in tried)
    assert len(tried) == 5


def test_grids_apply_to_hyperparameters_that_are_auto():
    model = KNN("auto", sharpness=2)
    candidates = model._candidates({"n_neighbours": (5, 10), "sharpness": (0.0, 4.0)})
    assert candidates == {"n_neighbours": (5, 10), "sharpness": (2.0,)}
    assert isinstance(candidates["sharpness"][0], float)


def test_every_combination():
    assert base.combinations({"a": (1, 2), "b": (3,)}) == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
    assert base.combinations({}) == [{}]
