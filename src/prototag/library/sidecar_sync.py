"""Sync of library and files: read changed tags from files, write accepted tags.

Accepted tags are written as the person's own tags, to sidecars or, if the library is set to it,
into JPEG files. The library stores which tags a sync wrote, and which of them the files had before:
one that is missing later was removed by the person and counts as rejected. A write can be undone
(:mod:`prototag.library.writes`).

An interrupted sync is resumed by the next one: a tag is stored as unconfirmed before it is written
and confirmed afterwards, so that a tag that never reached the disk does not count as removed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from prototag import metadata
from prototag.engine.threads import map_in_order
from prototag.errors import MetadataError
from prototag.events import Meter, Progress
from prototag.library import decisions, file_labels, writes
from prototag.library.database import Store
from prototag.library.scan import ParsedTags, ScannedFile, ScanResult, scan_files
from prototag.library.types import CLEARED, REJECTED, Incoming, SyncPlan, SyncReport
from prototag.library.write_places import WritePlaces, write_places
from prototag.library.writes import FILE, SIDECAR, UndoneWrite, path_of, place_of
from prototag.metadata import embedded_reader, write_policy
from prototag.metadata.accepted_tags import removed_tags_inside
from prototag.metadata.tag_names import key, leaf
from prototag.metadata.write_policy import WRITERS, Write

BY = "sidecar"  # origin of decisions that a person made by changing tags in files
SIDECARS_PER_TRANSACTION = 32
STAGE = "Writing tags"


class _WrittenTag(NamedTuple):
    """An accepted tag that the files of a path had at the last sync."""

    name: str
    by_prototag: int
    is_confirmed: int
    place: str


def plan_sync(
    store: Store, progress: Progress | None = None, pictures: Collection[int] | None = None
) -> SyncPlan:
    """Return what :func:`sync` would change, without changing anything.

    With ``pictures``, tags are written to the files of these pictures only.
    """
    scan = scan_files(store, progress)
    problems = [*scan.problems]
    with store.read() as conn:
        changes: list[file_labels.LabelChange] = []
        if scan.has_changes:
            rows = file_labels.files_after_scan(conn, scan)
            changes = list(file_labels.label_changes(conn, rows, scan.roots))
        numbers = file_labels.tag_numbers(conn)
        written = _written(conn, scan)
        synced = dict(
            conn.execute("SELECT path, synced_stamp FROM files WHERE synced_stamp IS NOT NULL")
        )
        accepted = _accepted_tags(conn)
        rejected = set()
        for path, names in written.items():
            stamp = scan.files[path].tags_stamp
            if stamp is None or synced.get(path) != stamp:
                picture = scan.known[path].picture
                for name in _removed_by_person(path, names, scan, problems):
                    if accepted.get(picture, {}).pop(numbers.get(key(name), -1), None):
                        rejected.add((picture, name))
        places = write_places(store)
        chosen = {
            path: file
            for path, file in scan.files.items()
            if pictures is None or (path in scan.known and scan.known[path].picture in pictures)
        }
        outgoing = list(_file_changes(scan, chosen, accepted, written, numbers, places, problems))
        kept, restored = _contradictions(conn, changes)
        incoming = _incoming(conn, changes)
    return SyncPlan(
        incoming=incoming,
        rejected=sorted(rejected),
        restored=restored,
        outgoing=outgoing,
        kept=kept,
        problems=problems,
        scan=scan,
    )


def _incoming(conn: sqlite3.Connection, changes: list[file_labels.LabelChange]) -> list[Incoming]:
    names = dict(conn.execute("SELECT id, name FROM tags").fetchall())
    return [
        Incoming(
            change.picture,
            [name for name, value in change.now.items() if value],
            [name for name, value in change.now.items() if not value],
            [names[tag] for tag in change.gone],
        )
        for change in changes
    ]


def _written(conn: sqlite3.Connection, scan: ScanResult) -> dict[bytes, list[_WrittenTag]]:
    """Return the written tags of existing known files, by path."""
    rows: dict[bytes, list[_WrittenTag]] = {}
    for path, *row in conn.execute(
        "SELECT path, tag_name, by_prototag, is_confirmed, place FROM written_tags"
    ):
        if path in scan.files and path in scan.known:
            rows.setdefault(bytes(path), []).append(_WrittenTag(*row))
    return rows


def _accepted_tags(conn: sqlite3.Connection) -> dict[int, dict[int, str]]:
    """Return the names of the accepted tags of each picture, by number."""
    accepted: dict[int, dict[int, str]] = {}
    for picture, tag, name in conn.execute(
        "SELECT l.picture, l.tag, t.name FROM labels l JOIN tags t ON t.id = l.tag "
        "WHERE l.source = 'decision' AND l.value = 1"
    ):
        accepted.setdefault(picture, {})[tag] = name
    return accepted


def _tag_keys(scan: ScanResult, path: bytes) -> set[str]:
    """Return the keys of the tags in the files of a path, of hierarchical tags also of the leaf."""
    parsed = ParsedTags.from_json(scan.files[path].parsed_tags)
    tags = parsed.tags if parsed is not None else []
    return {key(name) for tag in tags for name in (tag, leaf(tag))}


def _removed_by_person(
    path: bytes, rows: list[_WrittenTag], scan: ScanResult, problems: list[str]
) -> list[str]:
    """Return the tags that a person has removed from the files of a path since the last sync."""
    there = _tag_keys(scan, path)
    gone = []
    if (
        there or scan.files[path].picture.sidecars
    ):  # else the sidecar was deleted, which rejects nothing
        gone = [
            row.name for row in rows if not row.by_prototag and key(leaf(row.name)) not in there
        ]
    try:
        for place, removed_in in ((SIDECAR, metadata.removed_tags), (FILE, removed_tags_inside)):
            confirmed = [
                row.name
                for row in rows
                if row.by_prototag and row.is_confirmed and row.place == place
            ]
            if confirmed:
                gone += removed_in(os.fsdecode(path), confirmed)
        return gone
    except (MetadataError, OSError) as error:
        problems.append(str(error))
        return []


def _file_changes(
    scan: ScanResult,
    files: Mapping[bytes, ScannedFile],
    accepted: dict[int, dict[int, str]],
    written: dict[bytes, list[_WrittenTag]],
    numbers: dict[str, int],
    places: WritePlaces,
    problems: list[str],
) -> Iterator[metadata.Change]:
    for path, file in files.items():
        known = scan.known.get(path)
        if known is None:
            continue  # new: the next scan adds it
        accepted_tags = accepted.get(known.picture, {})
        rows = [row for row in written.get(path, []) if row.by_prototag]
        names = {key(name) for name in accepted_tags.values()}  # a tag may have been renamed
        gone = [row for row in rows if key(row.name) not in names]
        if not accepted_tags and not gone:
            continue
        image = file.picture.path
        place = places.of(image)
        # If the setting has changed since, tags move: they are removed from the other place.
        leaving = gone if place == "nowhere" else rows
        for other in sorted({row.place for row in leaving} - {place}):
            removed = [row.name for row in leaving if row.place == other]
            yield from _planned(image, [], removed, other, places.iptc, problems)
        if place == "nowhere":
            continue
        gone_here = [row.name for row in gone if row.place == place]
        parsed = ParsedTags.from_json(file.parsed_tags)
        lost = {key(name) for name in gone_here}
        lost |= {key(row.name) for row in rows if row.place != place}
        tags = [key(tag) for tag in parsed.tags] if parsed is not None else []
        if place == FILE:  # tags of a sidecar are unknown to programs that read the file only
            tags = [key(tag) for tag in _tags_inside(image, problems)]
        has = {numbers.get(tag) for tag in tags if tag not in lost}
        add = [name for tag, name in accepted_tags.items() if tag not in has]
        if add or gone_here:
            yield from _planned(image, add, gone_here, place, places.iptc, problems)


def _planned(
    image: Path, add: list[str], removed: list[str], place: str, iptc: bool, problems: list[str]
) -> Iterator[metadata.Change]:
    write = write_policy.plan_accepted(image, add, removed=removed, place=place, create_iptc=iptc)
    if write.problem is not None:
        problems.append(write.problem)
    elif write.change:
        yield write.change


def _tags_inside(image: Path, problems: list[str]) -> list[str]:
    try:
        return list(embedded_reader.read(image)[0].tags)
    except MetadataError as error:
        problems.append(str(error))
        return []


def _contradictions(
    conn: sqlite3.Connection, changes: list[file_labels.LabelChange]
) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return rejected tags that files have: rejected here, and rejected by removing them there."""
    now = {change.picture: change for change in changes}
    kept = []
    restored = []
    for picture, tag, name, file_value in conn.execute(
        "SELECT l.picture, l.tag, t.name, l.file_value FROM labels l JOIN tags t ON t.id = l.tag "
        "WHERE l.source = 'decision' AND l.value = 0"
    ).fetchall():
        change = now.get(picture)
        if change is not None:
            file_value = None if tag in change.gone else change.now.get(name, file_value)
        if file_value != 1:
            continue
        by = conn.execute(
            "SELECT decided_by FROM decisions WHERE picture = ? AND tag = ? AND undone = 0 "
            "ORDER BY id DESC LIMIT 1",
            (picture, tag),
        ).fetchone()
        waits = conn.execute(
            "SELECT 1 FROM written_tags w JOIN files f ON f.path = w.path "
            "WHERE f.picture = ? AND w.tag_name = ?",
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
) -> SyncReport:
    """Carry out a plan, by default of now; ``stop`` is called before each file."""
    if plan is None:
        plan = plan_sync(store, progress)
    problems = [*plan.problems]
    file_labels.apply_file_labels(store, plan.scan)
    verdicts = [(picture, name, REJECTED) for picture, name in plan.rejected]
    verdicts += [(picture, name, CLEARED) for picture, name in plan.restored]
    decisions.decide(store, verdicts, BY)
    written: list[metadata.Change] = []
    number = writes.start(store) if plan.outgoing else 0
    meter = Meter(STAGE, len(plan.outgoing), progress)
    for start in range(0, len(plan.outgoing), SIDECARS_PER_TRANSACTION):
        batch = plan.outgoing[start : start + SIDECARS_PER_TRANSACTION]
        done, left = _write(store, number, batch, problems, stop)
        written += done
        meter.advance(len(batch) - left)
        if left:
            left += len(plan.outgoing) - start - len(batch)
            break
    else:
        left = 0
        after = scan_files(store) if written else plan.scan
        if written:
            file_labels.apply_file_labels(store, after)
        _record_agreement(store, after)
    # The next sync scans and confirms the files of a stopped one.
    return SyncReport(
        incoming=len(plan.incoming),
        rejected=len(plan.rejected),
        restored=len(plan.restored),
        written=len(written),
        added=sum(len(change.added) for change in written),
        removed=sum(len(change.removed) for change in written),
        left=left,
        write=writes.finish(store, number) if number else None,
        problems=problems,
    )


def undo_write(
    store: Store,
    number: int,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> UndoneWrite:
    """Restore the files of a write, and read their tags again."""
    undone = writes.undo(store, number, progress, stop)
    if undone.restored:
        after = scan_files(store)
        file_labels.apply_file_labels(store, after)
        _record_agreement(store, after)
    return undone


def _write(
    store: Store,
    number: int,
    batch: list[metadata.Change],
    problems: list[str],
    stop: Callable[[], bool] | None,
) -> tuple[list[metadata.Change], int]:
    """Write sidecars; return the changes that were made, and the number of files left.

    Tags of files that are left stay unconfirmed, as after a crash: the next sync checks them.
    """
    with store.write() as conn:
        conn.executemany(
            "INSERT OR IGNORE INTO written_tags VALUES (?, ?, 1, 0, ?)",
            [
                (path_of(change), name, place_of(change))
                for change in batch
                for name in change.added
            ],
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
    done = [result.change or change for change, result in written if result.problem is None]
    with store.write() as conn:
        conn.executemany(
            "UPDATE written_tags SET is_confirmed = 1, place = ? WHERE path = ? AND tag_name = ?",
            [(place_of(change), path_of(change), name) for change in done for name in change.added],
        )
        conn.executemany(
            "DELETE FROM written_tags WHERE path = ? AND tag_name = ? AND place = ?",
            [
                (path_of(change), name, place_of(change))
                for change in done
                for name in change.removed
            ],
        )
        writes.record(conn, number, [change for change in done if change])
    return [change for change in done if change], left


def _record_agreement(store: Store, scan: ScanResult) -> None:
    """Store which accepted tags the files have, so that the next sync notices removed ones."""
    with store.write() as conn:
        numbers = file_labels.tag_numbers(conn)
        accepted = _accepted_tags(conn)
        written = _written(conn, scan)
        for path, file in scan.files.items():
            known = scan.known.get(path)
            if known is None:
                continue
            tags = accepted.get(known.picture, {})
            rows = {row.name: row for row in written.get(path, [])}
            if not tags and not rows:
                continue
            there = {numbers.get(name) for name in _tag_keys(scan, path)} - {None}
            for name, row in rows.items():
                if numbers.get(key(name)) in there:
                    if not row.is_confirmed:
                        _record_written(conn, path, name, row.by_prototag, row.place)
                elif numbers.get(key(name)) not in tags or not row.is_confirmed:
                    conn.execute(
                        "DELETE FROM written_tags WHERE path = ? AND tag_name = ?", (path, name)
                    )
            standing = {numbers.get(key(name)) for name in rows}
            for tag, name in tags.items():
                if tag in there and tag not in standing:
                    _record_written(conn, path, name, 0)
            conn.execute(
                "UPDATE files SET synced_stamp = ?1 WHERE path = ?2 AND synced_stamp IS NOT ?1",
                (file.tags_stamp, path),
            )


def _record_written(
    conn: sqlite3.Connection, path: bytes, name: str, by_prototag: int, place: str = SIDECAR
) -> None:
    conn.execute(
        "INSERT OR REPLACE INTO written_tags VALUES (?, ?, ?, 1, ?)",
        (path, name, by_prototag, place),
    )
