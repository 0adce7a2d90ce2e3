"""EXIF of the pictures of a library: written by scans, also for pictures of older libraries."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from prototag.engine.threads import map_in_order
from prototag.errors import ImageError
from prototag.events import Meter, Progress
from prototag.images.decode import read_bytes
from prototag.images.exif import Capture, read_capture
from prototag.library.database import Store

STAGE = "Reading dates and cameras"
BATCH_FILES = 256  # whose EXIF is written together


def write(conn: sqlite3.Connection, picture: int, capture: Capture) -> None:
    """Write the EXIF of a picture; what one of its files does not say, another one may."""
    conn.execute(
        "INSERT INTO captures VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "taken_at = coalesce(excluded.taken_at, taken_at), "
        "camera = coalesce(excluded.camera, camera), lens = coalesce(excluded.lens, lens), "
        "latitude = coalesce(excluded.latitude, latitude), "
        "longitude = coalesce(excluded.longitude, longitude)",
        (picture, *capture),
    )


def fill(
    store: Store, n_jobs: int, progress: Progress | None, stop: Callable[[], bool] | None
) -> None:
    """Read the EXIF of pictures that were scanned by an earlier version."""
    with store.read() as conn:
        rows = conn.execute(
            "SELECT path, picture FROM files WHERE present AND picture NOT IN "
            "(SELECT picture FROM captures)"
        ).fetchall()
    meter = Meter(STAGE, len(rows), progress)
    for start in range(0, len(rows), BATCH_FILES):
        if stop is not None and stop():
            return
        batch = rows[start : start + BATCH_FILES]
        paths = [Path(os.fsdecode(path)) for path, _ in batch]
        captures = list(map_in_order(_of_file, paths, workers=n_jobs, window=2 * n_jobs))
        with store.write() as conn:
            there = {row[0] for row in conn.execute("SELECT id FROM pictures")}
            for (_, picture), capture in zip(batch, captures, strict=True):
                if picture in there and capture is not None:
                    write(conn, picture, capture)
        meter.advance(len(batch))


def _of_file(path: Path) -> Capture | None:
    try:
        return read_capture(read_bytes(path))
    except ImageError:
        return None
