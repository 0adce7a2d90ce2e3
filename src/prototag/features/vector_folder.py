"""Folder of vectors: the feature vectors and tags of a collection, in pieces that are read lazily.

docs/reference/vectors-folder.md is the specification. Nothing in the folder is executed, and its
manifest is validated.
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
MAX_MANIFEST_BYTES = 1 << 27
MAX_LINE_BYTES = 1 << 20
_FILE = re.compile(r"(vectors|indptr|indices)-[0-9]{5,9}\.npy|pictures-[0-9]{5,9}\.jsonl")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class StoredPicture(NamedTuple):
    """One picture of the folder, from a line of a piece."""

    path: str  # relative to the common folder of all pictures
    digest: bytes
    tags: list[str]
    ruled_out: list[str] | None = None  # see prototag.metadata.Collected


class VectorFolder:
    """Vectors and tags of many pictures on disk.

    Parameters
    ----------
    path : path, or a URL that fsspec opens

    Attributes
    ----------
    X : StoredRows
        One row of float32 for each picture.
    tags : list of str
        Names of the columns of ``Y``.
    feature_groups : list of FeatureGroup
        Groups of the columns of ``X``.
    unreadable : int
        Number of pictures that could not be read; they are not in the folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._manifest = _checked_manifest(self.path, _read_manifest(self.path))
        self.tags: list[str] = self._manifest["tags"]
        self.feature_groups = [
            FeatureGroup(name, width) for name, width in self._manifest["feature_groups"]
        ]
        self.unreadable: int = self._manifest["unreadable"]
        self.untagged: int = self._manifest["untagged"]
        self._pieces: list[dict[str, Any]] = self._manifest["pieces"]
        self.X = self._stored(
            "vectors", "float32", (sum(group.width for group in self.feature_groups),)
        )

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def Y(self) -> sparse.csr_array:
        """Tags of the pictures: CSR of 0/1, float32."""
        from scipy import sparse

        offsets = [np.zeros(1, np.int64)]
        columns = []
        count = 0
        for number, piece in enumerate(self._pieces):
            indptr = self._numbers(number, "indptr", "int64")
            indices = self._numbers(number, "indices", "int32")
            if not _is_csr(indptr, indices, piece["rows"], len(self.tags)):
                raise DatasetError(f"{self.path}: the tags of piece {number} are damaged.")
            offsets.append(indptr[1:] + count)
            columns.append(indices)
            count += len(indices)
        ones = np.ones(count, np.float32)
        indices = np.concatenate([np.zeros(0, np.int32), *columns])
        shape = len(self), len(self.tags)
        return sparse.csr_array((ones, indices, np.concatenate(offsets)), shape=shape)

    @property
    def pictures(self) -> Iterator[StoredPicture]:
        """The pictures in the order of the rows, read lazily."""
        for piece in self._pieces:
            name = piece["pictures"]["file"]
            count = 0
            with open_binary(_join(self.path, name)) as file:
                while line := file.readline(MAX_LINE_BYTES):
                    yield _parse_picture(f"{self.path}: {name}, line {count + 1},", line)
                    count += 1
            if count != piece["rows"]:
                rows = piece["rows"]
                raise DatasetError(f"{self.path}: {name} has {count} lines for {rows} rows.")

    def verify(self) -> None:
        """Verify the checksums of all files."""
        for piece in self._pieces:
            for kind in KINDS:
                entry = piece[kind]
                checksum = hashlib.sha256()
                size = 0
                with open_binary(_join(self.path, entry["file"])) as file:
                    while data := file.read(1 << 20):
                        checksum.update(data)
                        size += len(data)
                if size != entry["bytes"] or checksum.hexdigest() != entry["sha256"]:
                    raise DatasetError(
                        f"{_join(self.path, entry['file'])} does not match its checksum: copy it "
                        "again, or remove it and run `prototag features` again."
                    )

    def extractor(self, **settings: Any) -> Extractor:
        """Return an extractor that computes such vectors."""
        try:
            return Extractor.from_state(self._manifest["features"], {}, **settings)
        except (AttributeError, KeyError, TypeError) as error:
            raise DatasetError(f"{self.path} does not describe an extractor: {error}.") from error

    def columns(self, extractor: Extractor) -> Array:
        """Return the columns of the feature groups of a compatible extractor, in its order."""
        ours = self._manifest["features"]
        theirs = extractor.to_state()[0]
        columns = {}
        start = 0
        for group in self.feature_groups:
            columns[group.name] = np.arange(start, start + group.width)
            start += group.width
        needed = extractor.feature_groups
        settings = ("fingerprint", "crops", "images_version")
        is_compatible = all(ours.get(name) == theirs[name] for name in settings)
        if not is_compatible or not {*needed} <= {*self.feature_groups}:
            raise DatasetError(
                f"{self.path} has vectors of the network {ours.get('backbone')!r} with crops "
                f"{ours.get('crops')!r}, and the model needs {theirs['backbone']!r} with "
                f"{theirs['crops']!r}, or another version of these: run `prototag features` again."
            )
        return np.concatenate([columns[group.name] for group in needed])

    def _stored(self, kind: str, dtype: str, columns: tuple[int, ...]) -> StoredRows:
        paths = [_join(self.path, piece[kind]["file"]) for piece in self._pieces]
        try:
            stored = StoredRows.from_files(paths)
        except OSError as error:
            raise DatasetError(f"{self.path}: {error}") from error
        except InputError as error:
            raise DatasetError(str(error)) from error
        row_bytes = int(np.prod(columns)) * np.dtype(dtype).itemsize
        are_sizes_correct = all(
            piece.rows == entry["rows"]
            and _size(piece.path) == piece.offset + piece.rows * row_bytes == entry[kind]["bytes"]
            for piece, entry in zip(stored.pieces, self._pieces, strict=True)
        )
        if stored.columns != columns or stored.kind != dtype or not are_sizes_correct:
            raise DatasetError(
                f"{self.path}: its {kind} are {stored.kind} of {stored.shape}, which differs from "
                "the manifest: it is damaged."
            )
        return stored

    def _numbers(self, number: int, kind: str, dtype: str) -> Array:
        path = _join(self.path, self._pieces[number][kind]["file"])
        try:
            stored = StoredRows.from_files([path])
            expected_bytes = stored.pieces[0].offset + len(stored) * np.dtype(dtype).itemsize
            if stored.columns or stored.kind != dtype or _size(path) != expected_bytes:
                raise InputError(f"{path} holds {stored.kind} of {stored.shape}.")
            return stored.load()
        except (OSError, InputError) as error:
            raise DatasetError(f"{self.path} is damaged: {error}") from error


def is_vector_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a folder of vectors, complete or not."""
    return any(os.path.isfile(os.path.join(path, name)) for name in (MANIFEST, SETTINGS))


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if "://" in folder else os.path.join(folder, name)


def _size(path: str) -> int:
    with open_binary(path) as file:
        return file.seek(0, os.SEEK_END)


def _read_manifest(folder: str) -> Any:
    try:
        with open_binary(_join(folder, MANIFEST)) as file:
            text = file.read(MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        raise DatasetError(
            f"{folder} has no {MANIFEST}, so its vectors are not complete: run `prototag features` "
            "again, which resumes."
        ) from None
    except OSError as error:
        raise DatasetError(f"{folder} cannot be read: {error}") from error
    try:
        return json.loads(text) if len(text) <= MAX_MANIFEST_BYTES else None
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{folder}: {MANIFEST} is not JSON: {error}.") from None


def _checked_manifest(folder: str, manifest: Any) -> dict[str, Any]:
    """Validate the fields of a manifest and their types."""
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DatasetError(f"{folder} is not a folder of vectors of ProtoTag.")
    if manifest.get("version") != VERSION:
        raise DatasetError(
            f"{folder} has version {manifest.get('version')!r}; this program reads {VERSION}: run "
            "`prototag features` again."
        )
    names = manifest.get("tags")
    groups = manifest.get("feature_groups")
    pieces = manifest.get("pieces")
    is_valid = (
        isinstance(names, list)
        and all(isinstance(name, str) and name for name in names)
        and len(set(names)) == len(names)
        and isinstance(groups, list)
        and 0 < len(groups) <= 1024
        and all(isinstance(group, list) and len(group) == 2 for group in groups)
        and all(isinstance(name, str) and _is_count(width, 1) for name, width in groups)
        and all(_is_count(manifest.get(name)) for name in ("unreadable", "untagged"))
        and isinstance(manifest.get("features"), dict)
        and isinstance(pieces, list)
        and len(pieces) > 0
        and all(_is_piece(piece) for piece in pieces)
    )
    if not is_valid:
        raise DatasetError(f"{folder}: {MANIFEST} lacks valid fields: it is damaged.")
    return dict(manifest)


def _is_piece(piece: Any) -> bool:
    return (
        isinstance(piece, dict)
        and _is_count(piece.get("rows"))
        and all(_is_file(piece.get(kind), kind) for kind in KINDS)
    )


def _is_file(entry: Any, kind: str) -> bool:
    """Return whether a file entry is valid; its name cannot lead out of the folder."""
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("file"), str)
        and _FILE.fullmatch(entry["file"]) is not None
        and entry["file"].startswith(f"{kind}-")
        and _is_count(entry.get("bytes"))
        and isinstance(entry.get("sha256"), str)
        and _SHA256.fullmatch(entry["sha256"]) is not None
    )


def _is_count(value: Any, minimum: int = 0) -> bool:
    return type(value) is int and minimum <= value < 1 << 48


def _is_csr(indptr: Array, indices: Array, rows: int, t: int) -> bool:
    if len(indptr) != rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices):
        return False
    if (np.diff(indptr) < 0).any() or (indices < 0).any() or (indices >= t).any():
        return False
    row = np.repeat(np.arange(rows), np.diff(indptr))
    return bool((np.diff(row * np.int64(t) + indices) > 0).all())  # strictly increasing


def _parse_picture(where: str, line: bytes) -> StoredPicture:
    try:
        record = json.loads(line)
        path = record["path"]
        digest = bytes.fromhex(record["digest"])
        tags = record["tags"]
        ruled_out = record.get("ruled_out")
        texts = [path, *tags, *(ruled_out or [])]
        if not all(isinstance(text, str) for text in texts) or len(digest) != DIGEST_BYTES:
            raise ValueError("a path, a digest and tags are needed")
        return StoredPicture(
            path, digest, list(tags), None if ruled_out is None else list(ruled_out)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(f"{where} is not a picture: {error}.") from None
