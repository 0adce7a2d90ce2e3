"""MCDL as a scikit-learn estimator: contracts, tags in every form, bad input, model files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import prototag
from prototag import MCDL, load
from prototag.errors import ModelFileError
from prototag.evaluation import metrics, thresholds
from prototag.research.datasets import planted
from prototag.storage import modelfile
from recipes import gathered

EXEMPTIONS = {
    "check_classifier_multioutput": (
        "It demands that a tag be given exactly where decision_function is above 0. Scores are "
        "compared with threshold_ instead: explain() splits the score itself, and the paper's "
        "figures are about scores."
    ),
}


@parametrize_with_checks(
    [
        MCDL.paper(max_iter=2, init_iter=1),
        MCDL.published(init_iter=1, max_iter=1, threshold="per_tag"),
    ],
    expected_failed_checks=lambda _: EXEMPTIONS,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return planted(n=120, t=6, k=10, m=8, random_state=0)


def model(**options):
    small = {"n_prototypes": 15, "max_iter": 2, "init_iter": 1, "random_state": 0}
    return MCDL(**gathered(**{"unused": "reseed", **small, **options}))


@pytest.fixture(scope="module")
def fitted(data):
    return model().fit(data.X, data.Y.toarray())


# -- use -------------------------------------------------------------------------------------------


def test_scores_are_codes_times_semantics(data, fitted):
    codes = fitted.transform(data.X)
    assert isinstance(codes, sparse.csr_array)
    assert codes.shape == (120, 15)
    scores = codes @ fitted.semantic_prototypes_.toarray()
    assert_allclose(fitted.decision_function(data.X), scores, atol=1e-6)
    assert fitted.visual_prototypes_.shape == (15, 8)
    assert isinstance(fitted.semantic_prototypes_, sparse.csr_array)


def test_tags_are_those_above_the_threshold(data, fitted):
    scores = fitted.decision_function(data.X)
    assert_array_equal(fitted.predict(data.X), scores > fitted.threshold_)
    assert fitted.threshold_ == thresholds.best_global_threshold(data.Y, scores)[0]


def test_a_threshold_for_each_tag(data):
    fitted = model(threshold="per_tag").fit(data.X, data.Y)
    scores = fitted.decision_function(data.X)
    assert_array_equal(fitted.threshold_, thresholds.best_tag_thresholds(data.Y, scores))
    assert_array_equal(fitted.predict(data.X).toarray(), scores > fitted.threshold_)


def test_a_threshold_of_your_own(data):
    fitted = model(threshold=0.3).fit(data.X, data.Y)
    assert fitted.threshold_ == 0.3
    assert_array_equal(fitted.predict(data.X).toarray(), fitted.decision_function(data.X) > 0.3)


def test_so_many_tags_for_each_image(data, fitted):
    given = fitted.predict(data.X, count=5)
    assert_array_equal(given.sum(axis=1), 5)
    scores = fitted.decision_function(data.X)
    for row, score in zip(given, scores, strict=True):
        assert score[row == 1].min() >= score[row == 0].max()
    with pytest.raises(ValueError, match="count=7 tags per image of 6"):
        fitted.predict(data.X, count=7)


def test_score_is_the_f1_of_the_means(data, fitted):
    expected = metrics.f1_of_means(data.Y, fitted.predict(data.X))
    for Y in (data.Y, data.Y.toarray(), pd.DataFrame(data.Y.toarray())):
        assert fitted.score(data.X, Y) == expected
    with pytest.raises(ValueError, match="sample_weight is not supported for tags"):
        fitted.score(data.X, data.Y, sample_weight=np.ones(120))


@pytest.mark.parametrize("threshold", ["global", "per_tag"])
def test_parts_add_up_to_the_score(data, threshold):
    fitted = model(threshold=threshold).fit(data.X, data.Y)
    scores, given = fitted.decision_function(data.X), fitted.predict(data.X).toarray()
    codes, S = fitted.transform(data.X).toarray(), fitted.semantic_prototypes_.toarray()
    for image, parts in enumerate(fitted.explain(data.X)):
        assert sorted(part.tag for part in parts) == np.flatnonzero(given[image]).tolist()
        assert [part.score for part in parts] == sorted((p.score for p in parts), reverse=True)
        for part in parts:
            assert part.score == pytest.approx(scores[image, part.tag], rel=1e-5)
            assert part.shares.sum() == pytest.approx(part.score, rel=1e-5)
            assert (part.shares > 0).all()
            assert (np.diff(part.shares) <= 0).all()
            truth = codes[image, part.prototypes] * S[part.prototypes, part.tag]
            assert_allclose(part.shares, truth, rtol=1e-5)


def test_explaining_tags_of_your_choice(data):
    names = [f"tag {c}" for c in range(6)]
    fitted = model().fit(data.X, pd.DataFrame(data.Y.toarray(), columns=names))
    scores = fitted.decision_function(data.X[:3])
    for image, parts in enumerate(fitted.explain(data.X[:3], tags=["tag 4", "tag 1"])):
        assert {part.tag for part in parts} == {"tag 1", "tag 4"}
        for part in parts:
            assert part.score == pytest.approx(scores[image, names.index(part.tag)], abs=1e-6)
    assert fitted.explain(data.X[:2], tags=[]) == [[], []]
    assert [len(parts) for parts in fitted.explain(data.X[:2], tags="tag 0")] == [1, 1]
    with pytest.raises(ValueError, match=r"unknown tags \['cat'\]: classes_ lists"):
        fitted.explain(data.X, tags=["cat"])


def test_zero_vectors_have_no_code_and_no_tags(data, fitted):
    X = np.zeros((2, 8))
    assert fitted.threshold_ > 0
    assert fitted.transform(X).nnz == 0
    assert not fitted.decision_function(X).any()
    assert not fitted.predict(X).any()
    assert fitted.explain(X) == [[], []]
    mixed = np.where(np.arange(120)[:, None] % 3, data.X, 0)
    assert np.isfinite(model().fit(mixed, data.Y).objective_["total"]).all()


@pytest.mark.parametrize("method", ["predict", "decision_function", "transform", "explain"])
def test_use_before_fit(data, method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(model(), method)(data.X)


def test_score_and_save_before_fit(data, tmp_path):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model().score(data.X, data.Y)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model().save(tmp_path / "model")


# -- tags in, tags out -----------------------------------------------------------------------------


def test_tags_come_back_as_they_were_given(data):
    dense = data.Y.toarray()
    for Y in (dense.astype(bool), dense.astype(np.int8), dense.astype(np.int64), dense):
        given = model().fit(data.X, Y).predict(data.X)
        assert isinstance(given, np.ndarray)
        assert given.dtype == Y.dtype
    for Y in (data.Y, data.Y.astype(bool), sparse.csc_array(data.Y)):
        given = model().fit(data.X, Y).predict(data.X)
        assert isinstance(given, sparse.csr_array)
        assert given.dtype == Y.dtype


def test_names_of_a_data_frame(data):
    names = ["sky", "sea", "sun", "dog", "cat", "car"]
    frame = pd.DataFrame(data.Y.toarray().astype(int), columns=names, index=np.arange(120)[::-1])
    X = pd.DataFrame(data.X, columns=[f"x{c}" for c in range(8)], index=frame.index)
    fitted = model().fit(X, frame)
    assert fitted.classes_.tolist() == names
    assert fitted.feature_names_in_.tolist() == list(X.columns)
    assert_array_equal(fitted.predict(X), model().fit(data.X, data.Y.toarray()).predict(data.X))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(X.rename(columns={"x0": "y0"}))


def test_codes_as_a_data_frame(data):
    X = pd.DataFrame(data.X, index=np.arange(120) + 1000).rename(columns=str)
    fitted = model().set_output(transform="pandas").fit(X, data.Y)
    codes = fitted.transform(X)
    assert isinstance(codes, pd.DataFrame)
    assert codes.columns.tolist() == fitted.get_feature_names_out().tolist()
    assert codes.columns[0] == "mcdl0"
    assert codes.index.equals(X.index)
    fitted.set_output(transform="default")
    assert_array_equal(codes.to_numpy(), fitted.transform(X).toarray())


@pytest.mark.parametrize("names", [["a", "b", "c"], [10, 20, 30], [False, True]], ids=str)
def test_one_label_for_each_image(data, names):
    index = np.argmax(data.codes.toarray(), axis=1) % len(names)
    y = np.array(names)[index]
    fitted = model().fit(data.X, y)
    assert fitted.classes_.tolist() == names
    given = fitted.predict(data.X)
    assert given.dtype == y.dtype
    assert fitted.score(data.X, y) == (given == y).mean()
    assert fitted.score(data.X, y) > 1.5 / len(names) - 0.1
    scores = fitted.decision_function(data.X)
    if len(names) == 2:
        assert scores.shape == (120,)
        assert_array_equal(given, scores > 0)
    else:
        assert_array_equal(given, np.array(names)[scores.argmax(axis=1)])
        assert all(len(parts) == 1 for parts in fitted.explain(data.X))
        assert [parts[0].tag for parts in fitted.explain(data.X)] == given.tolist()
    # Labels are tags of which exactly one is present.
    one_hot = model().fit(data.X, np.eye(len(names))[index])
    assert_array_equal(one_hot.visual_prototypes_, fitted.visual_prototypes_)
    with pytest.raises(ValueError, match=r"count=2: the model was fitted with one class per image"):
        fitted.predict(data.X, count=2)


def test_clone_and_parameters(data):
    original = MCDL.published(20, eta=0.7, random_state=3)
    copy = clone(original)
    assert copy.get_params() == original.get_params()
    assert not hasattr(copy, "threshold_")
    assert copy.set_params(eta=0.9).eta == 0.9
    assert original.eta == 0.7
    fitted = model().fit(data.X, data.Y)
    assert not hasattr(clone(fitted), "classes_")


def estimators_with_progress():
    """Every public estimator that takes ``progress``."""
    kinds = [getattr(prototag, name) for name in prototag.__all__]
    kinds = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseEstimator)]
    return [kind for kind in kinds if "progress" in kind().get_params()]


@pytest.mark.parametrize("kind", estimators_with_progress())
def test_a_clone_tells_the_same_callback(kind, tmp_path):
    """``clone`` copied the object that a bound method belongs to, which may hold a file."""
    with (tmp_path / "log").open("w") as file:
        callback = Recorder(file).take
        original = kind(progress=callback)
        assert clone(original).progress is callback
        assert original.progress is callback
        chain = clone(make_pipeline(StandardScaler(), original))
        assert chain.steps[1][1].progress is callback


class Recorder:
    def __init__(self, file):
        self.file = file

    def take(self, event):
        self.file.write(f"{event}\n")


def test_estimators_with_progress_are_found():
    names = {kind.__name__ for kind in estimators_with_progress()}
    assert names == {"MCDL", "ExemplarMCDL", "Tagger", "FeatureExtractor"}


def test_in_a_pipeline_and_a_grid(data):
    chain = make_pipeline(StandardScaler(), model())
    search = GridSearchCV(chain, {"mcdl__eta": [0.1, 1.0]}, cv=2).fit(data.X, data.Y.toarray())
    assert search.best_params_["mcdl__eta"] in (0.1, 1.0)
    assert 0 < search.best_score_ <= 1


# -- bad input -------------------------------------------------------------------------------------


def with_entry(array, value):
    array = np.array(array, float)
    array[1, 2] = value
    return array


BAD_X = {
    "NaN": (lambda X: with_entry(X, np.nan), "Input X contains NaN"),
    "infinity": (lambda X: with_entry(X, np.inf), "Input X contains infinity"),
    "empty": (lambda X: X[:0], r"Found array with 0 sample\(s\)"),
    "no columns": (lambda X: X[:, :0], r"Found array with 0 feature\(s\)"),
    "one-dimensional": (lambda X: X[0], "Expected 2D array, got 1D array"),
    "strings": (lambda X: X.astype(str).astype(object) + "x", "could not convert string to float"),
    "complex": (lambda X: X + 1j, "Complex data not supported"),
    "sparse": (sparse.csr_array, "Sparse data was passed for X, but dense data is required"),
}


@pytest.mark.parametrize("case", BAD_X)
def test_bad_vectors_are_refused(data, fitted, case):
    change, message = BAD_X[case]
    with pytest.raises((ValueError, TypeError), match=message):
        model().fit(change(data.X), data.Y)
    with pytest.raises((ValueError, TypeError), match=message):
        fitted.predict(change(data.X))


def test_another_width_is_refused(data, fitted):
    for method in (fitted.predict, fitted.transform, fitted.decision_function, fitted.explain):
        with pytest.raises(ValueError, match="X has 7 features, but MCDL is expecting 8"):
            method(data.X[:, :7])


BAD_Y = {
    "none": (lambda _: None, "learns from tags.*n x t matrix of 0/1, or one label"),
    "NaN": (lambda Y: with_entry(Y, np.nan), "Input Y contains NaN"),
    "infinity": (lambda Y: with_entry(Y, np.inf), "Input Y contains infinity"),
    "a two": (lambda Y: with_entry(Y, 2), r"Y holds .*2\.0.*0 \(absent\) or 1 \(present\)"),
    "minus one": (lambda Y: 2 * Y - 1, r"Y holds .*-1\.0.*0 \(absent\) or 1 \(present\)"),
    "a half": (lambda Y: Y / 2, r"Y holds .*0\.5.*0 \(absent\) or 1 \(present\)"),
    "strings": (lambda Y: Y.astype(str), r"Y holds .*0 \(absent\) or 1 \(present\)"),
    "sparse NaN": (lambda Y: sparse.csr_array(with_entry(Y, np.nan)), "Y holds .*nan.*absent"),
    "sparse two": (lambda Y: sparse.csr_array(with_entry(Y, 2)), r"Y holds .*2\.0.*absent"),
    "no tags": (lambda Y: Y[:, :0], r"0 feature\(s\)"),
    "no tags, sparse": (
        lambda Y: sparse.csr_array(Y[:, :0]),
        r"Y has shape \(120, 0\): at least one image and one tag",
    ),
    "too short": (lambda Y: Y[:7], "X has 120 images and Y has tags for 7"),
    "too short labels": (lambda Y: Y[:7, 0], "X has 120 images and Y has tags for 7"),
    "three-dimensional": (lambda Y: Y[None], "dim 3, while dim <= 2"),
    "labels that are measures": (
        lambda Y: Y[:, 0] + 0.5 + np.arange(120) / 7,
        "Unknown label type",
    ),
    "labels with NaN": (lambda Y: np.where(Y[:, 0] > 0, np.nan, 1.0), "Input y contains NaN"),
    "a name twice": (
        lambda Y: pd.DataFrame(Y, columns=list("abcdea")),
        r"Y has several columns of the tags \['a'\]",
    ),
}


@pytest.mark.parametrize("case", BAD_Y)
def test_bad_tags_are_refused(data, case):
    change, message = BAD_Y[case]
    with pytest.raises(ValueError, match=message):
        model().fit(data.X, change(data.Y.toarray()))


def test_a_tag_given_twice_is_refused(data):
    twice = sparse.csr_array(
        (np.ones(121), np.append(np.zeros(120, int), 0), np.append(np.arange(120), 121)),
        shape=(120, 2),
    )
    with pytest.raises(ValueError, match=r"Y holds .*2\.0"):
        model().fit(data.X, twice)
    assert twice.nnz == 121  # and left as it was


BAD_PARAMETERS = {
    "more prototypes than images": (
        {"n_prototypes": 121},
        "n_prototypes=121 but there are only 120",
    ),
    "no prototypes": ({"n_prototypes": 0}, "'n_prototypes' parameter of MCDL must be"),
    "a share above one": ({"n_prototypes": 1.5}, "'n_prototypes' parameter of MCDL must be"),
    "eta of zero": ({"eta": 0.0}, "'eta' parameter of MCDL must be"),
    "tiny eta": ({"eta": 1e-25}, r"eta=1e-25 weighs 6 tags.*give eta between"),
    "huge eta": ({"eta": 1e25}, r"eta=1e\+25 weighs 6 tags.*give eta between"),
    "negative beta0": ({"beta0": -1.0}, "'beta0' parameter of MCDL must be"),
    "unknown norm": ({"norm": "cube"}, "norm='cube': give one of ball, sphere"),
    "no non-zeros": ({"max_nonzeros": 0}, "'max_nonzeros' parameter of MCDL must be"),
    "unknown loss": ({"loss": "hinge"}, "'loss' parameter of MCDL must be"),
    "unknown threshold": ({"threshold": "best"}, "'threshold' parameter of MCDL must be"),
    "threshold NaN": ({"threshold": np.nan}, "'threshold' parameter of MCDL must be"),
    "no threads": ({"n_jobs": 0}, "n_jobs=0 has no meaning"),
    "progress": ({"progress": "print"}, "'progress' parameter of MCDL must be"),
}


@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_bad_parameters_are_refused(data, case):
    options, message = BAD_PARAMETERS[case]
    with pytest.raises(ValueError, match=message):
        model(**options).fit(data.X, data.Y)


# -- input with a stated meaning -------------------------------------------------------------------


def assert_usable(fitted, X):
    assert np.isfinite(fitted.visual_prototypes_).all()
    assert np.isfinite(fitted.semantic_prototypes_.data).all()
    assert np.isfinite(fitted.objective_["total"]).all()
    assert np.isfinite(fitted.decision_function(X)).all()


def test_an_image_without_tags_counts_as_one_with_one(data):
    Y = data.Y.toarray()
    Y[::4] = 0
    fitted = model().fit(data.X, Y)
    assert_usable(fitted, data.X)
    assert (np.diff(fitted.objective_["total"]) < 0).all()


def test_a_tag_without_images_is_never_given(data):
    fitted = model().fit(data.X, np.hstack([data.Y.toarray(), np.zeros((120, 1))]))
    assert_usable(fitted, data.X)
    assert not fitted.decision_function(data.X)[:, -1].any()
    assert not fitted.predict(data.X)[:, -1].any()
    per_tag = model(threshold="per_tag").fit(
        data.X, np.hstack([data.Y.toarray(), np.zeros((120, 1))])
    )
    assert not per_tag.predict(data.X)[:, -1].any()


def test_no_tags_at_all(data):
    fitted = model().fit(data.X, sparse.csr_array((120, 4)))
    assert_usable(fitted, data.X)
    assert fitted.predict(data.X).nnz == 0


def test_one_tag(data):
    for Y in (data.Y.toarray()[:, :1], data.Y[:, [0]]):
        fitted = model().fit(data.X, Y)
        assert_usable(fitted, data.X)
        assert fitted.predict(data.X).shape == (120, 1)
        assert fitted.decision_function(data.X).shape == (120, 1)


def test_every_tag_everywhere(data):
    fitted = model().fit(data.X, np.ones((120, 3)))
    assert fitted.predict(data.X).all()


def test_one_image(data):
    fitted = model(n_prototypes=1).fit(data.X[:1], data.Y[[0]])
    assert_usable(fitted, data.X)
    assert_array_equal(fitted.predict(data.X[:1]).toarray(), data.Y[[0]].toarray())
    assert_usable(model(n_prototypes=0.2).fit(data.X[:1], data.Y[[0]]), data.X)


@pytest.mark.parametrize("norm", ["ball", "sphere"])
def test_as_many_prototypes_as_images(data, norm):
    fitted = model(n_prototypes=120, norm=norm).fit(data.X, data.Y)
    assert_usable(fitted, data.X)
    assert fitted.score(data.X, data.Y) > 0.9


def test_a_share_of_prototypes(data):
    assert len(model(n_prototypes=0.1).fit(data.X, data.Y).visual_prototypes_) == 12
    assert len(model(n_prototypes=1.0).fit(data.X, data.Y).visual_prototypes_) == 120
    assert len(model(n_prototypes=1e-9).fit(data.X, data.Y).visual_prototypes_) == 1


@pytest.mark.parametrize("unused", ["reseed", "zero", "leave"])
def test_duplicate_images(data, unused):
    for distinct in (4, 40):  # fewer than prototypes, and more
        X = np.repeat(data.X[:distinct], 3, axis=0)
        Y = np.repeat(data.Y.toarray()[:distinct], 3, axis=0)
        fitted = model(n_prototypes=10, unused=unused).fit(X, Y)
        assert_usable(fitted, X)
        scores = fitted.decision_function(X)
        assert_array_equal(scores[::3], scores[2::3])
        assert (np.diff(fitted.objective_["total"]) <= 1e-6 * fitted.objective_["total"][0]).all()


@pytest.mark.parametrize("norm", ["ball", "sphere"])
def test_nothing_but_zero_vectors(data, norm):
    fitted = model(norm=norm).fit(np.zeros((120, 8)), data.Y)
    assert_usable(fitted, data.X)
    assert fitted.transform(np.zeros((3, 8))).nnz == 0


def test_one_column(data):
    assert_usable(model().fit(data.X[:, :1], data.Y), data.X[:, :1])


# -- model files -----------------------------------------------------------------------------------


def arguments(data):
    names = ["sky", "sea", "sun", "dog", "cat", "Ünïcode ☂"]
    frame = pd.DataFrame(data.Y.toarray().astype(int), columns=names)
    X = pd.DataFrame(data.X, columns=[f"x{c}" for c in range(8)])
    index = np.argmax(data.codes.toarray(), axis=1) % 3
    return {
        "dense": ({}, data.X, data.Y.toarray()),
        "sparse": ({}, data.X, data.Y),
        "bool": ({}, data.X, data.Y.toarray() > 0),
        "per tag": ({"threshold": "per_tag"}, data.X, data.Y),
        "frame": ({}, X, frame),
        "string labels": ({}, data.X, np.array(["a", "b", "c"], object)[index]),
        "whole labels": ({}, data.X, np.array([3, 5, 9])[index]),
        "float labels": ({}, data.X, np.array([3.0, 5.0, 9.0])[index]),
        "two labels": ({}, data.X, index > 0),
        "published": ({**MCDL.published().get_params(), "init_iter": 1}, data.X, data.Y),
    }


CASES = [
    "dense", "sparse", "bool", "per tag", "frame", "string labels", "whole labels",
    "float labels", "two labels", "published",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_model_file_gives_the_same_model(data, case, tmp_path):
    options, X, y = arguments(data)[case]
    options = {**options, "n_prototypes": 15, "max_iter": 2, "random_state": 0}
    fitted = model(**options).fit(X, y)
    fitted.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    skipped = {"progress", "checkpoint", "n_jobs", "random_state"}
    for name, value in fitted.get_params().items():
        assert name in skipped or getattr(again, name) == value
    assert_array_equal(again.classes_, fitted.classes_)
    assert_array_equal(again.visual_prototypes_, fitted.visual_prototypes_)
    assert_array_equal(again.semantic_prototypes_.toarray(), fitted.semantic_prototypes_.toarray())
    assert_array_equal(again.threshold_, fitted.threshold_)
    assert type(again.threshold_) is type(fitted.threshold_)
    assert_array_equal(again.objective_, fitted.objective_)
    assert (again.n_iter_, again.codes_gap_) == (fitted.n_iter_, fitted.codes_gap_)
    assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    given, expected = again.predict(X), fitted.predict(X)
    assert type(given) is type(expected)
    assert given.dtype == expected.dtype
    if sparse.issparse(given):
        given, expected = given.toarray(), expected.toarray()
    assert_array_equal(given, expected)
    assert again.score(X, y) == fitted.score(X, y)
    if case == "frame":
        assert_array_equal(again.feature_names_in_, fitted.feature_names_in_)
    # And once more: the same but for the time it was written.
    again.save(tmp_path / "again.safetensors")
    one, two = (modelfile.read(tmp_path / f"{name}.safetensors") for name in ("model", "again"))
    assert {**one[0], "provenance": None} == {**two[0], "provenance": None}


ALTERED = {
    "unknown parameter": lambda header: header["recipe"].update(colour="red"),
    "impossible parameter": lambda header: header["recipe"].update(eta=-1.0),
    "parameter of another type": lambda header: header["recipe"].update(loss=["squared"]),
    "recipe missing": lambda header: header.pop("recipe"),
    "recipe is a list": lambda header: header.update(recipe=[1]),
    "unknown point of a recipe": lambda header: header["recipe"].update(recipe={"colour": 1}),
    "impossible point": lambda header: header["recipe"].update(recipe={"norm": "cube"}),
    "number of features missing": lambda header: header.pop("n_features"),
    "features of another model": lambda header: header.update(n_features=9),
    "number of prototypes missing": lambda header: header.pop("n_prototypes"),
    "fewer prototypes": lambda header: header.update(n_prototypes=14),
    "prototypes in words": lambda header: header.update(n_prototypes="many"),
    "no tags": lambda header: header.update(vocabulary=[]),
    "certificate too short": lambda header: header.update(certificate=[0.0]),
    "vocabulary too short": lambda header: header.update(vocabulary=["a"]),
    "vocabulary with twins": lambda header: header.update(vocabulary=["a"] * 6),
    "vocabulary of lists": lambda header: header.update(vocabulary=[[1]] * 6),
    "vocabulary of kinds": lambda header: header.update(vocabulary=["a", 1, 2, 3, 4, 5]),
    "vocabulary is a word": lambda header: header.update(vocabulary="abcdef"),
    "tags of words": lambda header: header.update(tag_dtype="<U5"),
    "tags of nonsense": lambda header: header.update(tag_dtype="nonsense"),
    "too few feature names": lambda header: header.update(features=["a"]),
    "features of numbers": lambda header: header.update(features=[1] * 8),
    "features is a number": lambda header: header.update(features=8),
    "threshold for each tag": lambda header: header.update(per_tag=True),
}


@pytest.mark.parametrize("case", ALTERED)
def test_an_altered_description_is_refused(fitted, case, tmp_path):
    config, arrays = fitted.to_state()
    header = {"kind": "mcdl", **config}
    ALTERED[case](header)
    modelfile.write(tmp_path / "model", header, arrays)
    with pytest.raises(ModelFileError, match=r"\w+ \w+"):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("visual_prototypes", lambda a: a.astype(np.float64)),
        ("visual_prototypes", lambda a: a[:, :5].copy()),
        ("visual_prototypes", lambda a: a * np.float32(np.nan)),
        ("semantic_prototypes/data", lambda a: a * np.float32(np.inf)),
        ("semantic_prototypes/data", lambda a: a.astype(np.uint8)),
        ("semantic_prototypes/indices", lambda a: a + 100),
        ("threshold", lambda a: np.tile(a, 2)),
        ("objective", lambda a: a[:, :2].copy()),
        ("tag_objective", lambda a: a[:0]),
    ],
)
def test_altered_arrays_are_refused(fitted, name, change, tmp_path):
    config, arrays = fitted.to_state()
    with np.errstate(invalid="ignore"):
        arrays[name] = change(arrays[name])
    modelfile.write(tmp_path / "model", {"kind": "mcdl", **config}, arrays)
    with pytest.raises(ModelFileError, match=name.split("/")[0]):
        load(tmp_path / "model")


def test_another_kind_of_file_is_refused(tmp_path):
    modelfile.write(tmp_path / "file", {"kind": "checkpoint"}, {"a": np.zeros(3)})
    with pytest.raises(ModelFileError, match="contains a 'checkpoint', not a model"):
        load(tmp_path / "file")


def test_names_that_no_file_can_keep_are_refused(data, tmp_path):
    frame = pd.DataFrame(data.Y.toarray(), columns=["a", 1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="all strings or all numbers"):
        model().fit(data.X, frame).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_file_has_its_provenance(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    where = modelfile.read_header(tmp_path / "model")["provenance"]
    assert where.keys() == {
        "created", "python", "machine", "prototag", "numpy", "scipy", "scikit-learn"
    }  # fmt: skip
