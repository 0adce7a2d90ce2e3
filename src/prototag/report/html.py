"""HTML and SVG from elements, with escaping by type.

A plain ``str`` is text and always escaped; only :class:`Markup`, which :func:`element` returns, is
inserted without escaping.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

# Names and tags come from files. Control characters, and surrogates of file names that are not
# valid text, cannot be encoded, so the replacement character stands for them.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"br", "hr", "img", "input", "meta"})


class Markup(str):
    """HTML or SVG that is safe to insert without escaping."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return a value as escaped text; markup is not escaped again."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(value))))


def join(parts: Iterable[object]) -> Markup:
    """Concatenate text, which is escaped, and markup."""
    return Markup("".join(text(part) for part in parts))


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return ``<name attributes>children</name>``.

    Parameters
    ----------
    *children : str, Markup or numbers
        Text is escaped; ``None`` is omitted.
    **attributes
        Underscores become hyphens, a trailing one is dropped (``class_``). ``True`` is an attribute
        without value, ``None`` and ``False`` omit it; a float has at most two decimals.
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
