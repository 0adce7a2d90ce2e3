"""Pursuit of many images at once, judged by scikit-learn's; K-SVD's atoms, by the SVD."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import orthogonal_mp

from prototag.research.baselines import omp


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return unit(rng.standard_normal((70, 12))), unit(rng.standard_normal((30, 12)))


@pytest.mark.parametrize("nonzeros", [1, 4, 9])
def test_codes_are_those_of_scikit_learn(data, nonzeros):
    X, atoms = data
    codes = omp.encode(X, atoms, nonzeros).toarray()
    expected = orthogonal_mp(atoms.T.astype(float), X.T.astype(float), n_nonzero_coefs=nonzeros)
    assert_allclose(codes, expected.T, atol=1e-4)


def test_blocks_and_threads_change_nothing(data, monkeypatch):
    X, atoms = data
    whole = omp.encode(X, atoms, 5).toarray()
    monkeypatch.setattr(omp, "BATCH_IMAGES", 16)
    parts = omp.encode(X, atoms, 5).toarray()
    assert_allclose(parts, whole, atol=1e-5)
    assert_array_equal(omp.encode(X, atoms, 5, n_jobs=2).toarray(), parts)


def test_an_image_that_is_fitted_takes_no_more():
    atoms = np.eye(4, dtype=np.float32)[[0, 0, 1, 2]]  # twins
    X = np.array([[2, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [1, -1, 0, 0]], np.float32)
    codes = omp.encode(X, atoms, 4)
    assert np.diff(codes.indptr).tolist() == [1, 0, 0, 2]
    assert_allclose(codes.toarray()[[0, 3]], [[2, 0, 0, 0], [1, 0, -1, 0]], atol=1e-5)


def test_atoms_are_the_first_singular_pair_of_what_others_leave(data):
    X, atoms = data
    codes = omp.encode(X, atoms, 3)
    found, new = omp.sweep(X, atoms, codes, iterations=400)
    D, A = atoms.astype(float), codes.toarray().astype(float)
    for j in range(len(D)):
        rows = np.flatnonzero(codes.toarray()[:, j])
        left = X[rows] - A[rows] @ D + np.outer(A[rows, j], D[j])
        U, s, Vt = np.linalg.svd(left, full_matrices=False)
        sign = np.sign(Vt[0] @ found[j])
        D[j], A[rows, j] = sign * Vt[0], sign * s[0] * U[:, 0]
    error = np.square(X - new.toarray() @ found).sum()
    assert error == pytest.approx(np.square(X - A @ D).sum(), rel=1e-3)
    assert_allclose(found, D, atol=0.02)


def test_the_error_never_rises(data):
    X, atoms = data
    codes = omp.encode(X, atoms, 3)
    errors = [np.square(X - codes @ atoms).sum()]
    for _ in range(6):  # the support stays, so nothing but the sweep acts
        atoms, codes = omp.sweep(X, atoms, codes)
        errors.append(np.square(X - codes @ atoms).sum())
        assert_allclose(np.linalg.norm(atoms, axis=1), 1, atol=1e-5)
    assert (np.diff(errors) <= 1e-5).all()
    assert errors[-1] < 0.9 * errors[0]


def test_an_unused_atom_becomes_the_image_that_is_fitted_worst(data):
    X, atoms = data
    atoms = np.vstack([atoms[:2], np.zeros((1, 12), np.float32)])
    codes = omp.encode(X, atoms, 1)
    found, new = omp.sweep(X, atoms, codes)
    left = X - new @ np.vstack([found[:2], atoms[2:]])
    assert_allclose(found[2], X[np.square(left).sum(axis=1).argmax()], atol=1e-6)
