"""K-SVD with tags: label consistency written out in full gives the same dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from prototag.research.baselines import DKSVD, LCKSVD
from prototag.research.baselines.dictionary_base import classifier, tag_atoms
from prototag.research.baselines.omp import encode, sweep
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=120, t=5, k=12, m=10, random_state=3)


def in_full(X, Y, D, owner, alpha, beta, nonzeros, rounds):
    """K-SVD on [x, sqrt(alpha) q, sqrt(beta) y] with one column of q for each atom."""
    Q = Y[:, owner]
    stacked = np.hstack([X, np.sqrt(alpha) * Q, np.sqrt(beta) * Y]).astype(np.float32)
    codes = encode(X, D, nonzeros)
    G = classifier(codes, sparse.csr_array(Q))
    W = classifier(codes, sparse.csr_array(Y))
    atoms = np.hstack([D, np.sqrt(alpha) * G, np.sqrt(beta) * W])
    atoms = (atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).astype(np.float32)
    for _ in range(rounds):
        codes = encode(stacked, atoms, nonzeros)
        atoms, codes = sweep(stacked, atoms, codes)
    m = X.shape[1]
    length = np.linalg.norm(atoms[:, :m], axis=1, keepdims=True)
    return atoms[:, :m] / length, atoms[:, -Y.shape[1] :] / np.sqrt(beta) / length


def test_label_consistency_is_a_weight_of_tags(data):
    """Also where tags have different numbers of atoms."""
    X, Y = data.X, data.Y
    share = np.array([6, 3, 2, 2, 1])
    owner = np.repeat(np.arange(5), share)
    D = tag_atoms(X, Y, share, np.random.default_rng(0))
    model = LCKSVD(max_nonzeros=3, max_iter=2)
    found = model._alternate(X, Y, D, 0.2 * share + 0.3)
    atoms, semantics = in_full(X, Y.toarray(), D, owner, 0.2, 0.3, 3, 2)
    assert_allclose(found.atoms, atoms, atol=1e-3)
    assert_allclose(found.semantics, semantics, atol=5e-3)


def test_scores_are_codes_times_semantics(data):
    model = DKSVD(20, weight=0.1, max_iter=2, max_nonzeros=3, n_folds=2).fit(data.X, data.Y)
    assert_allclose(np.linalg.norm(model.atoms_, axis=1), 1, atol=1e-5)
    scores = encode(data.X, model.atoms_, 3) @ model.semantics_
    assert_allclose(model.decision_function(data.X), scores, atol=1e-5)
    assert model.setting_ == {"weight": 0.1}


def test_rounds_lower_what_is_minimised(data):
    """Stacked error with codes of the stacked vectors, for D-KSVD from its start on."""
    X, Y = data.X, data.Y.toarray()
    root = np.sqrt(0.3)

    def error(rounds):
        model = DKSVD(15, weight=0.3 * Y.sum() / 120, max_iter=rounds, max_nonzeros=3)
        D, W = model._fit_models(X, data.Y, model._settings(), 0)[0]
        atoms = np.hstack([D, root * W])
        length = np.linalg.norm(atoms, axis=1, keepdims=True)
        stacked = np.hstack([X, root * Y]).astype(np.float32)
        atoms = (atoms / length).astype(np.float32)
        return np.square(stacked - encode(stacked, atoms, 3) @ atoms).sum()

    assert error(8) < error(1)
