"""Resolve the paths of requests inside the allowed folders, following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prototag.errors import InputError, OpenDatabaseError
from prototag.service.problem_details import Problem, bad_request
from prototag.storage.sqlite_lock_guard import (
    belongs_to_open_database,
    close_descriptor,
    open_descriptor,
)

MAX_PATH_CHARACTERS = 4096  # characters
# Resolved paths do not end in a link, so O_NOFOLLOW rejects a link that was put there since.
# O_NONBLOCK keeps a named pipe from blocking the thread.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_READ |= getattr(os, "O_BINARY", 0)


class Roots:
    """Folders whose files may be read.

    Parameters
    ----------
    folders : iterable of paths
        Existing folders.
    """

    def __init__(self, folders: Iterable[str | os.PathLike[str]] = ()) -> None:
        self.folders: list[Path] = []
        for folder in folders:
            try:
                resolved = Path(folder).resolve(strict=True)
            except OSError:
                raise InputError(
                    f"the folder {folder} does not exist: give one that does."
                ) from None
            if not resolved.is_dir():
                raise InputError(f"{folder} is not a folder: give the folder that it is in.")
            self.folders.append(resolved)

    def resolve(self, path: str) -> Path:
        """Return the file at a path, which is absolute or relative to one of the folders."""
        if not path or len(path) > MAX_PATH_CHARACTERS or "\0" in path:
            raise bad_request(
                f"the path has {len(path)} characters or contains NUL: give 1 to "
                f"{MAX_PATH_CHARACTERS} characters without NUL."
            )
        for folder in self.folders:
            resolved = self._resolve_inside(folder, path)
            if resolved is not None:
                if belongs_to_open_database(resolved):
                    raise _protected(path)
                return resolved
        raise self._not_allowed(path)

    def _not_allowed(self, path: str) -> Problem:
        """Return one problem for all other files, so that it does not tell which exist."""
        return Problem(
            404,
            "no-such-file",
            f"{path!r} is not a file inside the folders that this service may read "
            f"({len(self.folders)} allowed): start it with --allow FOLDER to add one.",
        )

    @contextmanager
    def open(self, path: Path) -> Iterator[Path | bytes]:
        """Open a resolved file against races (time of check to time of use).

        A file or a folder above it may be replaced by a link after ``resolve``. So the check is
        repeated on the open descriptor, and its content is returned: as the path of the descriptor
        on Linux, as bytes elsewhere.
        """
        try:
            descriptor = open_descriptor(path, _READ)
        except OpenDatabaseError:
            raise _protected(str(path)) from None
        except (OSError, ValueError):
            raise self._not_allowed(str(path)) from None
        try:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if not is_file or not self._is_inside(descriptor, path):
                raise self._not_allowed(str(path))
            link = Path(f"/proc/self/fd/{descriptor}")
            if link.exists():
                yield link
            else:
                with open(descriptor, "rb", closefd=False) as file:
                    yield file.read()
        finally:
            close_descriptor(descriptor)

    def _is_inside(self, descriptor: int, path: Path) -> bool:
        """Return whether an open file lies inside one of the folders."""
        try:
            opened = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:  # not Linux: resolve the path again and compare the files
            opened = Path(os.path.realpath(path))
            try:
                if not os.path.samestat(os.fstat(descriptor), os.stat(opened)):
                    return False
            except OSError:
                return False
        return any(opened.is_relative_to(folder) for folder in self.folders)

    def _resolve_inside(self, folder: Path, path: str) -> Path | None:
        """Return the resolved file if it lies inside a folder."""
        try:
            resolved = Path(os.path.realpath(folder / path, strict=True))
            return resolved if resolved.is_relative_to(folder) and resolved.is_file() else None
        except (OSError, ValueError):
            return None

    def contains(self, path: Path) -> bool:
        """Return whether a file lies inside one of the folders after resolving links."""
        try:
            resolved = path.resolve(strict=True)
        except (OSError, ValueError):
            return False
        return any(resolved.is_relative_to(folder) for folder in self.folders)


def _protected(path: str) -> Problem:
    return Problem(
        403,
        "protected-file",
        f"{path!r} belongs to the library or the vector cache of this service, which is never read "
        "as a picture: name a picture.",
    )
