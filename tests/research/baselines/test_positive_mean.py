"""Positive means: leave-one-out scores equal refits; encodings against loops."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from prototag.research.baselines import PositiveMean
from prototag.research.baselines.positive_mean import vlad_batch
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=90, t=6, k=12, m=12, random_state=0)


@pytest.mark.parametrize("encoding", [None, "sparse", "vlad"])
def test_leave_one_out_scores_are_those_of_refitted_means(data, encoding):
    """The encoding and its mean come from all images: they have no part in the tags."""
    Y = data.Y.toarray() > 0
    options = {"n_centres": 5, "n_local": 1, "threshold": 0.5}
    model = PositiveMean(encoding, **options).fit(data.X, Y.astype(int))
    encoded = model._encode(model._validate_vectors(data.X))
    E = (encoded if encoding is None else encoded.toarray()).astype(float)
    E = E - E.mean(axis=0)
    for i in range(0, 90, 7):
        for c in range(6):
            rows = [j for j in np.flatnonzero(Y[:, c]) if j != i]
            mean = E[rows].mean(axis=0)
            expected = E[i] @ mean / (np.linalg.norm(E[i]) * np.linalg.norm(mean))
            assert_allclose(model.out_of_fold_scores_[i, c], expected, atol=1e-4)


def test_a_strong_ridge_ranks_images_like_positive_means(data):
    X = data.X.astype(float)
    Y = data.Y.toarray()
    model = PositiveMean(threshold=0.5).fit(data.X, Y)
    length = np.linalg.norm(X - X.mean(axis=0), axis=1)[:, None]
    ridge = Ridge(alpha=1e7).fit(X, Y)
    products = model.decision_function(data.X) * length
    for c in range(6):
        correlation = np.corrcoef(products[:, c], ridge.predict(X)[:, c])[0, 1]
        assert correlation > 0.9999


def test_with_one_tag_per_image_the_largest_score_is_the_nearest_direction(data):
    labels = data.Y.toarray().argmax(axis=1)
    model = PositiveMean().fit(data.X, labels)
    E = data.X - data.X.mean(axis=0)
    means = np.stack([E[labels == c].mean(axis=0) for c in model.classes_])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    nearest = model.classes_[(E @ means.T).argmax(axis=1)]
    assert (model.predict(data.X) == nearest).mean() > 0.98  # ties of rounding aside


@pytest.mark.parametrize("n_local", [1, 3])
def test_vlad_is_that_of_loops(data, n_local):
    x = data.X[:20]
    d = 12 // n_local
    centres = np.random.default_rng(0).standard_normal((4, d)).astype("f4") / 3
    found = vlad_batch(x, centres, n_local).toarray()
    for row, vector in zip(found, x, strict=True):
        expected = np.zeros((4, d))
        for z in vector.reshape(n_local, d):
            k = np.argmin(np.square(z - centres).sum(axis=1))
            expected[k] += z - centres[k]
        expected = np.sign(expected) * np.sqrt(np.abs(expected))
        for k in range(4):
            if expected[k].any():
                expected[k] /= np.linalg.norm(expected[k])
        assert_allclose(row, expected.ravel() / np.linalg.norm(expected), atol=1e-5)
        assert_allclose(np.linalg.norm(row), 1, rtol=1e-5)


def test_an_image_twice_is_an_image_of_weight_two(data):
    Y = data.Y.toarray()
    model = PositiveMean(threshold=0.5).fit(np.vstack([data.X, data.X[:1]]), np.vstack([Y, Y[:1]]))
    weight = np.ones(90)
    weight[0] = 2
    center = weight @ data.X / 91
    means = (Y * weight[:, None]).T @ (data.X - center)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    assert_allclose(model.means_, means, atol=1e-5)


def test_columns_that_are_no_local_vectors_are_refused(data):
    with pytest.raises(ValueError, match="n_local=5 with 12 columns"):
        PositiveMean("vlad", n_local=5).fit(data.X, data.Y)
