"""Rules for many pictures, with the facts about the pixels of known ones from the vector cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from prototag.engine.threads import count_threads, map_in_order
from prototag.errors import CacheError
from prototag.images.decode import VERSION
from prototag.images.rules import PixelFacts, matching_rules_with_facts

if TYPE_CHECKING:
    from prototag.features.vector_cache import VectorCache
    from prototag.images.decode import Source

FACTS_VERSION = 1  # a new version computes the facts again
RECIPE = hashlib.blake2b(
    f"facts about pixels {FACTS_VERSION} {VERSION}".encode(), digest_size=16
).digest()


def matching_rules(
    cache: VectorCache | None,
    images: Sequence[Source],
    digests: Sequence[bytes],
    n_jobs: int | None,
) -> list[frozenset[str]]:
    """Return the rules that hold for each picture.

    Parameters
    ----------
    cache : VectorCache or None
        A picture whose facts it has is not decoded again.
    images : sequence of sources
    digests : sequence of bytes
        Digest of each picture; without them nothing is cached.
    n_jobs : int, optional
    """
    known: dict[bytes, PixelFacts] = {}
    if cache is not None and digests:
        vectors = cache.vectors(digests, RECIPE)
        known = {one: PixelFacts(*map(bool, row)) for one, row in vectors.items() if len(row) == 2}
    facts = [known.get(digest) for digest in digests] or [None] * len(images)
    pairs = list(zip(images, facts, strict=True))
    workers = count_threads(n_jobs)
    results = list(map_in_order(_of_pair, pairs, workers=workers, window=2 * workers))
    if cache is not None:
        new = {
            digest: found
            for digest, (_, found) in zip(digests, results, strict=False)
            if found is not None and digest not in known
        }
        if new:
            with suppress(CacheError):  # a read-only cache
                cache.store(RECIPE, [*new], np.array([*new.values()], np.float32))
    return [names for names, _ in results]


def _of_pair(
    pair: tuple[Source, PixelFacts | None],
) -> tuple[frozenset[str], PixelFacts | None]:
    return matching_rules_with_facts(*pair)
