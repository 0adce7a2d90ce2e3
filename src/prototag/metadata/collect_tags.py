"""Collection of pictures and their tags from folders and lists.

Tags come from XMP sidecars (``xmp``), keywords inside the files (``embedded_reader``),
``metadata.jsonl`` or ``metadata.csv`` (``csv_jsonl``), text files beside pictures (``text``) and
folder names (``folders``). The tags of the first four are united. Folder names are used only if
they are requested, or if no other source has a tag, because many people sort pictures by date. Tags
that ProtoTag added are excluded.
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
from prototag.metadata.find_files import Picture, normalized_path, search
from prototag.metadata.tag_names import (
    SEPARATOR,
    TagLookup,
    clean,
    key,
    leaf,
    split_tag_options,
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
MAX_LISTED = 3  # of a list in a note
_NUMBERS = re.compile(r"\s*\d+(\s+-?[\d.]+){4,}\s*")


@dataclass
class Collected:
    """Pictures with the tags that a person gave them.

    Attributes
    ----------
    images : list of Path
        Ordered by name; for a list, in the order of the list.
    tags : list of list of str
        One list for each picture, empty for an untagged picture. Hierarchical tags are
        ``animal|cat``.
    ruled_out : list of (list of str or None)
        None for a picture that lacks all tags that it does not have. If a person corrected the
        tags that ProtoTag proposed for a picture, the tags that were removed; all tags that it
        neither has nor lost are then unlabeled.
    counts : dict of str to int
        Number of pictures with tags from each kind of source.
    notes : list of str
        Messages for the user about what was found and decided.
    problems : list of str
        What could not be read, with the reason.
    """

    images: list[Path] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)
    ruled_out: list[list[str] | None] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def n_tagged(self) -> int:
        """Number of pictures with tags."""
        return sum(map(bool, self.tags))

    def tagged(self) -> Collected:
        """Return the collection without untagged pictures."""
        rows = [i for i, row in enumerate(self.tags) if row]
        return replace(
            self,
            images=[self.images[i] for i in rows],
            tags=[self.tags[i] for i in rows],
            ruled_out=[self.ruled_out[i] for i in rows],
        )

    def restricted(self, *, ignore: Iterable[str] = (), only: Iterable[str] = ()) -> Collected:
        """Return the collection without ignored tags, and with ``only`` some tags if given.

        Tags are matched as people type them (:class:`~prototag.metadata.tag_names.TagLookup`).
        """
        known = TagLookup(vocabulary(self.tags).names)
        ignored, kept = (
            {
                key(tag)
                for tag in known.find_all(
                    split_tag_options(names, known), owner="the pictures have"
                )
            }
            for names in (ignore, only)
        )
        tags = [
            [tag for tag in row if key(tag) not in ignored and (not kept or key(tag) in kept)]
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
    """Collect pictures and their tags.

    Parameters
    ----------
    source : path-like, or several
        A folder, searched with its subfolders, or a list: CSV, TSV, JSON lines, or text with one
        path per line. Paths in a list are relative to the list. A picture in several sources has
        the tags of all.
    kind : str or iterable of str
        ``"auto"``, or the kinds of sources to use, from ``KINDS``.
    column : str, optional
        Name of the tag column of a list, if it is not a standard name.
    hierarchy : {"path", "leaf"}
        ``animal|cat`` stays a path, or becomes ``cat``.
    progress : callable, optional
        Called with an :class:`~prototag.events.Event` after each picture.

    Raises
    ------
    MetadataError
        If the folder does not exist or has no pictures, a list is malformed, or ``column`` is given
        without a list. Problems of single pictures are in ``problems`` instead.
    """
    kinds = parse_kinds(kind)
    if hierarchy not in ("path", "leaf"):
        raise MetadataError(f'hierarchy={hierarchy!r}: "path" or "leaf" is allowed.')
    result = Collected()
    sources = [source] if isinstance(source, str | os.PathLike) else [*source]
    pictures = find_pictures([Path(one) for one in sources], result.problems, kinds, column)
    counts: Counter[str] = Counter()
    meter = Meter("Reading tags", len(pictures), progress)
    for picture in pictures:
        tags, ruled_out, used, problems = tags_of(picture, kinds)
        result.images.append(picture.path)
        result.tags.append(tags)
        result.ruled_out.append(ruled_out)
        result.problems += problems
        counts.update(used)
        meter.advance()
    if kinds is None and not any(result.tags):
        result.tags = [unique([clean(name) for name in picture.folders]) for picture in pictures]
        counts["folders"] = result.n_tagged
        if result.n_tagged:
            result.notes.append("No file has tags: folder names are used as tags.")
    unify_hierarchy(result, hierarchy)
    result.counts = {name: counts[name] for name in KINDS if counts[name]}
    _summarize(result)
    return result


def find_pictures(
    roots: list[Path], problems: list[str], kinds: frozenset[str] | None, column: str | None
) -> list[Picture]:
    """Find the pictures of all sources, each once, without opening them."""
    pictures: dict[str, Picture] = {}
    has_columns = False
    for root in roots:
        search_result = search(
            root,
            problems,
            lists=_wants(kinds, "listing"),
            strict=kinds is not None or column is not None,
            column=column,
        )
        has_columns |= search_result.has_columns
        for picture in search_result.pictures:
            known = pictures.setdefault(normalized_path(picture.path), picture)
            if known is not picture:
                known.listed = known.listed + picture.listed
    if column is not None and not has_columns:
        raise MetadataError(
            f"the column {column!r} was asked for, but there is no list: give a CSV or JSON lines "
            f"file, or a folder with {' or '.join(csv_jsonl.FOLDER_LISTS)}."
        )
    return list(pictures.values())


def parse_kinds(kind: str | Iterable[str]) -> frozenset[str] | None:
    """Validate the kinds of sources; None for "auto"."""
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
    """Read tags and ruled out tags of a picture, the kinds of its sources, and problems."""
    sources: dict[str, list[str]] = {}
    # Sidecars are read even if only embedded keywords count: they name the ones that we added.
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
    # If the person edited the tags since we added ours, the added tags that remain are accepted.
    # Otherwise they are no evidence.
    ruled_out: list[str] | None = None
    for kind, keywords in (("xmp", beside), ("embedded", inside)):
        if _wants(kinds, kind) and keywords.touched:
            sources[kind] = union([sources[kind], list(keywords.added)])
            ruled_out = unique([*(ruled_out or []), *keywords.rejected])
    used = [name for name in sources if sources[name]]
    return union([*sources.values()]), ruled_out, used, problems


def read_keywords(image: str | os.PathLike[str]) -> Keywords:
    """Read the keywords of a picture: the person's, and those that ProtoTag added.

    Raises
    ------
    MetadataError
        If the picture or one of its sidecars cannot be read.
    """
    inside, _ = embedded_reader.read(image)
    return merge_keywords([sidecar.read(path) for path in sidecar.sidecars(image)], inside)


def gather(image: Path, beside: list[Path], inside: bool) -> tuple[Keywords, Keywords, list[str]]:
    """Read the keywords of the sidecars and of the file, with problems."""
    keywords = []
    problems = []
    for path in beside:
        try:
            keywords.append(sidecar.read(path))
        except MetadataError as error:
            problems.append(str(error))
    within = Keywords()
    if inside:
        try:
            within, wrong = embedded_reader.read(image)
            problems += [f"{image}: {problem}" for problem in wrong]
        except MetadataError as error:
            problems.append(str(error))
    return merge_keywords(keywords, Keywords()), without_copies(within, keywords), problems


def merge_keywords(sidecars: list[Keywords], inside: Keywords) -> Keywords:
    """Merge the keywords of the sidecars and of the file of one picture."""
    inside = without_copies(inside, sidecars)
    every = [*sidecars, inside]
    return Keywords(
        tags=tuple(union([list(one.tags) for one in every])),
        added=tuple(unique([tag for one in every for tag in one.added])),
        rejected=tuple(unique([tag for one in every for tag in one.rejected])),
        copied=tuple(unique([tag for one in every for tag in one.copied])),
        touched=any(one.touched for one in every),
    )


def without_copies(inside: Keywords, sidecars: list[Keywords]) -> Keywords:
    """Exclude embedded keywords that a program copied from our sidecar into the file."""
    ours, theirs = (
        {key(name) for one in sidecars for tag in tags(one) for name in (tag, leaf(tag))}
        for tags in (attrgetter("added"), attrgetter("copied"))
    )
    ours -= theirs
    tags = tuple(tag for tag in inside.tags if key(tag) not in ours)
    return Keywords(tags, inside.added, inside.rejected, inside.copied, inside.touched)


def _text_tags(path: Path) -> list[str]:
    """Read one tag per line; a single line is a list separated by ``;`` or ``,``."""
    try:
        with open_for_reading(path) as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise MetadataError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_TEXT_BYTES:
        raise MetadataError(f"{path} is larger than {MAX_TEXT_BYTES:,} bytes; it was skipped.")
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        raise MetadataError(f"{path} is not UTF-8 text; it was skipped.") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and all(_NUMBERS.fullmatch(line) for line in lines):
        raise MetadataError(f"{path} contains numbers, as boxes of a detector; it was skipped.")
    return csv_jsonl.split_tags(lines[0]) if len(lines) == 1 else lines


def unify_hierarchy(result: Collected, hierarchy: str) -> None:
    """Unify tags with and without their path: ``cat`` and ``animal|cat`` are one tag."""
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
        result.notes.append(f"Left without a path, because there are several: {_some(options)}.")


def _paths_by_leaf(rows: list[list[str]]) -> dict[str, Counter[str]]:
    """Count the tags that are paths, by the key of their last level."""
    paths: dict[str, Counter[str]] = {}
    for row in rows:
        for tag in row:
            if SEPARATOR in tag:
                paths.setdefault(key(leaf(tag)), Counter())[tag] += 1
    return paths


def _some(items: list[str]) -> str:
    """Join the first items of a list, with the number of the others."""
    more = len(items) - MAX_LISTED
    return ", ".join(items[:MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _pictures(count: int) -> str:
    return f"{count:,} picture{'s' * (count != 1)}"


def _summarize(result: Collected) -> None:
    names = {
        "xmp": "XMP sidecars",
        "embedded": "keywords inside files",
        "listing": "a list",
        "text": "text files",
        "folders": "folder names",
    }
    parts = ", ".join(f"{count:,} from {names[kind]}" for kind, count in result.counts.items())
    total = len(result.images)
    result.notes.insert(
        0, f"{_pictures(total)}, {result.n_tagged:,} with tags" + (f": {parts}." if parts else ".")
    )
    if len(result.problems) > MAX_PROBLEMS:
        more = len(result.problems) - MAX_PROBLEMS
        result.problems[MAX_PROBLEMS:] = [f"and {more:,} more"]
