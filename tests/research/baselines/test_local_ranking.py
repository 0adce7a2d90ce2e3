"""RPLRF: losses against loops, gradients against differences, cells against fits per image."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from prototag.research.baselines import RPLRF
from prototag.research.baselines.local_ranking import (
    Problem,
    Weights,
    correlation_laplacian,
    similarity_laplacian,
)
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=60, t=6, k=10, m=8, random_state=0)


def make(data, *, hinge=True, rank=3, similarity=0.1, correlation=0.1, decay=1e-3, rounds=3):
    weights = Weights(rank, hinge, similarity, correlation, decay, rounds)
    y = data.Y.toarray().astype(float)
    y[0] = 0  # an image without present tags, and one without absent tags
    y[1] = 1
    return Problem.of(data.X.astype(float), y, correlation_laplacian(data.Y), weights)


def pair_loss(F, y, hinge):
    """The sum over images, present and absent tags, by loops."""
    total = 0.0
    for f, tags in zip(F, y, strict=True):
        present, absent = np.flatnonzero(tags), np.flatnonzero(tags == 0)
        for p in present:
            for q in absent:
                gap = 1 - f[p] + f[q]
                total += (max(gap, 0) if hinge else gap) ** 2 / (len(present) * len(absent))
    return total


@pytest.mark.parametrize("hinge", [True, False])
def test_the_ranking_loss_is_that_of_pairs(data, hinge):
    problem = make(data, hinge=hinge)
    F = np.random.default_rng(0).standard_normal((60, 6))
    assert_allclose(problem.ranking(F)[0], pair_loss(F, problem.y, hinge), rtol=1e-10)


@pytest.mark.parametrize("hinge", [True, False])
def test_gradients_are_those_of_differences(data, hinge):
    problem = make(data, hinge=hinge)
    rng = np.random.default_rng(0)
    U = rng.standard_normal((9, 3)) / 3
    V = rng.standard_normal((3, 6))
    _, for_U, for_V = problem.value(U, V)
    for gradient, part, at in ((for_U, U, 0), (for_V, V, 1)):
        for place in np.ndindex(part.shape):
            values = []
            for step in (1e-6, -1e-6):
                moved = [U.copy(), V.copy()]
                moved[at][place] += step
                values.append(problem.value(*moved)[0])
            slope = (values[0] - values[1]) / 2e-6
            assert_allclose(gradient[place], slope, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("hinge", [True, False])
def test_rounds_lower_the_objective(data, hinge):
    values = []
    for rounds in range(5):
        problem = make(data, hinge=hinge, rounds=rounds)
        values.append(problem.value(*problem.minimise())[0])
    assert (np.diff(values) <= 1e-10).all()
    assert values[-1] < 0.9 * values[0]


def test_a_constant_for_all_tags_of_an_image_does_not_matter(data):
    problem = make(data)
    F = np.random.default_rng(0).standard_normal((60, 6))
    shifted = F + np.linspace(-2, 2, 60)[:, None]
    assert_allclose(problem.ranking(shifted)[0], problem.ranking(F)[0])
    assert_allclose(problem.ranking(F)[1].sum(axis=1), 0, atol=1e-12)


def test_laplacians_are_smoothness(data):
    z = data.X.astype(float)
    L = similarity_laplacian(z)
    distance = np.square(z[:, None] - z).sum(axis=2)
    S = np.exp(-distance / distance.mean()) / 60
    f = np.random.default_rng(0).standard_normal(60)
    assert_allclose(f @ L @ f, (S * np.square(f[:, None] - f)).sum() / 2, rtol=1e-6)
    T = correlation_laplacian(data.Y)
    assert_allclose(T.sum(axis=1), 0, atol=1e-10)
    assert np.linalg.eigvalsh(T).min() > -1e-10
    assert_allclose(np.diagonal(T).mean(), 1)


def test_the_start_is_the_ridge_regression_of_full_rank(data):
    problem = make(data, rank=8)
    U, V = problem.start()
    W = np.linalg.solve(problem.Z.T @ problem.Z + 6 * np.eye(9), problem.Z.T @ problem.y)
    assert_allclose(U @ V, W, atol=1e-8)


def test_a_cell_of_all_images_is_the_set_of_every_image(data):
    options = {"n_local": 60, "rank": 3, "decay": 1e-3, "threshold": 0.5}
    cells = RPLRF(n_cells=1, **options).fit(data.X, data.Y)
    image = RPLRF(scope="image", **options).fit(data.X, data.Y)
    new = planted(n=10, t=6, k=10, m=8, random_state=1).X
    assert_allclose(cells.decision_function(new), image.decision_function(new), atol=2e-2)
    assert_allclose(cells.decision_function(new).mean(axis=1), 0, atol=1e-5)


def test_more_columns_than_images_are_fitted_in_their_row_space(data):
    wide = np.hstack([data.X, np.zeros((60, 80), "f4")])
    options = {"n_local": 30, "n_cells": 2, "rank": 3, "decay": 1e-3, "threshold": 0.5}
    narrow_scores = RPLRF(**options).fit(data.X, data.Y).decision_function(data.X)
    wide_scores = RPLRF(**options).fit(wide, data.Y).decision_function(wide)
    assert_allclose(wide_scores, narrow_scores, atol=2e-2)
