"""Vector cache: feature vectors on disk, by digest of the picture and recipe of the extractor.

Two tables in one SQLite file. ``vectors`` maps (content, recipe) to a vector; the content is the
picture's :func:`~prototag.images.decode.digest`, so a renamed file is recognized and a changed file
is not. ``stamps`` maps the metadata of a file (device, inode, size, times) to its content, so that
unchanged files are not read again.

Every batch is one transaction in a write-ahead log: a process that is killed loses at most its
unfinished batch, and several processes may share the file. Vectors have checksums, and damaged
vectors are ignored. A damaged file is renamed and replaced by a new one; a read-only file is used
as it is.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from prototag.arrays import Array, Floats
from prototag.errors import CacheError
from prototag.storage.sqlite_lock_guard import OpenDatabase, open_for_reading

SCHEMA = 2
APPLICATION_ID = int.from_bytes(b"PTag", "big")  # marks the database as a vector cache
MAX_BYTES = 4 << 30  # about 800,000 vectors of 1,280 numbers
_LOCK_TIMEOUT_SECONDS = 60  # for the transaction of another process
_MIN_AGE_NS = 2 * 10**9  # a younger file may change again without a new modification time
_DAY_SECONDS = 86_400
_SQLITE_HEADER = b"SQLite format 3\0"
_MAX_VARIABLES = 500  # in one statement; old SQLite allows 999
_TABLES = f"""
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS vectors (
        content BLOB NOT NULL, recipe BLOB NOT NULL, vector BLOB NOT NULL, used INTEGER NOT NULL,
        checksum BLOB NOT NULL, PRIMARY KEY (content, recipe));
    CREATE TABLE IF NOT EXISTS stamps (stamp BLOB PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS vectors_by_use ON vectors (used);
    PRAGMA user_version = {SCHEMA};
    PRAGMA application_id = {APPLICATION_ID};
    COMMIT;
"""


def default_path() -> Path:
    """Return ``$PROTOTAG_CACHE``, else ``vectors.sqlite`` in the user's cache folder."""
    configured = os.environ.get("PROTOTAG_CACHE")
    if configured:
        return Path(configured)
    from platformdirs import user_cache_path  # imported late: slower than opening a cache

    return user_cache_path("prototag", appauthor=False) / "vectors.sqlite"


def stamp_of(path: str | os.PathLike[str]) -> bytes | None:
    """Return a key of a file's metadata; None for a file that changed just now."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _MIN_AGE_NS:
        return None
    fields = (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
    packed = struct.pack("<5Q", *(field % 2**64 for field in fields))
    return hashlib.blake2b(packed, digest_size=16).digest()


class VectorCache:
    """Vector cache in an SQLite file, safe for threads and processes.

    Parameters
    ----------
    path : path, optional
        The file, created with its folder if missing; by default :func:`default_path`.
    max_bytes : int
        Maximum size of the file. The least recently used vectors are evicted first.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, max_bytes: int = MAX_BYTES
    ) -> None:
        if max_bytes < 1 << 20:
            raise ValueError(f"max_bytes={max_bytes}: a cache needs at least {1 << 20:,} bytes.")
        self.path = Path(path) if path is not None else default_path()
        self.max_bytes = max_bytes
        self._lock = threading.RLock()
        self._is_lost = False  # whether the file is unreadable and could not be replaced
        self._today = int(time.time()) // _DAY_SECONDS
        self._registered = OpenDatabase(self.path)  # before any connection takes a lock
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._connect()
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._registered.release()  # no connection is open
                if not self._was_a_database():
                    raise OSError("it is not a cache, and was not changed") from error
                self._set_aside(error)
                self._registered = OpenDatabase(self.path)
                self._connect()
        except (OSError, sqlite3.Error) as error:
            self._registered.release()
            raise CacheError(
                f"the cache {self.path} cannot be opened: {error}. Give another path or cache=None."
            ) from error

    def _connect(self) -> None:
        try:
            self._conn = self._opened(os.fspath(self.path))
        except sqlite3.OperationalError as error:
            # A write-ahead log needs write access to file and folder. Without it the database is
            # opened as immutable.
            if "readonly" not in str(error) and "unable to open" not in str(error):
                raise
            try:
                self._conn = self._opened(f"{self.path.absolute().as_uri()}?mode=ro&immutable=1")
            except sqlite3.Error:
                raise error from None
        self._registered.note_files()

    def _opened(self, name: str) -> sqlite3.Connection:
        conn = sqlite3.connect(
            name,
            timeout=_LOCK_TIMEOUT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            uri=name.startswith("file:"),
        )
        try:
            # In one statement, because another process may create the tables at the same time.
            version, owner, tables = conn.execute(
                "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
                "FROM pragma_user_version, pragma_application_id"
            ).fetchone()
            if owner != APPLICATION_ID and (owner or version or tables):
                raise sqlite3.OperationalError("it is the database of another program")
            if version not in (0, SCHEMA):
                raise sqlite3.OperationalError(
                    f"it has version {version}, this program needs {SCHEMA}: delete it"
                )
            if version == 0:
                conn.execute("PRAGMA page_size = 16384")  # three vectors of 1,280 numbers
                conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _enter_wal(conn)
            conn.execute("PRAGMA synchronous = NORMAL")  # in a write-ahead log: never a torn file
            conn.execute("PRAGMA wal_autocheckpoint = 256")
            if version == 0:
                conn.executescript(_TABLES)
        except BaseException:
            conn.close()
            raise
        return conn

    def _was_a_database(self) -> bool:
        """Return whether the file begins like a database, or with zeros as after a power cut."""
        with open_for_reading(self.path) as file:
            return file.read(len(_SQLITE_HEADER)) in (_SQLITE_HEADER, bytes(len(_SQLITE_HEADER)))

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged file, which is not deleted, and warn."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        self.path.rename(aside)
        for tail in ("-wal", "-shm"):
            Path(f"{self.path}{tail}").unlink(missing_ok=True)
        warnings.warn(
            f"the cache {self.path} was damaged ({error}); it was renamed to {aside} and replaced.",
            stacklevel=4,
        )

    def contents(self, stamps: Iterable[bytes]) -> dict[bytes, bytes]:
        """Look up the contents of stamps."""
        return dict(self._look_up("SELECT stamp, content FROM stamps WHERE stamp IN", stamps))

    def vectors(self, contents: Iterable[bytes], recipe: bytes) -> dict[bytes, Floats]:
        """Look up vectors of contents for a recipe, and mark them as used today."""
        select = (
            "SELECT content, vector, checksum, used FROM vectors WHERE recipe = ? AND content IN"
        )
        rows = list(self._look_up(select, contents, recipe))
        # At most one write a day for each vector keeps reads cheap.
        stale = [(self._today, content, recipe) for content, *_, used in rows if used < self._today]
        if stale:
            update = "UPDATE vectors SET used = ? WHERE content = ? AND recipe = ?"
            with suppress(CacheError):  # a read-only cache
                self._write(lambda: self._conn.executemany(update, stale))
        intact = {
            content: np.frombuffer(vector, "<f4")
            for content, vector, checksum, _ in rows
            if checksum == _checksum(content, recipe, vector) and len(vector) % 4 == 0
        }
        return {content: vector for content, vector in intact.items() if np.isfinite(vector).all()}

    def _look_up(self, select: str, keys: Iterable[bytes], *fixed: bytes) -> Iterator[Any]:
        unique = list(dict.fromkeys(keys))
        for start in range(0, len(unique), _MAX_VARIABLES):
            part = unique[start : start + _MAX_VARIABLES]
            marks = ",".join("?" * len(part))
            with self._lock:
                if self._is_lost:
                    return
                try:
                    rows = self._conn.execute(f"{select} ({marks})", [*fixed, *part]).fetchall()
                except sqlite3.Error as error:
                    rows = []
                    self._replace_damaged(error)
            yield from rows

    def _replace_damaged(self, error: sqlite3.Error) -> None:
        """Replace a damaged file by an empty one; without success, continue without a cache."""
        try:
            if not _is_damage(error):
                raise error
            self._conn.close()
            self._set_aside(error)
            self._connect()
        except (OSError, sqlite3.Error) as trouble:
            self._is_lost = True
            warnings.warn(
                f"the cache {self.path} cannot be read: {trouble}. The run continues without it.",
                stacklevel=4,
            )

    def store(
        self,
        recipe: bytes,
        contents: Sequence[bytes],
        vectors: Array,
        stamps: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        """Store vectors (rows) of contents, and contents of stamps, in one transaction."""
        rows = [
            (content, recipe, data, self._today, _checksum(content, recipe, data))
            for content, vector in zip(contents, np.asarray(vectors, "<f4"), strict=True)
            for data in [vector.tobytes()]
        ]

        def write() -> None:
            self._conn.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)", rows)
            self._conn.executemany("INSERT OR REPLACE INTO stamps VALUES (?, ?)", stamps)
            self._shrink()

        self._write(write)

    def _write(self, change: Callable[[], object]) -> None:
        try:
            with self._lock:
                self._conn.execute("BEGIN IMMEDIATE")
                try:
                    change()
                except BaseException:
                    self._conn.execute("ROLLBACK")
                    raise
                self._conn.execute("COMMIT")
        except sqlite3.Error as error:
            raise CacheError(f"the cache {self.path} cannot be written: {error}.") from error

    def _shrink(self) -> None:
        """Evict the least recently used vectors until 10% of the limit is free."""
        while (size := self.size_in_use()) > self.max_bytes:
            share = 1 - 0.9 * self.max_bytes / size
            dropped = self._conn.execute(
                "DELETE FROM vectors WHERE rowid IN "
                "(SELECT rowid FROM vectors ORDER BY used, rowid "
                "LIMIT (SELECT 1 + CAST(count(*) * ? AS INTEGER) FROM vectors))",
                (share,),
            ).rowcount
            self._conn.execute(
                "DELETE FROM stamps WHERE content NOT IN (SELECT content FROM vectors)"
            )
            self._conn.execute("PRAGMA incremental_vacuum").fetchall()
            if dropped < 1:
                return

    def size_in_use(self) -> int:
        """Return the size of the file without free pages, in bytes."""
        with self._lock:
            pages, free, size = (
                int(self._conn.execute(f"PRAGMA {what}").fetchone()[0])
                for what in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size

    def __len__(self) -> int:
        with self._lock:
            return int(self._conn.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def clear(self) -> None:
        """Delete all vectors and stamps, and shrink the file."""
        with self._lock:
            for table in ("vectors", "stamps"):
                self._write(lambda table=table: self._conn.execute(f"DELETE FROM {table}"))  # type: ignore[misc]
            self._conn.execute("VACUUM")

    def close(self) -> None:
        """Close the conn."""
        with self._lock:
            self._conn.close()
            self._registered.release()

    def __enter__(self) -> VectorCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file is damaged, rather than locked, read-only or on a full disk."""
    return type(error) is sqlite3.DatabaseError


def _checksum(content: bytes, recipe: bytes, vector: bytes) -> bytes:
    return hashlib.blake2b(vector, digest_size=8, key=content + recipe).digest()


def _enter_wal(conn: sqlite3.Connection) -> None:
    # SQLite's own timeout does not apply here while another process opens the same new file.
    deadline = time.monotonic() + _LOCK_TIMEOUT_SECONDS
    while True:
        try:
            conn.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
