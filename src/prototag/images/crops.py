"""Upright pictures -> the regions that the network sees, and how their vectors become one.

``large`` is one pass in the picture's own shape, the nearest of a few of about equal area. The
paper's five are the centre with two thirds of the area, and the four corners with two thirds of the
width and one third of the height each. A small copy of the whole is what people are shown where the
picture is not at hand.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from prototag.arrays import Array
from prototag.errors import InputError
from prototag.images.decode import VERSION, Pixels, Size

if TYPE_CHECKING:
    from PIL import Image

SIDE = 96  # pixels of a thumbnail, at most
QUALITY = 60  # of its WebP; about 2 kB a picture
EFFORT = 2  # of WebP's 0 to 6: 60% of the time of 4, its default, for files that are 4% larger
ALBUM_BYTES = 16 << 20  # of all thumbnails of a collection
# A picture longer than this is cut into parts: two, from twice this on three of this length each.
LONGEST = 2.6
# Shapes of a large pass, of about equal area: 1:1, 4:3, 16:9, 9:4, and upright. Photographs of 3:2
# are nearest to 4:3.
_LYING = ((448, 336), (512, 288), (576, 256))
LARGE = ((384, 384), *_LYING, *((height, width) for width, height in _LYING))


class Region(NamedTuple):
    """A rectangle in fractions of the width and the height, perhaps seen in a mirror."""

    left: float
    top: float
    right: float
    bottom: float
    mirrored: bool = False


Group = tuple[Region, ...]
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


class View(NamedTuple):
    """What the network is shown of one picture: groups of regions, all brought to one size."""

    size: Size
    groups: tuple[Group, ...]

    @property
    def regions(self) -> Group:
        return tuple(region for group in self.groups for region in group)

    def at_least(self) -> Size:
        """Size of a picture below which some region would be enlarged."""
        width, height = self.size
        return (
            max(round(width / (region.right - region.left)) for region in self.regions),
            max(round(height / (region.bottom - region.top)) for region in self.regions),
        )

    def cut(self, image: Image.Image, interpolation: str) -> Pixels:
        """Pixels of the regions: regions x height x width x 3."""
        from PIL.Image import Resampling, Transpose

        width, height = image.size
        pixels = np.empty((len(self.regions), self.size[1], self.size[0], 3), np.uint8)
        for row, region in zip(pixels, self.regions, strict=True):
            box = (
                region.left * width,
                region.top * height,
                region.right * width,
                region.bottom * height,
            )
            # A region more than twice too large is first shrunk by whole factors: much faster, and
            # what remains is resized exactly.
            part = image.resize(
                self.size, Resampling[interpolation.upper()], box=box, reducing_gap=2.0
            )
            row[:] = np.asarray(
                part.transpose(Transpose.FLIP_LEFT_RIGHT) if region.mirrored else part
            )
        return pixels

    def pool(self, vectors: Array) -> Array:
        """Vectors of the regions (regions x d) -> their averages in each group (groups x d)."""
        parts = []
        start = 0
        for group in self.groups:
            parts.append(vectors[start : start + len(group)].mean(axis=0))
            start += len(group)
        return np.stack(parts)


class Crops(NamedTuple):
    """Groups of regions; each group gives vectors of its own, which are laid side by side."""

    name: str
    groups: tuple[Group, ...]
    prefixes: tuple[str, ...] = ("",)  # of the blocks of each group
    shaped: bool = False  # whether the picture keeps its shape, where the network takes several
    # Which of a network's outputs are computed unless others are asked for; None is all.
    outputs: tuple[str, ...] | None = ("last",)

    def view(self, picture: Size, size: Size, shapes: Sequence[Size] = ()) -> View:
        """What is shown of a picture of that width and height.

        Parameters
        ----------
        picture : (width, height)
            Of the picture, upright.
        size : (width, height)
            Of the network's input.
        shapes : sequence of (width, height)
            Other sizes that it takes.
        """
        if not self.shaped or len(shapes) < 2:
            return View(size, self.groups)
        ratio = picture[0] / picture[1]
        length = max(ratio, 1 / ratio)
        parts = min(3, math.ceil(length / LONGEST))
        share = min(1 / parts, LONGEST / length)
        starts = [part * (1 - share) / max(1, parts - 1) for part in range(parts)]
        if ratio > 1:
            group = tuple(Region(start, 0, start + share, 1) for start in starts)
        else:
            group = tuple(Region(0, start, 1, start + share) for start in starts)
        ratio *= share if ratio > 1 else 1 / share
        return View(min(shapes, key=lambda shape: _apart(shape, ratio)), (group,))


def _apart(shape: Size, ratio: float) -> float:
    return abs(math.log(shape[0] / shape[1] / ratio))


CROPS = {
    crops.name: crops
    for crops in (
        Crops("large", ((WHOLE,),), shaped=True, outputs=None),
        Crops("fast", ((WHOLE,),)),
        Crops("paper", ((WHOLE,), FIVE), ("", "five.")),
        Crops("five", (FIVE,)),
        Crops("ten", (TEN,)),
    )
}
_REGIONS = {"whole": "fast", "whole+five": "paper"}  # the same two by what they show


def named(name: str) -> Crops:
    """The crops called ``name``; ``whole`` is ``fast`` and ``whole+five`` is ``paper``."""
    name = _REGIONS.get(name, name)
    if name not in CROPS:
        raise InputError(f"crops={name!r} is unknown: {', '.join(map(repr, CROPS))} are known.")
    return CROPS[name]


class Sight(NamedTuple):
    """How a network sees: what it takes pictures as."""

    size: Size
    shapes: Sequence[Size]  # other sizes that it takes
    interpolation: str


class Part(NamedTuple):
    """A block of the vectors, and how it is made."""

    name: str
    width: int
    group: int  # of the regions
    columns: slice  # of what the network gives for them
    recipe: bytes  # digest of all that decides its values, but the picture


class Plan(NamedTuple):
    """What is computed of each picture: regions to show, outputs to ask for, and the blocks."""

    crops: Crops
    needed: Crops  # of them, what the blocks are made of
    sight: Sight
    outputs: list[str]
    parts: list[Part]

    @classmethod
    def of(
        cls,
        crops: Crops,
        sight: Sight,
        given: Mapping[str, tuple[int, str]],
        wanted: Sequence[str] | None = None,
    ) -> Self:
        """The plan for the blocks wanted, in their order.

        Parameters
        ----------
        given : mapping of str to (int, str)
            Outputs of the network: width and fingerprint of each.
        wanted : sequence of str, optional
            Names of blocks; if not given, what the crops say.
        """
        every = {
            prefix + name: (group, name)
            for group, prefix in enumerate(crops.prefixes)
            for name in given
        }
        if wanted is None:
            wanted = [n for n in every if crops.outputs is None or every[n][1] in crops.outputs]
        if isinstance(wanted, str) or not wanted or len({*wanted} & {*every}) != len(wanted):
            raise InputError(
                f"selected_groups={wanted!r}: give some of {', '.join(map(repr, every))}."
            )
        groups = sorted({every[name][0] for name in wanted})
        asked = list(dict.fromkeys(every[name][1] for name in wanted))
        ends = np.cumsum([given[name][0] for name in asked]).tolist()
        parts = []
        for name in wanted:
            group, output = every[name]
            width, mark = given[output]
            # All groups, for how large a picture is decoded depends on them: a block is the same
            # whether the others are wanted or not.
            decides = VERSION, mark, output, sight, group, crops.groups, crops.shaped
            recipe = hashlib.blake2b(repr(decides).encode(), digest_size=16).digest()
            end = ends[asked.index(output)]
            parts.append(Part(name, width, groups.index(group), slice(end - width, end), recipe))
        needed = crops._replace(groups=tuple(crops.groups[group] for group in groups))
        return cls(crops, needed, sight, asked, parts)

    def view(self, picture: Size) -> View:
        """What is shown of a picture of that width and height."""
        return self.needed.view(picture, self.sight.size, self.sight.shapes)

    def at_least(self, picture: Size) -> Size:
        """The size that a picture of that width and height is needed at."""
        return self.crops.view(picture, self.sight.size, self.sight.shapes).at_least()

    def join(self, groups: Array) -> Array:
        """What the network gives for the groups of regions -> the vector of the picture."""
        return np.concatenate([groups[part.group, part.columns] for part in self.parts])

    def split(self, vectors: Array) -> Iterator[tuple[Part, Array]]:
        """The blocks of vectors, each with its columns."""
        start = 0
        for part in self.parts:
            yield part, vectors[..., start : start + part.width]
            start += part.width


def thumbnail(image: Image.Image, side: int = SIDE) -> bytes:
    """A decoded picture at most ``side`` pixels wide and high, as WebP without any metadata."""
    from PIL.Image import Resampling

    scale = min(1.0, side / max(image.size))
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    small = image.resize(size, Resampling.BICUBIC, reducing_gap=2.0)
    small.info = {}  # keywords, places and profiles of the original are no part of it
    stream = io.BytesIO()
    small.save(stream, "WEBP", quality=QUALITY, method=EFFORT)
    return stream.getvalue()


class Album:
    """Takes thumbnails one after the other while there is room; then it is full for good.

    Threads may ask whether it is full; one of them fills it.
    """

    def __init__(self, max_bytes: int = ALBUM_BYTES, side: int = SIDE) -> None:
        self._room = max_bytes
        self.side = side  # of each, at most
        self.full = False

    def take(self, small: bytes) -> bytes:
        """The thumbnail if there is room for it, else b""; after that every other is b"" too."""
        self.full = self.full or len(small) > self._room
        if self.full:
            return b""
        self._room -= len(small)
        return small
