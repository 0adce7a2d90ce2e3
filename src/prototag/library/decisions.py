"""Decisions: what a person says of a picture, kept in a journal with exact, selective undo.

A decision changes the label of a pair and removes its suggestion. Its row in the journal remembers
both (``before``: the earlier decision if there was one, and the suggestion), so that undoing brings
back what was; what files say meanwhile is kept beside, and is what counts again.

Several people and programs decide in one library at the same time. So undo and redo name the batch
they mean, and change only those of its decisions that no later decision on the same picture and tag
overrides: the later one was made by somebody who saw the earlier one, and stays.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from prototag.errors import ConflictError, InputError, Remedy, UnknownNameError
from prototag.library import tag_table
from prototag.library.database import DECIDED, FOUND, Store
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
_COLUMNS = "d.id, d.picture, t.name, d.verdict, d.at, d.by, d.batch, d.undone"
_FROM = "FROM decisions d LEFT JOIN tags t ON t.id = d.tag"


def decide(
    store: Store, pairs: Iterable[tuple[int, str | None, str]], by: str, new: bool = False
) -> Batch:
    """Make decisions of (picture, tag, verdict) in one transaction and one batch.

    A tag that is accepted may be new, with ``new`` any; a picture as a whole (tag None) is COMPLETE
    or INCOMPLETE. What changes nothing is not written down.

    Raises
    ------
    InputError
        There is no such picture, tag or verdict: nothing was decided.
    """
    if not by or not by.isprintable():
        raise InputError(f"by={by!r}: say in printable characters who decides.")
    pairs = list(pairs)
    numbers: dict[tuple[str | None, bool], int | None] = {}
    count = 0
    with store.write() as base:
        # A counter, because the highest number in the journal falls when pictures are pruned, and
        # an old number must never undo a new decision.
        query = "SELECT 1 + value FROM counts WHERE name = 'batches'"
        batch: int = base.execute(query).fetchone()[0]
        now = time.time()
        for picture, tag, verdict in pairs:
            _check(base, picture, tag, verdict)
            name = tag, verdict == ACCEPTED
            if name not in numbers:
                numbers[name] = _number(base, *name, new)
            changed = _changed(base, picture, numbers[name], verdict)
            if changed is not None:
                base.execute(
                    "INSERT INTO decisions (picture, tag, verdict, at, by, batch, before) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (picture, numbers[name], verdict, now, by, batch, changed or None),
                )
                count += 1
    return Batch(batch if count else None, count)


def _number(base: sqlite3.Connection, tag: str | None, accepted: bool, new: bool) -> int | None:
    if tag is None:
        return None
    if accepted:
        return tag_table.made(base, tag)
    try:
        return tag_table.meant(base, tag)
    except InputError:
        if not new:
            raise
        return tag_table.made(base, tag)


def _check(base: sqlite3.Connection, picture: int, tag: str | None, verdict: str) -> None:
    allowed = (COMPLETE, INCOMPLETE) if tag is None else VERDICTS
    if verdict not in allowed:
        of = "a picture as a whole" if tag is None else "a tag"
        raise InputError(f"{verdict!r} cannot be said of {of}: {' or '.join(allowed)} can.")
    if base.execute("SELECT 1 FROM pictures WHERE id = ?", (picture,)).fetchone() is None:
        raise UnknownNameError(f"the library has no picture {picture}.")


def _changed(base: sqlite3.Connection, picture: int, tag: int | None, verdict: str) -> str | None:
    """Make a decision; what was before, "" for nothing, None where nothing changes."""
    if tag is None:
        wanted = int(verdict == COMPLETE)
        query = "SELECT complete FROM pictures WHERE id = ?"
        if base.execute(query, (picture,)).fetchone()[0] == wanted:
            return None
        return _mark(base, picture, wanted)
    label = base.execute(
        "SELECT value, origin FROM labels WHERE picture = ? AND tag = ?", (picture, tag)
    ).fetchone()
    earlier = label[0] if label is not None and label[1] == DECIDED else None
    if earlier == _VALUES.get(verdict):
        return None
    _set(base, picture, tag, _VALUES.get(verdict))
    waited = None
    if verdict != CLEARED:
        waited = base.execute(
            "DELETE FROM suggestions WHERE tag = ? AND picture = ? "
            "RETURNING probability, model, grouped",
            (tag, picture),
        ).fetchone()
    if earlier is None and waited is None:
        return ""
    return json.dumps([earlier, *(waited or ())], separators=(",", ":"))


def _mark(base: sqlite3.Connection, picture: int, complete: int) -> str:
    """Mark a picture; of one that is complete nothing waits, and what did is returned."""
    base.execute("UPDATE pictures SET complete = ? WHERE id = ?", (complete, picture))
    if not complete:
        base.execute("UPDATE tags SET suggested = -1")  # what it may have is suggested again
        return ""
    waited = base.execute(
        "DELETE FROM suggestions WHERE picture = ? RETURNING tag, probability, model, grouped",
        (picture,),
    ).fetchall()
    return json.dumps([None, sorted(waited)], separators=(",", ":")) if waited else ""


def _set(base: sqlite3.Connection, picture: int, tag: int, decided: int | None) -> None:
    """A pair is decided so, or undecided: then what the files say counts."""
    if decided is not None:
        base.execute(
            "INSERT INTO labels (picture, tag, value, origin) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET value = excluded.value, origin = excluded.origin",
            (picture, tag, decided, DECIDED),
        )
        return
    base.execute(
        "DELETE FROM labels WHERE picture = ? AND tag = ? AND found IS NULL", (picture, tag)
    )
    base.execute(
        "UPDATE labels SET value = found, origin = ? WHERE picture = ? AND tag = ?",
        (FOUND, picture, tag),
    )


def standing(store: Store, picture: int, by: str) -> list[str]:
    """Tags of a picture whose last decision is this one's, and says something."""
    with store.read() as base:
        rows = base.execute(
            f"SELECT t.name, d.by, d.verdict, max(d.id) {_FROM} WHERE d.tag IS NOT NULL "
            "AND d.picture = ? AND NOT d.undone GROUP BY d.tag ORDER BY t.name",
            (picture,),
        ).fetchall()
    return [name for name, who, verdict, _ in rows if who == by and verdict != CLEARED]


def undo(store: Store, batch: int) -> BatchChange:
    """Undo what stands of a batch and no later decision overrides; what was undone, last first.

    Raises
    ------
    InputError
        There is no such batch.
    ConflictError
        It was undone already, or all that stands of it is overridden: nothing was changed.
    """
    with store.write() as base:
        rows = _of_batch(base, batch, undone=False)
        undone, overridden = _split(rows)
        if not undone:
            raise _conflict(base, batch, overridden, "undo")
        for row in reversed(undone):
            decision = row.decision
            if row.tag is None:
                _mark(base, decision.picture, int(decision.verdict == INCOMPLETE))
                for other, *waited in json.loads(row.before)[1] if row.before else ():
                    _wait_again(base, decision.picture, other, waited)
            else:
                _restore(base, decision.picture, row.tag, row.before)
            base.execute("UPDATE decisions SET undone = 1 WHERE id = ?", (decision.number,))
    changed = [row.decision._replace(undone=True) for row in reversed(undone)]
    return BatchChange(batch, changed, [row.decision for row in reversed(overridden)])


def redo(store: Store, batch: int) -> BatchChange:
    """Decide again what was undone of a batch, except where somebody has decided since.

    Raises
    ------
    InputError
        There is no such batch.
    ConflictError
        Nothing of it is undone, or all of that was decided since: nothing was changed.
    """
    redone: list[_Row] = []
    with store.write() as base:
        free, overridden = _split(_of_batch(base, batch, undone=True))
        for row in free:
            decision = row.decision
            changed = _changed(base, decision.picture, row.tag, decision.verdict)
            if changed is None:  # an earlier decision that was undone later says the same
                overridden.append(row)
                continue
            # What undoing brings back is the state of now, which may not be that of then.
            base.execute(
                "UPDATE decisions SET undone = 0, before = ? WHERE id = ?",
                (changed or None, decision.number),
            )
            redone.append(row)
        if not redone:
            raise _conflict(base, batch, overridden, "redo")
    changes = [row.decision._replace(undone=False) for row in reversed(redone)]
    return BatchChange(batch, changes, [row.decision for row in reversed(overridden)])


class _Row(NamedTuple):
    """A row of the journal, with what undoing it needs."""

    decision: Decision
    tag: int | None
    before: str | None
    is_overridden: bool  # whether a later decision of another batch stands for its pair


def _of_batch(base: sqlite3.Connection, batch: int, undone: bool) -> list[_Row]:
    rows = base.execute(
        f"SELECT {_COLUMNS}, d.tag, d.before, EXISTS (SELECT 1 FROM decisions o "
        "WHERE o.picture = d.picture AND o.tag IS d.tag AND o.id > d.id AND o.batch != d.batch "
        f"AND o.undone = 0) {_FROM} WHERE d.batch = ? AND d.undone = ? ORDER BY d.id",
        (batch, undone),
    ).fetchall()
    return [_Row(_decision(row), tag, before, bool(later)) for *row, tag, before, later in rows]


def _split(rows: list[_Row]) -> tuple[list[_Row], list[_Row]]:
    """Those that may change, and those that a later decision overrides."""
    free = [row for row in rows if not row.is_overridden]
    return free, [row for row in rows if row.is_overridden]


def _conflict(
    base: sqlite3.Connection, batch: int, overridden: list[_Row], verb: str
) -> UnknownNameError | ConflictError:
    """Why nothing of a batch can be undone or redone."""
    if base.execute("SELECT 1 FROM decisions WHERE batch = ?", (batch,)).fetchone() is None:
        return UnknownNameError(
            f"there is no batch {batch} of decisions", remedy=Remedy.LIST_BATCHES
        )
    if not overridden:
        state = "is undone already" if verb == "undo" else "is not undone"
        return ConflictError(f"batch {batch} {state}: nothing was changed.")
    one = overridden[-1]
    later = base.execute(
        "SELECT batch, by FROM decisions WHERE picture = ? AND tag IS ? AND id > ? AND undone = 0 "
        "ORDER BY id DESC LIMIT 1",
        (one.decision.picture, one.tag, one.decision.number),
    ).fetchone()
    if later is None:
        return ConflictError(f"batch {batch} would change nothing: the decisions stand so.")
    return ConflictError(
        f"batch {batch} was overridden by batch {later[0]} (by {later[1]}), which decided on the "
        f"same pictures and tags later: {verb} nothing, or undo batch {later[0]} first."
    )


def _restore(base: sqlite3.Connection, picture: int, tag: int, before: str | None) -> None:
    earlier, *waited = json.loads(before) if before else [None]
    _set(base, picture, tag, earlier)
    if waited:
        _wait_again(base, picture, tag, waited)


def _wait_again(base: sqlite3.Connection, picture: int, tag: int, waited: list[Any]) -> None:
    """What was suggested before a decision; a later model has said what it thinks since."""
    base.execute(
        "INSERT OR IGNORE INTO suggestions (tag, picture, probability, model, grouped) "
        "SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT EXISTS "
        "(SELECT 1 FROM models WHERE current = 1 AND number != ?4) "
        "AND EXISTS (SELECT 1 FROM tags WHERE id = ?1 AND NOT hidden) "
        "AND NOT EXISTS (SELECT 1 FROM labels WHERE tag = ?1 AND picture = ?2) "
        "AND EXISTS (SELECT 1 FROM pictures WHERE id = ?2 AND NOT complete)",
        (tag, picture, *waited),
    )


def history(store: Store, limit: int, before: int | None) -> list[Decision]:
    """Decisions, the last first; those with numbers below ``before`` if it is given."""
    if limit < 1:
        raise InputError(f"limit={limit}: give at least 1.")
    with store.read() as base:
        rows = base.execute(
            f"SELECT {_COLUMNS} {_FROM} WHERE d.id < ? ORDER BY d.id DESC LIMIT ?",
            (1 << 62 if before is None else before, limit),
        ).fetchall()
    return [_decision(row) for row in rows]


def _decision(row: Iterable[Any]) -> Decision:
    number, picture, tag, verdict, at, by, batch, undone = row
    return Decision(number, picture, tag, verdict, at, by, batch, bool(undone))
