"""What annotators with a dictionary share."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from prototag.research.baselines.dictionary_base import atoms_per_tag, classifier, count_atoms
from prototag.research.baselines.omp import encode
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=120, t=5, k=12, m=10, random_state=3)


def test_atoms_are_shared_out():
    Y = sparse.csr_array(np.array([[1, 1, 0, 0]] * 9 + [[1, 0, 1, 0]], np.float32))
    assert atoms_per_tag(12, Y).tolist() == [3, 3, 1, 0]  # no more than images, none without
    assert atoms_per_tag(2, Y).tolist() == [1, 1, 1, 0]
    assert count_atoms(0.2, 50) == 10
    assert count_atoms(80, 50) == 50
    assert count_atoms(1e-9, 50) == 1


def test_the_classifier_is_a_ridge_regression(data):
    codes = encode(data.X, data.X[:15], 4)
    A, Y = codes.toarray().astype(float), data.Y.toarray()
    expected = np.linalg.lstsq(
        np.vstack([A, np.sqrt(2.0) * np.eye(15)]), np.vstack([Y, np.zeros((15, 5))]), rcond=None
    )[0]
    assert_allclose(classifier(codes, data.Y, 2.0), expected, atol=1e-4)
