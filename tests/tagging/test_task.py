"""Examples: copies and bursts, pairs of which nothing is known, choices that few cannot make."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from prototag import recommended
from prototag.annotator.operating_points import OperatingPoints
from prototag.engine import SINGLE_THREAD
from prototag.evaluation import metrics
from prototag.tagging.near_duplicates import MAX_BURST_LENGTH, near_duplicate_groups
from prototag.tagging.pipeline import LATER_GROUP_WEIGHT
from prototag.tagging.task import Task, group_examples


def scenes(n, m=96, seed=0):
    return np.random.default_rng(seed).standard_normal((n, m)).astype("f4")


def frames(X, each, noise=0.1, seed=1):
    """Every row so many times in a row, slightly changed."""
    drawn = np.random.default_rng(seed).standard_normal((len(X) * each, X.shape[1]))
    return (np.repeat(X, each, axis=0) + noise * drawn).astype("f4")


def tags(rows):
    return sparse.csr_array(np.array(rows, np.float32))


def test_frames_that_follow_each_other_are_one_burst():
    X = frames(scenes(30), 3)
    Y = tags(np.repeat(np.eye(30), 3, axis=0))
    assert_array_equal(near_duplicate_groups(X, Y), np.repeat(np.arange(30), 3))
    shuffled = np.random.default_rng(0).permutation(90)
    apart = near_duplicate_groups(X[shuffled], Y[shuffled])
    assert len(np.unique(apart)) > 80  # alike, but not one after the other


def test_other_tags_are_another_picture():
    X = frames(scenes(20), 2)
    Y = np.zeros((40, 3), np.float32)
    Y[0::2, 0] = Y[1::2, 1] = 1
    assert len(np.unique(near_duplicate_groups(X, tags(Y)))) == 40
    Y[0::2, 1] = 1  # one of both has all tags of the other
    assert len(np.unique(near_duplicate_groups(X, tags(Y)))) == 20


def test_a_burst_has_an_end():
    X = frames(scenes(1), 35)
    X = np.vstack([X, scenes(40, seed=5)])
    found = near_duplicate_groups(X, tags(np.ones((75, 1))))
    assert np.bincount(found[:35]).max() <= MAX_BURST_LENGTH


def test_copies_are_found_wherever_they_are():
    X = scenes(50)
    twice = np.vstack([X, X[:7] + np.float32(1e-3)])
    found = near_duplicate_groups(twice, tags(np.ones((57, 1))))
    assert_array_equal(found[50:], np.arange(7))


@pytest.mark.parametrize(("n", "m"), [(2, 100), (50, 8)])
def test_what_cannot_tell_is_not_asked(n, m):
    assert_array_equal(
        near_duplicate_groups(np.ones((n, m), "f4"), tags(np.ones((n, 1)))), range(n)
    )


def test_an_example_is_the_mean_of_its_frames_with_the_tags_of_all():
    X, Y = scenes(5), tags([[1, 0], [0, 0], [0, 1], [0, 0], [1, 1]])
    unknown = np.array([[0, 1], [0, 1], [1, 0], [1, 1], [0, 0]], bool)
    groups = np.array([7, 7, 3, 5, 3])
    means, silent, found = group_examples(X, Y, unknown, groups)
    assert_array_equal(found.group_of, [2, 2, 0, 1, 0])
    assert_array_equal(means[found.group_of[0]], (X[0] + X[1]) / 2)
    assert_array_equal(means[1], X[3])
    assert_array_equal(found.Y.toarray()[found.group_of], [[1, 0], [1, 0], [1, 1], [0, 0], [1, 1]])
    assert_array_equal(silent[found.group_of], [[0, 1], [0, 1], [0, 0], [1, 1], [0, 0]])


def test_random_tags_of_bursts_are_estimated_at_chance():
    """Each frame has its twins among the others; new pictures have none."""
    promised, given = [], 0.0
    for seed in range(4):
        X = frames(scenes(40, seed=seed), 4, seed=50 + seed)
        Y = np.repeat(np.random.default_rng(seed).random((40, 6)) < 0.3, 4, axis=0)
        model = recommended(pilot=60).fit(X, Y)
        points = OperatingPoints.from_fit(model.result_)
        given += (model.probabilities(scenes(200, seed=99)) >= points.default_threshold)[
            :, points.learnable
        ].sum()
        promised.append(model.choices_["out_of_fold_f1"] - 2 * Y.mean() / (1 + Y.mean()))
        assert model.out_of_fold_scores_.shape == Y.shape
    assert np.mean(promised) < 0.05
    assert given == 0


def learnable(n, t=8, m=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, m)).astype("f4")
    signal = X @ np.random.default_rng(9).standard_normal((m, t))
    return X, signal > 0.9 * signal.std(axis=0)


def test_pairs_of_which_nothing_is_known_are_not_absent():
    X, full = learnable(700)
    X_new, new = learnable(500, seed=1)
    hidden = np.random.default_rng(2).random(full.shape) < 0.6
    hidden[:150] = False
    known = full & ~hidden

    def ranks(**more):
        model = recommended(pilot=200).fit(X, known, **more)
        return metrics.mean_average_precision(new, model.decision_function(X_new)), model

    as_absent, _ = ranks()
    left_open, model = ranks(unlabeled=hidden)
    assert left_open > as_absent + 0.01
    assert model.model_.probabilities(X_new).mean() > 0.5 * new.mean()  # not drawn to absence


def test_what_is_known_cannot_be_unknown_and_shapes_are_checked():
    X, Y = learnable(60)
    one = recommended(pilot=30).fit(X, Y, unlabeled=Y)
    other = recommended(pilot=30).fit(X, Y)
    assert_array_equal(one.decision_function(X), other.decision_function(X))
    with pytest.raises(ValueError, match="unlabeled"):
        recommended().fit(X, Y, unlabeled=Y[:50])
    with pytest.raises(ValueError, match="inconsistent"):
        recommended().fit(X, Y, groups=np.zeros(4))


def task(count):
    T = np.zeros((200, 1), np.float32)
    T[:count] = 1
    return Task(scenes(200), tags(T), T, None, False, 0, np.arange(200), SINGLE_THREAD)


def test_few_images_keep_the_usual_choice_and_many_leave_it():
    value = {0.0: 0.50, 0.5: 0.51, 1.0: 0.515}
    assert task(9).select_option((0.0, 0.5, 1.0), 0.0, value.__getitem__) == 0.0
    assert task(200).select_option((0.0, 0.5, 1.0), 0.0, value.__getitem__) == 0.5
    assert task(9).select_option((0.5,), 0.0, value.__getitem__) == 0.5
    pairs = [(0.0, 1.0), (0.0, 2.0), (1.0, 2.0)]
    better = {pair: 0.05 * number for number, pair in enumerate(pairs)}
    assert task(4).select_option(pairs, pairs[0], better.__getitem__) == pairs[0]
    assert task(100).select_option(pairs, pairs[0], better.__getitem__) == pairs[2]


def test_feature_groups_need_not_be_given():
    """Columns are z-scored one by one: the scale of one group does not hide the other."""
    X, Y = learnable(400)
    X_new, _ = learnable(300, seed=1)
    scale = np.repeat([1.0, 1e-3], 60).astype("f4")
    options = {"pilot": 400}
    model = recommended(**options).fit(X * scale, Y)
    same = recommended(**options).fit(X, Y)
    assert model.result_.feature_groups == ((120, 1.0),)
    found = model.decision_function(X_new * scale)
    assert np.abs(found - same.decision_function(X_new)).max() < 1e-3
    grouped = recommended(feature_groups=[60, 60], **options).fit(X, Y)
    assert grouped.result_.feature_groups == ((60, 1.0), (60, LATER_GROUP_WEIGHT))
    alone = recommended(**options).fit(X[:, :60], Y)
    weighted = recommended(feature_groups=[(60, 1.0), (60, 0.0)], **options).fit(X, Y)
    found = weighted.decision_function(X_new)
    assert np.abs(found - alone.decision_function(X_new[:, :60])).max() < 1e-3
    with pytest.raises(ValueError, match="add up to 120"):
        recommended(feature_groups=[60, 61]).fit(X, Y)
