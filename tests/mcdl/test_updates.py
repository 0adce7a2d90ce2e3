"""The sweeps over prototypes against slow twins, outside judges, and their laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, sparse
from sklearn.cluster import KMeans

import oracles
from prototag import _kernels
from prototag.coding.coder import Coder
from prototag.engine import Threads
from prototag.mcdl import settings as losses
from prototag.mcdl import updates
from prototag.mcdl.kmeans import k_means, nearest_centroids
from prototag.mcdl.settings import SemanticSettings
from prototag.research.datasets import planted
from scored import steady

LOSSES = {
    "squared_hinge": (losses.squared_hinge(0.5, 0.5), oracles.Loss(0.5, 0.5)),
    "squared": (losses.squared(), oracles.Loss(0.0, None)),
}


@pytest.fixture(scope="module")
def coded():
    data = planted(n=80, t=6, k=25, m=12, missing=0.2, random_state=3)
    return data, Coder(data.prototypes).encode(data.X).codes


def order_of(seed, k):
    """The order that a step draws from its generator."""
    return np.random.default_rng(seed).permutation(k)


# -- visual ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1.0, 0.3], ids=["at the border", "inside the ball"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("sphere", [True, False], ids=["sphere", "ball"])
def test_visual_sweep_equals_the_reference(coded, sphere, weighted, length):
    data, A = coded
    X = data.X * np.float32(length)
    p = np.arange(1, 81, dtype=np.float32) % 5 + 1 if weighted else None
    D = data.prototypes[::-1].copy()  # not the ones that the codes were made for
    before = D.copy()
    new = updates.visual_update(D, X, A, p, np.random.default_rng(7), sphere=sphere)
    weights = np.ones(80) if p is None else p
    expected = oracles.visual_sweep(D, X, A.toarray(), weights, order_of(7, 25), sphere=sphere)
    assert_allclose(new, expected, atol=2e-5)
    assert_array_equal(D, before)


@pytest.mark.parametrize("sphere", [True, False], ids=["sphere", "ball"])
@steady
@given(st.integers(0, 2**32 - 1))
def test_visual_sweep_never_raises_its_term_nor_leaves_its_set(sphere, seed):
    rng = np.random.default_rng(seed)
    n, k, m = rng.integers(1, 12, 3)
    X = rng.standard_normal((n, m)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    A = np.where(rng.random((n, k)) < 0.5, rng.uniform(0, 1, (n, k)), 0).astype(np.float32)
    p = rng.integers(1, 9, n).astype(np.float32)
    D = updates.to_sphere(rng.standard_normal((k, m)).astype(np.float32))
    term = []
    for _ in range(3):
        term.append(sum(w * oracles.distance(x, D, a) for w, x, a in zip(p, X, A, strict=True)))
        D = updates.visual_update(D, X, sparse.csr_array(A), p, rng, sphere=sphere)
        length = np.linalg.norm(D, axis=1)
        assert_allclose(length, 1, atol=1e-5) if sphere else np.testing.assert_array_less(
            length, 1 + 1e-5
        )
    assert (np.diff(term) <= 1e-5 * (1 + np.array(term[:-1]))).all()


@pytest.mark.parametrize("length", [1.0, 0.3], ids=["at the border", "inside the ball"])
def test_scipy_finds_no_better_block_on_the_ball(coded, length):
    """One prototype given the others is a convex problem: scipy must not find a better one."""
    data, A = coded
    X = data.X * np.float32(length)
    p = np.linspace(1, 3, 80).astype(np.float32)
    rng = np.random.default_rng(0)
    D = (1.3 * data.prototypes).astype(np.float32)
    new = updates.visual_update(D, X, A, p, rng, sphere=False)
    last = int(order_of(0, 25)[-1])  # the others no longer move after it

    def term(d):
        everything = new.astype(float)
        everything[last] = d
        residual = X - A.toarray().astype(float) @ everything
        return float(p @ (residual**2).sum(axis=1))

    answer = optimize.minimize(
        term,
        np.zeros(12),
        constraints={"type": "ineq", "fun": lambda d: 1 - d @ d},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 300},
    )
    assert term(new[last]) <= answer.fun + 1e-5


def test_visual_sweep_reports_the_largest_change(coded):
    data, A = coded
    D = data.prototypes.copy()
    gram = sparse.csr_array(A.T @ A)
    change = _kernels.visual_sweep(
        gram.indptr.astype(np.int32),
        gram.indices.astype(np.int32),
        gram.data,
        np.ascontiguousarray(A.T @ data.X),
        np.arange(25, dtype=np.int32),
        False,
        D,
    )
    assert change == pytest.approx(np.abs(D - data.prototypes).max(), rel=1e-6)


def test_a_prototype_that_no_code_uses_stays(coded):
    data, A = coded
    A = A.tolil()
    A[:, [3, 7]] = 0
    new = updates.visual_update(
        data.prototypes, data.X, A.tocsr(), None, np.random.default_rng(0), sphere=True
    )
    assert_array_equal(new[[3, 7]], data.prototypes[[3, 7]])
    assert not np.isnan(new).any()


# -- one dimension ---------------------------------------------------------------------------------


@st.composite
def problems(draw):
    count = draw(st.integers(0, 8))
    part = st.floats(0.0078125, 1, width=32)
    a = draw(st.lists(part, min_size=count, max_size=count))
    scores = draw(st.lists(st.floats(-1, 4), min_size=count, max_size=count))
    y = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    C, tau = draw(st.floats(0, 1)), draw(st.floats(0, 1.5))
    hinge = draw(st.booleans())
    start = draw(st.floats(0, 5))
    beta1 = draw(st.sampled_from([0.0, 0.15, 2.0]))
    rho = draw(st.sampled_from([0.0, 0.1, 30.0]))
    return np.array(a), np.array(scores), np.array(y, bool), C, tau, hinge, start, beta1, rho


@steady
@given(problems(), st.floats(0.1, 5), st.floats(0, 5))
def test_one_dimensional_step_is_the_minimum(problem, most, anchor):
    a, scores, y, C, tau, hinge, start, beta1, rho = problem
    start, anchor = min(start, most), min(anchor, most)
    loss = losses.squared_hinge(C, tau) if hinge else losses.squared()
    formula = oracles.Loss(C, tau) if hinge else oracles.Loss(0.0, None)
    d = _kernels.minimize_coordinate(a, scores, y, *loss, start, beta1, rho, anchor, most)
    best, value = oracles.one_dimension(
        a, scores, y, loss=formula, start=start, beta1=beta1, rho=rho, anchor=anchor, most=most
    )
    assert 0 <= d <= most
    assert value(d) <= value(best) + 1e-9 * (1 + abs(value(best)))
    if rho > 0:  # then it is the only one
        assert d == pytest.approx(best, abs=1e-6)


@steady
@given(problems())
def test_one_dimensional_step_agrees_with_scipy(problem):
    a, scores, y, C, tau, hinge, start, beta1, _ = problem
    assume(len(a))
    loss = losses.squared_hinge(C, tau) if hinge else losses.squared()
    formula = oracles.Loss(C, tau) if hinge else oracles.Loss(0.0, None)
    d = _kernels.minimize_coordinate(a, scores, y, *loss, start, beta1, 0.1, start, 5.0)

    def value(d):
        moved = scores + a * (d - start)
        return formula.total(y, moved) + beta1 * d + 0.1 * (d - start) ** 2

    answer = optimize.minimize_scalar(value, bounds=(0, 5), method="bounded")
    assert value(d) <= answer.fun + 1e-8


def test_one_dimensional_step_where_nothing_is_paid():
    """Flat: stays; only beta1: as low as the loss allows."""
    loss = losses.squared_hinge(0.5, 0.5)
    a, y = np.array([1.0]), np.array([True])
    assert (
        _kernels.minimize_coordinate(a, np.array([2.0]), y, *loss, 2.0, 0.0, 0.0, 2.0, 5.0) == 2.0
    )
    d = _kernels.minimize_coordinate(a, np.array([2.0]), y, *loss, 2.0, 0.2, 0.0, 2.0, 5.0)
    assert d == pytest.approx(0.9, abs=1e-8)  # (1 - d)^2 + 0.2 d
    none = np.array([])
    assert (
        _kernels.minimize_coordinate(none, none, none.astype(bool), *loss, 2.0, 0.2, 0.0, 2.0, 5.0)
        == 0.0
    )


# -- semantic --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("sweeps", [1, 3])
@pytest.mark.parametrize("rho", [0.0, 0.5])
@pytest.mark.parametrize("loss", LOSSES)
def test_semantic_sweeps_equal_the_reference(coded, loss, rho, sweeps, rescale):
    data, A = coded
    ours, formula = LOSSES[loss]
    S = updates.initial_semantics(A, data.Y, positive=1.0, v=5.0)
    before = S.copy()
    options = {"beta1": 0.15, "rho": rho, "most": 5.0, "sweeps": sweeps, "rescale": rescale}
    settings = SemanticSettings(ours, 0.15, 5.0, sweeps, rescale)
    new, objective = updates.semantic_update(
        S, A, data.Y, np.random.default_rng(5), settings, rho=rho
    )
    expected = oracles.semantic_sweeps(
        S, A.toarray(), data.Y.toarray(), order_of(5, 25), loss=formula, **options
    )
    assert_allclose(new, expected, atol=1e-4)
    assert_array_equal(S, before)
    by_tag = [
        oracles.tag_problem(
            new[:, [c]], A.toarray(), data.Y.toarray()[:, [c]], loss=formula, beta1=0.15
        )
        for c in range(6)
    ]
    assert_allclose(objective, by_tag, rtol=1e-4)
    assert_allclose(updates.tag_objective(new, A, data.Y, settings), objective, rtol=1e-5)


def test_pairs_that_cannot_move_are_zero_in_the_full_sweep(coded):
    """The kernel visits only pairs that are non-zero or have a positive member: the others of the
    twin, which visits all, must stay at zero."""
    data, A = coded
    Y = data.Y.toarray()
    outside = (A.toarray() > 0).T.astype(int) @ Y == 0
    assert outside.any()
    S = oracles.semantic_sweeps(
        np.zeros((25, 6)), A.toarray(), Y, np.arange(25),
        loss=oracles.Loss(0.5, 0.5), beta1=0.0, rho=0.0, most=5.0, sweeps=3,
    )  # fmt: skip
    assert not S[outside].any()


@pytest.mark.parametrize("loss", LOSSES)
def test_scipy_agrees_on_the_convex_problem_of_a_tag(coded, loss):
    data, A = coded
    ours, formula = LOSSES[loss]
    settings = SemanticSettings(ours, 0.1, 2.0, 400)
    S = updates.semantic_update(
        np.ones((25, 6), np.float32), A, data.Y, np.random.default_rng(0), settings, rho=0.0
    ).S
    dense, Y = A.toarray().astype(float), data.Y.toarray()

    for c in range(3):
        sign = 2 * Y[:, c] - 1

        def value(s, c=c, sign=sign):
            scores = dense @ s
            if formula.tau is None:
                gap = scores - Y[:, c]
                return gap @ gap + 0.1 * s.sum(), 2 * gap @ dense + 0.1
            gap = np.maximum(0, 0.5 - sign * (scores - 0.5))
            return gap @ gap + 0.1 * s.sum(), -2 * (gap * sign) @ dense + 0.1

        answer = optimize.minimize(
            value, np.ones(25), jac=True, bounds=[(0, 2)] * 25, method="L-BFGS-B",
            options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 5000},
        )  # fmt: skip
        found = value(S[:, c].astype(float))[0]
        assert found == pytest.approx(answer.fun, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@steady
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 50.0]), st.booleans())
def test_semantic_step_never_raises_its_objective_nor_leaves_the_box(loss, seed, rho, rescale):
    rng = np.random.default_rng(seed)
    ours, formula = LOSSES[loss]
    n, k, t = rng.integers(1, 12, 3)
    A = np.where(rng.random((n, k)) < 0.5, rng.uniform(0, 1, (n, k)), 0).astype(np.float32)
    Y = (rng.random((n, t)) < 0.3).astype(np.float32)
    S = np.where(rng.random((k, t)) < 0.5, rng.uniform(0, 2, (k, t)), 0).astype(np.float32)
    beta1 = float(rng.choice([0, 0.2]))
    settings = SemanticSettings(ours, beta1, 2.0, rescale=rescale)
    for _ in range(3):
        new = updates.semantic_update(
            S, sparse.csr_array(A), sparse.csr_array(Y), rng, settings, rho=rho
        ).S
        assert new.min() >= 0
        assert new.max() <= 2
        before = oracles.tag_problem(S, A, Y, loss=formula, beta1=beta1)
        after = oracles.tag_problem(
            new, A, Y, loss=formula, beta1=beta1,
            rho=0.0 if rescale else rho, anchor=S,
        )  # fmt: skip
        assert after <= before * (1 + 1e-6) + 1e-6
        S = new


def test_semantic_threads_give_the_same_bits():
    data = planted(n=300, t=40, k=60, random_state=0)
    A = Coder(data.prototypes).encode(data.X).codes
    S = updates.initial_semantics(A, data.Y, positive=1.0, v=5.0)
    settings = SemanticSettings(losses.squared_hinge(0.5, 0.5), 0.15, 5.0)
    one, two = (
        updates.semantic_update(
            S, A, data.Y, np.random.default_rng(0), settings, rho=1.0, engine=Threads(n_jobs)
        )
        for n_jobs in (1, 3)
    )
    assert_array_equal(one.S, two.S)
    assert_array_equal(one.objective, two.objective)


def test_initial_semantics(coded):
    data, A = coded
    dense, Y = A.toarray().astype(float), data.Y.toarray()
    squared = (dense**2).sum(axis=0)
    expected = np.minimum(1.2, 1.5 * (dense.T @ Y) / np.where(squared > 0, squared, 1)[:, None])
    S = updates.initial_semantics(A, data.Y, positive=1.5, v=1.2)
    assert_allclose(S, expected, rtol=1e-5)
    assert S.dtype == np.float32


# -- start and rest --------------------------------------------------------------------------------


def test_k_means_finds_clusters_and_is_as_good_as_scikit_learn():
    data = planted(n=400, k=12, mixed=1, noise=0.1, m=16, random_state=0)
    centres = k_means(data.X, 40, np.random.default_rng(0), max_iter=100)
    reference = KMeans(40, init="random", n_init=1, random_state=0).fit(data.X)
    inertia = ((data.X[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1).sum()
    assert inertia <= 1.1 * reference.inertia_


def test_k_means_threads_give_the_same_bits():
    data = planted(n=1200, k=12, random_state=0)
    one = k_means(data.X, 30, np.random.default_rng(0), engine=Threads(1))
    assert_array_equal(one, k_means(data.X, 30, np.random.default_rng(0), engine=Threads(3)))


@pytest.mark.parametrize("distinct", [1, 3])
def test_k_means_with_fewer_different_vectors_than_centres(distinct):
    X = np.tile(np.eye(4, dtype=np.float32)[:distinct], (6, 1))
    centres = k_means(X, 5, np.random.default_rng(0))
    assert np.isfinite(centres).all()
    assert_allclose(np.unique(centres, axis=0), np.unique(X, axis=0))


def test_projections():
    D = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], np.float32)
    assert_allclose(updates.to_sphere(D), [[0.6, 0.8], [0.6, 0.8], [0, 0]])
    assert_allclose(updates.to_ball(D), [[0.6, 0.8], [0.3, 0.4], [0, 0]])


@pytest.mark.parametrize("how", ["reseed", "zero", "leave"])
def test_unused_prototypes(coded, how):
    data, A = coded
    A = A.tolil()
    A[:, [3, 7]] = 0
    A = A.tocsr()
    S = np.ones((25, 6), np.float32)
    D, T = updates.handle_unused(data.prototypes, S, data.X, A, how=how)
    used = np.setdiff1d(np.arange(25), [3, 7])
    assert_array_equal(D[used], data.prototypes[used])
    assert_array_equal(T[used], S[used])
    assert (T[[3, 7]] == (1 if how == "leave" else 0)).all()
    if how == "reseed":
        worst = np.argsort(-np.linalg.norm(data.X - A @ data.prototypes, axis=1))[:2]
        assert_array_equal(D[[3, 7]], data.X[worst])
    else:
        assert_array_equal(D, data.prototypes)


def test_more_unused_prototypes_than_images():
    X = np.eye(3, dtype=np.float32)[:2]
    D = -np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1]]
    S = np.ones((5, 2), np.float32)
    D, S = updates.handle_unused(D, S, X, sparse.csr_array((2, 5), dtype=np.float32), how="reseed")
    assert_array_equal(D[:2], X)
    assert not S.any()


def test_nearest_is_that_of_all_distances():
    rng = np.random.default_rng(0)
    X, centres = (rng.standard_normal((n, 5)).astype(np.float32) for n in (1100, 30))
    squared = np.square(X[:, None] - centres).sum(axis=2)
    label, distance = nearest_centroids(X, centres, engine=Threads(2))
    assert_array_equal(label, squared.argmin(axis=1))
    assert_allclose(distance, squared.min(axis=1), atol=1e-4)
