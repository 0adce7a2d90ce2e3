"""How a tag is spelt: cleaned, compared, and split into the levels of a hierarchy.

A tag is a string. ``|`` separates the levels of a hierarchical one, the widest first:
``animal|cat``. Everything else belongs to the name, so that ``b/w`` and ``New York, NY`` are flat.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

SEPARATOR = "|"
# What XML 1.0 cannot hold in any spelling, and lone surrogates, which no encoding can.
_UNHOLDABLE = re.compile("[\x00-\x08\x0e-\x1b\ufffe\uffff\ud800-\udfff]")


@lru_cache(maxsize=1 << 15)  # a collection says the same words again and again
def clean(tag: str) -> str:
    """The tag as it is kept everywhere; empty if nothing remains.

    Unicode NFC, runs of white space (a line break too) as one space, none at the ends, without
    the characters that XML cannot hold, without empty levels. Spelling and case are the person's.
    """
    tag = unicodedata.normalize("NFC", _UNHOLDABLE.sub("", tag))
    if SEPARATOR not in tag:
        return " ".join(tag.split())
    levels = (" ".join(level.split()) for level in tag.split(SEPARATOR))
    return SEPARATOR.join(level for level in levels if level)


@lru_cache(maxsize=1 << 15)
def key(tag: str) -> str:
    """Equal for tags that differ in case alone."""
    return unicodedata.normalize("NFC", clean(tag).casefold())


def leaf(tag: str) -> str:
    """The last level: ``cat`` of ``animal|cat``."""
    return tag.rpartition(SEPARATOR)[2]


def unique(tags: list[str]) -> list[str]:
    """Cleaned, without the empty ones and repetitions; the first spelling stays."""
    seen: dict[str, str] = {}
    for tag in map(clean, tags):
        if tag:
            seen.setdefault(key(tag), tag)
    return list(seen.values())


def with_slashes(tag: str) -> str:
    """The path as digiKam writes it; a slash inside a name becomes its backslash."""
    return tag.replace("/", "\\").replace(SEPARATOR, "/")


def from_slashes(path: str) -> str:
    return path.replace("/", SEPARATOR).replace("\\", "/")
