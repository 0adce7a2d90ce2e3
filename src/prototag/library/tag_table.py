"""The tags of a library: found by what people type, renamed, joined, hidden, listed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from prototag.errors import InputError
from prototag.library.database import DECIDED, FOUND, Store
from prototag.library.types import TagView
from prototag.metadata.tag_names import SEPARATOR, Names, clean, key


def known(base: sqlite3.Connection, name: str) -> int | None:
    """The number of the tag of exactly this name, in any case, or of one that once had it."""
    row = base.execute(
        "SELECT id FROM tags WHERE key = ?1 UNION ALL SELECT tag FROM aliases WHERE key = ?1",
        (key(name),),
    ).fetchone()
    return None if row is None else int(row[0])


def meant(base: sqlite3.Connection, name: str) -> int:
    """The number of the tag that a person means, who may leave out case, accents or a path.

    Raises
    ------
    InputError
        There is none, or several could be meant.
    """
    found = known(base, name)
    if found is not None:
        return found
    every = Names(row[0] for row in base.execute("SELECT name FROM tags ORDER BY name"))
    names = every.find_all([name], owner="the library has")
    if len(names) > 1:
        raise InputError(f"{name!r} may mean {' or '.join(map(repr, names[:5]))}: say which.")
    return int(base.execute("SELECT id FROM tags WHERE name = ?", names).fetchone()[0])


def made(base: sqlite3.Connection, name: str) -> int:
    """The number of a tag, which becomes one of the library if it is new.

    ``cat`` is ``animal|cat`` if that is the only tag that ends so.
    """
    found = known(base, name)
    if found is not None:
        return found
    if SEPARATOR not in name:
        ends = base.execute(
            "SELECT id FROM tags WHERE substr(key, -?) = ?",
            (len(key(name)) + 1, SEPARATOR + key(name)),
        ).fetchmany(2)
        if len(ends) == 1:
            return int(ends[0][0])
    return added(base, name)


def added(base: sqlite3.Connection, name: str) -> int:
    """A tag of exactly this name, new if there is none."""
    found = known(base, name)
    if found is not None:
        return found
    spelt = clean(name)
    if not spelt:
        raise InputError(f"{name!r} is no tag: it has no characters that can be written.")
    row = base.execute(
        "INSERT INTO tags (name, key) VALUES (?, ?) RETURNING id", (spelt, key(spelt))
    ).fetchone()
    return int(row[0])


def existing(store: Store, names: Iterable[str]) -> list[str]:
    """Return those of the names that are tags of the library, in their order."""
    with store.read() as base:
        keys = {row[0] for row in base.execute("SELECT key FROM tags")}
    return [name for name in names if key(name) in keys]


def tags(store: Store, text: str | None = None) -> list[TagView]:
    """All tags, or those that hold a text, by name."""
    with store.read() as base:
        rows = base.execute(
            "SELECT name, own, accepted, rejected, waiting, learned, needed, precision, recall, "
            "hidden FROM tags WHERE ?1 = '' OR instr(key, ?1) ORDER BY key",
            (key(text or ""),),
        ).fetchall()
    views = [
        TagView(
            name=name,
            own=own,
            accepted=accepted,
            rejected=rejected,
            waiting=waits,
            learned=bool(learned),
            needed=needed,
            precision=precision,
            recall=recall,
            hidden=bool(hidden),
        )
        for name, own, accepted, rejected, waits, learned, needed, precision, recall, hidden in rows
    ]
    # One that was new and taken back is in the journal only.
    return [view for view in views if view.own or view.rejected or view.waiting or view.hidden]


def hide(store: Store, name: str, hidden: bool) -> None:
    """A hidden tag is never suggested; what waits goes."""
    with store.write() as base:
        tag = meant(base, name)
        base.execute("UPDATE tags SET hidden = ?, suggested = -1 WHERE id = ?", (hidden, tag))
        if hidden:
            base.execute("DELETE FROM suggestions WHERE tag = ?", (tag,))


def rename(store: Store, old: str, new: str) -> None:
    """Give a tag another name; if that is a tag already, the two become one.

    Files that still say the old name mean the new one from then on.
    """
    spelt = clean(new)
    if not spelt:
        raise InputError(f"{new!r} is no tag: it has no characters that can be written.")
    with store.write() as base:
        tag = meant(base, old)
        target = known(base, new)
        former = base.execute("SELECT name FROM tags WHERE id = ?", (tag,)).fetchone()[0]
        if target in (None, tag):
            base.execute("DELETE FROM aliases WHERE key = ?", (key(spelt),))
            base.execute("UPDATE tags SET name = ?, key = ? WHERE id = ?", (spelt, key(spelt), tag))
            target = tag
        else:
            _join(base, tag, target)
        if key(former) != key(spelt):
            base.execute(
                "INSERT OR REPLACE INTO aliases VALUES (?, ?, ?)", (key(former), former, target)
            )


def _join(base: sqlite3.Connection, tag: int, target: int) -> None:
    """All of one tag becomes the other's. A decision outweighs a file, and a yes to either a no."""
    rows = base.execute(
        "SELECT a.picture, a.value, a.origin, a.found, b.value, b.origin, b.found FROM labels a "
        "LEFT JOIN labels b ON b.picture = a.picture AND b.tag = ? WHERE a.tag = ?",
        (target, tag),
    ).fetchall()
    joined = []
    for picture, value, origin, found, *other in rows:
        if other[0] is not None:
            if origin == other[1]:
                value = max(value, other[0])
            elif other[1] == DECIDED:
                value = other[0]
            origin = DECIDED if DECIDED in (origin, other[1]) else FOUND
            said = [one for one in (found, other[2]) if one is not None]
            found = max(said) if said else None
        joined.append((picture, target, value, origin, found))
    base.execute("DELETE FROM labels WHERE tag = ?", (tag,))
    # No REPLACE, whose deletions the counting triggers would not see.
    base.executemany(
        "INSERT INTO labels VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "value = excluded.value, origin = excluded.origin, found = excluded.found",
        joined,
    )
    base.execute("UPDATE decisions SET tag = ? WHERE tag = ?", (target, tag))
    base.execute("UPDATE aliases SET tag = ? WHERE tag = ?", (target, tag))
    base.execute(
        "DELETE FROM suggestions WHERE tag = ?1 OR (tag = ?2 AND picture IN "
        "(SELECT picture FROM labels WHERE tag = ?2))",
        (tag, target),
    )
    base.execute("DELETE FROM tags WHERE id = ?", (tag,))
