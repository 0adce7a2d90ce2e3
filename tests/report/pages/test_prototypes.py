"""The gallery of prototypes."""

from __future__ import annotations

from prototag.report import Thumbnails
from prototag.report.pages.prototypes import Prototype, gallery, marks


def test_the_strongest_tags_come_first_with_their_weights():
    shown = marks(Prototype(None, "a", [("sea", 0.2), ("sky", 0.912)]))
    assert [(mark.name, mark.note) for mark in shown] == [("sky", "0.91"), ("sea", "0.2")]


def test_many_tags_are_counted():
    shown = marks(Prototype(None, "a", [str(i) for i in range(9)]), 3)
    assert [mark.name for mark in shown] == ["0", "1", "2", "and 6 more"]


def test_a_gallery_tells_how_often_prototypes_are_used():
    html = gallery([Prototype(None, "a", used=1), Prototype(None, "b", used=2000)], Thumbnails())
    assert "in 1 picture<" in html
    assert "in 2,000 pictures<" in html
