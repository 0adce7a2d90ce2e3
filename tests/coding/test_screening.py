"""The kernels behind screening: products in eight bits, what they choose, and what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from prototag import _kernels
from prototag.coding.coder import Coder, QuantizedPrototypes
from prototag.research.datasets import planted
from scored import steady

HERE = _kernels.instructions()  # the widest that this machine has
SETS = ["portable", "avx2", "avx512"][: ["portable", "avx2", "avx512"].index(HERE) + 1]


@pytest.fixture(params=SETS)
def instructions(request):
    """Each set of instructions that this machine can run."""
    assert _kernels.instructions(request.param) == request.param
    yield request.param
    _kernels.instructions(HERE)


def packed(D, weights=None, visual=None):
    return QuantizedPrototypes.quantize(
        np.ascontiguousarray(D, np.float32), visual or D.shape[1], weights
    )


def screened(D, x, width, core, own=None):
    """The candidates of each row."""
    index = np.full((len(x), 2 * width), -1, np.int32)
    count = np.zeros(len(x), np.int32)
    _kernels.screen(packed(D), len(D), x, own, width, core, index, count)
    return [row[:number] for row, number in zip(index, count, strict=True)]


def suspected(D, x, bound, **options):
    found = np.empty((len(x), len(D)), np.uint8)
    _kernels.possible_violators(packed(D, **options), len(D), x, bound, found)
    return found.astype(bool)


def drawn(seed, n, k, m, scale=1.0):
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((k, m)) * rng.uniform(0.1, 2, (k, 1))
    return (rng.standard_normal((n, m)) * scale).astype(np.float32), D.astype(np.float32)


# -- eight bits ------------------------------------------------------------------------------------


def test_codes_and_bounds_equal_the_reference(instructions):  # noqa: ARG001
    _, D = drawn(0, 1, 150, 37)
    D[3] = 0
    compact = packed(D)
    scale, q, rest, length = oracles.whole_numbers(D)
    tiles = compact.codes.reshape(3, 10, 64, 4).transpose(0, 2, 1, 3).reshape(192, 40)
    assert_array_equal(tiles[:150, :37].astype(int) - 128, q)
    assert_array_equal(tiles[150:], 128)  # zeros
    sound = np.arange(150) != 3
    assert_allclose(compact.bounds[0, :150][sound], scale[sound], rtol=1e-6)
    for mine, true in ((compact.bounds[1, :150], rest), (compact.bounds[2, :150], length)):
        assert (mine >= true * (1 - 1e-12)).all()
        assert_allclose(mine, true, rtol=5e-3, atol=1e-4)


@steady
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 300),
    st.integers(1, 70),
    st.sampled_from([1e-30, 1e-3, 1.0, 1e20]),
)
def test_no_product_above_the_bound_escapes(seed, k, m, scale):
    """The law that certificates rest on, whatever the instructions."""
    x, D = drawn(seed, 3, k, m, scale)
    true = x.astype(np.float64) @ D.T.astype(np.float64)
    bound = np.quantile(true, np.random.default_rng(seed).random(), axis=1).astype(np.float32)
    answers = []
    for name in SETS:
        _kernels.instructions(name)
        answers.append(suspected(D, x, bound))
    _kernels.instructions(HERE)
    estimate, missed = oracles.compact_bounds(x, D)
    for found in answers:
        assert found[true > bound[:, None]].all()
        # and those are spared that the twin's bound spares
        assert not found[estimate + missed * 1.001 + 1e-4 * scale < bound[:, None]].any()


def test_weights_divide_and_labels_keep_their_own_scale():
    x, D = drawn(1, 5, 200, 30)
    omega = np.random.default_rng(0).uniform(0.2, 3, 200).astype(np.float32)
    true = x @ D.T / omega
    bound = np.quantile(true, 0.9, axis=1).astype(np.float32)
    assert suspected(D, x, bound, weights=omega)[true > bound[:, None] + 1e-5].all()
    D[:, 20:] *= 50
    true = x @ D.T
    bound = np.quantile(true, 0.9, axis=1).astype(np.float32)
    found = suspected(D, x, bound, visual=20)
    assert found[true > bound[:, None] + 1e-3].all()
    assert found.mean() < 0.2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_always_suspected(bad, instructions):  # noqa: ARG001
    x, D = drawn(2, 2, 100, 12)
    D[17, 3] = bad
    found = suspected(D, x, np.full(2, 1e6, np.float32))
    assert_array_equal(np.flatnonzero(found.any(axis=0)), [17])
    x[1, 5] = bad
    assert suspected(D, x, np.full(2, 1e6, np.float32))[1].all()


# -- candidates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [140, 900, 3000, 9000])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_the_candidates_with_the_largest_bounds_are_selected_in_order(n, k, instructions):  # noqa: ARG001
    x, D = drawn(k, n, k, 24)
    estimate = oracles.compact_bounds(x, D)[0]
    for promise, chosen in zip(estimate, screened(D, x, 128, 32), strict=True):
        assert 64 <= len(chosen) < 256 or len(chosen) == k
        assert len(set(chosen)) == len(chosen)
        others = np.setdiff1d(np.arange(k), chosen)
        assert promise[others].max(initial=-np.inf) <= promise[chosen].min() + 1e-5
        assert promise[chosen[:16]].min() >= promise[chosen[64:]].max(initial=-np.inf) - 1e-5


def test_candidates_are_the_same_alone_and_in_a_batch_by_all_instructions():
    x, D = drawn(5, 37, 5000, 40)
    answers = []
    for name in SETS:
        _kernels.instructions(name)
        answers.append([set(row) for row in screened(D, x, 128, 32)])
        answers.append([set(screened(D, row[None], 128, 32)[0]) for row in x])
    _kernels.instructions(HERE)
    assert all(answer == answers[0] for answer in answers)


def test_a_prototype_is_excluded_for_its_own_image():
    _, D = drawn(6, 1, 2000, 20)
    own = np.arange(0, 2000, 100)
    for image, row in zip(own, screened(D, D[own], 128, 32, own), strict=True):
        assert image not in row


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-44, 3e38])
def test_candidates_with_equal_bounds(value):
    D = np.full((3000, 8), value, np.float32)
    for chosen in screened(D, np.ones((2, 8), np.float32), 128, 32):
        assert 128 <= len(chosen) < 512
        assert len(set(chosen)) == len(chosen)


# -- codes by all instructions ---------------------------------------------------------------------


def test_codes_by_all_instructions_have_the_same_supports(instructions):  # noqa: ARG001
    data = planted(n=300, t=8, k=3000, m=40, mixed=6, noise=0.8, random_state=1)
    found = Coder(data.prototypes).encode(data.X)
    exact = Coder(data.prototypes, exact=True).encode(data.X)
    assert_array_equal(found.codes.indptr, exact.codes.indptr)
    assert_array_equal(found.codes.indices, exact.codes.indices)
    assert_allclose(found.codes.data, exact.codes.data, atol=5e-6)
    assert found.gap[~found.capped].max() <= 1e-5


def test_unknown_instructions_are_refused():
    with pytest.raises(ValueError, match="portable, avx2 or avx512"):
        _kernels.instructions("sse9")


# -- crafted numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3.4e38, np.inf, np.nan])
@pytest.mark.parametrize("labels", [False, True], ids=["visual", "coupled"])
@pytest.mark.parametrize("n", [1, 40])
@pytest.mark.parametrize("k", [100, 2000])
def test_no_number_makes_the_kernels_leave_their_memory(k, n, labels, size, instructions):  # noqa: ARG001
    """Products that overflow once became indices: an out-of-bounds write."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((k, 16)).astype(np.float32)
    coder = Coder(D, D if labels else None)
    rows = coder.rows  # past all checks
    rows[::3] = size * rng.choice([-1.0, 1.0], (len(rows[::3]), rows.shape[1]))
    x = rng.choice([-3e38, 1.0, 3e38], (n, rows.shape[1])).astype(np.float32)
    weight = np.ones(n, np.float32)
    with np.errstate(all="ignore"):
        coder._packed = None
        found = [
            coder.solve(x, weight, coder.screen(x)),
            coder._run(x, weight, hint=x),
            coder.follow(x, weight, coder.screen(-x)),
        ]
    for paths in found:
        assert ((paths.index >= 0) & (paths.index < k)).all()
        assert ((paths.count >= 0) & (paths.count <= 16 + 16 * labels)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_coder_refuses_what_is_no_number(bad):
    x, D = drawn(0, 3, 300, 12)
    coder = Coder(D)
    x[1, 2] = bad
    with pytest.raises(ValueError, match=r"X contains NaN or infinity \(first in row 1\)"):
        coder.encode(x)
    D[4, 5] = bad
    with pytest.raises(ValueError, match=r"prototypes contains NaN or infinity \(first in row 4\)"):
        Coder(D)


def test_a_cap_beyond_what_can_be_independent_takes_no_memory():
    x, D = drawn(0, 3, 500, 12)
    coder = Coder(D, max_nonzeros=10**9)
    assert coder.max_nonzeros == 12
    assert np.diff(coder.encode(x).codes.indptr).max() <= 12
