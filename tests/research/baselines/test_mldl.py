"""MLDL: partners, codes and semantics, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from prototag.coding.coder import Coder
from prototag.research.baselines import MLDL, mldl
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=90, t=7, k=12, m=8, random_state=6)


def test_partners_share_most_tags_and_look_alike(data):
    Y = data.Y.toarray()
    Y[4] = 0  # shares tags with nobody
    found = mldl.find_partners(data.X, sparse.csr_array(Y), 5).toarray()
    assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    assert found[4, 4] == 1
    for i in np.delete(np.arange(90), 4):
        both, either = (Y * Y[i]).sum(axis=1), np.maximum(Y, Y[i]).sum(axis=1)
        shared = both / either
        shared[i] = 0
        order = np.lexsort([-(data.X @ data.X[i]), -shared])[:5]
        order = order[shared[order] > 0]
        assert set(np.flatnonzero(found[i])) == set(order)
        assert_allclose(found[i, order], shared[order] / shared[order].sum(), atol=1e-5)


def test_codes_lower_their_cost_and_meet_the_budget(data):
    D, Y = data.X[:30], data.Y
    A = Coder(D, max_nonzeros=6).encode(data.X).codes
    G = mldl.classifier(A, Y)
    target = mldl.embed_tags(Y, A @ G, 0.5)
    coder = Coder(D, G, max_nonzeros=6)
    new = mldl.update_codes(coder, data.X, target, A, 0.2, None)

    def cost(codes):
        visual, tags = data.X - codes @ D, target - codes @ G
        return np.square(visual).sum(axis=1) + 0.2 * np.square(tags).sum(axis=1)

    assert (cost(new) <= cost(A) + 1e-6).all()
    assert cost(new).mean() < 0.98 * cost(A).mean()
    assert new.data.min() >= 0
    assert new.sum(axis=1).max() <= 1 + 1e-5
    assert np.diff(new.indptr).max() <= 6


def test_the_embedding_is_what_both_terms_pull_to(data):
    """||y - s||^2 + g ||p - s||^2 is least at the embedded tags."""
    Y, rng = data.Y.toarray(), np.random.default_rng(0)
    p, g = rng.standard_normal(Y.shape), 0.7

    def both(s):
        return np.square(Y - s).sum() + g * np.square(p - s).sum()

    found = mldl.embed_tags(data.Y, p.astype(np.float32), g)
    for _ in range(20):
        assert both(found) < both(found + 0.01 * rng.standard_normal(Y.shape))


def test_semantics_are_least_squares(data):
    A = Coder(data.X[:12]).encode(data.X).codes
    S = mldl.find_partners(data.X, data.Y, 4)
    a, apart = A.toarray().astype(float), (A - S @ A).toarray().astype(float)
    rows = np.vstack([a, np.sqrt(0.6) * apart, np.sqrt(mldl.SEMANTIC_RIDGE) * np.eye(12)])
    goal = np.vstack([data.Y.toarray(), np.zeros((90 + 12, 7))])
    expected = np.linalg.lstsq(rows, goal, rcond=None)[0]
    assert_allclose(mldl.fit_semantics(A, data.Y, S, 0.6), expected, atol=1e-4)


def test_agreement_brings_scores_of_partners_together(data):
    S = mldl.find_partners(data.X, data.Y, 10)
    apart = []
    for agreement in (0.0, 3.0):
        model = MLDL(30, weight=0.3, agreement=agreement, n_folds=2).fit(data.X, data.Y)
        scores = model.decision_function(data.X)
        apart.append(np.square(scores - S @ scores).sum() / np.square(scores).sum())
    assert apart[1] < 0.95 * apart[0]
