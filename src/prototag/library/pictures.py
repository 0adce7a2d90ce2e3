"""Pictures of a library: found in its folders, recognised by what is seen of them, and described.

A scan goes in batches, each one transaction: whatever ends it, the next one goes on where it was.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from prototag.arrays import Array
from prototag.engine.threads import ahead, count_threads
from prototag.errors import ImageError, LibraryError
from prototag.events import Event, Meter, Progress
from prototag.features.cache import stamp_of
from prototag.features.extractor import Extractor, Skipped
from prototag.images.decode import VERSION, digest
from prototag.library import found, schema
from prototag.library.look import Look, look, stored
from prototag.library.results import Scanned
from prototag.library.store import Store, checked, selected
from prototag.metadata.sources import chosen

NAME = "prototag.library"  # of a library that is given no other
BATCH = 64
SIDE = 256  # pixels of a thumbnail, at most
STAGE = "Looking at pictures"


@dataclass
class _Count:
    new: set[int] = field(default_factory=set)  # numbers of pictures
    changed: set[int] = field(default_factory=set)  # that now lie where others lay
    moved: int = 0
    unreadable: int = 0
    problems: list[str] = field(default_factory=list)
    at_new_places: list[bytes] = field(default_factory=list)  # pictures that were known before


def begin(
    folder: Path,
    path: str | os.PathLike[str] | None,
    kind: str | Iterable[str],
    column: str | None,
    hierarchy: str,
    settings: dict[str, str],
) -> Path:
    """Make the file of a new library; see :meth:`prototag.Library.create`."""
    kinds = chosen(kind)
    if hierarchy not in ("path", "leaf"):
        raise LibraryError(f'hierarchy={hierarchy!r}: "path" or "leaf" is allowed.')
    if not folder.exists():
        raise LibraryError(f"{folder} does not exist: give a folder of pictures or a list.")
    beside = folder if folder.is_dir() else folder.parent
    file = Path(os.path.abspath(beside / NAME if path is None else path))
    schema.create(file)
    store = Store(file)
    with store.write() as base:
        kept = "auto" if kinds is None else ",".join(sorted(kinds))
        base.execute(
            "INSERT INTO roots (path, kind, column, hierarchy) VALUES (?, ?, ?, ?)",
            (stored(folder, file), kept, column, hierarchy),
        )
        base.executemany("INSERT INTO meta VALUES (?, ?)", settings.items())
    store.close()
    return file


def scan(
    store: Store,
    extractor: Extractor,
    *,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> Scanned:
    """Look at all folders; see :meth:`prototag.Library.scan`."""
    seen = look(store, progress)
    count = _Count(problems=[*seen.problems])
    _vanish(store, seen)
    work = _Work(store, extractor, seen, count)
    todo = work.todo()
    meter = Meter(STAGE, len(todo), progress)
    for start in range(0, len(todo), BATCH):
        if stop is not None and stop():
            break
        batch = todo[start : start + BATCH]
        work.take(batch, partial(_pass_on, meter, progress))
        meter.done = start + len(batch)
        meter.advance(0)
    told: set[int] = set()
    if todo or seen.vanished or seen.told_anew:
        told = found.bring_in(store, seen, count.at_new_places)
    return Scanned(
        new=len(count.new),
        moved=count.moved,
        changed=len(count.changed | told - count.new),
        vanished=_lost(store, seen),
        unreadable=count.unreadable,
        total=len(seen.seen) - count.unreadable,
        problems=count.problems,
    )


def _pass_on(meter: Meter, progress: Progress | None, event: Event) -> None:
    """Draw the pictures of a batch as part of the whole."""
    if progress is not None:
        progress(
            Event(
                meter.stage,
                meter.done + event.done,
                meter.total,
                meter.seconds_left(),
                event.message,
            )
        )


def _lost(store: Store, seen: Look) -> int:
    """Pictures that lay somewhere before this look, and lie nowhere now."""
    numbers = list({seen.known[path].picture for path in seen.vanished})
    with store.read() as base:
        rows = selected(base, "SELECT count(*) FROM pictures WHERE places = 0 AND id IN", numbers)
        return sum(row[0] for row in rows)


def _vanish(store: Store, seen: Look) -> None:
    gone = seen.vanished
    back = [path for path, known in seen.known.items() if path in seen.seen and not known.present]
    if gone or back:
        with store.write() as base:
            change = "UPDATE places SET present = ? WHERE path = ?"
            base.executemany(change, [(0, path) for path in gone])
            base.executemany(change, [(1, path) for path in back])


class _Work:
    """Recognises and describes pictures, a batch at a time."""

    def __init__(self, store: Store, extractor: Extractor, seen: Look, count: _Count) -> None:
        self.store, self.extractor, self.seen, self.count = store, extractor, seen, count
        self.recipe = bytes.fromhex(store.meta("recipe", ""))
        if self.recipe and store.meta("images", "") != str(VERSION):
            self._prepare()

    def _prepare(self) -> None:
        """Load the network; vectors of another are made anew."""
        self.recipe = self.extractor.recipe
        if self.store.meta("recipe", "") != self.recipe.hex():
            self.store.set_meta("recipe", self.recipe.hex())
        self.store.set_meta("images", str(VERSION))

    def todo(self) -> list[bytes]:
        """Places that are new, were touched, or whose pictures have no vector."""
        with self.store.read() as base:
            described = {
                number
                for (number,) in base.execute(
                    "SELECT picture FROM vectors WHERE recipe = ?", (self.recipe,)
                )
            }
        todo = []
        for path, seen in self.seen.seen.items():
            known = self.seen.known.get(path)
            stamp = known.stamp if known is not None and known.picture in described else None
            if stamp is None or stamp != stamp_of(seen.picture.path):
                todo.append(path)
        return todo

    def take(self, batch: list[bytes], progress: Progress) -> None:
        """Recognise a batch of places, describe what is new, and keep both."""
        paths = [self.seen.seen[path].picture.path for path in batch]
        stamps = [stamp_of(path) for path in paths]
        workers = count_threads(self.extractor.n_jobs)
        digests = list(ahead(_digest, paths, workers=workers, window=2 * workers))
        with self.store.read() as base:
            numbers = _numbers(base, [one for one in digests if isinstance(one, bytes)])
            described = _described(base, list(numbers.values()), self.recipe)
        fresh: dict[bytes, Path] = {}
        for place, one in zip(paths, digests, strict=True):
            if isinstance(one, bytes) and numbers.get(one) not in described:
                fresh.setdefault(one, place)
        vectors, failed = self._described(fresh, progress)
        reasons = {skipped.source: str(skipped) for skipped in failed}
        with self.store.write() as base:
            for path, place, stamp, one in zip(batch, paths, stamps, digests, strict=True):
                if isinstance(one, Skipped):
                    self._fail(str(one))
                elif one not in numbers and one not in vectors:
                    self._fail(
                        reasons.get(os.fspath(fresh[one]), f"{place}: changes while it is read")
                    )
                else:
                    self._keep(base, path, one, stamp, numbers, vectors)

    def _fail(self, reason: str) -> None:
        self.count.unreadable += 1
        self.count.problems.append(reason)

    def _described(
        self, fresh: dict[bytes, Path], progress: Progress
    ) -> tuple[dict[bytes, tuple[Array, bytes]], list[Skipped]]:
        """Vectors and thumbnails of pictures by what they are known by, and what cannot be read."""
        if not fresh:
            return {}, []
        if not self.recipe:
            self._prepare()
        self.extractor.progress = progress
        made = self.extractor.extract(list(fresh.values()), thumbnails=True, side=SIDE)
        return {
            one: (vector, small)
            for one, vector, small in zip(made.digests, made.vectors, made.thumbnails, strict=True)
        }, made.skipped

    def _keep(
        self,
        base: sqlite3.Connection,
        path: bytes,
        one: bytes,
        stamp: bytes | None,
        numbers: dict[bytes, int],
        vectors: dict[bytes, tuple[Array, bytes]],
    ) -> None:
        known = self.seen.known.get(path)
        is_new = one not in numbers
        if is_new:
            numbers[one] = int(
                base.execute(
                    "INSERT INTO pictures (digest, added) VALUES (?, ?) RETURNING id",
                    (one, time.time()),
                ).fetchone()[0]
            )
        number = numbers[one]
        if one in vectors:
            vector, small = vectors.pop(one)
            _store(base, number, self.recipe, vector, small)
        seen = self.seen.seen[path]
        if known is None or known.picture != number:
            if known is not None:
                self.count.changed.add(number)
            elif is_new:
                self.count.new.add(number)
            else:
                self.count.moved += number not in self.count.new
            if not is_new:
                self.count.at_new_places.append(path)
        root = next(root.path for root in self.seen.roots if root.number == seen.root)
        base.execute(
            "INSERT INTO places (path, folder, name, picture, root, stamp) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET picture = excluded.picture, "
            "root = excluded.root, stamp = excluded.stamp, present = 1",
            (path, os.path.dirname(path), searchable(path, root), number, seen.root, stamp),
        )


def searchable(path: bytes, root: Path) -> str:
    """A place as text that a search looks through: below its root, in lower case."""
    whole, start = os.fsdecode(path), os.path.abspath(root)
    if os.path.isfile(start):
        start = os.path.dirname(start)
    text = os.path.relpath(whole, start) if whole.startswith(start + os.sep) else whole
    return text.casefold().encode("utf-8", "replace").decode()


def _digest(path: Path) -> bytes | Skipped:
    try:
        return digest(path)
    except ImageError as error:
        return Skipped(0, os.fspath(path), str(error))


def _numbers(base: sqlite3.Connection, digests: list[bytes]) -> dict[bytes, int]:
    rows = selected(base, "SELECT digest, id FROM pictures WHERE digest IN", digests)
    return {bytes(one): number for one, number in rows}


def _described(base: sqlite3.Connection, numbers: list[int], recipe: bytes) -> set[int]:
    rows = selected(base, "SELECT picture, recipe FROM vectors WHERE picture IN", numbers)
    return {number for number, made in rows if made == recipe}


def _store(
    base: sqlite3.Connection, number: int, recipe: bytes, vector: Array, small: bytes
) -> None:
    data = np.asarray(vector, "<f4").tobytes()
    base.execute(
        "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)",
        (number, recipe, data, checked(number, data)),
    )
    if small:
        base.execute("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", (number, small))


def prune(store: Store) -> int:
    """Forget pictures that lie nowhere any more, with all that is known of them, and old places."""
    with store.write() as base:
        base.execute(
            "DELETE FROM places WHERE present = 0 AND picture IN "
            "(SELECT id FROM pictures WHERE places > 0)"
        )
        return base.execute("DELETE FROM pictures WHERE places = 0").rowcount
