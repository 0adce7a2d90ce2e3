"""The pictures that a model compares others with, as a sheet."""

from __future__ import annotations

from collections.abc import Sequence

from prototag.annotator.types import Prototype
from prototag.report import Card, Mark, Markup, Thumbnails, element, sheet
from prototag.report.charts.axes import number

MARKS = 6  # tags shown of one picture
LEAST = 0.05  # weight of a tag that is worth a word


def marks(tags: Sequence[str], count: int = MARKS, *, first: str | None = None) -> list[Mark]:
    """The tags of a training picture, ``first`` before all others; how many more there are."""
    order = sorted(tags, key=lambda tag: tag != first)
    more = len(order) - count
    return [*map(Mark, order[:count]), *([Mark(f"and {more} more")] if more > 0 else [])]


def prototype_sheet(prototypes: Sequence[Prototype], thumbnails: Thumbnails) -> Markup:
    """Prototypes in the order given, with the tags that they speak for and how many use them."""
    cards = [
        Card(
            one.picture.thumbnail or None, one.picture.name, _weighed(one), words=_used(one.n_uses)
        )
        for one in prototypes
    ]
    return sheet(cards, thumbnails, small=True)


def _weighed(prototype: Prototype) -> list[Mark]:
    strong = [pair for pair in prototype.weights if pair[1] >= LEAST]
    shown = (strong or prototype.weights[:1])[:MARKS]
    return [Mark(name, note=number(round(weight, 2))) for name, weight in shown]


def _used(count: int) -> Markup:
    words = "used by 1 picture" if count == 1 else f"used by {count:,} pictures"
    return element("span", words, class_="share")
