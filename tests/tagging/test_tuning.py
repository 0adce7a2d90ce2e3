"""Tuning: chooses what is better on held-out images, within its time, and says how."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import prototag
from prototag import MCDL, ExemplarMCDL, recommended, tune
from prototag.evaluation import metrics
from prototag.research.datasets import planted
from prototag.tagging import tuning
from recipes import gathered


@pytest.fixture(scope="module")
def data():
    return planted(n=240, t=8, k=20, m=12, noise=0.4, random_state=0)


def paper(**options):
    return MCDL(0.1, **gathered(**{"init_iter": 2, "max_iter": 3, "random_state": 0, **options}))


def test_a_value_that_ruins_the_model_is_left(data):
    """One prototype to a code says little of mixed tags; tuning must move off it."""
    model = tune(data.X, data.Y, ExemplarMCDL(max_nonzeros=1), grid={"max_nonzeros": (1, 25)})
    assert model.max_nonzeros == 25
    assert model.tuning_["start"] == {"max_nonzeros": 1}
    assert model.tuning_["chosen"] == {"max_nonzeros": 25}
    assert model.tuning_["finished"]


def test_what_is_no_better_is_not_taken(data):
    """Twins tie: the start stays."""
    model = tune(data.X, data.Y, ExemplarMCDL(n_jobs=1, random_state=0), grid={"n_jobs": (2, 1)})
    assert model.tuning_["chosen"] == {"n_jobs": 1}


def test_the_winner_is_the_best_of_the_curve_within_noise(data):
    grid = {"eta": (0.1, 0.5, 5.0), "margin": (0.25, 0.5)}
    model = tune(data.X, data.Y, paper(), grid=grid, search="grid", n_folds=2, random_state=1)
    curve = model.tuning_["curve"]
    complete = {}
    for fit in curve:
        complete.setdefault((fit["eta"], fit["margin"]), []).append(fit["quality"])
    means = {key: np.mean(value) for key, value in complete.items() if len(value) == 2}
    chosen = model.tuning_["chosen"]
    assert len(complete) == 6
    assert means[chosen["eta"], chosen["margin"]] >= max(means.values()) - 0.02
    assert {fit["fold"] for fit in curve} == {0, 1}


def test_the_last_fit_is_the_plain_fit_with_the_chosen_values(data):
    tuned = tune(data.X, data.Y, paper(), grid={"eta": (0.25, 0.5)}, n_folds=2)
    plain = paper(**tuned.tuning_["chosen"]).fit(data.X, data.Y)
    assert tuned.n_iter_ == 3  # two only while validating
    assert_array_equal(tuned.decision_function(data.X), plain.decision_function(data.X))


@pytest.mark.parametrize("init", ["visual", "coupled"])
def test_a_warm_start_ends_in_the_same_bits(data, init):
    starts = {}
    paper(init=init, eta=0.5).fit_from(data.X, data.Y, starts)
    for options in ({"eta": 0.5, "beta1": 0.5}, {"eta": 2.0}, {"max_nonzeros": 5}):
        warm = paper(init=init, **options).fit_from(data.X, data.Y, starts)
        cold = paper(init=init, **options).fit(data.X, data.Y)
        assert_array_equal(warm.visual_prototypes_, cold.visual_prototypes_)
        assert_array_equal(warm.objective_, cold.objective_)
    assert len(starts) == (2 if init == "visual" else 3)


def test_the_default_grids_are_the_papers_and_ours():
    assert tuning.default_grid(MCDL.paper()) is tuning.PAPER
    assert len(tuning.PAPER["eta"]) * len(tuning.PAPER["beta1"]) * 2 == 140
    for start in (ExemplarMCDL(), recommended()):
        grid = tuning.default_grid(start)
        for name, values in grid.items():
            assert start.get_params()[name] in values
            for value in values:
                start.set_params(**{name: value})._validate_params()


def test_time_is_kept(data):
    """With hardly any time the start is judged once, and the model is fitted all the same."""
    events = []
    began = time.monotonic()
    model = tune(data.X, data.Y, paper(), seconds=1e-3, progress=events.append)
    assert time.monotonic() - began < 20
    assert len(model.tuning_["curve"]) == 1
    assert not model.tuning_["finished"]
    assert model.tuning_["chosen"] == {"eta": 0.5, "beta1": 0.15, "margin": 0.5}
    assert ["% for the start" in event.message for event in events] == [True, False]
    assert events[-1].done <= time.monotonic() - began + 1


def test_of_many_images_a_sample_is_searched(data):
    grid = {"n_sweeps": (1, 2)}
    model = tune(data.X, data.Y, ExemplarMCDL(), grid=grid, max_images=90, n_folds=2)
    assert model.tuning_["images"] == 90
    assert len(model.visual_prototypes_) == 240


def test_recommended_is_tuned_and_kept_in_its_file(data, tmp_path):
    start = recommended(pilot=100, n_components=6)
    grid = {"max_nonzeros": (15, 25), "n_components": (6, 12)}
    model = tune(data.X, data.Y, start, grid=grid, n_folds=2)
    model.save(tmp_path / "model.prototag")
    again = prototag.load(tmp_path / "model.prototag")
    assert again.tuning_ == model.tuning_
    assert_array_equal(again.decision_function(data.X), model.decision_function(data.X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": {"size": (1, 2)}}, r"grid names \['size'\], which MCDL does not have"),
        ({"grid": {}}, "grid has no values for any parameter"),
        ({"grid": {"eta": ()}}, r"grid has no values for \['eta'\]"),
        ({"search": "random"}, 'give "coordinate" or "grid"'),
        ({"scoring": "luck"}, "scoring='luck': give one of"),
        ({"seconds": 0}, "seconds=0: give the time"),
        ({"n_folds": 1}, "n_folds=1: give 2 or more"),
        ({"n_folds": 200}, "240 images in 200 folds"),
    ],
)
def test_errors_report_what_to_do(data, options, message):
    with pytest.raises(ValueError, match=message):
        tune(data.X, data.Y, paper(), **options)


def test_only_annotators_are_tuned(data):
    from sklearn.linear_model import Ridge

    with pytest.raises(TypeError, match="estimator is a Ridge: give an annotator"):
        tune(data.X, data.Y, Ridge())


def test_scorings_of_ones_own(data):
    def frugal(model, X, Y):
        return metrics.mean_average_precision(Y, model.decision_function(X)) - model.max_nonzeros

    model = tune(data.X, data.Y, ExemplarMCDL(), grid={"max_nonzeros": (5, 25)}, scoring=frugal)
    assert model.max_nonzeros == 5
    assert model.tuning_["scoring"] == "frugal"
