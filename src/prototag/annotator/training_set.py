"""A tagged collection -> what can be learned of it: vectors, tags that are common enough, names."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from prototag import metadata
from prototag.annotator.results import Learned
from prototag.arrays import Floats
from prototag.errors import TrainingError
from prototag.features.extractor import Extractor, Skipped

if TYPE_CHECKING:
    from prototag.images.decode import Source

MIN_COLLECTION = 10


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """n pictures with t tags, all of which can be learned."""

    X: Floats  # n x m, raw network vectors
    Y: sparse.csr_array  # n x t
    tags: list[str]
    names: list[str]  # what the pictures are called
    digests: list[bytes]  # what the pictures are known by, whatever they are called
    thumbnails: list[bytes]  # of the pictures; b"" where there is none
    learned: Learned
    skipped: list[Skipped]  # pictures that cannot be read


def prepare(
    source: Any,
    tags: Sequence[Collection[str]] | None,
    extractor: Extractor,
    min_pictures: int,
    *,
    thumbnails: bool = False,
) -> TrainingSet:
    """Find pictures and tags (see :meth:`prototag.Annotator.fit`) and compute the vectors.

    Left out, and counted, are tags of fewer than ``min_pictures`` pictures, pictures without any
    other, and pictures that cannot be read.
    """
    if isinstance(source, str | os.PathLike):
        source = metadata.collect(source)
    sources, given, names = _pairs(source, tags)
    if len(sources) != len(given):
        raise TrainingError(
            f"{len(sources)} pictures and tags for {len(given)}: give each picture its tags."
        )
    useful = np.flatnonzero(np.diff(_vocabulary(given, min_pictures).matrix(given).indptr) > 0)
    features = extractor.extract([sources[i] for i in useful], thumbnails=thumbnails)
    kept = useful[features.kept]
    rows = [given[i] for i in kept]
    words = _vocabulary(rows, min_pictures)  # some tags may have lost pictures that cannot be read
    Y = words.matrix(rows)
    still = np.flatnonzero(np.diff(Y.indptr) > 0)
    if len(still) < MIN_COLLECTION:
        raise TrainingError(
            f"{len(still)} pictures have tags to learn and can be read: at least {MIN_COLLECTION} "
            "are needed, and many more to learn well."
        )
    every = metadata.vocabulary(given)
    count = dict(zip(every.names, every.counts, strict=True))
    learned = Learned(
        len(still),
        len(words.names),
        {tag: count[tag] for tag in sorted(count.keys() - set(words.names))},
        len(sources) - len(features.skipped) - len(still),
        len(features.skipped),
    )
    pictures = [sources[i] for i in kept[still]]
    called = _named(pictures) if names is None else [names[i] for i in kept[still]]
    return TrainingSet(
        features.vectors[still],
        Y[still],
        list(words.names),
        called,
        [features.digests[i] for i in still],
        [features.thumbnails[i] for i in still],
        learned,
        features.skipped,
    )


def _vocabulary(tags: Sequence[Sequence[str]], min_pictures: int) -> metadata.Vocabulary:
    words = metadata.vocabulary(tags, min_count=min_pictures)
    if not words.names and not words.dropped:
        raise TrainingError("no picture has a tag: there is nothing to learn.")
    if not words.names:
        tag, highest = max(words.dropped.items(), key=lambda item: item[1])
        raise TrainingError(
            f"all {len(words.dropped):,} tags are too rare: a tag is learned from at least "
            f"{min_pictures} pictures, the most frequent, {tag!r}, has {highest}. Tag more "
            "pictures or lower the limit (min_pictures=, --min-pictures)."
        )
    return words


def _pairs(
    source: Any, tags: Sequence[Collection[str]] | None
) -> tuple[list[Source], list[list[str]], list[str] | None]:
    """Pictures, the tags of each, and what they are called, if they have names of their own."""
    if tags is not None:
        return list(source), [list(row) for row in tags], None
    if hasattr(source, "Y"):  # a data set
        if source.images is None:
            raise TrainingError(f"{source.name} has vectors but no pictures: fit a Tagger to them.")
        rows = [[source.tags[c] for c in source.Y[[i]].indices] for i in source.train]
        names = None if source.names is None else [source.names[i] for i in source.train]
        return [source.images[i] for i in source.train], rows, names
    return list(source.images), [list(row) for row in source.tags], None


def _named(sources: Sequence[Source]) -> list[str]:
    """Paths below the folder that holds all of them: a model says nothing of where it was made."""
    paths = [os.path.abspath(s) for s in sources if isinstance(s, str | os.PathLike)]
    root = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    return [
        os.path.relpath(source, root)
        if isinstance(source, str | os.PathLike)
        else f"picture {number}"
        for number, source in enumerate(sources)
    ]
