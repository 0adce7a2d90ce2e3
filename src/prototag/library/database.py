"""The open SQLite file of a library: one connection per reading thread, one for writing.

Each ``with`` block of :meth:`Store.read` reads one snapshot. Each block of :meth:`Store.write` is
one transaction, which is durable when the block ends.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.arrays import Floats
from prototag.errors import LibraryError
from prototag.library import schema
from prototag.storage.sqlite_lock_guard import OpenDatabase

# sources of labels
SOURCE_FILE = "file"
SOURCE_DECISION = "decision"
MAX_SQL_VARIABLES = 500  # in one statement; old versions of SQLite allow 999

Ids = npt.NDArray[np.int64]


class Labels(NamedTuple):
    """The labels of pairs of picture and tag, ordered by picture and tag."""

    pictures: Ids
    tags: Ids
    values: npt.NDArray[np.int8]  # 1 if the picture has the tag, 0 if it lacks it
    decided: npt.NDArray[np.bool_]  # whether the source is a decision; else a file


class Store:
    """An open library file; threads may share it.

    Parameters
    ----------
    path : path-like
        The existing file.

    Attributes
    ----------
    problems : list of str
        Limitations of the place where the file is, such as a read-only disk.

    Raises
    ------
    LibraryError
        The file is no library, is damaged, of a newer version, or in use by another process.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        self.problems: list[str] = []
        self._lock = threading.RLock()  # held while writing
        self._writing: int | None = None  # identifier of the thread inside write()
        self._local = threading.local()
        self._readers: list[tuple[weakref.ref[threading.Thread], sqlite3.Connection]] = []
        self._guard = threading.Lock()  # of _readers
        self._closed = False
        self._writer: sqlite3.Connection | None = None
        self._registered = OpenDatabase(self.path)  # before any connection takes a lock
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        try:
            self._writer = schema.connect(self.path)
        except LibraryError as error:
            if not _is_refused_writing(error):
                raise
            self._readonly = LibraryError(
                f"the library {self.path} cannot be written: the file or its folder is read-only. "
                "Allow writing, or copy the library to another place."
            )
            self.problems.append("it can only be read: the file or its folder is read-only")
        conn = self._writer or self._reader()
        with schema.translate_sqlite_errors(self.path):
            self._check(conn)
        self._registered.note_files()

    def _check(self, conn: sqlite3.Connection) -> None:
        if damage := schema.find_damage(conn):
            raise LibraryError(
                f"the library {self.path} is damaged ({damage[0]}). Keep the file, and restore a "
                "copy of it, or an export with `prototag library import`."
            )
        if self._writer and conn.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            self.problems.append(
                "it is on a drive without shared memory (a network drive?): no data is lost, but "
                "while one process writes no other can read"
            )

    @property
    def can_write(self) -> bool:
        return self._writer is not None

    def _reader(self) -> sqlite3.Connection:
        if self._closed:
            raise LibraryError(f"the library {self.path} was closed: open it again.")
        conn: sqlite3.Connection | None = getattr(self._local, "conn", None)
        if conn is None:
            conn = schema.connect_reading(self.path)
            self._local.conn = conn
            with self._guard:
                for thread, old in self._readers:
                    if (alive := thread()) is None or not alive.is_alive():
                        old.close()
                self._readers = [
                    (thread, old)
                    for thread, old in self._readers
                    if (alive := thread()) is not None and alive.is_alive()
                ]
                self._readers.append((weakref.ref(threading.current_thread()), conn))
        return conn

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Provide a connection that reads one snapshot, inside :meth:`write` the pending one."""
        if self._writing == threading.get_ident():
            assert self._writer is not None
            with schema.translate_sqlite_errors(self.path):
                yield self._writer
            return
        conn = self._reader()
        with schema.translate_sqlite_errors(self.path):
            if conn.in_transaction:  # inside another read
                yield conn
                return
            conn.execute("BEGIN")
            try:
                yield conn
            finally:
                with suppress(sqlite3.Error):  # a damaged file has raised its error already
                    conn.execute("ROLLBACK")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Provide a connection whose changes are committed together, or rolled back on errors."""
        if self._closed:
            raise LibraryError(f"the library {self.path} was closed: open it again.")
        if self._writer is None:
            raise LibraryError(str(self._readonly)) from self._readonly
        with self._lock, schema.translate_sqlite_errors(self.path):
            if self._writing is not None:  # inside another write of this thread
                yield self._writer
                return
            self._check_in_place("Nothing was changed.")
            self._writer.execute("BEGIN IMMEDIATE")
            self._writing = threading.get_ident()
            try:
                yield self._writer
                self._writer.execute("COMMIT")
                self._check_in_place("The last change may be lost.")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite rolls back itself on a full disk
                    self._writer.execute("ROLLBACK")
                raise
            finally:
                self._writing = None

    def _check_in_place(self, consequence: str) -> None:
        """Raise an error if the files are not found under their names any more."""
        if not self._registered.is_in_place():
            raise LibraryError(
                f"the library {self.path}, or its file {self.path.name}-wal, was moved, replaced "
                f"or removed while this program had it open. {consequence} Close the program, put "
                "the file back, and start again."
            )

    def vectors(self, recipe: bytes | None = None) -> tuple[Ids, Floats]:
        """Return the numbers and vectors (rows) of all pictures that have a vector, by number.

        Parameters
        ----------
        recipe : bytes, optional
            Recipe of the vectors, by default that of the last scan.
        """
        with self.read() as conn:
            if recipe is None:
                recipe = self.recipe(conn)
            height, most = conn.execute(
                "SELECT count(*), max(length(vector)) FROM vectors WHERE recipe = ?", (recipe,)
            ).fetchone()
            X = np.empty((height, (most or 0) // 4), np.float32)
            ids = np.empty(height, np.int64)
            rows = conn.execute(
                "SELECT picture, vector, checksum FROM vectors WHERE recipe = ? ORDER BY picture",
                (recipe,),
            )
            kept = 0
            for picture, vector, checksum in rows:
                # A damaged vector is skipped; check() reports it.
                if len(vector) == most and checksum == vector_checksum(picture, vector):
                    ids[kept] = picture
                    X[kept] = np.frombuffer(vector, "<f4")
                    kept += 1
        return ids[:kept], X[:kept]

    def recipe(self, conn: sqlite3.Connection) -> bytes:
        """Return the recipe of the last scan, which identifies how vectors were computed."""
        return bytes.fromhex(self.setting("recipe", "", conn=conn)) or _most_frequent_recipe(conn)

    def labels(self) -> Labels:
        """Return all labels."""
        with self.read() as conn:
            rows = conn.execute(
                "SELECT picture, tag, value, source = 'decision' FROM labels ORDER BY picture, tag"
            )
            table = np.fromiter((entry for row in rows for entry in row), np.int64).reshape(-1, 4)
        pictures, tags, values, decided = table.T
        return Labels(pictures.copy(), tags.copy(), values.astype(np.int8), decided.astype(bool))

    def last_decision(self) -> int:
        """Return the number of the last decision; 0 if there is none."""
        with self.read() as conn:
            (number,) = conn.execute("SELECT max(id) FROM decisions").fetchone()
        return int(number or 0)

    def setting(self, key: str, default: str, *, conn: sqlite3.Connection | None = None) -> str:
        """Return a setting of the library."""
        if conn is None:
            with self.read() as conn:
                return self.setting(key, default, conn=conn)
        row = conn.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        return default if row is None else str(row[0])

    def set_setting(self, key: str, value: str) -> None:
        with self.write() as conn:
            conn.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, value))

    def check(self) -> list[str]:
        """Check every page, row and vector; return descriptions of damage."""
        with self.read() as conn:
            damage = schema.find_damage(conn, full=True)
            damage += [
                f"the vector of picture {picture} is not as it was stored: scan again"
                for picture, vector, checksum in conn.execute(
                    "SELECT picture, vector, checksum FROM vectors"
                )
                if checksum != vector_checksum(picture, vector)
            ][:20]
        return damage

    def close(self) -> None:
        """Close the file; every other call fails afterwards."""
        with self._lock:
            self._closed = True
            with self._guard:
                for _, conn in self._readers:
                    conn.close()
                self._readers.clear()
            if self._writer is not None:
                self._writer.close()
            self._writer = None
            self._registered.release()


def vector_checksum(picture: int, vector: bytes) -> bytes:
    """Return the checksum of a stored vector."""
    return hashlib.blake2b(vector, digest_size=8, key=picture.to_bytes(8, "little")).digest()


def select_in(conn: sqlite3.Connection, select: str, keys: list[Any]) -> Iterator[Any]:
    """Generate the rows of ``select ... IN (keys)``, for any number of keys."""
    for start in range(0, len(keys), MAX_SQL_VARIABLES):
        part = keys[start : start + MAX_SQL_VARIABLES]
        yield from conn.execute(f"{select} ({','.join('?' * len(part))})", part)


def _most_frequent_recipe(conn: sqlite3.Connection) -> bytes:
    row = conn.execute(
        "SELECT recipe FROM vectors GROUP BY recipe ORDER BY count(*) DESC LIMIT 1"
    ).fetchone()
    return bytes(row[0]) if row else b""


def _is_refused_writing(error: LibraryError) -> bool:
    cause = error.__cause__
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
