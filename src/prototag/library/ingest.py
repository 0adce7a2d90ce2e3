"""Scan pictures into a library: find them, identify them by their pixels, compute their vectors.

A scan works in batches, each written in one transaction, pictures with the labels from their files:
an interrupted scan is resumed by the next one.
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
from prototag.images.decode import VERSION, digest, read_bytes
from prototag.images.exif import Capture, read_capture
from prototag.library import captures, file_labels, schema
from prototag.library.database import Store, select_in, vector_checksum
from prototag.library.scan import ScanResult, scan_files, stored_root
from prototag.library.types import ScanReport
from prototag.metadata.collect_tags import parse_kinds

NAME = "prototag.library"  # default name of a library
BATCH_PICTURES = 64
MAX_WAITING_BATCHES = 2  # that are computed before the one that is written
THUMBNAIL_PIXELS = 256  # of the longer side
STAGE = "Looking at pictures"
_one_at_a_time = threading.Lock()  # an extractor has one progress callback


@dataclass
class _Counts:
    """What a scan has found so far."""

    new: set[int] = field(default_factory=set)  # pictures
    changed: set[int] = field(default_factory=set)  # pictures in files that held others before
    left: set[int] = field(default_factory=set)  # those others
    moved: int = 0
    unreadable: int = 0
    problems: list[str] = field(default_factory=list)
    at_new_paths: list[bytes] = field(default_factory=list)  # of known pictures


def create(
    folder: Path,
    path: str | os.PathLike[str] | None,
    kind: str | Iterable[str],
    column: str | None,
    hierarchy: str,
    settings: dict[str, str],
) -> Path:
    """Create the file of a library; see :meth:`prototag.Library.create`."""
    kinds = parse_kinds(kind)
    if hierarchy not in ("path", "leaf"):
        raise LibraryError(f'hierarchy={hierarchy!r}: "path" or "leaf" is allowed.')
    if not folder.exists():
        raise LibraryError(f"{folder} does not exist: give a folder of pictures or a list.")
    beside = folder if folder.is_dir() else folder.parent
    file = Path(os.path.abspath(beside / NAME if path is None else path))
    schema.create(file)
    store = Store(file)
    with store.write() as conn:
        kept = "auto" if kinds is None else ",".join(sorted(kinds))
        conn.execute(
            "INSERT INTO roots (path, kind, column, hierarchy) VALUES (?, ?, ?, ?)",
            (stored_root(folder, file), kept, column, hierarchy),
        )
        conn.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
    store.close()
    return file


def scan(
    store: Store,
    extractor: Extractor,
    *,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> ScanReport:
    """Scan all folders; see :meth:`prototag.Library.scan`."""
    with _one_at_a_time:
        return _scan(store, extractor, progress, stop)


def _scan(
    store: Store,
    extractor: Extractor,
    progress: Progress | None,
    stop: Callable[[], bool] | None,
) -> ScanReport:
    result = scan_files(store, progress)
    count = _Counts(problems=[*result.problems])
    work = _Ingest(store, extractor, result, count)
    todo = work.outdated_paths()
    work.progress = _ScanProgress(len(todo), progress)
    batches = [
        _Batch(start, todo[start : start + BATCH_PICTURES])
        for start in range(0, len(todo), BATCH_PICTURES)
    ]
    _run_pipeline(work, batches, stop)
    without_tags_before = {
        known.picture for known in result.known.values() if known.parsed_tags is None
    }
    changed_pictures = file_labels.apply_file_labels(store, result, count.at_new_paths)
    captures.fill(store, count_threads(extractor.n_jobs), progress, stop)
    return ScanReport(
        new=len(count.new),
        moved=count.moved,
        changed=len(count.changed | (changed_pictures - count.new - without_tags_before)),
        vanished=_count_lost(store, result, count),
        unreadable=count.unreadable,
        total=len(result.files) - count.unreadable,
        problems=count.problems,
    )


def _run_pipeline(work: _Ingest, batches: list[_Batch], stop: Callable[[], bool] | None) -> None:
    """Run the batches through a pipeline of three stages that work at the same time.

    While one batch is written to the disk, the network computes the vectors of the next, and the
    digests of the one after it are computed. An error stops the other stages at their next step.
    """
    waiting: deque[Future[_Batch]] = deque()
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:

        def submit(batch: _Batch) -> Future[_Batch]:
            identified = first.submit(work.identify, batch)
            return second.submit(lambda: work.compute_vectors(identified.result()))

        try:
            for number in range(len(batches)):
                if stop is not None and stop():
                    break
                while len(waiting) <= MAX_WAITING_BATCHES and number + len(waiting) < len(batches):
                    waiting.append(submit(batches[number + len(waiting)]))
                work.write(waiting.popleft().result())
        finally:
            work.progress.ended = True
            for future in waiting:
                future.cancel()


class _ScanEnded(Exception):
    """Raised in the thread that computes vectors once the scan is over."""


class _ScanProgress:
    """Progress of a scan, reported by the thread that computes vectors."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.ended = False
        self._meter = Meter(STAGE, total, progress)

    def batch_progress(self, start: int, event: Event) -> None:
        """Report the progress of the extractor in the batch that begins at ``start``."""
        self.advance_to(start + event.done, event.message)

    def advance_to(self, done: int, message: str = "") -> None:
        """Report the number of files that are done."""
        if self.ended:
            raise _ScanEnded
        self._meter.done = done
        self._meter.advance(0, message=message)


@dataclass
class _Batch:
    """Files that go through the stages of a scan together; each stage fills in its results."""

    start: int  # number of the first file among all
    paths: list[bytes]
    files: list[Path] = field(default_factory=list)
    stamps: list[bytes | None] = field(default_factory=list)
    digests: list[bytes | Skipped] = field(default_factory=list)
    captures: list[Capture] = field(default_factory=list)
    fresh: dict[bytes, Path] = field(default_factory=dict)  # by digest: files without a vector
    vectors: dict[bytes, tuple[Array, bytes]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # why files have no vector


def _count_lost(store: Store, result: ScanResult, count: _Counts) -> int:
    """Count the pictures whose last file vanished with this scan."""
    numbers = list({result.known[path].picture for path in result.vanished} | count.left)
    with store.read() as conn:
        rows = select_in(conn, "SELECT count(*) FROM pictures WHERE n_files = 0 AND id IN", numbers)
        return sum(row[0] for row in rows)


class _Ingest:
    """Stages of a scan, for one batch at a time."""

    def __init__(
        self, store: Store, extractor: Extractor, result: ScanResult, count: _Counts
    ) -> None:
        self.store = store
        self.extractor = extractor
        self.scan = result
        self.count = count
        self.labels = file_labels.FileLabels(result)
        self.progress = _ScanProgress(0, None)
        self.recipe = bytes.fromhex(store.setting("recipe", ""))
        if self.recipe and store.setting("images", "") != str(VERSION):
            self._load_network()

    def _load_network(self) -> None:
        """Load the network and store its recipe; vectors of another recipe are computed again."""
        self.recipe = self.extractor.recipe
        if self.store.setting("recipe", "") != self.recipe.hex():
            self.store.set_setting("recipe", self.recipe.hex())
        self.store.set_setting("images", str(VERSION))

    def outdated_paths(self) -> list[bytes]:
        """Return the paths of files that are new or changed, or whose pictures have no vector."""
        with self.store.read() as conn:
            described = {
                number
                for (number,) in conn.execute(
                    "SELECT picture FROM vectors WHERE recipe = ?", (self.recipe,)
                )
            }
        todo = []
        for path, file in self.scan.files.items():
            known = self.scan.known.get(path)
            stamp = known.file_stamp if known is not None and known.picture in described else None
            if stamp is None or stamp != stamp_of(file.picture.path):
                todo.append(path)
        return todo

    def identify(self, batch: _Batch) -> _Batch:
        """Compute the digests of the files, and find those without a vector."""
        batch.files = [self.scan.files[path].picture.path for path in batch.paths]
        batch.stamps = [stamp_of(file) for file in batch.files]
        workers = count_threads(self.extractor.n_jobs)
        identities = list(map_in_order(_identify, batch.files, workers=workers, window=2 * workers))
        batch.digests = [one for one, _ in identities]
        batch.captures = [capture for _, capture in identities]
        with self.store.read() as conn:
            known = [one for one in batch.digests if isinstance(one, bytes)]
            numbers = _picture_numbers(conn, known)
            described = _with_vectors(conn, list(numbers.values()), self.recipe)
        for file, one in zip(batch.files, batch.digests, strict=True):
            if isinstance(one, bytes) and numbers.get(one) not in described:
                batch.fresh.setdefault(one, file)
        return batch

    def compute_vectors(self, batch: _Batch) -> _Batch:
        """Compute vectors and thumbnails of pictures without a vector."""
        if batch.fresh:
            if not self.recipe:
                self._load_network()
            self.extractor.progress = partial(self.progress.batch_progress, batch.start)
            extraction = self.extractor.extract(
                list(batch.fresh.values()), thumbnails=True, side=THUMBNAIL_PIXELS
            )
            batch.vectors = {
                one: (vector, small)
                for one, vector, small in zip(
                    extraction.digests, extraction.vectors, extraction.thumbnails, strict=True
                )
            }
            batch.reasons = {skipped.source: str(skipped) for skipped in extraction.skipped}
        self.progress.advance_to(batch.start + len(batch.paths))
        return batch

    def write(self, batch: _Batch) -> None:
        """Write a batch in one transaction."""
        with self.store.write() as conn:
            # Another process, or the batch before, may have added some of them meanwhile.
            numbers = _picture_numbers(
                conn, [one for one in batch.digests if isinstance(one, bytes)]
            )
            for i, one in enumerate(batch.digests):
                path = batch.paths[i]
                file = batch.files[i]
                if isinstance(one, Skipped):
                    self._record_failure(str(one))
                elif one not in numbers and one not in batch.vectors:
                    reason = batch.reasons.get(os.fspath(batch.fresh.get(one, file)))
                    self._record_failure(reason or f"{file}: changes while it is read")
                else:
                    self._write_file(conn, path, one, batch.stamps[i], numbers, batch.vectors)
                    captures.write(conn, numbers[one], batch.captures[i])

    def _record_failure(self, reason: str) -> None:
        self.count.unreadable += 1
        self.count.problems.append(reason)

    def _write_file(
        self,
        conn: sqlite3.Connection,
        path: bytes,
        one: bytes,
        stamp: bytes | None,
        numbers: dict[bytes, int],
        vectors: dict[bytes, tuple[Array, bytes]],
    ) -> None:
        known = self.scan.known.get(path)
        is_new = one not in numbers
        if is_new:
            numbers[one] = int(
                conn.execute(
                    "INSERT INTO pictures (digest, added_at) VALUES (?, ?) RETURNING id",
                    (one, time.time()),
                ).fetchone()[0]
            )
        number = numbers[one]
        if is_new:
            self.labels.write(conn, path, number)
        if one in vectors:
            vector, small = vectors.pop(one)
            _store_vector(conn, number, self.recipe, vector, small)
        scanned = self.scan.files[path]
        if known is None or known.picture != number:
            if known is not None:
                self.count.changed.add(number)
                self.count.left.add(known.picture)
            elif is_new:
                self.count.new.add(number)
            else:
                self.count.moved += number not in self.count.new
            if not is_new:
                self.count.at_new_paths.append(path)
        root = next(root.path for root in self.scan.roots if root.number == scanned.root)
        conn.execute(
            "INSERT INTO files (path, folder, search_name, picture, root, file_stamp) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET picture = excluded.picture, "
            "root = excluded.root, file_stamp = excluded.file_stamp, present = 1",
            (path, os.path.dirname(path), searchable(path, root), number, scanned.root, stamp),
        )


def searchable(path: bytes, root: Path) -> str:
    """Return a path as text for searching: relative to its root, in lower case."""
    whole = os.fsdecode(path)
    start = os.path.abspath(root)
    if os.path.isfile(start):
        start = os.path.dirname(start)
    text = os.path.relpath(whole, start) if whole.startswith(start + os.sep) else whole
    return text.casefold().encode("utf-8", "replace").decode()


def _identify(path: Path) -> tuple[bytes | Skipped, Capture]:
    """Return the digest and the EXIF of a file, which is read once."""
    try:
        data = read_bytes(path)
        return digest(data), read_capture(data)
    except ImageError as error:
        return Skipped(0, os.fspath(path), str(error)), Capture()


def _picture_numbers(conn: sqlite3.Connection, digests: list[bytes]) -> dict[bytes, int]:
    rows = select_in(conn, "SELECT digest, id FROM pictures WHERE digest IN", digests)
    return {bytes(one): number for one, number in rows}


def _with_vectors(conn: sqlite3.Connection, numbers: list[int], recipe: bytes) -> set[int]:
    rows = select_in(conn, "SELECT picture, recipe FROM vectors WHERE picture IN", numbers)
    return {number for number, stored in rows if stored == recipe}


def _store_vector(
    conn: sqlite3.Connection, number: int, recipe: bytes, vector: Array, small: bytes
) -> None:
    data = np.asarray(vector, "<f4").tobytes()
    conn.execute(
        "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)",
        (number, recipe, data, vector_checksum(number, data)),
    )
    if small:
        conn.execute("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", (number, small))


def prune(store: Store) -> int:
    """Remove pictures without existing files, and missing files of all others."""
    with store.write() as conn:
        conn.execute(
            "DELETE FROM files WHERE present = 0 AND picture IN "
            "(SELECT id FROM pictures WHERE n_files > 0)"
        )
        return conn.execute("DELETE FROM pictures WHERE n_files = 0").rowcount
