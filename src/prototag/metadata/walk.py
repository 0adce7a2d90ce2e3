"""Which pictures a folder holds: one rule for training, tagging, comparing and data sets.

- A folder is searched with all below it: first its files, then its sub-folders, both in the order
  of the alphabet (of code points, so that it is the same on every computer).
- Hidden names (``.thumbnails``, ``._a.jpg``) are skipped, and so are the folders that network disks
  and systems keep for themselves (``@eaDir``, ``#recycle``, ``lost+found``). The folder that was
  asked for is entered, whatever its name.
- Linked folders are followed, linked files are files. Every folder is entered once, however many
  links lead to it; links that lead nowhere or to themselves are skipped.
- What cannot be read, or vanishes meanwhile, is reported, and the walk goes on.

The walk is a generator that keeps the names of one folder, so that a million pictures take no
memory. No picture is opened.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from prototag.metadata.suffixes import is_picture

Report = Callable[[str], object]  # takes a problem, in words

# Thumbnails and waste that network disks and systems keep in folders of pictures.
SKIPPED = frozenset(
    name.lower()
    for name in (
        *("@eaDir", "#recycle", "#snapshot", "$RECYCLE.BIN", "System Volume Information"),
        *("__MACOSX", "lost+found"),
    )
)
_LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class Folder(NamedTuple):
    """A folder and the names of its files, in their order."""

    path: Path
    files: list[str]


def pictures(root: Path, report: Report) -> Iterator[Path]:
    """The pictures of a folder and all below it, told by their names."""
    for folder in walk(root, report):
        yield from (folder.path / name for name in folder.files if is_picture(name))


def walk(root: Path, report: Report) -> Iterator[Folder]:
    """A folder and all below it, by the rule above.

    Parameters
    ----------
    root : Path
    report : callable
        Called with what could not be read, and why.
    """
    entered: set[tuple[int, int] | str] = set()
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            status = folder.stat()
            # Some file systems number nothing.
            identity = (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(folder)
            if identity in entered:
                continue
            entered.add(identity)
            files, folders = _content(folder, report)
        except OSError as error:
            _refused(folder, error, report)
            continue
        waiting += [folder / name for name in sorted(folders, reverse=True)]
        yield Folder(folder, sorted(files))


def _content(folder: Path, report: Report) -> tuple[list[str], list[str]]:
    """Names of the files and of the folders in a folder."""
    files, folders = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower() in SKIPPED:
                continue
            try:
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
            except OSError as error:
                if error.errno not in _LEADS_NOWHERE:
                    _refused(folder / entry.name, error, report)
    return files, folders


def _refused(path: Path, error: OSError, report: Report) -> None:
    report(f"{path} cannot be read: {error.strerror or error}")
