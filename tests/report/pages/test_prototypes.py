"""The sheet of prototypes."""

from __future__ import annotations

import re

from prototag.annotator.types import Prototype, TrainingPicture
from prototag.report import Thumbnails
from prototag.report.pages.prototypes import marks, prototype_sheet


def test_many_tags_are_counted():
    shown = marks([str(i) for i in range(9)], 3)
    assert [mark.name for mark in shown] == ["0", "1", "2", "and 6 more"]
    assert [mark.name for mark in marks(["a", "b"], 2)] == ["a", "b"]


def test_the_tag_in_question_is_never_cut():
    shown = marks([str(i) for i in range(9)], 3, first="7")
    assert [mark.name for mark in shown] == ["7", "0", "1", "and 6 more"]


def test_a_contact_sheet_lists_tags_and_uses_of_prototypes():
    picture = TrainingPicture("a.jpg", ["sky"])
    strong = Prototype(picture, [("sky", 0.912), ("sea", 0.2), ("cat", 0.004)], 1)
    weak = Prototype(picture, [("fog", 0.02)], 2000)
    html = prototype_sheet([strong, weak], Thumbnails())
    assert re.findall(r"<bdi>(\w+)</bdi><small>([.\d]+)<", html) == [
        ("sky", "0.91"),
        ("sea", "0.2"),
        ("fog", "0.02"),
    ]
    assert "used by 1 picture<" in html
    assert "used by 2,000 pictures<" in html
