"""A summary: means of images that look alike and share tags, never judged by their own tags."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from prototag import ExemplarMCDL
from prototag.engine import Threads
from prototag.evaluation import metrics
from prototag.mcdl.prototype_clustering import cluster, cluster_folds
from prototag.mcdl.updates import to_sphere
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=500, t=10, k=30, m=16, noise=0.3, random_state=0)


@pytest.mark.parametrize("k", [1, 7, 100, 499])
def test_every_image_belongs_to_a_prototype(data, k):
    summary = cluster(data.X, data.Y, k, 0)
    assert summary.members.shape == (k, 500)
    assert_allclose(summary.members.sum(axis=1), 1, atol=1e-5)
    assert_array_equal(np.unique(summary.members.indices), np.arange(500))
    own = np.asarray(summary.members.toarray())[np.arange(k), summary.images]
    assert (own > 0).all()


def test_means_are_means(data):
    summary = cluster(data.X, data.Y, 40, 0)
    members = summary.members.toarray() > 0
    expected = [data.X[row].mean(axis=0) for row in members]
    assert_allclose(summary.means(data.X), expected, atol=1e-6)


def test_as_many_prototypes_as_images_are_the_images(data):
    summary = cluster(data.X, data.Y, 500, 0)
    assert_array_equal(summary.means(data.X), data.X)
    assert_array_equal(summary.images, np.arange(500))


def test_as_many_prototypes_as_images_give_the_exact_model(data):
    share, number = (ExemplarMCDL(k, random_state=0).fit(data.X, data.Y) for k in (1.0, 500))
    assert number.clusterings_ is None
    assert_allclose(number.visual_prototypes_, data.X, atol=1e-6)  # brought to unit length
    assert_array_equal(number.decision_function(data.X), share.decision_function(data.X))


def test_the_same_bits_again_and_with_threads(data):
    first, second = (cluster(data.X, data.Y, 60, 3, engine=Threads(jobs)) for jobs in (1, 2))
    assert_array_equal(first.members.toarray(), second.members.toarray())
    assert_array_equal(first.images, second.images)


def test_images_that_look_alike_part_by_their_tags():
    rng = np.random.default_rng(0)
    X = to_sphere((np.ones(8) + 0.01 * rng.standard_normal((40, 8))).astype(np.float32))
    Y = sparse.csr_array(np.eye(2, dtype=np.float32)[np.arange(40) % 2])
    members = cluster(X, Y, 2, 0).members.toarray() > 0
    for row in members:
        assert len(set(np.flatnonzero(row) % 2)) == 1


def test_images_that_share_tags_part_by_their_looks():
    X = np.eye(2, dtype=np.float32)[np.arange(40) // 20]
    Y = sparse.csr_array(np.ones((40, 3), np.float32))
    members = cluster(X, Y, 2, 1).members.toarray() > 0
    for row in members:
        assert len(set(np.flatnonzero(row) // 20)) == 1


def test_folds_leave_their_images_out(data):
    fold = np.arange(500) % 3
    summaries = cluster_folds(data.X, data.Y, 90, fold, 0)
    assert len(summaries.whole.images) == 90
    for number, (inside, outside, summary) in enumerate(summaries.folds):
        assert_array_equal(inside, np.flatnonzero(fold == number))
        assert not set(inside) & set(outside)
        assert summary.members.shape == (60, len(outside))
        again = cluster(data.X[outside], data.Y[outside], 60, [0, number + 1])
        assert_array_equal(summary.images, again.images)  # nothing of the others was used


def test_random_tags_are_estimated_at_chance():
    """Prototypes shaped by noise fit the noise; scores out of fold must not."""
    rng = np.random.default_rng(0)
    X = to_sphere(rng.standard_normal((600, 12)).astype(np.float32))
    Y = (rng.random((600, 8)) < 0.2).astype(np.float32)
    model = ExemplarMCDL(200, random_state=0).fit(X, Y)
    fitted = metrics.mean_average_precision(Y, model.decision_function(X))
    promised = metrics.mean_average_precision(Y, model.out_of_fold_scores_)
    assert fitted > 0.5
    assert promised < 0.26


@pytest.mark.parametrize("k", [40, 150])
def test_the_estimate_holds(k):
    data = planted(n=1500, t=12, k=40, m=20, noise=0.5, random_state=3)
    train, test = slice(0, 1000), slice(1000, None)
    model = ExemplarMCDL(k, random_state=0).fit(data.X[train], data.Y[train])
    promised = metrics.f1_of_means(data.Y[train], model.out_of_fold_scores_ > model.threshold_)
    reached = model.score(data.X[test], data.Y[test])
    assert promised - 0.03 < reached < promised + 0.12  # two thirds of the images promise less


def test_more_prototypes_are_no_worse():
    data = planted(n=1200, t=12, k=60, m=20, noise=0.5, random_state=5)
    train, test = slice(0, 800), slice(800, None)
    reached = [
        ExemplarMCDL(k, random_state=0)
        .fit(data.X[train], data.Y[train])
        .score(data.X[test], data.Y[test])
        for k in (5, 20, 80, 320)
    ]
    assert reached[0] < reached[-1]
    assert all(more > less - 0.03 for less, more in itertools.pairwise(reached))


def test_summary_beats_as_many_images():
    """Means of images with like tags score new images better than images drawn at random."""
    data = planted(n=1200, t=12, k=60, m=20, noise=0.8, random_state=7)
    train, test = np.arange(800), np.arange(800, 1200)
    reached = ExemplarMCDL(60, random_state=0).fit(data.X[train], data.Y[train])
    few = train[np.random.default_rng(0).permutation(800)[:60]]
    drawn = ExemplarMCDL(random_state=0).fit(data.X[few], data.Y[few])
    ours, theirs = (
        metrics.mean_average_precision(data.Y[test], model.decision_function(data.X[test]))
        for model in (reached, drawn)
    )
    assert ours > theirs + 0.05
