"""Groups of exclusive tags: the greedy partition, and dense subgraphs against what is known."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from scipy import sparse

from prototag.research.baselines import exclusive_tags


def random_tags(seed=0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((200, 12)) < rng.uniform(0.02, 0.3, 12)).astype(np.float32)
    Y[:, 11] = 0  # a tag without images is in no group
    return Y


def test_groups_hold_tags_that_exclude_each_other():
    Y = random_tags()
    groups = list(exclusive_tags.partition(sparse.csr_array(Y), shared=0.1, size=4))
    assert sorted(np.concatenate(groups).tolist()) == list(range(11))
    for tags in groups:
        assert len(tags) <= 4
        for a in tags:
            for b in tags:
                together = (Y[:, a] * Y[:, b]).sum()
                assert a == b or together <= 0.1 * min(Y[:, a].sum(), Y[:, b].sum())
    alone = list(exclusive_tags.partition(sparse.csr_array(np.ones((5, 3))), shared=0.1, size=4))
    assert [len(tags) for tags in alone] == [1, 1, 1]


def test_exclusiveness_by_counts():
    Y = random_tags()
    E = exclusive_tags.exclusiveness(sparse.csr_array(Y))
    for a in range(12):
        for b in range(12):
            rarer = min(Y[:, a].sum(), Y[:, b].sum())
            expected = 1 - (Y[:, a] * Y[:, b]).sum() / rarer if rarer and a != b else 0
            assert abs(E[a, b] - expected) < 1e-6


def test_the_density_never_falls_and_ends_at_a_clique():
    """Motzkin and Straus: on a graph without weights the maximum is 1 - 1 / (clique number)."""
    rng = np.random.default_rng(1)
    E = np.triu(rng.random((14, 14)) < 0.3, 1).astype(float)
    E[np.ix_([2, 5, 7, 9, 12], [2, 5, 7, 9, 12])] = 1  # a clique of five
    E = np.maximum(E, E.T) - np.diag(np.diag(E))
    best = 0.0
    for start in range(14):
        s, densities = exclusive_tags.dense_subgraph(E, start, np.arange(14), 14)
        assert (np.diff(densities) > -1e-2).all()  # small masses are removed
        assert abs(s.sum() - 1) < 1e-9
        assert (s >= 0).all()
        best = max(best, densities[-1])
    assert_allclose(best, 1 - 1 / 5, atol=1e-3)


def test_every_tag_with_images_is_in_a_group():
    Y = sparse.csr_array(random_tags())
    groups = exclusive_tags.graph_shift(Y, size=5)
    assert set(np.concatenate(groups).tolist()) == set(range(11))
    assert max(len(group) for group in groups) <= 5
    assert len({tuple(group) for group in groups}) == len(groups)
    everywhere = exclusive_tags.graph_shift(sparse.csr_array(np.ones((5, 3))), size=4)
    assert [group.tolist() for group in everywhere] == [[0], [1], [2]]
    assert exclusive_tags.graph_shift(sparse.csr_array(np.zeros((5, 3))), size=4) == []
