"""Out-of-core rows in one or many ``.npy`` files, read on demand."""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from prototag.arrays import Array
from prototag.errors import InputError
from prototag.storage.sqlite_lock_guard import open_for_reading, refuse_open_database

CHUNK_ROWS = 16_384  # rows per read when rows are selected
DTYPE_NAMES = ("float16", "float32", "float64", "int32", "int64", "uint8")


@dataclass(frozen=True)
class NpyFile:
    """A ``.npy`` file of rows."""

    path: str  # or a URL for fsspec
    rows: int
    offset: int  # bytes before the first row


@dataclass(frozen=True)
class StoredRows:
    """Lazy rows of files: small to pickle, and read by the worker that needs them.

    A slice is lazy too; :meth:`load` reads it. float16 is read as float32.
    """

    pieces: tuple[NpyFile, ...]
    columns: tuple[int, ...]  # the shape of one row
    kind: str  # how numbers are written
    start: int = 0
    stop: int = field(default=-1)

    def __post_init__(self) -> None:
        if self.stop < 0:
            object.__setattr__(self, "stop", sum(piece.rows for piece in self.pieces))

    @classmethod
    def from_files(cls, paths: Sequence[str | os.PathLike[str]]) -> StoredRows:
        """Concatenate the rows of several files."""
        pieces = []
        shapes = set()
        for path in (os.fspath(path) for path in paths):
            shape, kind, offset = _read_header(path)
            pieces.append(NpyFile(path, shape[0], offset))
            shapes.add((shape[1:], kind))
        if len(shapes) != 1:
            raise InputError(
                f"{len(paths)} files have {len(shapes)} different row shapes or dtypes: all must "
                "be equal."
            )
        columns, kind = shapes.pop()
        return cls(tuple(pieces), columns, kind)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.stop - self.start, *self.columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype("float32" if self.kind == "float16" else self.kind)

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, part: slice) -> StoredRows:
        start, stop, step = part.indices(len(self))
        if step != 1:
            raise IndexError("stored rows only support slices of step 1.")
        return replace(self, start=self.start + start, stop=self.start + max(start, stop))

    def load(self) -> Array:
        """Read the rows into memory."""
        loaded = np.empty(self.shape, self.dtype)
        ends = np.cumsum([piece.rows for piece in self.pieces]).tolist()
        at = 0
        row = self.start
        while row < self.stop:
            number = bisect.bisect_right(ends, row)
            piece = self.pieces[number]
            first = row - (ends[number] - piece.rows)
            count = min(self.stop, ends[number]) - row
            loaded[at : at + count] = self._read(piece, first, count)
            at += count
            row += count
        return loaded

    def take(self, rows: Array) -> Array:
        """Read some rows by ascending indices."""
        taken = np.empty((len(rows), *self.columns), self.dtype)
        low = 0
        for start in range(0, len(self), CHUNK_ROWS):
            high = int(np.searchsorted(rows, start + CHUNK_ROWS))
            if high > low:
                near = int(rows[low])
                far = int(rows[high - 1]) + 1
                taken[low:high] = self[near:far].load()[np.asarray(rows[low:high]) - near]
            low = high
        return taken

    def _read(self, piece: NpyFile, first: int, count: int) -> Array:
        written = np.dtype(self.kind)
        numbers = int(np.prod(self.columns, dtype=np.int64)) * count
        before = first * (numbers // max(count, 1)) * written.itemsize
        with open_binary(piece.path) as file:
            file.seek(piece.offset + before)
            data = file.read(numbers * written.itemsize)
        if len(data) != numbers * written.itemsize:
            raise InputError(f"{piece.path} is truncated: write it again.")
        return np.frombuffer(data, written).reshape(count, *self.columns)


def load_rows(rows: Any) -> Array:
    """Return rows as an array, and read them if they are lazy."""
    return np.asarray(rows.load() if hasattr(rows, "load") else rows)


def take_rows(rows: Any, numbers: Array) -> Array:
    """Return some rows of an array or of lazy rows by ascending indices."""
    return np.asarray(rows.take(numbers) if hasattr(rows, "load") else rows[numbers])


def open_binary(path: str, mode: str = "rb") -> IO[bytes]:
    """Open a file, or a URL by fsspec (which Dask installs)."""
    if "://" not in path:
        if mode == "rb":
            return open_for_reading(path)
        refuse_open_database(path)
        return open(path, mode)
    if any(_is_local(part) for part in path.split("::")):
        raise InputError(f"{path} is a URL of a local file: give its path.")
    try:
        import fsspec
    except ImportError as error:
        raise InputError(
            f'{path} is a URL, which requires fsspec: pip install "prototag[cluster]".'
        ) from error
    file: IO[bytes] = fsspec.open(path, mode).open()
    return file


def _is_local(address: str) -> bool:
    """Return whether fsspec would open a local file without the guard of open databases."""
    protocol, separator, _ = address.partition("://")
    return protocol.casefold() in ("file", "local") if separator else not protocol.isidentifier()


def _read_header(path: str) -> tuple[tuple[int, ...], str, int]:
    """Read shape, dtype and data offset; refuse anything but plain numbers in C order."""
    with open_binary(path) as file:
        try:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(file, max_header_size=4096)
        except (ValueError, EOFError) as error:
            raise InputError(f"{path} is not a file of numbers (.npy): {error}") from error
        if fortran or dtype.name not in DTYPE_NAMES or not shape or not dtype.isnative:
            raise InputError(f"{path} holds {dtype} of shape {shape}: rows of numbers are needed.")
        return shape, dtype.name, file.tell()
