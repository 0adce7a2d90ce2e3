"""The gallery of prototypes: what the model compares pictures with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prototag.report import Card, Mark, Markup, Thumbnails, element, sheet
from prototag.report.charts.axes import number

if TYPE_CHECKING:
    from prototag.images.decode import Source

MARKS = 6  # tags shown of one prototype


@dataclass(frozen=True)
class Prototype:
    """A prototype or training picture: how it looks, what it is called, which tags it stands for.

    Tags are names, or pairs of a name and a semantic weight (shown strongest first). ``used`` is
    the number of images whose codes hold it.
    """

    picture: Source | None
    name: str
    tags: Sequence[str | tuple[str, float]] = ()
    used: int | None = None


def marks(prototype: Prototype, count: int = MARKS) -> list[Mark]:
    """Its strongest tags, with their weights where they are known."""
    plain = [Mark(tag) for tag in prototype.tags if isinstance(tag, str)]
    weighed = sorted(
        (tag for tag in prototype.tags if not isinstance(tag, str)), key=lambda pair: -pair[1]
    )
    every = [*(Mark(name, note=number(round(w, 2))) for name, w in weighed), *plain]
    more = len(every) - count
    return every if more <= 0 else [*every[:count], Mark(f"and {more} more")]


def gallery(prototypes: Sequence[Prototype], thumbnails: Thumbnails) -> Markup:
    """A sheet of prototypes in the order given."""
    cards = [Card(one.picture, one.name, marks(one), words=_used(one.used)) for one in prototypes]
    return sheet(cards, thumbnails, small=True)


def _used(count: int | None) -> Markup | None:
    if count is None:
        return None
    words = "in 1 picture" if count == 1 else f"in {count:,} pictures"
    return element("span", words, class_="share")
