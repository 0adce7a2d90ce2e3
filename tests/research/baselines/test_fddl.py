"""Fisher dictionaries: the criterion term by term, and steps that never raise it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from prototag.research.baselines import fddl


@pytest.fixture(scope="module")
def group():
    rng = np.random.default_rng(0)
    tag = rng.integers(0, 3, 60)
    centres = rng.standard_normal((3, 10))
    X = centres[tag] + 0.5 * rng.standard_normal((60, 10))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    atom_tag = np.repeat([0, 1, 2], [3, 2, 4])
    D = np.concatenate([X[tag == c][: (atom_tag == c).sum()] for c in range(3)])
    return fddl.Group(X.astype(np.float32), tag, D.astype(np.float32), atom_tag)


def by_hand(group, D, A, sparsity, weight):
    """The criterion of SLED's docstring, image by image."""
    total, mean = 0.0, A.mean(axis=0)
    means = [A[group.tag == c].mean(axis=0) for c in range(3)]
    for x, tag, a in zip(group.X, group.tag, A, strict=True):
        total += np.sum((x - a @ D) ** 2)
        for c in range(3):
            part = a[group.atom_tag == c] @ D[group.atom_tag == c]
            total += np.sum((x - part if c == tag else part) ** 2)
        total += sparsity * np.abs(a).sum()
        scatter = np.sum((a - means[tag]) ** 2) - np.sum((means[tag] - mean) ** 2)
        total += weight * (scatter + np.sum(a**2))
    return total


def test_the_criterion_term_by_term(group):
    A = np.random.default_rng(1).uniform(0, 1, (60, 9)).astype(np.float32)
    found = fddl.objective(group, group.D, A, 0.3, 0.7)
    assert found == pytest.approx(by_hand(group, group.D, A, 0.3, 0.7), rel=1e-5)


@pytest.mark.parametrize("weight", [0.0, 0.05, 2.0])
def test_it_never_rises(group, weight):
    zero = fddl.objective(group, group.D, np.zeros((60, 9), np.float32), 0.05, weight)
    D, A, history = fddl.learn(group, sparsity=0.05, fisher=weight, max_iter=12)
    assert history[0] < zero
    assert (np.diff(history) <= 1e-4).all()
    assert (A >= 0).all()
    assert (np.linalg.norm(D, axis=1) <= 1 + 1e-5).all()


def test_codes_and_atoms_end_where_no_step_helps(group):
    """At the end of many alternations random moves within the constraints only raise it."""
    D, A, history = fddl.learn(group, sparsity=0.05, fisher=0.1, max_iter=200)
    rng = np.random.default_rng(2)
    for _ in range(10):
        moved = np.maximum(A + 1e-2 * rng.standard_normal(A.shape), 0).astype(np.float32)
        assert fddl.objective(group, D, moved, 0.05, 0.1) > history[-1]
        turned = D + 1e-2 * rng.standard_normal(D.shape)
        turned /= np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1)
        assert fddl.objective(group, turned, A, 0.05, 0.1) > history[-1] - 1e-3


def test_dictionaries_tell_tags_apart(group):
    D, _, _ = fddl.learn(group, sparsity=0.05, fisher=0.05, max_iter=20)
    error = [
        np.linalg.norm(
            group.X - group.X @ np.linalg.pinv(D[group.atom_tag == c]) @ D[group.atom_tag == c],
            axis=1,
        )
        for c in range(3)
    ]
    assert (np.argmin(error, axis=0) == group.tag).mean() > 0.8


def test_groups_hold_tags_that_exclude_each_other():
    rng = np.random.default_rng(0)
    Y = (rng.random((200, 12)) < rng.uniform(0.02, 0.3, 12)).astype(np.float32)
    Y[:, 11] = 0  # a tag without images is in no group
    groups = list(fddl.exclusive_groups(sparse.csr_array(Y), shared=0.1, size=4))
    assert sorted(np.concatenate(groups).tolist()) == list(range(11))
    for tags in groups:
        assert len(tags) <= 4
        for a in tags:
            for b in tags:
                together = (Y[:, a] * Y[:, b]).sum()
                assert a == b or together <= 0.1 * min(Y[:, a].sum(), Y[:, b].sum())
    alone = list(fddl.exclusive_groups(sparse.csr_array(np.ones((5, 3))), shared=0.1, size=4))
    assert [len(tags) for tags in alone] == [1, 1, 1]
