"""How tags are spelt, compared and joined, and which of them are common enough to learn.

A tag is a string. ``|`` separates the levels of a hierarchical one, the widest first:
``animal|cat``. Everything else belongs to the name, so that ``b/w`` and ``New York, NY`` are flat.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from prototag.errors import MetadataError, UnknownNameError

if TYPE_CHECKING:
    from scipy import sparse

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


def plain(tag: str) -> str:
    """Equal for tags that differ in case and accents alone."""
    parts = unicodedata.normalize("NFKD", key(tag))
    return "".join(c for c in parts if not unicodedata.combining(c))


def unique(tags: list[str]) -> list[str]:
    """Cleaned, without the empty ones and repetitions; the first spelling stays."""
    seen: dict[str, str] = {}
    for tag in map(clean, tags):
        if tag:
            seen.setdefault(key(tag), tag)
    return list(seen.values())


def combine(paths: list[str], flat: list[str]) -> list[str]:
    """Hierarchical tags, then the flat ones that are no level of one of them.

    Photo tools write ``cat`` (some write ``animal`` too) beside ``animal|cat``.
    """
    paths = unique(paths)
    levels = {key(level) for path in paths for level in path.split(SEPARATOR)}
    return unique(paths + [tag for tag in flat if key(tag) not in levels])


def union(sources: list[list[str]]) -> list[str]:
    """The tags of several places of one picture; ``cat`` of one is ``animal|cat`` of another."""
    levels = [
        {key(level) for tag in tags if SEPARATOR in tag for level in tag.split(SEPARATOR)}
        for tags in sources
    ]
    kept = []
    for i, tags in enumerate(sources):
        others = set().union(*levels[:i], *levels[i + 1 :])
        kept += [tag for tag in tags if SEPARATOR in tag or key(tag) not in others]
    return unique(kept)


def with_slashes(tag: str) -> str:
    """The path as digiKam writes it; a slash inside a name becomes its backslash."""
    return tag.replace("/", "\\").replace(SEPARATOR, "/")


def from_slashes(path: str) -> str:
    return path.replace("/", SEPARATOR).replace("\\", "/")


class Names:
    """Finds tags by what people type: in any case, without accents, the last levels of a path.

    Parameters
    ----------
    known : iterable of str
        The tags there are.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self.known = list(known)
        self._tables: list[dict[str, list[str]]] = []
        for like in (clean, key, plain):
            table: dict[str, list[str]] = {}
            for tag in self.known:
                table.setdefault(like(tag), []).append(tag)
            self._tables.append(table)
        for like in (key, plain):
            table = {}
            for tag in self.known:
                levels = tag.split(SEPARATOR)
                for first in range(1, len(levels)):
                    table.setdefault(like(SEPARATOR.join(levels[first:])), []).append(tag)
            self._tables.append(table)

    def find(self, name: str) -> list[str]:
        """The tags that a name means, by the most exact likeness that finds any."""
        spelt = (clean(name), key(name), plain(name), key(name), plain(name))
        found = (table.get(word) for table, word in zip(self._tables, spelt, strict=True))
        return next((tags for tags in found if tags), [])

    def find_all(self, names: Iterable[str], *, owner: str) -> list[str]:
        """The tags that all these mean, in their order; ``owner`` is who would know them.

        Raises
        ------
        UnknownNameError
            One means none; those that are spelt like it are named.
        """
        wanted: set[str] = set()
        for name in names:
            found = self.find(name)
            if not found:
                raise UnknownNameError(f"{owner} no tag {name!r}{self._hint(name)}")
            wanted.update(found)
        return [tag for tag in self.known if tag in wanted]

    def _hint(self, name: str) -> str:
        from difflib import get_close_matches

        spelt: dict[str, str] = {}
        for tag in self.known:
            spelt.setdefault(plain(leaf(tag)), tag)
            spelt.setdefault(plain(tag), tag)
        near = dict.fromkeys(spelt[word] for word in get_close_matches(plain(name), spelt))
        return f": did you mean {' or '.join(map(repr, near))}?" if near else "."


def listed(given: Iterable[str], known: Names) -> list[str]:
    """Names in options: each one tag, or several with commas between them."""
    names = [
        name
        for text in given
        for name in ([text] if known.find(text) else text.split(","))
        if name.strip()
    ]
    return [name.strip() for name in names]


@dataclass(frozen=True)
class Vocabulary:
    """Tags to learn.

    Attributes
    ----------
    names : tuple of str
        Kept tags in alphabetical order.
    counts : tuple of int
        On how many pictures each is.
    dropped : dict of str to int
        Tags on fewer pictures than ``min_count``, with that number.
    merged : dict of str to str
        Spellings that differ in case alone from a more frequent one, and that one.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    dropped: dict[str, int]
    merged: dict[str, str]

    def matrix(self, tags: Sequence[Sequence[str]]) -> sparse.csr_array:
        """Y, one row for each list: 1 where a picture has a tag of the vocabulary."""
        import numpy as np
        from scipy import sparse

        column = {key(name): i for i, name in enumerate(self.names)}
        indices: list[int] = []
        indptr = [0]
        for row in tags:
            indices += sorted({column[k] for k in map(key, row) if k in column})
            indptr.append(len(indices))
        return sparse.csr_array(
            (
                np.ones(len(indices), np.float32),
                np.asarray(indices, np.int32),
                np.asarray(indptr, np.int32),
            ),
            shape=(len(tags), len(self.names)),
        )


def vocabulary(tags: Sequence[Sequence[str]], *, min_count: int = 1) -> Vocabulary:
    """The tags that at least ``min_count`` pictures have.

    Spellings that differ in case alone are one tag, named by the most frequent spelling.

    Parameters
    ----------
    tags : sequence of sequences of str
        One for each picture.
    min_count : int
        At least 1.
    """
    if min_count < 1:
        raise MetadataError(f"min_count={min_count}: at least 1 is allowed.")
    spellings: dict[str, Counter[str]] = {}
    counts: Counter[str] = Counter()
    known: dict[str, tuple[str, str]] = {}
    for row in tags:
        seen = set()
        for tag in row:
            if tag not in known:
                known[tag] = clean(tag), key(tag)
            spelt, name = known[tag]
            if spelt:
                spellings.setdefault(name, Counter())[spelt] += 1
                seen.add(name)
        counts.update(seen)
    # Of equally frequent spellings the first in the alphabet, whatever the order of files.
    best = {name: min(s, key=lambda t: (-s[t], t)) for name, s in spellings.items()}
    kept = sorted(
        (name for name in counts if counts[name] >= min_count), key=lambda n: (n, best[n])
    )
    return Vocabulary(
        names=tuple(best[name] for name in kept),
        counts=tuple(counts[name] for name in kept),
        dropped={best[n]: counts[n] for n in sorted(counts) if counts[n] < min_count},
        merged={
            t: best[n] for n in sorted(spellings) for t in sorted(spellings[n]) if t != best[n]
        },
    )
