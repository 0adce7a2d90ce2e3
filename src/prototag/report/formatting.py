"""How tags, file names and shares are written on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prototag.metadata.tag_names import leaf
from prototag.report.html import Markup, element, join

_BREAKS = re.compile(r"(?<=[_\-./+])(?=[^_\-./+])")


def percent(share: float) -> str:
    """A share as a whole percentage that no line break tears apart; never 0 % of something."""
    whole = round(100 * share)
    number = "under 1" if share > 0 and not whole else f"{whole}"
    return f"{number}\N{NO-BREAK SPACE}%"


def short(tag: str) -> str:
    """The last level of a hierarchical tag."""
    return leaf(tag) or tag


def tag_name(tag: str) -> Markup:
    """A tag: its last level, and to a pointer the whole path."""
    name = short(tag)
    return element("bdi", name, title=tag if name != tag or len(tag) > 40 else None)


def tag_names(tags: Iterable[str]) -> Markup:
    """Tags in a row, with commas."""
    parts = [piece for tag in tags for piece in (", ", tag_name(tag))]
    return join(parts[1:])


def file_name(path: str) -> Markup:
    """A file: its own name, which may break between its words, and to a pointer the whole path."""
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path
    return element("bdi", breakable(name), title=path if name != path else None)


def breakable(text: str) -> Markup:
    """Text that may break after the signs which stand between words in file names."""
    pieces = [piece for part in _BREAKS.split(text) for piece in (Markup("<wbr>"), part)]
    return join(pieces[1:])
