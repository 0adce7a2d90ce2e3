"""Which files may be asked for: those inside of the allowed folders, links resolved."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from prototag.errors import InputError
from prototag.service.problems import Problem, bad

MAX_PATH = 4096  # characters


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
                return found
        # Whether it is there outside is not told.
        raise Problem(
            404,
            "no-such-file",
            f"{given!r} is not a file inside of the folders that this service may read "
            f"({len(self.folders)} allowed): start it with --allow FOLDER to add one.",
        )

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
