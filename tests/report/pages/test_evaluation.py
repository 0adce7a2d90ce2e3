"""The report: what it says, and what a browser makes of it and of hostile names."""

from __future__ import annotations

import re
from functools import cache

import pytest

from prototag.annotator.types import ExplainedTag, Neighbour, Reason, Tag
from prototag.evaluation.evaluate import evaluate
from prototag.report.pages import evaluation_page, explanation_page
from prototag.report.theme import DARK, LIGHT

from .browser import needs_browser, shown
from .judged import HOSTILE, evaluation, prototypes


@cache
def report() -> str:
    result, sources = evaluation()
    return evaluation_page(result, pictures=sources, prototypes=prototypes(sources)).html()


@cache
def explanation() -> str:
    _, sources = evaluation()
    known = [one.picture for one in prototypes(sources)]
    reasons = [Reason(share, known[0]) for share in (0.5, 0.2, -0.1, 0.05, 0.04, 0.03, 0.02)]
    tags = [ExplainedTag(Tag(name, 0.7, 0.9), 0.3, reasons, 0.1) for name in HOSTILE]
    similar = [Neighbour(0.8, one) for one in known]
    return explanation_page(sources[0], HOSTILE[7], tags, similar).html()


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


@needs_browser
def test_pages_in_a_browser(tmp_path):
    pages = {"report": report(), "explanation": explanation()}
    views = {f"{name}{w}": (page, w) for name, page in pages.items() for w in (390, 1200)}
    found = shown(tmp_path, views)
    assert found.keys() == views.keys()
    for name, seen in found.items():
        assert seen["inner"] == views[name][1]
        assert seen["width"] <= seen["inner"], "the page scrolls sideways"
        assert seen["beyond"] == []
        assert seen["hacked"] is False
        assert seen["scripts"] == 1
        assert seen["errors"] == seen["violations"] == seen["requests"] == []
        assert len(seen["images"]) > 6
        assert min(seen["images"]) > 0
        assert seen["ground"] == rgb(LIGHT["ground"])
    assert len(found["report390"]["charts"]) == 5
    assert min(found["report390"]["charts"]) > 80
    values = [float(value or "-inf") for value in found["report390"]["sorted"]]
    assert len(values) > 3
    assert values == sorted(values)
    assert found["report390"]["filtered"]
    assert all("tag 7" in row for row in found["report390"]["filtered"])
    assert len(found["report390"]["filtered"]) < len(values)


@needs_browser
def test_the_dark_is_dark(tmp_path):
    found = shown(tmp_path, {"report": (report(), 390)}, dark=True)
    assert found["report"]["ground"] == rgb(DARK["ground"])


def test_nothing_is_fetched_and_names_are_text():
    for page in (report(), explanation()):
        sources = re.findall(r'\b(?:src|href|xlink:href|action|srcset)="([^"]*)"', page)
        assert sources
        assert all(source.startswith(("data:image/", "#")) for source in sources)
        assert page.count("<script>") == 1
        assert "<img src=x" not in page
        assert "<h1>large" not in page
        page.encode("utf-8")


def test_the_report_has_the_figures_of_the_evaluation():
    result, sources = evaluation()
    page = report()
    right = int((result.applied & result.present).sum())
    assert f">{right:,} of {int(result.applied.sum()):,}<" in page
    assert page.count('class="tag likely"') > 5
    for name in ("Summary", "Pictures", "Your own tags", "Tag by tag", "Curves", "Prototypes"):
        assert f"<h2>{name}</h2>" in page
    assert "broken" not in page or "is not a picture" in page
    assert len(sources) == len(result.images)


def test_parts_without_data_are_skipped():
    result = evaluate([[1, 0], [0, 1]], [[0.9, 0.1], [0.2, 0.7]], 0.5, tags=["a", "b"])
    page = evaluation_page(result).html()
    for name in ("Pictures", "Your own tags", "Prototypes"):
        assert f"<h2>{name}</h2>" not in page
    assert "100%" in page
    evaluation_page(result, pictures=[None, None]).html()


def test_one_picture_and_no_tags_given_make_a_page():
    result = evaluate([[1, 0]], [[0.1, 0.1]], 0.5, tags=["a", "b"], probabilities=[[0.1, 0.1]])
    assert "0%" in evaluation_page(result, pictures=[None]).html()


def test_as_many_pictures_as_images_are_needed():
    result, _ = evaluation()
    with pytest.raises(ValueError, match="1 pictures for 36 images: give one for each"):
        evaluation_page(result, pictures=[None])


def test_where_nothing_is_given_no_share_of_it_is_shown():
    result = evaluate(
        [[1, 0], [0, 1], [1, 1]], [[0.6, 0.1], [0.2, 0.7], [0.5, 0.4]], 2.0, tags=["a", "b"]
    )
    page = evaluation_page(result, pictures=[None] * 3).html()
    assert "No tags" in page
    assert "none was reliable enough" in page
    for absent in ("0 of 0", "Never found", "The worst", "The dot marks", "F1 of the tag"):
        assert absent not in page
