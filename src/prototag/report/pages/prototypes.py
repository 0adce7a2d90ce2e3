"""Contact sheet of the prototypes of a model."""

from __future__ import annotations

from collections.abc import Sequence

from prototag.annotator.types import Prototype
from prototag.report import Card, Mark, Markup, Thumbnails, element, picture_sheet
from prototag.report.charts.axes import number

MAX_TAGS = 6  # of one picture
MIN_WEIGHT = 0.05  # of a tag that is shown


def marks(tags: Sequence[str], count: int = MAX_TAGS, *, first: str | None = None) -> list[Mark]:
    """Return the tags of a training picture, ``first`` at the front, and the number omitted."""
    order = sorted(tags, key=lambda tag: tag != first)
    more = len(order) - count
    return [*map(Mark, order[:count]), *([Mark(f"and {more} more")] if more > 0 else [])]


def prototype_sheet(prototypes: Sequence[Prototype], thumbnails: Thumbnails) -> Markup:
    """Return a contact sheet of prototypes, with their tags and numbers of uses."""
    cards = [
        Card(one.picture.thumbnail or None, one.picture.name, _weighed(one), text=_used(one.n_uses))
        for one in prototypes
    ]
    return picture_sheet(cards, thumbnails, small=True)


def _weighed(prototype: Prototype) -> list[Mark]:
    strong = [pair for pair in prototype.weights if pair[1] >= MIN_WEIGHT]
    shown = (strong or prototype.weights[:1])[:MAX_TAGS]
    return [Mark(name, note=number(round(weight, 2))) for name, weight in shown]


def _used(count: int) -> Markup:
    words = "used by 1 picture" if count == 1 else f"used by {count:,} pictures"
    return element("span", words, class_="share")
