"""``prototag inspect``: a model in words and as JSON."""

from __future__ import annotations

import json
import os

import pytest

import tagged
from prototag import Annotator, metadata
from prototag.images.decode import MAX_PIXELS
from prototag.storage import modelfile


def test_text_and_json_agree(run, model):
    facts = json.loads(run("inspect", "-m", model, "--json").stdout)
    assert facts["pictures"] == 60
    assert [row["tag"] for row in facts["tags"]] == sorted(tagged.TAGS)
    shown = run("inspect", "-m", model).stdout
    head, _, table = shown.partition("\n\n")
    told = {line[:12].strip(): line[12:] for line in head.splitlines()}
    assert told["Pictures"] == "60"
    assert told["Tags"] == "5 learned"
    assert told["F1"].startswith(f"{100 * facts['expected_f1']:.0f}%")
    assert told["Model"] == f"{model} ({facts['size_mb']} MB)"
    assert len(table.splitlines()) == 5


def test_the_model_may_be_named_by_the_environment(run, model, monkeypatch):
    monkeypatch.setenv("PROTOTAG_MODEL", str(model))
    assert run("inspect").exit_code == 0
    assert "does not exist" in run("inspect", "-m", model.with_name("none")).stderr


def test_the_model_may_be_named_as_an_argument(run, model, tmp_path, monkeypatch):
    """``inspect FILE`` was refused."""
    expected = run("inspect", "-m", model).stdout
    assert run("inspect", model).stdout == expected
    monkeypatch.setenv("PROTOTAG_MODEL", str(tmp_path / "none.prototag"))
    assert run("inspect", model).stdout == expected  # what is typed counts
    assert run("inspect", model, "-m", model).stdout == expected
    told = run("inspect", model, "-m", tmp_path / "other.prototag")
    assert told.exit_code == 2
    assert "two models are named" in " ".join(told.stderr.replace("│", " ").split())


def broken(model, tmp_path, *place, value):
    """The same model, whose header says something else at one place."""
    header, arrays = modelfile.read(model)
    inner = header
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    path = tmp_path / "broken.prototag"
    modelfile.write(path, header, arrays)
    return path


@pytest.mark.parametrize("value", [None, "x", "", -1, 2.5, 10**15, True, [], {}, ["a"], {"a": 1}])
@pytest.mark.parametrize(
    "place",
    [
        *(
            ("tags",),
            ("tags", 0),
            ("choices",),
            ("choices", "names"),
            ("provenance",),
            ("learned",),
        ),
        *(
            ("provenance", "created"),
            ("features",),
            ("features", "backbone"),
            ("features", "crops"),
        ),
        *(("features", "max_pixels"), ("features", "fingerprint"), ("training", "too_rare")),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_in_words(run, model, new, tmp_path, place, value):
    path = broken(model, tmp_path, *place, value=value)
    for command in (("inspect",), ("annotate", new[0])):
        result = run(*command, "-m", path)
        assert result.exit_code in (0, 1)
        assert "bug" not in result.stderr, result.stderr
        assert result.stderr.count("\n") == 1 or result.exit_code == 0


def test_looking_at_a_model_opens_no_network(run, model, tmp_path):
    for name in ("network.onnx", "timm:resnet-101"):
        if name.endswith(".onnx"):
            os.mkfifo(tmp_path / name)
            name = str(tmp_path / name)
        path = broken(model, tmp_path, "features", "backbone", value=name)
        shown = run("inspect", "-m", path)
        assert shown.exit_code == 0
        assert name in shown.stdout


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
def test_a_network_that_is_no_file_is_refused(run, model, new, tmp_path, make):
    make(tmp_path / "network.onnx")
    path = broken(model, tmp_path, "features", "backbone", value=str(tmp_path / "network.onnx"))
    result = run("annotate", new[0], "-m", path)
    assert result.exit_code == 1
    assert "not a regular file" in result.stderr


def test_no_model_lifts_the_limit_of_pixels(model, tmp_path):
    path = broken(model, tmp_path, "features", "max_pixels", value=10**15)
    assert Annotator.load(path).extractor.max_pixels == MAX_PIXELS


def test_a_picture_shows_its_tags_by_their_origin(run, new):
    metadata.apply(metadata.plan_own(new[0], ["holiday"]))
    metadata.apply(metadata.plan(new[0], ["red", "striped"]))
    facts = json.loads(run("inspect", new[0], "--json").stdout)
    assert facts == {
        "path": str(new[0]),
        "own": ["holiday"],
        "added": ["red", "striped"],
        "removed": [],
    }
    shown = dict(line.split(maxsplit=1) for line in run("inspect", new[0]).stdout.splitlines())
    assert shown["Picture"] == str(new[0])
    assert shown["Added"] == "red, striped"
    assert shown["Removed"] == "-"
    missing = run("inspect", new[0].with_name("none.jpg"))
    assert missing.exit_code == 1
    assert "does not exist: give a model, a picture or a library" in missing.stderr


def test_a_library_shows_its_status(run, new):
    file = new[0].parent / "prototag.library"
    assert run("library", "create", new[0].parent).exit_code == 0
    assert run("inspect", file).stdout == run("library", "status", "-l", file).stdout
    assert json.loads(run("inspect", file, "--json").stdout)["pictures"] == 4
