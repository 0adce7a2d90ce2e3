"""Prototypes that are images: nothing an image is judged by has seen it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import parametrize_with_checks

import prototag
from prototag import ExemplarMCDL
from prototag.coding.coder import Coder
from prototag.evaluation import metrics
from prototag.research.datasets import planted


# One check takes it for granted that tags are given where decision_function is above zero.
@parametrize_with_checks(
    [
        ExemplarMCDL(threshold=0.0, random_state=0),
        ExemplarMCDL(0.5, rho=1.0, threshold=0.0, random_state=0),
    ]
)
def test_scikit_learn_rules(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return planted(n=300, t=10, k=24, m=16, missing=0.1, random_state=0)


@pytest.mark.parametrize("k", [300, 220, 40])
def test_an_image_never_uses_the_prototype_that_it_became(data, k):
    """Coded over all but its own is what it would be were its own not there."""
    chosen = np.arange(k)
    own = np.where(np.arange(300) < k, np.arange(300), -1)
    D = data.X[chosen]
    codes = Coder(D, max_nonzeros=20).encode(data.X, excluded=own).codes.toarray()
    assert not codes[chosen, chosen].any()
    for image in (0, 7, k - 1, 299):
        rest = chosen[chosen != image]
        expected = Coder(data.X[rest], max_nonzeros=20).encode(data.X[image : image + 1]).codes
        assert_allclose(codes[image, rest], expected.toarray()[0], atol=1e-4)


def test_stored_semantics_score_held_out_images_by_the_tags_of_others(data):
    model = ExemplarMCDL(rho=None, spread=0.0, random_state=0).fit(data.X, data.Y)
    assert_array_equal(model.semantic_prototypes_.toarray(), data.Y.toarray())
    codes = Coder(data.X).encode(data.X, excluded=np.arange(300)).codes
    assert_allclose(model.out_of_fold_scores_, codes @ data.Y.toarray(), atol=1e-5)


@pytest.mark.parametrize("k", [1.0, 60])
def test_own_tags_do_not_reach_own_scores(data, k):
    """With other tags for one image its scores change at most by what others learn from it."""
    Y = data.Y.toarray()
    before = ExemplarMCDL(k, rho=1.0, random_state=0).fit(data.X, Y)
    Y[5] = 1 - Y[5]
    after = ExemplarMCDL(k, rho=1.0, random_state=0).fit(data.X, Y)
    change = np.abs(after.out_of_fold_scores_ - before.out_of_fold_scores_)
    assert change[5].max() < 0.05
    assert np.delete(change, 5, axis=0).max() > 0.1 or k != 1.0


def test_out_of_fold_f1_is_what_new_images_get():
    data = planted(n=1500, t=12, k=40, m=20, noise=0.5, random_state=3)
    train, test = slice(0, 1000), slice(1000, None)
    model = ExemplarMCDL(random_state=0).fit(data.X[train], data.Y[train])
    promised = metrics.f1_of_means(data.Y[train], model.out_of_fold_scores_ > model.threshold_)
    assert abs(promised - model.score(data.X[test], data.Y[test])) < 0.05
    assert model.score(data.X[test], data.Y[test]) > 0.5


def test_rare_tags_have_thresholds_near_the_global_one(data):
    one = ExemplarMCDL(rho=None, threshold="global", random_state=0).fit(data.X, data.Y)
    each = ExemplarMCDL(rho=None, random_state=0).fit(data.X, data.Y)
    assert each.threshold_.shape == (10,)
    assert np.abs(each.threshold_ - one.threshold_).max() < 1


def test_model_file_keeps_it(data, tmp_path):
    model = ExemplarMCDL(0.4, random_state=0).fit(data.X, data.Y)
    model.save(tmp_path / "model.prototag")
    again = prototag.load(tmp_path / "model.prototag")
    assert isinstance(again, ExemplarMCDL)
    assert_array_equal(again.decision_function(data.X), model.decision_function(data.X))
    assert_array_equal(again.predict(data.X).toarray(), model.predict(data.X).toarray())
    assert_array_equal(again.prototype_images_, model.prototype_images_)
    assert (again.rho_, again.spread_) == (model.rho_, model.spread_)


def test_one_image_is_not_enough():
    with pytest.raises(ValueError, match="two or more"):
        ExemplarMCDL().fit(np.ones((1, 3)), [[1, 0]])


def test_learning_lowers_the_objective_and_is_reported(data):
    told = []
    model = ExemplarMCDL(rho=1.0, spread=0.0, progress=told.append, random_state=0).fit(
        data.X, data.Y
    )
    before, after = model.objective_["total"]
    assert after < before
    assert [event.stage for event in told] == ["Learning prototypes"]
    loss = model.objective_["loss"][1] + model.objective_["sparsity"][1]
    assert_allclose(model.tag_objective_.sum(), loss, rtol=1e-5)
    assert 0 <= model.codes_gap_ <= 1e-5


def test_spread_tags_leave_out_what_comes_back(data):
    """Its twin: each image scored over the others, whose semantics never saw its tags."""
    model = ExemplarMCDL(rho=None, spread=0.4, random_state=0).fit(data.X, data.Y)
    codes = Coder(data.X, max_nonzeros=25).encode(data.X, excluded=np.arange(300)).codes.toarray()
    Y = data.Y.toarray()
    for image in (0, 17, 299):
        blind = Y.copy()
        blind[image] = 0
        semantics = 0.6 * blind + 0.4 * codes @ blind
        assert_allclose(model.out_of_fold_scores_[image], codes[image] @ semantics, atol=0.01)


def test_forgotten_tags_are_found_among_images_that_look_alike():
    data = planted(n=900, t=10, k=25, m=20, noise=0.5, missing=0.4, random_state=1)
    train, test = slice(0, 600), slice(600, None)
    found = {}
    for spread in (0.0, "auto"):
        model = ExemplarMCDL(spread=spread, random_state=0).fit(data.X[train], data.Y[train])
        scores = model.decision_function(data.X[test])
        found[spread] = metrics.mean_average_precision(data.Y_true[test], scores)
    assert model.spread_ > 0
    assert found["auto"] > found[0.0] + 0.01
