"""``prototag evaluate``: figures, pages, and folders that have nothing to compare."""

from __future__ import annotations

import json

import tagged
from prototag.cli import terminal


def test_new_pictures_are_compared_with_their_tags(run, model, tmp_path):
    tagged.collection(tmp_path / "held", 10, start=100)
    page, figures = tmp_path / "report.html", tmp_path / "figures.json"
    result = run("evaluate", tmp_path / "held", "-m", model, "--html", page, "-o", figures)
    assert result.exit_code == 0, result.stderr
    assert "10 pictures compared." in result.stderr
    rows = {row[0]: row for row in (line.split("\t") for line in result.stdout.splitlines())}
    assert set(rows) == set(tagged.TAGS)
    striped = sum("striped" in tagged.tags_of(n) for n in range(100, 110))
    assert rows["striped"][1] == str(striped)
    assert len(json.loads(figures.read_text())["tags"]) == len(tagged.TAGS)
    html = page.read_text()
    assert html.count("used by") == 24
    assert "<h2>Prototypes</h2>" in html
    assert f"The report is {page}." in result.stderr


def test_tags_that_the_model_does_not_know_are_named(run, model, tmp_path):
    files = tagged.collection(tmp_path, 2, start=100)
    lines = [json.dumps({"file_name": f.name, "tags": ["red", "holiday"]}) for f in files]
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    result = run("evaluate", tmp_path, "-m", model)
    assert "does not know these tags of yours: holiday (2)." in result.stderr
    absent = len(tagged.TAGS) - 1
    assert f"all {len(tagged.TAGS)} tags of the model, {absent} of which no pic" in result.stderr


def test_doubtful_tags_are_printed_to_a_terminal(run, model, tmp_path, monkeypatch):
    files = tagged.collection(tmp_path, 6, start=100)
    wrong = [["blue"] if "red" in tagged.tags_of(n) else tagged.tags_of(n) for n in range(100, 106)]
    lines = [
        json.dumps({"file_name": file.name, "tags": tags})
        for file, tags in zip(files, wrong, strict=True)
    ]
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    shown = run("evaluate", tmp_path, "-m", model).stdout.splitlines()
    for heading, tag in (("Tags that may be missing", "red"), ("Tags that may be wrong", "blue")):
        start = next(n for n, line in enumerate(shown) if line.startswith(heading))
        assert shown[start - 1] == ""
        assert any(line.startswith(tag) for line in shown[start:])


def test_nothing_to_compare(run, model, tmp_path):
    tagged.collection(tmp_path / "untagged", 2, listed=False)
    untagged = run("evaluate", tmp_path / "untagged", "-m", model)
    assert untagged.exit_code == 1
    assert "there is nothing to compare with" in untagged.stderr
    tagged.collection(tmp_path / "foreign", 1)
    (tmp_path / "foreign" / "metadata.jsonl").write_text('{"file_name": "000.jpg", "tags": ["x"]}')
    foreign = run("evaluate", tmp_path / "foreign", "-m", model)
    assert foreign.exit_code == 1
    assert "no picture has a tag that the model knows" in foreign.stderr
    wrong = run("evaluate", tmp_path / "foreign", "-m", model, "--kind", "guesses")
    assert wrong.exit_code == 1
    assert "guesses" in wrong.stderr


def test_json_is_a_flag_as_elsewhere_and_a_file_is_asked_for_by_output(run, model, tmp_path):
    """``--json`` wanted a path, and took the next option for it."""
    tagged.collection(tmp_path / "held", 10, start=100)
    printed = run("evaluate", tmp_path / "held", "--json", "-m", model)
    assert printed.exit_code == 0, printed.stderr
    whole = json.loads(printed.stdout)
    assert len(whole["tags"]) == len(tagged.TAGS)
    written = run("evaluate", tmp_path / "held", "-m", model, "--json", "-o", tmp_path / "f.json")
    assert written.stdout == ""
    assert json.loads((tmp_path / "f.json").read_text()) == whole
    refused = run("evaluate", tmp_path / "held", "-m", model, "-o", tmp_path / "f.xlsx")
    assert refused.exit_code == 2
    assert "are written as JSON (.json)" in " ".join(refused.stderr.replace("│", " ").split())


def test_the_model_may_be_named_beside_the_pictures(run, model, tmp_path, monkeypatch):
    held = tmp_path / "held"
    tagged.collection(held, 10, start=100)
    expected = run("evaluate", held, "-m", model)
    for arguments in ((held, model), (model, held)):
        told = run("evaluate", *arguments)
        assert told.exit_code == 0, told.stderr
        assert told.stdout == expected.stdout
    for arguments, words in (
        ((model,), "is a model: name the tagged pictures, too"),
        ((model, model), "is a model: name the tagged pictures, too"),
        ((held, held), "is not a model"),
        ((held, model, "-m", tmp_path / "other.prototag"), "two models are named"),
    ):
        told = run("evaluate", *arguments)
        assert told.exit_code == 2
        assert words in " ".join(told.stderr.replace("│", " ").split())
    assert run("evaluate", held, model, "-m", model).exit_code == 0
    monkeypatch.setenv("PROTOTAG_MODEL", str(tmp_path / "none.prototag"))
    assert run("evaluate", held, model).exit_code == 0  # what is typed counts
