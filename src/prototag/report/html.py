"""HTML and SVG built of elements: text is escaped because of what it is, not because of care.

A plain ``str`` is text and always escaped; only :class:`Markup`, which :func:`element` makes, goes
into a page as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

# Names and tags come from files: neither control characters nor halves of surrogate pairs (which
# stand for file names that are no text) can be written, and both are shown as what they are: odd.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"br", "hr", "img", "input", "meta"})


class Markup(str):
    """HTML or SVG that is safe to place in a page as it is."""

    __slots__ = ()


def text(value: object) -> Markup:
    """A value as escaped text; markup stays as it is."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(value))))


def join(parts: Iterable[object]) -> Markup:
    return Markup("".join(text(part) for part in parts))


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """``<name attributes>children</name>``.

    Parameters
    ----------
    *children : str, Markup or numbers
        Text is escaped; ``None`` is left out.
    **attributes
        Underscores become hyphens, a trailing one is dropped (``class_``). ``True`` gives a bare
        attribute, ``None`` and ``False`` none at all; a float is written short.
    """
    opening = f"<{name}{''.join(map(_attribute, attributes.items()))}>"
    if name in _VOID:
        return Markup(opening)
    inside = "".join(text(child) for child in children if child is not None)
    return Markup(f"{opening}{inside}</{name}>")


def _attribute(item: tuple[str, object]) -> str:
    name = item[0].rstrip("_").replace("_", "-")
    value = item[1]
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    if isinstance(value, float):  # numpy's float64 too
        value = f"{value:.2f}".rstrip("0").rstrip(".")
    # Markup inside an attribute is text: escaped once more.
    return f' {name}="{text(str(value))}"'
