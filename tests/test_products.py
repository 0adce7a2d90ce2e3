"""Products whose bits depend on the row alone, by every set of instructions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prototag import _kernels
from prototag.arrays import likeness_by_row as likeness
from prototag.arrays import product

INSTRUCTIONS = ("portable", "avx2", "avx512")


@pytest.fixture(params=INSTRUCTIONS)
def instructions(request):
    before = _kernels.instructions()
    if _kernels.instructions(request.param) != request.param:
        _kernels.instructions(before)
        pytest.skip("this machine has no such instructions")
    yield request.param
    _kernels.instructions(before)


def in_batches(function, X, size):
    return np.concatenate([function(X[start : start + size]) for start in range(0, len(X), size)])


SHAPES = [(1, 1), (3, 5), (8, 16), (24, 33), (291, 291), (400, 64), (1280, 71)]


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(("depth", "columns"), SHAPES)
def test_products_are_products_and_know_their_row_alone(depth, columns):
    rng = np.random.default_rng(depth)
    X = rng.standard_normal((270, depth)).astype("f4")
    W = rng.standard_normal((depth, columns)).astype("f4")
    D, lengths = np.ascontiguousarray(W.T), np.square(W).sum(axis=0)
    whole = product(X, W)
    assert_allclose(whole, X.astype("f8") @ W, atol=2e-6 * depth)
    close = likeness(X, D, 0.3 / depth, lengths)
    far = np.square(X[:9, None].astype("f8") - D).sum(axis=2)
    assert_allclose(close[:9], np.exp(-0.3 / depth * far), atol=1e-5)
    for size in (1, 2, 3, 4, 5, 7, 8, 11, 64, 269):
        assert_array_equal(in_batches(lambda x: product(x, W), X, size), whole)
        found = in_batches(lambda x: likeness(x, D, 0.3 / depth, lengths), X, size)
        assert_array_equal(found, close)
