"""``prototag annotate`` where nothing is sure enough: it says so, why, and what to do."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

import tagged
from prototag.storage import modelfile

SIDECARS = ("--write-xmp",)


def changed(model, **points):
    """The same model with other operating points."""
    header, arrays = modelfile.read(model)
    for name, value in points.items():
        arrays[f"operating_points/{name}"] = np.full_like(arrays[f"operating_points/{name}"], value)
    path = model.with_name("changed.prototag")
    modelfile.write(path, header, arrays)
    return path


@pytest.fixture
def unsure(model):
    """A model that keeps no precision by any probability."""
    return changed(model, curve_lower_bound=0.0)


def test_piped_output_says_that_no_tag_was_applied_and_what_to_do(run, unsure, new):
    told = run("annotate", *new, "-m", unsure)
    assert told.exit_code == 0
    rows = [line.split("\t") for line in told.stdout.splitlines()]
    assert [row[0] for row in rows] == [str(path) for path in new]
    assert all(cell.endswith("?") for row in rows for cell in row[1:])  # estimates only
    assert "No tag was applied to any of the 4 pictures" in told.stderr
    assert "no threshold reaches an expected precision of 70" in told.stderr
    found = re.search(r"4 of them have suggestions.*`(--min-probability [0-9.]+)`", told.stderr)
    assert found, told.stderr
    # The advice is true: it gives what it says.
    again = run("annotate", *new, "-m", unsure, *found[1].split(), "--json")
    assert any(json.loads(line)["tags"] for line in again.stdout.splitlines())


def test_advice_where_nothing_is_even_suggested_is_true(run, unsure, new):
    blank = new[0].with_name("blank.png")
    tagged.picture([], 7).save(blank)
    told = run("annotate", blank, "-m", unsure, "--tags", "dotted")
    assert "No tag was applied to the picture" in told.stderr
    if "suggestions" not in told.stderr:
        assert "`--top 1`" in told.stderr
    best = run("annotate", blank, "-m", unsure, "--tags", "dotted", "--top", 1, "--json")
    assert len(json.loads(best.stdout)["tags"]) == 1


def test_json_and_csv_have_a_note_for_every_picture_without_tags(run, unsure, new, tmp_path):
    new[1].write_bytes(b"no picture")
    rows = [
        json.loads(line)
        for line in run("annotate", *new, "-m", unsure, "--json").stdout.splitlines()
    ]
    assert ["precision of 70" in row.get("note", "") for row in rows] == [
        *(True, False, True, True)
    ]
    said = run("annotate", *new, "-m", unsure, "--csv").stdout
    table = list(csv.DictReader(io.StringIO(said)))
    assert list(dict.fromkeys(row["path"] for row in table)) == [str(path) for path in new]
    assert {row["status"] for row in table} <= {"", "estimate"}
    assert all((row["tag"] == "") == (row["status"] == "") for row in table)
    unreadable = [row for row in table if row["path"] == str(new[1])]
    assert [row["note"] for row in unreadable] == [rows[1]["error"]]
    assert all("precision of 70" in row["note"] for row in table if row not in unreadable)
    estimates = [(row["path"], tag["tag"]) for row in rows for tag in row.get("estimates", ())]
    assert [(row["path"], row["tag"]) for row in table if row["tag"]] == estimates
    run("annotate", *new, "-m", unsure, "-o", tmp_path / "tags.csv")
    assert (tmp_path / "tags.csv").read_text() == said


def test_a_picture_with_tags_has_no_note(run, model, new):
    for line in run("annotate", *new, "-m", model, "--json").stdout.splitlines():
        assert "note" not in json.loads(line)
    told = run("annotate", *new, "-m", model, "--csv")
    assert {row["note"] for row in csv.DictReader(io.StringIO(told.stdout))} == {""}
    assert "No tag was applied" not in told.stderr


def test_each_selection_has_a_reason_for_no_tags(run, model, new):
    def said(*options, of=model):
        return run("annotate", *new, "-m", of, *options).stderr

    assert "no tag reaches the probability 1.00" in said("--min-probability", 1)
    assert "no threshold reaches an expected precision of 100" in said(
        "--precision", 1, of=changed(model, curve_lower_bound=0.5)
    )
    assert "the model learned no tag" in said(of=changed(model, learnable=False))
    inside = said(of=changed(model, learnable=False))
    assert "`prototag inspect" in inside
    assert "--top" not in inside  # which would apply none either


def test_sidecars_that_do_not_exist_are_not_called_unchanged(run, unsure, model, new):
    told = run("annotate", *new, "-m", unsure, *SIDECARS)
    assert "0 sidecars written, 0 unchanged, none for 4 pictures without tags." in told.stderr
    assert not list(new[0].parent.glob("*.xmp"))
    told = run("annotate", *new, "-m", unsure, "--embed")
    assert "0 pictures written, 0 unchanged, none for 4 pictures without tags." in told.stderr
    # Tags of an earlier run go: that is a change.
    run("annotate", new[0], "-m", model, *SIDECARS)
    told = run("annotate", *new, "-m", unsure, *SIDECARS)
    assert "1 sidecar written, 0 unchanged, none for 3 pictures without tags." in told.stderr


@pytest.mark.parametrize("name", ["out.xlsx", "out.tsv", "out.html", "out.txt"])
def test_endings_that_cannot_be_written_are_refused(run, model, new, tmp_path, name):
    """A name with .xlsx got JSON."""
    told = run("annotate", *new, "-m", model, "-o", tmp_path / name)
    assert told.exit_code == 2
    words = " ".join(told.stderr.replace("│", " ").split())
    assert "CSV (.csv) or JSON lines (.jsonl, .json)" in words
    assert not list(tmp_path.glob("out*"))


def test_an_ending_and_an_option_that_contradict_each_other_are_refused(run, model, new, tmp_path):
    for option, name in (("--csv", "a.json"), ("--json", "a.csv")):
        told = run("annotate", *new, "-m", model, option, "-o", tmp_path / name)
        assert told.exit_code == 2
        assert option in told.stderr
    for options, name in (((), "a.jsonl"), ((), "a"), (("--csv",), "b.CSV"), ((), "a.ndjson")):
        assert run("annotate", new[0], "-m", model, *options, "-o", tmp_path / name).exit_code == 0
    assert (tmp_path / "b.CSV").read_text().startswith("path,tag")


def test_estimates_are_written_only_if_asked(run, unsure, new):
    rows = [
        json.loads(line)
        for line in run("annotate", *new, "-m", unsure, "--json").stdout.splitlines()
    ]
    assert any(row["estimates"] for row in rows)
    assert all(tag["probability"] >= 0.5 for row in rows for tag in row["estimates"])
    run("annotate", *new, "-m", unsure, "--write-xmp")
    assert not list(new[0].parent.glob("*.xmp"))
    run("annotate", *new, "-m", unsure, "--write-xmp", "--write", "estimates")
    for row in rows:
        sidecar = Path(row["path"] + ".xmp")
        assert sidecar.exists() == bool(row["estimates"])
        for tag in row["estimates"]:
            assert tag["tag"] in sidecar.read_text()
