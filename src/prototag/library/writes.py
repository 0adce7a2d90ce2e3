"""Journal of writes to sidecars and pictures, and their undo.

A write is all files that one sync has changed. Undoing it restores every file exactly, except those
that changed since, and removes from the library which tags the files had been given: a tag that a
restored file lacks does not count as removed by a person.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from prototag.errors import ConflictError, MetadataError, UnknownNameError
from prototag.events import Meter, Progress
from prototag.library.database import Store
from prototag.metadata import Change
from prototag.metadata.find_files import normalized_path
from prototag.metadata.jpeg_writer import InsideChange
from prototag.metadata.restoration import Restoration, restoration, restore

STAGE = "Restoring files"
MAX_WRITES = 30  # that are kept; the oldest are forgotten
SIDECAR = "sidecar"  # places of written tags
FILE = "file"


class WriteView(NamedTuple):
    """One write of a library."""

    number: int
    written_at: float  # seconds since 1970
    files: int
    added: int  # tags in them
    removed: int
    undone: bool  # whether no file is left to restore


class UndoneWrite(NamedTuple):
    """Result of undoing a write."""

    number: int
    restored: int  # files
    problems: list[str]  # of files that were left as they are


def place_of(change: Change) -> str:
    """Return where a change writes tags."""
    return FILE if isinstance(change, InsideChange) else SIDECAR


def path_of(change: Change) -> bytes:
    """Return the path of a change's picture as the library stores it."""
    return os.fsencode(normalized_path(Path(change.image)))


def start(store: Store) -> int:
    """Begin a write and return its number; the oldest ones are forgotten."""
    with store.write() as conn:
        number = conn.execute(
            "INSERT INTO writes (written_at) VALUES (?) RETURNING id", (time.time(),)
        ).fetchone()[0]
        conn.execute("DELETE FROM writes WHERE id <= ?", (number - MAX_WRITES,))
    return int(number)


def record(conn: sqlite3.Connection, write: int, changes: Iterable[Change]) -> None:
    """Record changes that were applied."""
    for change in changes:
        one = restoration(Path(os.path.realpath(change.path)), *change.contents)
        conn.execute(
            "INSERT OR REPLACE INTO written_files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (
                write,
                os.fsencode(one.path),
                path_of(change),
                place_of(change),
                json.dumps(change.added),
                json.dumps(change.removed),
                *one[1:],
            ),
        )


def finish(store: Store, write: int) -> int | None:
    """Return the number of a write; one that has changed no file is forgotten."""
    with store.write() as conn:
        (files,) = conn.execute(
            "SELECT count(*) FROM written_files WHERE write_number = ?", (write,)
        ).fetchone()
        if not files:
            conn.execute("DELETE FROM writes WHERE id = ?", (write,))
    return write if files else None


def writes(store: Store) -> list[WriteView]:
    """Return the writes, the latest first."""
    with store.read() as conn:
        rows = conn.execute(
            "SELECT w.id, w.written_at, count(*), total(json_array_length(f.added)), "
            "total(json_array_length(f.removed)), min(f.restored) FROM writes w "
            "JOIN written_files f ON f.write_number = w.id GROUP BY w.id ORDER BY w.id DESC"
        ).fetchall()
    return [
        WriteView(number, at, files, int(added), int(removed), bool(undone))
        for number, at, files, added, removed, undone in rows
    ]


def undo(
    store: Store,
    number: int,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> UndoneWrite:
    """Restore the files of a write as they were before.

    Raises
    ------
    UnknownNameError
        There is no such write.
    ConflictError
        All its files are restored already.
    """
    with store.read() as conn:
        rows = conn.execute(
            "SELECT path, picture_path, place, added, removed, start, old, tail, digest_before, "
            "digest_after, restored FROM written_files WHERE write_number = ? ORDER BY path",
            (number,),
        ).fetchall()
    if not rows:
        raise UnknownNameError(f"there is no write {number} that can be undone.")
    waiting = [row[:-1] for row in rows if not row[-1]]
    if not waiting:
        raise ConflictError(f"write {number} is undone already.")
    problems: list[str] = []
    restored = 0
    meter = Meter(STAGE, len(waiting), progress)
    for path, picture, place, added, removed, *rest in waiting:
        if stop is not None and stop():
            break
        try:
            restore(Restoration(Path(os.fsdecode(path)), *rest))
        except MetadataError as error:
            problems.append(str(error))
        else:
            restored += 1
            _forget(store, number, path, picture, place, json.loads(added), json.loads(removed))
        meter.advance()
    return UndoneWrite(number, restored, problems)


def _forget(
    store: Store,
    number: int,
    path: bytes,
    picture: bytes,
    place: str,
    added: list[str],
    removed: list[str],
) -> None:
    """Record that a file is restored: it lacks what was added, and has what was removed."""
    with store.write() as conn:
        conn.executemany(
            "DELETE FROM written_tags WHERE path = ? AND tag_name = ?",
            [(picture, name) for name in added],
        )
        conn.executemany(
            "INSERT OR REPLACE INTO written_tags SELECT path, ?, 1, 1, ? FROM files WHERE path = ?",
            [(name, place, picture) for name in removed],
        )
        conn.execute(
            "UPDATE written_files SET restored = 1 WHERE write_number = ? AND path = ?",
            (number, path),
        )
