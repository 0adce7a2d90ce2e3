"""Learning block by block: the same whoever runs it and wherever vectors lie; fair to itself."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from prototag import ExemplarMCDL, recommended
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import Threads
from prototag.errors import InputError
from prototag.evaluation import metrics
from prototag.research.datasets import planted
from prototag.storage.npy_rows import StoredRows
from prototag.tagging import calibration
from prototag.tagging.out_of_core import features, landmark_ridge, prototypes, stage_cache

OPTIONS = {
    "pilot": 300,
    "out_of_core": True,
    "n_components": 40,
}


@pytest.fixture(scope="module")
def data():
    return planted(n=1600, t=12, k=60, m=48, noise=0.5, random_state=0)


@pytest.fixture(scope="module")
def halves(data):
    X, Y = np.asarray(data.X, np.float32), sparse.csr_array(data.Y)
    return X[:1200], Y[:1200], X[1200:], Y[1200:]


@pytest.fixture(scope="module")
def model(halves):
    return recommended(n_prototypes=300, **OPTIONS).fit(*halves[:2])


def stored(folder, X):
    paths = []
    for start in range(0, len(X), 500):
        paths.append(folder / f"{start}.npy")
        np.save(paths[-1], X[start : start + 500])
    return StoredRows.from_files(paths)


def same(one, other, X):
    assert_array_equal(one.decision_function(X), other.decision_function(X))
    assert_array_equal(one.threshold_, other.threshold_)
    assert one.choices_ == other.choices_


@pytest.mark.bits
@pytest.mark.parametrize("where", ["threads", "files"])
def test_results_are_bit_identical_on_all_engines_and_storages(halves, model, where, tmp_path):
    X, Y, new, _ = halves
    for module, name in ((features, "ROW_BATCH"), (prototypes, "ROW_BATCH")):
        assert getattr(module, name) > len(X)  # one block here; several below, on one machine
    given = stored(tmp_path, X) if where == "files" else X
    other = recommended(n_prototypes=300, n_jobs=2, **OPTIONS).fit(given, Y)
    same(model, other, new)


def test_several_blocks_give_nearly_the_same(halves, model, monkeypatch):
    from prototag.tagging.out_of_core import calibration as ooc_calibration
    from prototag.tagging.out_of_core import kmeans, oof_scores

    for module, name in [
        (features, "ROW_BATCH"),
        (features, "SUM_BATCH"),
        (prototypes, "ROW_BATCH"),
        (prototypes, "SUM_BATCH"),
        (kmeans, "SUM_BATCH"),
        (kmeans, "DISTANCE_BATCH"),
        (landmark_ridge, "SUM_BATCH"),
        (landmark_ridge, "KERNEL_BATCH"),
        (oof_scores, "ROW_BATCH"),
        (ooc_calibration, "SUM_BATCH"),
    ]:
        monkeypatch.setattr(module, name, 150)
    monkeypatch.setattr(ooc_calibration, "MAX_BATCH_TAGS", 5)
    X, Y, new, _ = halves
    one = recommended(n_prototypes=300, **OPTIONS).fit(X, Y)
    two = recommended(n_prototypes=300, n_jobs=2, **OPTIONS).fit(X, Y)
    same(one, two, new)
    assert_allclose(one.decision_function(new), model.decision_function(new), atol=2e-3)


def test_it_is_about_as_good_as_all_in_memory(halves, model):
    X, Y, new, true = halves
    whole = recommended(pilot=300, n_components=40).fit(X, Y)
    found = [metrics.mean_average_precision(true, m.decision_function(new)) for m in (model, whole)]
    assert found[0] > found[1] - 0.03
    assert abs(model.choices_["out_of_fold_map"] - found[0]) < 0.06
    f1 = metrics.f1_of_means(true, model.predict(new))
    assert abs(model.choices_["out_of_fold_f1"] - f1) < 0.08


def test_probabilities_hold_for_new_images(halves, model):
    _, _, new, true = halves
    probability = model.probabilities(new)
    likely = probability > 0.5
    assert likely.sum() > 100
    assert abs(probability[likely].mean() - true.toarray()[likely].mean()) < 0.08


def test_random_tags_are_estimated_at_chance(halves):
    X = halves[0]
    Y = np.random.default_rng(0).random((len(X), 12)) < 0.05
    learned = recommended(n_prototypes=300, **OPTIONS).fit(X, Y)
    assert learned.choices_["out_of_fold_map"] < 0.1
    assert learned.choices_["out_of_fold_f1"] < 0.15
    assert learned.probabilities(X[:200]).max() < 0.35


class Stopped(Exception):
    pass


STAGES = [
    "moments",
    "reduced",
    "prototypes",
    "codes",
    "rho",
    "semantics",
    "semantics-0",
    "semantics-1",
    "semantics-2",
    "kernel",
    "share",
    "mixed",
    "counts",
]


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupted_fit_resumes_from_its_last_stage(
    halves, model, tmp_path, monkeypatch, stage
):
    X, Y, new, _ = halves
    begin, begun = stage_cache.StageCache._begin_stage, []

    def stops(self, name):
        begun.append(name)
        path = begin(self, name)
        if name == stage:
            raise Stopped
        return path

    monkeypatch.setattr(stage_cache.StageCache, "_begin_stage", stops)
    with pytest.raises(Stopped):
        recommended(n_prototypes=300, **OPTIONS).fit(X, Y, work=tmp_path / "work")
    assert begun == STAGES[: STAGES.index(stage) + 1]
    begun.clear()
    stage, first = None, stage
    other = recommended(n_prototypes=300, **OPTIONS).fit(X, Y, work=tmp_path / "work")
    assert begun == STAGES[STAGES.index(first) :]
    same(model, other, new)


def test_a_folder_of_another_fit_is_refused(halves, tmp_path):
    X, Y, _, _ = halves
    work = tmp_path / "work"
    recommended(n_prototypes=300, **OPTIONS).fit(X, Y, work=work)
    with pytest.raises(InputError, match="is the work folder of another fit"):
        recommended(n_prototypes=200, **OPTIONS).fit(X, Y, work=work)
    with pytest.raises(InputError, match="is the work folder of another fit"):
        recommended(n_prototypes=300, **{**OPTIONS, "pilot": 200}).fit(X, Y, work=work)
    with pytest.raises(InputError, match="is the work folder of another fit"):
        recommended(n_prototypes=300, **OPTIONS).fit(-X, Y, work=work)
    (work / "fit.json").write_text("{")
    with pytest.raises(InputError, match="is the work folder of another fit"):
        recommended(n_prototypes=300, **OPTIONS).fit(X, Y, work=work)
    (work / "fit.json").unlink()
    with pytest.raises(InputError, match="is not empty"):
        recommended(n_prototypes=300, **OPTIONS).fit(X, Y, work=work)


def test_the_stage_cache_records_its_fit(halves, tmp_path):
    X, Y, _, _ = halves
    recommended(n_prototypes=300, **OPTIONS).fit(X, Y, work=tmp_path)
    said = json.loads((tmp_path / "fit.json").read_text())
    assert said["recipe"]["n_prototypes"] == "300"
    assert not list(tmp_path.glob("*.part"))


def gathered(X, Y, tmp_path):
    options = {"labels": False, "pilot": 300, "seed": 0, "engine": Threads()}
    return features.gather(X, Y, stage_cache=stage_cache.StageCache(tmp_path).resume({}), **options)


def test_nobody_is_coded_over_what_he_became(halves, tmp_path):
    X, Y, _, _ = halves
    collection = gathered(X, Y, tmp_path)
    x = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    found = prototypes.learn_prototypes(collection, x, 200)
    assert_array_equal(found.fold, collection.folds[found.image])
    codes, certificate = prototypes.encode(collection, x, found, ExemplarMCDL().settings().codes)
    assert certificate.gap < 1e-5
    rows = np.repeat(np.arange(len(x)), np.diff(codes.indptr))
    assert (collection.folds[rows] != found.fold[codes.indices]).all()
    assert np.diff(codes.indptr).min() > 0
    # Tags of the images of one fold do not reach the prototypes of another.
    other = sparse.csr_array(Y.toarray() * (collection.folds != 0)[:, None])
    changed = prototypes.learn_prototypes(replace(collection, Y=other), x, 200)
    assert_array_equal(changed.tags[found.fold != 0], found.tags[found.fold != 0])


def test_neighbours_in_the_list_are_of_one_fold(halves, tmp_path):
    collection = gathered(*halves[:2], tmp_path)
    assert all(len(set(collection.folds[i : i + 64])) == 1 for i in range(0, 1200, 64))
    assert set(collection.folds) == set(range(features.N_FOLDS))


def test_scores_of_held_out_images_are_those_of_a_regression_without_them(halves, tmp_path):
    """By brute force: the same landmarks, and all images but one."""
    X, Y, _, _ = halves
    short = (X[:200] / np.linalg.norm(X[:200], axis=1, keepdims=True)).astype(np.float32)
    collection = gathered(short, Y[:200], tmp_path)
    smooth = landmark_ridge.learn(collection, short, 1.0, 0.5, 40)
    found = landmark_ridge.loo_scores(short, Y[:200], smooth)
    marks = smooth.kernel.landmarks
    inner = rbf_kernel_with_constant(marks, marks, 1.0).astype(
        float
    ) + landmark_ridge.KERNEL_JITTER * np.eye(len(marks))
    K, T = rbf_kernel_with_constant(short, marks, 1.0).astype(float), Y[:200].toarray()
    for image in (0, 17, 199):
        rest = np.arange(200) != image
        dual = np.linalg.solve(K[rest].T @ K[rest] + 0.5 * inner, K[rest].T @ T[rest])
        assert_allclose(found[image], K[image] @ dual, atol=2e-3)


def test_counts_calibrate_as_scores_do():
    rng = np.random.default_rng(0)
    true = rng.random((4000, 6)) < 0.1
    scores = (rng.standard_normal(true.shape) * 0.2 + true * 0.5).astype(np.float32)
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, 2000)))
    place = np.searchsorted(edges, scores, side="right")
    count = [np.bincount(column, minlength=2001) for column in place.T]
    right = [np.bincount(p[t], minlength=2001) for p, t in zip(place.T, true.T, strict=True)]
    middle = np.bincount(place.ravel(), scores.ravel(), 2001)
    middle /= np.maximum(np.bincount(place.ravel(), minlength=2001), 1)
    middle[0] = edges[0]
    by_counts = calibration.fit_counts(middle, np.array(count), np.array(right))
    by_scores = calibration.fit(true, scores)
    apart = np.abs(by_counts(scores) - by_scores(scores))  # groups end in other places
    assert apart.mean() < 0.003
    assert apart.max() < 0.06


def test_labels_and_tags_that_never_occur(halves):
    X, Y, new, _ = halves
    label = np.asarray(Y.toarray().argmax(axis=1))
    found = recommended(n_prototypes=300, **OPTIONS).fit(X, label)
    assert set(found.predict(new)) <= set(label)
    empty = sparse.hstack([Y, sparse.csr_array((Y.shape[0], 1))]).tocsr()
    found = recommended(n_prototypes=300, **OPTIONS).fit(X, empty)
    assert np.isfinite(found.decision_function(new)).all()
    assert found.probabilities(new)[:, -1].max() < 0.2


def test_vectors_that_are_not_finite_are_refused(halves, tmp_path):
    X, Y, _, _ = halves
    X = X.copy()
    X[700, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        recommended(**OPTIONS).fit(stored(tmp_path, X), Y)
    with pytest.raises(ValueError, match="1200 images and Y has tags for 1000"):
        recommended(**OPTIONS).fit(stored(tmp_path, halves[0]), Y[:1000])


def test_many_images_are_streamed_and_few_are_not(halves):
    X, Y, _, _ = halves
    options = {**OPTIONS, "out_of_core": None}
    assert recommended(max_landmarks=1000, **options).fit(X, Y).result_.stages is None
    assert recommended(**options).fit(X[:400], Y[:400]).result_.stages is not None
    unknown = np.zeros(Y.shape, bool)
    kept = recommended(max_landmarks=1000, **options).fit(X, Y, unlabeled=unknown)
    assert kept.result_.stages is not None


def test_a_model_file_keeps_it(halves, model, tmp_path):
    from prototag import load

    model.save(tmp_path / "a.prototag")
    assert_array_equal(
        load(tmp_path / "a.prototag").decision_function(halves[2]),
        model.decision_function(halves[2]),
    )
