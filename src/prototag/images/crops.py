"""Upright pictures -> the regions that the network sees, and how their vectors become one.

The paper's five: the centre with two thirds of the area, and the four corners with two thirds of
the width and one third of the height each. Every region is resized to the network's input. A small
copy of the whole is what people are shown where the picture is not at hand.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prototag.arrays import Array
from prototag.errors import InputError
from prototag.images.decode import Pixels

if TYPE_CHECKING:
    from PIL import Image

SIDE = 96  # pixels of a thumbnail, at most
QUALITY = 60  # of its WebP; about 2 kB a picture
ALBUM_BYTES = 16 << 20  # of all thumbnails of a collection


class Region(NamedTuple):
    """A rectangle in fractions of the width and the height, perhaps seen in a mirror."""

    left: float
    top: float
    right: float
    bottom: float
    mirrored: bool = False


WHOLE = Region(0, 0, 1, 1)
_INSET = (1 - (2 / 3) ** 0.5) / 2  # leaves two thirds of the area when taken off all four sides
FIVE = (
    Region(_INSET, _INSET, 1 - _INSET, 1 - _INSET),
    Region(0, 0, 2 / 3, 1 / 3),
    Region(1 / 3, 0, 1, 1 / 3),
    Region(0, 2 / 3, 2 / 3, 1),
    Region(1 / 3, 2 / 3, 1, 1),
)
TEN = (*FIVE, *(region._replace(mirrored=True) for region in FIVE))


class Crops(NamedTuple):
    """Groups of regions: vectors are averaged in a group and laid side by side across groups."""

    name: str
    groups: tuple[tuple[Region, ...], ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(region for group in self.groups for region in group)

    def at_least(self, width: int, height: int) -> tuple[int, int]:
        """Size of a picture below which some region would be enlarged to width x height."""
        return (
            max(round(width / (region.right - region.left)) for region in self.regions),
            max(round(height / (region.bottom - region.top)) for region in self.regions),
        )

    def cut(self, image: Image.Image, size: tuple[int, int], interpolation: str) -> Pixels:
        """Pixels of the regions at ``size`` (width, height): regions x height x width x 3."""
        from PIL.Image import Resampling, Transpose

        width, height = image.size
        pixels = np.empty((len(self.regions), size[1], size[0], 3), np.uint8)
        for row, region in zip(pixels, self.regions, strict=True):
            box = (
                region.left * width,
                region.top * height,
                region.right * width,
                region.bottom * height,
            )
            # A region more than twice too large is first shrunk by whole factors: much faster, and
            # what remains is resized exactly.
            part = image.resize(size, Resampling[interpolation.upper()], box=box, reducing_gap=2.0)
            row[:] = np.asarray(
                part.transpose(Transpose.FLIP_LEFT_RIGHT) if region.mirrored else part
            )
        return pixels

    def pool(self, vectors: Array) -> Array:
        """Vectors of the regions (n x regions x d) -> one vector a picture (n x groups d)."""
        parts, start = [], 0
        for group in self.groups:
            parts.append(vectors[:, start : start + len(group)].mean(axis=1))
            start += len(group)
        return np.concatenate(parts, axis=1)


CROPS = {
    crops.name: crops
    for crops in (
        Crops("whole", ((WHOLE,),)),
        Crops("five", (FIVE,)),
        Crops("ten", (TEN,)),
        Crops("whole+five", ((WHOLE,), FIVE)),
    )
}


def named(name: str) -> Crops:
    """The crops called ``name``."""
    if name not in CROPS:
        raise InputError(f"crops={name!r} is unknown: {', '.join(map(repr, CROPS))} are known.")
    return CROPS[name]


def thumbnail(image: Image.Image) -> bytes:
    """A decoded picture at most 96 pixels wide and high, as WebP without any metadata."""
    from PIL.Image import Resampling

    scale = min(1.0, SIDE / max(image.size))
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    small = image.resize(size, Resampling.BICUBIC, reducing_gap=2.0)
    small.info = {}  # keywords, places and profiles of the original are no part of it
    stream = io.BytesIO()
    small.save(stream, "WEBP", quality=QUALITY)
    return stream.getvalue()


class Album:
    """Takes thumbnails one after the other while there is room; then it is full for good.

    Threads may ask whether it is full; one of them fills it.
    """

    def __init__(self, max_bytes: int = ALBUM_BYTES) -> None:
        self._room = max_bytes
        self.full = False

    def take(self, small: bytes) -> bytes:
        """The thumbnail if there is room for it, else b""; after that every other is b"" too."""
        self.full = self.full or len(small) > self._room
        if self.full:
            return b""
        self._room -= len(small)
        return small
