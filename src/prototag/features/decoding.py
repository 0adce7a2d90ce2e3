"""Sources -> batches of crops, decoded in worker threads ahead of the network.

Pillow decodes and resizes without the interpreter lock, so threads suffice. The window of pictures
under way is bounded, and so is the memory, however many sources there are.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prototag.errors import ImageError
from prototag.features.cache import VectorCache, content_of, stamp_of
from prototag.images.crops import Crops
from prototag.images.decode import open_image, read_bytes

if TYPE_CHECKING:
    from prototag.images.decode import Source

S = TypeVar("S")
T = TypeVar("T")


@dataclass
class Picture:
    """One source on its way to a vector: pixels, a vector or a reason is what decoding sets."""

    index: int
    source: Source
    stamp: bytes | None = None
    content: bytes | None = None
    pixels: np.ndarray | None = None  # regions x height x width x 3
    vector: np.ndarray | None = None  # known to the cache
    reason: str | None = None  # why there is none


@dataclass(frozen=True)
class Decoder:
    """Makes the crops that one recipe needs, unless the cache knows their vector."""

    crops: Crops
    size: tuple[int, int]
    interpolation: str
    max_pixels: int
    cache: VectorCache | None
    recipe: bytes

    def recall(self, pictures: Sequence[Picture]) -> None:
        """Fill in the vectors of files that were not touched since the cache saw them."""
        if self.cache is None:
            return
        for picture in pictures:
            if isinstance(picture.source, str | os.PathLike):
                picture.stamp = stamp_of(picture.source)
        contents = self.cache.contents(picture.stamp for picture in pictures if picture.stamp)
        vectors = self.cache.vectors(contents.values(), self.recipe)
        for picture in pictures:
            if picture.stamp in contents:
                picture.content = contents[picture.stamp]
                picture.vector = vectors.get(picture.content)

    def decode(self, picture: Picture) -> Picture:
        """Fill in the pixels, or the vector if the content is known, or the reason why neither."""
        source = picture.source
        try:
            if isinstance(source, str | os.PathLike):
                path, source = source, read_bytes(source)
                if picture.stamp != stamp_of(path):
                    picture.stamp = None  # it changed while it was read
            if self.cache is not None and isinstance(source, bytes):
                picture.content = content_of(source)
                known = self.cache.vectors([picture.content], self.recipe)
                if picture.content in known:
                    picture.vector = known[picture.content]
                    return picture
            wanted = self.crops.at_least(*self.size)
            image = open_image(source, at_least=wanted, max_pixels=self.max_pixels)
            picture.pixels = self.crops.cut(image, self.size, self.interpolation)
        except ImageError as error:
            picture.reason = str(error)
        return picture


def ahead(
    function: Callable[[S], T], items: Iterable[S], *, workers: int, window: int
) -> Iterator[T]:
    """Results of ``function`` in the order of ``items``, at most ``window`` of them under way."""
    if workers < 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="prototag-decode") as pool:
        queue: deque[Future[T]] = deque()
        try:
            for item in items:
                queue.append(pool.submit(function, item))
                if len(queue) >= window:
                    yield queue.popleft().result()
            while queue:
                yield queue.popleft().result()
        finally:
            for future in queue:
                future.cancel()
