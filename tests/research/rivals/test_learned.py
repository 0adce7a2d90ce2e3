"""What holds for every rival that learns a model: linear, kernel and dictionary annotators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from prototag.evaluation import metrics, thresholds
from prototag.research import rivals
from prototag.research.datasets import planted

# As users have them, but for fewer rounds.
RIVALS = {
    "Ridge": {},
    "Logistic": {},
    "SVM": {},
    "KernelRidge": {},
    "DKSVD": {"max_iter": 2},
    "LCKSVD": {"max_iter": 2},
    "MLDL": {"max_iter": 2},
    "SLED": {"max_iter": 2},
    "UDL": {"init_iter": 2},
    "CDL": {"init_iter": 2, "max_iter": 2},
}
# One setting each, where the choice of settings is not the question.
FIXED = {
    "Ridge": {"strength": 0.02},
    "Logistic": {"strength": 0.1, "n_folds": 2},
    "SVM": {"strength": 1.0, "tolerance": 0.5, "n_folds": 2},
    "KernelRidge": {"gamma": 1.0, "strength": 0.3},
    "DKSVD": {"weight": 0.03, "max_iter": 1, "n_folds": 2},
    "LCKSVD": {"consistency": 0.03, "max_iter": 1, "n_folds": 2},
    "MLDL": {"weight": 0.1, "max_iter": 1, "n_folds": 2},
    "SLED": {"relevance": 0.3, "max_iter": 1, "n_folds": 2},
    "UDL": {"init_iter": 1, "n_folds": 2},
    "CDL": {"init_iter": 1, "max_iter": 1, "eta": 0.5, "n_folds": 2},
}
every = pytest.mark.parametrize("name", RIVALS)


def make(name, **options):
    return getattr(rivals, name)(**{**FIXED[name], **options})


# One check takes it for granted that tags are given where decision_function is above zero, which is
# what this threshold says; so none is exempted. The threshold that is chosen has tests of its own.
@parametrize_with_checks([make(name, threshold=0.0) for name in FIXED])
def test_scikit_learn_rules(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return planted(n=100, t=8, k=16, m=12, random_state=0)


def test_every_name_is_there():
    assert set(RIVALS) == set(FIXED) <= set(rivals.__all__)
    assert dir(rivals) == sorted(rivals.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        rivals.Nonsense  # noqa: B018


@every
def test_planted_tags_are_recovered(name):
    """Ranks and tags of new images against chance, which ranks a tag by its frequency alone.

    Margins: 0.4 of mean average precision, 0.2 of F1 (over the best that constant scores reach).
    """
    data = planted(n=500, t=10, k=25, m=16, noise=0.4, random_state=5)
    train, test = slice(0, 350), slice(350, None)
    model = getattr(rivals, name)(**RIVALS[name]).fit(data.X[train], data.Y[train])
    found = metrics.report(data.Y[test], model.decision_function(data.X[test]), model.threshold_)
    frequency = np.asarray(data.Y[train].mean(axis=0)).ravel()
    chance = np.tile(frequency, (150, 1))
    assert found["mean_average_precision"] > 0.4 + metrics.mean_average_precision(
        data.Y[test], chance
    )
    assert found["threshold_f1"] > 0.2 + thresholds.best_global_threshold(data.Y[test], chance)[1]
    promised = metrics.f1_of_means(data.Y[train], model.out_of_fold_scores_ > model.threshold_)
    assert abs(promised - found["threshold_f1"]) < 0.1


@every
def test_own_tags_do_not_reach_own_scores(name, data):
    """With all its tags turned over, an image's left-out scores stay; those of others do not."""
    before = make(name).fit(data.X, data.Y)
    Y = data.Y.toarray()
    Y[3] = 1 - Y[3]
    after = make(name).fit(data.X, Y)
    change = np.abs(after.out_of_fold_scores_ - before.out_of_fold_scores_).max(axis=1)
    assert change[3] < 1e-4
    assert change.max() > 1e-3


@every
def test_thresholds_come_from_left_out_scores(name, data):
    model = make(name).fit(data.X, data.Y)
    scores = model.out_of_fold_scores_
    assert scores.shape == (100, 8)
    assert model.threshold_ == thresholds.best_global_threshold(data.Y, scores)[0]
    each = make(name, threshold="per_tag").fit(data.X, data.Y)
    assert_array_equal(each.threshold_, thresholds.best_tag_thresholds(data.Y, scores, shrink=50.0))
    given = make(name, threshold=0.4).fit(data.X, data.Y)
    assert given.threshold_ == 0.4
    assert_array_equal(given.predict(data.X).toarray(), given.decision_function(data.X) > 0.4)


@every
def test_same_bits_again_and_with_threads(name, data):
    model = make(name).fit(data.X, data.Y)
    again = clone(model).set_params(n_jobs=2).fit(data.X, data.Y)
    assert_array_equal(again.decision_function(data.X), model.decision_function(data.X))
    assert_array_equal(again.out_of_fold_scores_, model.out_of_fold_scores_)


@every
def test_float32_agrees_with_float64_and_scale_does_not_matter(name, data):
    scores = make(name).fit(data.X, data.Y).decision_function(data.X)
    X = data.X.astype(np.float64) * 2.0**10
    assert_allclose(make(name).fit(X, data.Y).decision_function(X), scores, atol=2e-3)


@every
def test_names_of_tags_and_labels(name, data):
    frame = pd.DataFrame(data.Y.toarray(), columns=[f"tag {c}" for c in range(8)])
    model = make(name).fit(data.X, frame)
    assert model.classes_.tolist() == list(frame.columns)
    labels = np.array(["sea", "sky", "tree"])[data.Y[:, :3].toarray().argmax(axis=1)]
    assert set(make(name).fit(data.X, labels).predict(data.X)) <= set(labels)


TAGS = {
    "a tag without images": lambda Y: np.hstack([Y, np.zeros((100, 1))]),
    "no tags at all": np.zeros_like,
    "every tag everywhere": np.ones_like,
    "one tag": lambda Y: Y[:, :1],
    "a tag on one image": lambda Y: np.hstack([Y, np.eye(100)[:, :1]]),
}


@every
@pytest.mark.parametrize("case", TAGS)
def test_odd_tags(name, case, data):
    Y = TAGS[case](data.Y.toarray())
    model = make(name).fit(data.X, Y)
    assert np.isfinite(model.out_of_fold_scores_).all()
    assert np.isfinite(model.decision_function(data.X)).all()
    assert model.predict(data.X).shape == Y.shape


@every
def test_odd_images(name, data):
    Y = data.Y.toarray()
    for X in (np.tile(data.X[:5], (20, 1)), np.vstack([np.zeros((40, 12)), data.X[40:]])):
        model = make(name).fit(X, Y)
        assert np.isfinite(model.decision_function(np.zeros((2, 12)))).all()
        assert np.isfinite(model.decision_function(X)).all()
    for n in (2, 3):
        few = make(name).fit(data.X[:n], Y[:n])
        assert few.predict(data.X).shape == (100, 8)


BAD = {
    "one image": (lambda X, Y: (X[:1], Y[:1]), "n_samples=1"),
    "tags of other images": (lambda X, Y: (X[:9], Y[:8]), "X has 9 images and Y has tags for 8"),
    "a two": (lambda X, Y: (X, 2 * Y), "Y holds .*tags must be 0 .absent. or 1"),
    "a NaN": (lambda X, Y: (np.where(X[0, 0] == X, np.nan, X), Y), "contains NaN"),
    "no tags given": (lambda X, Y: (X, None), "requires y to be passed"),  # noqa: ARG005
}


@every
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(name, case, data):
    change, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        make(name).fit(*change(data.X, data.Y.toarray()))


@every
def test_bad_parameters_and_use_are_refused(name, data):
    for options in ({"threshold": "best"}, {"threshold": np.nan}, {"n_jobs": "two"}):
        key = next(iter(options))
        with pytest.raises(ValueError, match=f"'{key}' parameter of {name} must be"):
            make(name, **options).fit(data.X, data.Y)
    setting = next(iter(FIXED[name]))
    with pytest.raises(ValueError, match=f"'{setting}' parameter of {name} must be"):
        make(name, **{setting: -1}).fit(data.X, data.Y)
    with pytest.raises(NotFittedError):
        make(name).predict(data.X)
    model = make(name).fit(data.X, sparse.csr_array(data.Y))
    with pytest.raises(ValueError, match="X has 5 features"):
        model.predict(data.X[:, :5])
