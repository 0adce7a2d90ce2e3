"""The kernels behind screening: which prototypes are kept, and which violate a certificate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from prototag import _kernels
from scored import steady


def screened(promise, width, core, chunk, room=None):
    """The candidates of each row as screening gathers them: chunk by chunk, then settled."""
    n, k = promise.shape
    key = np.empty((n, room or 2 * width), np.uint64)
    count, floor = np.zeros(n, np.int32), np.zeros(n, np.float32)
    for start in range(0, k, chunk):
        part = np.ascontiguousarray(promise[:, start : start + chunk])
        _kernels.screen(part, start, width, key, count, floor)
    index, kept = np.full((n, width + 5), -1, np.int32), np.zeros(n, np.int32)
    _kernels.settle(key, count, width, core, index, kept)
    return index, kept


@steady
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 400),
    st.sampled_from([1, 3, 16]),
    st.sampled_from([7, 64, 1000]),
    st.sampled_from([1, 3, 1000]),
    st.sampled_from([1e-42, 1e-20, 1.0, 1e30]),
)
def test_screening_keeps_the_largest_of_each_row(seed, k, width, chunk, levels, scale):
    rng = np.random.default_rng(seed)
    promise = (rng.integers(-levels, levels + 1, (3, k)) / levels * scale).astype(np.float32)
    core = min(2, width)
    index, kept = screened(promise, width, core, chunk)
    for row, mine, number in zip(promise, index, kept, strict=True):
        # Largest first; of equals the first prototype.
        order = np.lexsort((np.arange(k), -row))[:width]
        assert number == len(order)
        assert set(mine[:number]) == set(order)
        best = min(core, number)
        assert set(mine[:best]) == set(order[:best])
        assert (mine[number:] == -1).all()


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-44])
def test_screening_where_all_promise_the_same(value):
    promise = np.full((2, 3000), value, np.float32)
    index, kept = screened(promise, 192, 48, 4096)
    assert_array_equal(kept, 192)
    assert_array_equal(np.sort(index[:, :192]), np.tile(np.arange(192), (2, 1)))


def test_screening_where_promises_differ_by_less_than_a_scale_can_tell():
    """Once an index beyond the histogram: 128 / (high - low) overflowed."""
    promise = np.zeros((1, 3000), np.float32)
    promise[0, ::7] = np.float32(1e-45)
    index, kept = screened(promise, 192, 48, 4096)
    assert_array_equal(np.sort(index[0, : kept[0]]), np.arange(192) * 7)


@steady
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.booleans(), st.integers(0, 30))
def test_violators_are_those_above_the_bound_that_are_not_known(seed, k, weighted, room):
    rng = np.random.default_rng(seed)
    offset, n = 100, 3
    correlation = rng.standard_normal((n, k)).astype(np.float32)
    omega = rng.uniform(0.5, 2, offset + k).astype(np.float32) if weighted else None
    bound = rng.standard_normal(n).astype(np.float32)
    count = rng.integers(0, room + 1, n).astype(np.int32)
    candidate = np.full((n, max(room, 1)), -1, np.int32)
    for row, number in zip(candidate, count, strict=True):
        row[:number] = rng.permutation(np.arange(90, 90 + max(number, k)))[:number]
    known = [set(row[:number]) for row, number in zip(candidate, count, strict=True)]
    added, largest = np.zeros(n, np.int32), np.full(n, 0.5, np.float32)
    _kernels.violators(correlation, offset, omega, bound, candidate, count, added, largest)
    scaled = correlation / omega[offset:] if weighted else correlation
    for i in range(n):
        beyond = {offset + int(j) for j in np.flatnonzero(scaled[i] > bound[i])} - known[i]
        found = set(candidate[i, : count[i]]) - known[i]
        assert added[i] == len(beyond)
        assert found <= beyond
        assert len(found) == min(len(beyond), max(room, 1) - len(known[i]))
        assert largest[i] == pytest.approx(max(0.5, scaled[i].max()), rel=1e-6)
