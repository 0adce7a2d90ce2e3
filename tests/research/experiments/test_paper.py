"""The experiments end to end on a small planted collection: trials, resuming, the report."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prototag.evaluation import metrics
from prototag.research.datasets import planted
from prototag.research.datasets.collection import Collection
from prototag.research.experiments import paper, published_results, run, trials
from prototag.research.registry import METHODS, Method, select

SMALL = paper.Scale((0, 1), (0.1, 0.2), 1, (60, 120), 1.0)
FEW = ["ProtoTag", "MCDL out of fold", "MCDL, published code", "2PKNN", "ridge"]


@pytest.fixture(scope="module")
def collection():
    data = planted(n=260, t=9, k=20, m=16, noise=0.3, random_state=0)
    tags = [f"tag {number}" for number in range(8)] + ["<b>&"]
    train, test = np.arange(200), np.arange(200, 260)
    return Collection("planted & small", data.Y, tags, train, test, X=data.X, checksum="seed 0")


@pytest.fixture(scope="module")
def finished(collection, tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "QUICK", SMALL)
        told = []
        results = run([collection], folder, quick=True, methods=FEW, progress=told.append)
    return folder, results, told


def test_every_method_has_its_row_under_both_protocols(finished):
    _, results, _ = finished
    rows = {row["method"]: row for row in results["comparison"]["rows"]}
    assert list(rows) == FEW
    for row in rows.values():
        assert 0 < row["threshold_f1"] <= 1
        assert 0 < row["top_f1"] <= 1
        assert row["microseconds_to_annotate"] > 0
        assert row["best_f1_on_test"] >= row["threshold_f1"] - 1e-6
    assert rows["ridge"]["seeds"] == 1
    assert rows["MCDL out of fold"]["seeds"] == 2
    assert "ours_minus_this" in rows["ridge"]


def test_progress_is_distinguished_from_the_first_to_the_last(finished):
    _, _, told = finished
    total = told[0].total
    assert [event.done for event in told] == list(range(total + 1))
    assert {event.stage for event in told} == {"Experiments"}
    assert told[0].message == "ProtoTag on planted & small, seed 0"
    assert told[-1].message == "done"


def test_neighbour_methods_run_on_prototypes(finished):
    _, results, _ = finished
    study = results["prototypes"]
    assert [row["method"] for row in study["rows"]] == ["MCDL, published code", "2PKNN"]
    assert study["n_prototypes"] == 40
    assert (study["images"], study["held_out"]) == (160, 40)
    mcdl, near = study["rows"]
    assert mcdl["all images"] is None
    for gallery in ("all images", "prototypes"):
        assert 0 < near[gallery]["threshold_f1"] <= 1
        assert near[gallery]["microseconds_to_annotate"] > 0
    assert near["prototypes"] != near["all images"]


def test_studies_can_be_selected(collection, tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "QUICK", SMALL)
    results = run([collection], tmp_path, quick=True, methods=["ridge"], only=[], images=120)
    assert results["images"] == [120, 60]
    assert results["comparison"]["rows"][0]["images"] == [120, 60]
    assert not set(results) & set(paper.STUDIES)
    assert "## By network" not in (tmp_path / "report.md").read_text()
    with pytest.raises(ValueError, match="unknown study luck: select from prototypes; sizes"):
        run([collection], tmp_path, quick=True, methods=["ridge"], only=["luck"])


def test_published_figures_stand_beside_ours():
    names = [method.name for method in METHODS if method.name in published_results.IAPRTC12]
    assert len(names) == len(published_results.IAPRTC12)
    for figures in (published_results.IAPRTC12, published_results.ESPGAME):
        for paper_row in figures.values():
            if paper_row.precision is not None:
                mean = metrics.harmonic_mean(paper_row.precision, paper_row.recall)
                assert abs(float(mean) - paper_row.f1) < 1.2  # rounding of the papers
    found = published_results.reported("IAPRTC-12, whole image", "SEM on given vectors")
    assert (found.precision, found.recall, found.f1) == (41, 39, 40.0)


def test_the_report_is_written_in_four_forms(finished):
    folder, results, _ = finished
    assert json.loads((folder / "results.json").read_text()) == json.loads(json.dumps(results))
    words = (folder / "report.md").read_text()
    for name in FEW:
        assert f"| {name} |" in words
    tables = (folder / "report.tex").read_text()
    for name in FEW:
        assert f"\n{name} & " in tables
    assert "planted & small" not in "\n".join(
        line for line in tables.splitlines() if not line.startswith("%")
    )
    page = (folder / "report.html").read_text()
    assert "planted &amp; small" in page
    assert page.count("<svg") >= 8
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_an_interrupted_run_resumes(finished, collection, monkeypatch):
    folder, results, _ = finished
    monkeypatch.setattr(paper, "QUICK", SMALL)

    def never(*_):
        raise AssertionError("a trial was run again")

    monkeypatch.setattr(trials.Laboratory, "_run", never)
    again = run([collection], folder, quick=True, methods=FEW)
    assert again["comparison"] == results["comparison"]


def test_a_trial_is_read_as_it_was(collection, tmp_path):
    lab, task = trials.Laboratory(tmp_path), trials.Task.of(collection)
    (method,) = select(["ridge"])
    assert not lab.has_trial(method, task)
    first = lab.trial(method, task)
    assert lab.has_trial(method, task)
    assert not lab.has_trial(method, task, seed=1)
    again = trials.Laboratory(tmp_path).trial(method, task)
    assert again.record == first.record
    assert_array_equal(again.scores, first.scores)
    next(tmp_path.glob("ridge*")).write_bytes(b"PK not a trial")
    with pytest.raises(ValueError, match=r"is not a trial .* remove it"):
        lab.trial(method, task)


def test_principal_components_only_where_an_entry_says_so(collection, tmp_path, monkeypatch):
    """The raw vectors are tried too, unless their entry refuses them."""
    (method,) = select(["ridge"])
    fitted = []
    own_fit = method.factory.fit

    def fit(self, X, y):
        fitted.append(X.shape[1])
        return own_fit(self, X, y)

    monkeypatch.setattr(method.factory, "fit", fit)
    task = trials.Task.of(collection)
    for compare_raw, widths in ((True, [5, 16]), (False, [5])):
        fitted.clear()
        entry = replace(method, components=5, compare_raw=compare_raw, name=f"ridge {compare_raw}")
        record = trials.Laboratory(tmp_path).trial(entry, task).record
        assert fitted == widths
        assert compare_raw or record["vectors"] == "5 components"


def test_fewer_images_where_a_method_cannot_take_all(collection, tmp_path):
    home = "prototag.mcdl.estimator:MCDL.udl"
    method = Method("few", home, "MCDL", {"init_iter": 1}, 10, max_images=50)
    record = trials.Laboratory(tmp_path).trial(method, trials.Task.of(collection)).record
    assert record["images"] == [50, 60]


def test_tuned_methods_record_their_hyperparameters(collection, tmp_path):
    method = next(one for one in METHODS if one.tuned)
    lab = trials.Laboratory(tmp_path, tuning_seconds=0.5)
    record = lab.trial(method, trials.Task.of(collection), init_iter=1, max_iter=1).record
    assert set(record["chosen"]) == {"eta", "beta1", "margin"}


@pytest.mark.parametrize("shift", [0.0, -5.0])
def test_the_best_threshold_moves_all_together(collection, shift):
    """By a factor or a summand; at least as good as the chosen one, whatever the scores' origin."""
    task = trials.Task.of(collection)
    rng = np.random.default_rng(0)
    scores = task.Y_test.toarray() + rng.random(task.Y_test.shape, np.float32) + np.float32(shift)
    trial = trials.Trial({}, scores, np.full(9, 0.9 + shift))
    chosen = metrics.f1_of_means(task.Y_test, scores > trial.threshold)
    assert chosen <= trials.best_f1(task.Y_test, trial) == pytest.approx(1.0)


def test_published_results_belong_to_methods_of_the_registry():
    assert set(published_results.IAPRTC12) <= {method.name for method in METHODS}


def test_pictures_without_vectors_are_refused(collection):
    from dataclasses import replace

    with pytest.raises(ValueError, match="extract them first"):
        trials.Task.of(replace(collection, X=None))
    with pytest.raises(ValueError, match="no collection"):
        run([], "nowhere")
