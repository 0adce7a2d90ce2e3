"""Queries and updates of tags: resolve by user input, create, rename, merge, hide, list."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from prototag.errors import InputError, UnknownNameError
from prototag.library.database import SOURCE_DECISION, SOURCE_FILE, Store
from prototag.library.types import TagView
from prototag.metadata.tag_names import SEPARATOR, TagLookup, clean, key


def find_tag(conn: sqlite3.Connection, name: str) -> int | None:
    """Return the number of the tag that has, or had, exactly this name, in any case."""
    row = conn.execute(
        "SELECT id FROM tags WHERE key = ?1 UNION ALL SELECT tag FROM aliases WHERE key = ?1",
        (key(name),),
    ).fetchone()
    return None if row is None else int(row[0])


def resolve_tag(conn: sqlite3.Connection, name: str) -> int:
    """Return the number of a tag by user input, which may lack case, accents or a path.

    Raises
    ------
    InputError
        No tag, or more than one, matches.
    """
    number = find_tag(conn, name)
    if number is not None:
        return number
    every = TagLookup(row[0] for row in conn.execute("SELECT name FROM tags ORDER BY name"))
    names = every.find_all([name], owner="the library has")
    if len(names) > 1:
        candidates = " or ".join(map(repr, names[:5]))
        raise InputError(f"{name!r} may mean {candidates}: give the full name.")
    return int(conn.execute("SELECT id FROM tags WHERE name = ?", names).fetchone()[0])


def is_tag(store: Store, name: str) -> bool:
    """Return whether a name means one or more tags."""
    with store.read() as conn:
        try:
            resolve_tag(conn, name)
        except UnknownNameError:
            return False
        except InputError:
            return True  # it is ambiguous
    return True


def get_or_create_tag(conn: sqlite3.Connection, name: str) -> int:
    """Return the number of a tag, creating it if it is new.

    ``cat`` is ``animal|cat`` if that is the only tag that ends so.
    """
    number = find_tag(conn, name)
    if number is not None:
        return number
    if SEPARATOR not in name:
        ends = conn.execute(
            "SELECT id FROM tags WHERE substr(key, -?) = ?",
            (len(key(name)) + 1, SEPARATOR + key(name)),
        ).fetchmany(2)
        if len(ends) == 1:
            return int(ends[0][0])
    return create_tag_if_new(conn, name)


def create_tag_if_new(conn: sqlite3.Connection, name: str) -> int:
    """Return the number of the tag of exactly this name, creating it if it is new."""
    number = find_tag(conn, name)
    if number is not None:
        return number
    spelt = clean(name)
    if not spelt:
        raise InputError(f"{name!r} is no tag: it has no characters that can be written.")
    row = conn.execute(
        "INSERT INTO tags (name, key) VALUES (?, ?) RETURNING id", (spelt, key(spelt))
    ).fetchone()
    return int(row[0])


def existing_tags(store: Store, names: Iterable[str]) -> list[str]:
    """Return those of the names that are tags of the library, in their order."""
    with store.read() as conn:
        keys = {row[0] for row in conn.execute("SELECT key FROM tags")}
    return [name for name in names if key(name) in keys]


def tags(store: Store, text: str | None = None) -> list[TagView]:
    """Return all tags, or those that contain a text, by name."""
    with store.read() as conn:
        rows = conn.execute(
            "SELECT name, n_pictures, n_accepted, n_rejected, n_suggestions, learned, n_needed, "
            "precision, recall, hidden FROM tags WHERE ?1 = '' OR instr(key, ?1) ORDER BY key",
            (key(text or ""),),
        ).fetchall()
    views = []
    for (
        name,
        pictures,
        accepted,
        rejected,
        suggestions,
        learned,
        needed,
        precision,
        recall,
        hidden,
    ) in rows:
        view = TagView(
            name=name,
            pictures=pictures,
            accepted=accepted,
            rejected=rejected,
            suggestions=suggestions,
            learned=bool(learned),
            pictures_needed=needed,
            precision=precision,
            recall=recall,
            hidden=bool(hidden),
        )
        views.append(view)
    # A new tag whose decisions were undone exists in the journal only.
    return [
        view for view in views if view.pictures or view.rejected or view.suggestions or view.hidden
    ]


def hide(store: Store, name: str, hidden: bool, new: bool = False) -> None:
    """Hide a tag, removing its suggestions, or show it again; with ``new`` it may be new."""
    with store.write() as conn:
        tag = create_tag_if_new(conn, name) if new else resolve_tag(conn, name)
        conn.execute(
            "UPDATE tags SET hidden = ?, suggested_changes = -1 WHERE id = ?", (hidden, tag)
        )
        if hidden:
            conn.execute("DELETE FROM suggestions WHERE tag = ?", (tag,))


def rename(store: Store, old: str, new: str) -> None:
    """Rename a tag; if the new name is a tag already, merge the two.

    The old name becomes an alias, for files that still have it.
    """
    spelt = clean(new)
    if not spelt:
        raise InputError(f"{new!r} is no tag: it has no characters that can be written.")
    with store.write() as conn:
        tag = resolve_tag(conn, old)
        target = find_tag(conn, new)
        former = conn.execute("SELECT name FROM tags WHERE id = ?", (tag,)).fetchone()[0]
        if target in (None, tag):
            conn.execute("DELETE FROM aliases WHERE key = ?", (key(spelt),))
            conn.execute("UPDATE tags SET name = ?, key = ? WHERE id = ?", (spelt, key(spelt), tag))
            target = tag
        else:
            _merge(conn, tag, target)
        if key(former) != key(spelt):
            conn.execute(
                "INSERT OR REPLACE INTO aliases VALUES (?, ?, ?)", (key(former), former, target)
            )


class _Label(NamedTuple):
    picture: int
    value: int
    source: str
    file_value: int | None


def _merged(label: _Label, other: _Label | None) -> _Label:
    if other is None:
        return label
    if label.source == other.source:
        value = max(label.value, other.value)
    else:
        value = label.value if label.source == SOURCE_DECISION else other.value
    sources = {label.source, other.source}
    source = SOURCE_DECISION if SOURCE_DECISION in sources else SOURCE_FILE
    file_values = [one for one in (label.file_value, other.file_value) if one is not None]
    return _Label(label.picture, value, source, max(file_values, default=None))


def _merge(conn: sqlite3.Connection, tag: int, target: int) -> None:
    """Merge a tag into another one. Decisions override files; accepted overrides rejected."""
    select = "SELECT picture, value, source, file_value FROM labels WHERE tag = ?"
    before = {label.picture: label for label in map(_Label._make, conn.execute(select, (target,)))}
    merged = []
    for label in map(_Label._make, conn.execute(select, (tag,)).fetchall()):
        result = _merged(label, before.get(label.picture))
        merged.append((result.picture, target, result.value, result.source, result.file_value))
    conn.execute("DELETE FROM labels WHERE tag = ?", (tag,))
    # No REPLACE, whose deletions the counting triggers would not see.
    conn.executemany(
        "INSERT INTO labels VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "value = excluded.value, source = excluded.source, file_value = excluded.file_value",
        merged,
    )
    conn.execute("UPDATE decisions SET tag = ? WHERE tag = ?", (target, tag))
    conn.execute("UPDATE aliases SET tag = ? WHERE tag = ?", (target, tag))
    conn.execute(
        "DELETE FROM suggestions WHERE tag = ?1 OR (tag = ?2 AND picture IN "
        "(SELECT picture FROM labels WHERE tag = ?2))",
        (tag, target),
    )
    conn.execute("DELETE FROM tags WHERE id = ?", (tag,))
