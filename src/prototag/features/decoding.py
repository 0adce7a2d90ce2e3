"""Sources -> what the network sees of them, their identity and their thumbnail: decoded once.

Pillow decodes and resizes without the interpreter lock, so threads suffice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prototag.arrays import Floats
from prototag.errors import ImageError
from prototag.features.cache import VectorCache, stamp_of
from prototag.images.crops import SIDE, Album, Crops, thumbnail
from prototag.images.decode import Pixels, digest, open_image, read_bytes

if TYPE_CHECKING:
    from PIL import Image

    from prototag.images.decode import Source


@dataclass
class Picture:
    """One source on its way to a vector: pixels, a vector or a reason is what decoding sets."""

    index: int
    source: Source
    stamp: bytes | None = None  # that the cache does not know yet
    digest: bytes = b""  # set for all that can be read
    pixels: Pixels | None = None  # regions x height x width x 3
    vector: Floats | None = None
    known: bool = False  # whether the vector is from the cache
    thumbnail: bytes = b""
    reason: str | None = None  # why there is no vector

    @property
    def is_file(self) -> bool:
        """Whether the cache keeps its vector; pictures in memory come and go."""
        return isinstance(self.source, str | bytes | os.PathLike)


@dataclass(frozen=True)
class Decoder:
    """Makes the crops that one recipe needs, unless the cache knows their vector."""

    crops: Crops
    size: tuple[int, int]
    interpolation: str
    max_pixels: int
    recipe: bytes
    cache: VectorCache | None
    album: Album | None = None  # that thumbnails are made for

    @property
    def wants_thumbnails(self) -> bool:
        return self.album is not None and not self.album.full

    def recall(self, pictures: Sequence[Picture]) -> None:
        """Fill in the vectors of files that were not touched since the cache saw them."""
        if self.cache is None:
            return
        for picture in pictures:
            if isinstance(picture.source, str | os.PathLike):
                picture.stamp = stamp_of(picture.source)
        digests = self.cache.contents(picture.stamp for picture in pictures if picture.stamp)
        vectors = self.cache.vectors(digests.values(), self.recipe)
        for picture in pictures:
            found = digests.get(picture.stamp) if picture.stamp else None
            if found in vectors:
                picture.digest, picture.vector = found, vectors[found]
                picture.known, picture.stamp = True, None

    def decode(self, picture: Picture) -> Picture:
        """Fill in the pixels, or the vector if the content is known, or the reason why neither.

        A known picture is opened for its thumbnail alone, and not at all if none is wanted.
        """
        try:
            if picture.known and not self.wants_thumbnails:
                return picture
            source = self._read(picture)
            if picture.known:
                if self.wants_thumbnails:
                    picture.thumbnail = thumbnail(self._open(source, (SIDE, SIDE)))
                return picture
            image = self._open(source, self.crops.at_least(*self.size))
            picture.digest = picture.digest or digest(source)
            picture.pixels = self.crops.cut(image, self.size, self.interpolation)
            if self.wants_thumbnails:
                picture.thumbnail = thumbnail(image)
        except ImageError as error:
            if not picture.known:
                picture.reason = str(error)
        return picture

    def _read(self, picture: Picture) -> Source:
        """The content of a file, and its vector where the cache has it; other sources as given."""
        source = picture.source
        if isinstance(source, str | os.PathLike):
            path, source = source, read_bytes(source)
            if picture.stamp != stamp_of(path):
                picture.stamp = None  # it changed while it was read
        if isinstance(source, bytes) and not picture.known:
            picture.digest = digest(source)
            if self.cache is not None:
                picture.vector = self.cache.vectors([picture.digest], self.recipe).get(
                    picture.digest
                )
                picture.known = picture.vector is not None
        return source

    def _open(self, source: Source, at_least: tuple[int, int]) -> Image.Image:
        return open_image(source, at_least=at_least, max_pixels=self.max_pixels)
