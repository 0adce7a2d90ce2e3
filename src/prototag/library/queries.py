"""What a library shows: one picture, pages of them, counts, and how it stands."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from prototag.errors import InputError, Remedy, UnknownNameError
from prototag.library import tag_table
from prototag.library.database import Store, selected
from prototag.library.scan import roots
from prototag.library.types import ModelView, PictureView, Status, Suggestion
from prototag.metadata.find_files import identity
from prototag.metadata.tag_names import key

Which = int | str | os.PathLike[str]
STATES = {
    "tagged": "p.own > 0",
    "untagged": "p.own = 0",
    "waiting": "p.waiting > 0",
    "missing": "p.places = 0",
    "complete": "p.complete = 1",
    "decided": "p.decided > 0",
}
MAX_LIMIT = 100_000
MAX_NUMBER = 2**63 - 1  # of a picture in SQLite
MAX_TAGS = 100  # in one choice; each is a condition of the query, of which SQLite takes 1,000


class Facets(NamedTuple):
    """What pictures can be chosen by, with how many there are of each."""

    tags: dict[str, int]  # pictures that have it, most first
    folders: dict[Path, int]  # pictures that lie in it, not below it
    states: dict[str, int]


def number(base: sqlite3.Connection, which: Which) -> int:
    """The number of a picture that is named by it, by a path, or by its digest in hexadecimal.

    Raises
    ------
    InputError
        The library has no such picture.
    """
    if isinstance(which, int):
        if not -MAX_NUMBER <= which <= MAX_NUMBER:
            raise UnknownNameError(f"the library has no picture {which}.")
        row = base.execute("SELECT id FROM pictures WHERE id = ?", (which,)).fetchone()
    else:
        place = os.fsencode(identity(Path(which)))
        row = base.execute("SELECT picture FROM places WHERE path = ?", (place,)).fetchone()
        if row is None and len(text := os.fspath(which)) == 40:
            try:
                one = bytes.fromhex(text)
            except ValueError:
                one = b""
            row = base.execute("SELECT id FROM pictures WHERE digest = ?", (one,)).fetchone()
        if row is None and (real := os.fsencode(os.path.realpath(which))) != place:
            row = base.execute("SELECT picture FROM places WHERE path = ?", (real,)).fetchone()
    if row is None:
        there = not isinstance(which, int) and os.path.exists(which)
        message = f"the library has no picture {which}"
        if there:
            raise UnknownNameError(message, remedy=Remedy.SCAN)
        raise UnknownNameError(f"{message}.")
    return int(row[0])


def numbers(store: Store, which: Iterable[Which]) -> list[int]:
    """Numbers of pictures, each once."""
    with store.read() as base:
        return list(dict.fromkeys(number(base, one) for one in which))


def picture(store: Store, which: Which) -> PictureView:
    """One picture, with all that is known of it."""
    with store.read() as base:
        one = number(base, which)
        digest, complete, there = base.execute(
            "SELECT digest, complete, places FROM pictures WHERE id = ?", (one,)
        ).fetchone()
        labels = base.execute(
            "SELECT t.name, l.value, l.origin FROM labels l JOIN tags t ON t.id = l.tag "
            "WHERE l.picture = ? ORDER BY t.key",
            (one,),
        ).fetchall()
        lying = base.execute(
            "SELECT path FROM places WHERE picture = ? ORDER BY present DESC, path", (one,)
        ).fetchall()
        suggested = suggestions(base, one)
    return PictureView(
        number=one,
        digest=digest.hex(),
        places=[Path(os.fsdecode(path)) for (path,) in lying],
        tags=[name for name, value, _ in labels if value],
        accepted=[name for name, value, origin in labels if value and origin == "decided"],
        rejected=[name for name, value, origin in labels if not value],
        suggestions=suggested,
        complete=bool(complete),
        missing=not there,
    )


def names(store: Store, pictures: Sequence[int]) -> list[str]:
    """What pictures are called: paths below the folder of the library, as models name pictures."""
    starts = {root.number: os.path.abspath(root.path) for root in roots(store)}
    starts = {
        n: start if os.path.isdir(start) else os.path.dirname(start) for n, start in starts.items()
    }
    found: dict[int, str] = {}
    with store.read() as base:
        select = "SELECT picture, path, root, present FROM places WHERE picture IN"
        rows = sorted(selected(base, select, list(pictures)), key=lambda row: (-row[3], row[1]))
    for picture, path, root, _ in rows:
        place = os.fsdecode(path)
        start = starts[root]
        inside = place.startswith(start + os.sep)
        found.setdefault(picture, os.path.relpath(place, start) if inside else place)
    return [found.get(one, f"picture {one}, which was removed") for one in pictures]


def alike(store: Store, one: int) -> list[int]:
    """The look-alikes of a picture, itself among them."""
    with store.read() as base:
        rows = base.execute(
            "SELECT id FROM pictures WHERE id = ?1 OR grouped = "
            "(SELECT grouped FROM pictures WHERE id = ?1 AND grouped >= 0) ORDER BY id",
            (one,),
        ).fetchall()
    return [row[0] for row in rows]


def thumbnail(store: Store, one: int) -> bytes | None:
    """A small copy of a picture, as WebP."""
    with store.read() as base:
        row = base.execute("SELECT webp FROM thumbnails WHERE picture = ?", (one,)).fetchone()
    return None if row is None else bytes(row[0])


def suggestions(base: sqlite3.Connection, one: int) -> list[Suggestion]:
    """What is suggested for a picture, the likeliest first."""
    return [
        Suggestion(one, *row)
        for row in base.execute(
            "SELECT t.name, s.probability, s.model, s.grouped FROM suggestions s "
            "JOIN tags t ON t.id = s.tag WHERE s.picture = ? AND NOT t.hidden "
            "ORDER BY s.probability DESC, t.key",
            (one,),
        )
    ]


class Choice(TypedDict, total=False):
    """Which pictures are wanted: those that fit all of it."""

    tags: Sequence[str]  # all of these
    without: Sequence[str]  # none of these
    state: str | None  # one of STATES
    folder: str | os.PathLike[str] | None  # in it or below it
    text: str | None  # part of a path or of a tag


def pictures(store: Store, limit: int, after: int, choice: Choice) -> list[int]:
    """Numbers of pictures above ``after`` that fit all that is asked for, in their order."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InputError(f"limit={limit}: give 1 to {MAX_LIMIT:,}.")
    if after >= MAX_NUMBER:  # also beyond what SQLite can hold
        after = MAX_NUMBER
    with store.read() as base:
        one, where, values = _chosen(base, **choice)
        rows = base.execute(
            f"SELECT {one} FROM {where} AND {one} > ? ORDER BY {one} LIMIT ?",
            [*values, after, limit],
        ).fetchall()
    return [row[0] for row in rows]


def count(store: Store, choice: Choice) -> int:
    """How many pictures fit all that is asked for."""
    with store.read() as base:
        _, where, values = _chosen(base, **choice)
        return int(base.execute(f"SELECT count(*) FROM {where}", values).fetchone()[0])


def _chosen(
    base: sqlite3.Connection,
    tags: Sequence[str] = (),
    without: Sequence[str] = (),
    state: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    text: str | None = None,
) -> tuple[str, str, list[Any]]:
    """The number of a picture, the tables and conditions of a choice, and the values in them."""
    if len(tags) + len(without) > MAX_TAGS:
        raise InputError(
            f"{len(tags) + len(without)} tags to choose by: give at most {MAX_TAGS} of tags= and "
            "without= together."
        )
    if state is not None and state not in STATES:
        raise InputError(f"state={state!r}: give {', '.join(STATES)}.")
    wanted = [tag_table.meant(base, tag) for tag in tags]
    # The rarest tag leads, and its index gives pictures in their order.
    wanted.sort(
        key=lambda tag: base.execute("SELECT own FROM tags WHERE id = ?", (tag,)).fetchone()[0]
    )
    one = "p.id"
    source = "pictures p"
    conditions = ["1"]
    values = list[Any]()
    if wanted:
        one = "l0.picture"
        source = "labels l0" + " CROSS JOIN pictures p ON p.id = l0.picture" * (state is not None)
        conditions.append("l0.tag = ? AND l0.value = 1")
        values.append(wanted[0])
    has = f"EXISTS (SELECT 1 FROM labels l WHERE l.picture = {one} AND l.tag = ? AND l.value = 1)"
    conditions += [has] * len(wanted[1:])
    values += wanted[1:]
    conditions += [f"NOT {has}"] * len(without)
    values += [tag_table.meant(base, tag) for tag in without]
    if state is not None:
        conditions.append(STATES[state])
    there = f"present = {int(state != 'missing')}"
    if folder is not None:
        place = os.fsencode(identity(Path(folder)))
        inside = place.rstrip(b"/") + os.sep.encode()
        conditions.append(
            f"{one} IN (SELECT picture FROM places WHERE path > ? AND path < ? AND {there})"
        )
        values += [inside, inside[:-1] + bytes([inside[-1] + 1])]
    if text is not None and text.strip():
        conditions.append(
            f"{one} IN (SELECT picture FROM places WHERE instr(name, ?) AND {there} UNION "
            "SELECT l.picture FROM tags t CROSS JOIN labels l ON l.tag = t.id AND l.value = 1 "
            "WHERE instr(t.key, ?))"
        )
        values += [text.casefold(), key(text)]
    return one, f"{source} WHERE {' AND '.join(conditions)}", values


def facets(store: Store) -> Facets:
    """What pictures can be chosen by."""
    with store.read() as base:
        tags = dict(base.execute("SELECT name, own FROM tags WHERE own > 0 ORDER BY own DESC, key"))
        folders = base.execute(
            "SELECT folder, count(*) FROM places WHERE present = 1 GROUP BY folder ORDER BY folder"
        ).fetchall()
        states = _states(base)
    return Facets(tags, {Path(os.fsdecode(path)): size for path, size in folders}, states)


def _states(base: sqlite3.Connection) -> dict[str, int]:
    sums = ", ".join(f"coalesce(sum({condition}), 0)" for condition in STATES.values())
    row = base.execute(f"SELECT {sums} FROM pictures p").fetchone()
    return dict(zip(STATES, row, strict=True))


def version(store: Store) -> tuple[int | None, int]:
    """Return the number of the current model, and a count that grows with changes of tags."""
    with store.read() as base:
        row = base.execute("SELECT number FROM models WHERE current = 1").fetchone()
        changes = base.execute("SELECT total(changed) + count(*) FROM tags").fetchone()
    return (row[0] if row else None), int(changes[0])


def named(store: Store, file_name: str) -> list[int]:
    """Return the numbers of pictures with a file of this name that is there, by number."""
    with store.read() as base:
        rows = base.execute(
            "SELECT DISTINCT picture FROM places WHERE present "
            "AND substr('/' || name, -length(?1)) = ?1 ORDER BY 1",
            (f"/{file_name.casefold()}",),
        ).fetchall()
    return [row[0] for row in rows]


def status(store: Store) -> Status:
    """How the library stands."""
    with store.read() as base:

        def one(query: str, *values: Any) -> int:
            return int(base.execute(query, values).fetchone()[0] or 0)

        total, missing, tagged, unwritten = base.execute(
            "SELECT count(*), coalesce(sum(places = 0), 0), coalesce(sum(own > 0), 0), "
            "coalesce(sum(unwritten > 0), 0) FROM pictures"
        ).fetchone()
        decided = one("SELECT value FROM counts WHERE name = 'decisions'")
        row = base.execute(
            "SELECT number, made, pictures, tags, f1, decisions, current FROM models "
            "WHERE current = 1"
        ).fetchone()
        model = None if row is None else ModelView(*row)._replace(current=bool(row[-1]))
        since = decided
        if model is not None:
            last = model.decisions
            since = one("SELECT count(*) FROM decisions WHERE id > ? AND NOT undone", last)
        return Status(
            path=store.path,
            roots=[root.path for root in roots(store)],
            pictures=total,
            missing=missing,
            unread=total - one("SELECT count(*) FROM vectors"),
            tagged=tagged,
            tags=one("SELECT count(*) FROM tags WHERE own > 0"),
            decisions=decided,
            waiting=one("SELECT sum(waiting) FROM tags"),
            unwritten=unwritten,
            model=model,
            since=since,
            problems=[*store.problems],
        )
