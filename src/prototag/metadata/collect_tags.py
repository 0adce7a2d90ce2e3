"""Folders and lists -> pictures and the tags that a person gave them.

Tags come from XMP sidecars (``xmp``), keywords inside the files (``embedded_reader``),
``metadata.jsonl`` or ``metadata.csv`` (``csv_jsonl``), text files beside pictures (``text``) and
names of folders (``folders``). What one picture has in several of the first four is united. Names
of folders count only where they are asked for, or where nothing else gave a single tag: many people
sort pictures by date. Tags that ProtoTag itself added are never learnt from.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Literal

from prototag.errors import MetadataError
from prototag.events import Meter, Progress
from prototag.metadata import csv_jsonl, embedded_reader, sidecar
from prototag.metadata.find_files import Picture, identity, search
from prototag.metadata.tag_names import (
    SEPARATOR,
    Names,
    clean,
    key,
    leaf,
    listed,
    union,
    unique,
    vocabulary,
)
from prototag.metadata.xmp.packet import Keywords
from prototag.storage.sqlite_lock_guard import open_for_reading

PathLike = str | os.PathLike[str]
KINDS = ("xmp", "embedded", "listing", "text", "folders")
MAX_TEXT_BYTES = 1 << 20
MAX_PROBLEMS = 10_000
NAMED = 3  # of a list in a note
_NUMBERS = re.compile(r"\s*\d+(\s+-?[\d.]+){4,}\s*")


@dataclass
class Collected:
    """Pictures with a person's tags.

    Attributes
    ----------
    images : list of Path
        In an order that depends on names alone; as written in a list.
    tags : list of list of str
        One list for each picture, empty where nobody tagged it. Hierarchical tags are
        ``animal|cat``.
    ruled_out : list of (list of str or None)
        None where a picture lacks what it is not tagged with. On pictures whose proposed tags a
        person has corrected, the tags taken away: of all that is neither there nor among these
        nothing is known, as nobody was asked.
    counts : dict of str to int
        For each kind of source, how many pictures got tags from it.
    notes : list of str
        What was found and decided, in sentences for a person.
    problems : list of str
        What could not be read and was left out, with its reason.
    """

    images: list[Path] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)
    ruled_out: list[list[str] | None] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def n_tagged(self) -> int:
        return sum(map(bool, self.tags))

    def tagged(self) -> Collected:
        """Without the pictures that have no tags."""
        chosen = [i for i, row in enumerate(self.tags) if row]
        return replace(
            self,
            images=[self.images[i] for i in chosen],
            tags=[self.tags[i] for i in chosen],
            ruled_out=[self.ruled_out[i] for i in chosen],
        )

    def restricted(self, *, ignore: Iterable[str] = (), only: Iterable[str] = ()) -> Collected:
        """Without the tags to ignore, and if ``only`` names some, without all others.

        A tag may be named as people type it (:class:`~prototag.metadata.tag_names.Names`).
        """
        known = Names(vocabulary(self.tags).names)
        gone, kept = (
            {key(tag) for tag in known.find_all(listed(names, known), owner="the pictures have")}
            for names in (ignore, only)
        )
        tags = [
            [tag for tag in row if key(tag) not in gone and (not kept or key(tag) in kept)]
            for row in self.tags
        ]
        return replace(self, tags=tags)


def collect(
    source: PathLike | Iterable[PathLike],
    *,
    kind: str | Iterable[str] = "auto",
    column: str | None = None,
    hierarchy: Literal["path", "leaf"] = "path",
    progress: Progress | None = None,
) -> Collected:
    """Find pictures and their tags.

    Parameters
    ----------
    source : path-like, or several
        A folder, searched with its sub-folders, or a list: CSV, TSV, JSON lines, or a text with
        one path a line. Paths in a list are relative to the list. A picture that several name is
        one picture, with the tags of all.
    kind : str or iterable of str
        ``"auto"``, or which of ``KINDS`` to use.
    column : str, optional
        The column of tags in a list, if it has an unusual name.
    hierarchy : {"path", "leaf"}
        ``animal|cat`` stays a path, or becomes ``cat``.
    progress : callable, optional
        Called with an :class:`~prototag.events.Event` after each picture.

    Raises
    ------
    MetadataError
        There is no such folder, no picture in it, a list is malformed, or there is none to have the
        column. What is wrong with a single picture is among ``problems`` instead.
    """
    kinds = chosen(kind)
    if hierarchy not in ("path", "leaf"):
        raise MetadataError(f'hierarchy={hierarchy!r}: "path" or "leaf" is allowed.')
    result = Collected()
    sources = [source] if isinstance(source, str | os.PathLike) else [*source]
    found = find([Path(one) for one in sources], result.problems, kinds, column)
    counts: Counter[str] = Counter()
    meter = Meter("Reading tags", len(found), progress)
    for picture in found:
        tags, ruled_out, used, problems = tags_of(picture, kinds)
        result.images.append(picture.path)
        result.tags.append(tags)
        result.ruled_out.append(ruled_out)
        result.problems += problems
        counts.update(used)
        meter.advance()
    if kinds is None and not any(result.tags):
        result.tags = [unique([clean(name) for name in picture.folders]) for picture in found]
        counts["folders"] = result.n_tagged
        if result.n_tagged:
            result.notes.append("No file says its tags: names of folders were taken.")
    settle_hierarchy(result, hierarchy)
    result.counts = {name: counts[name] for name in KINDS if counts[name]}
    _summarise(result)
    return result


def find(
    roots: list[Path], problems: list[str], kinds: frozenset[str] | None, column: str | None
) -> list[Picture]:
    """The pictures of all sources, each once; none is opened."""
    pictures: dict[str, Picture] = {}
    has_columns = False
    for root in roots:
        found = search(
            root,
            problems,
            lists=_wants(kinds, "listing"),
            strict=kinds is not None or column is not None,
            column=column,
        )
        has_columns |= found.has_columns
        for picture in found.pictures:
            known = pictures.setdefault(identity(picture.path), picture)
            if known is not picture:
                known.listed = known.listed + picture.listed
    if column is not None and not has_columns:
        raise MetadataError(
            f"the column {column!r} was asked for, but there is no list: give a CSV or JSON lines "
            f"file, or a folder with {' or '.join(csv_jsonl.STANDARD)}."
        )
    return list(pictures.values())


def chosen(kind: str | Iterable[str]) -> frozenset[str] | None:
    """Which of ``KINDS`` to use; None for auto."""
    if kind == "auto":
        return None
    kinds = frozenset([kind] if isinstance(kind, str) else kind)
    if not kinds or kinds - set(KINDS):
        raise MetadataError(f"kind={kind!r}: 'auto', or some of {', '.join(KINDS)}, is allowed.")
    return kinds


def _wants(kinds: frozenset[str] | None, kind: str) -> bool:
    return kind != "folders" if kinds is None else kind in kinds


def tags_of(
    picture: Picture, kinds: frozenset[str] | None
) -> tuple[list[str], list[str] | None, list[str], list[str]]:
    """Tags of a picture, those ruled out, the kinds that gave some, and problems."""
    sources: dict[str, list[str]] = {}
    # Sidecars are read even where only keywords inside count: they say which of those are ours.
    wants_inside = _wants(kinds, "embedded")
    sidecars = picture.sidecars if wants_inside or _wants(kinds, "xmp") else []
    beside, inside, problems = gather(picture.path, sidecars, wants_inside)
    if _wants(kinds, "xmp"):
        sources["xmp"] = list(beside.tags)
    sources["embedded"] = list(inside.tags)
    if _wants(kinds, "listing"):
        sources["listing"] = unique(picture.listed)
    if _wants(kinds, "text") and picture.text is not None:
        try:
            sources["text"] = unique(_text_tags(picture.text))
        except MetadataError as error:
            problems.append(str(error))
    if _wants(kinds, "folders"):
        sources["folders"] = unique(picture.folders)
    # The person has looked at this picture since: what of ours was left standing is accepted. On
    # pictures that nobody has touched ours says nothing.
    ruled_out: list[str] | None = None
    for kind, found in (("xmp", beside), ("embedded", inside)):
        if _wants(kinds, kind) and found.touched:
            sources[kind] = union([sources[kind], list(found.added)])
            ruled_out = unique([*(ruled_out or []), *found.rejected])
    used = [name for name in sources if sources[name]]
    return union([*sources.values()]), ruled_out, used, problems


def read_keywords(image: str | os.PathLike[str]) -> Keywords:
    """A person's tags of a picture, and ProtoTag's, which are told apart by their marks.

    Raises
    ------
    MetadataError
        The picture or one of its sidecars cannot be read.
    """
    inside, _ = embedded_reader.read(image)
    return together([sidecar.read(path) for path in sidecar.sidecars(image)], inside)


def gather(image: Path, beside: list[Path], inside: bool) -> tuple[Keywords, Keywords, list[str]]:
    """Keywords of the sidecars and of the file, and why some could not be read."""
    found = []
    problems = []
    for path in beside:
        try:
            found.append(sidecar.read(path))
        except MetadataError as error:
            problems.append(str(error))
    within = Keywords()
    if inside:
        try:
            within, wrong = embedded_reader.read(image)
            problems += [f"{image}: {problem}" for problem in wrong]
        except MetadataError as error:
            problems.append(str(error))
    return together(found, Keywords()), unmarked(within, found), problems


def together(sidecars: list[Keywords], inside: Keywords) -> Keywords:
    """One answer for one picture."""
    inside = unmarked(inside, sidecars)
    every = [*sidecars, inside]
    return Keywords(
        tags=tuple(union([list(one.tags) for one in every])),
        added=tuple(unique([tag for one in every for tag in one.added])),
        rejected=tuple(unique([tag for one in every for tag in one.rejected])),
        copied=tuple(unique([tag for one in every for tag in one.copied])),
        touched=any(one.touched for one in every),
    )


def unmarked(inside: Keywords, sidecars: list[Keywords]) -> Keywords:
    """Keywords inside the file without those that a program copied there from our sidecar."""
    ours, theirs = (
        {key(name) for one in sidecars for tag in tags(one) for name in (tag, leaf(tag))}
        for tags in (attrgetter("added"), attrgetter("copied"))
    )
    ours -= theirs
    tags = tuple(tag for tag in inside.tags if key(tag) not in ours)
    return Keywords(tags, inside.added, inside.rejected, inside.copied, inside.touched)


def _text_tags(path: Path) -> list[str]:
    """One tag a line; a single line is a list separated by ``;`` or ``,``."""
    try:
        with open_for_reading(path) as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise MetadataError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_TEXT_BYTES:
        raise MetadataError(f"{path} is larger than {MAX_TEXT_BYTES:,} bytes; it holds no tags.")
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        raise MetadataError(f"{path} is not UTF-8 text; it was left out.") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and all(_NUMBERS.fullmatch(line) for line in lines):
        raise MetadataError(f"{path} holds numbers, as boxes of a detector; it was left out.")
    return csv_jsonl.separated(lines[0]) if len(lines) == 1 else lines


def settle_hierarchy(result: Collected, hierarchy: str) -> None:
    """One name for one tag: ``cat`` here and ``animal|cat`` there are the same."""
    if hierarchy == "leaf":
        result.tags = [unique([leaf(tag) for tag in row]) for row in result.tags]
        return
    paths = _paths_by_leaf(result.tags)
    full = {
        name: spelt.most_common(1)[0][0]
        for name, spelt in paths.items()
        if len({key(tag) for tag in spelt}) == 1
    }
    bare = Counter(tag for row in result.tags for tag in row if SEPARATOR not in tag)
    changed = [tag for tag, _ in bare.most_common() if key(tag) in full]
    unclear = [tag for tag, _ in bare.most_common() if key(tag) in paths.keys() - full.keys()]
    result.tags = [
        unique([tag if SEPARATOR in tag else full.get(key(tag), tag) for tag in row])
        for row in result.tags
    ]
    if changed:
        taken = [f"{tag!r} as {full[key(tag)]!r}" for tag in changed]
        result.notes.append(f"Taken for the tag with its path: {_some(taken)}.")
    if unclear:
        options = [
            f"{tag!r} ({' or '.join(map(repr, sorted(paths[key(tag)])[:3]))})" for tag in unclear
        ]
        result.notes.append(f"Left without a path, as there are several: {_some(options)}.")


def _paths_by_leaf(rows: list[list[str]]) -> dict[str, Counter[str]]:
    """Count the tags that are paths, by the key of their last level."""
    paths: dict[str, Counter[str]] = {}
    for row in rows:
        for tag in row:
            if SEPARATOR in tag:
                paths.setdefault(key(leaf(tag)), Counter())[tag] += 1
    return paths


def _some(items: list[str]) -> str:
    """The first of a list that may be long, and how many more there are."""
    more = len(items) - NAMED
    return ", ".join(items[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _pictures(count: int) -> str:
    return f"{count:,} picture{'s' * (count != 1)}"


def _summarise(result: Collected) -> None:
    names = {
        "xmp": "XMP sidecars",
        "embedded": "keywords inside files",
        "listing": "a list",
        "text": "text files",
        "folders": "names of folders",
    }
    parts = ", ".join(f"{count:,} from {names[kind]}" for kind, count in result.counts.items())
    total = len(result.images)
    result.notes.insert(
        0, f"{_pictures(total)}, {result.n_tagged:,} with tags" + (f": {parts}." if parts else ".")
    )
    if len(result.problems) > MAX_PROBLEMS:
        more = len(result.problems) - MAX_PROBLEMS
        result.problems[MAX_PROBLEMS:] = [f"and {more:,} more"]
