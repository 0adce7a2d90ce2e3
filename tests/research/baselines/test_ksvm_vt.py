"""KSVM-VT: cues against counts by hand, and machines that scikit-learn finds too."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.svm import LinearSVC

from prototag.evaluation import metrics
from prototag.research.baselines import KSVMVT, dual_svm, ksvm_vt
from prototag.research.datasets import planted

FAST = {"n_landmarks": 200, "n_folds": 2}


@pytest.fixture(scope="module")
def data():
    return planted(n=90, t=6, k=12, m=8, missing=0.2, random_state=2)


def odd_tags(data):
    Y = data.Y.toarray()
    Y[:7] = 0  # images without tags
    return np.hstack([Y, np.zeros((90, 1))]).astype(np.float32)  # a tag without images


def test_the_cue_of_tags_is_the_largest_conditional_probability(data):
    Y = odd_tags(data)
    found = ksvm_vt.tag_cue(sparse.csr_array(Y))
    for i in range(90):
        for c in range(7):
            depends = [Y[Y[:, b] == 1, c].mean() for b in np.flatnonzero(Y[i])]
            assert found[i, c] == pytest.approx(0 if Y[i, c] else max([0, *depends]), abs=1e-6)


def test_the_visual_cue_ranks_images_by_their_nearest_positives(data, monkeypatch):
    monkeypatch.setattr(ksvm_vt, "MAX_POSITIVES", 90)  # no sample
    Y = odd_tags(data)
    found = ksvm_vt.visual_cue(data.X, sparse.csr_array(Y), np.random.default_rng(0))
    X = data.X.astype(float)
    for c in range(7):
        positive, negative = np.flatnonzero(Y[:, c]), np.flatnonzero(Y[:, c] == 0)
        assert not found[positive, c].any()
        if not len(positive):
            assert not found[:, c].any()
            continue
        far = np.square(X[negative][:, None] - X[positive]).sum(axis=2)
        order = np.argsort(np.sort(far, axis=1)[:, :5].mean(axis=1))
        expected = 1 - np.arange(len(negative)) / (len(negative) - 1)
        assert_allclose(found[negative[order], c], expected, atol=1e-5)


@pytest.mark.parametrize("cue", ["max", "product", "visual", "tags"])
def test_cues_are_combined(data, cue):
    model = KSVMVT(cue=cue)
    found = model._cues(data.X, data.Y, np.random.default_rng(0))
    visual = ksvm_vt.visual_cue(data.X, data.Y, np.random.default_rng(0))
    tags = ksvm_vt.tag_cue(data.Y)
    expected = {
        "max": np.maximum(visual, tags), "product": visual * tags, "visual": visual, "tags": tags,
    }  # fmt: skip
    assert_array_equal(found, expected[cue])


@pytest.mark.parametrize("tolerance", [0.0, 0.6])
def test_the_kernel_machine_is_that_of_scikit_learn(data, tolerance, monkeypatch):
    """With all images as landmarks it is exact: dual variables of the kernel, plus one."""
    monkeypatch.setattr(dual_svm.solve, "__kwdefaults__", {
        **dual_svm.solve.__kwdefaults__, "epochs": 20_000, "tol": 1e-4,
    })  # fmt: skip
    model = KSVMVT(cost=2.0, tolerance=tolerance, **FAST).fit(data.X, data.Y)
    X = data.X.astype(float)
    K = np.exp(-model.width_ * np.square(X[:, None] - X).sum(axis=2)) + 1
    values, vectors = np.linalg.eigh(K)
    features = vectors * np.sqrt(np.maximum(values, 0))
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    cues = model._cues(data.X, data.Y, np.random.default_rng([seed, 1]))
    scores = model.decision_function(data.X)
    for tag in range(6):
        judge = LinearSVC(loss="hinge", C=2, fit_intercept=False, tol=1e-8, max_iter=1_000_000)
        present = data.Y.toarray()[:, tag] > 0
        judge.fit(features, present, sample_weight=1 - tolerance * cues[:, tag])
        assert_allclose(scores[:, tag], judge.decision_function(features), atol=1e-2)


def test_without_tolerance_readings_and_cues_agree(data):
    first, *others = (
        KSVMVT(cost=2.0, tolerance=0.0, reading=reading, cue=cue, **FAST).fit(data.X, data.Y)
        for reading, cue in [("weight", "max"), ("margin", "tags"), ("weight", "visual")]
    )
    for other in others:
        assert_array_equal(other.dual_, first.dual_)


def test_a_margin_of_zero_costs_only_above_zero(data):
    """With tau = 1 a negative is paid for where its score is positive."""
    Y = sparse.csr_array(np.ones((90, 1), np.float32))
    model = KSVMVT(cost=2.0, tolerance=1.0, reading="margin", **FAST).fit(data.X, Y)
    assert np.isfinite(model.decision_function(data.X)).all()
    weight = KSVMVT(cost=2.0, tolerance=1.0, **FAST).fit(data.X, data.Y)
    margin = KSVMVT(cost=2.0, tolerance=1.0, reading="margin", **FAST).fit(data.X, data.Y)
    absent = data.Y.toarray() == 0
    plain = KSVMVT(cost=2.0, tolerance=0.0, **FAST).fit(data.X, data.Y)
    least = plain.decision_function(data.X)[absent].mean()
    assert margin.decision_function(data.X)[absent].mean() > least
    assert weight.decision_function(data.X)[absent].mean() > least


def test_tolerance_finds_missing_labels():
    """Of the absent tags those that were right and left out rank higher with tolerance."""
    data = planted(n=400, t=20, k=30, m=40, missing=0.4, random_state=0)
    absent = data.Y.toarray() == 0
    right = data.Y_true.toarray() > 0
    rank = {}
    for tolerance in (0.0, 1.0):
        model = KSVMVT(cost=2.0, tolerance=tolerance, **FAST).fit(data.X, data.Y)
        scores = np.where(absent, model.decision_function(data.X), -1e3)
        rank[tolerance] = metrics.mean_average_precision(right & absent, scores)
    assert rank[1.0] > rank[0.0] + 0.05
