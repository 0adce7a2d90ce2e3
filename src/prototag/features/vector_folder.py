"""A folder of vectors: the pictures of a collection as numbers, in pieces read when needed.

docs/reference/vectors-folder.md is its specification. Nothing in it is executed, and what its
manifest says is checked before it is believed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prototag.arrays import Array
from prototag.errors import DatasetError, InputError
from prototag.features.extractor import Extractor
from prototag.features.types import FeatureGroup
from prototag.images.decode import DIGEST_BYTES
from prototag.storage.npy_rows import StoredRows, open_binary

if TYPE_CHECKING:
    from scipy import sparse

FORMAT = "prototag-vectors"
VERSION = 2
MANIFEST = "manifest.json"
SETTINGS = "settings.json"
KINDS = ("vectors", "pictures", "indptr", "indices")  # the files of a piece
MAX_MANIFEST = 1 << 27  # bytes
MAX_LINE = 1 << 20
_FILE = re.compile(r"(vectors|indptr|indices)-[0-9]{5,9}\.npy|pictures-[0-9]{5,9}\.jsonl")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class StoredPicture(NamedTuple):
    """A line of the folder."""

    path: str  # below the folder that all pictures share
    digest: bytes
    tags: list[str]
    ruled_out: list[str] | None = None  # see prototag.metadata.Collected


class VectorFolder:
    """Vectors and tags of many pictures, which stay on the disk.

    Parameters
    ----------
    path : path, or an address that fsspec opens

    Attributes
    ----------
    X : StoredRows
        One row of float32 for each picture.
    tags : list of str
        All tags that a picture has: the columns of ``Y``.
    feature_groups : list of FeatureGroup
        Groups of the columns of ``X``.
    unreadable : int
        Pictures that could not be read, and are not here.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._manifest = _checked(self.path, _manifest(self.path))
        self.tags: list[str] = self._manifest["tags"]
        self.feature_groups = [
            FeatureGroup(name, width) for name, width in self._manifest["feature_groups"]
        ]
        self.unreadable: int = self._manifest["unreadable"]
        self.untagged: int = self._manifest["untagged"]
        self._pieces: list[dict[str, Any]] = self._manifest["pieces"]
        self.X = self._stored(
            "vectors", "float32", (sum(block.width for block in self.feature_groups),)
        )

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def Y(self) -> sparse.csr_array:
        """Which picture has which tag: CSR of 0/1, float32."""
        from scipy import sparse

        limits = [np.zeros(1, np.int64)]
        found = []
        last = 0
        for number, piece in enumerate(self._pieces):
            indptr = self._numbers(number, "indptr", "int64")
            indices = self._numbers(number, "indices", "int32")
            if not _is_csr(indptr, indices, piece["rows"], len(self.tags)):
                raise DatasetError(f"{self.path}: the tags of piece {number} make no sense.")
            limits.append(indptr[1:] + last)
            found.append(indices)
            last += len(indices)
        ones = np.ones(last, np.float32)
        indices = np.concatenate([np.zeros(0, np.int32), *found])
        shape = len(self), len(self.tags)
        return sparse.csr_array((ones, indices, np.concatenate(limits)), shape=shape)

    @property
    def pictures(self) -> Iterator[StoredPicture]:
        """The pictures in the order of the rows, one by one."""
        for piece in self._pieces:
            name = piece["pictures"]["file"]
            count = 0
            with open_binary(_join(self.path, name)) as file:
                while line := file.readline(MAX_LINE):
                    yield _picture(f"{self.path}: {name}, line {count + 1},", line)
                    count += 1
            if count != piece["rows"]:
                rows = piece["rows"]
                raise DatasetError(f"{self.path}: {name} has {count} lines for {rows} rows.")

    def verify(self) -> None:
        """Compare all files with their checksums."""
        for piece in self._pieces:
            for kind in KINDS:
                told = piece[kind]
                checksum = hashlib.sha256()
                size = 0
                with open_binary(_join(self.path, told["file"])) as file:
                    while data := file.read(1 << 20):
                        checksum.update(data)
                        size += len(data)
                if size != told["bytes"] or checksum.hexdigest() != told["sha256"]:
                    raise DatasetError(
                        f"{_join(self.path, told['file'])} is not as it was written: copy it "
                        "again, or remove it and run `prototag features` again."
                    )

    def extractor(self, **settings: Any) -> Extractor:
        """What makes such vectors of new pictures."""
        try:
            return Extractor.from_state(self._manifest["features"], {}, **settings)
        except (AttributeError, KeyError, TypeError) as error:
            raise DatasetError(f"{self.path} does not say how it was made: {error}.") from error

    def columns(self, extractor: Extractor) -> Array:
        """Which columns an extractor would make, in its order; it must be of the same kind."""
        ours = self._manifest["features"]
        theirs = extractor.to_state()[0]
        told = ("fingerprint", "crops", "images_version")
        place = {}
        start = 0
        for block in self.feature_groups:
            place[block.name] = np.arange(start, start + block.width)
            start += block.width
        wanted = [(block.name, block.width) for block in extractor.feature_groups]
        if any(ours.get(name) != theirs[name] for name in told) or not {*wanted} <= {
            *self.feature_groups
        }:
            raise DatasetError(
                f"{self.path} has vectors of the network {ours.get('backbone')!r} with crops "
                f"{ours.get('crops')!r}, and the model wants {theirs['backbone']!r} with "
                f"{theirs['crops']!r}, or others of the same name: make them again."
            )
        return np.concatenate([place[name] for name, _ in wanted])

    def _stored(self, kind: str, dtype: str, columns: tuple[int, ...]) -> StoredRows:
        paths = [_join(self.path, piece[kind]["file"]) for piece in self._pieces]
        try:
            found = StoredRows.from_files(paths)
        except OSError as error:
            raise DatasetError(f"{self.path}: {error}") from error
        except InputError as error:
            raise DatasetError(str(error)) from error
        told = [piece["rows"] for piece in self._pieces]
        rows = [piece.rows for piece in found.pieces]
        width = int(np.prod(columns)) * np.dtype(dtype).itemsize
        whole = all(
            _size(piece.path) == piece.offset + piece.rows * width == told[kind]["bytes"]
            for piece, told in zip(found.pieces, self._pieces, strict=True)
        )
        if rows != told or found.columns != columns or found.kind != dtype or not whole:
            raise DatasetError(
                f"{self.path}: its {kind} are {found.kind} of {found.shape}, and not what the "
                "manifest says: it is damaged."
            )
        return found

    def _numbers(self, number: int, kind: str, dtype: str) -> Array:
        path = _join(self.path, self._pieces[number][kind]["file"])
        try:
            found = StoredRows.from_files([path])
            offset = found.pieces[0].offset
            size = np.dtype(dtype).itemsize
            if found.columns or found.kind != dtype or _size(path) != offset + len(found) * size:
                raise InputError(f"{path} holds {found.kind} of {found.shape}.")
            return found.load()
        except (OSError, InputError) as error:
            raise DatasetError(f"{self.path} is damaged: {error}") from error


def is_vector_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds vectors, complete or not."""
    return any(os.path.isfile(os.path.join(path, name)) for name in (MANIFEST, SETTINGS))


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if "://" in folder else os.path.join(folder, name)


def _size(path: str) -> int:
    with open_binary(path) as file:
        return file.seek(0, os.SEEK_END)


def _manifest(folder: str) -> Any:
    try:
        with open_binary(_join(folder, MANIFEST)) as file:
            text = file.read(MAX_MANIFEST + 1)
    except FileNotFoundError:
        raise DatasetError(
            f"{folder} has no {MANIFEST}, so its vectors are not complete: run `prototag features` "
            "again, which goes on where it ended."
        ) from None
    except OSError as error:
        raise DatasetError(f"{folder} cannot be read: {error}") from error
    try:
        return json.loads(text) if len(text) <= MAX_MANIFEST else None
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{folder}: {MANIFEST} is no JSON: {error}.") from None


def _checked(folder: str, told: Any) -> dict[str, Any]:
    """A manifest that says what it must, in the types that it must."""
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise DatasetError(f"{folder} does not hold vectors of prototag.")
    if told.get("version") != VERSION:
        raise DatasetError(
            f"{folder} is of version {told.get('version')!r}; this program reads {VERSION}."
        )
    names, columns, pieces = (told.get(name) for name in ("tags", "feature_groups", "pieces"))
    fits = (
        isinstance(names, list)
        and all(isinstance(name, str) and name for name in names)
        and len(set(names)) == len(names)
        and isinstance(columns, list)
        and 0 < len(columns) <= 1024
        and all(isinstance(b, list) and len(b) == 2 for b in columns)
        and all(isinstance(name, str) and _is_count(width, 1) for name, width in columns)
        and all(_is_count(told.get(name)) for name in ("unreadable", "untagged"))
        and isinstance(told.get("features"), dict)
        and isinstance(pieces, list)
        and len(pieces) > 0
        and all(_is_piece(piece) for piece in pieces)
    )
    if not fits:
        raise DatasetError(f"{folder}: {MANIFEST} does not say what it must: it is damaged.")
    return dict(told)


def _is_piece(piece: Any) -> bool:
    return (
        isinstance(piece, dict)
        and _is_count(piece.get("rows"))
        and all(_is_file(piece.get(kind), kind) for kind in KINDS)
    )


def _is_file(told: Any, kind: str) -> bool:
    """Names are plain, so that none leads out of the folder."""
    return (
        isinstance(told, dict)
        and isinstance(told.get("file"), str)
        and _FILE.fullmatch(told["file"]) is not None
        and told["file"].startswith(f"{kind}-")
        and _is_count(told.get("bytes"))
        and isinstance(told.get("sha256"), str)
        and _SHA256.fullmatch(told["sha256"]) is not None
    )


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value < 1 << 48


def _is_csr(indptr: Array, indices: Array, rows: int, t: int) -> bool:
    if len(indptr) != rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices):
        return False
    if (np.diff(indptr) < 0).any() or (indices < 0).any() or (indices >= t).any():
        return False
    row = np.repeat(np.arange(rows), np.diff(indptr))
    return bool((np.diff(row * np.int64(t) + indices) > 0).all())  # rising, none twice


def _picture(where: str, line: bytes) -> StoredPicture:
    try:
        told = json.loads(line)
        path = told["path"]
        digest = bytes.fromhex(told["digest"])
        tags = told["tags"]
        gone = told.get("ruled_out")
        words = [path, *tags, *(gone or [])]
        if not all(isinstance(word, str) for word in words) or len(digest) != DIGEST_BYTES:
            raise ValueError("a path, a digest and tags are needed")
        return StoredPicture(path, digest, list(tags), None if gone is None else list(gone))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(f"{where} is no picture: {error}.") from None
