"""``prototag inspect``: a model in words and as JSON."""

from __future__ import annotations

import json

import tagged


def test_words_and_json_say_the_same(run, model):
    facts = json.loads(run("inspect", "-m", model, "--json").stdout)
    assert facts["pictures"] == 60
    assert [row["tag"] for row in facts["tags"]] == sorted(tagged.TAGS)
    shown = run("inspect", "-m", model).stdout
    head, _, table = shown.partition("\n\n")
    told = {line[:12].strip(): line[12:] for line in head.splitlines()}
    assert told["Pictures"] == "60"
    assert told["Tags"] == "5 learned"
    assert told["F1"].startswith(f"{100 * facts['expected_f1']:.0f} %")
    assert told["Model"] == f"{model} ({facts['size_mb']} MB)"
    assert len(table.splitlines()) == 5


def test_the_model_may_be_named_by_the_environment(run, model, monkeypatch):
    monkeypatch.setenv("PROTOTAG_MODEL", str(model))
    assert run("inspect").exit_code == 0
    assert "does not exist" in run("inspect", "-m", model.with_name("none")).stderr
