"""Measures against scikit-learn and counting by hand; laws of the curve and of the sweep."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from prototag.evaluation import metrics, ranking
from scored import collections, count_by_hand, steady


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(7)
    Y = rng.random((400, 30)) < rng.uniform(0.002, 0.3, 30)
    Y[:, 3] = False
    scores = np.round(rng.normal(size=Y.shape) + 1.5 * Y, 1).astype(np.float32)
    return Y, scores


def test_tags_agree_with_scikit_learn(planted):
    Y, scores = planted
    predicted = scores > 1.8
    precision, recall, _, _ = precision_recall_fscore_support(Y, predicted, zero_division=0)
    ours = metrics.tag_precision_recall(Y, sparse.csr_matrix(predicted))
    assert_allclose(ours[0], precision, rtol=1e-14)
    assert_allclose(ours[1], recall, rtol=1e-14)
    assert metrics.n_plus(Y, predicted) == np.count_nonzero(recall) < 30
    P, R = precision.mean(), recall.mean()
    assert metrics.f1_of_means(Y, predicted) == pytest.approx(2 * P * R / (P + R), rel=1e-14)


def test_images_agree_with_scikit_learn(planted):
    Y, scores = planted
    predicted = scores > 1.8
    judge = precision_recall_fscore_support(Y, predicted, average="samples", zero_division=0)
    ours = metrics.image_precision_recall_f1(Y, predicted)
    assert_allclose([values.mean() for values in ours], judge[:3], rtol=1e-13)


def test_f1_of_means_is_not_macro_f1():
    # Tag 0: precision 1, recall 1/2. Tag 1: precision 1/2, recall 1. Both have F1 = 2/3.
    Y = np.array([[1, 1], [1, 0]])
    predicted = np.array([[1, 1], [0, 1]])
    assert metrics.f1_of_means(Y, predicted) == pytest.approx(3 / 4)
    assert precision_recall_fscore_support(Y, predicted, average="macro")[2] == pytest.approx(2 / 3)


@steady
@given(collections())
def test_average_precision_agrees_with_scikit_learn(collection):
    Y, scores = collection
    ours = metrics.average_precision(Y, scores)
    occurs = Y.any(axis=0)
    assert_array_equal(np.isnan(ours), ~occurs)
    judge = [average_precision_score(Y[:, c], scores[:, c]) for c in np.flatnonzero(occurs)]
    assert_allclose(ours[occurs], judge, rtol=1e-13)
    expected = np.mean(judge) if judge else 0.0
    assert metrics.mean_average_precision(sparse.csr_array(Y), scores) == pytest.approx(expected)


@steady
@given(collections(), st.integers(1, 60))
def test_sweep_counts_every_cut_whatever_the_bands(collection, cells):
    Y, scores = collection
    parts = list(ranking.sweep_thresholds(Y, scores, cells=cells))
    found = [np.concatenate(field) for field in zip(*(part[:5] for part in parts), strict=True)]
    assert_array_equal(found[0], np.unique(scores)[::-1])
    for score, precision, recall, hits, number in zip(*found, strict=True):
        predicted = scores >= score
        assert (precision, recall) == pytest.approx(count_by_hand(Y, predicted), abs=1e-12)
        assert (hits, number) == (np.sum(predicted & Y), np.sum(predicted))
    for part, later in itertools.combinations(parts, 2):
        assert later.precision.max() <= part.ceiling + 1e-12


def test_sweep_in_many_bands_equals_one_band(planted):
    Y, scores = planted
    scores = np.where(scores > -0.5, scores, 0.0).astype(np.float32)  # a value that fills a third
    (whole,) = ranking.sweep_thresholds(Y, scores)
    parts = list(ranking.sweep_thresholds(Y, scores, cells=500))
    assert len(parts) > 20
    fields = zip(*(part[:5] for part in parts), strict=True)
    for ours, expected in zip(map(np.concatenate, fields), whole[:5], strict=True):
        assert_allclose(ours, expected, rtol=1e-12, atol=1e-13)


@steady
@given(collections())
def test_micro_area_is_micro_average_precision(collection):
    Y, scores = collection
    curve = metrics.precision_recall_curve(Y, scores)
    expected = average_precision_score(Y.ravel(), scores.ravel()) if Y.any() else 0.0
    assert curve.micro_area == pytest.approx(expected, abs=1e-12)
    assert curve.thresholds[0] == scores.max()
    assert curve.thresholds[-1] == scores.min()
    assert curve.recall[-1] == pytest.approx(Y.any(axis=0).mean())


def test_thinned_curve_lies_on_the_whole_one_and_keeps_its_area(planted):
    Y, scores = planted
    scores = scores + np.linspace(0, 0.01, scores.size, dtype=np.float32).reshape(scores.shape)
    whole = metrics.precision_recall_curve(Y, scores, points=scores.size)
    thin = metrics.precision_recall_curve(Y, scores, points=50)
    assert len(thin.thresholds) < 60 < len(whole.thresholds)
    assert thin.area == whole.area
    at = np.searchsorted(-whole.thresholds, -thin.thresholds)
    assert_array_equal(thin.precision, whole.precision[at])
    assert_array_equal(thin.recall, whole.recall[at])
    one_tag = metrics.precision_recall_curve(Y[:, :1], scores[:, :1])
    assert one_tag.area == pytest.approx(average_precision_score(Y[:, 0], scores[:, 0]))


def test_score_distributions_count_each_cell_once(planted):
    Y, scores = planted
    edges, present, absent = metrics.score_distributions(Y, scores, bins=17)
    assert_array_equal(present, np.histogram(scores[Y], edges)[0])
    assert_array_equal(absent, np.histogram(scores[~Y], edges)[0])
    assert present.sum() + absent.sum() == Y.size


@steady
@given(collections(), st.data())
def test_top_gives_the_first_of_the_best(collection, data):
    _, scores = collection
    count = data.draw(st.integers(1, scores.shape[1]))
    given_tags = metrics.top_tags(scores, count)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    assert_array_equal(given_tags.indices.reshape(-1, count), np.sort(order, axis=1))
    assert_array_equal(given_tags.sum(axis=1), count)
    assert given_tags.dtype == np.int8


def test_the_order_of_memory_changes_nothing(planted):
    Y, scores = planted
    turned = np.asfortranarray(scores)
    assert_array_equal(metrics.average_precision(Y, turned), metrics.average_precision(Y, scores))
    assert_array_equal(metrics.top_tags(turned, 4).toarray(), metrics.top_tags(scores, 4).toarray())


def test_buckets_are_thirds_by_frequency(planted):
    Y, _ = planted
    buckets = metrics.frequency_buckets(sparse.csr_array(Y))
    assert sorted(np.concatenate(list(buckets.values()))) == list(range(30))
    frequency = Y.sum(axis=0)
    assert frequency[buckets["rare"]].max() <= frequency[buckets["middle"]].min()
    assert frequency[buckets["middle"]].max() <= frequency[buckets["frequent"]].min()
    assert {len(tags) for tags in buckets.values()} == {10}


def test_report_equals_the_single_metrics(planted):
    Y, scores = planted
    found = metrics.report(sparse.csr_array(Y), scores, 1.75, Y_train=Y)
    assert all(type(value) is float for value in found.values())
    assert found["threshold_f1"] == metrics.f1_of_means(Y, scores > 1.75)
    assert found["top_f1"] == metrics.f1_of_means(Y, metrics.top_tags(scores, 5))
    assert found["threshold_n_plus"] == metrics.n_plus(Y, scores > 1.75)
    assert found["mean_average_precision"] == metrics.mean_average_precision(Y, scores)
    rare = metrics.frequency_buckets(Y)["rare"]
    assert found["threshold_f1_rare"] == metrics.f1_of_means(Y[:, rare], scores[:, rare] > 1.75)
    one_each = metrics.report(Y, scores, np.full(30, 1.75))
    assert one_each.items() <= found.items()


@steady
@given(collections())
def test_perfect_scores_get_perfect_marks(collection):
    Y, _ = collection
    Y[0] = True
    found = metrics.report(Y, Y.astype(float), 0.5)
    assert found["threshold_f1"] == found["mean_average_precision"] == 1.0
    assert metrics.precision_recall_curve(Y, Y.astype(float)).area == pytest.approx(1.0)


def test_duplicate_entries_of_a_sparse_matrix_add_up_and_leave_the_caller_alone():
    twice = sparse.csr_array(([1, 1], [1, 1], [0, 2, 2]), shape=(2, 2))
    with pytest.raises(ValueError, match=r"Y_true contains 2: give 0 .* or 1"):
        metrics.n_plus(twice, np.ones((2, 2)))
    assert_array_equal(twice.data, [1, 1])


@pytest.mark.parametrize(
    ("Y", "scores", "message"),
    [
        ([[0, 1]], [[0.0, np.nan]], "NaN or infinity"),
        ([[0, 1]], [[0.0, -np.inf]], "NaN or infinity"),
        ([[0, 2]], [[0.0, 1.0]], "Y contains 2"),
        ([[0, np.nan]], [[0.0, 1.0]], "Y contains nan"),
        ([["a", "b"]], [[0.0, 1.0]], "Y has dtype"),
        ([[0, 1]], [[0.0, 1.0, 2.0]], r"shape \(1, 2\), the scores \(1, 3\)"),
        ([0, 1], [0.0, 1.0], "give a matrix"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "at least one of each"),
        ([[0, 1]], [[1j, 0]], "give real numbers"),
        ([[0, 1]], sparse.csr_array([[0.0, 1.0]]), "give a dense array"),
    ],
)
def test_bad_input_is_named(Y, scores, message):
    with pytest.raises(ValueError, match=message):
        metrics.mean_average_precision(Y, scores)


def test_scores_near_the_largest_float_are_finite():
    scores = np.full((3, 2), np.finfo(np.float32).max)
    assert metrics.top_tags(scores, 1).sum() == 3


def test_other_wrong_arguments_are_named(planted):
    Y, scores = planted
    with pytest.raises(ValueError, match="count=31 tags per image of 30 tags"):
        metrics.top_tags(scores, 31)
    with pytest.raises(ValueError, match="Y_train has 4 tags, Y_true 30"):
        metrics.report(Y, scores, 0.0, Y_train=Y[:, :4])
    with pytest.raises(ValueError, match="the predicted tags"):
        metrics.n_plus(Y, Y[:5])
