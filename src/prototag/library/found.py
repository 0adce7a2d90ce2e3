"""What files say of pictures, brought into the library: labels with the origin ``found``.

A decision outweighs what a file says, and is never changed here: what the file says is kept beside
it. Where a picture lies in several places, their tags are united. One that lies nowhere any more
keeps the tags that it had, and so does one that was moved without its sidecar.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prototag.library import words
from prototag.library.look import Known, Look, Root, Said, places
from prototag.library.store import DECIDED, FOUND, Store
from prototag.metadata.sources import Collected, settle_hierarchy
from prototag.metadata.tags import key, leaf, unique, vocabulary

BATCH = 2000  # pictures whose tags are written in one transaction


class Told(NamedTuple):
    """What changes of one picture."""

    picture: int
    now: dict[str, int]  # tags that files give (1) or rule out (0), and did not before
    gone: list[int]  # numbers of tags that no file speaks of any more


def bring_in(store: Store, look: Look, moved: Iterable[bytes] = ()) -> set[int]:
    """Write what the files say into the library; the pictures that this changed are returned.

    Parameters
    ----------
    moved : iterable of bytes
        Places that this look has found for pictures that were known before.
    """
    with store.read() as base:
        rows = rows_after(base, look, moved)
        changes = list(differences(base, rows, look.roots))
    for start in range(0, len(changes), BATCH):
        with store.write() as base:
            for told in changes[start : start + BATCH]:
                write(base, told)
    stamps = [
        (said, look.seen[path].tags_stamp if path in look.seen else known.tags_stamp, path)
        for path, known in rows.items()
        if (said := known.said) is not None
    ]
    with store.write() as base:
        base.executemany(
            "UPDATE places SET said = ?1, tags_stamp = ?2 WHERE path = ?3 "
            "AND (said IS NOT ?1 OR tags_stamp IS NOT ?2)",
            stamps,
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
    rows = {
        path: known._replace(said=seen.said, present=True)
        if (seen := look.seen.get(path)) is not None
        else known
        for path, known in places(base).items()
    }
    left: dict[int, str] = {}
    for known in rows.values():
        if not known.present and known.said is not None:
            left[known.picture] = known.said
    for path in moved:
        known = rows[path]
        said = Said.of(known.said)
        if said is not None and not said.tags and known.picture in left:
            rows[path] = known._replace(said=left[known.picture])
    return rows


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
    pictures, gathered, refused = [], Collected(), []
    for picture, lying in by_picture.items():
        tags: list[str] = []
        ruled_out: list[str] = []
        for known in [one for one in lying if one.present] or lying:
            said = Said.of(known.said)
            if said is not None:
                tags += map(leaf, said.tags) if known.root in leaves else said.tags
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
            (told.picture, words.added(base, name), value, FOUND),
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
