"""The file of a library, for many threads: each reads by a connection of its own, one writes.

What is read inside one ``with`` is of one moment. What is written inside one ``with`` is there
whole or not at all, and on the disk when the block ends.
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

# origins of labels
FOUND = "found"
DECIDED = "decided"
CHUNK = 500  # variables in one statement; old SQLite allows 999

Ids = npt.NDArray[np.int64]


class Labels(NamedTuple):
    """What is known of pairs of picture and tag, one entry for each, by picture and tag."""

    pictures: Ids
    tags: Ids
    values: npt.NDArray[np.int8]  # 1 where the picture has the tag, 0 where it is ruled out
    decided: npt.NDArray[np.bool_]  # else it was found with the files


class Store:
    """An open library file.

    Parameters
    ----------
    path : path-like
        The file; it must be there.

    Raises
    ------
    LibraryError
        It is no library, damaged, of a newer version, or used by another process for too long.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        self.problems: list[str] = []  # of the place where the file lies, in words
        self._lock = threading.RLock()  # of the writer
        self._writing: int | None = None  # thread inside write()
        self._local = threading.local()
        self._readers: list[tuple[weakref.ref[threading.Thread], sqlite3.Connection]] = []
        self._guard = threading.Lock()  # of the list of readers
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
        base = self._writer or self._reader()
        with schema.told(self.path):
            self._check(base)
        self._registered.note_files()

    def _check(self, base: sqlite3.Connection) -> None:
        if damage := schema.look_for_damage(base):
            raise LibraryError(
                f"the library {self.path} is damaged ({damage[0]}). Keep the file, and restore a "
                "copy of it, or an export with `prototag library import`."
            )
        if self._writer and base.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            self.problems.append(
                "it lies on a drive without shared memory (a network drive?): nothing is lost, but "
                "while one process writes no other can read"
            )

    @property
    def can_write(self) -> bool:
        return self._writer is not None

    def _reader(self) -> sqlite3.Connection:
        if self._closed:
            raise LibraryError(f"the library {self.path} was closed: open it again.")
        base: sqlite3.Connection | None = getattr(self._local, "base", None)
        if base is None:
            base = schema.connect_reading(self.path)
            self._local.base = base
            with self._guard:
                for thread, old in self._readers:
                    if (alive := thread()) is None or not alive.is_alive():
                        old.close()
                self._readers = [
                    (thread, old)
                    for thread, old in self._readers
                    if (alive := thread()) is not None and alive.is_alive()
                ]
                self._readers.append((weakref.ref(threading.current_thread()), base))
        return base

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one moment; inside :meth:`write` what is being written."""
        if self._writing == threading.get_ident():
            assert self._writer is not None
            with schema.told(self.path):
                yield self._writer
            return
        base = self._reader()
        with schema.told(self.path):
            if base.in_transaction:  # inside another read
                yield base
                return
            base.execute("BEGIN")
            try:
                yield base
            finally:
                with suppress(sqlite3.Error):  # a damaged file has told its error already
                    base.execute("ROLLBACK")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A connection whose changes are kept when the block ends, or lost together if it fails."""
        if self._closed:
            raise LibraryError(f"the library {self.path} was closed: open it again.")
        if self._writer is None:
            raise LibraryError(str(self._readonly)) from self._readonly
        with self._lock, schema.told(self.path):
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
                with suppress(sqlite3.Error):  # a full disk has rolled back by itself
                    self._writer.execute("ROLLBACK")
                raise
            finally:
                self._writing = None

    def _check_in_place(self, consequence: str) -> None:
        """Refuse to acknowledge changes to files that others do not find under their names."""
        if not self._registered.is_in_place():
            raise LibraryError(
                f"the library {self.path}, or its file {self.path.name}-wal, was moved, replaced "
                f"or removed while this program had it open. {consequence} Close the program, put "
                "the file back, and start again."
            )

    def vectors(self, recipe: bytes | None = None) -> tuple[Ids, Floats]:
        """Numbers and vectors (rows) of all pictures that have one, by number.

        Parameters
        ----------
        recipe : bytes, optional
            How the vectors were made; as the last scan made them, if not given.
        """
        with self.read() as base:
            if recipe is None:
                recipe = self.recipe(base)
            height, most = base.execute(
                "SELECT count(*), max(length(vector)) FROM vectors WHERE recipe = ?", (recipe,)
            ).fetchone()
            X = np.empty((height, (most or 0) // 4), np.float32)
            ids = np.empty(height, np.int64)
            rows = base.execute(
                "SELECT picture, vector, checksum FROM vectors WHERE recipe = ? ORDER BY picture",
                (recipe,),
            )
            kept = 0
            for picture, vector, checksum in rows:
                # One that is not as it was stored is not known; the next scan makes it again.
                if len(vector) == most and checksum == checked(picture, vector):
                    ids[kept] = picture
                    X[kept] = np.frombuffer(vector, "<f4")
                    kept += 1
        return ids[:kept], X[:kept]

    def recipe(self, base: sqlite3.Connection) -> bytes:
        """What decides the values of the vectors, as the last scan made them."""
        return bytes.fromhex(self.meta("recipe", "", base=base)) or _commonest(base)

    def labels(self) -> Labels:
        """All that is known of pairs of picture and tag."""
        with self.read() as base:
            rows = base.execute(
                "SELECT picture, tag, value, origin = 'decided' FROM labels ORDER BY picture, tag"
            )
            table = np.fromiter((entry for row in rows for entry in row), np.int64).reshape(-1, 4)
        pictures, tags, values, decided = table.T
        return Labels(pictures.copy(), tags.copy(), values.astype(np.int8), decided.astype(bool))

    def last_decision(self) -> int:
        """Number of the last decision; 0 where there is none."""
        with self.read() as base:
            found = base.execute("SELECT max(id) FROM decisions").fetchone()[0]
        return int(found or 0)

    def meta(self, key: str, otherwise: str, *, base: sqlite3.Connection | None = None) -> str:
        """A setting of the library."""
        if base is None:
            with self.read() as base:
                return self.meta(key, otherwise, base=base)
        found = base.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return otherwise if found is None else str(found[0])

    def set_meta(self, key: str, value: str) -> None:
        with self.write() as base:
            base.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def check(self) -> list[str]:
        """What is damaged, after a look at every page, row and vector."""
        with self.read() as base:
            found = schema.look_for_damage(base, all_of_it=True)
            found += [
                f"the vector of picture {picture} is not as it was stored: scan again"
                for picture, vector, checksum in base.execute(
                    "SELECT picture, vector, checksum FROM vectors"
                )
                if checksum != checked(picture, vector)
            ][:20]
        return found

    def close(self) -> None:
        """Close the file; every other call fails from then on."""
        with self._lock:
            self._closed = True
            with self._guard:
                for _, base in self._readers:
                    base.close()
                self._readers.clear()
            if self._writer is not None:
                self._writer.close()
            self._writer = None
            self._registered.release()


def checked(picture: int, vector: bytes) -> bytes:
    """The checksum of a stored vector."""
    return hashlib.blake2b(vector, digest_size=8, key=picture.to_bytes(8, "little")).digest()


def selected(base: sqlite3.Connection, select: str, keys: list[Any]) -> Iterator[Any]:
    """Rows of ``select ... IN (keys)``, for any number of keys."""
    for start in range(0, len(keys), CHUNK):
        part = keys[start : start + CHUNK]
        yield from base.execute(f"{select} ({','.join('?' * len(part))})", part)


def _commonest(base: sqlite3.Connection) -> bytes:
    found = base.execute(
        "SELECT recipe FROM vectors GROUP BY recipe ORDER BY count(*) DESC LIMIT 1"
    ).fetchone()
    return bytes(found[0]) if found else b""


def _is_refused_writing(error: LibraryError) -> bool:
    cause = error.__cause__
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
