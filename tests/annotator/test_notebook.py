"""What is displayed of results: short text, HTML with pictures, JSON values."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

import tagged
from prototag import Annotator
from prototag.annotator.types import (
    Annotation,
    ExplainedTag,
    Explanation,
    Neighbour,
    Prototype,
    Reason,
    Tag,
    TrainingPicture,
    TrainingSummary,
)

HOSTILE = '<script>alert("1")</script>&\x07'


@pytest.fixture(scope="module")
def annotator():
    return tagged.annotator()


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    return tagged.collection(tmp_path_factory.mktemp("new"), 4, start=100)


class Page(HTMLParser):
    """Text, elements and pictures of a page; checks that all elements are closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.images: list[Image.Image] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        if tag not in ("img", "br"):
            self.open.append(tag)
        if tag == "img":
            head, _, data = dict(attributes)["src"].partition(",")
            assert head == "data:image/webp;base64"
            self.images.append(Image.open(io.BytesIO(base64.b64decode(data, validate=True))))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_an_annotation_shows_its_picture_and_its_tags(annotator, new):
    (annotation,) = annotator.annotate(new[0])
    page = Page(annotation._repr_html_())
    (small,) = page.images
    assert small.size == (64, 48)
    difference = np.asarray(small.convert("RGB"), float) - np.asarray(Image.open(new[0]), float)
    assert np.abs(difference).mean() < 12
    for tag in [*annotation.tags, *annotation.suggestions]:
        assert f"{tag.name} {tag.probability:.0%}" in page.text
    assert new[0].name in page.text
    assert repr(annotation).startswith(f"Annotation('{new[0]}', tags=['")
    assert len(repr(annotation)) < 300


def test_pictures_in_memory_are_shown_and_described_shortly(annotator, new):
    picture = Image.open(new[0])
    pixels = np.asarray(picture)
    data = new[0].read_bytes()
    for source, words in (
        (data, f"<{len(data):,} bytes>"),
        (pixels, "<ndarray 48 x 64 x 3>"),
        (picture, "<JpegImageFile 64 x 48>"),
    ):
        (annotation,) = annotator.annotate(source)
        assert repr(annotation).startswith(f"Annotation({words}, tags=")
        page = Page(annotation._repr_html_())
        assert words in page.text
        assert len(page.images) == 1
        assert "path" not in annotation.to_dict()


def test_an_explanation_shows_the_training_pictures_behind_each_tag(annotator, new):
    explanation = annotator.explain(new[0])
    assert explanation == list(explanation)
    page = Page(explanation._repr_html_())
    shown = sum(min(6, len(one.reasons)) for one in explanation)
    assert len(page.images) == 1 + shown
    for one in explanation:
        assert one.reasons[0].picture.name in page.text
        assert f"{one.reasons[0].share:+.3f}" in page.text
    first = Page(explanation[0]._repr_html_())
    numbers = [float(number) for number in re.findall(r"[+-]\d\.\d{3}", first.text)]
    assert sum(numbers) == pytest.approx(explanation[0].tag.score, abs=0.01)
    assert len(repr(explanation[0])) < 300
    assert b"WEBP" in explanation[0].reasons[0].picture.thumbnail
    assert "WEBP" not in repr(explanation)
    assert "No tag is explained" in Page(Explanation()._repr_html_()).text


def test_similar_pictures_are_shown(annotator, new):
    neighbours = annotator.similar(new[0], 3)
    page = Page(neighbours._repr_html_())
    assert len(page.images) == 3
    assert f"{neighbours[0].similarity:.2f}" in page.text
    assert len(Page(neighbours[0]._repr_html_()).images) == 1


def test_an_annotator_shows_its_tags_and_what_to_expect(annotator):
    assert repr(Annotator(backbone="quick")) == "Annotator(backbone='quick', not fitted)"
    assert "not fitted" in Page(Annotator()._repr_html_()).text
    expected = annotator.estimate().precision
    assert repr(annotator) == (
        f"Annotator(backbone='embedded', tags=5, pictures=60, expected precision: {expected:.0%})"
    )
    page = Page(annotator._repr_html_())
    assert page.elements.count("tr") == 1 + len(annotator.tags)
    assert all(tag in page.text for tag in annotator.tags)


def test_text_of_files_is_escaped():
    tag = Tag(HOSTILE, 0.9, 1.0)
    picture = TrainingPicture(HOSTILE, [HOSTILE], b"")
    explained = ExplainedTag(tag, 0.5, [Reason(0.5, picture)], 0.5)
    for shown in (
        Annotation(HOSTILE, [tag], suggestions=[tag], in_training_set=True),
        Annotation(HOSTILE, [], error=HOSTILE),
        explained,
        Explanation([explained], HOSTILE),
        Neighbour(0.5, picture),
    ):
        html = shown._repr_html_()
        assert "\x07" not in html
        page = Page(html)
        assert "script" not in page.elements
        assert "alert" in page.text


def test_every_result_has_json_values(annotator, new):
    picture = TrainingPicture("a.jpg", ["red"], b"WEBP")
    for result in (
        *annotator.annotate([*new, "no such file.jpg"]),
        annotator.explain(new[0]),
        annotator.explain(new[0])[0],
        annotator.similar(new[0]),
        annotator.similar(new[0])[0],
        annotator.estimate(),
        annotator.training_summary,
        Prototype(picture, [("red", 0.25)], 3),
        TrainingSummary(1, 2, {"rare": 1}, 0, 0),
    ):
        assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert Annotation("a.jpg", [Tag("red", 0.12345, 1.0)]).to_dict() == {
        "path": "a.jpg",
        "tags": [{"tag": "red", "probability": 0.1235, "score": 1.0}],
        "estimates": [],
        "suggestions": [],
        "in_training_set": False,
    }
    assert Annotation("a.jpg", [], error="broken").to_dict() == {"path": "a.jpg", "error": "broken"}
