"""Mvg-NMF: factors that never raise the objective, judged by scikit-learn and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import subspace_angles
from scipy.optimize import nnls
from sklearn.decomposition import NMF

from prototag.research.baselines import MvgNMF, TwoPassKNN, mvg_nmf
from prototag.research.datasets import planted

VIEW = np.repeat([0, 1], [6, 8])


@pytest.fixture(scope="module")
def planted_views():
    """Two views with two common and, each, one individual non-negative factor."""
    rng = np.random.default_rng(0)
    H, S = rng.gamma(0.2, size=(120, 2)), rng.gamma(0.5, size=(120, 2))
    B = rng.gamma(0.2, size=(2, 14)).astype(np.float32)
    C = rng.gamma(0.2, size=(2, 14)) * (np.array([[0], [1]]) == VIEW)
    return (H @ B + S @ C).astype(np.float32), B, C.astype(np.float32)


@pytest.fixture(scope="module")
def data():
    return planted(n=90, t=6, k=12, m=8, random_state=2)


def blocks(common, individual):
    everywhere = np.ones(14, bool)
    return [(everywhere, common), (VIEW == 0, individual), (VIEW == 1, individual)]


def test_the_objective_falls_and_factors_stay_non_negative(planted_views):
    X, _, _ = planted_views
    A, F, space, mask = mvg_nmf.start(X, blocks(3, 2), np.random.default_rng(0))
    assert space.tolist() == [0, 0, 0, 1, 1, 2, 2]
    first = np.square(X - A @ (F * mask)).sum()
    A, F, history = mvg_nmf.factorise(X, A, F, mask, 60, tol=0.0)
    assert history[0] < first
    assert (np.diff(history) <= 1e-5 * history[0]).all()
    assert history[-1] == pytest.approx(np.square(X - A @ F).sum(), rel=1e-2, abs=1e-3)
    assert A.min() >= 0
    assert F.min() >= 0
    assert not F[~mask].any()


def test_common_and_individual_factors_are_found(planted_views):
    X, B, C = planted_views
    A, F, _, mask = mvg_nmf.start(X, blocks(2, 1), np.random.default_rng(0))
    _, F, history = mvg_nmf.factorise(X, A, F, mask, 3000, tol=0.0)
    assert history[-1] < 0.02 * np.square(X).sum()
    assert np.cos(subspace_angles(F.T, np.vstack([B, C]).T)).min() > 0.9


def test_one_view_without_individual_factors_is_nmf(planted_views):
    X, _, _ = planted_views
    A, F, _, mask = mvg_nmf.start(X, [(np.ones(14, bool), 3)], np.random.default_rng(0))
    found = mvg_nmf.factorise(X, A, F, mask, 2000, tol=0.0)[2][-1]
    judge = NMF(3, init="nndsvd", max_iter=5000, tol=1e-5).fit(X.astype(float))
    assert found <= 1.02 * judge.reconstruction_err_**2


def test_codes_are_nonnegative_least_squares(data):
    model = MvgNMF(n_common=6, n_individual=1, n_per_tag=2, sharpness=8.0).fit(data.X, data.Y)
    assert model.basis_.shape[1] == 16  # positive and negative parts
    codes = model._codes(data.X[:10])
    x = mvg_nmf.nonnegative(data.X[:10], 2) * model.column_scale_
    for row, code in zip(x, codes, strict=True):
        _, best = nnls(model.basis_.T.astype(float), row.astype(float))
        assert np.linalg.norm(row - code @ model.basis_) <= best * (1 + 1e-3) + 1e-3
    assert_allclose(model.images_[:10], codes * model.scale_, rtol=1e-4, atol=1e-6)
    assert_allclose(model.basis_.sum(axis=1), 1, rtol=1e-4)


def test_with_the_identity_as_basis_it_is_2pknn(data, monkeypatch):
    X = np.abs(data.X)

    def identity(self, X, _rng):
        self.n_iter_ = 1
        m = X.shape[1]
        ones = np.ones(m, np.float32)
        return mvg_nmf.Spaces(np.eye(m, dtype=np.float32), np.zeros(m, np.int32), ones)

    monkeypatch.setattr(MvgNMF, "_learn_spaces", identity)
    found = MvgNMF(n_per_tag=2, sharpness=8.0).fit(X, data.Y)
    expected = TwoPassKNN(2, sharpness=8.0).fit(X, data.Y)
    assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-3)


def test_views_and_families_have_spaces_of_their_own(data):
    groups = [0, 0, 0, 1, 1, 2, 2, 2]
    families = ["a"] * 5 + ["b"] * 3
    options = {"n_per_tag": 2, "sharpness": 8.0, "n_common": 3, "n_individual": 1}
    model = MvgNMF(groups=groups, families=families, **options).fit(np.abs(data.X), data.Y)
    assert model.space_.tolist() == [0, 0, 0, 1, 1, 1, 2, 3, 4]
    used = model.basis_ > 0
    assert not used[:3, 5:].any()  # common factors of the first family
    assert not used[3:6, :5].any()
    assert not used[6, 3:].any()  # individual factors of the first view
    spread = 2 * model.images_.var(axis=0)
    shares = np.bincount(model.space_, weights=spread)
    assert_allclose(shares[shares > 1e-6], 1 / 5, rtol=1e-3)


def test_spaces_that_do_not_differ_get_no_large_factor():
    codes = np.ones((20, 3), np.float32)
    codes[0, 0] += 1e-7
    assert_array_equal(mvg_nmf.space_scale(codes, np.zeros(3, np.intp)) <= 100, True)
