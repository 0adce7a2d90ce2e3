"""Arguments that name pictures: files, folders with all below them, and standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


def expand(arguments: Iterable[Path], report: Callable[[str], object]) -> Iterator[str]:
    """Paths of pictures, one by one, so that a million of them take no memory.

    Parameters
    ----------
    arguments : iterable of Path
        A file is taken whatever its name, and whether it is there or not. Folders are searched by
        the rule of :mod:`prototag.metadata.walk`. ``-`` reads paths from standard input, one a
        line.
    report : callable
        Called with the words that say what of a folder could not be read.
    """
    from prototag.metadata.walk import pictures

    for argument in arguments:
        if os.fspath(argument) == "-":
            yield from expand(_on_standard_input(), report)
        elif os.path.isdir(argument):
            yield from map(os.fspath, pictures(argument, report))
        else:
            yield os.fspath(argument)


def count(arguments: Iterable[Path]) -> int | None:
    """How many there are; None where standard input names them."""
    arguments = list(arguments)
    if any(os.fspath(argument) == "-" for argument in arguments):
        return None
    return sum(1 for _ in expand(arguments, lambda _: None))


def _on_standard_input() -> Iterator[Path]:
    """Names of files need not be text: what is not survives as Python's own calls have it."""
    for line in sys.stdin.buffer:
        if path := line.decode(sys.stdin.encoding, "surrogateescape").rstrip("\r\n"):
            yield Path(path)
