"""Batches give the same bits wherever their arrays lie in memory, and whoever computes them."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tools.core_types import CORE_TYPES, unsupported

from prototag.engine import Engine, Threads, batch_slices, single_threaded_blas
from prototag.engine.layout import ALIGNMENT, copy_rows, make_contiguous, separate_shared
from prototag.engine.threads import count_rows, run_batch, slice_rows


class Carried(Engine):
    """Carries every function, argument and result through bytes, as between processes."""

    def stream(self, function, rows, shared=(), *, size):
        for part in batch_slices(count_rows(rows), size):
            task = pickle.loads(pickle.dumps((function, slice_rows(rows, part), shared)))
            with single_threaded_blas():
                answer = run_batch(*task)
            yield pickle.loads(pickle.dumps(answer))


ENGINES = {"one thread": Threads(), "two threads": Threads(2), "carried": Carried()}


def shifted(array, offset):
    """A copy whose first item lies ``offset`` bytes after an aligned address."""
    memory = np.empty(array.nbytes + 2 * ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT + offset
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    assert copy.ctypes.data % ALIGNMENT == offset
    return copy


def products(x, y):
    """What batches compute by BLAS and NumPy: GEMM, GEMV, DOT, sums along each axis."""
    return (
        x @ y.T,
        x @ y[0],
        np.float64([np.dot(row, y[0]) for row in x]),
        x.sum(axis=0),
        x.sum(axis=1),
        np.einsum("ij,ij->i", x, x),
        np.exp(x),
        np.linalg.norm(x, axis=1),
    )


def digest(results):
    return hashlib.sha256(b"".join(part.tobytes() for one in results for part in one)).hexdigest()


def digests():
    """Of all engines, precisions and offsets; an odd width shifts each batch by something else."""
    rng = np.random.default_rng(0)
    for precision in (np.float32, np.float64):
        x, y = (rng.standard_normal((40, 37)).astype(precision) for _ in range(2))
        yield {
            digest(engine.map(products, [shifted(x, offset)], [shifted(y, other)], size=7))
            for engine in ENGINES.values()
            for offset in range(0, ALIGNMENT, x.itemsize)
            for other in (0, ALIGNMENT - x.itemsize)
        }
        # The rows are the shared matrix itself, where NumPy would take SYRK on threads alone.
        yield {digest(engine.map(products, [x], [x], size=40)) for engine in ENGINES.values()}
        yield {digest(engine.map(products, [x.T], [x.T], size=37)) for engine in ENGINES.values()}


@pytest.mark.parametrize("core_type", ["", *CORE_TYPES])
def test_bits_do_not_depend_on_where_arrays_lie(core_type):
    """Prescott's kernels do depend on the address, those of Haswell on SYRK or GEMM."""
    if reason := unsupported(core_type):
        pytest.skip(reason)
    code = "from engine.test_layout import digests; print([len(found) for found in digests()])"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if core_type:
        env["OPENBLAS_CORETYPE"] = core_type
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert found.stdout.strip() == str([1] * 6)


def layout(*arrays):
    """What a batch function sees of its arrays."""
    return [
        (array.ctypes.data % ALIGNMENT, array.flags.c_contiguous, array.flags.f_contiguous)
        for array in arrays
    ]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_rows_arrive_aligned_and_in_c_order(engine):
    x = np.arange(120.0).reshape(10, 12)
    for rows in (x, x.T, x[:, 1:], np.asfortranarray(x)):
        for found in engine.map(layout, [rows], size=4):
            assert found == [(0, True, False)]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_shared_arrays_arrive_aligned_in_their_order(engine):
    x = np.arange(120.0).reshape(10, 12)
    (found,) = engine.map(shared_layout, [range(1)], [x, x.T, x[:, 1:], x[3:]], size=1)
    assert found == [(0, True, False), (0, False, True), (0, True, False), (0, True, False)]


def shared_layout(_, *arrays):
    return layout(*arrays)


def apart(row, *shared):
    arrays = [row, *shared]
    return [np.may_share_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i]]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_no_two_arrays_share_memory(engine):
    x = np.arange(120.0).reshape(10, 12)
    for found in engine.map(apart, [x], [x, x, x.T, x[2:]], size=5):
        assert not any(found)


class Sums(NamedTuple):
    first: np.ndarray
    rest: tuple


def strided(x):
    return Sums(x[:, ::2], (x.T, x[::2, 1:], "words"))


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_results_are_laid_out_alike(engine):
    """What the caller sums next must not depend on strides that only a thread keeps."""
    x = np.arange(120.0).reshape(10, 12)
    (found,) = engine.map(strided, [x], size=10)
    assert type(found) is Sums
    assert_array_equal(found.first, x[:, ::2])
    assert found.rest[2] == "words"
    assert [array.strides for array in (found.first, *found.rest[:2])] == [
        (48, 8),
        (8, 96),
        (88, 8),
    ]


def test_what_is_no_array_of_numbers_stays(tmp_path):
    words, objects = ["a"], np.array([None, {}], object)
    assert copy_rows([words, objects, None])[0] is words
    assert copy_rows([words, objects, None])[1] is objects
    assert separate_shared([objects])[0] is objects
    assert make_contiguous(words) is words
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(3, 2))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert_array_equal(copy_rows([mapped])[0], mapped)


def test_shared_arrays_that_are_aligned_are_not_copied():
    given = separate_shared([np.arange(7.0), np.zeros((0, 3)), np.float32(2), np.array(5.0)])
    again = separate_shared(given)
    assert all(one is other for one, other in zip(given, again, strict=True))


def test_batches_cannot_change_what_they_were_given():
    x = np.ones((4, 3))
    Threads().map(spoil, [x], size=2)
    assert_array_equal(x, 1)


def spoil(rows):
    rows += 1
    return rows
