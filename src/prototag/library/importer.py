"""Import an export (JSON lines) into a new library, validating every field."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any, BinaryIO

from prototag.errors import InputError, LibraryError
from prototag.images.decode import DIGEST_BYTES
from prototag.library import tag_table
from prototag.library.database import SOURCE_DECISION, SOURCE_FILE
from prototag.library.ingest import searchable
from prototag.library.scan import ParsedTags, stored_root
from prototag.library.types import COMPLETE, INCOMPLETE, VERDICTS
from prototag.metadata.collect_tags import KINDS
from prototag.metadata.tag_names import clean, key

VERSION = 2
MAX_LINE = 1 << 24  # bytes
Line = dict[str, Any]


class _InvalidLine(Exception):
    """An invalid line of an export; the message continues "line 3 ..."."""


class Importer:
    """Importer of the lines of one export into an empty library."""

    def __init__(
        self, conn: sqlite3.Connection, library: Path, root: str | os.PathLike[str] | None
    ) -> None:
        self.conn = conn
        self.library = library
        self.root = None if root is None else Path(root)
        self.roots: dict[int, tuple[int, Path]] = {}
        self.pictures: dict[bytes, int] = {}

    def read(self, name: str, lines: BinaryIO) -> None:
        """Import all lines; raise an error that names the first invalid one."""
        number = 0
        readers = {
            "prototag": self._head,
            "tag": self._tag,
            "picture": self._picture,
            "decision": self._decision,
        }
        while text := lines.readline(MAX_LINE + 1):
            number += 1
            try:
                if len(text) > MAX_LINE:
                    raise _InvalidLine(f"has more than {MAX_LINE:,} bytes")
                line = _parsed(text)
                kind = next((kind for kind in ("decision", *readers) if kind in line), None)
                if (kind == "prototag") != (number == 1):
                    raise _InvalidLine(
                        'is not where it belongs: {"prototag": "library"} is the first'
                    )
                if kind is not None:  # lines of unknown kinds are ignored
                    readers[kind](line)
            except (_InvalidLine, InputError) as error:
                raise LibraryError(
                    f"{name}, line {number} {error}. It is no export of a library, or damaged. No "
                    "library was created."
                ) from None
            except (sqlite3.IntegrityError, OverflowError) as error:
                raise LibraryError(
                    f"{name}, line {number} repeats another line, or has a number out of "
                    f"bounds ({error}). No library was created."
                ) from None
        if not number:
            raise LibraryError(f"{name} is empty: it is no export of a library.")

    def _head(self, line: Line) -> None:
        if line["prototag"] != "library":
            raise _InvalidLine(f"is of {line['prototag']!r:.40}")
        version = _of(line, "version", int)
        if version > VERSION:
            raise _InvalidLine(
                f"is of version {version}, this program knows versions up to {VERSION}: upgrade"
            )
        if version < VERSION:
            raise _InvalidLine(f"is of version {version}, which this program does not read")
        settings = _of(line, "settings", dict)
        for name in ("backbone", "crops"):
            if name in settings:
                self.conn.execute(
                    "INSERT INTO settings VALUES (?, ?)", (name, _of(settings, name, str))
                )
        for root in _of(line, "roots", list):
            if not isinstance(root, dict):
                raise _InvalidLine("has a root that is no object")
            path = self.root or Path(_path(root))
            stored = stored_root(path, self.library)
            kind = _of(root, "kind", str)
            hierarchy = _of(root, "hierarchy", str)
            column = root.get("column")
            if hierarchy not in ("path", "leaf") or not isinstance(column, str | None):
                raise _InvalidLine("has a root with a wrong hierarchy or column")
            if {*kind.split(",")} - {"auto", *KINDS}:
                raise _InvalidLine(f"has a root of the kind {kind!r:.40}")
            row = self.conn.execute(
                "INSERT INTO roots (path, kind, column, hierarchy) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET kind = excluded.kind RETURNING id",
                (stored, kind, column, hierarchy),
            ).fetchone()
            self.roots[_of(root, "number", int)] = row[0], path

    def _tag(self, line: Line) -> None:
        tag = self._named(_of(line, "tag", str))
        self.conn.execute(
            "UPDATE tags SET hidden = ? WHERE id = ?", (_of(line, "hidden", bool), tag)
        )
        for alias in _names(line, "aliases"):
            if tag_table.find_tag(self.conn, alias) is None:
                self.conn.execute("INSERT INTO aliases VALUES (?, ?, ?)", (key(alias), alias, tag))

    def _named(self, name: str) -> int:
        if not clean(name):
            raise _InvalidLine(f"has a tag without characters: {name!r:.40}")
        return tag_table.create_tag_if_new(self.conn, name)

    def _picture(self, line: Line) -> None:
        digest = _digest(line)
        number = self.conn.execute(
            "INSERT INTO pictures (digest, added_at, complete) VALUES (?, ?, ?) RETURNING id",
            (digest, _time(line, "added_at"), _of(line, "complete", bool)),
        ).fetchone()[0]
        self.pictures[digest] = number
        labels: dict[int, list[Any]] = {}
        for field, value in (("ruled_out", 0), ("tags", 1)):
            for name in _names(line, field):
                labels[self._named(name)] = [value, SOURCE_FILE, value]
        for field, value in (("rejected", 0), ("accepted", 1)):
            for name in _names(line, field):
                tag = self._named(name)
                labels[tag] = [value, SOURCE_DECISION, labels.get(tag, [None])[-1]]
        self.conn.executemany(
            "INSERT INTO labels VALUES (?, ?, ?, ?, ?)",
            [(number, tag, *label) for tag, label in labels.items()],
        )
        for file in _of(line, "files", list):
            if not isinstance(file, dict):
                raise _InvalidLine("has a file that is no object")
            self._file(number, file)

    def _file(self, number: int, file: Line) -> None:
        path = os.fsencode(_path(file))
        root = self.roots.get(_of(file, "root", int))
        if root is None:
            raise _InvalidLine(f"has a file in the root {file['root']}, which no line names")
        root_number, folder = root
        # Until the next scan the import trusts that the file is present.
        self.conn.execute(
            "INSERT INTO files (path, folder, search_name, picture, root, parsed_tags, present) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                path,
                os.path.dirname(path),
                searchable(path, folder),
                number,
                root_number,
                _parsed_tags(file.get("parsed_tags")),
                _of(file, "present", bool),
            ),
        )
        for pair in _of(file, "written_tags", list):
            if not (isinstance(pair, list) and len(pair) == 2 and pair[1] in (0, 1)):
                raise _InvalidLine("has a file whose 'written_tags' is not [[tag, 0 or 1], ...]")
            tag, by_prototag = pair
            (name,) = _names({"written_tags": [tag]}, "written_tags")
            self.conn.execute(
                "INSERT INTO written_tags VALUES (?, ?, ?, 1)", (path, name, by_prototag)
            )

    def _decision(self, line: Line) -> None:
        digest = _digest(line)
        verdict = line["decision"]
        tag = line.get("tag")
        if digest not in self.pictures:
            raise _InvalidLine("decides of a picture that no line before it names")
        if not isinstance(tag, str | None):
            raise _InvalidLine("has a tag that is no text")
        if verdict not in ((COMPLETE, INCOMPLETE) if tag is None else VERDICTS):
            raise _InvalidLine(f"decides {verdict!r:.40}")
        previous_value = line.get("previous_value")
        by = _of(line, "decided_by", str)
        if previous_value not in (None, 0, 1):
            raise _InvalidLine("has a 'previous_value' that is not 0, 1 or null")
        if not by or not by.isprintable() or len(by) > 1000:
            raise _InvalidLine("has a 'decided_by' that is empty, too long or not printable")
        self.conn.execute(
            "INSERT INTO decisions (picture, tag, verdict, decided_at, decided_by, batch, undone, "
            "undo_state) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.pictures[digest],
                None if tag is None else self._named(tag),
                verdict,
                _time(line, "decided_at"),
                by,
                _of(line, "batch", int),
                _of(line, "undone", bool),
                None if previous_value is None else json.dumps([int(previous_value)]),
            ),
        )


def _parsed_tags(value: Any) -> str | None:
    """Validate the tags of a file; return them as they are stored."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3:
        raise _InvalidLine("has a file whose 'parsed_tags' is not [tags, ruled_out, inherited]")
    fields = dict(zip(("tags", "ruled_out", "inherited"), value, strict=True))
    ruled_out = None if fields["ruled_out"] is None else _names(fields, "ruled_out")
    return ParsedTags(_names(fields, "tags"), ruled_out, _names(fields, "inherited")).to_json()


def _parsed(text: bytes) -> Line:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        raise _InvalidLine("is not JSON") from None
    if not isinstance(line, dict):
        raise _InvalidLine("is no object {...}")
    return line


def _of(line: Line, name: str, kind: type) -> Any:
    if type(line.get(name)) is not kind:  # True is no number here
        raise _InvalidLine(f"has no {name!r}, or one that is no {kind.__name__}")
    if kind is int and not 0 <= line[name] < 1 << 60:
        raise _InvalidLine(f"has a {name!r} out of bounds")
    return line[name]


def _time(line: Line, name: str) -> float:
    value: Any = line.get(name)
    if type(value) not in (int, float) or not -1e12 < value < 1e12:
        raise _InvalidLine(f"has no time {name!r}")
    return float(value)


def _names(line: Line, name: str) -> list[str]:
    value = line.get(name)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _InvalidLine(f"has no {name!r}, or one that is no list of texts")
    if not all(clean(one) for one in value):
        raise _InvalidLine(f"has a tag without characters in {name!r}")
    return [clean(one) for one in value]


def _digest(line: Line) -> bytes:
    try:
        digest = bytes.fromhex(_of(line, "picture", str))
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise _InvalidLine("names no picture by its digest")
    return digest


def _path(line: Line) -> str:
    path = _of(line, "path", str)
    try:
        encoded = os.fsencode(path)
    except UnicodeError:
        encoded = b""
    if not os.path.isabs(path) or b"\0" in encoded or not encoded:
        raise _InvalidLine("has a path that is not absolute, or cannot be one")
    return str(path)
