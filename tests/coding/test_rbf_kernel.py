"""The RBF kernel between rows and landmarks."""

from __future__ import annotations

import numpy as np
import pytest

from prototag.arrays import row_squared_norms
from prototag.coding.rbf_kernel import rbf_kernel, rbf_kernel_by_row


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(5, 30)).astype(np.float32)


@pytest.fixture
def landmarks():
    return np.random.default_rng(1).normal(size=(90, 30)).astype(np.float32)


@pytest.mark.parametrize("kernel", [rbf_kernel, rbf_kernel_by_row])
def test_the_kernel_is_that_of_distances_in_double_precision(rows, landmarks, kernel):
    distances = ((rows[:, None].astype(float) - landmarks) ** 2).sum(axis=2)
    values = kernel(rows, landmarks, 0.1, row_squared_norms(landmarks))
    np.testing.assert_allclose(values, np.exp(-0.1 * distances), rtol=2e-5)


def test_known_squared_norms_change_no_bit(rows, landmarks):
    known = row_squared_norms(landmarks)
    assert np.array_equal(rbf_kernel(rows, landmarks, 0.1), rbf_kernel(rows, landmarks, 0.1, known))
