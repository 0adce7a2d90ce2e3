"""Why one picture got its tags."""

from __future__ import annotations

import re

from pictures import encoded, scene
from prototag.annotator.types import ExplainedTag, Neighbour, Reason, Tag, TrainingPicture
from prototag.report.pages import explanation_page

PERCENT = "%"


def explained(*shares: float, score: float = 0.5, rest: float | None = None) -> ExplainedTag:
    reasons = [Reason(share, TrainingPicture(f"p{share}.jpg", ["sky"])) for share in shares]
    left = score - sum(shares) if rest is None else rest
    return ExplainedTag(Tag("sky", 0.83, score), 0.2, reasons, left)


def test_shares_and_rest_are_listed():
    page = explanation_page(None, "a.jpg", [explained(0.2, 0.1)]).html()
    assert f"<h3><bdi>sky</bdi> · 83{PERCENT}</h3>" in page
    assert "Score 0.50: 2 training pictures add 0.30, everything else 0.20." in page
    assert f"40{PERCENT} of the score" in page
    assert f"20{PERCENT} of the score" in page


def test_strongest_pictures_first_and_the_weak_behind_a_fold():
    page = explanation_page(None, "a.jpg", [explained(0.1, -0.3, 0.2, rest=0)]).html()
    names = re.findall(r'class="name"><bdi>(.*?)</bdi>', page)
    assert [name.replace("<wbr>", "") for name in names] == ["p-0.3.jpg", "p0.2.jpg", "p0.1.jpg"]
    assert f"60{PERCENT} of the score, against it" in page
    ten = explained(*(0.1 / (1 + i) for i in range(10)))
    assert "4 more pictures" in explanation_page(None, "a.jpg", [ten]).html()
    tiny = explained(0.009, score=1.0)
    assert "1 more picture<" in explanation_page(None, "a.jpg", [tiny]).html()


def test_parts_larger_than_the_score_are_not_called_shares_of_it():
    page = explanation_page(None, "a.jpg", [explained(2.0, 1.0, -0.5)]).html()
    assert "3 training pictures add 2.50; everything else takes 2.00 away." in page
    assert "of the score" not in page
    assert "adds 2.00" in page
    assert "takes 0.50 away" in page


def test_the_explained_tag_is_on_every_card():
    many = TrainingPicture("b.jpg", [*"abcdefgh", "sky"])
    tag = ExplainedTag(Tag("sky", 0.8, 0.5), 0.2, [Reason(0.5, many)], 0.0)
    card = re.search(r"<li>.*b\.<wbr>jpg.*?</ul>", explanation_page(None, "a", [tag]).html())
    assert re.findall(r"<bdi>([^<]+)</bdi></span>", card[0])[-5:] == [
        "sky",
        *"abc",
        "and 5 more",
    ]


def test_a_picture_without_tags_still_shows_what_is_like_it():
    small = encoded(scene(seed=1), "WEBP")
    similar = [Neighbour(0.42, TrainingPicture("b.jpg", ["sea"], small))]
    page = explanation_page(encoded(scene(), "PNG"), "a.jpg", [], similar).html()
    assert "No tag was probable enough" in page
    assert f"42{PERCENT} alike" in page
    assert "picture whole" in page
    assert page.count("<img") == 2


def test_suggested_tags_are_listed_separately():
    one, page = explained(0.2), explanation_page
    name = one.tag.name
    assert "It got one tag" in page(None, "a.jpg", [one], applied=[name]).html()
    perhaps = page(None, "a.jpg", [one], applied=[]).html()
    assert "What a.jpg may show" in perhaps
    assert "It got" not in perhaps
    assert "not probable enough to be applied" in perhaps
    assert "perhaps</h3>" in perhaps
