"""Products whose bits depend on the row alone, by every set of instructions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prototag import _kernels
from prototag.arrays import SparseRows, rowwise_matmul
from prototag.coding.rbf_kernel import rbf_kernel_by_row

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
    whole = rowwise_matmul(X, W)
    assert_allclose(whole, X.astype("f8") @ W, atol=2e-6 * depth)
    close = rbf_kernel_by_row(X, D, 0.3 / depth, lengths)
    far = np.square(X[:9, None].astype("f8") - D).sum(axis=2)
    assert_allclose(close[:9], np.exp(-0.3 / depth * far), atol=1e-5)
    for size in (1, 2, 3, 4, 5, 7, 8, 11, 64, 269):
        assert_array_equal(in_batches(lambda x: rowwise_matmul(x, W), X, size), whole)
        found = in_batches(lambda x: rbf_kernel_by_row(x, D, 0.3 / depth, lengths), X, size)
        assert_array_equal(found, close)


@pytest.mark.parametrize("width", [1, 7, 20])
def test_sums_of_sparse_rows_are_those_of_rows_with_zeros(width):
    rng = np.random.default_rng(width)
    S = np.where(rng.random((50, 33)) < 0.2, rng.random((50, 33)), 0).astype("f4")
    S[7] = 0
    index = rng.integers(50, size=(40, width)).astype("i4")
    weight = np.where(rng.random((40, width)) < 0.7, rng.random((40, width)), 0).astype("f4")
    rows = SparseRows.from_matrix(S)
    assert rows.shape == S.shape
    expected = np.zeros((40, 33), "f4")
    for place in range(width):
        expected += weight[:, place, None] * S[index[:, place]]
    assert_allclose(rows.weighted_row_sums(index, weight), expected, rtol=1e-6)
    whole = rows.weighted_row_sums(index, weight)
    assert_array_equal(
        in_batches(lambda i: rows.weighted_row_sums(index[i], weight[i]), np.arange(40), 3), whole
    )
    assert_array_equal(rows.dense_rows(np.array([7, 0, 49])), S[[7, 0, 49]])
    assert_array_equal(rows.csr().toarray(), S)
