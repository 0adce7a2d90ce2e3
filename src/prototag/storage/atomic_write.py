"""Atomic file writes: data is written and synced under a temporary name, and then renamed."""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from prototag.storage.sqlite_lock_guard import refuse_open_database

_TEMPORARY_NAME = re.compile(r"\.prototag-[0-9a-f]{16}\.tmp")
_STALE_SECONDS = 3600  # older temporary files belong to killed processes


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``target`` after it is complete and synced.

    Raises
    ------
    OpenDatabaseError
        ``target`` is a database that this process has open.
    """
    refuse_open_database(target)
    with _temporary(target) as (temporary, file):
        yield file
        _flush_to_disk(file)
        file.close()  # Windows renames no open file
        os.replace(temporary, target)
    # The new name should survive a power failure too. Where a folder cannot be synced (Windows,
    # some network file systems), the file itself is complete.
    with suppress(OSError):
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_beside(target: Path, data: bytes) -> Path:
    """Write and sync a hidden file beside ``target``, for a later ``os.replace``."""
    with _temporary(target) as (temporary, file):
        file.write(data)
        _flush_to_disk(file)
    return temporary


@contextmanager
def _temporary(target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Create a file beside ``target``, and remove it if the ``with`` body fails."""
    _sweep(target.parent)
    path = target.with_name(f".prototag-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o666)  # with the umask, like open()
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield path, file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@lru_cache(maxsize=1024)
def _sweep(folder: Path) -> None:
    """Remove temporary files of killed processes, once per folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY_NAME.fullmatch(entry.name):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if (
                        stat.S_ISREG(status.st_mode)
                        and status.st_mtime < time.time() - _STALE_SECONDS
                    ):
                        os.unlink(entry.path)


def _flush_to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
