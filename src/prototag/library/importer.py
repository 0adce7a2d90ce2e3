"""The lines of an export, taken one by one into a new library; none of them is believed."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any, BinaryIO

from prototag.errors import InputError, LibraryError
from prototag.images.decode import DIGEST_BYTES
from prototag.library import tag_table
from prototag.library.database import DECIDED, FOUND
from prototag.library.ingest import searchable
from prototag.library.scan import Said, stored
from prototag.library.types import COMPLETE, INCOMPLETE, VERDICTS
from prototag.metadata.collect_tags import KINDS
from prototag.metadata.tag_names import clean, key

VERSION = 1
MAX_LINE = 1 << 24  # bytes
Line = dict[str, Any]


class _Wrong(Exception):
    """What is wrong with a line, in words."""


class Reader:
    """Takes the lines of an export, believing none of them."""

    def __init__(
        self, base: sqlite3.Connection, library: Path, root: str | os.PathLike[str] | None
    ) -> None:
        self.base = base
        self.library = library
        self.root = None if root is None else Path(root)
        self.roots: dict[int, tuple[int, Path]] = {}
        self.pictures: dict[bytes, int] = {}

    def read(self, name: str, lines: BinaryIO) -> None:
        number = 0
        takers = {
            "prototag": self._head,
            "tag": self._tag,
            "picture": self._picture,
            "decision": self._decision,
        }
        while text := lines.readline(MAX_LINE + 1):
            number += 1
            try:
                if len(text) > MAX_LINE:
                    raise _Wrong(f"has more than {MAX_LINE:,} bytes")
                line = _parsed(text)
                kind = next((kind for kind in ("decision", *takers) if kind in line), None)
                if (kind == "prototag") != (number == 1):
                    raise _Wrong('is not where it belongs: {"prototag": "library"} is the first')
                if kind is not None:  # what a later version adds is passed over
                    takers[kind](line)
            except (_Wrong, InputError) as error:
                raise LibraryError(
                    f"{name}, line {number} {error}. It is no export of a library, or damaged; no "
                    "library was made."
                ) from None
            except (sqlite3.IntegrityError, OverflowError) as error:
                raise LibraryError(
                    f"{name}, line {number} says what another line says, or too much ({error}). No "
                    "library was made."
                ) from None
        if not number:
            raise LibraryError(f"{name} is empty: it is no export of a library.")

    def _head(self, line: Line) -> None:
        if line["prototag"] != "library":
            raise _Wrong(f"is of {line['prototag']!r:.40}")
        version = _of(line, "version", int)
        if version > VERSION:
            raise _Wrong(
                f"is of version {version}, this program knows versions up to {VERSION}: upgrade"
            )
        settings = _of(line, "settings", dict)
        for name in ("backbone", "crops"):
            if name in settings:
                self.base.execute(
                    "INSERT INTO meta VALUES (?, ?)", (name, _of(settings, name, str))
                )
        for root in _of(line, "roots", list):
            if not isinstance(root, dict):
                raise _Wrong("has a root that is no object")
            path = self.root or Path(_path(root))
            kept = stored(path, self.library)
            kind = _of(root, "kind", str)
            hierarchy = _of(root, "hierarchy", str)
            column = root.get("column")
            if hierarchy not in ("path", "leaf") or not isinstance(column, str | None):
                raise _Wrong("has a root with a wrong hierarchy or column")
            if {*kind.split(",")} - {"auto", *KINDS}:
                raise _Wrong(f"has a root of the kind {kind!r:.40}")
            row = self.base.execute(
                "INSERT INTO roots (path, kind, column, hierarchy) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET kind = excluded.kind RETURNING id",
                (kept, kind, column, hierarchy),
            ).fetchone()
            self.roots[_of(root, "number", int)] = row[0], path

    def _tag(self, line: Line) -> None:
        tag = self._named(_of(line, "tag", str))
        self.base.execute(
            "UPDATE tags SET hidden = ? WHERE id = ?", (_of(line, "hidden", bool), tag)
        )
        for alias in _names(line, "aliases"):
            if tag_table.known(self.base, alias) is None:
                self.base.execute("INSERT INTO aliases VALUES (?, ?, ?)", (key(alias), alias, tag))

    def _named(self, name: str) -> int:
        if not clean(name):
            raise _Wrong(f"has a tag without characters: {name!r:.40}")
        return tag_table.added(self.base, name)

    def _picture(self, line: Line) -> None:
        digest = _digest(line)
        number = self.base.execute(
            "INSERT INTO pictures (digest, added, complete) VALUES (?, ?, ?) RETURNING id",
            (digest, _time(line, "added"), _of(line, "complete", bool)),
        ).fetchone()[0]
        self.pictures[digest] = number
        labels: dict[int, list[Any]] = {}
        for field, value in (("ruled_out", 0), ("tags", 1)):
            for name in _names(line, field):
                labels[self._named(name)] = [value, FOUND, value]
        for field, value in (("rejected", 0), ("accepted", 1)):
            for name in _names(line, field):
                tag = self._named(name)
                labels[tag] = [value, DECIDED, labels.get(tag, [None])[-1]]
        self.base.executemany(
            "INSERT INTO labels VALUES (?, ?, ?, ?, ?)",
            [(number, tag, *label) for tag, label in labels.items()],
        )
        for place in _of(line, "places", list):
            if not isinstance(place, dict):
                raise _Wrong("has a place that is no object")
            self._place(number, place)

    def _place(self, number: int, place: Line) -> None:
        path = os.fsencode(_path(place))
        root = self.roots.get(_of(place, "root", int))
        if root is None:
            raise _Wrong(f"has a place in the root {place['root']}, which no line names")
        said = place.get("said")
        if said is not None:
            if not isinstance(said, list) or len(said) != 3:
                raise _Wrong("has a place whose 'said' is not [tags, ruled_out, inherited]")
            named = dict(zip(("tags", "ruled_out", "inherited"), said, strict=True))
            ruled_out = None if said[1] is None else _names(named, "ruled_out")
            said = Said(_names(named, "tags"), ruled_out, _names(named, "inherited")).text()
        # Whether it is there the next scan says; until then it is believed.
        self.base.execute(
            "INSERT INTO places (path, folder, name, picture, root, said, present) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                *(path, os.path.dirname(path), searchable(path, root[1]), number, root[0], said),
                _of(place, "present", bool),
            ),
        )
        for pair in _of(place, "written", list):
            if not (isinstance(pair, list) and len(pair) == 2 and pair[1] in (0, 1)):
                raise _Wrong("has a place whose 'written' is not [[tag, 0 or 1], ...]")
            name = _names({"written": pair[:1]}, "written")[0]
            self.base.execute("INSERT INTO written VALUES (?, ?, ?, 1)", (path, name, pair[1]))

    def _decision(self, line: Line) -> None:
        digest = _digest(line)
        verdict = line["decision"]
        tag = line.get("tag")
        if digest not in self.pictures:
            raise _Wrong("decides of a picture that no line before it names")
        if not isinstance(tag, str | None):
            raise _Wrong("has a tag that is no text")
        if verdict not in ((COMPLETE, INCOMPLETE) if tag is None else VERDICTS):
            raise _Wrong(f"decides {verdict!r:.40}")
        earlier = line.get("earlier")
        by = _of(line, "by", str)
        if earlier not in (None, 0, 1):
            raise _Wrong("has an 'earlier' that is not 0, 1 or null")
        if not by or not by.isprintable() or len(by) > 1000:
            raise _Wrong("does not say who decides in printable characters")
        self.base.execute(
            "INSERT INTO decisions (picture, tag, verdict, at, by, batch, undone, before) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.pictures[digest],
                None if tag is None else self._named(tag),
                verdict,
                _time(line, "at"),
                by,
                _of(line, "batch", int),
                _of(line, "undone", bool),
                None if earlier is None else json.dumps([int(earlier)]),
            ),
        )


def _parsed(text: bytes) -> Line:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        raise _Wrong("is not JSON") from None
    if not isinstance(line, dict):
        raise _Wrong("is no object {...}")
    return line


def _of(line: Line, name: str, kind: type) -> Any:
    if type(line.get(name)) is not kind:  # True is no number here
        raise _Wrong(f"has no {name!r}, or one that is no {kind.__name__}")
    if kind is int and not 0 <= line[name] < 1 << 60:
        raise _Wrong(f"has a {name!r} out of bounds")
    return line[name]


def _time(line: Line, name: str) -> float:
    value: Any = line.get(name)
    if type(value) not in (int, float) or not -1e12 < value < 1e12:
        raise _Wrong(f"has no time {name!r}")
    return float(value)


def _names(line: Line, name: str) -> list[str]:
    value = line.get(name)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _Wrong(f"has no {name!r}, or one that is no list of texts")
    if not all(clean(one) for one in value):
        raise _Wrong(f"has a tag without characters in {name!r}")
    return [clean(one) for one in value]


def _digest(line: Line) -> bytes:
    try:
        digest = bytes.fromhex(_of(line, "picture", str))
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise _Wrong("names no picture by its digest")
    return digest


def _path(line: Line) -> str:
    path = _of(line, "path", str)
    try:
        encoded = os.fsencode(path)
    except UnicodeError:
        encoded = b""
    if not os.path.isabs(path) or b"\0" in encoded or not encoded:
        raise _Wrong("has a path that is not absolute, or cannot be one")
    return str(path)
