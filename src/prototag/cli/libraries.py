"""Which library a command uses, and how what it holds is shown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prototag.cli import console
from prototag.errors import InputError

if TYPE_CHECKING:
    from prototag.events import Progress
    from prototag.library.library import Library
    from prototag.library.results import Decision, PictureView, Scanned

NAME = "prototag.library"
Named = Annotated[
    Path | None,
    typer.Option(
        "--library",
        "-l",
        envvar="PROTOTAG_LIBRARY",
        help="The library: its file, or the folder that it lies in. If not given, prototag.library "
        "in this folder or one above it.",
        show_default=False,
    ),
]
Tags = Annotated[
    str,
    typer.Argument(metavar="TAG[,TAG]", help="Tags, separated by commas.", show_default=False),
]


def find(given: Path | None) -> Path:
    """The file of the library that a command means."""
    if given is not None:
        return given / NAME if given.is_dir() else given
    here = Path(os.path.abspath(os.curdir))
    for folder in (here, *here.parents):
        if (folder / NAME).is_file():
            return folder / NAME
    raise InputError(
        f"there is no {NAME} in {here} or above it: name one with -l, or make one with `prototag "
        "library create FOLDER`."
    )


@contextmanager
def opened(
    given: Path | None,
    *,
    jobs: int = -1,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[Library]:
    """The library that a command means, for its time."""
    from prototag.library.library import Library

    with Library(find(given), n_jobs=jobs, cache=console.opened(cache), progress=progress) as made:
        yield made


def names(given: Iterable[str], library: Library) -> list[str]:
    """Tags as people list them: one that has a comma in its name is one."""
    from prototag.metadata.tags import Names, listed

    known = Names(tag.name for tag in library.tags())
    found = listed(given, known)
    if not found:
        raise InputError("no tag was given: name one, or several with commas between them.")
    return found


def shown(path: Path) -> str:
    """A path as it is best read from here."""
    return console.below(path, Path.cwd())


def record(view: PictureView) -> dict[str, Any]:
    """A picture as a line of JSON has it."""
    return {
        "path": str(view.places[0]) if view.places else None,
        "number": view.number,
        "digest": view.digest,
        "tags": view.tags,
        "accepted": view.accepted,
        "rejected": view.rejected,
        "complete": view.complete,
        "missing": view.missing,
    }


def decision(one: Decision, path: Path | None) -> dict[str, Any]:
    """A decision as a line of JSON has it."""
    return {**one._asdict(), "path": None if path is None else str(path)}


def told(scanned: Scanned) -> str:
    """What a look has found, in a sentence; empty if nothing is new."""
    parts = [
        (scanned.new, "{} new"),
        (scanned.moved, "{} in new places"),
        (scanned.changed, "{} with other tags or content"),
        (scanned.vanished, "{} gone"),
    ]
    words = [text.format(f"{number:,}") for number, text in parts if number]
    return f"{console.count(scanned.total, 'picture')}: {', '.join(words)}." if words else ""


def complain_of(problems: list[str], most: int = 5) -> None:
    """Say what went wrong; of much, the first."""
    for words in problems[:most]:
        console.complain(words)
    if len(problems) > most:
        console.complain(f"and {len(problems) - most:,} more like these.")
