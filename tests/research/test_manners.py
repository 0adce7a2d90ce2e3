"""Behaviour that every method of the registry shares, ProtoTag's and the baselines.

Each has the small, fixed settings of its entry. What is special to one is in its own test.
"""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

import prototag
from prototag.engine import Threads, batch_slices
from prototag.engine.threads import count_rows, slice_rows
from prototag.errors import ModelFileError
from prototag.evaluation import metrics, thresholds
from prototag.evaluation.leave_one_out import shrunk_loo_scores
from prototag.evaluation.ranking import tag_auc
from prototag.research.datasets import planted
from prototag.research.registry import METHODS, select
from prototag.storage import modelfile

N, M, T = 100, 12, 8
EVERY = [method.name for method in METHODS]
CAREFUL = [method.name for method in METHODS if method.held_out_thresholds]
every = pytest.mark.parametrize("name", EVERY)
careful = pytest.mark.parametrize("name", CAREFUL)
ON_THREADS = Threads.map


@cache
def planted_data():
    return planted(n=N, t=T, k=16, m=M, random_state=0)


@pytest.fixture
def data():
    return planted_data()


def make(name, **options):
    (method,) = select([name])
    return method.build(**{**method.test_options, "threshold": "global", **options})


@cache
def fitted(name):
    """Learned once from the planted images; tests must not change it."""
    return make(name).fit(planted_data().X, planted_data().Y)


# What a class that shares ``fit`` with another can still break by itself.
OWN_RULES = {
    "check_dict_unchanged",
    "check_dont_overwrite_attributes",
    "check_estimator_cloneable",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_get_params_invariance",
    "check_methods_sample_order_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
}
EXEMPTED = {"check_classifier_multioutput"}  # of classes with predict_proba


def rules():
    """The checks of scikit-learn: all of them for one class of each ``fit``, some for the others.

    One check expects that tags are applied where decision_function is above zero, which is true of
    this threshold; the selected threshold has its own tests. Where there is predict_proba, the same
    check expects that tags are applied above a probability of 0.5, which no threshold on scores
    fulfils: only there it is exempted.
    """
    models = {type(model): model for model in (make(name, threshold=0.0) for name in EVERY[::-1])}
    fits = set()
    for cls, model in models.items():
        exempted = EXEMPTED if hasattr(cls, "predict_proba") else set()
        for estimator, check in estimator_checks_generator(model, mark="skip"):
            rule = check.func.__name__
            if rule in exempted:
                continue
            if cls.fit not in fits or rule in OWN_RULES:
                yield pytest.param(estimator, check, id=f"{cls.__name__}-{rule}")
        fits.add(cls.fit)


@pytest.mark.parametrize(("estimator", "check"), list(rules()))
def test_scikit_learn_rules(estimator, check):
    check(estimator)


# -- learning --------------------------------------------------------------------------------------


def choosing(name):
    """As users have it, but for few rounds: choices that fit can make are left to it."""
    (method,) = select([name])
    usual = method.build().get_params()
    rounds = {
        key: value for key, value in method.test_options.items() if usual[key] not in ("auto", None)
    }
    return method.build(**{**rounds, "threshold": "global"})


# A single prototype per tag, or few bits, describe planted tags of several kinds coarsely.
COARSE = {
    "positive means (VLAD's annotator)": 0.05,
    "positive means of VLAD on given vectors": 0.05,
    "supervised hashing kNN": 0.2,
}


@every
def test_planted_tags_are_recovered(name):
    """Ranks and tags of new images against chance, which ranks a tag by its frequency alone.

    Margins: 0.4 of mean average precision, 0.2 of F1 (over the best of constant scores), less for
    coarse methods; and the F1 that left-out training images promised is kept within 0.1.
    """
    slack = COARSE.get(name, 0.0)
    data = planted(n=500, t=10, k=25, m=16, noise=0.4, random_state=5)
    train, test = slice(0, 350), slice(350, None)
    model = choosing(name).fit(data.X[train], data.Y[train])
    found = metrics.report(data.Y[test], model.decision_function(data.X[test]), model.threshold_)
    chance = np.tile(np.asarray(data.Y[train].mean(axis=0)).ravel(), (150, 1))
    ranks = metrics.mean_average_precision(data.Y[test], chance)
    assert found["mean_average_precision"] > 0.4 - slack + ranks
    constant = thresholds.best_global_threshold(data.Y[test], chance)[1]
    assert found["threshold_f1"] > 0.2 - slack + constant
    if name in CAREFUL:
        promised = metrics.f1_of_means(data.Y[train], model.out_of_fold_scores_ > model.threshold_)
        assert abs(promised - found["threshold_f1"]) < 0.1


# ProtoTag shares more between images than the baselines do: an image's own tags influence what is
# learned from all images at once (axes of lifted vectors, semantics of the other prototypes).
SHARED = {"ProtoTag": 0.03, "MCDL out of fold": 0.003}


@careful
def test_own_tags_do_not_reach_own_scores(name, data):
    """With all its tags turned over, an image's left-out scores stay; those of others do not."""
    Y = data.Y.toarray()
    Y[3] = 1 - Y[3]
    after = make(name).fit(data.X, Y)
    change = np.abs(after.out_of_fold_scores_ - fitted(name).out_of_fold_scores_).max(axis=1)
    assert change[3] < SHARED.get(name, 1e-4)
    assert change.max() > 5 * SHARED.get(name, 2e-4)


@careful
def test_tags_without_meaning_rank_held_out_images_by_chance(name):
    """A law of every annotator: what nothing can be learned of promises nothing."""
    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, Y = rng.standard_normal((90, 16)).astype("f4"), rng.random((90, 6)) < 0.25
        found.append(tag_auc(Y, make(name).fit(X, Y).out_of_fold_scores_).mean())
    assert np.mean(found) < 0.53


@careful
def test_thresholds_come_from_held_out_scores(name, data):
    model = fitted(name)
    scores = model.out_of_fold_scores_
    assert scores.shape == (N, T)
    assert scores.dtype == np.float32
    alike = name == "ProtoTag" or getattr(model, "_correct_loo_bias", False)
    judged = shrunk_loo_scores if alike else lambda _, scores: scores
    best = thresholds.best_global_threshold(data.Y, judged(data.Y, scores))[0]
    assert_allclose(model.threshold_, best, rtol=1e-6)
    each = make(name, threshold="per_tag").fit(data.X, data.Y)
    left_out = judged(data.Y, each.out_of_fold_scores_)
    expected = thresholds.best_tag_thresholds(data.Y, left_out, shrink=50.0)
    assert_allclose(each.threshold_, expected, rtol=1e-6)


@every
def test_a_threshold_of_your_own(name, data):
    model = make(name, threshold=0.4).fit(data.X[:40], data.Y[:40])
    assert model.threshold_ == 0.4
    scores = model.decision_function(data.X)
    assert_array_equal(model.predict(data.X).toarray(), scores > 0.4)


@every
def test_same_bits_again_and_with_threads(name, data):
    model = fitted(name)
    again = clone(model).set_params(n_jobs=2).fit(data.X, data.Y)
    assert_array_equal(again.decision_function(data.X), model.decision_function(data.X))
    assert_array_equal(again.threshold_, model.threshold_)
    if name in CAREFUL:
        assert_array_equal(again.out_of_fold_scores_, model.out_of_fold_scores_)


def elsewhere(engine, function, rows, shared=(), *, size):
    """Run batches of the baselines as another process would: from pickled arguments."""
    if not function.__module__.startswith("prototag.research.baselines"):
        return ON_THREADS(engine, function, rows, shared, size=size)
    results = []
    for part in batch_slices(count_rows(rows), size):
        sent = pickle.dumps((function, slice_rows(rows, part), shared))
        called, own, given = pickle.loads(sent)
        results.append(called(*own, *given))
    return results


@every
def test_another_engine_gives_the_same_bits(name, data, monkeypatch):
    monkeypatch.setattr(Threads, "map", elsewhere)
    again = make(name).fit(data.X, data.Y)
    assert_array_equal(again.decision_function(data.X), fitted(name).decision_function(data.X))
    assert_array_equal(again.threshold_, fitted(name).threshold_)


@every
def test_alone_and_in_a_batch(name, data):
    batch = fitted(name).decision_function(data.X)
    for image in (0, 77, N - 1):
        alone = fitted(name).decision_function(data.X[image : image + 1])
        assert_allclose(alone[0], batch[image], atol=1e-4)


@every
def test_float64_agrees_and_scale_does_not_matter(name, data):
    X = data.X.astype(np.float64) * 2.0**10
    scores = make(name).fit(X, data.Y).decision_function(X)
    assert_allclose(scores, fitted(name).decision_function(data.X), atol=2e-3)


# -- tags and vectors ------------------------------------------------------------------------------


@every
def test_sparse_and_dense_tags_agree(name, data):
    X = data.X[:60]
    Y = data.Y[:60]
    one = make(name).fit(X, Y).decision_function(data.X)
    assert_array_equal(make(name).fit(X, Y.toarray()).decision_function(data.X), one)
    assert_array_equal(make(name).fit(X, Y.tocsc().astype(bool)).decision_function(data.X), one)


@every
def test_names_of_tags_and_labels(name, data):
    X, Y = data.X[:60], data.Y[:60].toarray()
    frame = pd.DataFrame(Y, columns=[f"tag {c}" for c in range(T)])
    assert make(name).fit(X, frame).classes_.tolist() == list(frame.columns)
    labels = np.array(["sea", "sky", "tree"])[Y[:, :3].argmax(axis=1)]
    assert set(make(name).fit(X, labels).predict(X)) <= set(labels)


ODD_TAGS = {
    "a tag without images": lambda Y: np.hstack([Y, np.zeros((60, 1))]),
    "no tags at all": np.zeros_like,
    "every tag on every image": np.ones_like,
    "a single tag": lambda Y: Y[:, :1],
    "a tag on one image": lambda Y: np.hstack([Y, np.eye(60)[:, :1]]),
    "images without tags": lambda Y: Y * (np.arange(60) % 2)[:, None],
}


@every
@pytest.mark.parametrize("case", ODD_TAGS)
def test_odd_tags(name, case, data):
    X, Y = data.X[:60], ODD_TAGS[case](data.Y[:60].toarray())
    assert_usable(make(name).fit(X, Y), X, Y.shape)


ODD_VECTORS = {
    "zero vectors": lambda X: np.where(np.arange(60)[:, None] % 3, X, 0),
    "all alike": np.ones_like,
    "five, many times": lambda X: np.tile(X[:5], (12, 1)),
    "one column": lambda X: X[:, :1],
    "a constant column": lambda X: np.hstack([X, np.ones((60, 1))]),
}


@every
@pytest.mark.parametrize("case", ODD_VECTORS)
def test_odd_vectors(name, case, data):
    X, Y = ODD_VECTORS[case](data.X[:60]), data.Y[:60].toarray()
    model = make(name).fit(X, Y)
    assert_usable(model, X, Y.shape)
    assert np.isfinite(model.decision_function(np.zeros((2, X.shape[1])))).all()


def assert_usable(model, X, shape):
    assert np.isfinite(model.decision_function(X)).all()
    assert model.predict(X).shape == shape
    assert np.isfinite(getattr(model, "out_of_fold_scores_", 0)).all()


@careful
def test_two_images_are_enough_and_one_is_not(name, data):
    for n in (2, 3):
        model = make(name).fit(data.X[:n], data.Y[:n])
        assert model.decision_function(data.X[:5]).shape == (5, T)
    with pytest.raises(ValueError, match="n_samples=1"):
        make(name).fit(data.X[:1], data.Y[:1])


BAD = {
    "NaN in X": (lambda X, Y: (np.where(X[3, 2] == X, np.nan, X), Y), "Input X contains NaN"),
    "infinity in X": (lambda X, Y: (np.where(X[3, 2] == X, np.inf, X), Y), "contains infinity"),
    "no images": (lambda X, Y: (X[:0], Y[:0]), r"Found array with 0 sample\(s\)"),
    "sparse X": (lambda X, Y: (sparse.csr_array(X), Y), "dense data is required"),
    "no tags given": (lambda X, _: (X, None), "learns from tags: requires y to be passed"),
    "a two": (lambda X, Y: (X, 2 * Y), r"Y holds .*2\.0.*0 \(absent\) or 1 \(present\)"),
    "NaN in Y": (lambda X, Y: (X, np.where(Y > 0, np.nan, Y)), "Input Y contains NaN"),
    "too short": (lambda X, Y: (X, Y[:7]), "X has 100 images and Y has tags for 7"),
}


@every
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(name, case, data):
    change, message = BAD[case]
    X, Y = change(data.X, data.Y.toarray())
    with pytest.raises((ValueError, TypeError), match=message):
        make(name).fit(X, Y)


@every
def test_bad_use_is_refused(name, data):
    for method in ("predict", "decision_function"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(make(name), method)(data.X)
    with pytest.raises(ValueError, match=rf"X has 11 features, but \w+ is expecting {M}"):
        fitted(name).predict(data.X[:, :11])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        fitted(name).predict(np.full((2, M), np.nan))


@every
def test_bad_parameters_are_refused(name, data):
    (method,) = select([name])
    for options in (
        {"threshold": "best"},
        {"threshold": np.nan},
        {"n_jobs": "two"},
        {next(iter(method.test_options)): -1},
    ):
        (key,) = options
        with pytest.raises(ValueError, match=rf"'{key}' parameter of \w+ must be"):
            make(name, **options).fit(data.X, data.Y)


# -- model files -----------------------------------------------------------------------------------


def saved_and_loaded(model, path):
    model.save(path)
    return prototag.load(path)


def kept(model):
    return {k: v for k, v in model.get_params().items() if k not in ("n_jobs", "random_state")}


@every
def test_saved_and_loaded_it_is_the_same(name, data, tmp_path):
    X = pd.DataFrame(data.X[:60], columns=[f"x{c}" for c in range(M)])
    Y = pd.DataFrame(data.Y[:60].toarray(), columns=[f"Ünïcode {c}" for c in range(T)])
    model = make(name, threshold="per_tag").fit(X, Y)
    again = saved_and_loaded(model, tmp_path / "model.prototag")
    assert type(again) is type(model)
    new = pd.DataFrame(data.X, columns=X.columns)
    assert_array_equal(again.decision_function(new), model.decision_function(new))
    assert_array_equal(again.predict(new), model.predict(new))
    assert_array_equal(again.classes_, model.classes_)
    assert_array_equal(again.threshold_, model.threshold_)
    assert_array_equal(again.feature_names_in_, model.feature_names_in_)
    assert kept(again) == kept(model)
    assert not hasattr(again, "out_of_fold_scores_")
    # And once more: a loaded model has all that a file keeps.
    assert_same_state(again.to_state(), model.to_state())


@every
def test_labels_are_saved_too(name, data, tmp_path):
    labels = np.array(["sea", "sky", "tree"])[data.Y[:60, :3].toarray().argmax(axis=1)]
    model = make(name).fit(data.X[:60], labels)
    again = saved_and_loaded(model, tmp_path / "model.prototag")
    assert_array_equal(again.predict(data.X), model.predict(data.X))
    assert_array_equal(again.decision_function(data.X), model.decision_function(data.X))


def assert_same_state(one, two):
    assert one[0] == two[0]
    assert one[1].keys() == two[1].keys()
    for key, array in one[1].items():
        assert array.dtype == two[1][key].dtype
        assert_array_equal(array, two[1][key])


DAMAGES = {
    "missing": lambda _: None,
    "of another width": lambda array: array[..., :-1].copy(),
    "of another dtype": lambda array: array.astype(np.float16),
    "not finite": lambda array: array * array.dtype.type(np.nan),
}


# The files of these two have parts that may be missing; tests/tagging and tests/mcdl damage them.
OWN_FILES = ("ProtoTag", "MCDL out of fold")


@pytest.mark.parametrize("name", [name for name in EVERY if name not in OWN_FILES])
@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_file_is_refused(name, case, tmp_path):
    config, arrays = fitted(name).to_state()
    path = tmp_path / "model.prototag"
    for key, array in arrays.items():
        if case == "not finite" and array.dtype.kind != "f":
            continue
        changed = DAMAGES[case](array)
        rest = {other: value for other, value in arrays.items() if other != key}
        given = rest if changed is None else {**rest, key: changed}
        modelfile.write(path, {"kind": fitted(name).kind, **config}, given)
        with pytest.raises(ModelFileError):
            prototag.load(path)
