"""Apply the tags in files to the library, as labels with the source ``file``.

A decision overrides the label from files and is never changed here; the label from files is kept
beside it. A picture with several files has the tags of all of them. Images whose files are missing
keep their labels, and so do images that were moved away from their list or sidecar.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from prototag.library import tag_table
from prototag.library.database import SOURCE_DECISION, SOURCE_FILE, Store
from prototag.library.scan import KnownFile, ParsedTags, Root, ScanResult, known_files
from prototag.metadata.collect_tags import Collected, unify_hierarchy
from prototag.metadata.tag_names import key, leaf, unique, vocabulary

PICTURES_PER_TRANSACTION = 2000


class LabelChange(NamedTuple):
    """Changes of the file labels of one picture."""

    picture: int
    now: dict[str, int]  # new labels: tags that files give (1) or rule out (0)
    gone: list[int]  # tags without a label from files any more


class FileLabels:
    """Labels from the files of a scan, for writing new pictures with their labels.

    Hierarchy and spelling are normalized over all files of the scan, as in
    :func:`apply_file_labels`. So no picture counts as untagged while others are still decoded.
    Labels of pictures with several files are completed by :func:`apply_file_labels` at the end.
    """

    def __init__(self, scan: ScanResult) -> None:
        self._scan = scan

    @cached_property
    def _labels(self) -> dict[bytes, dict[str, int]]:
        """Labels by path: 1 for tags, 0 for tags that are ruled out."""
        files = {
            path: KnownFile(number, file.root, None, None, file.parsed_tags, 1)
            for number, (path, file) in enumerate(self._scan.files.items())
        }
        labels = _labels_from_files(files, self._scan.roots)
        return {path: labels[known.picture] for path, known in files.items()}

    def write(self, conn: sqlite3.Connection, path: bytes, picture: int) -> None:
        """Write the labels of a new picture, inside of a transaction."""
        labels = self._labels[path]
        if labels:
            write(conn, LabelChange(picture, labels, []))


def apply_file_labels(store: Store, scan: ScanResult, moved: Iterable[bytes] = ()) -> set[int]:
    """Write the tags in files to the library; return the pictures whose labels have changed.

    Parameters
    ----------
    moved : iterable of bytes
        New paths of known pictures.
    """
    moved = list(moved)
    if not (moved or scan.has_changes):
        return set()
    with store.read() as conn:
        files = files_after_scan(conn, scan, moved)
        changes = list(label_changes(conn, files, scan.roots))
    for start in range(0, len(changes), PICTURES_PER_TRANSACTION):
        with store.write() as conn:
            for change in changes[start : start + PICTURES_PER_TRANSACTION]:
                write(conn, change)
    # The state of files is written last, so that an interrupted scan is repeated.
    with store.write() as conn:
        conn.executemany(
            "UPDATE files SET parsed_tags = ?1, tags_stamp = ?2, present = ?3 WHERE path = ?4 "
            "AND (parsed_tags IS NOT ?1 OR tags_stamp IS NOT ?2 OR present != ?3)",
            [
                (known.parsed_tags, known.tags_stamp, known.present, path)
                for path, known in files.items()
            ],
        )
        conn.executemany(
            "UPDATE roots SET kind = ?1 WHERE id = ?2 AND kind != ?1",
            [(root.kind, root.number) for root in scan.roots],
        )
    return {change.picture for change in changes}


def files_after_scan(
    conn: sqlite3.Connection, scan: ScanResult, moved: Iterable[bytes] = ()
) -> dict[bytes, KnownFile]:
    """Return all files of the library as they are after a scan, by path."""
    files = known_files(conn)
    for path in scan.vanished:
        files[path] = files[path]._replace(present=0)
    for path, file in scan.files.items():
        if path in files:  # else it cannot be decoded
            files[path] = files[path]._replace(
                parsed_tags=file.parsed_tags, tags_stamp=file.tags_stamp, present=1
            )
    inherited: dict[int, list[str]] = {}
    for path, known in files.items():
        if not known.present and (parsed := ParsedTags.from_json(known.parsed_tags)) is not None:
            tags = _tags_that_move_along(path, parsed, known, scan)
            inherited.setdefault(known.picture, []).extend(tags)
    for path in moved:
        known = files[path]
        parsed = ParsedTags.from_json(known.parsed_tags)
        if parsed is not None and known.picture in inherited:
            tags = unique([*parsed.inherited, *inherited[known.picture]])
            moved_tags = parsed._replace(inherited=tags).to_json()
            files[path] = known._replace(parsed_tags=moved_tags)
    return files


def _tags_that_move_along(
    path: bytes, parsed: ParsedTags, known: KnownFile, scan: ScanResult
) -> list[str]:
    """Return the tags of a path that a moved picture keeps: all except names of its folders."""
    tags = [*parsed.tags, *parsed.inherited]
    root = next((root for root in scan.roots if root.number == known.root), None)
    if root is None or "folders" not in root.kind:
        return tags
    folders = {key(part) for part in Path(os.fsdecode(path)).parent.parts}
    return [tag for tag in tags if key(tag) not in folders]


def tag_numbers(conn: sqlite3.Connection) -> dict[str, int]:
    """Return the numbers of tags by the keys of their names and aliases."""
    numbers = dict(conn.execute("SELECT key, id FROM tags").fetchall())
    return numbers | dict(conn.execute("SELECT key, tag FROM aliases").fetchall())


def label_changes(
    conn: sqlite3.Connection, files: dict[bytes, KnownFile], roots: list[Root]
) -> Iterator[LabelChange]:
    """Generate the differences between the labels of these files and those of the library."""
    numbers = tag_numbers(conn)
    before: dict[int, dict[int, int]] = {}
    for picture, tag, value in conn.execute(
        "SELECT picture, tag, file_value FROM labels WHERE file_value IS NOT NULL"
    ):
        before.setdefault(picture, {})[tag] = value
    for picture, labels in _labels_from_files(files, roots).items():
        had = before.get(picture, {})
        now = {
            name: value
            for name, value in labels.items()
            if had.get(numbers.get(key(name), -1)) != value
        }
        if now or len(had) > len(labels):
            stay = {numbers.get(key(name)) for name in labels}
            gone = [tag for tag in had if tag not in stay]
        else:
            gone = []
        if now or gone:
            yield LabelChange(picture, now, gone)


def _labels_from_files(
    files: dict[bytes, KnownFile], roots: list[Root]
) -> dict[int, dict[str, int]]:
    """Return the labels of each picture by its files: 1 for tags, 0 for those ruled out."""
    by_picture: dict[int, list[KnownFile]] = {}
    for known in files.values():
        by_picture.setdefault(known.picture, []).append(known)
    leaves = {root.number for root in roots if root.hierarchy == "leaf"}
    pictures = []
    collected = Collected()
    all_ruled_out = []
    for picture, known_here in by_picture.items():
        tags: list[str] = []
        ruled_out: list[str] = []
        for known in [one for one in known_here if one.present] or known_here:
            parsed = ParsedTags.from_json(known.parsed_tags)
            if parsed is not None:
                names = [*parsed.tags, *parsed.inherited]
                tags += map(leaf, names) if known.root in leaves else names
                ruled_out += parsed.ruled_out or []
        pictures.append(picture)
        collected.tags.append(unique(tags))
        all_ruled_out.append(unique(ruled_out))
    unify_hierarchy(collected, "path")
    spelling = {key(name): name for name in vocabulary(collected.tags).names}
    labels = {}
    for picture, tags, ruled_out in zip(pictures, collected.tags, all_ruled_out, strict=True):
        row = {spelling.get(key(tag), tag): 0 for tag in ruled_out}
        row |= {spelling[key(tag)]: 1 for tag in tags}
        labels[picture] = row
    return labels


def write(conn: sqlite3.Connection, change: LabelChange) -> None:
    """Write the file labels of one picture; decided labels keep their values."""
    for name, value in change.now.items():
        conn.execute(
            "INSERT INTO labels VALUES (?1, ?2, ?3, ?4, ?3) ON CONFLICT DO UPDATE SET "
            "file_value = excluded.file_value, "
            "value = CASE source WHEN 'file' THEN excluded.value ELSE value END",
            (change.picture, tag_table.create_tag_if_new(conn, name), value, SOURCE_FILE),
        )
    for tag in change.gone:
        pair = change.picture, tag
        conn.execute("DELETE FROM labels WHERE picture = ? AND tag = ? AND source = 'file'", pair)
        conn.execute(
            "UPDATE labels SET file_value = NULL WHERE picture = ? AND tag = ? AND source = ?",
            (*pair, SOURCE_DECISION),
        )
    conn.execute(  # a labeled pair is not suggested
        "DELETE FROM suggestions WHERE picture = ?1 AND tag IN "
        "(SELECT tag FROM labels WHERE picture = ?1)",
        (change.picture,),
    )
