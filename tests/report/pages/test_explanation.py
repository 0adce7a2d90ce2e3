"""Why one picture got its tags."""

from __future__ import annotations

import re

from pictures import encoded, scene
from prototag.report.pages import Behind, Explained, Prototype, Similar, explanation_page


def explained(count: int, share: float = 0.1) -> Explained:
    behind = [Behind(share / (1 + i), Prototype(None, f"{i}.jpg", ["sky"])) for i in range(count)]
    return Explained("sky", 0.83, 0.5, 0.2, behind, 0.5 - sum(one.share for one in behind))


def test_shares_and_rest_are_told():
    page = explanation_page(None, "a.jpg", [explained(2, 0.2)]).html()
    assert "<h3><bdi>sky</bdi> · 83 %</h3>" in page
    assert (
        "Score 0.50, threshold 0.20. 2 prototypes gave 0.30; the other 0.20 come from all "
        "pictures and tags together." in page
    )
    assert "40 % of the score" in page
    assert "20 % of the score" in page


def test_strongest_prototypes_first_and_the_weak_behind_a_fold():
    tag = Explained(
        "sky", None, 0.5, 0.2, [Behind(s, Prototype(None, f"p{s}")) for s in (0.1, -0.3, 0.2)]
    )
    page = explanation_page(None, "a.jpg", [tag]).html()
    assert re.findall(r"<bdi>(p[-.\d]+)</bdi>", page) == ["p-0.3", "p0.2", "p0.1"]
    assert "60 % of the score, against it" in page
    assert "4 more prototypes" in explanation_page(None, "a.jpg", [explained(10)]).html()
    tiny = Explained("sky", None, 1.0, 0.2, [Behind(0.009, Prototype(None, "tiny"))], 0.991)
    assert "1 more prototype<" in explanation_page(None, "a.jpg", [tiny]).html()


def test_parts_larger_than_the_score_are_not_called_shares_of_it():
    behind = [Behind(s, Prototype(None, f"p{s}")) for s in (2.0, 1.0, -0.5)]
    page = explanation_page(None, "a.jpg", [Explained("sky", None, 0.5, 0.2, behind, -2.0)]).html()
    assert "3 prototypes gave 2.50; all pictures and tags together took 2.00 away." in page
    assert "% of the score" not in page
    assert "adds 2.00" in page
    assert "takes 0.50" in page


def test_tags_are_compared_with_yours_where_they_are_known():
    page = explanation_page(None, "a.jpg", [explained(1)], yours=["sea"]).html()
    assert 'class="tag wrong"><span aria-hidden="true">✕' in page
    assert page.count("<bdi>sea</bdi>") == 1
    assert "yours, not given" in page
    assert "yours, not given" not in explanation_page(None, "a.jpg", [explained(1)]).html()


def test_a_picture_without_tags_still_shows_what_is_like_it():
    similar = [Similar(0.42, Prototype(None, "b.jpg", ["sea"]))]
    page = explanation_page(encoded(scene(), "PNG"), "a.jpg", [], similar).html()
    assert "No tag was likely enough" in page
    assert "42 % alike" in page
    assert "picture whole" in page
