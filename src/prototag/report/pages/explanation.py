"""Why one picture got its tags, as a page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prototag.report import (
    Card,
    Mark,
    Markup,
    Page,
    Thumbnails,
    chips,
    details,
    element,
    heading,
    key,
    sheet,
)
from prototag.report.charts.axes import number
from prototag.report.charts.shares import shares
from prototag.report.pages.prototypes import Prototype, marks
from prototag.report.pictures import Kind

if TYPE_CHECKING:
    from prototag.images.decode import Source

SHOWN = 6  # prototypes of one tag that are shown at once; the others open when asked for,
LEAST = 0.01  # and so do those with less than this share of the score


@dataclass(frozen=True)
class Behind:
    """A prototype behind a tag, and what it adds to the score (less than 0: what it takes)."""

    share: float
    prototype: Prototype


@dataclass(frozen=True)
class Explained:
    """A tag's score as the shares of prototypes and a rest, which all pictures give together."""

    name: str
    probability: float | None
    score: float
    threshold: float
    behind: Sequence[Behind]
    rest: float = 0.0


@dataclass(frozen=True)
class Similar:
    """A training picture like this one; likeness is 1 for the same picture."""

    likeness: float
    prototype: Prototype


def explanation_page(
    picture: Source | None,
    name: str,
    tags: Sequence[Explained],
    similar: Sequence[Similar] = (),
    *,
    yours: Collection[str] | None = None,
    footer: str = "Made by ProtoTag.",
    thumbnails: Thumbnails | None = None,
) -> Page:
    """The page that explains the tags of one picture.

    Parameters
    ----------
    picture, name : its source, and what it is called
    tags : its tags, the likeliest first
    similar : the training pictures most like it
    yours : the tags that the person gave, where there are any; the page then tells right from wrong
    thumbnails : their size and limit
    """
    small = thumbnails or Thumbnails()
    page = Page(f"Why {name} got its tags", lead=_lead(tags), footer=footer)
    given = [Mark(tag.name, _kind(tag.name, yours), _percent(tag.probability)) for tag in tags]
    if yours is not None:
        found = {tag.name for tag in tags}
        given += [Mark(tag, "missing") for tag in yours if tag not in found]
    page.section(
        "The picture",
        element(
            "div",
            small.image(picture, name, side=2 * small.side, whole=True),
            element("div", _meaning(yours), chips(given) if given else element("p", "No tags.")),
            class_="split",
        ),
    )
    if tags:
        most = max(tag.score for tag in tags)
        page.section(
            "Where its tags come from",
            "The picture is a mixture of prototypes, pictures that the model learned from. A tag's "
            "score is what they bring along; it is given where the score exceeds its threshold.",
            *(block for tag in tags for block in _reasons(tag, small, most)),
        )
    if similar:
        cards = [
            Card(
                one.prototype.picture,
                one.prototype.name,
                marks(one.prototype),
                words=element("span", f"{100 * one.likeness:.0f} % alike", class_="share"),
            )
            for one in similar
        ]
        page.section(
            "Similar pictures",
            "The pictures most like it, of those that it was learned from.",
            sheet(cards, small, small=True),
        )
    return page


def _lead(tags: Sequence[Explained]) -> str:
    if not tags:
        return "No tag was likely enough. Below are the pictures that it resembles."
    count = len({one.prototype.name for tag in tags for one in tag.behind})
    many = "one tag" if len(tags) == 1 else f"{len(tags)} tags"
    return f"It got {many}, from its likeness to {count:,} of the pictures learned from."


def _kind(name: str, yours: Collection[str] | None) -> Kind:
    if yours is None:
        return "plain"
    return "right" if name in yours else "wrong"


def _meaning(yours: Collection[str] | None) -> Markup:
    if yours is None:
        return element("p", "Its tags, and how likely each is right:", class_="muted")
    return key(right="given, and yours", wrong="given, not yours", missing="yours, not given")


def _percent(probability: float | None) -> str:
    return "" if probability is None else f"{100 * probability:.0f} %"


def _reasons(tag: Explained, small: Thumbnails, best: float) -> list[Markup | None]:
    chance = _percent(tag.probability)
    title = heading(element("bdi", tag.name), f" · {chance}" if chance else None)
    order = np.argsort([-abs(one.share) for one in tag.behind], kind="stable")
    behind = [tag.behind[place] for place in order]
    most = max((abs(one.share) for one in behind), default=1.0) or 1.0
    # Of a difference of large parts no part is a share.
    whole = tag.score if tag.rest > -0.005 and most <= tag.score else None
    cards = [_card(one, whole, most) for one in behind]
    large = sum(abs(one.share) >= LEAST * abs(tag.score) for one in behind)
    shown = min(SHOWN, large)
    drawn = shares(
        [(one.prototype.name, one.share) for one in behind],
        tag.rest,
        tag.threshold,
        title=f"The score of {tag.name}: {_sum(tag)}",
        rest_name="all pictures and tags together",
        most=best,
    )
    blocks = [
        title,
        element("p", _sum(tag), class_="muted small"),
        element("div", drawn, class_="sum"),
        sheet(cards[:shown], small, small=True) if shown else None,
    ]
    if len(cards) > shown:
        more = sheet(cards[shown:], small, small=True)
        count = len(cards) - shown
        blocks.append(details(f"{count} more prototype{'' if count == 1 else 's'}", more))
    return blocks


def _sum(tag: Explained) -> str:
    together = sum(one.share for one in tag.behind)
    count = len(tag.behind)
    words = (
        f"Score {_number(tag.score)}, threshold {_number(tag.threshold)}. "
        f"{count} prototype{'' if count == 1 else 's'} gave {_number(together)}"
    )
    if abs(tag.rest) < 0.005:
        return words + "."
    if tag.rest < 0:
        return f"{words}; all pictures and tags together took {_number(-tag.rest)} away."
    return f"{words}; the other {_number(tag.rest)} come from all pictures and tags together."


def _number(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else number(value)


def _card(one: Behind, score: float | None, most: float) -> Card:
    words = f"adds {_number(one.share)}" if one.share >= 0 else f"takes {_number(-one.share)}"
    if score:
        words = f"{100 * abs(one.share) / score:.0f} % of the score" + (
            "" if one.share >= 0 else ", against it"
        )
    meter = element(
        "span",
        element("span", style=f"width:{100 * abs(one.share) / most:.0f}%"),
        class_="meter against" if one.share < 0 else "meter",
        aria_hidden="true",
    )
    share = element("span", meter, words, class_="share")
    prototype = one.prototype
    return Card(prototype.picture, prototype.name, marks(prototype, 4), words=share)
