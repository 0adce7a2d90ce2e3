"""Common options of the library commands, and the output of library records."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prototag.cli import terminal
from prototag.errors import InputError
from prototag.storage.sqlite_lock_guard import open_for_reading

if TYPE_CHECKING:
    from prototag.events import Progress
    from prototag.library.library import Library
    from prototag.library.types import Decision, PictureView, ScanReport, SyncPlan, SyncReport

NAME = "prototag.library"
Named = Annotated[
    Path | None,
    typer.Option(
        "--library",
        "-l",
        envvar="PROTOTAG_LIBRARY",
        help="The library: its file, or the folder that contains it. If not given, "
        "prototag.library in this folder or one above it.",
        show_default=False,
    ),
]
Language = Annotated[
    str | None,
    typer.Option(
        help="Language of the words that are suggested without tags, such as de; that of the "
        "browser or the system if not given.",
        show_default=False,
    ),
]
Tags = Annotated[
    str,
    typer.Argument(metavar="TAG[,TAG]", help="Tags, separated by commas.", show_default=False),
]


def find(given: Path | None) -> Path:
    """Find the file of the library."""
    if given is not None:
        return given / NAME if given.is_dir() else given
    here = Path(os.path.abspath(os.curdir))
    for folder in (here, *here.parents):
        if (folder / NAME).is_file():
            return folder / NAME
    raise InputError(
        f"there is no {NAME} in {here} or above it: name one with -l, or create one with `prototag "
        "library create FOLDER`."
    )


def is_library(path: Path) -> bool:
    """Return whether a file is an SQLite database, as libraries are."""
    with open_for_reading(path) as file:
        return file.read(16).startswith(b"SQLite format 3")


def check_has_pictures(source: Path, kind: str, column: str | None) -> None:
    """Refuse a folder or list without pictures."""
    from prototag.metadata import collect_tags

    kinds = collect_tags.parse_kinds(terminal.kinds(kind))
    collect_tags.find_pictures([source], [], kinds, column)


@contextmanager
def opened(
    given: Path | None,
    *,
    scans: bool = False,
    jobs: int = -1,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[Library]:
    """Open the library of a command; only scans need the vector cache."""
    from prototag.library.library import Library

    path = find(given)
    kept = terminal.opened(cache) if scans else None
    with Library(path, n_jobs=jobs, cache=kept, progress=progress) as library:
        yield library


def names(given: Iterable[str], library: Library) -> list[str]:
    """Parse tags that are separated by commas; names of the library may contain commas."""
    from prototag.metadata.tag_names import TagLookup, split_tag_options

    known = TagLookup(tag.name for tag in library.tags())
    tags = split_tag_options(given, known)
    if not tags:
        raise InputError("no tag was given: name one, or several with commas between them.")
    return tags


def shown(path: Path) -> str:
    """Return a path relative to the current folder, if that contains it."""
    return terminal.below(path, Path.cwd())


def place(view: PictureView) -> str:
    """Return the path of a picture, or its number if all files are missing."""
    return shown(view.files[0]) if view.files else f"picture {view.number}"


def record(view: PictureView) -> dict[str, Any]:
    """Return the JSON object of a picture."""
    return {
        "path": str(view.files[0]) if view.files else None,
        "number": view.number,
        "digest": view.digest,
        "tags": view.tags,
        "accepted": view.accepted,
        "rejected": view.rejected,
        "complete": view.complete,
        "missing": view.missing,
    }


def decision(one: Decision, path: Path | None) -> dict[str, Any]:
    """Return the JSON object of a decision."""
    return {**one._asdict(), "path": None if path is None else str(path)}


def scan_summary(scanned: ScanReport) -> str:
    """Summarize a scan in a sentence; empty if nothing is new."""
    parts = [
        (scanned.new, "{} new"),
        (scanned.moved, "{} moved"),
        (scanned.changed, "{} with other tags or content"),
        (scanned.vanished, "{} missing"),
    ]
    words = [text.format(f"{number:,}") for number, text in parts if number]
    return f"{terminal.count(scanned.total, 'picture')}: {', '.join(words)}." if words else ""


def print_problems(problems: list[str], most: int = 5) -> None:
    """Print the first problems, and the number of others."""
    for words in problems[:most]:
        terminal.print_error(words)
    if len(problems) > most:
        terminal.print_error(f"and {len(problems) - most:,} more.")


def synced(scanned: ScanReport, plan: SyncPlan, done: SyncReport | None) -> dict[str, Any]:
    """Return the JSON object of a sync or of its plan."""
    from prototag.library.writes import place_of

    outgoing = [
        {"file": str(c.path), "place": place_of(c), "added": c.added, "removed": c.removed}
        for c in plan.outgoing
    ]
    return {
        **{name: getattr(scanned, name) for name in ("new", "moved", "changed", "vanished")},
        "rejected": [list(pair) for pair in plan.rejected],
        "restored": [list(pair) for pair in plan.restored],
        "kept": [list(pair) for pair in plan.kept],
        "outgoing": outgoing,
        "written": None if done is None else done.written,
        "write": None if done is None else done.write,
        "problems": scanned.problems + (plan.problems if done is None else done.problems),
    }


def print_sync(changes_found: str, plan: SyncPlan, done: SyncReport | None, example: str) -> None:
    """Print what a sync has changed, or would change."""
    from prototag.library.writes import FILE, place_of

    if changes_found:
        terminal.print_result(changes_found)
    state = "now" if done else "would be"
    if plan.rejected:
        tags = Counter(tag for _, tag in plan.rejected)
        some = ", ".join(tag for tag, _ in tags.most_common(5))
        terminal.print_result(
            f"{terminal.count(len(plan.rejected), 'tag')} removed in a photo program, "
            f"{state} rejected: {some}."
        )
    if plan.restored:
        terminal.print_result(
            f"{terminal.count(len(plan.restored), 'tag')} added again in a photo program, "
            f"{state} cleared."
        )
    if plan.outgoing:
        added: Counter[str] = Counter(tag for c in plan.outgoing for tag in c.added)
        removed: Counter[str] = Counter(tag for c in plan.outgoing for tag in c.removed)
        if done is None:
            terminal.changes(added, removed)
        inside = sum(place_of(change) == FILE for change in plan.outgoing)
        kind = "picture" if inside == len(plan.outgoing) else "file" if inside else "sidecar"
        files = terminal.count(done.written if done else len(plan.outgoing), kind)
        verb = "written" if done else "would be written"
        terminal.print_result(
            f"{files} {verb}: {terminal.count(added.total(), 'tag')} added"
            + f", {removed.total():,} removed" * bool(removed)
            + "."
        )
        if done is not None and done.write is not None:
            terminal.print_info(f"`prototag library undo-write {done.write}` restores the files.")
    if plan.kept:
        one = len(plan.kept) == 1
        terminal.print_result(
            f"{terminal.count(len(plan.kept), 'tag')} that you rejected here "
            + ("is in a file as your own and was" if one else "are in files as your own and were")
            + f" left there: {example}{'' if one else ', for example'}. Remove "
            + f"{'it' if one else 'them'} in a photo program, or in the list of tags."
        )
    if not changes_found and not plan and not plan.kept:
        terminal.print_result("Library and files agree: there is nothing to do.")
