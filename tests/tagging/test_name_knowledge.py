"""Laws of learning with names: closed forms equal refits, and only evidence gives weight."""

from __future__ import annotations

import numpy as np
import pytest

import oracles
from prototag import load, recommended
from prototag.annotator.operating_points import OperatingPoints
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.evaluation.ranking import average_precision
from prototag.knowledge.concepts import (
    WIDTH,
    NamePrior,
    embedded,
    name_prior,
    name_scores,
)
from prototag.storage import modelfile
from prototag.tagging.model import TagModel
from prototag.tagging.name_knowledge import (
    FOLDS,
    WeightPrior,
    fit_weights,
    held_out_name_scores,
    posterior_weight,
    standardized_prior,
)

M, TAGS, NEW = 40, 10, 800
FIXED = {"gamma": 1.0, "strength": 0.5}
KERNEL_ALONE = {**FIXED, "kernel_share": 1.0}


def drawn(n, seed=0, t=TAGS):
    """Images, noisy linear tags, and directions that are like those of the tags."""
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(77)
    mixing = truth.standard_normal((12, M))
    X = rng.standard_normal((n + NEW, 12)) @ mixing + 0.5 * rng.standard_normal((n + NEW, M)) + 1
    directions = truth.standard_normal((M, t))
    signal = (X - 1) @ directions
    signal /= np.linalg.norm(mixing @ directions, axis=0)
    limit = truth.uniform(0.5, 1.3, t)
    Y = signal + 0.4 * rng.standard_normal(signal.shape) > limit
    Y[:2] = [[True], [False]]  # never all or none
    known = directions + 0.7 * truth.standard_normal(directions.shape)
    prior = NamePrior(known.astype("f4"), truth.standard_normal(t).astype("f4"))
    return X[:n].astype("f4"), Y[:n], X[n:].astype("f4"), Y[n:], prior


def mean_ap(model, X, Y):
    return float(average_precision(Y.astype(float), model.model_.raw(X)).mean())


# -- held-out scores -------------------------------------------------------------------------------


def evidence_of(model):
    stages = model.result_.stages
    kernel_weight = stages.mixed.kernel_share
    regression = stages.kernel_ridge.names
    return stages, regression, regression.scores - kernel_weight * regression.loo_scores


def fold_weights(task_seed, T, scores, features):
    """The weights that each image is scored with: those of the other folds, by the slow twin."""
    n = len(T)
    fold = np.random.default_rng(task_seed).permutation(n) % min(FOLDS, n)
    weights = np.empty(T.shape)
    for number in range(fold.max() + 1):
        outside = fold != number
        everything = np.ones((outside.sum(), T.shape[1]), bool)
        weights[~outside] = oracles.name_weights(
            T[outside], scores[outside], features[outside], everything
        )[0]
    return weights


def test_held_out_scores_equal_refits_without_each_image():
    X, Y, _, _, prior = drawn(48)
    tagger = recommended(**KERNEL_ALONE)
    prepared = tagger.prepare(X, Y, groups=np.arange(48), name_prior=prior)
    tagger.fit_prepared(prepared)
    stages, regression, features = evidence_of(tagger)
    kernel = stages.kernel_ridge.kernel
    T = np.asarray(stages.targets, np.float64)
    without = stages.kernel_ridge.loo_scores
    weights = fold_weights(prepared.task.seed, T, without, features)
    assert (weights.max(axis=0) > 0.05).any()
    expected = oracles.held_out_with_names(
        stages.reduced.vectors, T, regression.scores, weights, kernel.gamma, kernel.strength
    )
    np.testing.assert_allclose(stages.mixed.scores, expected, atol=2e-4)


def test_weights_equal_the_slow_twin():
    rng = np.random.default_rng(0)
    for n, t in ((30, 12), (200, 1), (50, 40)):
        T = (rng.random((n, t)) < 0.2).astype("f4")
        features = rng.standard_normal((n, t)).astype("f4")
        features[:, 0] *= 0 if t > 1 else 1  # a name without words
        scores = (0.3 * T + 0.1 * rng.standard_normal((n, t)) - 0.2 * features).astype("f4")
        for labeled in (np.ones((n, t), bool), rng.random((n, t)) < 0.6):
            weights, prior = fit_weights(T, scores, features, labeled)
            expected, mean, variance = oracles.name_weights(
                *(np.asarray(part, np.float64) for part in (T, scores, features)), labeled
            )
            informative = (features * labeled).any(axis=0)
            np.testing.assert_allclose(weights[informative], expected[informative], atol=1e-5)
            assert prior.mean == pytest.approx(mean, abs=1e-5)
            assert prior.variance == pytest.approx(variance, abs=1e-5)


def test_the_weight_of_one_tag_equals_that_among_all():
    rng = np.random.default_rng(1)
    T = (rng.random((80, 6)) < 0.3).astype("f4")
    features = rng.standard_normal(T.shape).astype("f4")
    scores = (0.2 * T - 0.1 * features).astype("f4")
    labeled = rng.random(T.shape) < 0.5
    weights, prior = fit_weights(T, scores, features, labeled)
    for tag in range(6):
        one = posterior_weight(T[:, tag], scores[:, tag], features[:, tag], prior, labeled[:, tag])
        assert one == pytest.approx(weights[tag], abs=1e-6)


def test_a_tag_without_labels_has_the_weight_of_all():
    prior = WeightPrior(0.6, 0.04)
    nothing = np.zeros(50, "f4")
    features = np.random.default_rng(0).standard_normal(50).astype("f4")
    weight = posterior_weight(nothing, nothing, features, prior, np.zeros(50, bool))
    assert weight == pytest.approx(0.6 * np.sqrt(0.02 * 0.98), rel=1e-4)


def test_unlabeled_pairs_are_no_evidence():
    rng = np.random.default_rng(2)
    T = (rng.random((60, 5)) < 0.3).astype("f4")
    features, scores = rng.standard_normal((2, 60, 5)).astype("f4")
    labeled = rng.random(T.shape) < 0.7
    other_features, other_scores = features.copy(), scores.copy()
    other_features[~labeled] = 100
    other_scores[~labeled] = -100
    ours = fit_weights(T, scores, features, labeled)
    theirs = fit_weights(T, other_scores, other_features, labeled)
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[1] == theirs[1]
    held_out = held_out_name_scores(T, scores, features, labeled, 0)
    changed = held_out_name_scores(T, other_scores, other_features, labeled, 0)
    np.testing.assert_array_equal(held_out[labeled], changed[labeled])


def test_an_image_has_no_part_in_the_weights_that_it_is_scored_with():
    rng = np.random.default_rng(3)
    T = (rng.random((40, 4)) < 0.3).astype("f4")
    features, scores = rng.standard_normal((2, 40, 4)).astype("f4")
    before = held_out_name_scores(T, scores, features, None, 7)
    for row in (0, 11, 39):
        inverted = T.copy()
        inverted[row] = 1 - inverted[row]
        after = held_out_name_scores(inverted, scores, features, None, 7)
        np.testing.assert_array_equal(after[row], before[row])
        assert (after != before).any()


def test_inverting_the_labels_of_an_image_does_not_move_its_own_held_out_scores():
    """With given hyperparameters only the weights of the other folds can move, by a little."""
    X, Y, _, _, prior = drawn(120)
    options = {**KERNEL_ALONE, "level": 0.0, "boost": 0.0}

    def held_out(labels):
        fitted = recommended(**options).fit(X, labels, groups=np.arange(120), name_prior=prior)
        return fitted.result_.stages.mixed.scores

    before = held_out(Y)
    spread = before.std(axis=0)
    for row in (5, 60, 119):
        inverted = Y.copy()
        inverted[row] = ~inverted[row]
        after = held_out(inverted)
        assert (abs(after[row] - before[row]) / spread).max() < 0.15
        others = np.delete(np.arange(120), row)
        assert (abs(after[others] - before[others]) / spread).max() > 0.3


# -- the model -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [KERNEL_ALONE, {**FIXED, "kernel_share": 0.6}, {}])
def test_scores_are_names_plus_the_kernel_regression_of_the_rest(options):
    X, Y, new, _, prior = drawn(150)
    model = recommended(**options).fit(X, Y, name_prior=prior)
    plain = recommended(**options).fit(X, Y)
    stages = model.result_.stages
    regression, names = stages.kernel_ridge.names, stages.mixed.names
    assert names.weights.max() > 0.05
    a = names.weights.astype(np.float64)
    vectors = model.model_.vectors(new).astype(np.float64)
    kernel = stages.kernel_ridge.kernel
    examples = stages.reduced.vectors.astype(np.float64)
    residual = stages.targets - a * regression.scores
    of_rest = oracles.refit_kernel_ridge(examples, residual, kernel.gamma, kernel.strength, vectors)
    of_names = a * (new.astype(np.float64) @ regression.prior.coef + regression.prior.intercept)
    kernel_weight = stages.mixed.kernel_share
    # The other parts are those of the model without names.
    assert plain.choices_["gamma"] == model.choices_["gamma"]
    assert plain.choices_["kernel_share"] == model.choices_["kernel_share"]
    of_targets = (
        rbf_kernel_with_constant(vectors.astype("f4"), plain.model_.kernel.landmarks, kernel.gamma)
        @ plain.model_.kernel.dual
    )
    others = plain.model_.raw(new) - kernel_weight * of_targets
    expected = others + kernel_weight * of_rest + of_names
    found = model.model_.raw(new)
    np.testing.assert_allclose(found, expected, atol=3e-4)


def test_a_zero_prior_gives_the_scores_without_names():
    X, Y, new, _, _ = drawn(150)
    nothing = NamePrior(np.zeros((M, TAGS), "f4"), np.zeros(TAGS, "f4"))
    with_prior = recommended().fit(X, Y, name_prior=nothing)
    without = recommended().fit(X, Y)
    np.testing.assert_allclose(with_prior.model_.raw(new), without.model_.raw(new), atol=2e-5)
    np.testing.assert_allclose(
        with_prior.result_.held_out.raw, without.result_.held_out.raw, atol=2e-5
    )
    assert with_prior.choices_["names"] == 0
    constant = NamePrior(nothing.coef, np.full(TAGS, 3, "f4"))  # says the same of every image
    fitted = recommended().fit(X, Y, name_prior=constant)
    np.testing.assert_allclose(fitted.model_.raw(new), without.model_.raw(new), atol=2e-5)


def test_units_of_the_prior_do_not_matter_much():
    """Only where its deviation is small: such names are like no concept, and are trusted less."""
    X, Y, new, true, prior = drawn(100)
    values = [
        mean_ap(
            recommended().fit(X, Y, name_prior=NamePrior(prior.coef * s, prior.intercept * s)),
            new,
            true,
        )
        for s in (1.0, 10.0, 100.0)
    ]
    assert np.ptp(values) < 0.01


def test_standardized_scores_have_mean_0_and_deviation_of_at_most_1():
    X, _, _, _, prior = drawn(200)
    scores = name_scores(standardized_prior(prior, X), X)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-4)
    assert ((scores.std(axis=0) > 0.9) & (scores.std(axis=0) < 1)).all()
    weak = NamePrior(prior.coef * np.float32(1e-3), prior.intercept)
    assert name_scores(standardized_prior(weak, X), X).std(axis=0).max() < 0.3


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_very_few_images_are_learned_with_names(n):
    X, Y, new, _, prior = drawn(n)
    model = recommended().fit(X, Y, groups=np.arange(n), name_prior=prior)
    assert np.isfinite(model.model_.raw(new)).all()
    assert np.isfinite(model.result_.held_out.raw).all()


def test_prototypes_that_are_means_learn_with_names():
    X, Y, new, true, prior = drawn(120)
    options = {"n_prototypes": 40}
    ours = recommended(**options).fit(X, Y, name_prior=prior)
    theirs = recommended(**options).fit(X, Y)
    assert len(ours.model_.prototypes) == 40
    assert ours.choices_["names"] > 0.1
    assert mean_ap(ours, new, true) > mean_ap(theirs, new, true)


def test_classes_take_names_in_the_order_of_their_columns():
    X, Y, new, true, prior = drawn(120)
    classes = np.where(Y[:, 0], "zebra", "ant")
    one = NamePrior(np.hstack([-prior.coef[:, :1], prior.coef[:, :1]]), np.zeros(2, "f4"))
    model = recommended().fit(X, classes, name_prior=one)
    assert model.classes_.tolist() == ["ant", "zebra"]
    assert model.choices_["names"] > 0
    assert average_precision(true[:, :1].astype(float), model.model_.raw(new)[:, 1:])[0] > 0.6


def test_a_model_file_holds_the_scores_with_names(tmp_path):
    X, Y, new, _, prior = drawn(100)
    model = recommended().fit(X, Y, name_prior=prior)
    model.save(tmp_path / "model")
    header, _ = modelfile.read(tmp_path / "model")
    assert header["choices"]["names"] == model.choices_["names"] > 0
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.model_.raw(new), model.model_.raw(new))
    np.testing.assert_array_equal(again.probabilities(new), model.probabilities(new))
    parts = model.model_.to_arrays()
    same = TagModel.from_arrays(*parts)
    np.testing.assert_array_equal(same.raw(new), model.model_.raw(new))


def test_explanations_sum_to_scores_with_names():
    X, Y, new, _, prior = drawn(100)
    model = recommended().fit(X, Y, name_prior=prior)
    scores = model.decision_function(new[:5])
    for row, parts in enumerate(model.explain(new[:5], model.classes_)):
        for part in parts:
            column = int(np.flatnonzero(model.classes_ == part.tag)[0])
            assert part.score == pytest.approx(scores[row, column], abs=1e-5)
            assert part.rest + part.shares.sum() == pytest.approx(part.score, abs=1e-4)


# -- what names are worth --------------------------------------------------------------------------


def shuffled(prior, shift=3):
    order = np.roll(np.arange(prior.coef.shape[1]), shift)
    return NamePrior(prior.coef[:, order], prior.intercept[order])


@pytest.mark.parametrize(("n", "least"), [(30, 0.06), (100, 0.01)])
def test_names_that_mean_something_help_and_others_do_no_harm(n, least):
    gain, harm = [], []
    for seed in range(4):
        X, Y, new, true, prior = drawn(n, seed)
        noise = np.random.default_rng(seed).standard_normal(prior.coef.shape).astype("f4")
        alone = mean_ap(recommended().fit(X, Y), new, true)
        gain.append(mean_ap(recommended().fit(X, Y, name_prior=prior), new, true) - alone)
        for useless in (shuffled(prior), NamePrior(noise, prior.intercept)):
            fitted = recommended().fit(X, Y, name_prior=useless)
            harm.append(mean_ap(fitted, new, true) - alone)
    assert np.mean(gain) > least
    assert min(gain) > 0
    assert abs(np.mean(harm)) < 0.01
    assert min(harm) > -0.03


def test_one_misleading_name_among_good_ones_does_little_harm():
    X, Y = photographs(300, 0)
    new, true = photographs(500, 1)
    prior = name_prior(WORDS, WIDTH)
    coef = prior.coef.copy()
    coef[:, 4] *= -1  # says the opposite
    model = recommended().fit(X, Y, name_prior=NamePrior(coef, prior.intercept))
    alone = recommended().fit(X, Y)
    weights = model.result_.stages.mixed.names.weights
    assert weights[4] < 0.3 * np.median(weights)
    ours = average_precision(true.astype(float), model.model_.raw(new))
    theirs = average_precision(true.astype(float), alone.model_.raw(new))
    assert ours[4] > theirs[4] - 0.02
    assert ours.mean() > theirs.mean()


# -- names of the package --------------------------------------------------------------------------

WORDS = ["beach", "mountain", "car", "dog", "snow", "kitchen", "train", "sunset"]
TRANSLATED = ["пляж", "山", "voiture", "Hund", "neige", "Küche", "tren", "закат"]
INVENTED = ["Rex", "2019", "IMG_2041", "Anna", "xqzv", "🏖️", "bar", "misc"]


def photographs(n, seed):
    """Vectors that vary as the knowledge expects, and tags that their words describe."""
    rng = np.random.default_rng(seed)
    heads = embedded()
    axes = (heads.axes.astype("f4") * heads.axis_scale)[:, :200]
    length = np.linalg.norm(axes, axis=0)
    coordinates = rng.standard_normal((n, 200)) * np.linspace(6, 1, 200) / length
    X = heads.mean + heads.scale * (coordinates @ axes.T + 0.05 * rng.standard_normal((n, WIDTH)))
    X = X.astype("f4")
    scores = name_scores(standardized_prior(name_prior(WORDS, WIDTH), X), X)
    return X, scores + 0.5 * rng.standard_normal(scores.shape) > 1.0


def test_names_are_used_for_default_vectors_in_any_language():
    X, Y = photographs(60, 0)
    Y[:2] = [[True], [False]]
    new, true = photographs(500, 1)
    alone = mean_ap(recommended().fit(X, Y), new, true)
    english = mean_ap(recommended(tag_names=WORDS).fit(X, Y), new, true)
    assert english > alone + 0.05
    translated = mean_ap(recommended(tag_names=TRANSLATED).fit(X, Y), new, true)
    assert translated - alone > 0.75 * (english - alone)
    invented = mean_ap(recommended(tag_names=INVENTED).fit(X, Y), new, true)
    assert abs(invented - alone) < 0.03


def test_names_must_be_as_many_as_tags_and_have_no_effect_on_other_vectors():
    X, Y, new, _, _ = drawn(60)
    with pytest.raises(ValueError, match="tag_names has 2 names for 10 tags"):
        recommended(tag_names=["dog", "cat"]).fit(X, Y)
    named = recommended(tag_names=[*WORDS, "cat", "boat"]).fit(X, Y)
    np.testing.assert_array_equal(named.model_.raw(new), recommended().fit(X, Y).model_.raw(new))


@pytest.mark.parametrize("n", [30, 100, 300])
@pytest.mark.parametrize(
    "names", [WORDS, TRANSLATED, INVENTED], ids=["real", "other alphabets", "invented"]
)
def test_random_tags_with_names_are_not_applied(n, names):
    applied, f1, chance = 0, [], []
    for seed in range(2):
        X, _ = photographs(n + 200, 10 + seed)
        Y = np.random.default_rng(1000 + seed).random((n, len(names))) < 0.3
        Y[:2] = [[True], [False]]
        model = recommended(pilot=60, tag_names=names).fit(X[:n], Y)
        points = OperatingPoints.from_fit(model.result_)
        p = model.probabilities(X[n:])
        applied += ((p >= points.default_threshold) & points.learnable).sum()
        f1.append(model.choices_["out_of_fold_f1"])
        share = float(Y.mean())
        chance.append(2 * share / (1 + share))
    assert applied == 0
    assert np.mean(f1) < np.mean(chance) + 0.05
