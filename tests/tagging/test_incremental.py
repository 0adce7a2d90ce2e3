"""Learning on: judged by refits from nothing, and by what no picture may tell of itself."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import oracles
from prototag import recommended
from prototag.evaluation.ranking import average_precision
from prototag.knowledge.concepts import NamePrior, name_scores
from prototag.research.datasets import planted
from prototag.storage import modelfile
from prototag.tagging.incremental.fit_state import HAS, LACKS, UNDECIDED, FitState
from prototag.tagging.incremental.ridge import Regression
from prototag.tagging.incremental.rows import Rows
from prototag.tagging.incremental.update import IncrementalTagger, p_missing_label
from prototag.tagging.name_knowledge import WeightPrior, posterior_weight, standardized_prior

TAUGHT, TAGS = 240, 12


@pytest.fixture(scope="module")
def data():
    return planted(n=500, t=TAGS, k=30, m=40, random_state=3)


@pytest.fixture(scope="module")
def fitted(data):
    tagger = recommended().fit(data.X[:TAUGHT], data.Y[:TAUGHT])
    return tagger, FitState.from_fit(tagger.result_, data.X[:TAUGHT])


@pytest.fixture
def incremental(data, fitted):
    tagger, kept = fitted
    return IncrementalTagger(tagger.model_, kept, data.X[TAUGHT:])


def truth(data, incremental, column):
    """Tags of the rows; examples may be bursts."""
    Y = data.Y.toarray()[:, column] > 0
    rows = np.concatenate(
        [incremental.fit_state.group_of, incremental.n_fit + np.arange(len(Y) - TAUGHT)]
    )
    found = np.zeros(len(incremental.rows.labels), bool)
    np.logical_or.at(found, rows, Y)
    return found


def by_hand(F, rows, targets, penalty):
    return np.linalg.solve(F[rows].T @ F[rows] + penalty * np.eye(F.shape[1]), F[rows].T @ targets)


def test_a_column_is_the_ridge_of_all_rows_that_teach_it_and_leaves_each_out_exactly():
    rng = np.random.default_rng(0)
    F, t = rng.normal(size=(60, 8)).astype(np.float32), rng.random(60).astype(np.float32)
    joined = np.array([45, 51, 52, 59])
    found = Regression(F, 40, 3.0).fit_column(t[:40], joined, t[joined])
    rows = np.concatenate([np.arange(40), joined])
    wide = F.astype(np.float64)
    weights = by_hand(wide, rows, t[rows], 3.0)
    np.testing.assert_allclose(found.weights, weights, atol=1e-5)
    for row in rows:
        others = rows[rows != row]
        expected = wide[row] @ by_hand(wide, others, t[others], 3.0)
        assert found.scores[row] == pytest.approx(expected, abs=1e-4)
    strangers = np.setdiff1d(np.arange(60), rows)
    np.testing.assert_allclose(found.scores[strangers], wide[strangers] @ weights, atol=1e-5)


def test_a_pair_changes_little_else_and_taking_it_back_changes_nothing(incremental):
    incremental.completeness = 1.0
    before, limits = incremental.rows.raw.copy(), incremental.threshold.copy()
    for column in range(TAGS):
        row = int(np.flatnonzero(incremental.rows.labels[:, column] == UNDECIDED)[3])
        incremental.rows.labels[row, column] = LACKS
        incremental.update_tag(column)
        others = np.delete(np.arange(len(before)), row)
        np.testing.assert_allclose(
            incremental.rows.raw[others, column], before[others, column], atol=0.03
        )
        assert column in incremental.updates
        incremental.rows.labels[row, column] = UNDECIDED
        incremental.update_tag(column)
    assert not incremental.updates
    np.testing.assert_allclose(incremental.rows.raw, before, atol=1e-5)
    np.testing.assert_array_equal(incremental.threshold, limits)


def test_the_assembled_model_scores_new_pictures_as_learning_on_did(data, incremental):
    pool = slice(incremental.n_fit, None)
    incremental.rows.labels[pool, 2] = np.where(truth(data, incremental, 2)[pool], HAS, LACKS)
    incremental.rows.labels[incremental.n_fit + 50 :, 2] = UNDECIDED
    incremental.update_tag(2)
    new = incremental.add_tag()
    incremental.rows.labels[pool, new] = incremental.rows.labels[pool, 5]
    incremental.rows.labels[: incremental.n_fit, new] = incremental.rows.labels[
        : incremental.n_fit, 5
    ]
    incremental.update_tag(new)
    model = incremental.build_model()
    assert model.n_tags == TAGS + 1
    raw, strangers = (
        model.raw(data.X[TAUGHT + 50 :]),
        incremental.rows.raw[incremental.n_fit + 50 :],
    )
    np.testing.assert_allclose(raw[:, [2, new]], strangers[:, [2, new]], atol=2e-4)
    config, arrays = model.to_arrays()
    again = type(model).from_arrays(config, arrays)
    np.testing.assert_allclose(again.raw(data.X[-5:]), model.raw(data.X[-5:]), atol=1e-6)


def test_decisions_teach_as_much_as_a_fit_from_nothing(data, incremental):
    """Half of the pool decided for some tags, against a fit that knows the same."""
    rows = np.arange(incremental.n_fit, incremental.n_fit + 130)
    columns = [0, 3, 7]
    for column in columns:
        incremental.rows.labels[rows, column] = np.where(
            truth(data, incremental, column)[rows], HAS, LACKS
        )
        incremental.update_tag(column)
    anew = recommended().fit(data.X[: TAUGHT + 130], data.Y[: TAUGHT + 130])
    rest = slice(TAUGHT + 130, None)
    true = data.Y.toarray()[rest][:, columns]
    before = average_precision(true, anew.model_.raw(data.X[rest])[:, columns]).mean()
    after = average_precision(
        true, incremental.rows.raw[incremental.n_fit + 130 :][:, columns]
    ).mean()
    assert after > before - 0.03


def test_no_example_judges_itself(incremental):
    incremental.update_tag(4)
    for row in (0, 7, 100):
        scores = []
        for verdict in (HAS, LACKS):
            incremental.rows.labels[row, 4] = verdict
            incremental.update_tag(4)
            scores.append(incremental.rows.raw[row, 4])
        assert scores[0] == pytest.approx(scores[1], abs=0.01)


def test_a_new_tag_is_found_from_ten_pictures(data):
    Y = data.Y.toarray()
    left = int(np.argmin(abs(Y.mean(axis=0) - 0.25)))
    rest = np.delete(np.arange(TAGS), left)
    tagger = recommended().fit(data.X[:TAUGHT], Y[:TAUGHT][:, rest])
    incremental = IncrementalTagger(
        tagger.model_, FitState.from_fit(tagger.result_, data.X[:TAUGHT]), data.X[TAUGHT:]
    )
    column, true = incremental.add_tag(), truth(data, incremental, left)
    examples = np.flatnonzero(true[: incremental.n_fit])[:10]
    incremental.rows.labels[examples, column] = HAS
    incremental.update_tag(column)
    pool = incremental.rows.raw[incremental.n_fit :, column]
    best = np.argsort(-pool)[:20]
    share = true[incremental.n_fit :].mean()
    assert true[incremental.n_fit :][best].mean() > 1.6 * share
    probability = incremental.probabilities([column])[:, 0]
    assert ((probability > 0) & (probability < 1)).all()


def test_how_complete_tags_are_is_told_by_answers(data):
    Y = data.Y.toarray()[:TAUGHT]
    found = {}
    for share in (0.0, 0.5):
        given = Y * (np.random.default_rng(0).random(Y.shape) >= share)
        tagger = recommended().fit(data.X[:TAUGHT], given)
        incremental = IncrementalTagger(
            tagger.model_, FitState.from_fit(tagger.result_, data.X[:TAUGHT]), data.X[TAUGHT:]
        )
        likely = np.where(
            incremental.rows.labels[: incremental.n_fit] == UNDECIDED,
            incremental.fit_probabilities,
            0,
        )
        rows, columns = np.unravel_index(np.argsort(-likely, axis=None)[:150], likely.shape)
        true = np.stack([truth(data, incremental, c) for c in range(TAGS)], axis=1)
        incremental.rows.labels[rows, columns] = np.where(true[rows, columns], HAS, LACKS)
        found[share] = incremental.estimate_completeness()
    assert found[0.0] > 0.95
    assert 0.4 < found[0.5] < 0.7


def test_what_nobody_gave_is_less_likely_the_more_complete_tags_are():
    assert p_missing_label(np.array(0.5), 1.0) < 1e-5
    assert p_missing_label(np.array(0.5), 0.9) == pytest.approx(0.5 * 0.1 / (0.9 * 0.5))
    assert p_missing_label(np.array(0.5), 0.6) > p_missing_label(np.array(0.5), 0.8)


def test_what_is_kept_survives_a_file(fitted, tmp_path):
    tagger, kept = fitted
    config, arrays = kept.to_arrays()
    modelfile.write(tmp_path / "kept", {"kind": "kept", "kept": config}, arrays)
    header, arrays = modelfile.read(tmp_path / "kept")
    again = FitState.from_arrays(header["kept"], arrays, len(tagger.model_.prototypes))
    for name, value in kept._asdict().items():
        other = getattr(again, name)
        if name == "codes":
            assert abs(value - other).max() == 0
        else:
            np.testing.assert_array_equal(value, other)


def test_where_more_join_than_there_are_features_the_ridge_is_the_same():
    rng = np.random.default_rng(1)
    F, t = rng.normal(size=(60, 8)).astype(np.float32), rng.random(60).astype(np.float32)
    joined = np.arange(42, 60)
    for centered in (False, True):
        regression = Regression(F, 40, 3.0, centered=centered)
        found = regression.fit_column(t[:40], joined, t[joined])
        few = [regression.fit_column(t[:40], joined[:n], t[joined[:n]]) for n in (8, 9)]
        np.testing.assert_allclose(few[0].weights, few[1].weights, atol=0.2)  # one more joins
        rows = np.concatenate([np.arange(40), joined])
        wide = F.astype(np.float64)
        np.testing.assert_allclose(found.weights, by_hand(wide, rows, t[rows], 3.0), atol=1e-5)
    regression = Regression(F, 40, 3.0)
    found = regression.fit_column(t[:40], joined, t[joined])
    for row in rows:
        others = rows[rows != row]
        expected = wide[row] @ by_hand(wide, others, t[others], 3.0)
        assert found.scores[row] == pytest.approx(expected, abs=1e-4)


def test_pictures_that_come_later_are_scored_as_if_they_had_been_there(data, fitted):
    tagger, kept = fitted
    all_at_once = IncrementalTagger(tagger.model_, kept, data.X[TAUGHT:], landmarks=100)
    later = IncrementalTagger(tagger.model_, kept, data.X[TAUGHT:400], landmarks=100)
    for one in (all_at_once, later):
        new = one.add_tag()
        for column in (2, new):
            one.rows.labels[one.n_fit : one.n_fit + 60, column] = LACKS
            one.rows.labels[one.n_fit : one.n_fit + 60 : 3, column] = HAS
            one.rows.labels[:30:2, column] = HAS
            one.update_tag(column)
    later.extend(data.X[400:])
    for field in dataclasses.fields(Rows):
        ours, theirs = (getattr(one.rows, field.name) for one in (later, all_at_once))
        if field.name == "codes":
            ours, theirs = ours.toarray(), theirs.toarray()
        np.testing.assert_allclose(ours, theirs, atol=2e-2, err_msg=field.name)
    np.testing.assert_allclose(later.n_applied, all_at_once.n_applied, atol=2e-2)
    later.rows.labels[-20:, 2], all_at_once.rows.labels[-20:, 2] = HAS, HAS
    for one in (all_at_once, later):
        one.update_tag(2)
        one.update_tag(4)
    np.testing.assert_allclose(later.rows.raw[:, 2], all_at_once.rows.raw[:, 2], atol=2e-3)
    assert later.threshold[2] == pytest.approx(all_at_once.threshold[2], abs=2e-3)


# -- names -----------------------------------------------------------------------------------------


def direction_of(data, column, noise=1.0):
    """A prior that knows about the tag what a regression of all images finds, and errs."""
    Y = data.Y_true.toarray()[:, [column]]
    coef = np.linalg.lstsq(np.c_[data.X, np.ones(len(data.X))], Y, rcond=None)[0][:-1]
    coef /= (data.X @ coef).std()
    error = np.random.default_rng(column).standard_normal(coef.shape)
    coef = coef + noise * error * np.linalg.norm(coef) / np.sqrt(len(coef))
    return NamePrior(coef.astype("f4"), np.full(1, 0.5, "f4"))


def joined(priors):
    return NamePrior(
        np.hstack([prior.coef for prior in priors]),
        np.concatenate([prior.intercept for prior in priors]),
    )


@pytest.fixture(scope="module")
def named(data):
    prior = joined([direction_of(data, column) for column in range(TAGS)])
    options = {"gamma": 1.0, "strength": 1.0, "kernel_share": 0.9}
    X, Y = data.X[:TAUGHT], data.Y[:TAUGHT]
    tagger = recommended(**options).fit(X, Y, groups=np.arange(TAUGHT), name_prior=prior)
    assert tagger.choices_["names"] > 0.2
    return tagger, FitState.from_fit(tagger.result_, X)


@pytest.fixture
def with_names(data, named):
    return IncrementalTagger(named[0].model_, named[1], data.X[TAUGHT:])


def test_nothing_decided_means_the_fit_with_names(data, named, with_names):
    tagger, _ = named
    np.testing.assert_array_equal(with_names.rows.raw[:TAUGHT], tagger.result_.stages.mixed.scores)
    np.testing.assert_allclose(
        with_names.rows.raw[TAUGHT:], tagger.model_.raw(data.X[TAUGHT:]), atol=1e-5
    )
    assert with_names.build_model() is tagger.model_


def test_an_updated_tag_keeps_the_weight_of_its_name(data, with_names):
    before, column = with_names.rows.raw.copy(), 3
    with_names.completeness = 1.0
    row = with_names.n_fit + 7
    with_names.rows.labels[row, column] = LACKS
    with_names.update_tag(column)
    others = np.delete(np.arange(len(before)), row)
    np.testing.assert_allclose(
        with_names.rows.raw[others, column], before[others, column], atol=0.05
    )
    model = with_names.build_model()
    np.testing.assert_allclose(
        model.raw(data.X[TAUGHT + 20 :]), with_names.rows.raw[with_names.n_fit + 20 :], atol=3e-4
    )
    with_names.rows.labels[row, column] = UNDECIDED
    with_names.update_tag(column)
    np.testing.assert_allclose(with_names.rows.raw, before, atol=1e-5)


def test_a_new_tag_with_a_name_is_the_regression_of_the_rest_refitted_without_each_row(data):
    prior = joined([direction_of(data, column) for column in range(5)])
    options = {"gamma": 1.0, "strength": 1.0, "kernel_share": 1.0}
    X = data.X[:TAUGHT]
    tagger = recommended(**options).fit(
        X, data.Y[:TAUGHT].toarray()[:, :5], groups=np.arange(TAUGHT), name_prior=prior
    )
    state = FitState.from_fit(tagger.result_, X)
    incremental = IncrementalTagger(tagger.model_, state, data.X[TAUGHT:], landmarks=len(data.X))
    prior = direction_of(data, 5)
    column = incremental.add_tag(prior)
    true = truth(data, incremental, 5)
    rows = np.concatenate([np.arange(TAUGHT), np.arange(TAUGHT, TAUGHT + 90, 2)])
    incremental.rows.labels[rows, column] = np.where(true[rows], HAS, LACKS)  # nothing is imputed
    incremental.update_tag(column)
    own = standardized_prior(prior, X)
    M = name_scores(own, data.X)
    weight = float(incremental.name_coef[:, column] @ own.coef[:, 0] / (own.coef**2).sum())
    assert weight > 0.02
    np.testing.assert_allclose(incremental.name_coef[:, [column]], weight * own.coef, atol=1e-5)
    kernel = incremental.model.kernel
    vectors = incremental.rows.vectors
    T = true[rows].astype(float)[:, None]
    weights = np.full(T.shape, weight)
    expected = oracles.held_out_with_names(
        vectors[rows], T, M[rows], weights, kernel.gamma, kernel.strength
    )
    np.testing.assert_allclose(incremental.rows.raw[rows, column], expected[:, 0], atol=3e-3)
    strangers = np.setdiff1d(np.arange(len(data.X)), rows)
    rest = oracles.refit_kernel_ridge(
        vectors[rows], T - weight * M[rows], kernel.gamma, kernel.strength, vectors[strangers]
    )
    np.testing.assert_allclose(
        incremental.rows.raw[strangers, column],
        (rest + weight * M[strangers])[:, 0],
        atol=3e-3,
    )
    # The weight is the posterior by held-out evidence of the labels.
    without = oracles.held_out_with_names(
        vectors[rows], T, M[rows], 0 * weights, kernel.gamma, kernel.strength
    )
    of_name = oracles.held_out_with_names(
        vectors[rows], M[rows], M[rows], 0 * weights, kernel.gamma, kernel.strength
    )
    by_labels = posterior_weight(
        T[:, 0],
        without[:, 0],
        (M[rows] - of_name)[:, 0],
        WeightPrior(state.name_weight, state.name_weight_variance),
        np.ones(len(rows), bool),
    )
    assert weight == pytest.approx(by_labels, abs=2e-3)


def test_the_assembled_model_scores_a_new_tag_with_a_name_as_the_rows(data, with_names):
    column = with_names.add_tag(direction_of(data, 5))
    true = truth(data, with_names, 5)
    rows = np.arange(0, with_names.n_fit + 40)
    with_names.rows.labels[rows, column] = np.where(true[rows], HAS, LACKS)
    with_names.update_tag(column)
    assert abs(with_names.name_coef[:, column]).max() > 0
    pool = slice(with_names.n_fit + 40, None)
    raw = with_names.build_model().raw(data.X[TAUGHT + 40 :])
    np.testing.assert_allclose(raw, with_names.rows.raw[pool], atol=3e-4)
    # Images that come later are scored likewise.
    n = len(with_names.rows)
    with_names.extend(data.X[TAUGHT + 40 : TAUGHT + 60])
    np.testing.assert_allclose(with_names.rows.raw[n:, column], raw[:20, column], atol=3e-4)


def test_a_new_tag_is_ranked_by_its_name_before_its_first_example(data, with_names):
    column = with_names.add_tag(direction_of(data, 5))
    with_names.update_tag(column)
    true = truth(data, with_names, 5)[TAUGHT:, None].astype(float)
    scores = with_names.rows.raw[TAUGHT:]
    by_name = data.X[TAUGHT:] @ direction_of(data, 5).coef
    assert np.corrcoef(scores[:, column], by_name[:, 0])[0, 1] > 0.85
    assert np.ptp(scores[:, column]) > 0.05  # far above the noise of float32
    assert average_precision(true, scores[:, [column]])[0] > 2 * true.mean()
    probabilities = with_names.probabilities([column])
    assert ((probabilities > 0) & (probabilities < 1)).all()


@pytest.mark.parametrize("examples", [1, 3, 10])
def test_a_name_helps_a_new_tag_with_few_examples(data, with_names, examples):
    values = {}
    for target in (1, 5, 8):
        true = truth(data, with_names, target)
        rows = np.flatnonzero(true[:TAUGHT])[:examples]
        for name, prior in (("with", direction_of(data, target)), ("without", None)):
            column = with_names.add_tag(prior)
            with_names.rows.labels[rows, column] = HAS
            with_names.update_tag(column)
            scores = with_names.rows.raw[TAUGHT:, [column]]
            values.setdefault(name, []).append(
                average_precision(true[TAUGHT:, None].astype(float), scores)[0]
            )
    assert np.mean(values["with"]) > np.mean(values["without"]) + 0.03


def test_state_with_names_survives_a_file(named, tmp_path, data):
    tagger, state = named
    config, arrays = state.to_arrays()
    modelfile.write(tmp_path / "state", {"kind": "kept", "kept": config}, arrays)
    header, arrays = modelfile.read(tmp_path / "state")
    again = FitState.from_arrays(header["kept"], arrays, len(tagger.model_.prototypes))
    for name in ("name_coef", "name_intercept", "name_weight", "name_weight_variance"):
        np.testing.assert_array_equal(getattr(again, name), getattr(state, name))
    assert state.name_coef.shape == (data.X.shape[1], TAGS)
    scores = []
    for one in (state, again):
        incremental = IncrementalTagger(tagger.model_, one, data.X[TAUGHT:])
        column = incremental.add_tag(direction_of(data, 5))
        incremental.rows.labels[:6, column] = HAS
        incremental.update_tag(column)
        scores.append(incremental.rows.raw)
    np.testing.assert_array_equal(*scores)


def test_without_names_in_the_fit_a_new_name_has_no_weight(data, fitted):
    incremental = IncrementalTagger(fitted[0].model_, fitted[1], data.X[TAUGHT:])
    plain = IncrementalTagger(fitted[0].model_, fitted[1], data.X[TAUGHT:])
    for one, prior in ((incremental, direction_of(data, 5)), (plain, None)):
        column = one.add_tag(prior)
        one.rows.labels[:20:2, column] = HAS
        one.update_tag(column)
    np.testing.assert_array_equal(incremental.rows.raw, plain.rows.raw)
