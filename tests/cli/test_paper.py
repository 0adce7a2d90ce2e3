"""``prototag paper``: from a bundle of vectors to a report, and clear words where it cannot."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from prototag.cli import program
from prototag.research.datasets import planted, save_bundle
from prototag.research.experiments import paper


@pytest.fixture
def bundle(tmp_path):
    path = tmp_path / "vectors.npz"
    save_bundle(planted(n=200, t=6, k=15, m=12, random_state=0).collection(), path)
    return path


def run(*arguments):
    return CliRunner().invoke(program(), ["paper", *map(str, arguments)])


def test_a_bundle_becomes_a_report(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "QUICK", paper.Scale((0,), (0.1, 0.2), 1, (60,), 1.0))
    output = tmp_path / "out"
    done = run(
        bundle, "--quick", "--only", "kNN", "--only", "ridge", "--name", "Mine", "-o", output
    )
    assert done.exit_code == 0, done.output
    assert "kNN" in done.stdout
    results = json.loads((output / "results.json").read_text())
    assert results["collection"] == "Mine"
    assert [row["method"] for row in results["comparison"]["rows"]] == ["kNN", "ridge"]
    assert "Mine" in (output / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "neither an .npz bundle nor NAME:FOLDER"),
        (["gone.npz"], "gone.npz"),
        (["folder:gone"], "gone"),
    ],
)
def test_errors_name_the_given_value(arguments, message):
    done = run(*arguments)
    assert done.exit_code in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_needs_a_source(bundle, tmp_path):
    done = run(bundle, "--name", "one", "--name", "two", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert "has no source" in done.stderr


def test_unknown_annotators_are_named(bundle, tmp_path):
    done = run(bundle, "--only", "luck", "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert "unknown method luck" in done.stderr
