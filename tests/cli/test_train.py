"""``prototag train``, and then what the other commands say of its model."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import tagged
from prototag.cli.train import seconds


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A real run: exit code, output, complaints, and where it happened."""
    folder = tmp_path_factory.mktemp("train")
    tagged.collection(folder / "photos", 40)
    (folder / "photos" / "003.jpg").write_bytes(b"broken")
    with (folder / "photos" / "metadata.jsonl").open("a") as file:
        file.write(json.dumps({"file_name": "000.jpg", "tags": ["rare one"]}) + "\n")
    environment = {**os.environ, "PROTOTAG_CACHE": str(folder / "cache.sqlite")}
    options = ["photos", "-m", "mine.prototag", "--crops", "fast"]
    done = subprocess.run(
        [sys.executable, "-m", "prototag", "train", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    return done, folder


def test_prints_collected_and_skipped_tags(trained):
    done, folder = trained
    assert done.returncode == 0, done.stderr
    assert (folder / "mine.prototag").exists()
    assert "39 pictures" in done.stderr
    assert "003.jpg" in done.stderr
    rows = {line.split("\t")[0]: line.split("\t") for line in done.stdout.splitlines()}
    assert set(rows) >= set(tagged.TAGS)
    assert rows["striped"][1] == "20"
    assert rows["striped"][2].endswith("%")
    assert "prototag annotate" in done.stderr


def test_the_model_is_used_by_all_commands(trained, run, tmp_path):
    _, folder = trained
    model = folder / "mine.prototag"
    (new,) = tagged.collection(tmp_path, 1, start=100, listed=False)
    inspected = run("inspect", "-m", model)
    assert inspected.exit_code == 0
    assert "embedded" in inspected.stdout
    facts = json.loads(run("inspect", "-m", model, "--json").stdout)
    assert facts["pictures"] == 39
    assert {tag["tag"] for tag in facts["tags"]} == set(tagged.TAGS)
    (found,) = run("similar", new, "-m", model, "--json").stdout.splitlines()
    near = json.loads(found)["similar"]
    assert len(near) == 10
    assert near[0]["tags"]
    assert len(run("similar", new, "-m", model, "-n", 3, "--by", "code").stdout.splitlines()) == 3
    page = tmp_path / "why.html"
    why = run("explain", new, "-m", model, "--html", page)
    assert why.exit_code == 0
    assert "score; applied" in why.stdout
    assert page.read_text().startswith("<!doctype html>")
    told = json.loads(run("explain", new, "-m", model, "--json", "--tag", "red").stdout)
    assert [tag["tag"] for tag in told["tags"]] == ["red"]
    assert run("explain", new, "-m", model, "--tag", "unheard of").exit_code == 1


def test_evaluate_uses_held_out_scores_of_training_pictures(trained, run, tmp_path):
    _, folder = trained
    page, figures = tmp_path / "report.html", tmp_path / "report.json"
    options = ("-m", folder / "mine.prototag", "--cache", folder / "cache.sqlite")
    result = run("evaluate", folder / "photos", *options, "--html", page, "-o", figures)
    assert result.exit_code == 3  # one picture is broken
    assert "39 of them by cross-validated scores" in result.stderr
    assert "rare one (1)" in result.stderr
    found = json.loads(figures.read_text())
    assert found["images"] == 39
    assert page.read_text().startswith("<!doctype html>")
    tagged.collection(tmp_path / "other", 8, start=100)
    new = run("evaluate", tmp_path / "other", *options, "--json")
    assert new.exit_code == 0
    assert "learned from" not in new.stderr
    assert json.loads(new.stdout)["figures"]["threshold_f1"] > 0.5


def test_a_disk_that_is_full_in_the_end_leaves_the_old_model(trained, run, monkeypatch):
    _, folder = trained
    before = (folder / "mine.prototag").read_bytes()

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    options = ("--crops", "fast", "--cache", folder / "cache.sqlite", "--no-thumbnails")
    result = run("train", folder / "photos", "-m", folder / "mine.prototag", *options)
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert (folder / "mine.prototag").read_bytes() == before
    assert not list(folder.glob(".prototag-*"))


def test_any_text_may_be_learned(run, tmp_path):
    odd = ["a, b", "🦊 fox", "x" * 1000, "<b>&amp;</b>", "a;b|c", "𝕌nicode \u202e tricks"]
    files = tagged.collection(tmp_path / "photos", 24)
    rows = [[odd[n % 6], odd[(n + 1) % 6], *tagged.tags_of(n)] for n in range(24)]
    lines = [
        json.dumps({"file_name": file.name, "tags": row})
        for file, row in zip(files, rows, strict=True)
    ]
    (tmp_path / "photos" / "metadata.jsonl").write_text("\n".join(lines))
    model = tmp_path / "odd.prototag"
    trained = run("train", tmp_path / "photos", "-m", model, "--crops", "fast")
    assert trained.exit_code == 0
    assert "\u202e" not in trained.stdout + trained.stderr  # nothing that turns a terminal round
    facts = json.loads(run("inspect", "-m", model, "--json").stdout)
    assert {tag["tag"] for tag in facts["tags"]} >= set(odd[:5])


def test_parameters_are_tuned_where_they_are_asked_to_be(run, tmp_path):
    """It always crashed: a clone of the estimator copied what draws on the terminal."""
    tagged.collection(tmp_path / "photos", 60)
    model = tmp_path / "tuned.prototag"
    options = ("-m", model, "--crops", "fast", "--no-thumbnails", "--tune", "2s")
    done = run("train", tmp_path / "photos", *options)
    assert done.exit_code == 0, done.stderr
    assert "Tuning on 60 pictures with 5 tags, 2 s" in done.stderr
    assert json.loads(run("inspect", "-m", model, "--json").stdout)["pictures"] == 60


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5H", 5400), (" 2 m ", 120)]
)
def test_times(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "-5m", "0", "5 days"])
def test_what_is_no_time(text):
    with pytest.raises(typer.BadParameter, match="for example 90s, 10m or 1h"):
        seconds(text)


def refused(run, *arguments):
    result = run("train", *arguments)
    assert result.exit_code in (1, 2)
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.replace("│", " ").split())


def test_folders_that_cannot_be_learned(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "does not exist" in refused(run, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "no pictures" in refused(run, "empty")
    tagged.collection(tmp_path / "untagged", 3, listed=False)
    assert "no picture has a tag" in refused(run, "untagged")
    tagged.collection(tmp_path / "few", 4)
    assert "too rare" in refused(run, "few")
    assert not Path("model.prototag").exists()


def test_outputs_that_cannot_be_written_are_refused_before_the_work(run, tmp_path):
    tagged.collection(tmp_path / "few", 4)
    assert "does not exist" in refused(run, tmp_path / "few", "-m", tmp_path / "no" / "model")
    precious = tmp_path / "thesis.txt"
    precious.write_text("ten years of work")
    assert "exists and is not a model" in refused(run, tmp_path / "few", "-m", precious)
    assert precious.read_text() == "ten years of work"
    if os.geteuid() != 0:  # who may write anywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        assert "not writable" in refused(run, tmp_path / "few", "-m", tmp_path / "locked" / "m")


def test_a_tag_that_every_picture_has_is_explained(run, tmp_path):
    photos = tmp_path / "photos"
    pictures = tagged.collection(photos, 14, listed=False)
    rows = [json.dumps({"file_name": p.name, "tags": ["mine"]}) for p in pictures[:12]]
    (photos / "metadata.jsonl").write_text("\n".join(rows))
    model = tmp_path / "m.prototag"
    told = run("train", photos, "-m", model, "--crops", "fast")
    assert told.exit_code == 1, told.stderr  # a script must not go on with it
    assert model.exists()
    assert "no picture without it to compare with" in told.stdout
    assert "--untagged negative" in told.stderr
    assert "only suggest" not in told.stderr
    silent = run("annotate", pictures[13], "-m", model)
    assert "No tag was applied to the picture: the model learned no tag" in silent.stderr
    assert "no tag is reliable enough" in run("inspect", "-m", model).stdout


def test_several_sources_chosen_tags_and_silence(run, tmp_path):
    tagged.collection(tmp_path / "a", 20)
    pictures = tagged.collection(tmp_path / "b", 20, start=20, listed=False)
    rows = [
        json.dumps({"file_name": f"b/{p.name}", "tags": tagged.tags_of(n)})
        for n, p in enumerate(pictures, 20)
    ]
    (tmp_path / "list.jsonl").write_text("\n".join(rows))
    options = ("-m", tmp_path / "m.prototag", "--crops", "fast", "--min-pictures", 3)
    sources = (tmp_path / "a", tmp_path / "b", tmp_path / "list.jsonl")

    def learned(*more):
        done = run("train", *sources, *options, *more, "--json")
        assert done.exit_code == 0, done.stderr
        return {json.loads(line)["tag"]: json.loads(line) for line in done.stdout.splitlines()}

    assert set(learned()) == set(tagged.TAGS)
    assert set(learned("--ignore", "red, GREEN", "--ignore", "blue")) == {"striped", "dotted"}
    (only,) = learned("--only", "striped").values()
    assert (only["tag"], only["pictures"]) == ("striped", 20)
    facts = json.loads(run("inspect", "-m", tmp_path / "m.prototag", "--json").stdout)
    assert facts["pictures"] == 40  # those without it are what it is told from
    quiet = run("train", *sources, *options, "--quiet")
    assert quiet.stderr == ""
    assert quiet.stdout.count("\n") == len(tagged.TAGS)
    assert "no tag 'stripes': did you mean 'striped'?" in refused(
        run, *sources, *options, "--only", "stripes"
    )
    assert "there is no list" in refused(run, tmp_path / "b", *options, "--column", "species")


def test_an_unknown_network_or_pass_is_refused_at_once(run, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for options, words in (
        (("--network", "clip"), "give embedded, quick, best, or a file"),
        (("--network", tmp_path / "no.onnx"), "there is no such file"),
    ):
        told = run("train", photos, "-m", tmp_path / "m.prototag", *options)
        assert told.exit_code == 2
        assert words in " ".join(told.stderr.replace("│", " ").split())
    told = run("train", photos, "-m", tmp_path / "m.prototag", "--crops", "seven")
    assert told.exit_code != 0
    assert "crops='seven' is unknown" in told.stderr


def test_only_measured_figures_of_unlearned_tags_are_printed(run, tmp_path):
    """ "About N more pictures may help": 14 of 16 tags that got so many were never found."""
    files = tagged.collection(tmp_path / "photos", 40)
    lines = [
        {"file_name": file.name, "tags": [*tagged.tags_of(n), "luck"][: 9 if n % 7 < 2 else -1]}
        for n, file in enumerate(files)
    ]
    (tmp_path / "photos/metadata.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in lines))
    model = tmp_path / "m.prototag"
    told = run("train", tmp_path / "photos", "-m", model, "--crops", "fast")
    every = [
        told.stdout + told.stderr,
        run("inspect", "-m", model).stdout,
        run("inspect", "-m", model, "--json").stdout,
    ]
    assert "luck" in every[0]
    assert "not learned" in every[0]
    for text in every:
        assert "more picture" not in text.replace("more pictures would change that is not", "")
        assert "needed" not in text
    (luck,) = [tag for tag in json.loads(every[2])["tags"] if tag["tag"] == "luck"]
    assert luck["learned"] is False
    assert 0.2 < luck["auc"] < 0.8
    assert f"(AUC {luck['auc']:.2f})" in every[1]
