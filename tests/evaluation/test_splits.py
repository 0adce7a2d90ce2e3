"""Splits: every image once, every tag its share, no group in two parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from prototag.evaluation import splits
from prototag.evaluation.splits import near_duplicate_groups, stratified_folds, stratified_split
from prototag.research.datasets import planted


def off_share(Y, part, number):
    """How many images a tag is off its share, part by part, number x t."""
    sizes = np.bincount(part, minlength=number)
    counts = np.stack([np.asarray(Y[part == j].sum(axis=0)).ravel() for j in range(number)])
    return np.abs(counts - np.outer(sizes / len(part), np.asarray(Y.sum(axis=0)).ravel()))


@pytest.mark.parametrize("n_folds", [2, 3, 10])
def test_each_fold_has_each_tags_share(n_folds):
    Y = planted(n=4000, t=120, k=300, m=2, mixed=4, random_state=0).Y
    fold = stratified_folds(Y, n_folds, random_state=0)
    assert fold.shape == (4000,)
    assert np.ptp(np.bincount(fold, minlength=n_folds)) <= 1
    random = np.random.default_rng(0).permutation(4000) % n_folds
    ours, theirs = off_share(Y, fold, n_folds), off_share(Y, random, n_folds)
    assert ours.max() <= 3
    assert ours.mean() < theirs.mean() / 4
    assert ours.max() < theirs.max() / 4


def test_a_tag_on_as_many_images_as_there_are_folds_is_in_each():
    rng = np.random.default_rng(0)
    Y = np.zeros((200, 21))
    for tag in range(20):
        Y[rng.choice(200, 5, replace=False), tag] = 1
    Y[rng.random(200) < 0.5, 20] = 1
    fold = stratified_folds(Y, 5, random_state=0)
    for tag in range(20):
        held = np.bincount(fold[Y[:, tag] > 0], minlength=5)
        assert held.max() <= 2
    assert np.mean([len(set(fold[Y[:, tag] > 0])) for tag in range(20)]) > 4.5


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.75])
def test_a_split_is_exact_in_size_and_fair_to_tags(share):
    Y = planted(n=3000, t=80, k=200, m=2, random_state=1).Y
    train, test = stratified_split(Y, share, random_state=0)
    assert len(test) == round(3000 * share)
    assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(3000))
    assert (np.diff(train) > 0).all()
    assert (np.diff(test) > 0).all()
    part = np.isin(np.arange(3000), test).astype(int)
    assert off_share(Y, part, 2).max() <= 4


def test_groups_are_never_split_and_tags_keep_their_share():
    Y = planted(n=3000, t=60, k=200, m=2, random_state=0).Y
    groups = np.random.default_rng(0).integers(900, size=3000)
    fold = stratified_folds(Y, 5, random_state=0, groups=groups)
    for group in np.unique(groups):
        assert len(set(fold[groups == group])) == 1
    assert np.ptp(np.bincount(fold)) <= 2 * np.bincount(groups).max()
    random = np.random.default_rng(0).integers(5, size=900)[groups]
    assert off_share(Y, fold, 5).mean() < off_share(Y, random, 5).mean() / 4


def test_groups_may_be_named():
    names = np.array(["a", "b", "a", "c", "b", "d"])
    train, test = stratified_split(np.ones((6, 1)), 0.5, random_state=0, groups=names)
    assert not set(names[train]) & set(names[test])


@given(
    st.integers(2, 30),
    st.integers(0, 6),
    st.integers(2, 6),
    st.booleans(),
    st.integers(0, 2**31 - 1),
)
@settings(max_examples=150, deadline=None)
def test_any_small_collection_is_dealt_completely(n, t, n_folds, grouped, seed):
    rng = np.random.default_rng(seed)
    Y = rng.random((n, t)) < rng.random()
    groups = rng.integers(n, size=n) if grouped else None
    number = n if groups is None else len(np.unique(groups))
    if number < n_folds:
        with pytest.raises(ValueError, match=f"{number} image.* cannot fill {n_folds} parts"):
            stratified_folds(Y, n_folds, random_state=seed, groups=groups)
        return
    fold = stratified_folds(Y, n_folds, random_state=seed, groups=groups)
    assert set(fold) == set(range(n_folds))  # complete, and no fold is empty
    if groups is None:
        assert np.ptp(np.bincount(fold)) <= 1
    else:
        assert all(len(set(fold[groups == group])) == 1 for group in groups)


def test_the_seed_decides_and_storage_does_not():
    Y = planted(n=300, random_state=0, m=2).Y
    one, same, other = (stratified_folds(Y, 3, random_state=seed) for seed in (1, 1, 2))
    assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    for form in (Y.toarray(), Y.tocsc(), Y.toarray().astype(bool), sparse.csr_matrix(Y)):
        assert_array_equal(one, stratified_folds(form, 3, random_state=1))
    for state in (np.random.default_rng, np.random.RandomState):
        assert_array_equal(*(stratified_folds(Y, 3, random_state=state(5)) for _ in range(2)))


def test_the_callers_tags_are_left_alone():
    Y = sparse.csr_array(np.array([[1.0, 0], [0, 1], [1, 1]]))
    Y.data[0] = 0
    stratified_folds(Y, 3, random_state=0)
    assert Y.nnz == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stratified_folds(np.ones((5, 2)), 1), r"n_folds=1: .*at least 2"),
        (lambda: stratified_folds(np.ones((5, 2)), True), r"n_folds=True"),
        (lambda: stratified_folds(np.ones(5), 2), r"shape \(5,\)"),
        (lambda: stratified_folds(np.ones((0, 2)), 2), r"shape \(0, 2\)"),
        (lambda: stratified_folds(np.full((5, 2), 0.5), 2), r"contains 0.5: give 0 .*or 1"),
        (lambda: stratified_folds(np.full((5, 2), np.nan), 2), r"contains nan"),
        (lambda: stratified_folds(np.ones((5, 2)), 2, groups=[1, 2]), r"groups has shape \(2,\)"),
        (lambda: stratified_split(np.ones((5, 2)), 0), r"test_share=0: .*between 0 and 1"),
        (lambda: stratified_split(np.ones((5, 2)), 1.0), r"test_share=1.0"),
        (lambda: stratified_split(np.ones((1, 2)), 0.5), r"1 image.* cannot fill 2 parts"),
        (lambda: near_duplicate_groups(np.ones(3)), r"shape \(3,\): give one row"),
        (lambda: near_duplicate_groups([[np.inf, 1]]), "NaN or infinity"),
        (lambda: near_duplicate_groups(np.ones((3, 2)), 0), "cosine=0: .*above 0"),
        (lambda: near_duplicate_groups(np.ones((3, 2)), 1.1), "cosine=1.1"),
    ],
)
def test_what_cannot_be_split_is_reported(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# -- near duplicates -------------------------------------------------------------------------------


def slow_groups(X, cosine):
    """Flood from image to image, in float64."""
    X = np.asarray(X, float)
    length = np.linalg.norm(X, axis=1)
    group = np.full(len(X), -1)
    for first in range(len(X)):
        if group[first] >= 0:
            continue
        group[first] = number = group.max() + 1
        todo = [first]
        while todo:
            i = todo.pop()
            for j in range(len(X)):
                near = length[i] * length[j] > 0
                near = near and X[i] @ X[j] / (length[i] * length[j]) >= cosine - 1e-6
                if near and group[j] < 0:
                    group[j] = number
                    todo.append(j)
    return group


@pytest.mark.parametrize("cosine", [0.5, 0.93, 1.0])
@pytest.mark.parametrize("blocks", [(256, 4096, 1 << 18), (7, 11, 5)])
def test_groups_are_those_of_the_slow_reference(cosine, blocks, monkeypatch):
    for name, value in zip(("_TILE_ROWS", "_TILE_COLUMNS", "_MAX_PAIRS"), blocks, strict=True):
        monkeypatch.setattr(splits, name, value)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6)) * rng.uniform(0.01, 1e25, size=(120, 1))
    X[60:80] = 3 * X[:20]
    X[80:100] = X[:20] * (1 + 0.1 * rng.standard_normal((20, 6)))
    X[100:103] = 0
    got = near_duplicate_groups(X, cosine)
    assert_array_equal(got, slow_groups(X, cosine))
    assert len(set(got[100:103])) == 3
    assert_array_equal(got[60:80], got[:20])


def test_chains_are_one_group():
    angle = np.linspace(0, np.pi / 2, 40)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert set(near_duplicate_groups(X, 0.99)) == {0}
    assert len(set(near_duplicate_groups(X[::10], 0.99))) == 4


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_images_have_groups_too(n):
    assert_array_equal(near_duplicate_groups(np.eye(3)[:n]), np.arange(n))


def test_merging_after_the_last_block_changes_nothing(monkeypatch):
    monkeypatch.setattr(
        splits, "_MAX_PAIRS", 0
    )  # every block that finds something is merged at once
    assert_array_equal(near_duplicate_groups(np.ones((5, 2))), np.zeros(5))


def test_a_collection_of_copies_is_grouped_in_bounded_memory():
    import tracemalloc

    X = np.tile(np.eye(4, dtype=np.float32), (1500, 1))  # 9 M pairs: 144 MB if all were kept
    tracemalloc.start()
    groups = near_duplicate_groups(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_array_equal(groups, np.arange(6000) % 4)
    assert peak < 100 << 20
