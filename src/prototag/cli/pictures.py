"""Arguments that name pictures: files, folders with all below them, and standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

SUFFIXES = frozenset(
    [
        ".jpg",
        ".jpeg",
        ".jpe",
        ".png",
        ".webp",
        ".gif",
        ".tif",
        ".tiff",
        ".bmp",
        ".avif",
        ".heic",
        ".heif",
    ]
)


def expand(arguments: Iterable[Path]) -> Iterator[str]:
    """Paths of pictures, one by one, so that a million of them take no memory.

    A file is taken whatever its name. In a folder those with the name of a picture are, in the
    order of the alphabet, without hidden ones. ``-`` reads paths from standard input, one a line.
    """
    for argument in arguments:
        if os.fspath(argument) == "-":
            for line in sys.stdin:
                path = line.rstrip("\r\n")
                if path:
                    yield from expand([Path(path)])
        elif argument.is_dir():
            yield from _below(argument)
        else:
            yield os.fspath(argument)


def _below(folder: Path) -> Iterator[str]:
    for root, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES:
                yield os.path.join(root, name)


def _raise(error: OSError) -> None:
    raise error
