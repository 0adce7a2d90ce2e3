"""Export of a tagged collection to a folder of vectors, in pieces, so that it can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from prototag import metadata
from prototag.annotator.training_set import has_labels, relative_names
from prototag.arrays import Array
from prototag.engine import batch_slices
from prototag.errors import DatasetError, TrainingError
from prototag.events import Event, Meter, Progress
from prototag.features.extractor import Extractor, Skipped
from prototag.features.vector_folder import FORMAT, MANIFEST, SETTINGS, VERSION, VectorFolder
from prototag.storage.atomic_write import replacing
from prototag.storage.sqlite_lock_guard import read_text

PIECE_ROWS = 8192  # pictures per piece: minutes of work, which an interruption loses at most


@dataclass(frozen=True)
class VectorExport:
    """Result of :func:`write_vectors`."""

    folder: VectorFolder
    skipped: list[Skipped]  # pictures that cannot be read
    n_resumed: int  # pieces that an earlier run had completed


def write_vectors(
    collected: metadata.Collected,
    extractor: Extractor,
    path: str | os.PathLike[str],
    *,
    rows: int = PIECE_ROWS,
    untagged: str = "ignore",
    progress: Progress | None = None,
) -> VectorExport:
    """Compute the vectors of a collection into a folder, or resume an interrupted run.

    Completed pieces are kept if their pictures are unchanged. A folder that was begun with other
    settings is refused.
    """
    labeled = [i for i, is_labeled in enumerate(has_labels(collected, untagged)) if is_labeled]
    if not labeled:
        raise TrainingError("no picture has a tag: there is nothing to learn from.")
    folder = Path(path)
    settings = _settings(extractor, rows)
    _begin(folder, settings)
    images = [collected.images[i] for i in labeled]
    names = relative_names(images)
    writer = _PieceWriter(folder, extractor, Meter("Computing vectors", len(images), progress))
    parts = list(batch_slices(len(images), rows))
    pieces = [writer.piece(number, images[part], names[part]) for number, part in enumerate(parts)]
    vocabulary = metadata.vocabulary([collected.tags[i] for i in labeled])
    entries = []
    skipped = []
    for number, (piece, part) in enumerate(zip(pieces, parts, strict=True)):
        kept = [part.start + row for row in piece["kept"]]
        lines = [
            _picture_line(collected, labeled[row], names[row], digest)
            for row, digest in zip(kept, piece["digests"], strict=True)
        ]
        Y = vocabulary.matrix([collected.tags[labeled[row]] for row in kept])
        entries.append(
            {
                "rows": len(kept),
                "vectors": piece["vectors"],
                "pictures": _write_lines(folder, number, lines),
                "indptr": _write(folder, f"indptr-{number:05}.npy", Y.indptr.astype(np.int64)),
                "indices": _write(folder, f"indices-{number:05}.npy", Y.indices.astype(np.int32)),
            }
        )
        skipped += [
            Skipped(part.start + row, names[part.start + row], reason)
            for row, reason in piece["bad"]
        ]
    _replace_json(
        folder / MANIFEST,
        {
            **settings,
            "tags": list(vocabulary.names),
            "unreadable": len(skipped),
            "untagged": len(collected.images) - len(labeled),
            "pieces": entries,
        },
    )
    return VectorExport(VectorFolder(folder), skipped, writer.n_resumed)


def _picture_line(
    collected: metadata.Collected, index: int, name: str, digest: str
) -> dict[str, Any]:
    line = {"path": name, "digest": digest, "tags": collected.tags[index]}
    ruled_out = collected.ruled_out[index]
    return line if ruled_out is None else {**line, "ruled_out": ruled_out}


class _PieceWriter:
    """Writer of pieces that skips completed ones: the record of a piece is written last."""

    def __init__(self, folder: Path, extractor: Extractor, meter: Meter) -> None:
        self.folder = folder
        self.extractor = extractor
        self.meter = meter
        self.n_resumed = 0

    def piece(self, number: int, images: Sequence[Path], names: Sequence[str]) -> dict[str, Any]:
        """Write a piece unless it is complete, and return its record."""
        path = self.folder / f"piece-{number:05}.json"
        sources = _source_checksum(images, names)
        completed = self._completed(path, number, sources)
        if completed is not None:
            self.n_resumed += 1
            self.meter.advance(len(images), instant=len(images))
            return completed
        start = self.meter.done
        self.extractor.progress = lambda event: self._advance(start, event)
        features = self.extractor.extract(images)
        self.extractor.progress = None
        record = {
            "sources": sources,
            "kept": features.kept.tolist(),
            "digests": [digest.hex() for digest in features.digests],
            "bad": [[skipped.index, skipped.reason] for skipped in features.skipped],
            "vectors": _write(self.folder, f"vectors-{number:05}.npy", features.vectors),
        }
        _replace_json(path, record)
        return record

    def _advance(self, start: int, event: Event) -> None:
        self.meter.advance(start + event.done - self.meter.done, message=event.message)

    def _completed(self, path: Path, number: int, sources: str) -> dict[str, Any] | None:
        """Return the record of a complete piece with these sources, else None."""
        try:
            record = json.loads(read_text(path))
            size = (self.folder / f"vectors-{number:05}.npy").stat().st_size
            is_valid = record["sources"] == sources and record["vectors"]["bytes"] == size
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return record if is_valid else None


def _settings(extractor: Extractor, rows: int) -> dict[str, Any]:
    """Return the settings that the vectors depend on."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "rows": rows,
        "features": extractor.to_state()[0],
        "feature_groups": [[group.name, group.width] for group in extractor.feature_groups],
    }


def _begin(folder: Path, settings: dict[str, Any]) -> None:
    """Create the folder, or check that an existing one has the same settings."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SETTINGS
    if not path.exists():
        if any(folder.iterdir()):
            raise DatasetError(
                f"{folder} is not empty, and no folder of vectors: give another, or a new one."
            )
        _replace_json(path, settings)
        return
    try:
        existing = json.loads(read_text(path))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    if existing != json.loads(json.dumps(settings)):
        raise DatasetError(
            f"{folder} was begun with {_describe(existing)}, and {_describe(settings)} is asked "
            "for: give the same settings, or another folder."
        )
    (folder / MANIFEST).unlink(missing_ok=True)  # a folder without it is incomplete


def _describe(settings: Any) -> str:
    try:
        features = settings["features"]
        rows = settings["rows"]
        network = f"{features['backbone']} ({features['fingerprint'][:8]})"
        return f"network {network}, crops {features['crops']}, {rows:,} rows a piece"
    except (KeyError, TypeError, ValueError):
        return "unreadable settings"


def _source_checksum(images: Sequence[Path], names: Sequence[str]) -> str:
    """Hash names, sizes and modification times: equal for unchanged files."""
    checksum = hashlib.sha256()
    for image, name in zip(images, names, strict=True):
        try:
            status = os.stat(image)
            state = status.st_size, status.st_mtime_ns
        except OSError:
            state = -1, -1
        checksum.update(os.fsencode(name) + b"\0%d %d\0" % state)
    return checksum.hexdigest()


class _HashingFile:
    """Binary file that computes the checksum of the data written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.checksum = hashlib.sha256()
        self.size = 0

    def write(self, data: Any) -> int:
        self.checksum.update(data)
        self.size += len(data)
        return self.file.write(data)


def _write(folder: Path, name: str, values: Array) -> dict[str, Any]:
    with replacing(folder / name) as file:
        hashed = _HashingFile(file)
        np.lib.format.write_array(
            hashed, np.ascontiguousarray(values), version=(1, 0), allow_pickle=False
        )
    return {"file": name, "bytes": hashed.size, "sha256": hashed.checksum.hexdigest()}


def _write_lines(folder: Path, number: int, lines: list[dict[str, Any]]) -> dict[str, Any]:
    name = f"pictures-{number:05}.jsonl"
    with replacing(folder / name) as file:
        hashed = _HashingFile(file)
        for line in lines:
            hashed.write(json.dumps(line).encode("ascii") + b"\n")
    return {"file": name, "bytes": hashed.size, "sha256": hashed.checksum.hexdigest()}


def _replace_json(path: Path, value: Any) -> None:
    with replacing(path) as file:
        file.write(json.dumps(value).encode("ascii"))
