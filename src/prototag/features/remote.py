"""Vectors of pictures that another process computes: blocks of files for the engine."""

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

BLOCK = 32  # pictures that a worker is given at a time: about a second's work
NETWORKS = 2  # that a worker keeps
CHUNK = 1 << 16  # pictures that are listed at a time


class Found(NamedTuple):
    """What became of one picture elsewhere."""

    digest: bytes
    vector: Floats | None
    thumbnail: bytes
    reason: str | None  # why there is no vector


@batch_name("Compute vectors of pictures")
def extract_block(sources: Sequence[Source], extractor: Extractor, side: int) -> list[Found]:
    """Vectors of some pictures; a side of 0 wants no thumbnails."""
    settle(extractor)
    features = extractor.extract(sources, thumbnails=side > 0, side=max(side, 1))
    found = [Found(b"", None, b"", None)] * len(sources)
    for row, number in enumerate(features.kept.tolist()):
        vector = features.vectors[row]
        small = features.thumbnails[row]
        found[number] = Found(features.digests[row], vector, small, None)
    for skipped in features.skipped:
        found[skipped.index] = Found(b"", None, b"", skipped.reason)
    return found


_networks: dict[tuple[Any, ...], Any] = {}  # of this process, by name and checksum


def settle(extractor: Extractor) -> None:
    """Give an extractor that has travelled the network that this process has loaded already."""
    asked = extractor.backbone, extractor.n_jobs
    key = *asked, extractor._expected
    if key not in _networks:
        network = extractor._network()
        while len(_networks) >= NETWORKS:
            _networks.pop(next(iter(_networks)), None)
        _networks[key] = network
    extractor._loaded = asked, _networks.get(key) or extractor._network()


def abroad(extractor: Extractor) -> Extractor:
    """The same for another process, which loads the network itself and keeps no cache."""
    if not isinstance(extractor.backbone, str | os.PathLike):
        raise BackboneError(
            "a network in memory does not travel to a cluster: give backbone= by its name, or as a "
            "file that all machines see."
        )
    twin = copy.copy(extractor)
    twin.n_jobs = twin.engine = twin.cache = twin.progress = None
    twin._expected = extractor._network().fingerprint
    return twin


def elsewhere(
    engine: Engine, extractor: Extractor, decoder: Decoder, pictures: Sequence[Picture]
) -> Iterator[Picture]:
    """The pictures in their order, with the vectors that the engine's processes made of them."""
    twin = abroad(extractor)
    for rows in batch_slices(len(pictures), CHUNK):
        new = [picture for picture in pictures[rows] if not picture.known]
        side = decoder.album.side if decoder.album and decoder.wants_thumbnails else 0
        sources = [picture.source for picture in new]
        parts = engine.stream(extract_block, [sources], [twin, side], size=BLOCK)
        answers = (one for part in parts for one in part) if new else iter(())
        for picture in pictures[rows]:
            if picture.known:  # and looked at for its thumbnail alone
                yield decoder.decode(picture)
                continue
            answer = next(answers)
            picture.digest = answer.digest
            picture.vector = answer.vector
            picture.thumbnail = answer.thumbnail
            picture.reason = answer.reason
            if isinstance(picture.source, str | os.PathLike) and picture.stamp is not None:
                same = picture.stamp == stamp_of(picture.source)
                picture.stamp = picture.stamp if same else None  # it changed while it was read
            yield picture
