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
