"""Pictures of a library: found in its folders, recognised by what is seen of them, and described.

A scan goes in batches, each one transaction, pictures with the labels that their files give:
whatever ends it, the next one goes on where it was.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from prototag.arrays import Array
from prototag.engine.threads import count_threads, map_in_order
from prototag.errors import ImageError, LibraryError
from prototag.events import Event, Meter, Progress
from prototag.features.extractor import Extractor, Skipped
from prototag.features.vector_cache import stamp_of
from prototag.images.decode import VERSION, digest
from prototag.library import file_labels, schema
from prototag.library.database import Store, checked, selected
from prototag.library.scan import Look, look, stored
from prototag.library.types import Scanned
from prototag.metadata.collect_tags import chosen

NAME = "prototag.library"  # of a library that is given no other
BATCH = 64
AHEAD = 2  # batches that are recognised and described before one is kept
SIDE = 256  # pixels of a thumbnail, at most
STAGE = "Looking at pictures"
_one_at_a_time = threading.Lock()  # the extractor tells how far it is to one scan


@dataclass
class _Count:
    new: set[int] = field(default_factory=set)  # numbers of pictures
    changed: set[int] = field(default_factory=set)  # that now lie where others lay
    left: set[int] = field(default_factory=set)  # those others
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
    with _one_at_a_time:
        return _scan(store, extractor, progress, stop)


def _scan(
    store: Store,
    extractor: Extractor,
    progress: Progress | None,
    stop: Callable[[], bool] | None,
) -> Scanned:
    seen = look(store, progress)
    count = _Count(problems=[*seen.problems])
    work = _Work(store, extractor, seen, count)
    todo = work.todo()
    work.reading = _Reading(len(todo), progress)
    batches = [_Batch(start, todo[start : start + BATCH]) for start in range(0, len(todo), BATCH)]
    _take(work, batches, stop)
    untold = {known.picture for known in seen.known.values() if known.said is None}
    told = file_labels.bring_in(store, seen, count.at_new_places)
    return Scanned(
        new=len(count.new),
        moved=count.moved,
        changed=len(count.changed | (told - count.new - untold)),
        vanished=_lost(store, seen, count),
        unreadable=count.unreadable,
        total=len(seen.seen) - count.unreadable,
        problems=count.problems,
    )


def _take(work: _Work, batches: list[_Batch], stop: Callable[[], bool] | None) -> None:
    """Recognise, describe and keep batches as a pipeline, whose stages work side by side.

    While one batch is written to the disk, the network computes the next, and the files of the one
    behind it are recognised. What ends the scan ends the other stages at their next step.
    """
    waiting: deque[Future[_Batch]] = deque()
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:

        def begin(batch: _Batch) -> Future[_Batch]:
            recognised = first.submit(work.recognise, batch)
            return second.submit(lambda: work.describe(recognised.result()))

        try:
            for number in range(len(batches)):
                if stop is not None and stop():
                    break
                while len(waiting) <= AHEAD and number + len(waiting) < len(batches):
                    waiting.append(begin(batches[number + len(waiting)]))
                work.keep(waiting.popleft().result())
        finally:
            work.reading.ended = True
            for future in waiting:
                future.cancel()


class _Ended(Exception):
    """Raised in the thread that computes vectors once the scan is over."""


class _Reading:
    """How far a scan is, told by the thread that computes vectors."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.ended = False
        self._meter = Meter(STAGE, total, progress)

    def tell(self, start: int, event: Event) -> None:
        """So many pictures of the batch that begins at ``start`` are computed."""
        self.reach(start + event.done, event.message)

    def reach(self, done: int, message: str = "") -> None:
        """So many of all pictures are computed, or known."""
        if self.ended:
            raise _Ended
        self._meter.done = done
        self._meter.advance(0, message=message)


@dataclass
class _Batch:
    """Some places on their way into the library; each stage of a scan fills in what it finds."""

    start: int  # number of the first place among all
    places: list[bytes]
    files: list[Path] = field(default_factory=list)
    stamps: list[bytes | None] = field(default_factory=list)
    digests: list[bytes | Skipped] = field(default_factory=list)
    fresh: dict[bytes, Path] = field(default_factory=dict)  # digests without a vector
    vectors: dict[bytes, tuple[Array, bytes]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # why files have no vector


def _lost(store: Store, seen: Look, count: _Count) -> int:
    """Pictures that lay somewhere before this look, and lie nowhere now."""
    numbers = list({seen.known[path].picture for path in seen.vanished} | count.left)
    with store.read() as base:
        rows = selected(base, "SELECT count(*) FROM pictures WHERE places = 0 AND id IN", numbers)
        return sum(row[0] for row in rows)


class _Work:
    """Recognises and describes pictures, a batch at a time."""

    def __init__(self, store: Store, extractor: Extractor, seen: Look, count: _Count) -> None:
        self.store = store
        self.extractor = extractor
        self.seen = seen
        self.count = count
        self.labels = file_labels.FileLabels(seen)
        self.reading = _Reading(0, None)
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

    def recognise(self, batch: _Batch) -> _Batch:
        """Find out by their digests which pictures lie in the places, and which are new."""
        batch.files = [self.seen.seen[path].picture.path for path in batch.places]
        batch.stamps = [stamp_of(file) for file in batch.files]
        workers = count_threads(self.extractor.n_jobs)
        batch.digests = list(
            map_in_order(_digest, batch.files, workers=workers, window=2 * workers)
        )
        with self.store.read() as base:
            known = [one for one in batch.digests if isinstance(one, bytes)]
            numbers = _numbers(base, known)
            described = _described(base, list(numbers.values()), self.recipe)
        for file, one in zip(batch.files, batch.digests, strict=True):
            if isinstance(one, bytes) and numbers.get(one) not in described:
                batch.fresh.setdefault(one, file)
        return batch

    def describe(self, batch: _Batch) -> _Batch:
        """Compute vectors and thumbnails of the pictures that have none."""
        if batch.fresh:
            if not self.recipe:
                self._prepare()
            self.extractor.progress = partial(self.reading.tell, batch.start)
            made = self.extractor.extract(list(batch.fresh.values()), thumbnails=True, side=SIDE)
            batch.vectors = {
                one: (vector, small)
                for one, vector, small in zip(
                    made.digests, made.vectors, made.thumbnails, strict=True
                )
            }
            batch.reasons = {skipped.source: str(skipped) for skipped in made.skipped}
        self.reading.reach(batch.start + len(batch.places))
        return batch

    def keep(self, batch: _Batch) -> None:
        """Write a batch in one transaction."""
        with self.store.write() as base:
            # Another process, or the batch before, may have found some of them meanwhile.
            numbers = _numbers(base, [one for one in batch.digests if isinstance(one, bytes)])
            rows = zip(batch.places, batch.files, batch.stamps, batch.digests, strict=True)
            for path, file, stamp, one in rows:
                if isinstance(one, Skipped):
                    self._fail(str(one))
                elif one not in numbers and one not in batch.vectors:
                    reason = batch.reasons.get(os.fspath(batch.fresh.get(one, file)))
                    self._fail(reason or f"{file}: changes while it is read")
                else:
                    self._keep(base, path, one, stamp, numbers, batch.vectors)

    def _fail(self, reason: str) -> None:
        self.count.unreadable += 1
        self.count.problems.append(reason)

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
        if is_new:
            self.labels.write(base, path, number)
        if one in vectors:
            vector, small = vectors.pop(one)
            _store(base, number, self.recipe, vector, small)
        seen = self.seen.seen[path]
        if known is None or known.picture != number:
            if known is not None:
                self.count.changed.add(number)
                self.count.left.add(known.picture)
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
    whole = os.fsdecode(path)
    start = os.path.abspath(root)
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
