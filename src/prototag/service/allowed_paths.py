"""Which files may be asked for: those inside of the allowed folders, links resolved."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prototag.errors import InputError, OpenDatabaseError
from prototag.service.problem_details import Problem, bad
from prototag.storage.sqlite_lock_guard import (
    belongs_to_open_database,
    close_descriptor,
    open_descriptor,
)

MAX_PATH = 4096  # characters
# Of files that are resolved already: the last part is no link. A pipe must not keep us waiting.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_READ |= getattr(os, "O_BINARY", 0)


class Roots:
    """Folders whose files may be read.

    Parameters
    ----------
    folders : iterable of paths
        Each must be there.
    """

    def __init__(self, folders: Iterable[str | os.PathLike[str]] = ()) -> None:
        self.folders: list[Path] = []
        for folder in folders:
            try:
                found = Path(folder).resolve(strict=True)
            except OSError:
                raise InputError(
                    f"the folder {folder} does not exist: give one that does."
                ) from None
            if not found.is_dir():
                raise InputError(f"{folder} is not a folder: give the folder that it is in.")
            self.folders.append(found)

    def find(self, given: str) -> Path:
        """The file that is meant, absolute or below one of the folders."""
        if not given or len(given) > MAX_PATH or "\0" in given:
            raise bad(f"a path of {len(given)} characters was given: give 1 to {MAX_PATH}, no NUL.")
        for folder in self.folders:
            found = self._inside(folder, given)
            if found is not None:
                if belongs_to_open_database(found):
                    raise _of_the_service(given)
                return found
        raise self._refusal(given)

    def _refusal(self, given: str) -> Problem:
        """Whether it is there outside is not told."""
        return Problem(
            404,
            "no-such-file",
            f"{given!r} is not a file inside of the folders that this service may read "
            f"({len(self.folders)} allowed): start it with --allow FOLDER to add one.",
        )

    @contextmanager
    def opened(self, path: Path) -> Iterator[Path | bytes]:
        """A file that was found, as something to read that nobody can exchange any more.

        Between being found and being read, a file or a folder above it may be replaced by a link to
        elsewhere. So what was opened is looked at, and that is what is read: by the path that Linux
        has for an open file, elsewhere its bytes.
        """
        try:
            number = open_descriptor(path, _READ)
        except OpenDatabaseError:
            raise _of_the_service(str(path)) from None
        except (OSError, ValueError):
            raise self._refusal(str(path)) from None
        try:
            if not stat.S_ISREG(os.fstat(number).st_mode) or not self._holds_open(number, path):
                raise self._refusal(str(path))
            link = Path(f"/proc/self/fd/{number}")
            if link.exists():
                yield link
            else:
                with open(number, "rb", closefd=False) as file:
                    yield file.read()
        finally:
            close_descriptor(number)

    def _holds_open(self, number: int, path: Path) -> bool:
        """Whether an open file lies inside."""
        try:
            place = Path(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # no Linux: where the name leads now, if that is the same file
            place = Path(os.path.realpath(path))
            try:
                if not os.path.samestat(os.fstat(number), os.stat(place)):
                    return False
            except OSError:
                return False
        return any(place.is_relative_to(folder) for folder in self.folders)

    def _inside(self, folder: Path, given: str) -> Path | None:
        try:
            found = Path(os.path.realpath(folder / given, strict=True))
            return found if found.is_relative_to(folder) and found.is_file() else None
        except (OSError, ValueError):
            return None

    def holds(self, path: Path) -> bool:
        """Whether a file lies inside, wherever links lead."""
        try:
            found = path.resolve(strict=True)
        except (OSError, ValueError):
            return False
        return any(found.is_relative_to(folder) for folder in self.folders)


def _of_the_service(given: str) -> Problem:
    return Problem(
        403,
        "file-of-the-service",
        f"{given!r} belongs to the library or the cache of this service, which is never read as a "
        "picture: name a picture.",
    )
