"""A look at the folders of a library: which pictures are there, and what their files say of them.

Nothing is written, no pixel decoded, and files that were not touched since the last look are not
opened: a stamp tells.
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
from prototag.metadata.collect_tags import KINDS, chosen, find, tags_of
from prototag.metadata.find_files import Picture, identity
from prototag.metadata.tag_names import clean, key, unique

AUTO = "auto"
_FILES = tuple(kind for kind in KINDS if kind != "folders")


class Root(NamedTuple):
    """A folder or list that is looked at."""

    number: int
    path: Path
    kind: str  # "auto" until the first tags are found, then the kinds they are looked for in
    column: str | None
    hierarchy: str


class Said(NamedTuple):
    """What the files of one place say, as they say it."""

    tags: Sequence[str]
    ruled_out: Sequence[str] | None = None
    inherited: Sequence[str] = ()  # of a place that the picture was moved from

    def text(self) -> str:
        return json.dumps(self, separators=(",", ":"))

    @classmethod
    def of(cls, text: str | None) -> Said | None:
        return None if text is None else cls(*json.loads(text))


class Known(NamedTuple):
    """What the library knows of a place."""

    picture: int
    root: int
    stamp: bytes | None
    tags_stamp: bytes | None
    said: str | None
    present: int


@dataclass(slots=True)
class Seen:
    """One file that is there."""

    root: int
    picture: Picture  # with the files beside it
    tags_stamp: bytes | None
    said: str  # as JSON


@dataclass
class Look:
    """What is there now, and what was known before, both by place."""

    seen: dict[bytes, Seen] = field(default_factory=dict)
    known: dict[bytes, Known] = field(default_factory=dict)
    roots: list[Root] = field(default_factory=list)  # those that could be looked at
    problems: list[str] = field(default_factory=list)

    @property
    def vanished(self) -> list[bytes]:
        """Places that were there and are not; those of folders that cannot be looked at stay."""
        looked = {root.number for root in self.roots}
        return [
            path
            for path, known in self.known.items()
            if known.present and known.root in looked and path not in self.seen
        ]

    @property
    def told_anew(self) -> list[bytes]:
        """Known places whose files say something else than before."""
        return [
            path
            for path, seen in self.seen.items()
            if (known := self.known.get(path)) is not None
            and (known.said is None or seen.said != known.said or not known.present)
        ]

    @property
    def is_news(self) -> bool:
        """Whether files say, or are, anything but what the library knows."""
        return bool(self.vanished or self.told_anew) or any(
            (known := self.known.get(path)) is None or seen.tags_stamp != known.tags_stamp
            for path, seen in self.seen.items()
        )


def roots(store: Store) -> list[Root]:
    """The folders and lists of a library."""
    with store.read() as base:
        rows = base.execute(
            "SELECT id, path, kind, column, hierarchy FROM roots ORDER BY id"
        ).fetchall()
    beside = store.path.parent
    return [
        Root(number, beside / os.fsdecode(path), kind, column, hierarchy)
        for number, path, kind, column, hierarchy in rows
    ]


def stored(path: Path, library: Path) -> bytes:
    """How a root is kept: relative where it lies in the folder of the library."""
    whole = Path(os.path.abspath(path))
    beside = library.parent
    return os.fsencode(whole.relative_to(beside) if whole.is_relative_to(beside) else whole)


def places(base: sqlite3.Connection) -> dict[bytes, Known]:
    """All places that the library knows."""
    rows = base.execute("SELECT path, picture, root, stamp, tags_stamp, said, present FROM places")
    return {
        bytes(path): Known(picture, root, stamp, tags_stamp, said, present)
        for path, picture, root, stamp, tags_stamp, said, present in rows
    }


def look(store: Store, progress: Progress | None = None) -> Look:
    """Look at all roots.

    Raises
    ------
    LibraryError
        No root could be looked at.
    """
    with store.read() as base:
        result = Look(known=places(base))
    every = roots(store)
    for root in every:
        try:
            found = find([root.path], result.problems, _kinds(root.kind), root.column)
        except MetadataError as error:
            # A drive that is not there has taken nothing away.
            result.problems.append(f"{error} What the library knows of it is kept as it is.")
            continue
        result.roots.append(_read(root, found, result, progress))
    if not result.roots:
        raise LibraryError("\n".join(result.problems) or "the library has no folder to look at.")
    return result


def _kinds(kind: str) -> frozenset[str] | None:
    return chosen(kind if kind == AUTO else kind.split(","))


def _read(root: Root, found: list[Picture], result: Look, progress: Progress | None) -> Root:
    """What the files of a root say; the root, with the kinds of files that decided."""
    kinds = _kinds(root.kind)
    used: set[str] = set()
    meter = Meter("Looking for tags", len(found), progress)
    for picture in found:
        path = os.fsencode(identity(picture.path))
        known = result.known.get(path)
        stamp = _stamp(picture, root)
        if known is not None and known.said is not None and stamp and stamp == known.tags_stamp:
            said = known.said
        else:
            tags, ruled_out, kinds_here, problems = tags_of(picture, kinds)
            used.update(kinds_here)
            result.problems += problems
            before = Said.of(known.said) if known is not None else None
            said = Said(tags, ruled_out, _still_inherited(before, tags)).text()
            if problems:  # what was known is better than half of what is there
                stamp = None
                if known is not None and known.said is not None:
                    said = known.said
        result.seen[path] = Seen(root.number, picture, stamp, said)
        meter.advance()
    if root.kind != AUTO:
        return root
    mine = [seen for seen in result.seen.values() if seen.root == root.number]
    if any((one := Said.of(seen.said)) is not None and one.tags for seen in mine):
        # From now on, so that tags which sync writes do not put an end to names of folders.
        return root._replace(kind=",".join(_FILES))
    for seen in mine:
        seen.said = Said(unique([clean(name) for name in seen.picture.folders])).text()
        used.update(["folders"] if seen.picture.folders else [])
    return root._replace(kind=",".join(KINDS)) if used else root


def _still_inherited(before: Said | None, tags: list[str]) -> list[str]:
    """Without the tags that files of the place came to say themselves, and then no longer."""
    if before is None or not before.inherited:
        return []
    said = {key(tag) for tag in before.tags}
    now = {key(tag) for tag in tags}
    return [tag for tag in before.inherited if key(tag) not in said or key(tag) in now]


def _stamp(picture: Picture, root: Root) -> bytes | None:
    """Equal as long as no file that may speak of the picture is touched; None where too fresh."""
    files = [picture.path, *picture.sidecars, *([picture.text] if picture.text else [])]
    stamps = [stamp_of(file) for file in files]
    if not all(stamps):
        return None
    names = [os.fsencode(file.name) for file in files]
    rest = repr((root.column, names, stamps, picture.listed, picture.folders))
    return hashlib.blake2b(rest.encode("utf-8", "surrogatepass"), digest_size=16).digest()
