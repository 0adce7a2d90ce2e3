"""Normalization, comparison and merging of tags, and the vocabulary of frequent tags.

A tag is a string. ``|`` separates the levels of a hierarchical tag, the most general first:
``animal|cat``. All other characters belong to the name, so ``b/w`` and ``New York, NY`` are flat.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from prototag.errors import MetadataError, UnknownNameError

if TYPE_CHECKING:
    from scipy import sparse

SEPARATOR = "|"
# Characters that XML 1.0 cannot represent, and lone surrogates, which cannot be encoded.
_UNREPRESENTABLE = re.compile("[\x00-\x08\x0e-\x1b\ufffe\uffff\ud800-\udfff]")


@lru_cache(maxsize=1 << 15)  # collections repeat the same tags
def clean(tag: str) -> str:
    """Normalize a tag; empty if nothing remains.

    Unicode NFC, white space collapsed and stripped, without characters that XML cannot represent
    and without empty levels. Spelling and case are kept.
    """
    tag = unicodedata.normalize("NFC", _UNREPRESENTABLE.sub("", tag))
    if SEPARATOR not in tag:
        return " ".join(tag.split())
    levels = (" ".join(level.split()) for level in tag.split(SEPARATOR))
    return SEPARATOR.join(level for level in levels if level)


@lru_cache(maxsize=1 << 15)
def key(tag: str) -> str:
    """Return a key that is equal for tags that differ in case only."""
    return unicodedata.normalize("NFC", clean(tag).casefold())


def leaf(tag: str) -> str:
    """Return the last level: ``cat`` of ``animal|cat``."""
    return tag.rpartition(SEPARATOR)[2]


def ancestors(tag: str) -> Iterator[str]:
    """Yield the tags above a hierarchical one, the nearest first: ``animal`` of ``animal|cat``."""
    while SEPARATOR in tag:
        tag = tag.rpartition(SEPARATOR)[0]
        yield tag


def nearest_ancestor(tag: str, known: Iterable[str]) -> str | None:
    """Return the nearest tag above a hierarchical one among known tags."""
    spelling = {key(name): name for name in known}
    return next((spelling[a] for a in ancestors(key(tag)) if a in spelling), None)


def without_accents(tag: str) -> str:
    """Return a key that is equal for tags that differ in case and accents only."""
    parts = unicodedata.normalize("NFKD", key(tag))
    return "".join(c for c in parts if not unicodedata.combining(c))


def unique(tags: list[str]) -> list[str]:
    """Normalize tags, and drop empty ones and repetitions; the first spelling stays."""
    seen: dict[str, str] = {}
    for tag in map(clean, tags):
        if tag:
            seen.setdefault(key(tag), tag)
    return list(seen.values())


def combine(paths: list[str], flat: list[str]) -> list[str]:
    """Combine hierarchical tags with the flat tags that are not levels of them.

    Photo programs write ``cat`` (some also ``animal``) in addition to ``animal|cat``.
    """
    paths = unique(paths)
    levels = {key(level) for path in paths for level in path.split(SEPARATOR)}
    return unique(paths + [tag for tag in flat if key(tag) not in levels])


def union(sources: list[list[str]]) -> list[str]:
    """Unite the tags of several sources; ``cat`` of one is ``animal|cat`` of another."""
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
    """Convert a tag to digiKam's path; a slash inside a name becomes a backslash."""
    return tag.replace("/", "\\").replace(SEPARATOR, "/")


def from_slashes(path: str) -> str:
    """Convert a path of digiKam to a tag."""
    return path.replace("/", SEPARATOR).replace("\\", "/")


class TagLookup:
    """Lookup of tags as people type them: in any case, without accents, by last levels.

    Parameters
    ----------
    known : iterable of str
        All tags.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self.known = list(known)
        self._tables: list[dict[str, list[str]]] = []
        for like in (clean, key, without_accents):
            table: dict[str, list[str]] = {}
            for tag in self.known:
                table.setdefault(like(tag), []).append(tag)
            self._tables.append(table)
        for like in (key, without_accents):
            table = {}
            for tag in self.known:
                levels = tag.split(SEPARATOR)
                for first in range(1, len(levels)):
                    table.setdefault(like(SEPARATOR.join(levels[first:])), []).append(tag)
            self._tables.append(table)

    def find(self, name: str) -> list[str]:
        """Find the tags that match a name, by the most exact comparison that has matches."""
        spelt = (clean(name), key(name), without_accents(name), key(name), without_accents(name))
        matches = (table.get(word) for table, word in zip(self._tables, spelt, strict=True))
        return next((tags for tags in matches if tags), [])

    def find_all(self, names: Iterable[str], *, owner: str) -> list[str]:
        """Find the tags that match several names; ``owner`` begins the error message.

        Raises
        ------
        UnknownNameError
            If a name matches no tag; the message suggests similar ones.
        """
        tags: set[str] = set()
        for name in names:
            matches = self.find(name)
            if not matches:
                raise UnknownNameError(f"{owner} no tag {name!r}{self._hint(name)}")
            tags.update(matches)
        return [tag for tag in self.known if tag in tags]

    def _hint(self, name: str) -> str:
        from difflib import get_close_matches

        spelt: dict[str, str] = {}
        for tag in self.known:
            spelt.setdefault(without_accents(leaf(tag)), tag)
            spelt.setdefault(without_accents(tag), tag)
        near = dict.fromkeys(
            spelt[word] for word in get_close_matches(without_accents(name), spelt)
        )
        return f": did you mean {' or '.join(map(repr, near))}?" if near else "."


def split_tag_options(given: Iterable[str], known: TagLookup) -> list[str]:
    """Split options into names: each is one tag, or several separated by commas."""
    names = [
        name
        for text in given
        for name in ([text] if known.find(text) else text.split(","))
        if name.strip()
    ]
    return [name.strip() for name in names]


@dataclass(frozen=True)
class Vocabulary:
    """Tags of a collection that are frequent enough to train.

    A picture with ``animal|cat`` also has ``animal``, if that is a tag of the vocabulary.

    Attributes
    ----------
    names : tuple of str
        Tags in alphabetical order.
    counts : tuple of int
        Number of pictures of each tag.
    dropped : dict of str to int
        Tags of fewer than ``min_count`` pictures, with their numbers of pictures.
    merged : dict of str to str
        Spellings that differ in case only from a more frequent spelling, which is the value.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    dropped: dict[str, int]
    merged: dict[str, str]

    def matrix(
        self, tags: Sequence[Sequence[str]], *, with_ancestors: bool = True
    ) -> sparse.csr_array:
        """Return Y with one row per list: 1 where a picture has a tag of the vocabulary.

        ``with_ancestors`` is for lists of tags that pictures have. The absence of ``animal|cat``
        says nothing about ``animal``.
        """
        import numpy as np
        from scipy import sparse

        column = {key(name): i for i, name in enumerate(self.names)}
        columns: dict[str, list[int]] = {}
        indices: list[int] = []
        indptr = [0]
        for row in tags:
            for tag in row:
                if tag not in columns:
                    names = (key(tag), *(ancestors(key(tag)) if with_ancestors else ()))
                    columns[tag] = [column[name] for name in names if name in column]
            indices += sorted({i for tag in row for i in columns[tag]})
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
    """Build the vocabulary of tags that at least ``min_count`` pictures have.

    Spellings that differ in case only are one tag, named by the most frequent spelling. A rarer
    hierarchical tag is replaced by the nearest tag above it that enough pictures have, directly or
    by a tag below it: ``animal`` for ``animal|cat`` and ``animal|dog``.

    Parameters
    ----------
    tags : sequence of sequences of str
        One list for each picture.
    min_count : int
        At least 1.
    """
    if min_count < 1:
        raise MetadataError(f"min_count={min_count}: give at least 1.")
    spellings: dict[str, Counter[str]] = {}
    counts: Counter[str] = Counter()  # of all tags and of all that are above them
    known: dict[str, tuple[str, tuple[str, ...]]] = {}
    for row in tags:
        seen: set[str] = set()
        for tag in row:
            if tag not in known:
                known[tag] = clean(tag), (key(tag), *ancestors(key(tag)))
            spelt, names = known[tag]
            if spelt:
                spellings.setdefault(names[0], Counter())[spelt] += 1
                seen.update(names)
        counts.update(seen)
    own = list(spellings)
    frequent = {name for name in own if counts[name] >= min_count}
    for name in own:
        if name not in frequent:
            parent = next((a for a in ancestors(name) if counts[a] >= min_count), None)
            if parent is not None:
                frequent.add(parent)
                depth = parent.count(SEPARATOR) + 1
                spelt_above = spellings.setdefault(parent, Counter())
                for spelt, times in spellings[name].items():
                    spelt_above[SEPARATOR.join(spelt.split(SEPARATOR)[:depth])] += times
    # Of equally frequent spellings the alphabetically first, independent of the order of files.
    best = {name: min(s, key=lambda t: (-s[t], t)) for name, s in spellings.items()}
    kept = sorted(frequent, key=lambda n: (n, best[n]))
    return Vocabulary(
        names=tuple(best[name] for name in kept),
        counts=tuple(counts[name] for name in kept),
        dropped={best[n]: counts[n] for n in sorted(own) if counts[n] < min_count},
        merged={t: best[n] for n in sorted(own) for t in sorted(spellings[n]) if t != best[n]},
    )
