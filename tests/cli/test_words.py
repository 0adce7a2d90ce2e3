"""Commands without any label: general words of pictures, a new tag by its name, and search."""

from __future__ import annotations

import json

import pytest

import tagged
from prototag import Library


@pytest.fixture
def untagged(tmp_path):
    """Four pictures without tags, with vectors of the default network and crops."""
    tagged.collection(tmp_path / "photos", 4, listed=False)
    return tmp_path / "photos"


def test_an_untagged_folder_gets_suggestions_and_is_searched(run, untagged):
    assert run("library", "create", untagged, "--language", "de", "-q").exit_code == 0
    name = ["-l", untagged]
    found = run("find", "rote", "Streifen", "--json", *name)
    assert found.exit_code == 0, found.stderr
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(rows) == 4
    assert "Ranked by the words" in found.stderr
    suggested = run("suggest", "--json", *name)
    assert suggested.exit_code == 0, suggested.stderr
    with Library(untagged / "prototag.library", cache=None) as library:
        words = {one.word for one in library.general_words()}
        assert {json.loads(line)["tag"] for line in suggested.stdout.splitlines()} <= words
    by_name = run("suggest", "--tag", "Sonnenuntergang", "--json", *name)
    assert by_name.exit_code == 0, by_name.stderr
    assert len(by_name.stdout.splitlines()) == 4
    assert "ranked by its name" in run("suggest", "--tag", "Sonnenuntergang", *name).stderr
    assert run("accept", "Sonnenuntergang", untagged / "002.jpg", *name).exit_code == 0
    tagged_ones = run("find", "Sonnenuntergang", *name).stdout.split()
    assert len(tagged_ones) == 1
    assert tagged_ones[0].endswith("002.jpg")


def test_an_unknown_language_is_refused_before_anything_is_made(run, untagged):
    refused = run("library", "create", untagged, "--language", "xx")
    assert refused.exit_code == 1
    assert "'xx'" in refused.stderr
    assert not (untagged / "prototag.library").exists()


def test_queries(run, untagged):
    assert run("library", "create", untagged, "-q").exit_code == 0
    name = ["-l", untagged]
    run("accept", "dog", untagged / "000.jpg", untagged / "001.jpg", *name)
    run("accept", "New York", untagged / "001.jpg", untagged / "002.jpg", *name)

    def found(*words):
        result = run("find", *words, *name)
        assert result.exit_code == 0, result.stderr
        return [line.rpartition("/")[2] for line in result.stdout.splitlines()]

    assert found("tag:dog or tag:new") == ["000.jpg", "001.jpg"]
    assert found('tag:dog -"New York"') == ["000.jpg"]
    assert found('"new york"', "--sort", "name") == ["001.jpg", "002.jpg"]
    assert found("dog", "New York") == ["001.jpg"]
    assert found("dog", "--without", "New York") == ["000.jpg"]
    assert found("name:002 or name:003") == ["002.jpg", "003.jpg"]
    assert found("is:untagged date:2023") == []
    assert found("puppy in the snow")[:1] != []
    wrong = run("find", "date:May", *name)
    assert (wrong.exit_code, "give a year" in wrong.stderr) == (1, True)
