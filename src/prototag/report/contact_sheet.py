"""Pictures inside a page, small, and sheets of them with their tags."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from prototag.errors import ImageError
from prototag.images.decode import open_image
from prototag.report.formatting import file_name, tag_name
from prototag.report.html import Markup, element

if TYPE_CHECKING:
    from prototag.images.decode import Source

Kind = Literal["plain", "right", "wrong", "missing", "likely", "doubtful"]
_TOO_MANY = "left out, to keep this page small"
# Never by colour alone: each kind has its sign, its shape and its words.
_SIGNS = {"right": "✓", "wrong": "✕", "missing": "○", "likely": "+", "doubtful": "?"}


class Thumbnails:
    """Makes small copies of pictures for one page, and stops before the page grows too large.

    Parameters
    ----------
    side : int
        Longest side in pixels.
    limit : int
        Bytes that all pictures of the page may take together; those over it are named only.
    quality : int
        Of the WebP encoder (JPEG where Pillow has none).
    """

    def __init__(self, *, side: int = 320, limit: int = 12_000_000, quality: int = 68) -> None:
        if side < 16 or limit < 0 or not 1 <= quality <= 100:
            raise ValueError(
                f"side={side}, limit={limit}, quality={quality}: give a side of at least 16 pixels,"
                " a limit of at least 0 bytes and a quality from 1 to 100."
            )
        self.side = side
        self.limit = limit
        self.quality = quality
        self.used = 0
        self._made: dict[tuple[str, int], tuple[str, int, int] | str] = {}

    def image(
        self, source: Source | None, alt: str, *, side: int | None = None, whole: bool = False
    ) -> Markup:
        """The picture as an ``img`` that holds its own bytes, or a box that says why it is not.

        ``whole`` gives it its own shape; else it stands in a box of 4:3, so that a sheet is even.
        """
        class_ = "picture whole" if whole else "picture"
        made = self._small(source, side or self.side)
        if isinstance(made, str):
            return element("div", f"{alt}: {made}" if alt else made, class_=f"{class_} nopicture")
        uri, width, height = made
        self.used += len(uri)
        return element(
            "img", src=uri, alt=alt, width=width, height=height, decoding="async", class_=class_
        )

    def _small(self, source: Source | None, side: int) -> tuple[str, int, int] | str:
        if source is None:
            return "no picture"
        if self.used >= self.limit:
            return _TOO_MANY
        key = (os.fspath(source), side) if isinstance(source, str | os.PathLike) else None
        made = self._made.get(key) if key else None
        if made is None:
            made = self._encode(source, side)
            if key:
                self._made[key] = made
        if not isinstance(made, str) and self.used + len(made[0]) > self.limit:
            self.used = self.limit  # the first that does not fit ends the pictures of a page
            return _TOO_MANY
        return made

    def _encode(self, source: Source, side: int) -> tuple[str, int, int] | str:
        from PIL import features

        try:
            picture = open_image(source, at_least=(side, side))
        except ImageError as error:
            return str(error)
        picture.thumbnail((side, side))
        kind = "WEBP" if features.check("webp") else "JPEG"
        file = io.BytesIO()
        # Nothing but pixels: no place, no owner, no colour profile travels with a page.
        picture.info.clear()
        picture.save(file, kind, quality=self.quality)
        data = base64.b64encode(file.getvalue()).decode("ascii")
        return f"data:image/{kind.lower()};base64,{data}", *picture.size


@dataclass(frozen=True)
class Mark:
    """A tag of a picture, of one kind, with a note such as ``83 %``.

    Given tags are right or wrong, others missing; of a person's own some may be likely though not
    given, or doubtful though given; plain ones are not judged.
    """

    name: str
    kind: Kind = "plain"
    note: str = ""


@dataclass(frozen=True)
class Card:
    """A picture of a contact sheet with its caption, some words, its tags, and words below them."""

    picture: Source | None
    caption: str
    tags: Sequence[Mark] = ()
    below: Markup | str | None = None
    words: Markup | str | None = None


def chip(mark: Mark) -> Markup:
    """One tag, with its sign; a screen reader is told the kind in words."""
    sign = _SIGNS.get(mark.kind)
    return element(
        "span",
        element("span", sign, aria_hidden="true") if sign else None,
        element("span", f"{mark.kind}: ", class_="hidden") if sign else None,
        tag_name(mark.name),
        element("small", mark.note) if mark.note else None,
        class_=f"tag {mark.kind}",
    )


def chips(marks: Iterable[Mark]) -> Markup:
    return element("ul", *(element("li", chip(mark)) for mark in marks), class_="tags")


def key(**meanings: str) -> Markup:
    """What the kinds of tags on a sheet mean: ``key(right="given, and yours", ...)``."""
    entries = (
        element("li", chip(Mark(kind, kind)), f" {words}")  # type: ignore[arg-type]
        for kind, words in meanings.items()
    )
    return element("ul", *entries, class_="key")


def sheet(cards: Iterable[Card], thumbnails: Thumbnails, *, small: bool = False) -> Markup:
    """A contact sheet: as many pictures beside each other as the screen has room for."""
    entries = [
        element(
            "li",
            thumbnails.image(card.picture, card.caption, side=200 if small else None),
            element("div", file_name(card.caption), class_="name") if card.caption else None,
            card.words,
            chips(card.tags) if card.tags else None,
            card.below,
        )
        for card in cards
    ]
    return element("ul", *entries, class_="sheet small" if small else "sheet")
