"""Read-only scan of the folders of a library: the files present and the tags in them.

A scan writes nothing and decodes no pixels. It opens no file that is unchanged since the last scan,
by size and time of modification.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from prototag.errors import LibraryError, MetadataError
from prototag.events import Meter, Progress
from prototag.features.vector_cache import stamp_of
from prototag.library.database import Store
from prototag.library.preferences import is_scanned, skipped_suffixes
from prototag.metadata.collect_tags import KINDS, find_pictures, parse_kinds, tags_of
from prototag.metadata.find_files import Picture, normalized_path
from prototag.metadata.tag_names import clean, key, unique

AUTO = "auto"
_FILES = tuple(kind for kind in KINDS if kind != "folders")


class Root(NamedTuple):
    """A folder or list that is scanned."""

    number: int
    path: Path
    kind: str  # "auto" until the first tags are found, then the kinds of files that are read
    column: str | None
    hierarchy: str


class ParsedTags(NamedTuple):
    """Tags parsed from the files of one path, before normalization."""

    tags: Sequence[str]
    ruled_out: Sequence[str] | None = None  # applied by ProtoTag and removed by a person
    inherited: Sequence[str] = ()  # of the path from which the picture was moved

    def to_json(self) -> str:
        return json.dumps(self, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> ParsedTags | None:
        return None if text is None else cls(*json.loads(text))


class KnownFile(NamedTuple):
    """A file as the library has it."""

    picture: int
    root: int
    file_stamp: bytes | None  # when its pixels were read
    tags_stamp: bytes | None  # when its tags were read
    parsed_tags: str | None  # ParsedTags as JSON
    present: int


@dataclass(slots=True)
class ScannedFile:
    """A picture file that a scan has found."""

    root: int
    picture: Picture  # with the files beside it
    tags_stamp: bytes | None
    parsed_tags: str  # ParsedTags as JSON


@dataclass
class ScanResult:
    """Files that exist now and files that the library has, both by path."""

    files: dict[bytes, ScannedFile] = field(default_factory=dict)
    known: dict[bytes, KnownFile] = field(default_factory=dict)
    roots: list[Root] = field(default_factory=list)  # that could be read
    problems: list[str] = field(default_factory=list)

    @property
    def vanished(self) -> list[bytes]:
        """Paths that existed and do not any more; those of unreadable folders are not counted."""
        scanned = {root.number for root in self.roots}
        return [
            path
            for path, known in self.known.items()
            if known.present and known.root in scanned and path not in self.files
        ]

    @property
    def changed_files(self) -> list[bytes]:
        """Known paths whose tags have changed, or that exist again."""
        return [
            path
            for path, file in self.files.items()
            if (known := self.known.get(path)) is not None
            and (
                known.parsed_tags is None
                or file.parsed_tags != known.parsed_tags
                or not known.present
            )
        ]

    @property
    def has_changes(self) -> bool:
        """Whether any file differs from what the library has."""
        return bool(self.vanished or self.changed_files) or any(
            (known := self.known.get(path)) is None or file.tags_stamp != known.tags_stamp
            for path, file in self.files.items()
        )


def roots(store: Store) -> list[Root]:
    """Return the folders and lists of a library."""
    with store.read() as conn:
        rows = conn.execute(
            "SELECT id, path, kind, column, hierarchy FROM roots ORDER BY id"
        ).fetchall()
    folder = store.path.parent
    return [
        Root(number, folder / os.fsdecode(path), kind, column, hierarchy)
        for number, path, kind, column, hierarchy in rows
    ]


def stored_root(path: Path, library: Path) -> bytes:
    """Return the path of a root as it is stored: relative if inside the library's folder."""
    whole = Path(os.path.abspath(path))
    folder = library.parent
    return os.fsencode(whole.relative_to(folder) if whole.is_relative_to(folder) else whole)


def known_files(conn: sqlite3.Connection) -> dict[bytes, KnownFile]:
    """Return all files that the library has, by path."""
    rows = conn.execute(
        "SELECT path, picture, root, file_stamp, tags_stamp, parsed_tags, present FROM files"
    )
    return {bytes(path): KnownFile(*row) for path, *row in rows}


def scan_files(store: Store, progress: Progress | None = None) -> ScanResult:
    """Scan all roots.

    Raises
    ------
    LibraryError
        No root could be read.
    """
    with store.read() as conn:
        result = ScanResult(known=known_files(conn))
    skipped = skipped_suffixes(store)
    for root in roots(store):
        try:
            pictures = find_pictures([root.path], result.problems, _kinds(root.kind), root.column)
        except MetadataError as error:
            # A drive that is not connected removes no file.
            result.problems.append(f"{error} Its pictures stay in the library.")
            continue
        pictures = [one for one in pictures if is_scanned(one.path, skipped)]
        result.roots.append(_read_tags(root, pictures, result, progress))
    if not result.roots:
        raise LibraryError("\n".join(result.problems) or "the library has no folder to scan.")
    return result


def _kinds(kind: str) -> frozenset[str] | None:
    return parse_kinds(kind if kind == AUTO else kind.split(","))


def _read_tags(
    root: Root, pictures: list[Picture], result: ScanResult, progress: Progress | None
) -> Root:
    """Read the tags of the files of a root; return the root with the kinds that were used."""
    kinds = _kinds(root.kind)
    used: set[str] = set()
    meter = Meter("Looking for tags", len(pictures), progress)
    for picture in pictures:
        path = os.fsencode(normalized_path(picture.path))
        known = result.known.get(path)
        stored = None if known is None else known.parsed_tags
        stamp = _tags_stamp(picture, root)
        if known is not None and stored is not None and stamp and stamp == known.tags_stamp:
            parsed = stored
        else:
            tags, ruled_out, kinds_here, problems = tags_of(picture, kinds)
            used.update(kinds_here)
            result.problems += problems
            inherited = _still_inherited(ParsedTags.from_json(stored), tags)
            parsed = ParsedTags(tags, ruled_out, inherited).to_json()
            if problems:  # known tags are better than some of the current ones
                stamp = None
                if stored is not None:
                    parsed = stored
        result.files[path] = ScannedFile(root.number, picture, stamp, parsed)
        meter.advance()
    if root.kind != AUTO:
        return root
    mine = [file for file in result.files.values() if file.root == root.number]
    if any((one := ParsedTags.from_json(file.parsed_tags)) and one.tags for file in mine):
        # Without folders from now on, so that tags which sync writes do not replace them.
        return root._replace(kind=",".join(_FILES))
    for file in mine:
        file.parsed_tags = ParsedTags(
            unique([clean(name) for name in file.picture.folders])
        ).to_json()
        used.update(["folders"] if file.picture.folders else [])
    return root._replace(kind=",".join(KINDS)) if used else root


def _still_inherited(before: ParsedTags | None, tags: list[str]) -> list[str]:
    """Return the inherited tags, except those that the files had themselves and then lost."""
    if before is None or not before.inherited:
        return []
    had = {key(tag) for tag in before.tags}
    has = {key(tag) for tag in tags}
    return [tag for tag in before.inherited if key(tag) not in had or key(tag) in has]


def _tags_stamp(picture: Picture, root: Root) -> bytes | None:
    """Return a digest of the state of all files with tags of a picture; None if too recent."""
    files = [picture.path, *picture.sidecars, *([picture.text] if picture.text else [])]
    stamps = [stamp_of(file) for file in files]
    if not all(stamps):
        return None
    names = [os.fsencode(file.name) for file in files]
    state = repr((root.column, names, stamps, picture.listed, picture.folders))
    return hashlib.blake2b(state.encode("utf-8", "surrogatepass"), digest_size=16).digest()
