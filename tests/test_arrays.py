"""Arrays of users become arrays of kernels, or an error that says what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from prototag import arrays as check
from prototag import sparse_encode

good = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones(3), r"X has 1 dimension\(s\), expected 2.*x\[None, :\]"),
        (np.ones((1, 2, 3)), r"X has 3 dimension\(s\), expected 2"),
        (np.ones((0, 3)), r"X has shape \(0, 3\): at least one row and column"),
        (np.ones((3, 0)), r"X has shape \(3, 0\): at least one row and column"),
        ([[1.0, np.nan, 0.0]], r"X contains NaN or infinity \(first in row 0\): remove or fix"),
        ([[1.0, 0, 0], [0, np.inf, 0]], r"X contains NaN or infinity \(first in row 1\)"),
        ([[0.0, 0, 0], [0, 1e300, 0]], r"beyond the range of float32 \(first in row 1\): scale"),
        ([["a", "b", "c"]], r"X has dtype <U1: expected real numbers"),
        (np.ones((2, 3), complex), r"X has dtype complex128: expected real numbers"),
        (np.array([[None, 1, 2]]), r"X has dtype object: expected real numbers"),
    ],
)
def test_bad_vectors_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        sparse_encode(given, np.eye(3))
    with pytest.raises(ValueError, match=message.replace("X ", "prototypes ", 1)):
        sparse_encode(np.eye(3), given)


@pytest.mark.parametrize(
    "given",
    [good.tolist(), good.astype(int), good > 2, np.asfortranarray(good), pd.DataFrame(good)],
    ids=["list", "int", "bool", "Fortran", "DataFrame"],
)
def test_what_is_accepted(given):
    out = check.check_vectors(given)
    assert out.dtype == np.float32
    assert out.flags.c_contiguous
    np.testing.assert_array_equal(out, np.asarray(given, float))


@pytest.mark.parametrize("value", [np.float32(0.5), 2, np.int64(3)])
def test_positive_numbers(value):
    check.check_positive(value, name="budget")


@pytest.mark.parametrize("value", [1, np.int64(3)])
def test_counts(value):
    check.check_count(value, name="cap")
