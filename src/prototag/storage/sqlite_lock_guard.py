"""A registry of the SQLite databases that this process holds open, and the guard of their locks.

SQLite locks a database by POSIX advisory locks. Such locks belong to the process and the inode: as
soon as the process closes *any* descriptor of the inode, the system drops all of them, and other
processes write into the database at the same time or remove its write-ahead log. So a file that a
user names is opened for reading by :func:`open_for_reading` or :func:`open_descriptor` alone. They
refuse the database, its ``-wal``, its ``-shm`` and its ``-journal`` by device and inode, whatever
path, hard link or symbolic link leads there.

The refusal happens before the file is opened. If a name comes to lead to a database between that
check and the opening, or if a database is registered while one of its files is being read, the
descriptor is not closed but parked: it stays open until the database is closed. SQLite itself
treats its own descriptors so.
"""

from __future__ import annotations

import errno
import io
import os
import threading
import weakref
from contextlib import suppress

from prototag.errors import OpenDatabaseError

PathLike = str | os.PathLike[str]
COMPANION_SUFFIXES = ("-wal", "-shm", "-journal")
_READ_ONLY = os.O_RDONLY | getattr(os, "O_BINARY", 0)

# Device and inode; the resolved path where a file system has no inode numbers.
FileIdentity = tuple[int, int] | str


class OpenDatabase:
    """A database that this process has open, registered before its first connection.

    Parameters
    ----------
    path : path-like
        The database; it need not exist yet.

    Raises
    ------
    OpenDatabaseError
        The database is open under another name.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.path.realpath(path)  # SQLite creates its companion files beside it
        self._noted: dict[str, FileIdentity | None] = {}  # by the end of the name
        with _lock:
            if any(self._collides_with(other) for other in _databases):
                raise _open_database_error(path)
            _databases.add(self)

    def _collides_with(self, other: OpenDatabase) -> bool:
        """Whether both share a file by different names.

        By two names SQLite would keep two write-ahead logs of one database; and it would drop the
        locks on a ``-shm`` that is opened as a database and closed.
        """
        if self.path == other.path:
            return False
        mine = self._named()
        others = other._named()
        shared = ({*mine.values()} & {*others.values()}) - {None}
        # All files are the same where a file system ignores the case of names.
        return bool(shared) and (mine != others or mine["-wal"] is None)

    def note_files(self) -> None:
        """Remember which files the connections use, so that they are known under other names."""
        self._noted = self._named()

    def is_in_place(self) -> bool:
        """Return whether the database and its write-ahead log still are the noted files."""
        return all(
            identity_of(self.path + tail) == self._noted[tail]
            for tail in ("", "-wal")
            if self._noted.get(tail) is not None
        )

    def files(self, by_name: bool = True) -> set[FileIdentity]:
        """The identities of its files, as they were noted and as their names lead to them now.

        Connections hold the noted files open: no other file can get their inodes. The names are
        looked up if ``by_name`` is set, or if no file was noted yet.
        """
        identities = {*self._noted.values()}
        if by_name or not identities:
            identities |= {*self._named().values()}
        return {identity for identity in identities if identity is not None}

    def _named(self) -> dict[str, FileIdentity | None]:
        return {tail: identity_of(self.path + tail) for tail in ("", *COMPANION_SUFFIXES)}

    def release(self) -> None:
        """Unregister the database after its connections are closed; idempotent."""
        with _lock:
            _databases.discard(self)
            held = _held_files()
            for identity, descriptor in list(_parked):
                if identity not in held:
                    _parked.remove((identity, descriptor))
                    os.close(descriptor)


_lock = threading.RLock()
_databases: weakref.WeakSet[OpenDatabase] = weakref.WeakSet()
_parked: list[tuple[FileIdentity, int]] = []  # open descriptors of files of open databases


def identity_of(path: PathLike) -> FileIdentity | None:
    """Return the identity of a file after resolving links; None if there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)


def belongs_to_open_database(path: PathLike) -> bool:
    """Return whether a path leads to a file of an open database, without opening it."""
    with _lock:
        return bool(_databases) and identity_of(path) in _held_files()


def refuse_open_database(path: PathLike) -> None:
    """Refuse a path that leads to a file of an open database, without opening it.

    Raises
    ------
    OpenDatabaseError
    """
    if belongs_to_open_database(path):
        raise _open_database_error(path)


def open_descriptor(path: PathLike, flags: int = _READ_ONLY) -> int:
    """Open a file as :func:`os.open` does, unless it belongs to an open database.

    The descriptor is to be closed by :func:`close_descriptor`.

    Raises
    ------
    OpenDatabaseError
    """
    refuse_open_database(path)
    descriptor = os.open(path, flags)
    with _lock:
        is_held = _identity_of_descriptor(descriptor, path) in _held_files(by_name=False)
    if is_held:  # the name was changed after the check
        close_descriptor(descriptor)
        raise _open_database_error(path)
    return descriptor


def close_descriptor(descriptor: int) -> None:
    """Close a descriptor, or park it as long as a database needs the locks on its file."""
    with _lock:
        with suppress(OSError):  # os.close below reports the error
            identity = _identity_of_descriptor(descriptor)
            if identity in _held_files(by_name=False):
                _parked.append((identity, descriptor))
                return
        os.close(descriptor)


class _GuardedFile(io.FileIO):
    """A file whose descriptor is closed by :func:`close_descriptor`."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "rb", closefd=False)
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        super().close()
        descriptor = getattr(self, "_descriptor", None)
        self._descriptor = None
        if descriptor is not None:
            close_descriptor(descriptor)


def open_for_reading(path: PathLike) -> io.BufferedReader:
    """Open a file as ``open(path, "rb")`` does, unless it belongs to an open database.

    Raises
    ------
    OpenDatabaseError
    """
    descriptor = open_descriptor(path)
    try:
        return io.BufferedReader(_GuardedFile(descriptor))
    except OSError:  # a folder
        close_descriptor(descriptor)
        raise


def read_text(path: PathLike, encoding: str = "utf-8") -> str:
    """Read the text of a file that does not belong to an open database.

    Raises
    ------
    OpenDatabaseError
    """
    with io.TextIOWrapper(open_for_reading(path), encoding=encoding) as file:
        return file.read()


def _held_files(by_name: bool = True) -> set[FileIdentity]:
    return {identity for database in _databases for identity in database.files(by_name)}


def _identity_of_descriptor(descriptor: int, path: PathLike = "") -> FileIdentity:
    status = os.fstat(descriptor)
    return (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)


def _open_database_error(path: PathLike) -> OpenDatabaseError:
    return OpenDatabaseError(
        errno.EBUSY,
        "it belongs to a library or a cache that is open, which nothing else may open: name "
        "another file",
        os.fspath(path),
    )
