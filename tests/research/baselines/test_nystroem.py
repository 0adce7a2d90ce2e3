"""Features of a Gaussian kernel: exact with all images, near with a part of them."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from prototag.arrays import normalize_rows_at_any_scale as unit
from prototag.research.baselines import nystroem


def test_inner_products_are_the_kernel():
    rng = np.random.RandomState(0)
    X = unit(rng.standard_normal((60, 8)))
    exact = nystroem.fit(X, 2.0, 60, rng)
    f = exact.transform(X)
    apart = 2 * X.var(axis=0).sum()
    K = rbf_kernel(X.astype(np.float64), gamma=2.0 / apart)
    assert_allclose(f @ f.T, K, atol=1e-3)
    part = nystroem.fit(X, 2.0, 40, rng)
    assert part.landmarks.shape == (40, 8)
    g = part.transform(X, n_jobs=2)
    # The formula of Nystroem: exact between landmarks, a projection elsewhere.
    between = rbf_kernel(X.astype(np.float64), part.landmarks, gamma=2.0 / apart)
    inner = rbf_kernel(part.landmarks.astype(np.float64), gamma=2.0 / apart)
    assert_allclose(g @ g.T, between @ np.linalg.solve(inner, between.T), atol=1e-3)


def test_images_that_are_all_alike():
    f = nystroem.fit(np.ones((5, 3), np.float32), 1.0, 3, np.random.RandomState(0))
    assert_allclose(np.square(f.transform(np.ones((2, 3), np.float32))).sum(axis=1), 1, rtol=1e-4)
