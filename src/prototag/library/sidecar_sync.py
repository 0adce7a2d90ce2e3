"""Library and files brought together: what files say comes in, what was accepted goes out.

Accepted tags are written into sidecars as the person's own. The library remembers which it wrote,
and which of them stood there already: one that is missing later was taken away by the person, and
counts as rejected. Pictures are never written to.

Whatever ends a sync, the next one goes on: what is being written is noted before (``done`` 0) and
confirmed after, so that a tag that never reached the disk is not taken for one that was removed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from prototag import metadata
from prototag.engine.threads import map_in_order
from prototag.errors import MetadataError
from prototag.events import Meter, Progress
from prototag.library import decisions, file_labels
from prototag.library.database import Store
from prototag.library.scan import Look, Said, look
from prototag.library.types import CLEARED, REJECTED, Incoming, Synced, SyncPlan
from prototag.metadata import write_policy
from prototag.metadata.find_files import identity
from prototag.metadata.tag_names import key, leaf
from prototag.metadata.write_policy import WRITERS, Write

BY = "sidecar"  # who decides where a person has changed tags in files
BATCH = 32  # sidecars between two notes in the library
STAGE = "Writing sidecars"


class _Written(NamedTuple):
    """A tag that the files of a place had when library and files agreed."""

    name: str
    ours: int
    done: int


def plan_sync(store: Store, progress: Progress | None = None) -> SyncPlan:
    """What :func:`sync` would change; changes nothing."""
    seen = look(store, progress)
    problems = [*seen.problems]
    with store.read() as base:
        changes: list[file_labels.Told] = []
        if seen.is_news:
            rows = file_labels.rows_after(base, seen)
            changes = list(file_labels.differences(base, rows, seen.roots))
        numbers = file_labels.numbers_of(base)
        written = _written(base, seen)
        synced = dict(base.execute("SELECT path, synced FROM places WHERE synced IS NOT NULL"))
        accepted = _accepted(base)
        rejected = set()
        for path, names in written.items():
            stamp = seen.seen[path].tags_stamp
            if stamp is None or synced.get(path) != stamp:
                picture = seen.known[path].picture
                for name in _taken_away(path, names, seen, problems):
                    if accepted.get(picture, {}).pop(numbers.get(key(name), -1), None):
                        rejected.add((picture, name))
        outgoing = list(_outgoing(seen, accepted, written, numbers, problems))
        kept, restored = _contradictions(base, changes)
        incoming = _incoming(base, changes)
    return SyncPlan(
        incoming=incoming,
        rejected=sorted(rejected),
        restored=restored,
        outgoing=outgoing,
        kept=kept,
        problems=problems,
        seen=seen,
    )


def _incoming(base: sqlite3.Connection, changes: list[file_labels.Told]) -> list[Incoming]:
    names = dict(base.execute("SELECT id, name FROM tags").fetchall())
    return [
        Incoming(
            told.picture,
            [name for name, value in told.now.items() if value],
            [name for name, value in told.now.items() if not value],
            [names[tag] for tag in told.gone],
        )
        for told in changes
    ]


def _written(base: sqlite3.Connection, seen: Look) -> dict[bytes, list[_Written]]:
    """What was written to places that are there and known."""
    rows: dict[bytes, list[_Written]] = {}
    for path, *row in base.execute("SELECT path, name, ours, done FROM written"):
        if path in seen.seen and path in seen.known:
            rows.setdefault(bytes(path), []).append(_Written(*row))
    return rows


def _accepted(base: sqlite3.Connection) -> dict[int, dict[int, str]]:
    """Accepted tags of each picture, by number."""
    accepted: dict[int, dict[int, str]] = {}
    for picture, tag, name in base.execute(
        "SELECT l.picture, l.tag, t.name FROM labels l JOIN tags t ON t.id = l.tag "
        "WHERE l.origin = 'decided' AND l.value = 1"
    ):
        accepted.setdefault(picture, {})[tag] = name
    return accepted


def _said(seen: Look, path: bytes) -> set[str]:
    """Keys of the tags that the files of a place give it, paths by their last level too."""
    said = Said.of(seen.seen[path].said)
    tags = said.tags if said is not None else []
    return {key(name) for tag in tags for name in (tag, leaf(tag))}


def _taken_away(path: bytes, names: list[_Written], seen: Look, problems: list[str]) -> list[str]:
    """Tags that the files of a place had, and that a person has removed from them since."""
    there = _said(seen, path)
    gone = []
    if there or seen.seen[path].picture.sidecars:  # else all of it was deleted, and says nothing
        gone = [one.name for one in names if not one.ours and key(leaf(one.name)) not in there]
    try:
        ours = [one.name for one in names if one.ours and one.done]
        return gone + metadata.taken_away(os.fsdecode(path), ours)
    except (MetadataError, OSError) as error:
        problems.append(str(error))
        return []


def _outgoing(
    seen: Look,
    accepted: dict[int, dict[int, str]],
    written: dict[bytes, list[_Written]],
    numbers: dict[str, int],
    problems: list[str],
) -> Iterator[metadata.Change]:
    for path, one in seen.seen.items():
        known = seen.known.get(path)
        if known is None:
            continue  # the next scan knows it
        wanted = accepted.get(known.picture, {})
        ours = [name for name, is_ours, _ in written.get(path, []) if is_ours]
        names = {key(name) for name in wanted.values()}  # a tag may have been renamed
        gone = [name for name in ours if key(name) not in names]
        if not wanted and not gone:
            continue
        said = Said.of(one.said)
        leaving = {key(name) for name in gone}
        tags = [key(tag) for tag in said.tags] if said is not None else []
        has = {numbers.get(tag) for tag in tags if tag not in leaving}
        add = [name for tag, name in wanted.items() if tag not in has]
        if not add and not gone:
            continue
        write = write_policy.plan_accepted(one.picture.path, add, gone=gone)
        if write.problem is not None:
            problems.append(write.problem)
        elif write.change:
            yield write.change


def _contradictions(
    base: sqlite3.Connection, changes: list[file_labels.Told]
) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Tags that files give and that were rejected: here, or in the files before they came back."""
    now = {told.picture: told for told in changes}
    kept = []
    restored = []
    for picture, tag, name, says in base.execute(
        "SELECT l.picture, l.tag, t.name, l.found FROM labels l JOIN tags t ON t.id = l.tag "
        "WHERE l.origin = 'decided' AND l.value = 0"
    ).fetchall():
        told = now.get(picture)
        if told is not None:
            says = None if tag in told.gone else told.now.get(name, says)
        if says != 1:
            continue
        by = base.execute(
            "SELECT by FROM decisions WHERE picture = ? AND tag = ? AND undone = 0 "
            "ORDER BY id DESC LIMIT 1",
            (picture, tag),
        ).fetchone()
        waits = base.execute(
            "SELECT 1 FROM written w JOIN places p ON p.path = w.path "
            "WHERE p.picture = ? AND w.name = ?",
            (picture, name),
        ).fetchone()
        if by is not None and by[0] == BY and waits is None:
            restored.append((picture, name))
        elif by is None or by[0] != BY:
            kept.append((picture, name))
    return kept, restored


def sync(
    store: Store,
    plan: SyncPlan | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> Synced:
    """Do what was planned, or plan and do it; ``stop`` is asked before each file."""
    if plan is None:
        plan = plan_sync(store, progress)
    problems = [*plan.problems]
    file_labels.bring_in(store, plan.seen)
    verdicts = [(picture, name, REJECTED) for picture, name in plan.rejected]
    verdicts += [(picture, name, CLEARED) for picture, name in plan.restored]
    decisions.decide(store, verdicts, BY)
    made: list[metadata.Change] = []
    meter = Meter(STAGE, len(plan.outgoing), progress)
    for start in range(0, len(plan.outgoing), BATCH):
        batch = plan.outgoing[start : start + BATCH]
        done, left = _write(store, batch, problems, stop)
        made += done
        meter.advance(len(batch) - left)
        if left:
            left += len(plan.outgoing) - start - len(batch)
            break
    else:
        left = 0
        after = look(store) if made else plan.seen
        if made:
            file_labels.bring_in(store, after)
        _agree(store, after)
    # Where it was stopped the files are looked at, and agreed with, the next time.
    return Synced(
        incoming=len(plan.incoming),
        rejected=len(plan.rejected),
        restored=len(plan.restored),
        written=len(made),
        added=sum(len(change.added) for change in made),
        removed=sum(len(change.removed) for change in made),
        left=left,
        problems=problems,
    )


def _write(
    store: Store,
    batch: list[metadata.Change],
    problems: list[str],
    stop: Callable[[], bool] | None,
) -> tuple[list[metadata.Change], int]:
    """Write sidecars, noted before and confirmed after; what was written, and how many were left.

    What is left stays noted, as if the process had been killed: the next sync looks at it.
    """
    with store.write() as base:
        base.executemany(
            "INSERT OR IGNORE INTO written VALUES (?, ?, 1, 0)",
            [(_place(change), name) for change in batch for name in change.added],
        )

    def applied(change: metadata.Change) -> Write | None:
        if stop is not None and stop():
            return None
        return write_policy.apply_change(change)

    results = list(map_in_order(applied, batch, workers=WRITERS, window=2 * WRITERS))
    left = sum(result is None for result in results)
    written = [
        (change, result)
        for change, result in zip(batch, results, strict=True)
        if result is not None
    ]
    problems += [result.problem for _, result in written if result.problem is not None]
    done = [change for change, result in written if result.problem is None]
    with store.write() as base:
        base.executemany(
            "UPDATE written SET done = 1 WHERE path = ? AND name = ?",
            [(_place(change), name) for change in done for name in change.added],
        )
        base.executemany(
            "DELETE FROM written WHERE path = ? AND name = ?",
            [(_place(change), name) for change in done for name in change.removed],
        )
    return [change for change in done if change], left


def _place(change: metadata.Change) -> bytes:
    return os.fsencode(identity(Path(change.image)))


def _agree(store: Store, seen: Look) -> None:
    """Remember what the files have, so that it is noticed when a person takes it away."""
    with store.write() as base:
        numbers = file_labels.numbers_of(base)
        accepted = _accepted(base)
        written = _written(base, seen)
        for path, one in seen.seen.items():
            known = seen.known.get(path)
            if known is None:
                continue
            wanted = accepted.get(known.picture, {})
            rows = {row.name: row for row in written.get(path, [])}
            if not wanted and not rows:
                continue
            there = {numbers.get(name) for name in _said(seen, path)} - {None}
            for name, row in rows.items():
                if numbers.get(key(name)) in there:
                    if not row.done:
                        _note(base, path, name, row.ours)
                elif numbers.get(key(name)) not in wanted or not row.done:
                    base.execute("DELETE FROM written WHERE path = ? AND name = ?", (path, name))
            standing = {numbers.get(key(name)) for name in rows}
            for tag, name in wanted.items():
                if tag in there and tag not in standing:
                    _note(base, path, name, 0)
            base.execute(
                "UPDATE places SET synced = ?1 WHERE path = ?2 AND synced IS NOT ?1",
                (one.tags_stamp, path),
            )


def _note(base: sqlite3.Connection, path: bytes, name: str, ours: int) -> None:
    base.execute("INSERT OR REPLACE INTO written VALUES (?, ?, ?, 1)", (path, name, ours))
