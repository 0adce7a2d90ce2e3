"""Supervised hashing: the objective falls, bit steps are exact, distances are Hamming's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from prototag.research.baselines import HashingKNN
from prototag.research.baselines.hashing import Hash, Problem, hamming_search
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def problem_parts():
    rng = np.random.default_rng(0)
    data = planted(n=60, t=5, k=10, m=8, random_state=0)
    K = np.exp(-np.square(data.X[:, None] - data.X[None, :20]).sum(axis=2)).astype(float)
    Z = np.where(rng.random((60, 6)) < 0.5, -1.0, 1.0)
    return K, data.Y, Z


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_objective_never_rises(problem_parts, power):
    K, Y, Z = problem_parts
    problem = Problem.of(K, Y, power, 0.3, 1.0)
    values = [problem.objective(problem.minimise(Z, rounds)) for rounds in range(6)]
    assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert values[-1] < values[0]


def test_a_bit_step_is_the_best_of_all_bits(problem_parts):
    K, Y, Z = problem_parts
    problem = Problem.of(K, Y, 1.0, 0.3, 1.0)
    solution = problem.regress(Z, np.ones(60), np.ones(60))
    u = np.linspace(0.5, 2, 60)
    v = np.linspace(2, 0.5, 60)

    def cost(codes):
        tags = np.square(problem.Y - codes @ solution.weights).sum(axis=1)
        fit = np.square(codes - K @ solution.projection).sum(axis=1)
        return u * tags + 0.3 * v * fit

    one_bit = Z.copy()
    for bit in range(6):
        flipped = one_bit.copy()
        flipped[:, bit] *= -1
        better = cost(flipped) < cost(one_bit)
        one_bit[better] = flipped[better]
    assert_array_equal(problem.update_codes(solution, u, v, passes=1), one_bit)


def test_power_two_is_supervised_discrete_hashing(problem_parts):
    K, Y, Z = problem_parts
    problem = Problem.of(K, Y, 2.0, 0.3, 1.0)
    found = problem.minimise(Z, 2)
    tags = Y.toarray().astype(float)
    codes = Z
    for round_number in range(3):
        W = np.linalg.solve(codes.T @ codes + np.eye(6), codes.T @ tags)
        P = np.linalg.solve(0.3 * K.T @ K + problem.ridge * np.eye(20), 0.3 * K.T @ codes)
        if round_number == 2:
            break
        codes = codes.copy()
        for _ in range(3):
            for bit in range(6):
                rest = np.delete(np.arange(6), bit)
                pull = tags @ W[bit] - codes[:, rest] @ W[rest] @ W[bit] + 0.3 * K @ P[:, bit]
                codes[:, bit] = np.sign(pull)
    assert_array_equal(found.codes, codes)
    assert_allclose(found.weights, W, atol=1e-8)
    assert_allclose(found.projection, P, atol=1e-6)


def test_regressions_have_zero_gradient(problem_parts):
    K, Y, Z = problem_parts
    problem = Problem.of(K, Y, 1.0, 0.3, 1.0)
    u = np.linspace(0.5, 2, 60)
    v = np.linspace(2, 0.5, 60)
    solution = problem.regress(Z, u, v)

    def quadratic(W, P):
        tags = u @ np.square(problem.Y - Z @ W).sum(axis=1) + np.square(W).sum()
        fit = 0.3 * v @ np.square(Z - K @ P).sum(axis=1) + problem.ridge * np.square(P).sum()
        return tags + fit

    at = quadratic(solution.weights, solution.projection)
    rng = np.random.default_rng(0)
    for _ in range(10):
        W = solution.weights + 1e-3 * rng.standard_normal(solution.weights.shape)
        P = solution.projection + 1e-3 * rng.standard_normal(solution.projection.shape)
        assert quadratic(W, solution.projection) > at
        assert quadratic(solution.weights, P) > at


def test_distances_are_those_of_hamming():
    rng = np.random.default_rng(0)
    bits = rng.random((40, 21)) < 0.5
    tags = sparse.csr_array(np.ones((40, 1), bool))
    empty = np.zeros((1, 1), "f4")
    model = Hash(empty, 1.0, np.zeros((1, 21), "f4"), np.packbits(bits, axis=1), tags, 1.0)
    search, mean = hamming_search(model)
    found = search.find_all((2.0 * bits[:3] - 1).astype("f4"), 40)
    for i in range(3):
        by_image = np.empty(40)
        by_image[found.index[i]] = found.distance[i]
        assert_array_equal(by_image / 4, (bits[i] != bits).sum(axis=1))
    distances = 4 * (bits[:, None] != bits).sum(axis=2)
    assert_allclose(mean, distances.mean(), rtol=1e-5)


def test_more_bits_find_better_neighbours():
    data = planted(n=400, t=10, k=25, m=16, noise=0.4, random_state=5)
    X = data.X[:300]
    exact = np.argsort(np.square(data.X[300:, None] - X).sum(axis=2), axis=1)[:, :20]
    recall = []
    for n_bits in (8, 32, 128):
        options = {"sharpness": 8.0, "fit_weight": 3.0, "n_landmarks": 100, "threshold": 0.5}
        model = HashingKNN(n_bits, **options).fit(X, data.Y[:300])
        hashed = model._get_fitted()
        codes = model._hash(data.X[300:], hashed.landmarks, hashed.width, hashed.projection)
        found = hamming_search(hashed)[0].find_all(codes, 20).index
        recall.append(np.mean([len(set(a) & set(b)) for a, b in zip(found, exact, strict=True)]))
    assert recall[0] < recall[1] < recall[2]
