"""Export a library as JSON lines, and restore it: docs/reference/library-file.md lists the fields.

Pictures are identified by their digests, so that they are found again wherever their files are.
Vectors, thumbnails, suggestions and models are not exported, because they can be computed again.
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
from prototag.library.database import SOURCE_DECISION, Store, select_in
from prototag.library.importer import VERSION, Importer, Line
from prototag.library.scan import ParsedTags, roots
from prototag.storage.atomic_write import replacing
from prototag.storage.sqlite_lock_guard import open_for_reading


def export(store: Store, file: str | os.PathLike[str]) -> int:
    """Write the library to a file, atomically; return the number of pictures."""
    try:
        with replacing(Path(file)) as out, store.read() as conn:
            count = 0
            for line in _lines(store, conn):
                out.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
                count += "picture" in line and "decision" not in line
    except LibraryError:
        raise
    except OSError as error:
        raise LibraryError(
            f"{os.fspath(file)} cannot be written: {error.strerror or error}. Nothing was changed."
        ) from None
    return count


def picture_list(store: Store, pictures: list[int]) -> list[dict[str, Any]]:
    """Return the files of pictures with their tags, as rows of a list that training reads."""
    with store.read() as conn:
        files = select_in(
            conn, "SELECT picture, path FROM files WHERE present AND picture IN", pictures
        )
        path_of = {picture: os.fsdecode(path) for picture, path in sorted(files, reverse=True)}
        rows = select_in(
            conn,
            "SELECT l.picture, t.name FROM labels l JOIN tags t ON t.id = l.tag "
            "WHERE l.value = 1 AND l.picture IN",
            pictures,
        )
        tags_of: dict[int, list[str]] = {}
        for picture, name in rows:
            tags_of.setdefault(picture, []).append(name)
    return [
        {"file_name": path_of[one], "tags": sorted(tags_of.get(one, ()))}
        for one in pictures
        if one in path_of
    ]


def _lines(store: Store, conn: sqlite3.Connection) -> Iterator[Line]:
    settings = {
        name: value
        for name, value in conn.execute("SELECT key, value FROM settings ORDER BY key")
        if name in ("backbone", "crops")
    }
    folders = [root._asdict() | {"path": os.fspath(root.path)} for root in roots(store)]
    yield {"prototag": "library", "version": VERSION, "settings": settings, "roots": folders}
    for tag, name, hidden in conn.execute("SELECT id, name, hidden FROM tags ORDER BY id"):
        rows = conn.execute("SELECT name FROM aliases WHERE tag = ? ORDER BY key", (tag,))
        yield {"tag": name, "hidden": bool(hidden), "aliases": [alias for (alias,) in rows]}
    yield from _pictures(conn)
    for row in conn.execute(
        "SELECT p.digest, t.name, d.verdict, d.decided_at, d.decided_by, d.batch, d.undone, "
        "d.undo_state FROM decisions d JOIN pictures p ON p.id = d.picture "
        "LEFT JOIN tags t ON t.id = d.tag ORDER BY d.id"
    ):
        digest, tag, verdict, decided_at, decided_by, batch, undone, undo_state = row
        previous_value, *_ = json.loads(undo_state) if undo_state else [None]
        yield {
            "decision": verdict,
            "picture": digest.hex(),
            "tag": tag,
            "decided_at": decided_at,
            "decided_by": decided_by,
            "batch": batch,
            "undone": bool(undone),
            "previous_value": previous_value,
        }


def _pictures(conn: sqlite3.Connection) -> Iterator[Line]:
    labels_of = _by_picture(
        conn.execute(
            "SELECT l.picture, t.name, l.value, l.source, l.file_value FROM labels l "
            "JOIN tags t ON t.id = l.tag ORDER BY l.picture, t.key"
        )
    )
    files_of = _by_picture(
        conn.execute(
            "SELECT picture, path, root, present, parsed_tags FROM files ORDER BY picture, path"
        )
    )
    rows = conn.execute(
        "SELECT path, tag_name, by_prototag, place FROM written_tags WHERE is_confirmed = 1 "
        "ORDER BY path, tag_name"
    )
    written: dict[bytes, list[tuple[str, int, str]]] = {}
    for path, *row in rows:
        written.setdefault(bytes(path), []).append((row[0], row[1], row[2]))
    for number, digest, added_at, complete in conn.execute(
        "SELECT id, digest, added_at, complete FROM pictures ORDER BY id"
    ):
        labels = labels_of(number)
        decided = [(name, value) for name, value, source, _ in labels if source == SOURCE_DECISION]
        yield {
            "picture": digest.hex(),
            "added_at": added_at,
            "complete": bool(complete),
            "tags": [name for name, *_, file_value in labels if file_value == 1],
            "ruled_out": [name for name, *_, file_value in labels if file_value == 0],
            "accepted": [name for name, value in decided if value],
            "rejected": [name for name, value in decided if not value],
            "files": [
                {
                    "path": os.fsdecode(path),
                    "root": root,
                    "present": bool(present),
                    "parsed_tags": ParsedTags.from_json(parsed_tags),
                    "written_tags": written.get(bytes(path), []),
                }
                for path, root, present, parsed_tags in files_of(number)
            ],
        }


def _by_picture(rows: Iterator[Any]) -> Callable[[int], list[Any]]:
    """Return a function for the rows of a picture, to be called with rising numbers.

    The first column of the ordered rows is the picture; only the rows of one picture are in memory.
    """
    groups = groupby(rows, itemgetter(0))
    pending: list[Any] = []  # at most one picture and its rows

    def rows_of(number: int) -> list[Any]:
        while True:
            if not pending:
                picture, group = next(groups, (None, ()))
                pending.append((picture, [columns for _, *columns in group]))
            picture, group_rows = pending[0]
            if picture is None or picture > number:
                return []
            pending.clear()
            if picture == number:
                return list(group_rows)

    return rows_of


def restore(
    file: str | os.PathLike[str],
    path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
) -> None:
    """Create a library from an export, atomically.

    Parameters
    ----------
    root : path-like, optional
        The folder of the pictures, if they have moved.

    Raises
    ------
    LibraryError
        The file is no export or is damaged (the message names the line), or ``path`` exists.
    """
    target = Path(os.path.abspath(path))
    _check_is_free(target)
    temporary = target.with_name(f"{target.name}.restoring")
    temporary.unlink(missing_ok=True)
    schema.create(temporary)
    try:
        store = Store(temporary)
        try:
            with _open(file) as lines, store.write() as conn:
                Importer(conn, target, root).read(os.fspath(file), lines)
        finally:
            store.close()
        _check_is_free(target)
        os.rename(temporary, target)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{temporary}{suffix}").unlink(missing_ok=True)


def _check_is_free(target: Path) -> None:
    if target.exists():
        raise LibraryError(f"{target} exists already: give another name for the library.")


def _open(file: str | os.PathLike[str]) -> BinaryIO:
    try:
        return open_for_reading(file)
    except OSError as error:
        raise LibraryError(
            f"{os.fspath(file)} cannot be read: {error.strerror or error}."
        ) from None
