"""Read-only queries of a library: one picture, pages of pictures, counts, status."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from prototag.errors import InputError, Remedy, UnknownNameError
from prototag.images.exif import Capture
from prototag.library.database import SOURCE_DECISION, Store, select_in
from prototag.library.filters import PictureQuery, where
from prototag.library.scan import roots
from prototag.library.types import ModelView, PictureView, Status, Suggestion
from prototag.metadata.find_files import normalized_path

MODEL_COLUMNS = "number, trained_at, n_pictures, n_tags, f1, last_decision, is_current"
PictureRef = int | str | os.PathLike[str]
MAX_LIMIT = 100_000
MAX_NUMBER = 2**63 - 1  # of a row in SQLite


def number(conn: sqlite3.Connection, which: PictureRef) -> int:
    """Return the number of a picture, by its number, a path, or its digest in hexadecimal.

    Raises
    ------
    InputError
        The library has no such picture.
    """
    if isinstance(which, int):
        if not -MAX_NUMBER <= which <= MAX_NUMBER:
            raise UnknownNameError(f"the library has no picture {which}.")
        row = conn.execute("SELECT id FROM pictures WHERE id = ?", (which,)).fetchone()
    else:
        place = os.fsencode(normalized_path(Path(which)))
        row = conn.execute("SELECT picture FROM files WHERE path = ?", (place,)).fetchone()
        if row is None and len(text := os.fspath(which)) == 40:
            try:
                one = bytes.fromhex(text)
            except ValueError:
                one = b""
            row = conn.execute("SELECT id FROM pictures WHERE digest = ?", (one,)).fetchone()
        if row is None and (real := os.fsencode(os.path.realpath(which))) != place:
            row = conn.execute("SELECT picture FROM files WHERE path = ?", (real,)).fetchone()
    if row is None:
        there = not isinstance(which, int) and os.path.exists(which)
        message = f"the library has no picture {which}"
        if there:
            raise UnknownNameError(message, remedy=Remedy.SCAN)
        raise UnknownNameError(f"{message}.")
    return int(row[0])


def numbers(store: Store, which: Iterable[PictureRef]) -> list[int]:
    """Return the numbers of pictures, each once."""
    with store.read() as conn:
        return list(dict.fromkeys(number(conn, one) for one in which))


def picture(store: Store, which: PictureRef) -> PictureView:
    """Return one picture with its files, labels and suggestions."""
    with store.read() as conn:
        one = number(conn, which)
        digest, complete, there = conn.execute(
            "SELECT digest, complete, n_files FROM pictures WHERE id = ?", (one,)
        ).fetchone()
        labels = conn.execute(
            "SELECT t.name, l.value, l.source FROM labels l JOIN tags t ON t.id = l.tag "
            "WHERE l.picture = ? ORDER BY t.key",
            (one,),
        ).fetchall()
        paths = conn.execute(
            "SELECT path FROM files WHERE picture = ? ORDER BY present DESC, path", (one,)
        ).fetchall()
        suggested = suggestions(conn, one)
        capture = conn.execute(
            "SELECT taken_at, camera, lens, latitude, longitude FROM captures WHERE picture = ?",
            (one,),
        ).fetchone()
    return PictureView(
        number=one,
        digest=digest.hex(),
        files=[Path(os.fsdecode(path)) for (path,) in paths],
        tags=[name for name, value, _ in labels if value],
        accepted=[name for name, value, source in labels if value and source == SOURCE_DECISION],
        rejected=[name for name, value, source in labels if not value],
        suggestions=suggested,
        complete=bool(complete),
        missing=not there,
        capture=Capture(*(capture or ())),
    )


def names(store: Store, pictures: Sequence[int]) -> list[str]:
    """Return the names of pictures in models: paths relative to the root."""
    folders = {}
    for root in roots(store):
        path = os.path.abspath(root.path)
        folders[root.number] = path if os.path.isdir(path) else os.path.dirname(path)
    result: dict[int, str] = {}
    with store.read() as conn:
        rows = select_in(
            conn,
            "SELECT present, path, picture, root FROM files WHERE picture IN",
            list(pictures),
        )
        ordered = sorted(rows, key=lambda row: (-row[0], row[1]))  # existing files first
    for _, encoded, picture, number in ordered:
        file = os.fsdecode(encoded)
        folder = folders[number]
        is_inside = file.startswith(folder + os.sep)
        result.setdefault(picture, os.path.relpath(file, folder) if is_inside else file)
    return [result.get(one, f"picture {one}, which was removed") for one in pictures]


def near_duplicates(store: Store, one: int) -> list[int]:
    """Return the near-duplicate group of a picture, including itself."""
    with store.read() as conn:
        rows = conn.execute(
            "SELECT id FROM pictures WHERE id = ?1 OR duplicate_group = "
            "(SELECT duplicate_group FROM pictures WHERE id = ?1 AND duplicate_group >= 0) "
            "ORDER BY id",
            (one,),
        ).fetchall()
    return [row[0] for row in rows]


def thumbnail(store: Store, one: int) -> bytes | None:
    """Return a WebP of a picture; None before its scan."""
    with store.read() as conn:
        row = conn.execute("SELECT webp FROM thumbnails WHERE picture = ?", (one,)).fetchone()
    return None if row is None else bytes(row[0])


def digest(store: Store, one: int) -> str:
    """Return the digest of a picture's pixels in hexadecimal."""
    with store.read() as conn:
        row = conn.execute("SELECT digest FROM pictures WHERE id = ?", (number(conn, one),))
        return bytes(row.fetchone()[0]).hex()


def suggestions(conn: sqlite3.Connection, one: int) -> list[Suggestion]:
    """Return the suggestions for a picture, the most probable first."""
    return [
        Suggestion(one, *row)
        for row in conn.execute(
            "SELECT t.name, s.probability, s.model, s.duplicate_group FROM suggestions s "
            "JOIN tags t ON t.id = s.tag WHERE s.picture = ? AND NOT t.hidden "
            "ORDER BY s.probability DESC, t.key",
            (one,),
        )
    ]


def pictures(store: Store, limit: int, after: int, choice: PictureQuery) -> list[int]:
    """Return the numbers above ``after`` of pictures that match all conditions, in order."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InputError(f"limit={limit}: give 1 to {MAX_LIMIT:,}.")
    if after >= MAX_NUMBER:  # also beyond what SQLite can hold
        after = MAX_NUMBER
    with store.read() as conn:
        one, clause, values = where(conn, choice)
        rows = conn.execute(
            f"SELECT {one} FROM {clause} AND {one} > ? ORDER BY {one} LIMIT ?",
            [*values, after, limit],
        ).fetchall()
    return [row[0] for row in rows]


def count(store: Store, choice: PictureQuery) -> int:
    """Return how many pictures match all conditions."""
    with store.read() as conn:
        _, clause, values = where(conn, choice)
        return int(conn.execute(f"SELECT count(*) FROM {clause}", values).fetchone()[0])


def version(store: Store) -> tuple[int | None, int]:
    """Return the number of the current model, and a count that grows with changes of tags."""
    with store.read() as conn:
        row = conn.execute("SELECT number FROM models WHERE is_current = 1").fetchone()
        changes = conn.execute("SELECT total(label_changes) + count(*) FROM tags").fetchone()
    return (row[0] if row else None), int(changes[0])


def named(store: Store, file_name: str) -> list[int]:
    """Return the numbers of pictures with a file of this name that is there, by number."""
    with store.read() as conn:
        rows = conn.execute(
            "SELECT DISTINCT picture FROM files WHERE present "
            "AND substr('/' || search_name, -length(?1)) = ?1 ORDER BY 1",
            (f"/{file_name.casefold()}",),
        ).fetchall()
    return [row[0] for row in rows]


def model_view(row: tuple[Any, ...]) -> ModelView:
    """Return the record of a row of ``MODEL_COLUMNS``."""
    number, trained_at, n_pictures, n_tags, f1, last_decision, is_current = row
    return ModelView(
        number=number,
        trained_at=trained_at,
        pictures=n_pictures,
        tags=n_tags,
        f1=f1,
        decisions=last_decision,
        current=bool(is_current),
    )


def status(store: Store) -> Status:
    """Return counts and state of the library."""
    with store.read() as conn:

        def one(query: str, *values: Any) -> int:
            return int(conn.execute(query, values).fetchone()[0] or 0)

        total, missing, tagged, unwritten = conn.execute(
            "SELECT count(*), coalesce(sum(n_files = 0), 0), coalesce(sum(n_tags > 0), 0), "
            "coalesce(sum(n_unwritten > 0), 0) FROM pictures"
        ).fetchone()
        decided = one("SELECT value FROM counters WHERE name = 'decisions'")
        row = conn.execute(f"SELECT {MODEL_COLUMNS} FROM models WHERE is_current = 1").fetchone()
        model = None if row is None else model_view(row)
        decisions_since_retrain = decided
        if model is not None:
            last = model.decisions
            decisions_since_retrain = one(
                "SELECT count(*) FROM decisions WHERE id > ? AND NOT undone", last
            )
        return Status(
            path=store.path,
            roots=[root.path for root in roots(store)],
            pictures=total,
            missing=missing,
            unread=total - one("SELECT count(*) FROM vectors"),
            tagged=tagged,
            tags=one("SELECT count(*) FROM tags WHERE n_pictures > 0"),
            decisions=decided,
            suggestions=one("SELECT sum(n_suggestions) FROM tags"),
            unwritten=unwritten,
            model=model,
            decisions_since_retrain=decisions_since_retrain,
            problems=[*store.problems],
        )
