"""Prototype selection: of all images it is 2PKNN; every tag keeps images."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prototag.research.baselines import PrototypeSelection, TwoPassKNN
from prototag.research.baselines.prototype_selection import medoids
from prototag.research.datasets import planted

OPTIONS = {"n_per_tag": 2, "sharpness": 8.0, "threshold": 0.5}


@pytest.fixture(scope="module")
def data():
    return planted(n=200, t=8, k=20, m=10, random_state=0)


@pytest.mark.parametrize("rule", ["tags", "images", "random"])
def test_all_images_selected_is_2pknn(data, rule):
    model = PrototypeSelection(1.0, rule=rule, **OPTIONS).fit(data.X, data.Y)
    plain = TwoPassKNN(**OPTIONS).fit(data.X, data.Y)
    assert_array_equal(model.decision_function(data.X), plain.decision_function(data.X))


@pytest.mark.parametrize("rule", ["tags", "images", "random"])
def test_selected_images_keep_their_tags_and_their_number(data, rule):
    model = PrototypeSelection(60, rule=rule, **OPTIONS).fit(data.X, data.Y)
    assert 45 <= len(model.selected_) <= 75
    assert (np.diff(model.selected_) > 0).all()
    assert_array_equal(model.tags_.toarray(), data.Y[model.selected_].toarray() > 0)
    if rule != "images":
        kept = model.tags_.toarray().sum(axis=0)
        assert (kept >= np.minimum(3, data.Y.toarray().sum(axis=0))).all()


def test_of_copies_one_is_selected():
    rng = np.random.default_rng(0)
    places = rng.standard_normal((12, 6)).astype("f4")
    chosen = medoids(np.repeat(places, 5, axis=0), 12, rng)
    groups = chosen // 5
    assert len(set(groups.tolist())) == len(groups)


def test_medoids_are_nearest_to_their_centroids():
    rng = np.random.default_rng(1)
    x = np.vstack([rng.standard_normal((30, 4)) * 0.1 + 3 * c for c in np.eye(4)[:3]]).astype("f4")
    chosen = medoids(x, 3, np.random.default_rng(0))
    assert sorted((chosen // 30).tolist()) == [0, 1, 2]
    for row in chosen:
        part = slice(row // 30 * 30, row // 30 * 30 + 30)
        distance = np.linalg.norm(x[part] - x[part].mean(axis=0), axis=1)
        assert distance[row % 30] <= distance.min() + 1e-3


def test_held_out_images_are_scored_without_their_tags(data):
    """A fold's gallery is selected from the other folds, so own tags have no effect."""
    Y = data.Y.toarray()
    model = PrototypeSelection(60, **OPTIONS).fit(data.X, Y)
    Y[7] = 1 - Y[7]
    changed = PrototypeSelection(60, **OPTIONS).fit(data.X, Y)
    assert_array_equal(changed.out_of_fold_scores_[7], model.out_of_fold_scores_[7])
