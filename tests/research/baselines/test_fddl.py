"""Fisher dictionaries: the criterion term by term, and steps that never raise it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from prototag.research.baselines import fddl
from prototag.research.datasets import planted

PLAIN = fddl.Penalties(0.05, 0.05)
ALL = fddl.Penalties(0.03, 0.2, 0.05, 0.3)


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


@pytest.fixture(scope="module")
def with_shared(group):
    rng = np.random.default_rng(1)
    D = np.concatenate([group.D, rng.standard_normal((2, 10)).astype(np.float32) / 3])
    return group._replace(D=D, atom_tag=np.append(group.atom_tag, [fddl.SHARED] * 2))


def by_hand(group, D, A, penalties):
    """The criterion of the docstring, image by image."""
    total, mean = 0.0, A.mean(axis=0)
    means = [A[group.tag == c].mean(axis=0) for c in range(3)]
    shared = group.atom_tag == fddl.SHARED
    for x, tag, a in zip(group.X, group.tag, A, strict=True):
        total += np.sum((x - a @ D) ** 2)
        for c in range(3):
            part = a[group.atom_tag == c] @ D[group.atom_tag == c]
            own = x - part - a[shared] @ D[shared]
            total += np.sum((own if c == tag else part) ** 2)
        total += penalties.sparsity * np.abs(a).sum()
        scatter = np.square(a - means[tag]) - np.square(means[tag] - mean) + np.square(a)
        scatter[shared] = np.square(a - mean)[shared]
        total += penalties.fisher * scatter.sum()
    for c in range(-1, 3):
        for d in range(c + 1, 3):
            product = D[group.atom_tag == c] @ D[group.atom_tag == d].T
            total += penalties.incoherence * np.square(product).sum()
    if shared.any():
        total += penalties.low_rank * np.linalg.svd(D[shared], compute_uv=False).sum()
    return total


@pytest.mark.parametrize("kind", ["group", "with_shared"])
def test_the_criterion_term_by_term(kind, request):
    group = request.getfixturevalue(kind)
    A = np.random.default_rng(1).standard_normal((60, len(group.D))).astype(np.float32)
    found = fddl.objective(group, group.D, A, ALL)
    assert found == pytest.approx(by_hand(group, group.D, A, ALL), rel=1e-5)


@pytest.mark.parametrize("kind", ["group", "with_shared"])
def test_the_gradient_against_differences(kind, request):
    group = request.getfixturevalue(kind)
    rng = np.random.default_rng(2)
    A = rng.uniform(0.2, 1, (60, len(group.D)))  # away from zero, where the l1 norm is smooth
    found = 2 * fddl.codes_gradient(group, group.D.astype(float), A, ALL) + ALL.sparsity
    for _ in range(5):
        move = rng.standard_normal(A.shape)
        up, down = (by_hand(group, group.D, A + h * move, ALL) for h in (1e-5, -1e-5))
        assert np.vdot(found, move) == pytest.approx((up - down) / 2e-5, rel=1e-4)


def test_scatters_add_up(group):
    """S_W + S_B is the scatter around the mean: the criterion is convex in the codes."""
    A = np.random.default_rng(3).standard_normal((60, 9)).astype(np.float32)
    inside, mean = fddl._means(group, A)
    within, between = np.square(A - inside).sum(), np.square(inside - mean).sum()
    assert within + between == pytest.approx(np.square(A - mean).sum(), rel=1e-5)
    B = np.random.default_rng(4).standard_normal((60, 9)).astype(np.float32)
    ends = [fddl.objective(group, group.D, codes, PLAIN) for codes in (A, B)]
    assert fddl.objective(group, group.D, (A + B) / 2, PLAIN) <= np.mean(ends)


@pytest.mark.parametrize("kind", ["group", "with_shared"])
@pytest.mark.parametrize(
    "penalties", [fddl.Penalties(0.05, 0.0), PLAIN, ALL, ALL._replace(fisher=2)]
)
def test_it_never_rises(kind, penalties, request):
    group = request.getfixturevalue(kind)
    zero = fddl.objective(group, group.D, np.zeros((60, len(group.D)), np.float32), penalties)
    D, _, history = fddl.learn(group, penalties, max_iter=12)
    assert history[0] < zero
    assert (np.diff(history) <= 1e-4).all()
    assert (np.linalg.norm(D[group.atom_tag >= 0], axis=1) <= 1 + 1e-5).all()


def test_codes_and_atoms_end_where_no_step_helps(group):
    """At the end of many alternations random moves within the constraints only raise it."""
    D, A, history = fddl.learn(group, PLAIN, max_iter=200)
    rng = np.random.default_rng(2)
    for _ in range(10):
        moved = (A + 1e-2 * rng.standard_normal(A.shape)).astype(np.float32)
        assert fddl.objective(group, D, moved, PLAIN) > history[-1]
        turned = D + 1e-2 * rng.standard_normal(D.shape)
        turned /= np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1)
        assert fddl.objective(group, turned, A, PLAIN) > history[-1] - 1e-3


def test_dictionaries_tell_tags_apart(group):
    D, _, _ = fddl.learn(group, PLAIN, max_iter=20)
    error = [
        np.linalg.norm(
            group.X - group.X @ np.linalg.pinv(D[group.atom_tag == c]) @ D[group.atom_tag == c],
            axis=1,
        )
        for c in range(3)
    ]
    assert (np.argmin(error, axis=0) == group.tag).mean() > 0.8


def test_what_all_images_have_in_common_moves_to_shared_atoms(group):
    """Images share a direction: a shared atom finds it, and atoms of tags lose it."""
    rng = np.random.default_rng(5)
    common = np.append(np.zeros(10), 1).astype(np.float32)
    X = np.hstack([group.X, np.zeros((60, 1), np.float32)])
    X += np.outer(rng.uniform(1, 3, 60), common).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    D = np.concatenate([X[:9], X.mean(axis=0, keepdims=True)]).astype(np.float32)
    shared = fddl.Group(X, group.tag, D, np.append(group.atom_tag, fddl.SHARED))
    penalties = fddl.Penalties(0.01, 0.02, 1.0, 0.01)
    D, _, _ = fddl.learn(shared, penalties, max_iter=60)
    assert D[9] @ common / np.linalg.norm(D[9]) > 0.9
    assert np.abs(D[:9] @ common).mean() < np.abs(X[:9] @ common).mean() - 0.1


def test_penalties_do_what_they_name(with_shared):
    plain, _, _ = fddl.learn(with_shared, PLAIN, max_iter=20)
    apart, _, _ = fddl.learn(with_shared, PLAIN._replace(incoherence=5.0), max_iter=20)
    other = with_shared.atom_tag[:, None] != with_shared.atom_tag
    coherence = [np.square(D @ D.T)[other].mean() for D in (plain, apart)]
    assert coherence[1] < 0.7 * coherence[0]
    flat, _, _ = fddl.learn(with_shared, PLAIN._replace(low_rank=1e4), max_iter=3)
    assert_allclose(flat[with_shared.atom_tag == fddl.SHARED], 0)


def test_members_have_one_tag_of_the_group():
    data = planted(n=150, t=8, k=14, m=10, random_state=3)
    Y = data.Y.toarray()
    tags = np.array([6, 1, 3])
    rng = np.random.default_rng(0)
    atom_tag = np.array([0, 1, 2])
    group = fddl.collect_group(
        data.X, data.Y, tags, data.X[:3], atom_tag, rng, max_images_per_tag=5
    )
    assert np.bincount(group.tag).max() <= 5
    assert_allclose(group.D, data.X[:3])
    for x, number in zip(group.X, group.tag, strict=True):
        image = np.flatnonzero((x == data.X).all(axis=1))[0]
        assert Y[image, tags].sum() == 1
        assert Y[image, tags[number]] == 1
    everything = sparse.csr_array(np.ones((150, 8), np.float32))
    none = fddl.collect_group(
        data.X, everything, tags, data.X[:3], atom_tag, rng, max_images_per_tag=5
    )
    assert none is None
