"""Formatting of tags, file names and percentages on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prototag.metadata.tag_names import leaf
from prototag.report.html import Markup, element, join

_BREAKS = re.compile(r"(?<=[_\-./+])(?=[^_\-./+])")


def percent(share: float) -> str:
    """Format a share as a whole percentage; a share above zero is never "0%"."""
    whole = round(100 * share)
    number = "under 1" if share > 0 and not whole else f"{whole}"
    return f"{number}%"


def last_level(tag: str) -> str:
    """Return the last level of a hierarchical tag."""
    return leaf(tag) or tag


def tag_name(tag: str) -> Markup:
    """Return the last level of a tag, with the full tag as a tooltip."""
    name = last_level(tag)
    return element("bdi", name, title=tag if name != tag or len(tag) > 40 else None)


def tag_names(tags: Iterable[str]) -> Markup:
    """Return tags separated by commas."""
    parts = [piece for tag in tags for piece in (", ", tag_name(tag))]
    return join(parts[1:])


def file_name(path: str) -> Markup:
    """Return the name of a file with line-break opportunities, and its path as a tooltip."""
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path
    return element("bdi", breakable(name), title=path if name != path else None)


def breakable(text: str) -> Markup:
    """Allow line breaks after the separators of words in file names."""
    pieces = [piece for part in _BREAKS.split(text) for piece in (Markup("<wbr>"), part)]
    return join(pieces[1:])
