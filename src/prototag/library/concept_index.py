"""Index of a library's pictures by concepts: what ranks them for words, without any label.

A picture is represented by the coordinates of its vector on the axes of the concept heads
(:mod:`prototag.knowledge.concepts`), quantized to 8 bits: 512 bytes. The score of a word is their
product with the head of the word. Coordinates are stored in the library's file when they are first
needed. In memory they take 51 MB for 100,000 pictures, until :meth:`ConceptIndex.release`.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from prototag.arrays import Array, Doubles, Floats
from prototag.engine import single_threaded_blas
from prototag.features.extractor import Extractor
from prototag.knowledge.concepts import BACKBONE, WIDTH, embedded, quantize
from prototag.library import training_data
from prototag.library.database import Ids, Store, select_in
from prototag.tagging.name_knowledge import SMALL_DEVIATION

BATCH_PICTURES = 1_024  # whose coordinates are computed, and written, together
BATCH_ROWS = 256  # that are multiplied together: 0.5 MB as float32, which a cache holds
SCALE_BYTES = 4


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Coordinates of all pictures of a library that have vectors, ordered by number."""

    version: bytes  # digest of the recipe of the vectors and of the axes
    pictures: Ids  # n
    quantized: Array  # n x axes, int8
    scale: Floats  # n, of a row

    def scores(self, heads: Floats) -> Floats:
        """Return the scores of all pictures for heads (t x axes): n x t."""
        result = np.empty((len(self.pictures), len(heads)), np.float32)
        weights = np.ascontiguousarray(heads.T)
        for start, rows in self.batches():
            np.matmul(rows, weights, out=result[start : start + len(rows)])
        result *= self.scale[:, None]
        return result

    def batches(self) -> Iterator[tuple[int, Floats]]:
        """Generate the number of a first row, and rows without their scale, in one buffer."""
        buffer = np.empty((BATCH_ROWS, self.quantized.shape[1]), np.float32)
        with single_threaded_blas():
            for start in range(0, len(self.pictures), BATCH_ROWS):
                part = self.quantized[start : start + BATCH_ROWS]
                np.copyto(buffer[: len(part)], part)
                yield start, buffer[: len(part)]

    @cached_property
    def moments(self) -> tuple[Doubles, Doubles]:
        """Mean (axes) and covariance (axes x axes) of the coordinates."""
        width = self.quantized.shape[1]
        total = np.zeros(width)
        gram = np.zeros((width, width))
        for start, rows in self.batches():
            scaled = rows * self.scale[start : start + len(rows), None]
            total += scaled.sum(axis=0)
            gram += scaled.T @ scaled
        n = max(len(self.pictures), 1)
        mean = total / n
        return mean, gram / n - np.outer(mean, mean)

    def standardized(self, heads: Floats) -> tuple[Floats, Doubles]:
        """Return heads (t x axes) and offsets (t) whose scores have mean 0 and a deviation of 1.

        The deviation is less for words that are like no concept.
        """
        mean, covariance = self.moments
        variance = np.einsum("ij,jk,ik->i", heads, covariance, heads)
        scale = 1 / (np.sqrt(np.maximum(variance, 0)) + SMALL_DEVIATION)
        scaled = (heads * scale[:, None]).astype(np.float32)
        return scaled, -(scaled @ mean)

    def cosines(self, row: int) -> Floats:
        """Return the cosine similarities of all pictures to that of a row.

        Axes are scaled to a deviation of 1: otherwise the few widest would decide.
        """
        mean, covariance = self.moments
        scale = (1 / np.sqrt(np.maximum(np.diag(covariance), 1e-12))).astype(np.float32)
        one = (self.quantized[row] * self.scale[row] - mean.astype(np.float32)) * scale
        result = np.empty(len(self.pictures), np.float32)
        for start, rows in self.batches():
            scaled = rows * self.scale[start : start + len(rows), None] - mean.astype(np.float32)
            scaled *= scale
            norms = np.linalg.norm(scaled, axis=1)
            result[start : start + len(rows)] = scaled @ one / np.maximum(norms, 1e-12)
        return np.asarray(result / max(float(np.linalg.norm(one)), 1e-12), np.float32)

    def rows_of(self, pictures: Ids) -> Ids:
        """Return the row of each picture; -1 where it has none."""
        if not len(self.pictures):
            return np.full(len(pictures), -1, np.int64)
        place = np.minimum(np.searchsorted(self.pictures, pictures), len(self.pictures) - 1)
        return np.where(self.pictures[place] == pictures, place, -1)


class ConceptIndex:
    """Coordinates of a library's pictures, kept in sync with its vectors; threads may share it."""

    def __init__(self, store: Store, extractor: Extractor) -> None:
        self.store = store
        self.extractor = extractor
        self._lock = threading.Lock()
        self._state: tuple[bytes, int, int] | None = None  # of the vectors at the last update
        self._coordinates: Coordinates | None = None

    def coordinates(self) -> Coordinates | None:
        """Return the coordinates of all pictures, updated after scans.

        None if the library has no vectors of the network that the concept heads are for.
        """
        with self._lock:
            with self.store.read() as conn:
                recipe = self.store.recipe(conn)
                count, last = conn.execute(
                    "SELECT count(*), max(picture) FROM vectors WHERE recipe = ?", (recipe,)
                ).fetchone()
            state = recipe, int(count), int(last or 0)
            if state != self._state:
                self._coordinates = self._read(recipe) if count else None
                self._state = state
            return self._coordinates

    def release(self) -> None:
        """Free the memory; the next use reads the file again."""
        with self._lock:
            self._state = None
            self._coordinates = None

    def _is_default_vector(self, recipe: bytes) -> bool:
        with self.store.read() as conn:
            row = conn.execute(
                "SELECT length(vector) FROM vectors WHERE recipe = ? LIMIT 1", (recipe,)
            ).fetchone()
        return row == (WIDTH * 4,) and self.extractor.fingerprint == BACKBONE

    def _read(self, recipe: bytes) -> Coordinates | None:
        """Read the coordinates of pictures that are not in memory; compute missing ones."""
        if not self._is_default_vector(recipe):
            return None
        heads = embedded()
        version = hashlib.blake2b(recipe + heads.axes_digest, digest_size=16).digest()
        with self.store.read() as conn:
            pictures = np.array(
                [
                    row[0]
                    for row in conn.execute(
                        "SELECT picture FROM vectors WHERE recipe = ? ORDER BY picture", (recipe,)
                    )
                ],
                np.int64,
            )
            known = self._known(version)
            width = heads.axes.shape[1]
            quantized = np.zeros((len(pictures), width), np.int8)
            scale = np.zeros(len(pictures), np.float32)
            place = known.rows_of(pictures)
            quantized[place >= 0] = known.quantized[place[place >= 0]]
            scale[place >= 0] = known.scale[place[place >= 0]]
            missing = np.flatnonzero(place < 0)
            row_of = dict(zip(pictures[missing].tolist(), missing.tolist(), strict=True))
            for picture, data in _stored(conn, version, row_of):
                row = row_of.pop(picture)
                scale[row] = np.frombuffer(data, "<f4", 1)[0]
                quantized[row] = np.frombuffer(data, np.int8, offset=SCALE_BYTES)
        rows = np.array(sorted(row_of.values()), np.int64)
        for start in range(0, len(rows), BATCH_PICTURES):
            batch = rows[start : start + BATCH_PICTURES]
            X = training_data.vectors(self.store, pictures[batch])
            with single_threaded_blas():
                quantized[batch], scale[batch] = quantize(heads.coordinates(X))
            self._write(version, pictures[batch], quantized[batch], scale[batch])
        return Coordinates(version, pictures, quantized, scale)

    def _known(self, version: bytes) -> Coordinates:
        if self._coordinates is not None and self._coordinates.version == version:
            return self._coordinates
        rows = np.empty((0, embedded().axes.shape[1]), np.int8)
        return Coordinates(version, np.empty(0, np.int64), rows, np.empty(0, np.float32))

    def _write(self, version: bytes, pictures: Ids, quantized: Array, scale: Floats) -> None:
        if not self.store.can_write:
            return
        rows = [
            (version, np.float32(one).astype("<f4").tobytes() + row.tobytes(), int(picture))
            for picture, row, one in zip(pictures, quantized, scale, strict=True)
        ]
        with self.store.write() as conn:  # pictures may have been pruned meanwhile
            conn.executemany(
                "INSERT OR REPLACE INTO concept_coordinates (version, coordinates, picture) "
                "SELECT ?1, ?2, id FROM pictures WHERE id = ?3",
                rows,
            )


def _stored(
    conn: sqlite3.Connection, version: bytes, wanted: dict[int, int]
) -> Iterator[tuple[int, bytes]]:
    """Generate the stored coordinates of the wanted pictures."""
    (count,) = conn.execute(
        "SELECT count(*) FROM concept_coordinates WHERE version = ?", (version,)
    ).fetchone()
    columns = "SELECT picture, coordinates FROM concept_coordinates"
    if count > 2 * len(wanted):  # a few new pictures of many
        select = f"{columns} WHERE version = x'{version.hex()}' AND picture IN"
        yield from select_in(conn, select, list(wanted))
        return
    for picture, data in conn.execute(f"{columns} WHERE version = ?", (version,)):
        if picture in wanted:
            yield picture, data
