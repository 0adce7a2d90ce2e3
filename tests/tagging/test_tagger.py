"""The recommended method: one object for raw vectors, chosen on left-out images alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import prototag
from prototag import Tagger, recommended
from prototag.errors import ModelFileError
from prototag.evaluation import metrics, thresholds
from prototag.evaluation.ranking import mean_average_precision
from prototag.research.datasets import planted
from prototag.storage import modelfile
from prototag.tagging import pipeline


# One check takes it for granted that tags are given where decision_function is above zero.
@parametrize_with_checks(
    [Tagger(threshold=0.0)],
    expected_failed_checks=lambda _: {
        "check_classifier_multioutput": "tags are predicted by the threshold of the best F1, and "
        "not by the probability 0.5"
    },
)
def test_scikit_learn_rules(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    """Vectors as a network gives them: on scales of their own, away from the origin."""
    data = planted(n=900, t=14, k=40, m=24, noise=0.6, random_state=1)
    rng = np.random.default_rng(0)
    X = data.X @ rng.standard_normal((24, 40)) * rng.uniform(0.1, 10, 40) + 3
    return X.astype(np.float32), data.Y


@pytest.fixture(scope="module")
def model(data):
    X, Y = data
    return recommended(pilot=300).fit(X[:600], Y[:600])


def test_new_images_score_as_held_out_images(model, data):
    X, Y = data
    reached = metrics.report(Y[600:], model.decision_function(X[600:]), model.threshold_)
    assert abs(reached["threshold_f1"] - model.choices_["out_of_fold_f1"]) < 0.05
    found = reached["mean_average_precision"]
    assert abs(found - model.choices_["out_of_fold_map"]) < 0.05


def test_the_mixture_is_no_worse_than_its_parts(model, data):
    X, Y = data
    scores = {
        share: Tagger(pilot=300, kernel_share=share)
        .fit(X[:600], Y[:600])
        .decision_function(X[600:])
        for share in (0.0, 1.0)
    }
    best = max(metrics.mean_average_precision(Y[600:], part) for part in scores.values())
    mixed = metrics.mean_average_precision(Y[600:], model.decision_function(X[600:]))
    assert mixed > best - 0.02


def test_scale_does_not_matter(model, data):
    X, Y = data
    scale = np.float32(2.0) ** 20  # exact in floats
    again = recommended(pilot=300).fit(X[:600] * scale, Y[:600])
    assert_allclose(
        again.decision_function(X[600:] * scale), model.decision_function(X[600:]), atol=1e-3
    )


def test_fit_is_deterministic_and_threads_change_no_bit(model, data):
    X, Y = data
    again = clone(model).set_params(n_jobs=2).fit(X[:600], Y[:600])
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert_array_equal(again.threshold_, model.threshold_)
    assert again.choices_ == model.choices_


def test_boost_moves_ranks_not_decisions(data):
    X, Y = data
    plain, boosted = (Tagger(pilot=300, boost=boost).fit(X, Y) for boost in (0.0, 0.3))
    assert (plain.predict(X) != boosted.predict(X)).sum() <= 2  # rounding
    frequency = np.asarray(Y.sum(axis=0)).ravel()
    given = [np.asarray(m.predict(X, count=3).sum(axis=0)).ravel() for m in (plain, boosted)]
    assert given[1][frequency.argmin()] >= given[0][frequency.argmin()]
    assert given[1][frequency.argmax()] <= given[0][frequency.argmax()]


def test_probabilities_agree_with_tags(model, data):
    X, Y = data
    promised = model.probabilities(X[600:])
    assert promised.shape == (300, 14)
    assert promised.min() >= 0
    assert promised.max() <= 1
    assert promised.mean() == pytest.approx(Y[600:].mean(), rel=0.15)


def test_predict_proba_is_for_matrices_of_tags(model, data):
    X, _ = data
    assert not hasattr(recommended(), "predict_proba")
    assert_array_equal(model.predict_proba(X[600:]), model.probabilities(X[600:]))
    of_classes = recommended(pilot=100, n_prototypes=20).fit(X[:120], np.arange(120) % 3)
    assert not hasattr(of_classes, "predict_proba")
    assert of_classes.probabilities(X[:2]).shape == (2, 3)
    with pytest.raises(AttributeError, match="predict_proba"):
        of_classes.predict_proba(X)


def test_explanations_name_training_images(model, data):
    X, _ = data
    given = model.predict(X[600:610]).toarray()
    for row, parts in zip(given, model.explain(X[600:610]), strict=True):
        assert sorted(part.tag for part in parts) == np.flatnonzero(row).tolist()
        for part in parts:
            assert part.shares.sum() + part.rest == pytest.approx(part.score, abs=1e-5)
            assert (np.diff(part.shares) <= 0).all()
            assert (part.prototypes < 600).all()
    assert [part.tag for part in model.explain(X[600:601], [3])[0]] == [3]


def test_model_file_keeps_every_bit(model, data, tmp_path):
    X, _ = data
    model.save(tmp_path / "model.prototag")
    again = prototag.load(tmp_path / "model.prototag")
    assert isinstance(again, Tagger)
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert_array_equal(again.predict(X).toarray(), model.predict(X).toarray())
    assert_array_equal(again.probabilities(X), model.probabilities(X))
    assert again.choices_ == model.choices_


@pytest.mark.parametrize(
    "missing", ["model/kernel/dual", "model/projection/map", "model/tag_scale", "threshold"]
)
def test_an_incomplete_model_file_is_refused(model, tmp_path, missing):
    config, arrays = model.to_state()
    del arrays[missing]
    path = tmp_path / "model.prototag"
    modelfile.write(path, {"kind": "tagger", **config}, arrays)
    with pytest.raises(ModelFileError):
        prototag.load(path)


def test_parts_of_different_models_are_refused(model, tmp_path):
    config, arrays = model.to_state()
    path = tmp_path / "model.prototag"
    shorter = {"model/prototypes": arrays["model/prototypes"][:, :-1].copy()}
    modelfile.write(path, {"kind": "tagger", **config}, arrays | shorter)
    with pytest.raises(ModelFileError, match="expected"):
        prototag.load(path)
    for change in ({"threshold": arrays["threshold"] + 1}, {}):
        names = config["vocabulary"] if change else config["vocabulary"][:-1]
        whole = {"kind": "tagger", **config, "vocabulary": names}
        modelfile.write(path, whole, arrays | change)
        with pytest.raises(ModelFileError, match=r"do not fit|expected"):
            prototag.load(path)


def test_progress_is_reported_stage_by_stage(data):
    X, Y = data
    told = []
    Tagger(pilot=100, progress=told.append).fit(X[:200], Y[:200])
    assert [event.done for event in told] == list(range(1, pipeline.N_STAGES + 1))
    assert {(event.stage, event.total) for event in told} == {("Learning", pipeline.N_STAGES)}


def test_every_stage_keeps_its_held_out_scores(model, data):
    """So that learning can go on from any of them."""
    Y = data[1]
    stages = model.result_.stages
    kept = [
        stages.coded.oof_scores,
        stages.kernel_ridge.loo_scores,
        stages.mixed.scores,
    ]
    for scores in (*kept, model.result_.held_out.raw, model.out_of_fold_scores_):
        assert scores.shape == (600, 14)
        assert np.isfinite(scores).all()
    found = [metrics.mean_average_precision(Y[:600], scores) for scores in kept]
    assert found[-1] >= max(found[:2]) - 0.02
    assert stages.coded.codes.shape == (600, 600)
    assert not stages.coded.codes.diagonal().any()
    assert_array_equal(np.unique(stages.coded.folds), [0, 1, 2])


def test_landmarks_serve_where_images_are_too_many(data):
    X, Y = data
    model = Tagger(pilot=300, max_landmarks=200, out_of_core=False).fit(X[:600], Y[:600])
    assert model.model_.kernel.landmarks.shape[0] == 200
    assert model.score(X[600:], Y[600:]) > 0.3


@pytest.mark.parametrize(("n", "t"), [(6, 2), (40, 1), (30, 60)])
def test_few_images_and_few_tags(n, t):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, 50)), (rng.random((n, t)) < 0.3).astype(int)
    model = recommended().fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.predict(X).shape == (n, t)


def test_explanations_speak_the_names_of_the_tags(data):
    X, Y = data
    names = [f"tag {number}" for number in range(Y.shape[1])]
    model = recommended(pilot=100, kernel_share=0.5).fit(
        X[:200], pd.DataFrame(Y[:200].toarray(), columns=names)
    )
    given = model.predict(X[200:230])
    for row, parts in zip(given, model.explain(X[200:230]), strict=True):
        assert {part.tag for part in parts} == {names[tag] for tag in np.flatnonzero(row)}
        assert [part.score for part in parts] == sorted((p.score for p in parts), reverse=True)


QUICK = {"pilot": 300, "gamma": 1.0, "strength": 0.3}


@pytest.fixture(scope="module")
def small(data):
    X, Y = data
    return Tagger(80, **QUICK).fit(X[:600], Y[:600])


def test_a_summary_serves_codes_and_kernel(small, data):
    X, Y = data
    model, stages = small.model_, small.result_.stages
    assert len(model.prototypes) == len(model.kernel.landmarks) == 80
    means = stages.coded.clusterings.whole.means(stages.reduced.vectors)
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    assert_allclose(model.kernel.landmarks, expected, atol=1e-6)
    assert model.kernel.landmarks is model.prototypes
    reached = metrics.report(Y[600:], small.decision_function(X[600:]), small.threshold_)
    assert reached["threshold_f1"] > small.choices_["out_of_fold_f1"] - 0.03
    # its threshold is nearly the best that there is
    _, best = thresholds.best_global_threshold(
        Y[600:], small.decision_function(X[600:]) / small.threshold_
    )
    assert reached["threshold_f1"] > best - 0.03


def test_prototypes_of_random_tags_are_estimated_at_chance():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((500, 12)), (rng.random((500, 8)) < 0.2).astype(int)
    model = Tagger(150, **QUICK).fit(X, Y)
    assert model.choices_["out_of_fold_map"] < 0.26


def test_as_many_prototypes_as_images_are_the_exact_model(model, data):
    X, Y = data
    again = clone(model).set_params(n_prototypes=600).fit(X[:600], Y[:600])
    assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_small_model_keeps_every_bit_in_its_file(small, data, tmp_path):
    X, Y = data
    small.save(tmp_path / "model.prototag")
    again = prototag.load(tmp_path / "model.prototag")
    assert_array_equal(again.decision_function(X), small.decision_function(X))
    twin = clone(small).set_params(n_jobs=2).fit(X[:600], Y[:600])
    assert_array_equal(twin.decision_function(X), small.decision_function(X))


@pytest.fixture(scope="module")
def stages_of_growth():
    """Noisy images, of which more are worth much: 150 to fit, 150 more, 400 to judge by."""
    data = planted(n=700, t=15, k=60, noise=1.5, random_state=4)
    X, Y = data.X, data.Y
    return (X[:150], Y[:150]), (X[150:300], Y[150:300]), X[300:], Y[300:]


def test_partial_fit_is_close_to_a_full_fit(stages_of_growth):
    """The images gain as much as in a fit to all of them, within 0.02 mAP."""
    (X, Y), (more_X, more_Y), test_X, test_Y = stages_of_growth

    def quality(tagger):
        return mean_average_precision(test_Y, tagger.decision_function(test_X))

    first = Tagger().fit(X, Y)
    before = quality(first)
    full = quality(Tagger().fit(np.vstack([X, more_X]), sparse.vstack([Y, more_Y])))
    grown = first.partial_fit(more_X, more_Y)
    assert grown is first
    assert full > before + 0.05
    assert abs(quality(grown) - full) < 0.02
    assert grown.out_of_fold_scores_ is None


def test_partial_fit_in_pieces_and_from_the_start(stages_of_growth):
    (X, Y), (more_X, more_Y), test_X, _ = stages_of_growth
    at_once = Tagger().partial_fit(X, Y).partial_fit(more_X, more_Y)
    pieces = Tagger().fit(X, Y)
    for start in range(0, 150, 50):
        pieces.partial_fit(more_X[start : start + 50], more_Y[start : start + 50])
    one, other = at_once.probabilities(test_X), pieces.probabilities(test_X)
    # Landmarks of corrections are selected from the images of the first call.
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.97
    refitted = pieces.fit(X, Y).decision_function(test_X)
    assert_array_equal(refitted, Tagger().fit(X, Y).decision_function(test_X))


def test_partial_fit_refuses_other_tags_and_loaded_models(stages_of_growth, tmp_path):
    (X, Y), (more_X, more_Y), test_X, _ = stages_of_growth
    tagger = Tagger().fit(X, Y)
    with pytest.raises(ValueError, match="y has 14 tags, and the fit had 15"):
        tagger.partial_fit(more_X, more_Y[:, :14])
    with pytest.raises(ValueError, match="features"):
        tagger.partial_fit(more_X[:, :5], more_Y)
    tagger.partial_fit(more_X, more_Y).save(tmp_path / "grown.prototag")
    loaded = prototag.load(tmp_path / "grown.prototag")
    assert_array_equal(loaded.decision_function(test_X), tagger.decision_function(test_X))
    with pytest.raises(ValueError, match="a loaded model lacks its training images"):
        loaded.partial_fit(more_X, more_Y)
    classes = Tagger().fit(X, np.arange(150) % 3)
    assert classes.partial_fit(more_X, np.arange(150) % 3).predict(test_X).shape == (400,)
    with pytest.raises(ValueError, match=r"new classes \[3\]"):
        classes.partial_fit(more_X, np.arange(150) % 4)
    with pytest.raises(ValueError, match="classes has 4 classes, and the first fit had 3"):
        classes.partial_fit(more_X, np.arange(150) % 3, classes=[0, 1, 2, 3])
