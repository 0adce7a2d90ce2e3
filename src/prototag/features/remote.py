"""Feature extraction on remote workers: batches of files for the engine."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from prototag.arrays import Floats
from prototag.engine import Engine, batch_slices
from prototag.engine.task_names import batch_name
from prototag.errors import BackboneError
from prototag.features.types import Picture
from prototag.features.vector_cache import stamp_of

if TYPE_CHECKING:
    from prototag.features.extractor import Decoder, Extractor
    from prototag.images.decode import Source

BATCH_PICTURES = 32  # per batch of a worker: about a second of work
LISTED_PICTURES = 1 << 16  # whose paths are held in memory at a time
CACHED_BACKBONES = 2  # per worker process


class RemoteResult(NamedTuple):
    """Features of one picture, computed by a worker."""

    digest: bytes
    vector: Floats | None
    thumbnail: bytes
    reason: str | None  # why there is no vector


@batch_name("Compute vectors of pictures")
def extract_batch(sources: Sequence[Source], extractor: Extractor, side: int) -> list[RemoteResult]:
    """Extract features of a batch in a worker; with a side of 0 there are no thumbnails."""
    attach_backbone(extractor)
    features = extractor.extract(sources, thumbnails=side > 0, side=max(side, 1))
    results = [RemoteResult(b"", None, b"", None)] * len(sources)
    for row, number in enumerate(features.kept.tolist()):
        results[number] = RemoteResult(
            features.digests[row], features.vectors[row], features.thumbnails[row], None
        )
    for skipped in features.skipped:
        results[skipped.index] = RemoteResult(b"", None, b"", skipped.reason)
    return results


_backbones: dict[tuple[Any, ...], Any] = {}  # of this process, by specification and fingerprint


def attach_backbone(extractor: Extractor) -> None:
    """Attach the worker's cached backbone to an unpickled extractor."""
    loaded_for = extractor.backbone, extractor.n_jobs
    key = *loaded_for, extractor._expected_fingerprint
    if key not in _backbones:
        backbone = extractor._backbone()
        while len(_backbones) >= CACHED_BACKBONES:
            _backbones.pop(next(iter(_backbones)), None)
        _backbones[key] = backbone
    extractor._loaded_backbone = loaded_for, _backbones.get(key) or extractor._backbone()


def picklable_copy(extractor: Extractor) -> Extractor:
    """Return a picklable copy for workers: no cache, no progress callback, no loaded backbone."""
    if not isinstance(extractor.backbone, str | os.PathLike):
        raise BackboneError(
            "a network in memory cannot be sent to a cluster: give backbone= by its name, or as a "
            "file that all machines can read."
        )
    worker_copy = copy.copy(extractor)
    worker_copy.n_jobs = None
    worker_copy.engine = None
    worker_copy.cache = None
    worker_copy.progress = None
    worker_copy._expected_fingerprint = extractor._backbone().fingerprint
    return worker_copy


def run_remote(
    engine: Engine, extractor: Extractor, decoder: Decoder, pictures: Sequence[Picture]
) -> Iterator[Picture]:
    """Compute vectors in the engine's workers, and yield the pictures in their order."""
    worker_copy = picklable_copy(extractor)
    for rows in batch_slices(len(pictures), LISTED_PICTURES):
        new = [picture for picture in pictures[rows] if not picture.is_cached]
        side = decoder.thumbnails.side if decoder.thumbnails and decoder.wants_thumbnails else 0
        sources = [picture.source for picture in new]
        batches = engine.stream(extract_batch, [sources], [worker_copy, side], size=BATCH_PICTURES)
        results = (result for batch in batches for result in batch) if new else iter(())
        for picture in pictures[rows]:
            # A picture with a cached vector is decoded here, for its thumbnail only.
            yield (
                decoder.decode(picture) if picture.is_cached else _complete(picture, next(results))
            )


def _complete(picture: Picture, result: RemoteResult) -> Picture:
    picture.digest = result.digest
    picture.vector = result.vector
    picture.thumbnail = result.thumbnail
    picture.reason = result.reason
    if isinstance(picture.source, str | os.PathLike) and picture.stamp is not None:
        unchanged = picture.stamp == stamp_of(picture.source)
        picture.stamp = picture.stamp if unchanged else None  # the file changed during the read
    return picture
