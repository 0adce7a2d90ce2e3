"""A library as JSON lines, and back: docs/reference/library-file.md says what a line holds.

Pictures are named by their digests, so that they meet their files again wherever these lie.
Vectors, thumbnails, suggestions and models are not among it: they can be made again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from prototag.errors import LibraryError
from prototag.library import schema
from prototag.library.database import DECIDED, Store
from prototag.library.importer import VERSION, Line, Reader
from prototag.library.scan import Said, roots
from prototag.storage.atomic_write import replacing
from prototag.storage.sqlite_lock_guard import open_for_reading


def export(store: Store, file: str | os.PathLike[str]) -> int:
    """Write the library to a file, whole or not at all; how many pictures it has is returned."""
    try:
        with replacing(Path(file)) as out, store.read() as base:
            count = 0
            for line in _lines(store, base):
                out.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
                count += "picture" in line and "decision" not in line
    except LibraryError:
        raise
    except OSError as error:
        raise LibraryError(
            f"{os.fspath(file)} cannot be written: {error.strerror or error}. Nothing was changed."
        ) from None
    return count


def _lines(store: Store, base: sqlite3.Connection) -> Iterator[Line]:
    settings = {
        name: value
        for name, value in base.execute("SELECT key, value FROM meta ORDER BY key")
        if name in ("backbone", "crops")
    }
    places = [root._asdict() | {"path": os.fspath(root.path)} for root in roots(store)]
    yield {"prototag": "library", "version": VERSION, "settings": settings, "roots": places}
    for tag, name, hidden in base.execute("SELECT id, name, hidden FROM tags ORDER BY id"):
        rows = base.execute("SELECT name FROM aliases WHERE tag = ? ORDER BY key", (tag,))
        yield {"tag": name, "hidden": bool(hidden), "aliases": [alias for (alias,) in rows]}
    yield from _pictures(base)
    for row in base.execute(
        "SELECT p.digest, t.name, d.verdict, d.at, d.by, d.batch, d.undone, d.before "
        "FROM decisions d JOIN pictures p ON p.id = d.picture LEFT JOIN tags t ON t.id = d.tag "
        "ORDER BY d.id"
    ):
        digest, tag, verdict, at, by, batch, undone, before = row
        yield {
            "decision": verdict,
            "picture": digest.hex(),
            "tag": tag,
            "at": at,
            "by": by,
            "batch": batch,
            "undone": bool(undone),
            "earlier": json.loads(before)[0] if before else None,
        }


def _pictures(base: sqlite3.Connection) -> Iterator[Line]:
    labels = _by_picture(
        base.execute(
            "SELECT l.picture, t.name, l.value, l.origin, l.found FROM labels l "
            "JOIN tags t ON t.id = l.tag ORDER BY l.picture, t.key"
        )
    )
    places = _by_picture(
        base.execute("SELECT picture, path, root, present, said FROM places ORDER BY picture, path")
    )
    written = {
        bytes(path): [row[1:] for row in rows]
        for path, rows in groupby(
            base.execute("SELECT path, name, ours FROM written WHERE done = 1 ORDER BY path, name"),
            itemgetter(0),
        )
    }
    for number, digest, added, complete in base.execute(
        "SELECT id, digest, added, complete FROM pictures ORDER BY id"
    ):
        known = labels(number)
        decided = [(name, value) for name, value, origin, _ in known if origin == DECIDED]
        yield {
            "picture": digest.hex(),
            "added": added,
            "complete": bool(complete),
            "tags": [name for name, *_, found in known if found == 1],
            "ruled_out": [name for name, *_, found in known if found == 0],
            "accepted": [name for name, value in decided if value],
            "rejected": [name for name, value in decided if not value],
            "places": [
                {
                    "path": os.fsdecode(path),
                    "root": root,
                    "present": bool(present),
                    "said": Said.of(said),
                    "written": [list(pair) for pair in written.get(bytes(path), [])],
                }
                for path, root, present, said in places(number)
            ],
        }


def _by_picture(rows: Iterator[Any]) -> Callable[[int], list[Any]]:
    """Rows of pictures that are asked for in rising order, without holding all of them."""
    groups = groupby(rows, itemgetter(0))
    waiting: list[Any] = []

    def of(number: int) -> list[Any]:
        while True:
            if not waiting:
                head, group = next(groups, (None, ()))
                waiting.append((head, [row[1:] for row in group]))
            head, found = waiting[0]
            if head is None or head > number:
                return []
            waiting.clear()
            if head == number:
                return list(found)

    return of


def restore(
    file: str | os.PathLike[str],
    path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
) -> None:
    """Make a library of what :func:`export` wrote, whole or not at all.

    Parameters
    ----------
    root : path-like, optional
        Where the pictures lie now, instead of where they lay.

    Raises
    ------
    LibraryError
        The file is no export, or damaged: the message names the line. Or ``path`` is there.
    """
    target = Path(os.path.abspath(path))
    if target.exists():
        raise LibraryError(f"{target} is there already: give another name for the library.")
    half = target.with_name(f"{target.name}.restoring")
    half.unlink(missing_ok=True)
    schema.create(half)
    try:
        store = Store(half)
        try:
            with _opened(file) as lines, store.write() as base:
                Reader(base, target, root).read(os.fspath(file), lines)
        finally:
            store.close()
        if target.exists():
            raise LibraryError(f"{target} is there already: give another name for the library.")
        os.rename(half, target)
    finally:
        for tail in ("", "-wal", "-shm", "-journal"):
            Path(f"{half}{tail}").unlink(missing_ok=True)


def _opened(file: str | os.PathLike[str]) -> BinaryIO:
    try:
        return open_for_reading(file)
    except OSError as error:
        raise LibraryError(
            f"{os.fspath(file)} cannot be read: {error.strerror or error}."
        ) from None
