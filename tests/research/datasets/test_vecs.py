"""INRIA's vector files: their bytes, and what a damaged one says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prototag.errors import DatasetError
from prototag.research.datasets.vecs import read_vecs

from .forms import write_vecs


def test_the_bytes_are_those_of_the_format(tmp_path):
    path = tmp_path / "a.hvecs"
    path.write_bytes(bytes.fromhex("0300 0100 0000 ffff 0300 0200 0300 0400"))
    assert_array_equal(read_vecs(path), [[1, 0, 65535], [2, 3, 4]])
    path = tmp_path / "a.hvecs32"
    path.write_bytes(bytes.fromhex("01000000 00000100"))
    assert_array_equal(read_vecs(path), [[65536]])
    path = tmp_path / "a.fvec"
    path.write_bytes(bytes.fromhex("02000000 0000803f 000000bf"))
    assert_array_equal(read_vecs(path), [[1.0, -0.5]])


@pytest.mark.parametrize("ending", [".hvecs", ".hvecs32", ".fvec", ".fvecs"])
def test_what_was_written_is_read(tmp_path, ending):
    rows = np.random.default_rng(0).integers(0, 60_000, size=(50, 291))
    write_vecs(tmp_path / f"a{ending}", rows)
    assert_array_equal(read_vecs(tmp_path / f"a{ending}"), rows)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "0 bytes are too short"),
        ("0000", "not a whole number of vectors of 0"),
        ("0200 0100", "not a whole number of vectors of 2"),
        ("0100 0100 0200 0100", "row 1 declares 2 numbers, the first row 1"),
    ],
)
def test_damaged_files_are_refused(tmp_path, data, message):
    path = tmp_path / "a.hvecs"
    path.write_bytes(bytes.fromhex(data))
    with pytest.raises(DatasetError, match=message):
        read_vecs(path)


def test_unknown_and_missing_files(tmp_path):
    with pytest.raises(DatasetError, match=r"ends in '.dat'; supported are .hvecs"):
        read_vecs(tmp_path / "a.dat")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_vecs(tmp_path / "a.hvecs")
