"""k-means: the nearest centre by eight bits is the nearest, whatever was guessed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prototag import _kernels
from prototag.engine import Threads
from prototag.mcdl.kmeans import k_means, nearest_centroids


@pytest.fixture(params=["portable", "avx2", "avx512"])
def instructions(request):
    widest = _kernels.instructions()
    if _kernels.instructions(request.param) != request.param:
        _kernels.instructions(widest)
        pytest.skip(f"this machine has no {request.param}")
    yield request.param
    _kernels.instructions(widest)


def by_hand(X, centres):
    apart = X.astype(np.float64)[:, None] - centres.astype(np.float64)[None]
    return np.square(apart).sum(axis=2)


@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
@pytest.mark.parametrize("width", [3, 64, 77])
def test_whatever_is_guessed_the_nearest_is_found(instructions, width, scale):  # noqa: ARG001
    rng = np.random.default_rng(0)
    X, centres = ((scale * rng.standard_normal((n, width))).astype(np.float32) for n in (150, 130))
    centres[::3] *= 3  # lengths count, not only directions
    distances = by_hand(X, centres)
    for guess in (np.zeros(150, np.intp), rng.integers(0, 130, 150), distances.argmin(axis=1)):
        label, distance = nearest_centroids(X, centres, guess=guess)
        found = distances[np.arange(150), label]
        assert_allclose(found, distances.min(axis=1), rtol=1e-5)
        assert_allclose(distance, found, rtol=1e-4, atol=1e-5 * distances.max())


def test_of_equals_the_first_is_found_and_the_guess_is_left_alone(instructions):  # noqa: ARG001
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 20)).astype(np.float32)
    centres = np.vstack([X[::2], X[::2], X[1::2], X[1::2]])
    guess = np.full(40, 79)
    label, distance = nearest_centroids(X, centres, guess=guess)
    assert_array_equal(label[::2], np.arange(20))
    assert_array_equal(label[1::2], np.arange(40, 60))
    assert_array_equal(guess, 79)
    assert np.abs(distance).max() < 1e-5


def test_vectors_of_zeros_and_one_centre():
    X = np.zeros((3, 5), np.float32)
    label, distance = nearest_centroids(X, np.ones((1, 5), np.float32), guess=np.zeros(3, np.intp))
    assert_array_equal(label, 0)
    assert_allclose(distance, 5)


def test_rounds_are_those_of_lloyd_and_threads_change_no_bit():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((1500, 12)).astype(np.float32)
    centres = [k_means(X, 70, np.random.default_rng(3), engine=Threads(j)) for j in (1, 2)]
    assert_array_equal(*centres)
    slow = X[np.sort(np.random.default_rng(3).permutation(1500)[:70])].astype(np.float64)
    last = np.inf
    for _ in range(20):
        distances = by_hand(X, slow)
        label, inertia = distances.argmin(axis=1), distances.min(axis=1).sum()
        slow = np.stack([X[label == c].mean(axis=0, dtype=np.float64) for c in range(70)])
        if last - inertia <= 1e-4 * inertia:
            break
        last = inertia
    assert_allclose(centres[0], slow, atol=1e-5)
