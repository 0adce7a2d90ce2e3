"""Cross-validated hyperparameters and thresholds: which settings are fitted, which is selected."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prototag.research.baselines import Logistic, cross_validated
from prototag.research.baselines.base import quality
from prototag.research.datasets import planted


class Recorded(Logistic):
    """Records the number of images and settings of each call."""

    def _fit_models(self, X, Y, settings, seed):
        self.calls = [*getattr(self, "calls", []), (len(X), len(settings))]
        return super()._fit_models(X, Y, settings, seed)


@pytest.fixture(scope="module")
def data():
    return planted(n=90, t=5, k=10, m=8, random_state=0)


def test_settings_are_compared_on_enough_folds(data, monkeypatch):
    assert Recorded().fit(data.X, data.Y).calls == [(60, 4)] * 3 + [(90, 1)]
    monkeypatch.setattr(cross_validated, "MIN_TUNING_IMAGES", 20)
    assert Recorded().fit(data.X, data.Y).calls == [(60, 4), (60, 1), (60, 1), (90, 1)]
    assert Recorded(strength=1.0, n_folds=2).fit(data.X, data.Y).calls == [(45, 1)] * 2 + [(90, 1)]


def test_the_best_setting_for_held_out_images_is_selected(data):
    model = Logistic().fit(data.X, data.Y)
    reached = {
        strength: quality(
            data.Y, Logistic(strength=strength).fit(data.X, data.Y).out_of_fold_scores_
        )
        for strength in (1.0, 0.3, 0.1, 0.03)
    }
    best = max(reached.values())
    assert reached[model.setting_["strength"]] > best - 0.01  # starts differ, and so the last bits


def test_scores_are_those_of_a_model_of_the_other_folds(data):
    X, Y = data.X[:20], data.Y[:20]
    model = Logistic(strength=1.0, n_folds=20).fit(X, Y)  # each image alone
    rest = np.arange(20) != 7
    alone = Logistic(strength=1.0).fit(X[rest], Y[rest])
    assert_array_equal(alone.decision_function(X[[7]])[0], model.out_of_fold_scores_[7])


def test_folds_follow_the_random_state(data):
    first = Logistic(strength=1.0, random_state=1).fit(data.X, data.Y).out_of_fold_scores_
    again = Logistic(strength=1.0, random_state=1).fit(data.X, data.Y).out_of_fold_scores_
    other = Logistic(strength=1.0, random_state=2).fit(data.X, data.Y).out_of_fold_scores_
    assert_array_equal(first, again)
    assert (first != other).any()
