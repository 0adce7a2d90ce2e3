"""Planted data is what it says."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prototag.errors import InputError
from prototag.research.datasets import hide_tags, planted


def test_planted_data_has_its_stated_structure():
    data = planted(n=500, t=40, k=30, m=20, mixed=4, missing=0.3, random_state=0)
    assert data.X.shape == (500, 20)
    assert data.X.dtype == np.float32
    assert data.Y.shape == data.Y_true.shape == (500, 40)
    assert data.semantics.shape == (30, 40)
    assert len(data.tag_names) == len(set(data.tag_names)) == 40
    assert_allclose(np.linalg.norm(data.X, axis=1), 1, atol=1e-5)
    assert_allclose(np.linalg.norm(data.prototypes, axis=1), 1, atol=1e-5)
    assert_allclose(data.codes.sum(axis=1), 1, atol=1e-5)
    assert np.diff(data.codes.indptr).max() <= 4
    for matrix in (data.Y, data.Y_true, data.semantics):
        assert set(np.unique(matrix.data)) == {1}
    # An image has the tags of its prototypes; people leave some out and add none.
    assert_array_equal((data.codes @ data.semantics > 0).toarray(), data.Y_true.toarray() > 0)
    assert (data.Y.toarray() <= data.Y_true.toarray()).all()
    assert data.Y.nnz / data.Y_true.nnz == pytest.approx(0.7, abs=0.05)
    assert (data.semantics.sum(axis=0) > 0).all()


def test_tags_have_a_long_tail():
    count = np.sort(planted(n=3000, t=60, k=200, random_state=0).Y.sum(axis=0))[::-1]
    assert count[:6].sum() > count[30:].sum()


def test_noise_moves_vectors_away_from_their_mixture():
    still, moved = (planted(n=200, noise=noise, random_state=0) for noise in (0.0, 0.5))
    for data, near in ((still, True), (moved, False)):
        mixture = data.codes @ data.prototypes
        mixture /= np.linalg.norm(mixture, axis=1, keepdims=True)
        assert (((mixture * data.X).sum(axis=1) > 0.999).mean() > 0.99) == near


def test_the_seed_decides():
    one, same, other = (planted(n=50, random_state=seed) for seed in (1, 1, 2))
    assert_array_equal(one.X, same.X)
    assert_array_equal(one.Y.toarray(), same.Y.toarray())
    assert not np.array_equal(one.X, other.X)


@pytest.mark.parametrize("name", ["n", "t", "k", "m", "mixed"])
def test_sizes_of_one_and_none(name):
    data = planted(**{"n": 5, name: 1}, random_state=0)
    assert np.isfinite(data.X).all()
    with pytest.raises(InputError, match=f"{name}=0: at least 1 is needed"):
        planted(**{name: 0})


@pytest.mark.parametrize("missing", [-0.1, 1.0, np.nan])
def test_shares_without_meaning(missing):
    with pytest.raises(InputError, match=r"missing=.*from 0 up to, but not including, 1"):
        planted(missing=missing)


def test_batches_do_not_change_the_result(monkeypatch):
    module = sys.modules["prototag.research.datasets.synthetic"]
    whole = planted(n=300, m=7, missing=0.2, random_state=0)
    monkeypatch.setattr(module, "_BATCH_IMAGES", 13)
    blocks = planted(n=300, m=7, missing=0.2, random_state=0)
    assert_array_equal(whole.X, blocks.X)
    assert_array_equal(whole.Y.toarray(), blocks.Y.toarray())


def test_memory_is_that_of_the_answer():
    tracemalloc.start()
    data = planted(n=60_000, t=100, k=300, m=100, random_state=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * data.X.nbytes


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_hidden_tags(share):
    Y = planted(n=3000, random_state=0, m=2).Y
    before = Y.copy()
    left = hide_tags(Y, share, random_state=0)
    assert (before != Y).nnz == 0
    assert (left.toarray() <= Y.toarray()).all()
    assert left.nnz / Y.nnz == pytest.approx(1 - share, abs=0.02)
    assert left.dtype == np.float32
    assert_array_equal(left.toarray(), hide_tags(Y.toarray(), share, random_state=0).toarray())
    if share:
        assert (left != hide_tags(Y, share, random_state=1)).nnz > 0


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan])
def test_shares_that_cannot_be_hidden(share):
    with pytest.raises(InputError, match=r"share=.*from 0 up to, but not including, 1"):
        hide_tags(np.eye(3), share)


def test_as_a_benchmark_the_test_images_have_the_right_tags():
    data, same, other = (planted(n=400, missing=0.5, random_state=seed) for seed in (0, 0, 1))
    collection = data.collection(0.25)
    train, test = collection.train, collection.test
    assert len(test) == 100
    assert_array_equal(collection.Y[test].toarray(), data.Y_true[test].toarray())
    assert_array_equal(collection.Y[train].toarray(), data.Y[train].toarray())
    assert collection.tags == data.tag_names
    assert collection.checksum == same.collection(0.25).checksum
    assert collection.checksum != other.collection(0.25).checksum
