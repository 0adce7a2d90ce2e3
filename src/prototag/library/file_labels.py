"""What files say of pictures, brought into the library: labels with the origin ``found``.

A decision outweighs what a file says, and is never changed here: what the file says is kept beside
it. Where a picture lies in several places, their tags are united. One that lies nowhere any more
keeps the tags that it had, and so does one that was moved out of the reach of a list or a sidecar.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from prototag.library import tag_table
from prototag.library.database import DECIDED, FOUND, Store
from prototag.library.scan import Known, Look, Root, Said, places
from prototag.metadata.collect_tags import Collected, settle_hierarchy
from prototag.metadata.tag_names import key, leaf, unique, vocabulary

BATCH = 2000  # pictures whose tags are written in one transaction


class Told(NamedTuple):
    """What changes of one picture."""

    picture: int
    now: dict[str, int]  # tags that files give (1) or rule out (0), and did not before
    gone: list[int]  # numbers of tags that no file speaks of any more


class FileLabels:
    """The labels that files give to new pictures, known before the first picture is read.

    Hierarchy and spelling are settled over all places of a scan at once, as :func:`bring_in` does
    it. So each batch of pictures comes into the library with its labels, and no picture counts as
    untagged while others are still read. What only all places together tell (a picture that lies
    in several) is corrected by :func:`bring_in` at the end.
    """

    def __init__(self, look: Look) -> None:
        self._look = look

    @cached_property
    def _labels(self) -> dict[bytes, dict[str, int]]:
        """What the files of each place say: 1 for its tags, 0 for what is ruled out."""
        places = {
            path: Known(number, seen.root, None, None, seen.said, 1)
            for number, (path, seen) in enumerate(self._look.seen.items())
        }
        wanted = _wanted(places, self._look.roots)
        return {path: wanted[known.picture] for path, known in places.items()}

    def write(self, base: sqlite3.Connection, path: bytes, picture: int) -> None:
        """Give a new picture the labels of its place; call it inside of a transaction."""
        labels = self._labels[path]
        if labels:
            write(base, Told(picture, labels, []))


def bring_in(store: Store, look: Look, moved: Iterable[bytes] = ()) -> set[int]:
    """Write what the files say into the library; the pictures that this changed are returned.

    Parameters
    ----------
    moved : iterable of bytes
        Places that this look has found for pictures that were known before.
    """
    moved = list(moved)
    if not (moved or look.is_news):
        return set()
    with store.read() as base:
        rows = rows_after(base, look, moved)
        changes = list(differences(base, rows, look.roots))
    for start in range(0, len(changes), BATCH):
        with store.write() as base:
            for told in changes[start : start + BATCH]:
                write(base, told)
    # Last, so that what is interrupted is done again.
    with store.write() as base:
        base.executemany(
            "UPDATE places SET said = ?1, tags_stamp = ?2, present = ?3 WHERE path = ?4 "
            "AND (said IS NOT ?1 OR tags_stamp IS NOT ?2 OR present != ?3)",
            [(known.said, known.tags_stamp, known.present, path) for path, known in rows.items()],
        )
        base.executemany(
            "UPDATE roots SET kind = ?1 WHERE id = ?2 AND kind != ?1",
            [(root.kind, root.number) for root in look.roots],
        )
    return {told.picture for told in changes}


def rows_after(
    base: sqlite3.Connection, look: Look, moved: Iterable[bytes] = ()
) -> dict[bytes, Known]:
    """All places as they are after the look."""
    rows = places(base)
    for path in look.vanished:
        rows[path] = rows[path]._replace(present=0)
    for path, seen in look.seen.items():
        if path in rows:  # else it cannot be read
            rows[path] = rows[path]._replace(said=seen.said, tags_stamp=seen.tags_stamp, present=1)
    left: dict[int, list[str]] = {}
    for path, known in rows.items():
        if not known.present and (said := Said.of(known.said)) is not None:
            left.setdefault(known.picture, []).extend(_going_along(path, said, known, look))
    for path in moved:
        known = rows[path]
        said = Said.of(known.said)
        if said is not None and known.picture in left:
            heir = said._replace(inherited=unique([*said.inherited, *left[known.picture]]))
            rows[path] = known._replace(said=heir.text())
    return rows


def _going_along(path: bytes, said: Said, known: Known, look: Look) -> list[str]:
    """Tags of a place that a picture was moved from: but for names of folders all of them."""
    tags = [*said.tags, *said.inherited]
    root = next((root for root in look.roots if root.number == known.root), None)
    if root is None or "folders" not in root.kind:
        return tags
    folders = {key(part) for part in Path(os.fsdecode(path)).parent.parts}
    return [tag for tag in tags if key(tag) not in folders]


def numbers_of(base: sqlite3.Connection) -> dict[str, int]:
    """Numbers of tags by the keys of all names that mean them."""
    numbers = dict(base.execute("SELECT key, id FROM tags").fetchall())
    return numbers | dict(base.execute("SELECT key, tag FROM aliases").fetchall())


def differences(
    base: sqlite3.Connection, rows: dict[bytes, Known], roots: list[Root]
) -> Iterator[Told]:
    """What would change of each picture, if the files of these places were believed."""
    wanted = _wanted(rows, roots)
    numbers = numbers_of(base)
    before: dict[int, dict[int, int]] = {}
    for picture, tag, value in base.execute(
        "SELECT picture, tag, found FROM labels WHERE found IS NOT NULL"
    ):
        before.setdefault(picture, {})[tag] = value
    for picture, tags in wanted.items():
        had = before.get(picture, {})
        now = {
            name: value
            for name, value in tags.items()
            if had.get(numbers.get(key(name), -1)) != value
        }
        if now or len(had) > len(tags):
            stay = {numbers.get(key(name)) for name in tags}
            gone = [tag for tag in had if tag not in stay]
        else:
            gone = []
        if now or gone:
            yield Told(picture, now, gone)


def _wanted(rows: dict[bytes, Known], roots: list[Root]) -> dict[int, dict[str, int]]:
    """What the files say of each picture: 1 for its tags, 0 for what is ruled out."""
    by_picture: dict[int, list[Known]] = {}
    for known in rows.values():
        by_picture.setdefault(known.picture, []).append(known)
    leaves = {root.number for root in roots if root.hierarchy == "leaf"}
    pictures = []
    gathered = Collected()
    refused = []
    for picture, lying in by_picture.items():
        tags: list[str] = []
        ruled_out: list[str] = []
        for known in [one for one in lying if one.present] or lying:
            said = Said.of(known.said)
            if said is not None:
                every = [*said.tags, *said.inherited]
                tags += map(leaf, every) if known.root in leaves else every
                ruled_out += said.ruled_out or []
        pictures.append(picture)
        gathered.tags.append(unique(tags))
        refused.append(unique(ruled_out))
    settle_hierarchy(gathered, "path")
    spelt = {key(name): name for name in vocabulary(gathered.tags).names}
    wanted = {}
    for picture, tags, ruled_out in zip(pictures, gathered.tags, refused, strict=True):
        row = {spelt.get(key(tag), tag): 0 for tag in ruled_out}
        row |= {spelt[key(tag)]: 1 for tag in tags}
        wanted[picture] = row
    return wanted


def write(base: sqlite3.Connection, told: Told) -> None:
    """Make the labels of one picture what its files say, where nobody has decided."""
    for name, value in told.now.items():
        base.execute(
            "INSERT INTO labels VALUES (?1, ?2, ?3, ?4, ?3) ON CONFLICT DO UPDATE SET "
            "found = excluded.found, "
            "value = CASE origin WHEN 'found' THEN excluded.value ELSE value END",
            (told.picture, tag_table.added(base, name), value, FOUND),
        )
    for tag in told.gone:
        pair = told.picture, tag
        base.execute("DELETE FROM labels WHERE picture = ? AND tag = ? AND origin = 'found'", pair)
        base.execute(
            "UPDATE labels SET found = NULL WHERE picture = ? AND tag = ? AND origin = ?",
            (*pair, DECIDED),
        )
    base.execute(  # what is known need not be asked
        "DELETE FROM suggestions WHERE picture = ?1 AND tag IN "
        "(SELECT tag FROM labels WHERE picture = ?1)",
        (told.picture,),
    )
