"""``prototag explain``: as a table, as JSON, as a page."""

from __future__ import annotations

import json

import pytest

import tagged


def test_shares_add_up_to_the_score(run, model, new):
    told = run("explain", new[0], "-m", model)
    assert told.exit_code == 0, told.stderr
    rows = [line.split("\t") for line in told.stdout.splitlines()]
    assert {row[0] for row in rows} - {""} == set(tagged.tags_of(100))
    shares = []
    for _, _, share, what, tags in rows:
        if what.startswith("score; "):
            assert sum(shares) == pytest.approx(float(share), abs=0.004)
            assert what == "score; applied"
            shares = []
        else:
            assert bool(tags) == (what != "everything else")
            shares.append(float(share))


def test_json_and_page_show_the_same_tags(run, model, new, tmp_path):
    page = tmp_path / "why.html"
    told = run("explain", new[0], "-m", model, "--json", "--html", page)
    found = json.loads(told.stdout)
    assert found["path"] == str(new[0])
    html = page.read_text()
    for tag in found["tags"]:
        assert f"<h3><bdi>{tag['tag']}</bdi>" in html
        together = sum(reason["share"] for reason in tag["reasons"]) + tag["rest"]
        assert together == pytest.approx(tag["score"], abs=1e-3)
    assert html.count("alike") == 12
    assert f"The page is {page}." in told.stderr


def test_tags_that_are_not_given_can_be_explained_too(run, model, new):
    absent = next(tag for tag in ("red", "blue") if tag not in tagged.tags_of(100))
    told = json.loads(run("explain", new[0], "-m", model, "--json", "-t", absent).stdout)
    assert [tag["tag"] for tag in told["tags"]] == [absent]
    unknown = run("explain", new[0], "-m", model, "--tag", "unheard of")
    assert unknown.exit_code == 1
    assert "the model knows no tag 'unheard of'" in unknown.stderr
    assert "bug" not in unknown.stderr


def test_a_picture_that_cannot_be_read(run, model, tmp_path):
    result = run("explain", tmp_path / "none.jpg", "-m", model)
    assert result.exit_code == 1
    assert "none.jpg: cannot be read" in result.stderr
