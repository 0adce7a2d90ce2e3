"""Rows in files: any slice is what the array would give, and nothing but numbers is read."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prototag.engine import Threads, map_rows
from prototag.errors import InputError
from prototag.storage.npy_rows import StoredRows


@pytest.fixture
def stored(tmp_path):
    rows = np.random.default_rng(0).standard_normal((23, 5)).astype(np.float32)
    paths = []
    for number, part in enumerate((slice(0, 4), slice(4, 4), slice(4, 19), slice(19, 23))):
        paths.append(tmp_path / f"{number}.npy")
        np.save(paths[-1], rows[part])
    return rows, StoredRows.from_files(paths)


@pytest.mark.parametrize(
    "part", [slice(None), slice(3, 5), slice(4, 19), slice(5, 5), slice(9, 2), slice(-3, None)]
)
def test_a_slice_is_that_of_the_array(stored, part):
    rows, found = stored
    assert found[part].shape == rows[part].shape
    assert_array_equal(found[part].load(), rows[part])
    assert_array_equal(found[2:21][part].load(), rows[2:21][part])


def test_some_rows_by_their_numbers(stored):
    rows, found = stored
    chosen = np.array([0, 3, 4, 11, 18, 22])
    assert_array_equal(found.take(chosen), rows[chosen])
    assert_array_equal(found[2:].take(chosen[1:] - 2), rows[chosen[1:]])


def double(x, by):
    return x * by


def test_blocks_read_them_where_they_run(stored):
    rows, found = stored
    sent = pickle.loads(pickle.dumps(found))
    assert_array_equal(map_rows(Threads(2), double, [sent], [2], size=6), rows * 2)
    assert len(pickle.dumps(found[:3])) < 1000


def test_half_precision_is_read_as_float32(tmp_path):
    rows = np.arange(12, dtype=np.float16).reshape(4, 3)
    np.save(tmp_path / "a.npy", rows)
    found = StoredRows.from_files([tmp_path / "a.npy"]).load()
    assert found.dtype == np.float32
    assert_array_equal(found, rows)


@pytest.mark.parametrize(
    "array",
    [np.array([{}, {}]), np.asfortranarray(np.ones((3, 2))), np.array(1.0), np.ones(3, ">f4")],
    ids=["objects", "Fortran", "no rows", "other bytes"],
)
def test_anything_else_is_refused(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError):
        StoredRows.from_files([tmp_path / "a.npy"])


def test_a_file_that_ends_too_early_is_reported(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones((10, 3), np.float32))
    found = StoredRows.from_files([path])
    path.write_bytes(path.read_bytes()[:-4])
    assert found[:9].load().shape == (9, 3)
    with pytest.raises(InputError, match="is truncated"):
        found.load()
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match=r"not a file of numbers"):
        StoredRows.from_files([path])
