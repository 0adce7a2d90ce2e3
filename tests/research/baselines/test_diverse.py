"""Diverse 2PKNN: gains are differences of log determinants; without similarity it is 2PKNN."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from prototag.research.baselines import DiverseTwoPassKNN, TwoPassKNN
from prototag.research.baselines.diverse import diversify, mean_similarity
from prototag.research.baselines.two_pass_votes import TagCounts
from prototag.research.datasets import planted

OPTIONS = {"n_per_tag": 3, "sharpness": 4.0, "threshold": 0.5}


@pytest.fixture(scope="module")
def data():
    return planted(n=150, t=9, k=14, m=10, mixed=4, random_state=0)


def kernel(quality, Y, redundancy):
    """L, by loops over pairs of tags."""
    t = Y.shape[1]
    S = np.eye(t)
    for b, c in itertools.permutations(range(t), 2):
        norm = np.linalg.norm(Y[:, b]) * np.linalg.norm(Y[:, c])
        S[b, c] = redundancy * (Y[:, b] @ Y[:, c]) / norm if norm else 0.0
    return np.outer(quality, quality) * S


def test_without_similarity_scores_are_those_of_2pknn(data):
    plain = TwoPassKNN(**OPTIONS).fit(data.X, data.Y)
    model = DiverseTwoPassKNN(redundancy=0.0, **OPTIONS).fit(data.X, data.Y)
    new = data.X[:40]
    assert_allclose(model.decision_function(new), plain.decision_function(new), atol=1e-6)
    assert_allclose(model.out_of_fold_scores_, plain.out_of_fold_scores_, atol=1e-6)


@pytest.mark.parametrize("redundancy", [0.3, 0.9])
def test_scores_are_gains_of_log_determinants(data, redundancy):
    Y = data.Y.toarray().astype(float)
    rng = np.random.default_rng(0)
    quality = (0.05 + rng.random((6, 9))).astype("f4")
    scores = diversify(quality, np.zeros((6, 9), "f4"), TagCounts.of(data.Y), redundancy, 4)
    for q, row in zip(quality.astype(float), scores, strict=True):
        L = kernel(q, Y, redundancy)
        chosen = []
        for _ in range(4):  # plain greedy maximisation
            rest = [c for c in range(9) if c not in chosen]
            volume = {c: np.linalg.det(L[np.ix_([*chosen, c], [*chosen, c])]) for c in rest}
            before = np.linalg.det(L[np.ix_(chosen, chosen)]) if chosen else 1.0
            best = max(rest, key=volume.__getitem__)
            assert_allclose(row[best], np.sqrt(volume[best] / before), rtol=1e-4)
            chosen.append(best)
        assert [int(c) for c in np.argsort(-row)[:4]] == chosen
        for c in set(range(9)) - set(chosen):
            gain = np.linalg.det(L[np.ix_([*chosen, c], [*chosen, c])])
            gain /= np.linalg.det(L[np.ix_(chosen, chosen)])
            assert_allclose(row[c], np.sqrt(max(gain, 0)), atol=1e-4)


def test_leave_one_out_scores_use_the_cosines_of_the_other_images(data):
    Y = data.Y.toarray().astype(float)
    plain = TwoPassKNN(**OPTIONS).fit(data.X, data.Y)
    model = DiverseTwoPassKNN(redundancy=0.8, length=9, **OPTIONS).fit(data.X, data.Y)
    for i in range(0, 150, 31):
        L = kernel(plain.out_of_fold_scores_[i].astype(float), np.delete(Y, i, axis=0), 0.8)
        first, second = np.argsort(-model.out_of_fold_scores_[i])[:2]
        pair = np.linalg.det(L[np.ix_([first, second], [first, second])])
        expected = np.sqrt(pair / L[first, first])
        assert_allclose(model.out_of_fold_scores_[i, second], expected, rtol=1e-3)


def test_of_two_identical_tags_only_one_is_selected_early():
    Y = np.zeros((30, 4), int)
    Y[:20, :2] = 1
    Y[10:25, 2] = 1
    Y[5:30:3, 3] = 1
    counts = TagCounts.of(planted_csr(Y))
    quality = np.array([[0.9, 0.9, 0.1, 0.05]], "f4")
    scores = diversify(quality, np.zeros((1, 4), "f4"), counts, 1.0, 4)
    assert set(np.argsort(-scores[0])[:3]) in ({0, 2, 3}, {1, 2, 3})


def planted_csr(Y):
    from scipy import sparse

    return sparse.csr_array(Y.astype("f4"))


def test_selected_tags_become_less_similar(data):
    counts = TagCounts.of(data.Y)
    similarity = []
    for redundancy in (0.0, 0.5, 1.0):
        model = DiverseTwoPassKNN(redundancy=redundancy, length=4, **OPTIONS).fit(data.X, data.Y)
        assigned = model.predict(data.X, count=4).toarray() > 0
        similarity.append(mean_similarity(assigned, counts))
    assert similarity[0] > similarity[1] > similarity[2]
