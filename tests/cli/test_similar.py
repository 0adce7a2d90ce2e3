"""``prototag similar``: the nearest training pictures."""

from __future__ import annotations

import json

import pytest

import tagged


def test_a_training_picture_finds_itself(run, model, tmp_path):
    (twin,) = tagged.collection(tmp_path / "twin", 1, start=7)
    for by in ("vector", "code"):
        result = json.loads(run("similar", twin, "-m", model, "--by", by, "--json").stdout)
        assert result["path"] == str(twin)
        first = result["similar"][0]
        assert 0.99 <= first["similarity"] <= 1.0001 or by == "code"
        assert first["name"] == "007.jpg"
        assert first["tags"] == sorted(tagged.tags_of(7))
    rows = [line.split("\t") for line in run("similar", twin, "-m", model).stdout.splitlines()]
    assert len(rows) == 10
    assert float(rows[0][0]) == pytest.approx(1, abs=0.01)
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)


def test_as_many_as_asked_for(run, model, new):
    assert len(run("similar", new[0], "-m", model, "-n", 3).stdout.splitlines()) == 3
