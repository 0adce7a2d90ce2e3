"""One row of stages: in memory and out-of-core it leaves the same record."""

from __future__ import annotations

import inspect
import shutil

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from prototag import recommended
from prototag.evaluation import ranking
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.research.datasets import planted
from prototag.tagging.in_memory import InMemory
from prototag.tagging.incremental.fit_state import FitState
from prototag.tagging.out_of_core.steps import OutOfCore

N, T = 500, 9
OPTIONS = {"pilot": 200, "n_components": 25}


@pytest.fixture(scope="module")
def data():
    made = planted(n=N + 100, t=T, k=40, m=80, noise=0.5, random_state=0)
    return np.asarray(made.X, np.float32), sparse.csr_array(made.Y)


@pytest.fixture(scope="module", params=["in memory", "out-of-core"])
def out_of_core(request):
    return request.param == "out-of-core"


@pytest.fixture(scope="module")
def fitted(data, out_of_core, tmp_path_factory):
    X, Y = data
    work = tmp_path_factory.mktemp("fit") / "work"
    model = recommended(n_prototypes=150, out_of_core=out_of_core, **OPTIONS)
    model.fit(X[:N], Y[:N], work=work)
    shutil.rmtree(work, ignore_errors=True)  # the result reads nothing from it
    return model


def test_a_result_has_consistent_fields(fitted, data, out_of_core):
    Y = data[1][:N]
    result = fitted.result_
    k = len(result.model.prototypes)
    assert result.feature_groups == ((80, 1.0),)
    assert result.prototype_images.shape == (k,)
    assert 0 <= result.prototype_images.min() <= result.prototype_images.max() < N
    assert result.landmarks_are_prototypes is not out_of_core
    assert result.n_examples == N
    assert_array_equal(result.group_of, np.arange(N))
    assert_array_equal(result.positives, Y.sum(axis=0))
    held_out = result.held_out
    assert_array_equal(held_out.labels.toarray(), Y[held_out.images].toarray())
    assert held_out.raw.shape == held_out.probabilities.shape == held_out.labels.shape
    assert_array_equal(held_out.corrected, correct_loo_bias(held_out.labels, held_out.raw))
    assert_allclose(result.auc, ranking.tag_auc(held_out.labels.toarray() > 0, held_out.corrected))
    assert set(result.prototype_images.tolist()) <= set(result.gallery_images.tolist())
    assert result.gallery_raw.shape == (len(result.gallery_images), T)
    at = np.searchsorted(result.gallery_images, held_out.images)
    assert_array_equal(result.gallery_raw[at], held_out.raw)
    assert_array_equal(result.oof_scores[held_out.images], held_out.raw * result.model.tag_scale)
    assert (result.stages is None) is out_of_core


def test_labels_of_an_image_do_not_reach_its_own_evidence(data, out_of_core):
    """Labels without meaning rank training images, which the model has seen, but no others."""
    X = data[0][:N]
    Y = (np.random.default_rng(0).random((N, T)) < 0.2).astype(int)
    model = recommended(n_prototypes=150, out_of_core=out_of_core, **OPTIONS).fit(X, Y)
    assert abs(model.result_.auc.mean() - 0.5) < 0.06
    assert ranking.tag_auc(Y > 0, model.model_.raw(X)).mean() > 0.7


def test_what_is_prepared_serves_two_fits(data, out_of_core):
    X, Y = data
    unknown = None if out_of_core else np.random.default_rng(0).random((N, T)) < 0.1
    model = recommended(n_prototypes=150, out_of_core=out_of_core, **OPTIONS)
    prepared = model.prepare(X[:N], Y[:N], unlabeled=unknown)
    first = model.fit_prepared(prepared).decision_function(X[N:])
    assert_array_equal(model.fit_prepared(prepared).decision_function(X[N:]), first)


def test_both_implementations_have_the_same_stages():
    def signatures(kind):
        public = inspect.getmembers(kind, inspect.isfunction)
        return {n: list(inspect.signature(f).parameters) for n, f in public if n[0] != "_"}

    one, other = signatures(InMemory), signatures(OutOfCore)
    assert one == other


def test_an_update_continues_fits_in_memory_only(fitted, data, out_of_core):
    X = data[0][:N]
    if out_of_core:
        with pytest.raises(ValueError, match="out-of-core"):
            FitState.from_fit(fitted.result_, X)
    else:
        assert FitState.from_fit(fitted.result_, X).raw.shape == (N, T)
