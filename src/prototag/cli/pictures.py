"""Arguments that name pictures: files, folders with all below them, and standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def expand(arguments: Iterable[Path]) -> Iterator[str]:
    """Paths of pictures, one by one, so that a million of them take no memory.

    A file is taken whatever its name. In a folder those with the name of a picture are, in the
    order of the alphabet, without hidden ones. ``-`` reads paths from standard input, one a line.
    """
    for argument in arguments:
        if os.fspath(argument) == "-":
            for line in sys.stdin:
                if path := line.rstrip("\r\n"):
                    yield from expand([Path(path)])
        elif argument.is_dir():
            yield from _below(argument)
        else:
            yield os.fspath(argument)


def count(arguments: Iterable[Path]) -> int | None:
    """How many there are; None where standard input names them."""
    arguments = list(arguments)
    if any(os.fspath(argument) == "-" for argument in arguments):
        return None
    return sum(1 for _ in expand(arguments))


def _below(folder: Path) -> Iterator[str]:
    from prototag.metadata import PICTURES

    for root, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in PICTURES:
                yield os.path.join(root, name)


def _raise(error: OSError) -> None:
    raise error
