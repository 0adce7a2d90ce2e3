"""Product quantisation: with a centre for each image it is exact; estimates against tables."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prototag.research.baselines import KNN, QuantizedKNN
from prototag.research.baselines.quantization import (
    Quantizer,
    arrange,
    deal_columns,
    train_quantizer,
)
from prototag.research.datasets import planted

OPTIONS = {"n_neighbours": 8, "sharpness": 6.0, "threshold": 0.5}


@pytest.fixture(scope="module")
def data():
    return planted(n=180, t=8, k=20, m=14, random_state=0)


@pytest.mark.parametrize("distance_bits", [0, 3])
def test_a_centre_for_each_image_is_exact(data, distance_bits):
    """Each image is its own centre, so no residual is left to encode."""
    X = data.X[:30] if distance_bits else data.X
    Y = data.Y[:30] if distance_bits else data.Y
    exact = KNN(**OPTIONS).fit(X, Y)
    model = QuantizedKNN(block_columns=4, distance_bits=distance_bits, **OPTIONS).fit(X, Y)
    new = data.X[::5]
    assert_allclose(model.decision_function(new), exact.decision_function(new), atol=1e-4)
    assert_allclose(model.out_of_fold_scores_, exact.out_of_fold_scores_, atol=1e-4)


@pytest.mark.parametrize(("m", "width"), [(14, 4), (12, 4), (5, 8), (17, 3)])
def test_dealing_columns_keeps_distances_and_balances_variance(m, width):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((40, m)) * np.linspace(2, 0.1, m)).astype("f4")
    column = deal_columns(x.var(axis=0), width)
    assert sorted(column.tolist()) == list(range(m))
    blocks = arrange(x, column, width)
    assert_allclose(np.square(blocks).sum(axis=(1, 2)), np.square(x).sum(axis=1), rtol=1e-5)
    if m == 12:
        variance = blocks.var(axis=0).sum(axis=1)
        assert variance.max() < 2 * variance.min()


def test_the_error_falls_with_bits(data):
    blocks = arrange(data.X, deal_columns(data.X.var(axis=0), 4), 4)
    flat = blocks.reshape(len(data.X), -1)
    errors = []
    for bits in (1, 3, 5, 7):
        quantizer, codes = train_quantizer(blocks, 1 << bits, 1, np.random.default_rng(0))
        errors.append(np.square(quantizer.decode(codes)[:, :-1] - flat).sum())
    assert (np.diff(errors) < 0).all()


def test_estimated_distances_are_those_of_tables(data):
    blocks = arrange(data.X, deal_columns(data.X.var(axis=0), 4), 4)
    quantizer, codes = train_quantizer(blocks, 8, 4, np.random.default_rng(0))
    decoded = quantizer.decode(codes)
    query = blocks[0]
    for image in range(0, 180, 23):
        expected = 0.0
        for b in range(blocks.shape[1]):
            cell, length = divmod(int(codes[image, b]), 4)
            expected += np.square(query[b] - quantizer.centres[b, cell]).sum()
            expected += quantizer.distortion[b, cell, length]
        found = np.square(np.append(query.ravel(), 0) - decoded[image]).sum()
        assert_allclose(found, expected, rtol=1e-5)


def test_estimates_are_exact_on_average_over_a_cell(data):
    """With centres that are means: ``mean ||q - x||^2 = ||q - centre||^2 + mean residual``."""
    blocks = arrange(data.X, deal_columns(data.X.var(axis=0), 4), 4).astype(float)
    quantizer, codes = train_quantizer(blocks.astype("f4"), 6, 2, np.random.default_rng(0))
    query = np.array([0.3, -0.2, 0.1, 0.4])
    for b in range(blocks.shape[1]):
        cell, length = np.divmod(codes[:, b], 2)
        for k in np.unique(cell):
            rows = np.flatnonzero(cell == k)
            exact = np.square(query - blocks[rows, b]).sum(axis=1).mean()
            estimate = np.square(query - quantizer.centres[b, k]).sum()
            estimate += quantizer.distortion[b, k, length[rows]].mean()
            assert_allclose(estimate, exact, rtol=1e-4)


def test_the_file_has_a_byte_for_each_block(data):
    model = QuantizedKNN(block_columns=4, **OPTIONS).fit(data.X, data.Y)
    assert model.to_state()[1]["codes"].nbytes == 180 * 4
    again = Quantizer(model.centres_, model.distortion_).decode(model.codes_)
    assert_array_equal(again, model._search.X)


def test_bits_without_a_centre_are_refused(data):
    with pytest.raises(ValueError, match="distance_bits=4 of bits=4"):
        QuantizedKNN(bits=4, distance_bits=4).fit(data.X, data.Y)
