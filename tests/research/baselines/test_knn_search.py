"""Nearest images, overall and tag by tag, against loops and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from prototag.research.baselines import knn_search
from prototag.research.baselines.knn_search import (
    Neighbours,
    Search,
    TagLists,
    balanced_scale,
    group_numbers,
)

from . import oracles


@pytest.fixture
def collection():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 7)).astype(np.float32)
    return X, (rng.random((150, 9)) < 0.15).astype(np.float32), rng


@pytest.mark.parametrize("q", [1, 7, 8, 130])
@pytest.mark.parametrize("count", [1, 5, 149, 150, 400])
def test_nearest_images_are_those_of_scikit_learn(collection, q, count):
    X, _, rng = collection
    x = rng.standard_normal((q, 7)).astype(np.float32)
    found = Search(X).find_all(x, count, n_jobs=2)
    distance, index = NearestNeighbors(n_neighbors=min(count, 150)).fit(X).kneighbors(x)
    assert_array_equal(found.count, min(count, 150))
    assert_array_equal(found.index, index)
    assert_allclose(found.distance, distance**2, rtol=1e-4, atol=1e-5)


def test_an_image_is_not_its_own_neighbour(collection):
    X, _, _ = collection
    found = Search(X).find_all(X, 149, exclude_self=True)
    assert_array_equal(np.sort(found.index, axis=1)[3], np.delete(np.arange(150), 3))
    assert_array_equal(
        found.index, NearestNeighbors(n_neighbors=150).fit(X).kneighbors(X)[1][:, 1:]
    )


@pytest.mark.parametrize("count", [1, 2, 6, 200])
@pytest.mark.parametrize("own", [False, True])
def test_nearest_of_each_tag_are_those_of_a_loop(collection, count, own):
    X, Y, rng = collection
    x = X if own else rng.standard_normal((37, 7)).astype(np.float32)
    found = Search(X, sparse.csr_array(Y)).find_all(x, count, exclude_self=own)
    for query in range(len(x)):
        expected = oracles.nearest_by_tag(x[query], X, Y, count, query if own else -1)
        assert found.index[query, : found.count[query]].tolist() == expected
        assert_allclose(
            found.distance[query, : len(expected)],
            oracles.distances(x[query], X)[expected],
            rtol=1e-4,
            atol=1e-5,
        )


def test_of_equally_near_images_the_first_is_taken():
    X = np.ones((20, 3), np.float32)
    found = Search(X).find(X[:1], 4)
    assert found.index[0].tolist() == [0, 1, 2, 3]
    assert Search(X).find(X[:1], 4, exclude=[0]).index[0].tolist() == [1, 2, 3, 4]


def test_no_image_of_any_tag():
    found = Search(np.eye(4, dtype=np.float32), sparse.csr_array((4, 3))).find(np.eye(4)[:2], 2)
    assert_array_equal(found.count, 0)
    assert not found.weights(3.0).any()
    assert not found.votes(found.weights(3.0), TagLists.of(sparse.csr_array((4, 3)))).any()


@pytest.mark.parametrize("sharpness", [0.0, 2.0, 5000.0])
def test_votes_are_those_of_a_loop(collection, sharpness):
    X, Y, rng = collection
    x = rng.standard_normal((20, 7)).astype(np.float32)
    found = Search(X, sparse.csr_array(Y)).find(x, 2)
    weights = found.weights(sharpness)
    assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    assert not weights[~found.present()].any()
    scores = found.votes(weights, TagLists.of(sparse.csr_array(Y)))
    for query in range(20):
        union = oracles.nearest_by_tag(x[query], X, Y, 2)
        if sharpness < 100:
            expected = oracles.votes(x[query], X, Y, union, sharpness)
        else:  # so sharp that a loop underflows: the nearest decides
            expected = Y[min(union, key=lambda j: oracles.distances(x[query], X)[j])]
        assert_allclose(scores[query], expected, atol=2e-5)


def test_gathering_is_the_transpose_of_voting(collection):
    X, Y, rng = collection
    tags = TagLists.of(sparse.csr_array(Y))
    found = Search(X, sparse.csr_array(Y)).find(X[:16], 3, exclude=np.arange(16))
    weight = rng.random(found.index.shape).astype(np.float32) * found.present()
    value = rng.standard_normal((16, 9)).astype(np.float32)
    gathered = found.gather(value, tags)
    assert_allclose((weight * gathered).sum(), (found.votes(weight, tags) * value).sum(), rtol=1e-4)
    expected = value[4] @ Y[found.index[4, 0]]
    assert gathered[4, 0] == pytest.approx(expected, abs=1e-6)
    assert not gathered[~found.present()].any()


def test_parts_of_what_was_found(collection):
    X, _, _ = collection
    found = Search(X).find(X[:20], 6)
    first = found.first(2)
    assert_array_equal(first.index, found.index[:, :2])
    assert_array_equal(first.count, 2)
    assert_array_equal(Neighbours.concatenate([found[:9], found[9:]]).index, found.index)


def test_groups_contribute_equally(collection):
    X, _, _ = collection
    groups = ["a", "a", "b", "a", "c", "c", "c"]
    scale = balanced_scale(X, group_numbers(groups, 7))
    assert_allclose(scale, oracles.even_scale(X, groups), rtol=1e-4)
    scaled = X * scale
    assert np.mean([oracles.distances(row, scaled).mean() for row in scaled]) == pytest.approx(1)
    constant = np.ones((5, 2), np.float32)
    assert_array_equal(balanced_scale(constant, group_numbers(None, 2)), 1)


def test_groups_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"groups has shape \(3,\) for 7 columns: give the group"):
        group_numbers([0, 1, 1], 7)


def test_many_threads_give_the_bits_of_one(collection):
    X, Y, _ = collection
    search = Search(X, sparse.csr_array(Y))
    one, two = (search.find_all(X, 2, exclude_self=True, n_jobs=jobs) for jobs in (1, 3))
    assert_array_equal(one.distance, two.distance)
    assert len(X) > knn_search.BATCH_QUERIES
