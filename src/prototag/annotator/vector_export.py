"""A tagged collection -> a folder of vectors, piece by piece, so that a killed run goes on."""

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
from prototag.annotator.training_set import named, spoken_for
from prototag.arrays import Array
from prototag.engine import batch_slices
from prototag.errors import DatasetError, TrainingError
from prototag.events import Event, Meter, Progress
from prototag.features.extractor import Extractor, Skipped
from prototag.features.vector_folder import FORMAT, MANIFEST, SETTINGS, VERSION, VectorFolder
from prototag.storage.atomic_write import replacing
from prototag.storage.sqlite_lock_guard import read_text

ROWS = 8192  # pictures in a piece
KEPT = 10_000  # bad pictures that are told by name


@dataclass(frozen=True)
class Made:
    """What :func:`write_vectors` did."""

    folder: VectorFolder
    skipped: list[Skipped]  # pictures that cannot be read
    n_found: int  # pieces that an earlier run had finished


def write_vectors(
    found: metadata.Collected,
    extractor: Extractor,
    path: str | os.PathLike[str],
    *,
    rows: int = ROWS,
    untagged: str = "ignore",
    progress: Progress | None = None,
) -> Made:
    """Compute the vectors of a collection into a folder, or go on where a killed run ended.

    Pieces that are there are kept if they are of the same pictures, neither changed nor moved. A
    folder that was made with other settings is refused.
    """
    useful = [i for i, is_spoken in enumerate(spoken_for(found, untagged)) if is_spoken]
    if not useful:
        raise TrainingError("no picture has a tag: there is nothing to learn from.")
    folder = Path(path)
    _begin(folder, _settings(extractor, rows))
    images = [found.images[i] for i in useful]
    names = named(images)
    maker = _Maker(folder, extractor, Meter("Computing vectors", len(images), progress))
    pieces = [
        maker.piece(number, images[part], names[part])
        for number, part in enumerate(batch_slices(len(images), rows))
    ]
    words = metadata.vocabulary([found.tags[i] for i in useful])
    told = []
    skipped = []
    for number, (piece, part) in enumerate(
        zip(pieces, batch_slices(len(images), rows), strict=True)
    ):
        chosen = [useful[part.start + at] for at in piece["kept"]]
        lines = [
            {
                "path": names[part.start + at],
                "digest": digest,
                "tags": found.tags[i],
                **({} if found.ruled_out[i] is None else {"ruled_out": found.ruled_out[i]}),
            }
            for at, digest, i in zip(piece["kept"], piece["digests"], chosen, strict=True)
        ]
        Y = words.matrix([found.tags[i] for i in chosen])
        told.append(
            {
                "rows": len(chosen),
                "vectors": piece["vectors"],
                "pictures": _write_lines(folder, number, lines),
                "indptr": _write(folder, f"indptr-{number:05}.npy", Y.indptr.astype(np.int64)),
                "indices": _write(folder, f"indices-{number:05}.npy", Y.indices.astype(np.int32)),
            }
        )
        skipped += [
            Skipped(part.start + at, names[part.start + at], why) for at, why in piece["bad"]
        ]
    _replace_json(
        folder / MANIFEST,
        {
            **_settings(extractor, rows),
            "tags": list(words.names),
            "unreadable": len(skipped),
            "untagged": len(found.images) - len(useful),
            "pieces": told,
        },
    )
    return Made(VectorFolder(folder), skipped, maker.n_found)


class _Maker:
    """Makes pieces, or finds them made: each has a record that is written last."""

    def __init__(self, folder: Path, extractor: Extractor, meter: Meter) -> None:
        self.folder = folder
        self.extractor = extractor
        self.meter = meter
        self.n_found = 0

    def piece(self, number: int, images: Sequence[Path], names: Sequence[str]) -> dict[str, Any]:
        record = self.folder / f"piece-{number:05}.json"
        sources = _sources(images, names)
        known = self._known(record, number, sources)
        if known is not None:
            self.n_found += 1
            self.meter.advance(len(images), instant=len(images))
            return known
        began = self.meter.done
        self.extractor.progress = lambda event: self._tell(began, event)
        features = self.extractor.extract(images)
        self.extractor.progress = None
        made = {
            "sources": sources,
            "kept": features.kept.tolist(),
            "digests": [digest.hex() for digest in features.digests],
            "bad": [[skipped.index, skipped.reason] for skipped in features.skipped],
            "vectors": _write(self.folder, f"vectors-{number:05}.npy", features.vectors),
        }
        _replace_json(record, made)
        return made

    def _tell(self, began: int, event: Event) -> None:
        self.meter.advance(began + event.done - self.meter.done, message=event.message)

    def _known(self, record: Path, number: int, sources: str) -> dict[str, Any] | None:
        """What an earlier run made of the same pictures, if it is whole."""
        try:
            told = json.loads(read_text(record))
            size = (self.folder / f"vectors-{number:05}.npy").stat().st_size
            same = told["sources"] == sources and told["vectors"]["bytes"] == size
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return told if same else None


def _settings(extractor: Extractor, rows: int) -> dict[str, Any]:
    """What the vectors depend on."""
    features = extractor.to_state()[0]
    columns = [[block.name, block.width] for block in extractor.blocks]
    said = {"format": FORMAT, "version": VERSION, "rows": rows}
    return {**said, "features": features, "blocks": columns}


def _begin(folder: Path, settings: dict[str, Any]) -> None:
    """Make the folder, or see that it is ours and made the same way."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / SETTINGS
    if not place.exists():
        if any(folder.iterdir()):
            raise DatasetError(
                f"{folder} is not empty, and no folder of vectors: give another, or a new one."
            )
        _replace_json(place, settings)
        return
    try:
        before = json.loads(read_text(place))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{place} cannot be read: {error}") from error
    if before != json.loads(json.dumps(settings)):
        was, now = (_told(part) for part in (before, settings))
        raise DatasetError(
            f"{folder} was begun with {was}, and {now} is asked for: give the same, or another "
            "folder."
        )
    (folder / MANIFEST).unlink(missing_ok=True)  # until all is there again


def _told(settings: Any) -> str:
    try:
        features = settings["features"]
        rows = settings["rows"]
        network = f"{features['backbone']} ({features['fingerprint'][:8]})"
        return f"network {network}, crops {features['crops']}, {rows:,} rows a piece"
    except (KeyError, TypeError, ValueError):
        return "something else"


def _sources(images: Sequence[Path], names: Sequence[str]) -> str:
    """Equal for the same files under the same names, nobody having touched them."""
    checksum = hashlib.sha256()
    for image, name in zip(images, names, strict=True):
        try:
            seen = os.stat(image)
            state = seen.st_size, seen.st_mtime_ns
        except OSError:
            state = -1, -1
        checksum.update(os.fsencode(name) + b"\0%d %d\0" % state)
    return checksum.hexdigest()


class _Hashed:
    """A file that knows the checksum of what is written to it."""

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
        hashed = _Hashed(file)
        np.lib.format.write_array(
            hashed, np.ascontiguousarray(values), version=(1, 0), allow_pickle=False
        )
    return {"file": name, "bytes": hashed.size, "sha256": hashed.checksum.hexdigest()}


def _write_lines(folder: Path, number: int, lines: list[dict[str, Any]]) -> dict[str, Any]:
    name = f"pictures-{number:05}.jsonl"
    with replacing(folder / name) as file:
        hashed = _Hashed(file)
        for line in lines:
            hashed.write(json.dumps(line).encode("ascii") + b"\n")
    return {"file": name, "bytes": hashed.size, "sha256": hashed.checksum.hexdigest()}


def _replace_json(path: Path, value: Any) -> None:
    with replacing(path) as file:
        file.write(json.dumps(value).encode("ascii"))
