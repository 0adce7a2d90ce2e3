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
MAX_LINE_BYTES = 1 << 24
Line = dict[str, Any]


class _InvalidLine(Exception):
    """An invalid line of an export; its message follows the number of the line."""


class Importer:
    """Importer of the lines of one export into an empty library.

    Attributes
    ----------
    roots : dict of int to tuple of (int, Path)
        Number and folder of each root, by its number in the export.
    pictures : dict of bytes to int
        Number of each picture, by its digest.
    """

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
            "prototag": self._read_header,
            "tag": self._read_tag,
            "picture": self._read_picture,
            "decision": self._read_decision,
        }
        while text := lines.readline(MAX_LINE_BYTES + 1):
            number += 1
            try:
                if len(text) > MAX_LINE_BYTES:
                    raise _InvalidLine(f"has more than {MAX_LINE_BYTES:,} bytes")
                line = _parse(text)
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

    def _read_header(self, line: Line) -> None:
        if line["prototag"] != "library":
            raise _InvalidLine(f"is of {line['prototag']!r:.40}")
        version = _field(line, "version", int)
        if version > VERSION:
            raise _InvalidLine(
                f"is of version {version}, this program knows versions up to {VERSION}: upgrade"
            )
        if version < VERSION:
            raise _InvalidLine(f"is of version {version}, which this program does not read")
        settings = _field(line, "settings", dict)
        for name in ("backbone", "crops"):
            if name in settings:
                self.conn.execute(
                    "INSERT INTO settings VALUES (?, ?)", (name, _field(settings, name, str))
                )
        for root in _field(line, "roots", list):
            if not isinstance(root, dict):
                raise _InvalidLine("has a root that is no object")
            path = self.root or Path(_path(root))
            stored = stored_root(path, self.library)
            kind = _field(root, "kind", str)
            hierarchy = _field(root, "hierarchy", str)
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
            self.roots[_field(root, "number", int)] = row[0], path

    def _read_tag(self, line: Line) -> None:
        tag = self._tag_number(_field(line, "tag", str))
        self.conn.execute(
            "UPDATE tags SET hidden = ? WHERE id = ?", (_field(line, "hidden", bool), tag)
        )
        for alias in _tag_names(line, "aliases"):
            if tag_table.find_tag(self.conn, alias) is None:
                self.conn.execute("INSERT INTO aliases VALUES (?, ?, ?)", (key(alias), alias, tag))

    def _tag_number(self, name: str) -> int:
        if not clean(name):
            raise _InvalidLine(f"has a tag without characters: {name!r:.40}")
        return tag_table.create_tag_if_new(self.conn, name)

    def _read_picture(self, line: Line) -> None:
        digest = _digest(line)
        number = self.conn.execute(
            "INSERT INTO pictures (digest, added_at, complete) VALUES (?, ?, ?) RETURNING id",
            (digest, _time(line, "added_at"), _field(line, "complete", bool)),
        ).fetchone()[0]
        self.pictures[digest] = number
        labels: dict[int, tuple[int, str, int | None]] = {}  # value, source, value in files
        for field, value in (("ruled_out", 0), ("tags", 1)):
            for name in _tag_names(line, field):
                labels[self._tag_number(name)] = value, SOURCE_FILE, value
        for field, value in (("rejected", 0), ("accepted", 1)):
            for name in _tag_names(line, field):
                tag = self._tag_number(name)
                _, _, file_value = labels.get(tag, (value, SOURCE_FILE, None))
                labels[tag] = value, SOURCE_DECISION, file_value
        self.conn.executemany(
            "INSERT INTO labels VALUES (?, ?, ?, ?, ?)",
            [(number, tag, *label) for tag, label in labels.items()],
        )
        for file in _field(line, "files", list):
            if not isinstance(file, dict):
                raise _InvalidLine("has a file that is no object")
            self._read_file(number, file)

    def _read_file(self, number: int, file: Line) -> None:
        path = os.fsencode(_path(file))
        root = self.roots.get(_field(file, "root", int))
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
                _validate_parsed_tags(file.get("parsed_tags")),
                _field(file, "present", bool),
            ),
        )
        for pair in _field(file, "written_tags", list):
            is_valid = isinstance(pair, list) and len(pair) == 3 and pair[1] in (0, 1)
            if not is_valid or pair[2] not in ("sidecar", "file"):
                raise _InvalidLine(
                    "has a file whose 'written_tags' is not [[tag, 0 or 1, place], ...], with "
                    '"sidecar" or "file" for the place'
                )
            tag, by_prototag, place = pair
            (name,) = _tag_names({"written_tags": [tag]}, "written_tags")
            self.conn.execute(
                "INSERT INTO written_tags VALUES (?, ?, ?, 1, ?)", (path, name, by_prototag, place)
            )

    def _read_decision(self, line: Line) -> None:
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
        by = _field(line, "decided_by", str)
        if previous_value not in (None, 0, 1):
            raise _InvalidLine("has a 'previous_value' that is not 0, 1 or null")
        if not by or not by.isprintable() or len(by) > 1000:
            raise _InvalidLine("has a 'decided_by' that is empty, too long or not printable")
        self.conn.execute(
            "INSERT INTO decisions (picture, tag, verdict, decided_at, decided_by, batch, undone, "
            "undo_state) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.pictures[digest],
                None if tag is None else self._tag_number(tag),
                verdict,
                _time(line, "decided_at"),
                by,
                _field(line, "batch", int),
                _field(line, "undone", bool),
                None if previous_value is None else json.dumps([int(previous_value)]),
            ),
        )


def _validate_parsed_tags(value: Any) -> str | None:
    """Validate the tags of a file; return them as they are stored."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3:
        raise _InvalidLine("has a file whose 'parsed_tags' is not [tags, ruled_out, inherited]")
    fields = dict(zip(("tags", "ruled_out", "inherited"), value, strict=True))
    ruled_out = None if fields["ruled_out"] is None else _tag_names(fields, "ruled_out")
    return ParsedTags(
        _tag_names(fields, "tags"), ruled_out, _tag_names(fields, "inherited")
    ).to_json()


def _parse(text: bytes) -> Line:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        raise _InvalidLine("is not JSON") from None
    if not isinstance(line, dict):
        raise _InvalidLine("is no object {...}")
    return line


def _field(line: Line, name: str, kind: type) -> Any:
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


def _tag_names(line: Line, name: str) -> list[str]:
    value = line.get(name)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _InvalidLine(f"has no {name!r}, or one that is no list of texts")
    if not all(clean(one) for one in value):
        raise _InvalidLine(f"has a tag without characters in {name!r}")
    return [clean(one) for one in value]


def _digest(line: Line) -> bytes:
    try:
        digest = bytes.fromhex(_field(line, "picture", str))
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise _InvalidLine("names no picture by its digest")
    return digest


def _path(line: Line) -> str:
    path = _field(line, "path", str)
    try:
        encoded = os.fsencode(path)
    except UnicodeError:
        encoded = b""
    if not os.path.isabs(path) or b"\0" in encoded or not encoded:
        raise _InvalidLine("has a path that is not absolute, or cannot be one")
    return str(path)
