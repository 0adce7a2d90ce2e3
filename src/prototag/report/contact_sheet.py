"""Thumbnails embedded in a page, and contact sheets of pictures with their tags."""

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
_OVER_LIMIT = "omitted, to keep this page small"
# Accessibility: each kind has a sign, a shape and a text besides its colour.
_SIGNS = {"right": "✓", "wrong": "✕", "missing": "○", "likely": "+", "doubtful": "?"}


class Thumbnails:
    """Embedded thumbnails of one page, limited in total size.

    Parameters
    ----------
    side : int
        The longest side in pixels.
    limit : int
        The limit of bytes of all pictures of the page; further pictures show their name only.
    quality : int
        The quality of the WebP encoder (of JPEG if Pillow has no WebP).
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
        self._encoded: dict[tuple[str, int], tuple[str, int, int] | str] = {}

    def image(
        self, source: Source | None, alt: str, *, side: int | None = None, whole: bool = False
    ) -> Markup:
        """Return an ``img`` with embedded bytes, or a box with the reason why there is none.

        ``whole`` keeps the aspect ratio; otherwise the picture is shown in a 4:3 box.
        """
        class_ = "picture whole" if whole else "picture"
        thumbnail = self._thumbnail(source, side or self.side)
        if isinstance(thumbnail, str):
            reason = f"{alt}: {thumbnail}" if alt else thumbnail
            return element("div", reason, class_=f"{class_} nopicture")
        uri, width, height = thumbnail
        self.used += len(uri)
        return element(
            "img", src=uri, alt=alt, width=width, height=height, decoding="async", class_=class_
        )

    def _thumbnail(self, source: Source | None, side: int) -> tuple[str, int, int] | str:
        if source is None:
            return "no picture"
        if self.used >= self.limit:
            return _OVER_LIMIT
        key = (os.fspath(source), side) if isinstance(source, str | os.PathLike) else None
        thumbnail = self._encoded.get(key) if key else None
        if thumbnail is None:
            thumbnail = self._encode(source, side)
            if key:
                self._encoded[key] = thumbnail
        if not isinstance(thumbnail, str) and self.used + len(thumbnail[0]) > self.limit:
            self.used = self.limit  # no picture follows the first one over the limit
            return _OVER_LIMIT
        return thumbnail

    def _encode(self, source: Source, side: int) -> tuple[str, int, int] | str:
        from PIL import features

        try:
            picture = open_image(source, at_least=(side, side))
        except ImageError as error:
            return str(error)
        picture.thumbnail((side, side))
        kind = "WEBP" if features.check("webp") else "JPEG"
        file = io.BytesIO()
        # Privacy: only pixels, without location, owner or colour profile.
        picture.info.clear()
        picture.save(file, kind, quality=self.quality)
        data = base64.b64encode(file.getvalue()).decode("ascii")
        return f"data:image/{kind.lower()};base64,{data}", *picture.size


@dataclass(frozen=True)
class Mark:
    """A tag of a picture with its kind and a note such as ``83%``.

    Applied tags are right or wrong, and correct tags that were not applied are missing. Among a
    person's own tags, likely ones may be missing and doubtful ones wrong. Plain tags have no
    verdict.
    """

    name: str
    kind: Kind = "plain"
    note: str = ""


@dataclass(frozen=True)
class Card:
    """A picture of a contact sheet with its caption, a text, its tags, and content below them."""

    picture: Source | None
    caption: str
    tags: Sequence[Mark] = ()
    below: Markup | str | None = None
    text: Markup | str | None = None


def chip(mark: Mark) -> Markup:
    """Return one tag with its sign; screen readers get the kind as text."""
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
    """Return a list of tags."""
    return element("ul", *(element("li", chip(mark)) for mark in marks), class_="tags")


def key(**meanings: str) -> Markup:
    """Return the legend of a contact sheet: ``key(right="applied, and yours", ...)``."""
    entries = (
        element("li", chip(Mark(kind, kind)), f" {meaning}")  # type: ignore[arg-type]
        for kind, meaning in meanings.items()
    )
    return element("ul", *entries, class_="key")


def picture_sheet(cards: Iterable[Card], thumbnails: Thumbnails, *, small: bool = False) -> Markup:
    """Return a contact sheet whose number of columns depends on the screen width."""
    entries = [
        element(
            "li",
            thumbnails.image(card.picture, card.caption, side=200 if small else None),
            element("div", file_name(card.caption), class_="name") if card.caption else None,
            card.text,
            chips(card.tags) if card.tags else None,
            card.below,
        )
        for card in cards
    ]
    return element("ul", *entries, class_="contact-sheet small" if small else "contact-sheet")
