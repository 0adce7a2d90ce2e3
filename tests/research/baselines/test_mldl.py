"""MLDL: the comparison of tag sets, identities of the objective, and steps that never raise it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import Lasso

from prototag.research.baselines import MLDL, mldl
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=90, t=7, k=12, m=8, random_state=6)


@pytest.fixture(scope="module")
def problem(data):
    Q = mldl.tag_set_similarity(data.Y, data.Y[:10], identical=False)
    return mldl.Problem(data.X, Q, 0.5, 0.05, 0.02)


@pytest.fixture(scope="module")
def factors(data, problem):
    P = mldl.leading_axes(data.X, 5)
    D = mldl.updates.to_ball((data.X @ P)[:10])
    return problem.start(P, D)


@pytest.mark.parametrize("identical", [False, True])
def test_tag_sets_are_compared_pair_by_pair(data, identical):
    Y = data.Y.toarray()
    Y[4] = Y[5] = 0
    found = mldl.tag_set_similarity(
        sparse.csr_array(Y), sparse.csr_array(Y[:9]), identical=identical
    )
    for i in range(90):
        for k in range(9):
            both, either = (Y[i] * Y[k]).sum(), np.maximum(Y[i], Y[k]).sum()
            jaccard = both / either if either else 1
            assert found[i, k] == np.float32(jaccard == 1 if identical else jaccard)


def test_with_one_tag_an_image_both_readings_agree():
    Y = sparse.csr_array(np.eye(4, dtype=np.float32)[np.arange(20) % 4])
    pair = [mldl.tag_set_similarity(Y, Y[:6], identical=flag) for flag in (False, True)]
    assert_allclose(*pair)


def test_every_tag_is_covered_by_the_images_that_start_atoms(data):
    for count in (20, 60):
        rows = mldl.covering_images(data.Y, count, np.random.default_rng(0))
        assert len(rows) == len(np.unique(rows)) == count
        assert data.Y[rows].toarray().any(axis=0).all()
    assert len(mldl.covering_images(data.Y, 2, np.random.default_rng(0))) == 2


def test_reconstruction_and_projection_are_one_term(data, problem, factors):
    """||X P - A D||^2 + ||X - X P P'||^2 = ||X - A D P'||^2."""
    P, D, W, A = factors
    total = np.square(data.X - A @ D @ P.T).sum()
    total += 0.5 * np.square(problem.Q - A @ W).sum() + 0.05 * np.abs(A.data).sum()
    total += 0.02 * np.square(W).sum()
    assert problem.objective(factors) == pytest.approx(total, rel=1e-4)


def test_no_step_raises_the_objective(problem, factors):
    value = problem.objective(factors)
    rng = np.random.default_rng(0)
    for _ in range(6):
        after = problem.alternate(factors, rng)
        for step in (
            factors._replace(A=after.A),
            factors._replace(A=after.A, D=after.D),
            factors._replace(A=after.A, D=after.D, W=after.W),
            after,
        ):
            new = problem.objective(step)
            assert new <= value + 1e-4
            value = new
        factors = after
    assert_allclose(factors.P.T @ factors.P, np.eye(5), atol=1e-5)


def test_the_projection_beats_random_ones(problem, factors):
    best = problem.objective(factors._replace(P=problem.update_projection(factors.A, factors.D)))
    for seed in range(20):
        random = np.linalg.qr(np.random.default_rng(seed).standard_normal((8, 5)))[0]
        other = problem.objective(factors._replace(P=random.astype(np.float32)))
        assert best <= other + 1e-4


def test_codes_are_the_lasso_of_the_stacked_vectors(data, problem, factors):
    for _ in range(10):
        factors = factors._replace(A=problem.update_codes(factors))
    root = np.sqrt(0.5)
    stacked = np.hstack([data.X @ factors.P, root * problem.Q]).astype(float)
    atoms = np.hstack([factors.D, root * factors.W]).astype(float)
    judge = Lasso(0.025 / 15, fit_intercept=False, tol=1e-7, max_iter=100_000)
    for i in (0, 40, 89):
        judge.fit(atoms.T, stacked[i])
        assert_allclose(factors.A.toarray()[i], judge.coef_, atol=1e-2)


def test_the_map_of_codes_is_a_ridge_regression(problem, factors):
    A = factors.A.toarray().astype(float)
    rows = np.vstack([A, np.sqrt(0.02 / 0.5) * np.eye(10)])
    expected = np.linalg.lstsq(rows, np.vstack([problem.Q, np.zeros((10, 10))]), rcond=None)[0]
    assert_allclose(factors.W, expected, atol=1e-3)


@pytest.mark.parametrize("partners", ["partial", "identical"])
def test_scores_come_from_codes_in_the_subspace(data, partners):
    model = MLDL(30, n_components=5, weight=1.0, partners=partners, n_folds=2, max_iter=2)
    model.fit(data.X, data.Y)
    codes = model._encode(data.X @ model.projection_, model.atoms_)
    assert_allclose(model.decision_function(data.X), codes @ model.semantics_, atol=1e-3)
    assert_allclose(model.projection_.T @ model.projection_, np.eye(5), atol=1e-3)
    assert model.setting_ == {"weight": 1.0}
