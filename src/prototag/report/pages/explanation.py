"""Explanation page for the tags of a picture."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from prototag.annotator.types import ExplainedTag, Neighbour, Reason
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
    picture_sheet,
)
from prototag.report.charts.axes import number
from prototag.report.charts.contributions import shares
from prototag.report.formatting import last_level, percent, tag_name
from prototag.report.html import join
from prototag.report.pages.prototypes import marks

if TYPE_CHECKING:
    from prototag.images.decode import Source

MAX_SHOWN = 6  # training pictures per tag; further ones are hidden until opened
MIN_SHARE = 0.01  # of the score; training pictures below it are hidden until opened
MAX_TAGS = 4  # of each training picture
REST = "everything else"
PERHAPS = " · perhaps"
BY_PICTURES = (
    "The picture is compared with the training pictures. Each of them adds to the score of a tag. "
    "The higher the score, the more probable is the tag; tags that are probable enough are applied."
)
BY_NAMES = (
    "No picture was used for training. Public collections say how pictures look that people "
    "describe by the tag and by words like it."
)


def explanation_page(
    picture: Source | None,
    name: str,
    explained: Sequence[ExplainedTag],
    similar: Sequence[Neighbour] = (),
    *,
    applied: Collection[str] | None = None,
) -> Page:
    """Return the page that explains the tags of a picture.

    Parameters
    ----------
    picture, name : its source and its displayed name
    explained : its tags, most probable first, of :meth:`prototag.Annotator.explain`
    similar : the most similar training pictures, of :meth:`prototag.Annotator.similar`
    applied : names of the applied tags, the others being suggestions; all if None
    """
    small = Thumbnails()
    sure = [one for one in explained if applied is None or one.tag.name in applied]
    perhaps = [one for one in explained if applied is not None and one.tag.name not in applied]
    title = f"What {name} may show" if perhaps and not sure else f"Why {name} got its tags"
    page = Page(title, lead=_lead(sure, perhaps))
    page.section(
        "The picture",
        element(
            "div",
            small.image(picture, name, side=2 * small.side, whole=True),
            element("div", _named(sure, perhaps)),
            class_="split",
        ),
    )
    by_pictures = any(one.reasons for one in explained)
    if explained:
        best = max(one.tag.score for one in explained)
        page.section(
            "Where its tags come from",
            BY_PICTURES if by_pictures else BY_NAMES,
            *(block for one in sure for block in _reasons(one, small, best)),
            *(block for one in perhaps for block in _reasons(one, small, best, PERHAPS)),
        )
    if similar:
        page.section(
            "Similar pictures",
            "The training pictures that look most like it.",
            picture_sheet([_alike(one) for one in similar], small, small=True),
        )
    return page


def _lead(sure: Sequence[ExplainedTag], perhaps: Sequence[ExplainedTag]) -> str:
    if not sure and not perhaps:
        return "No tag was probable enough. Below are the pictures that it resembles."
    count = len({reason.picture.name for one in sure or perhaps for reason in one.reasons})
    because = f"because it resembles {count:,} of the training pictures"
    if not count and any(one.concepts for one in sure or perhaps):
        because = "because it looks like what people call by these words"
    if not sure:
        those = "This one is" if len(perhaps) == 1 else f"These {len(perhaps)} are"
        return f"{those} possible, {because}, but not probable enough to be applied."
    return f"It got {_tags(len(sure))}, {because}."


def _tags(count: int) -> str:
    return "one tag" if count == 1 else f"{count} tags"


def _named(sure: Sequence[ExplainedTag], perhaps: Sequence[ExplainedTag]) -> Markup:
    if not sure and not perhaps:
        return element("p", "No tags.")
    groups = (
        ("Its tags, with their probabilities:", sure),
        ("Possible, but not probable enough to be applied:", perhaps),
    )
    return join(
        block
        for words, group in groups
        if group
        for block in (
            element("p", words, class_="muted"),
            chips([Mark(one.tag.name, "plain", percent(one.tag.probability)) for one in group]),
        )
    )


def _reasons(
    one: ExplainedTag, small: Thumbnails, best: float, note: str = ""
) -> list[Markup | None]:
    score = one.tag.score
    reasons = sorted(one.reasons, key=lambda reason: -abs(reason.share))
    largest = max((abs(reason.share) for reason in reasons), default=1.0) or 1.0
    # If large contributions cancel, their shares of the score are meaningless.
    whole = score if one.rest > -0.005 and largest <= score else None
    cards = [_card(reason, one.tag.name, whole, largest) for reason in reasons]
    large = sum(abs(reason.share) >= MIN_SHARE * abs(score) for reason in reasons)
    shown = min(MAX_SHOWN, large)
    if not reasons and one.concepts:
        return [
            heading(tag_name(one.tag.name), f" · {percent(one.tag.probability)}{note}"),
            _by_name(one),
        ]
    drawn = shares(
        [(reason.picture.name, reason.share) for reason in reasons],
        one.rest,
        math.nan,
        title=f"The score of {last_level(one.tag.name)}: {_sum(one)}",
        rest_name=REST,
        longest=best,
    )
    blocks = [
        heading(tag_name(one.tag.name), f" · {percent(one.tag.probability)}{note}"),
        element("p", _sum(one), class_="muted small"),
        _by_name(one),
        element("div", drawn, class_="sum"),
        picture_sheet(cards[:shown], small, small=True) if shown else None,
    ]
    if len(cards) > shown:
        more = picture_sheet(cards[shown:], small, small=True)
        blocks.append(details(_pictures(len(cards) - shown, "more "), more))
    return blocks


def _by_name(one: ExplainedTag) -> Markup | None:
    if not one.concepts:
        return None
    concepts = ", ".join(f"{concept.name} {concept.contribution:.2f}" for concept in one.concepts)
    return element("p", f"Its name is like: {concepts}.", class_="small")


def _sum(one: ExplainedTag) -> str:
    together = sum(reason.share for reason in one.reasons)
    count = len(one.reasons)
    words = (
        f"Score {_number(one.tag.score)}: "
        f"{_pictures(count, 'training ')} {'adds' if count == 1 else 'add'} {_number(together)}"
    )
    if abs(one.rest) < 0.005:
        return words + "."
    if one.rest < 0:
        return f"{words}; {REST} takes {_number(-one.rest)} away."
    return f"{words}, {REST} {_number(one.rest)}."


def _pictures(count: int, kind: str) -> str:
    return f"{count} {kind}picture{'' if count == 1 else 's'}"


def _number(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else number(value)


def _card(reason: Reason, tag: str, score: float | None, largest: float) -> Card:
    share = reason.share
    words = f"adds {_number(share)}" if share >= 0 else f"takes {_number(-share)} away"
    if score:
        against = "" if share >= 0 else ", against it"
        words = f"{percent(abs(share) / score)} of the score{against}"
    meter = element(
        "span",
        element("span", style=f"width:{100 * abs(share) / largest:.0f}%"),
        class_="meter against" if share < 0 else "meter",
        aria_hidden="true",
    )
    return Card(
        reason.picture.thumbnail or None,
        reason.picture.name,
        marks(reason.picture.tags, MAX_TAGS, first=tag),
        text=element("span", meter, words, class_="share"),
    )


def _alike(one: Neighbour) -> Card:
    words = element("span", f"{percent(one.similarity)} alike", class_="share")
    tags = marks(one.picture.tags)
    return Card(one.picture.thumbnail or None, one.picture.name, tags, text=words)
