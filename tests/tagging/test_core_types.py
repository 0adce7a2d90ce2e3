"""A model gives the same scores with the BLAS kernels of any processor."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tools.core_types import CORE_TYPES, look, unsupported

from prototag import recommended
from prototag.research.datasets import planted

TOLERANCE = 1e-5  # docs/architecture.md; the largest difference measured is 1e-6 of scores
CODE = """
import sys
import numpy as np
from prototag import load
model = load(sys.argv[1]).model_
X = np.load(sys.argv[2])
np.savez(sys.argv[3], scores=model.scores(X), probabilities=model.probabilities(X))
"""


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """The scores of one model in another process, with the given environment."""
    folder = tmp_path_factory.mktemp("model")
    data = planted(n=500, t=8, k=40, m=37, noise=0.4, random_state=0)
    recommended(pilot=200).fit(data.X[:300], data.Y[:300]).save(folder / "a.prototag")
    np.save(folder / "X.npy", data.X[300:].astype(np.float32))

    def scored(**settings):
        paths = [str(folder / name) for name in ("a.prototag", "X.npy", "out.npz")]
        env = os.environ | settings
        subprocess.run([sys.executable, "-c", CODE, *paths], check=True, env=env)
        with np.load(paths[-1]) as found:
            return found["scores"], found["probabilities"]

    return scored


@pytest.mark.parametrize("core_type", CORE_TYPES)
def test_scores_are_the_same_bits_with_the_blas_of_any_processor(scores, core_type):
    if reason := unsupported(core_type):
        pytest.skip(reason)
    for found, expected in zip(scores(OPENBLAS_CORETYPE=core_type), scores(), strict=True):
        assert_array_equal(found, expected)


def test_scores_without_the_vector_code_of_numpy_are_within_the_tolerance(scores):
    dispatched = " ".join(look()["dispatched"])
    if not dispatched:
        pytest.skip("NumPy dispatches on nothing here.")
    for found, expected in zip(scores(NPY_DISABLE_CPU_FEATURES=dispatched), scores(), strict=True):
        assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
