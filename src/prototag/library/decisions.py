"""Decisions on pictures and tags, kept in a journal with exact, selective undo.

A decision changes the label of a pair and removes its suggestion. Its row in the journal has both
(``undo_state``: the value of an earlier decision, and the suggestion), so that undoing restores
them; the label from files is kept beside and counts again.

Several people and programs decide in one library at the same time. So undo and redo name a batch,
and change only those of its decisions that no later decision on the same pair overrides.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from prototag.errors import ConflictError, InputError, Remedy, UnknownNameError
from prototag.library import tag_table
from prototag.library.database import SOURCE_DECISION, SOURCE_FILE, Store
from prototag.library.types import (
    ACCEPTED,
    CLEARED,
    COMPLETE,
    INCOMPLETE,
    REJECTED,
    VERDICTS,
    Batch,
    BatchChange,
    Decision,
)

_VALUES = {ACCEPTED: 1, REJECTED: 0}
_COLUMNS = "d.id, d.picture, t.name, d.verdict, d.decided_at, d.decided_by, d.batch, d.undone"
_FROM = "FROM decisions d LEFT JOIN tags t ON t.id = d.tag"


def decide(
    store: Store, pairs: Iterable[tuple[int, str | None, str]], by: str, new: bool = False
) -> Batch:
    """Make decisions of (picture, tag, verdict) in one transaction and one batch.

    An accepted tag may be new, with ``new`` any tag; a picture as a whole (tag None) is COMPLETE or
    INCOMPLETE. Decisions that change nothing are not recorded.

    Raises
    ------
    InputError
        There is no such picture, tag or verdict: nothing was decided.
    """
    if not by or not by.isprintable():
        raise InputError(f"by={by!r}: give a name in printable characters.")
    pairs = list(pairs)
    numbers: dict[tuple[str | None, bool], int | None] = {}
    count = 0
    with store.write() as conn:
        # A counter, because pruning pictures lowers the highest number in the journal, and an old
        # number must never undo a new decision.
        query = "SELECT 1 + value FROM counters WHERE name = 'batches'"
        batch: int = conn.execute(query).fetchone()[0]
        now = time.time()
        for picture, tag, verdict in pairs:
            _check(conn, picture, tag, verdict)
            name = tag, verdict == ACCEPTED
            if name not in numbers:
                numbers[name] = _number(conn, *name, new)
            undo_state = _apply(conn, picture, numbers[name], verdict)
            if undo_state is not None:
                conn.execute(
                    "INSERT INTO decisions (picture, tag, verdict, decided_at, decided_by, batch, "
                    "undo_state) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (picture, numbers[name], verdict, now, by, batch, undo_state or None),
                )
                count += 1
    return Batch(batch if count else None, count)


def _number(conn: sqlite3.Connection, tag: str | None, accepted: bool, new: bool) -> int | None:
    if tag is None:
        return None
    if accepted:
        return tag_table.get_or_create_tag(conn, tag)
    try:
        return tag_table.resolve_tag(conn, tag)
    except InputError:
        if not new:
            raise
        return tag_table.get_or_create_tag(conn, tag)


def _check(conn: sqlite3.Connection, picture: int, tag: str | None, verdict: str) -> None:
    allowed = (COMPLETE, INCOMPLETE) if tag is None else VERDICTS
    if verdict not in allowed:
        subject = "a picture as a whole" if tag is None else "a tag"
        raise InputError(f"{verdict!r} is no verdict on {subject}: give {' or '.join(allowed)}.")
    if conn.execute("SELECT 1 FROM pictures WHERE id = ?", (picture,)).fetchone() is None:
        raise UnknownNameError(f"the library has no picture {picture}.")


def _apply(conn: sqlite3.Connection, picture: int, tag: int | None, verdict: str) -> str | None:
    """Apply a decision to the label; return its undo state, "" if empty, None for no change."""
    if tag is None:
        complete = int(verdict == COMPLETE)
        query = "SELECT complete FROM pictures WHERE id = ?"
        if conn.execute(query, (picture,)).fetchone()[0] == complete:
            return None
        return _mark_complete(conn, picture, complete)
    label = conn.execute(
        "SELECT value, source FROM labels WHERE picture = ? AND tag = ?", (picture, tag)
    ).fetchone()
    earlier = label[0] if label is not None and label[1] == SOURCE_DECISION else None
    if earlier == _VALUES.get(verdict):
        return None
    _write_label(conn, picture, tag, _VALUES.get(verdict))
    suggestion = None
    if verdict != CLEARED:
        suggestion = conn.execute(
            "DELETE FROM suggestions WHERE tag = ? AND picture = ? "
            "RETURNING probability, model, duplicate_group",
            (tag, picture),
        ).fetchone()
    if earlier is None and suggestion is None:
        return ""
    return json.dumps([earlier, *(suggestion or ())], separators=(",", ":"))


def _mark_complete(conn: sqlite3.Connection, picture: int, complete: int) -> str:
    """Mark a picture complete, without suggestions, or incomplete; return the undo state."""
    conn.execute("UPDATE pictures SET complete = ? WHERE id = ?", (complete, picture))
    if not complete:
        conn.execute("UPDATE tags SET suggested_changes = -1")  # to suggest its tags again
        return ""
    suggestions = conn.execute(
        "DELETE FROM suggestions WHERE picture = ? "
        "RETURNING tag, probability, model, duplicate_group",
        (picture,),
    ).fetchall()
    return json.dumps([None, sorted(suggestions)], separators=(",", ":")) if suggestions else ""


def _write_label(conn: sqlite3.Connection, picture: int, tag: int, decided: int | None) -> None:
    """Write the decided label of a pair, or for None the label from files."""
    if decided is not None:
        conn.execute(
            "INSERT INTO labels (picture, tag, value, source) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET value = excluded.value, source = excluded.source",
            (picture, tag, decided, SOURCE_DECISION),
        )
        return
    conn.execute(
        "DELETE FROM labels WHERE picture = ? AND tag = ? AND file_value IS NULL", (picture, tag)
    )
    conn.execute(
        "UPDATE labels SET value = file_value, source = ? WHERE picture = ? AND tag = ?",
        (SOURCE_FILE, picture, tag),
    )


def tags_decided_by(store: Store, picture: int, by: str) -> list[str]:
    """Return the tags of a picture whose last decision is by ``by`` and not cleared."""
    with store.read() as conn:
        rows = conn.execute(
            f"SELECT t.name, d.decided_by, d.verdict, max(d.id) {_FROM} WHERE d.tag IS NOT NULL "
            "AND d.picture = ? AND NOT d.undone GROUP BY d.tag ORDER BY t.name",
            (picture,),
        ).fetchall()
    return [name for name, who, verdict, _ in rows if who == by and verdict != CLEARED]


def undo(store: Store, batch: int) -> BatchChange:
    """Undo the decisions of a batch that no later decision overrides.

    Raises
    ------
    InputError
        There is no such batch.
    ConflictError
        All its decisions are undone already or overridden: nothing was changed.
    """
    with store.write() as conn:
        rows = _rows_of_batch(conn, batch, undone=False)
        undone, overridden = _split(rows)
        if not undone:
            raise _conflict(conn, batch, overridden, "undo")
        for row in reversed(undone):
            decision = row.decision
            if row.tag is None:
                _mark_complete(conn, decision.picture, int(decision.verdict == INCOMPLETE))
                for other, *suggestion in json.loads(row.undo_state)[1] if row.undo_state else ():
                    _restore_suggestion(conn, decision.picture, other, suggestion)
            else:
                _restore_pair(conn, decision.picture, row.tag, row.undo_state)
            conn.execute("UPDATE decisions SET undone = 1 WHERE id = ?", (decision.number,))
    changed = [row.decision._replace(undone=True) for row in reversed(undone)]
    return BatchChange(batch, changed, [row.decision for row in reversed(overridden)])


def redo(store: Store, batch: int) -> BatchChange:
    """Redo the undone decisions of a batch that no later decision overrides.

    Raises
    ------
    InputError
        There is no such batch.
    ConflictError
        No decision is undone, or later ones override all of them: nothing was changed.
    """
    redone: list[_Row] = []
    with store.write() as conn:
        free, overridden = _split(_rows_of_batch(conn, batch, undone=True))
        for row in free:
            decision = row.decision
            undo_state = _apply(conn, decision.picture, row.tag, decision.verdict)
            if undo_state is None:  # the pair has this label already
                overridden.append(row)
                continue
            # Undoing restores the state of now, which may differ from the state of then.
            conn.execute(
                "UPDATE decisions SET undone = 0, undo_state = ? WHERE id = ?",
                (undo_state or None, decision.number),
            )
            redone.append(row)
        if not redone:
            raise _conflict(conn, batch, overridden, "redo")
    changes = [row.decision._replace(undone=False) for row in reversed(redone)]
    return BatchChange(batch, changes, [row.decision for row in reversed(overridden)])


class _Row(NamedTuple):
    """A row of the journal, with what undoing it needs: the number of the tag and the state."""

    decision: Decision
    tag: int | None
    undo_state: str | None
    is_overridden: bool  # by a later decision of another batch on its pair


def _rows_of_batch(conn: sqlite3.Connection, batch: int, undone: bool) -> list[_Row]:
    rows = conn.execute(
        f"SELECT {_COLUMNS}, d.tag, d.undo_state, EXISTS (SELECT 1 FROM decisions o "
        "WHERE o.picture = d.picture AND o.tag IS d.tag AND o.id > d.id AND o.batch != d.batch "
        f"AND o.undone = 0) {_FROM} WHERE d.batch = ? AND d.undone = ? ORDER BY d.id",
        (batch, undone),
    ).fetchall()
    return [_Row(_decision(row), tag, before, bool(later)) for *row, tag, before, later in rows]


def _split(rows: list[_Row]) -> tuple[list[_Row], list[_Row]]:
    """Separate the rows that may change from those that a later decision overrides."""
    free = [row for row in rows if not row.is_overridden]
    return free, [row for row in rows if row.is_overridden]


def _conflict(
    conn: sqlite3.Connection, batch: int, overridden: list[_Row], verb: str
) -> UnknownNameError | ConflictError:
    """Return the error that tells why nothing of a batch can be undone or redone."""
    if conn.execute("SELECT 1 FROM decisions WHERE batch = ?", (batch,)).fetchone() is None:
        return UnknownNameError(
            f"there is no batch {batch} of decisions", remedy=Remedy.LIST_BATCHES
        )
    if not overridden:
        state = "is undone already" if verb == "undo" else "is not undone"
        return ConflictError(f"batch {batch} {state}: nothing was changed.")
    one = overridden[-1]
    later = conn.execute(
        "SELECT batch, decided_by FROM decisions WHERE picture = ? AND tag IS ? AND id > ? "
        "AND undone = 0 ORDER BY id DESC LIMIT 1",
        (one.decision.picture, one.tag, one.decision.number),
    ).fetchone()
    if later is None:
        return ConflictError(f"batch {batch} would change nothing: the labels are so already.")
    later_batch, by = later
    return ConflictError(
        f"batch {batch} was overridden by batch {later_batch} (by {by}), which decided on the "
        f"same pictures and tags later: {verb} nothing, or undo batch {later_batch} first."
    )


def _restore_pair(conn: sqlite3.Connection, picture: int, tag: int, undo_state: str | None) -> None:
    earlier, *suggestion = json.loads(undo_state) if undo_state else [None]
    _write_label(conn, picture, tag, earlier)
    if suggestion:
        _restore_suggestion(conn, picture, tag, suggestion)


def _restore_suggestion(
    conn: sqlite3.Connection, picture: int, tag: int, suggestion: list[Any]
) -> None:
    """Restore a suggestion, unless a later model has replaced it or the pair is not open."""
    conn.execute(
        "INSERT OR IGNORE INTO suggestions (tag, picture, probability, model, duplicate_group) "
        "SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS "
        "(SELECT 1 FROM models WHERE is_current = 1 AND number != ?4) "
        "AND EXISTS (SELECT 1 FROM tags WHERE id = ?1 AND NOT hidden) "
        "AND NOT EXISTS (SELECT 1 FROM labels WHERE tag = ?1 AND picture = ?2) "
        "AND EXISTS (SELECT 1 FROM pictures WHERE id = ?2 AND NOT complete)",
        (tag, picture, *suggestion),
    )


def history(store: Store, limit: int, before: int | None) -> list[Decision]:
    """Return decisions, the last first, with ``before`` those of lower numbers only."""
    if limit < 1:
        raise InputError(f"limit={limit}: give at least 1.")
    with store.read() as conn:
        rows = conn.execute(
            f"SELECT {_COLUMNS} {_FROM} WHERE d.id < ? ORDER BY d.id DESC LIMIT ?",
            (1 << 62 if before is None else before, limit),
        ).fetchall()
    return [_decision(row) for row in rows]


def _decision(row: Iterable[Any]) -> Decision:
    number, picture, tag, verdict, at, by, batch, undone = row
    return Decision(number, picture, tag, verdict, at, by, batch, bool(undone))
