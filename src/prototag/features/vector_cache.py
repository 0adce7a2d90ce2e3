"""Raw network vectors on disk, found again by file content and recipe.

Two tables in one SQLite file. ``vectors`` maps (content, recipe) to a vector; the content is the
picture's :func:`~prototag.images.decode.digest`, so a renamed file is recognised and a changed
one is not. ``stamps`` maps what the file system says of a file (device, inode, size, times) to its
content, so that a file that was not touched is not even read again.

Every batch is one transaction in a write-ahead log: a process killed at any moment loses at most
the batch it had not yet stored, and several processes may share the file. A vector has a checksum:
what is not as it was stored is not known. A file that is found damaged, whenever that is, is set
aside, and a new one begins; one that can only be read is read.
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
OURS = int.from_bytes(b"PTag", "big")  # the application that a database names as its own
MAX_BYTES = 4 << 30  # some 800,000 vectors of 1,280 numbers
_WAIT = 60  # seconds that one process waits for the transaction of another
_FRESH = (
    2 * 10**9
)  # a file changed less than this many ns ago may change again under the same stamp
_DAY = 86_400
_HEAD = b"SQLite format 3\0"  # of every database
_CHUNK = 500  # variables in one statement; old SQLite allows 999
_TABLES = f"""
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS vectors (
        content BLOB NOT NULL, recipe BLOB NOT NULL, vector BLOB NOT NULL, used INTEGER NOT NULL,
        checksum BLOB NOT NULL, PRIMARY KEY (content, recipe));
    CREATE TABLE IF NOT EXISTS stamps (stamp BLOB PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS vectors_by_use ON vectors (used);
    PRAGMA user_version = {SCHEMA};
    PRAGMA application_id = {OURS};
    COMMIT;
"""


def default_path() -> Path:
    """``$PROTOTAG_CACHE``, else ``vectors.sqlite`` where this system keeps caches of programs."""
    given = os.environ.get("PROTOTAG_CACHE")
    if given:
        return Path(given)
    from platformdirs import user_cache_path  # takes longer to load than a cache to open

    return user_cache_path("prototag", appauthor=False) / "vectors.sqlite"


def stamp_of(path: str | os.PathLike[str]) -> bytes | None:
    """Key of a file as the file system shows it; None if it is too fresh to be told by that."""
    try:
        seen = os.stat(path)
    except (OSError, ValueError):
        return None
    if time.time_ns() - max(seen.st_mtime_ns, seen.st_ctime_ns) < _FRESH:
        return None
    fields = seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
    packed = struct.pack("<5Q", *(field % 2**64 for field in fields))
    return hashlib.blake2b(packed, digest_size=16).digest()


class VectorCache:
    """A cache file; safe in threads and between processes.

    Parameters
    ----------
    path : path, optional
        The file, made with its folder when missing; :func:`default_path` if not given.
    max_bytes : int
        Size that the file is kept to: the vectors unused for longest go first.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, max_bytes: int = MAX_BYTES
    ) -> None:
        if max_bytes < 1 << 20:
            raise ValueError(f"max_bytes={max_bytes}: a cache needs at least {1 << 20:,} bytes.")
        self.path = Path(path) if path is not None else default_path()
        self.max_bytes = max_bytes
        self._lock = threading.RLock()
        self._is_lost = False  # whether it could not be read, and no new one begun
        self._today = int(time.time()) // _DAY
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
                    raise OSError("it is no cache, and was left as it is") from error
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
            self._base = self._opened(os.fspath(self.path))
        except sqlite3.OperationalError as error:
            # A write-ahead log needs a file and a folder that can be written; without them, what is
            # there is read as it is.
            if "readonly" not in str(error) and "unable to open" not in str(error):
                raise
            try:
                self._base = self._opened(f"{self.path.absolute().as_uri()}?mode=ro&immutable=1")
            except sqlite3.Error:
                raise error from None
        self._registered.note_files()

    def _opened(self, name: str) -> sqlite3.Connection:
        base = sqlite3.connect(
            name,
            timeout=_WAIT,
            isolation_level=None,
            check_same_thread=False,
            uri=name.startswith("file:"),
        )
        try:
            # In one statement, because another process may make the tables meanwhile.
            version, owner, tables = base.execute(
                "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
                "FROM pragma_user_version, pragma_application_id"
            ).fetchone()
            if owner != OURS and (owner or version or tables):
                raise sqlite3.OperationalError("it is the database of another program")
            if version not in (0, SCHEMA):
                raise sqlite3.OperationalError(
                    f"it is of version {version}, this program knows {SCHEMA}: delete it"
                )
            if version == 0:
                base.execute("PRAGMA page_size = 16384")  # three vectors of 1,280 numbers
                base.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _enter_wal(base)
            base.execute("PRAGMA synchronous = NORMAL")  # in a write-ahead log: never a torn file
            base.execute("PRAGMA wal_autocheckpoint = 256")
            if version == 0:
                base.executescript(_TABLES)
        except BaseException:
            base.close()
            raise
        return base

    def _was_a_database(self) -> bool:
        """Whether the file begins like one, or with the zeros that a power cut leaves."""
        with open_for_reading(self.path) as file:
            return file.read(len(_HEAD)) in (_HEAD, bytes(len(_HEAD)))

    def _set_aside(self, error: Exception) -> None:
        """A damaged file holds nothing that cannot be computed again, but is not deleted unseen."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        self.path.rename(aside)
        for tail in ("-wal", "-shm"):
            Path(f"{self.path}{tail}").unlink(missing_ok=True)
        warnings.warn(
            f"the cache {self.path} was damaged ({error}); it lies at {aside}, a new one begins.",
            stacklevel=4,
        )

    def contents(self, stamps: Iterable[bytes]) -> dict[bytes, bytes]:
        """Contents of the stamps that are known."""
        return dict(self._look_up("SELECT stamp, content FROM stamps WHERE stamp IN", stamps))

    def vectors(self, contents: Iterable[bytes], recipe: bytes) -> dict[bytes, Floats]:
        """Vectors of the contents that are known under this recipe; they count as used today."""
        select = (
            "SELECT content, vector, checksum, used FROM vectors WHERE recipe = ? AND content IN"
        )
        rows = list(self._look_up(select, contents, recipe))
        # Once a day is often enough to know what is unused, and keeps reading free of writing.
        stale = [(self._today, content, recipe) for content, *_, used in rows if used < self._today]
        if stale:
            update = "UPDATE vectors SET used = ? WHERE content = ? AND recipe = ?"
            with suppress(CacheError):  # what can only be read serves as well
                self._write(lambda: self._base.executemany(update, stale))
        found = {
            content: np.frombuffer(vector, "<f4")
            for content, vector, checksum, _ in rows
            if checksum == _checksum(content, recipe, vector) and len(vector) % 4 == 0
        }
        return {content: vector for content, vector in found.items() if np.isfinite(vector).all()}

    def _look_up(self, select: str, keys: Iterable[bytes], *fixed: bytes) -> Iterator[Any]:
        wanted = list(dict.fromkeys(keys))
        for start in range(0, len(wanted), _CHUNK):
            part = wanted[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            with self._lock:
                if self._is_lost:
                    return
                try:
                    rows = self._base.execute(f"{select} ({marks})", [*fixed, *part]).fetchall()
                except sqlite3.Error as error:
                    rows = []
                    self._begin_anew(error)
            yield from rows

    def _begin_anew(self, error: sqlite3.Error) -> None:
        """A cache that cannot be read is as good as an empty one, and ends no run."""
        try:
            if not _is_damage(error):
                raise error
            self._base.close()
            self._set_aside(error)
            self._connect()
        except (OSError, sqlite3.Error) as trouble:
            self._is_lost = True
            warnings.warn(
                f"the cache {self.path} cannot be read: {trouble}. The run goes on without it.",
                stacklevel=4,
            )

    def store(
        self,
        recipe: bytes,
        contents: Sequence[bytes],
        vectors: Array,
        stamps: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        """Keep vectors (rows) of contents, and contents of stamps, in one transaction."""
        rows = [
            (content, recipe, data, self._today, _checksum(content, recipe, data))
            for content, vector in zip(contents, np.asarray(vectors, "<f4"), strict=True)
            for data in [vector.tobytes()]
        ]

        def write() -> None:
            self._base.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)", rows)
            self._base.executemany("INSERT OR REPLACE INTO stamps VALUES (?, ?)", stamps)
            self._shrink()

        self._write(write)

    def _write(self, change: Callable[[], object]) -> None:
        try:
            with self._lock:
                self._base.execute("BEGIN IMMEDIATE")
                try:
                    change()
                except BaseException:
                    self._base.execute("ROLLBACK")
                    raise
                self._base.execute("COMMIT")
        except sqlite3.Error as error:
            raise CacheError(f"the cache {self.path} cannot be written: {error}.") from error

    def _shrink(self) -> None:
        """Drop what was unused for longest until a tenth of the bound is free again."""
        while (size := self.size_in_use()) > self.max_bytes:
            share = 1 - 0.9 * self.max_bytes / size
            dropped = self._base.execute(
                "DELETE FROM vectors WHERE rowid IN "
                "(SELECT rowid FROM vectors ORDER BY used, rowid "
                "LIMIT (SELECT 1 + CAST(count(*) * ? AS INTEGER) FROM vectors))",
                (share,),
            ).rowcount
            self._base.execute(
                "DELETE FROM stamps WHERE content NOT IN (SELECT content FROM vectors)"
            )
            self._base.execute("PRAGMA incremental_vacuum").fetchall()
            if dropped < 1:
                return

    def size_in_use(self) -> int:
        """Bytes of the file that hold something."""
        with self._lock:
            pages, free, size = (
                int(self._base.execute(f"PRAGMA {what}").fetchone()[0])
                for what in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size

    def __len__(self) -> int:
        with self._lock:
            return int(self._base.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def clear(self) -> None:
        """Forget everything and give the space back."""
        with self._lock:
            for table in ("vectors", "stamps"):
                self._write(lambda table=table: self._base.execute(f"DELETE FROM {table}"))  # type: ignore[misc]
            self._base.execute("VACUUM")

    def close(self) -> None:
        with self._lock:
            self._base.close()
            self._registered.release()

    def __enter__(self) -> VectorCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is to blame, and not the disk, a lock or who may write."""
    return type(error) is sqlite3.DatabaseError


def _checksum(content: bytes, recipe: bytes, vector: bytes) -> bytes:
    return hashlib.blake2b(vector, digest_size=8, key=content + recipe).digest()


def _enter_wal(base: sqlite3.Connection) -> None:
    # SQLite does not wait for its lock here while another process opens the same new file.
    deadline = time.monotonic() + _WAIT
    while True:
        try:
            base.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
