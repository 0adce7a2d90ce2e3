"""Codes with a penalty on groups: against a slow twin, scikit-learn, SciPy and their conditions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize, nnls
from sklearn.linear_model import Lasso

from prototag import _kernels
from prototag.research.baselines.sparse_group_lasso import GroupLasso
from tests.research.baselines import oracles

SIZES = [3, 1, 4, 2, 2]
HERE = _kernels.instructions()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 9)).astype(np.float32)
    D = rng.standard_normal((12, 9)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, D / np.linalg.norm(D, axis=1, keepdims=True)


def cost(X, D, A, weights, sparsity, ridge):
    limits = np.concatenate([[0], np.cumsum(SIZES)])
    groups = [np.linalg.norm(A[:, a:b], axis=1) for a, b in pairwise(limits)]
    penalty = (weights * np.stack(groups, axis=1)).sum(axis=1)
    own = sparsity * np.abs(A).sum(axis=1) + ridge / 2 * np.square(A).sum(axis=1)
    return np.square(X - A @ D).sum(axis=1) / 2 + penalty + own


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize(("sparsity", "ridge"), [(0.0, 0.0), (0.05, 0.0), (0.05, 0.3)])
def test_codes_are_those_of_the_slow_twin(data, sparsity, ridge, nonnegative):
    X, D = data
    weights = np.random.default_rng(1).uniform(0, 0.3, (25, 5)).astype(np.float32)
    lasso = GroupLasso.of(D, sparsity=sparsity, ridge=ridge, sizes=SIZES, nonnegative=nonnegative)
    found = lasso.encode(X, weights, sweeps=5000, tol=1e-6)
    twin = oracles.group_lasso_codes(
        X, D, SIZES, weights, sparsity=sparsity, ridge=ridge, nonnegative=nonnegative
    )
    A = found.codes.toarray()
    assert_allclose(
        cost(X, D, A, weights, sparsity, ridge),
        cost(X, D, twin, weights, sparsity, ridge),
        atol=1e-5,
    )
    if ridge:  # the minimiser is unique
        assert_allclose(A, twin, atol=1e-3)
    assert found.violation <= 1e-6
    assert not nonnegative or A.min() >= 0


def test_without_groups_it_is_the_lasso_of_scikit_learn(data):
    X, D = data
    D = D[:6]  # fewer atoms than columns: the minimiser is unique
    found = GroupLasso.of(D, sparsity=0.1).encode(X, tol=1e-6, sweeps=3000).codes.toarray()
    for x, a in zip(X, found, strict=True):
        judge = Lasso(0.1 / 9, fit_intercept=False, tol=1e-6, max_iter=100_000).fit(D.T, x)
        assert_allclose(a, judge.coef_, atol=2e-3)


def test_without_penalties_it_is_nonnegative_least_squares(data):
    X, D = data
    lasso = GroupLasso.of(D[:8], nonnegative=True)
    found = lasso.encode(X, tol=1e-7, sweeps=20_000).codes.toarray()
    for x, a in zip(X, found, strict=True):
        assert_allclose(a, nnls(D[:8].T.astype(float), x.astype(float))[0], atol=1e-3)


def test_a_group_alone_against_a_numeric_minimiser(data):
    X, D = data
    D = D[:3]
    found = GroupLasso.of(D, sparsity=0.05, sizes=[3]).encode(X, 0.1, tol=1e-6, sweeps=5000).codes
    for x, a in zip(X[:8], found.toarray(), strict=False):

        def value(c, x=x):
            length = np.sqrt(c @ c + 1e-14)
            return np.sum((x - c @ D) ** 2) / 2 + 0.05 * np.abs(c).sum() + 0.1 * length

        best = min(minimize(value, s, method="Nelder-Mead", tol=1e-9).fun for s in (a, np.ones(3)))
        assert value(a) <= best + 1e-6


def test_no_sweep_raises_the_cost(data):
    X, D = data
    lasso = GroupLasso.of(D, sparsity=0.02, sizes=SIZES)
    codes, costs = None, [np.square(X).sum(axis=1) / 2]
    for _ in range(8):
        codes = lasso.encode(X, 0.05, previous=codes, sweeps=1).codes
        costs.append(cost(X, D, codes.toarray(), 0.05, 0.02, 0))
    assert (np.diff(costs, axis=0) <= 1e-6).all()


def test_a_large_weight_empties_its_group_only(data):
    X, D = data
    weights = np.array([0, 9, 0, 9, 0], np.float32)
    A = GroupLasso.of(D, sizes=SIZES, ridge=0.01).encode(X, weights).codes.toarray()
    assert not A[:, 3].any()
    assert not A[:, 8:10].any()
    assert A[:, :3].all()


def test_every_set_of_instructions_agrees(data):
    X, D = data
    lasso = GroupLasso.of(D, sparsity=0.05, sizes=SIZES)
    found = {}
    for name in ("portable", HERE):
        _kernels.instructions(name)
        found[name] = lasso.encode(X, 0.1, tol=1e-6, sweeps=5000).codes.toarray()
    _kernels.instructions(HERE)
    assert_allclose(found["portable"], found[HERE], atol=1e-3)


def test_vectors_of_zeros_have_no_codes(data):
    _, D = data
    D = np.vstack([D, np.zeros((1, 9), np.float32)])
    found = GroupLasso.of(D, sparsity=0.01).encode(np.zeros((2, 9), np.float32))
    assert found.codes.nnz == 0
    assert_array_equal(found.violation, 0)
