"""Crops of pictures for a backbone, pooling of their vectors, and thumbnails.

``large`` is one crop of the whole picture, at the input size whose aspect ratio is nearest. The
five crops of the paper are the center with two thirds of the area, and the four corners with two
thirds of the width and one third of the height each. Thumbnails are shown when the picture itself
is not available.
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

THUMBNAIL_SIDE = 96  # pixels of the longer side
WEBP_QUALITY = 60  # about 2 kB per thumbnail
WEBP_METHOD = 2  # 60% of the time of 4, the default, for files that are 4% larger
MAX_THUMBNAIL_BYTES = 16 << 20  # of all thumbnails of a collection together
# Pictures with a larger aspect ratio are cut into two parts, and from twice this on into three.
MAX_ASPECT_RATIO = 2.6
# Input sizes of ``large`` with about equal area: 1:1, 4:3, 16:9, 9:4, and the same in portrait.
# Photographs of 3:2 are nearest to 4:3.
_LANDSCAPE_SIZES = ((448, 336), (512, 288), (576, 256))
LARGE_SIZES = (
    (384, 384),
    *_LANDSCAPE_SIZES,
    *((height, width) for width, height in _LANDSCAPE_SIZES),
)


class Region(NamedTuple):
    """A rectangle in fractions of width and height, optionally mirrored."""

    left: float
    top: float
    right: float
    bottom: float
    mirrored: bool = False


Group = tuple[Region, ...]
WHOLE = Region(0, 0, 1, 1)
_INSET = (1 - (2 / 3) ** 0.5) / 2  # removed on all four sides, leaves two thirds of the area
FIVE = (
    Region(_INSET, _INSET, 1 - _INSET, 1 - _INSET),
    Region(0, 0, 2 / 3, 1 / 3),
    Region(1 / 3, 0, 1, 1 / 3),
    Region(0, 2 / 3, 2 / 3, 1),
    Region(1 / 3, 2 / 3, 1, 1),
)
TEN = (*FIVE, *(region._replace(mirrored=True) for region in FIVE))


class View(NamedTuple):
    """Crops of one picture: groups of regions, and the size to which all are resized."""

    size: Size
    groups: tuple[Group, ...]

    @property
    def regions(self) -> Group:
        """Regions of all groups."""
        return tuple(region for group in self.groups for region in group)

    def at_least(self) -> Size:
        """Return the size of a picture below which a region would be enlarged."""
        width, height = self.size
        return (
            max(round(width / (region.right - region.left)) for region in self.regions),
            max(round(height / (region.bottom - region.top)) for region in self.regions),
        )

    def cut(self, image: Image.Image, interpolation: str) -> Pixels:
        """Cut the regions of a picture: regions x height x width x 3."""
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
            # A region more than twice as large is first reduced by an integer factor, which is much
            # faster; the rest is resized exactly.
            part = image.resize(
                self.size, Resampling[interpolation.upper()], box=box, reducing_gap=2.0
            )
            row[:] = np.asarray(
                part.transpose(Transpose.FLIP_LEFT_RIGHT) if region.mirrored else part
            )
        return pixels

    def pool(self, vectors: Array) -> Array:
        """Average the vectors of the regions (regions x d) in each group (groups x d)."""
        parts = []
        start = 0
        for group in self.groups:
            parts.append(vectors[start : start + len(group)].mean(axis=0))
            start += len(group)
        return np.stack(parts)


class Crops(NamedTuple):
    """Groups of regions. The averaged vectors of the groups are concatenated."""

    name: str
    groups: tuple[Group, ...]
    prefixes: tuple[str, ...] = ("",)  # of the names of the feature groups, by group of regions
    keeps_aspect_ratio: bool = False  # if the backbone accepts several input sizes
    # Outputs of the backbone that are computed by default; None for all.
    outputs: tuple[str, ...] | None = ("last",)

    def view(self, picture: Size, size: Size, shapes: Sequence[Size] = ()) -> View:
        """Return the crops of a picture.

        Parameters
        ----------
        picture : (width, height)
            Size of the upright picture.
        size : (width, height)
            Input size of the backbone.
        shapes : sequence of (width, height)
            All input sizes that it accepts, if several.
        """
        if not self.keeps_aspect_ratio or len(shapes) < 2:
            return View(size, self.groups)
        ratio = picture[0] / picture[1]
        length = max(ratio, 1 / ratio)
        parts = min(3, math.ceil(length / MAX_ASPECT_RATIO))
        share = min(1 / parts, MAX_ASPECT_RATIO / length)
        starts = [part * (1 - share) / max(1, parts - 1) for part in range(parts)]
        if ratio > 1:
            group = tuple(Region(start, 0, start + share, 1) for start in starts)
        else:
            group = tuple(Region(0, start, 1, start + share) for start in starts)
        ratio *= share if ratio > 1 else 1 / share
        return View(min(shapes, key=lambda shape: _ratio_distance(shape, ratio)), (group,))


def _ratio_distance(shape: Size, ratio: float) -> float:
    return abs(math.log(shape[0] / shape[1] / ratio))


CROPS = {
    crops.name: crops
    for crops in (
        Crops("large", ((WHOLE,),), keeps_aspect_ratio=True, outputs=None),
        Crops("fast", ((WHOLE,),)),
        Crops("paper", ((WHOLE,), FIVE), ("", "five.")),
        Crops("five", (FIVE,)),
        Crops("ten", (TEN,)),
    )
}
_ALIASES = {"whole": "fast", "whole+five": "paper"}


def crops_by_name(name: str) -> Crops:
    """Look up crops by their name; ``whole`` is ``fast`` and ``whole+five`` is ``paper``."""
    name = _ALIASES.get(name, name)
    if name not in CROPS:
        raise InputError(f"crops={name!r} is unknown: give one of {', '.join(map(repr, CROPS))}.")
    return CROPS[name]


class InputSpec(NamedTuple):
    """Input specification of a backbone."""

    size: Size
    shapes: Sequence[Size]  # all sizes that it accepts, if several
    interpolation: str


class PlannedGroup(NamedTuple):
    """A feature group, and how it is computed."""

    name: str
    width: int
    group: int  # of regions
    columns: slice  # of the backbone's result for these regions
    recipe: bytes  # digest of everything except the picture that the values depend on


class Plan(NamedTuple):
    """Plan of feature extraction: crops, outputs of the backbone, and feature groups."""

    crops: Crops
    needed: Crops  # those that the feature groups depend on
    input_spec: InputSpec
    outputs: list[str]
    groups: list[PlannedGroup]

    @classmethod
    def build(
        cls,
        crops: Crops,
        input_spec: InputSpec,
        outputs: Mapping[str, tuple[int, str]],
        selected: Sequence[str] | None = None,
    ) -> Self:
        """Build the plan for some feature groups, in their order.

        Parameters
        ----------
        outputs : mapping of str to (int, str)
            Outputs of the backbone: width and fingerprint of each.
        selected : sequence of str, optional
            Names of the feature groups; by default those of ``crops``.
        """
        available = {
            prefix + name: (group, name)
            for group, prefix in enumerate(crops.prefixes)
            for name in outputs
        }
        if selected is None:
            selected = [
                name
                for name, (_, output) in available.items()
                if crops.outputs is None or output in crops.outputs
            ]
        is_subset = len({*selected} & {*available}) == len(selected)
        if isinstance(selected, str) or not selected or not is_subset:
            raise InputError(
                f"selected_groups={selected!r}: give some of {', '.join(map(repr, available))}."
            )
        region_groups = sorted({available[name][0] for name in selected})
        computed = list(dict.fromkeys(available[name][1] for name in selected))
        ends = np.cumsum([outputs[name][0] for name in computed]).tolist()
        groups = []
        for name in selected:
            number, output = available[name]
            width, fingerprint = outputs[output]
            end = ends[computed.index(output)]
            group = PlannedGroup(
                name,
                width,
                region_groups.index(number),
                slice(end - width, end),
                _recipe(crops, input_spec, number, output, fingerprint),
            )
            groups.append(group)
        needed = crops._replace(groups=tuple(crops.groups[number] for number in region_groups))
        return cls(crops, needed, input_spec, computed, groups)

    def view(self, picture: Size) -> View:
        """Return the crops of a picture of some width and height."""
        return self.needed.view(picture, self.input_spec.size, self.input_spec.shapes)

    def at_least(self, picture: Size) -> Size:
        """Return the size at which a picture of some width and height must be decoded."""
        return self.crops.view(picture, self.input_spec.size, self.input_spec.shapes).at_least()

    def join(self, groups: Array) -> Array:
        """Concatenate the feature groups of a picture from the results of its region groups."""
        return np.concatenate([groups[one.group, one.columns] for one in self.groups])

    def split(self, vectors: Array) -> Iterator[tuple[PlannedGroup, Array]]:
        """Yield each feature group with its columns of vectors."""
        start = 0
        for group in self.groups:
            yield group, vectors[..., start : start + group.width]
            start += group.width


def _recipe(
    crops: Crops, input_spec: InputSpec, group: int, output: str, fingerprint: str
) -> bytes:
    """Compute the recipe of a feature group.

    It covers the crops of all groups, because the size of the decoded picture depends on them: a
    feature group does not depend on which others are computed.
    """
    size, shapes, interpolation = input_spec
    # Caches and libraries contain the digest of this text, in which the class is called Sight.
    spec = f"Sight(size={size!r}, shapes={shapes!r}, interpolation={interpolation!r})"
    decides = (
        f"({VERSION!r}, {fingerprint!r}, {output!r}, {spec}, {group!r}, {crops.groups!r}, "
        f"{crops.keeps_aspect_ratio!r})"
    )
    return hashlib.blake2b(decides.encode(), digest_size=16).digest()


def fit_within(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Return width and height reduced, if necessary, to at most ``side`` pixels."""
    scale = min(1.0, side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def thumbnail(image: Image.Image, side: int = THUMBNAIL_SIDE, quality: int = WEBP_QUALITY) -> bytes:
    """Encode a picture at most ``side`` pixels wide and high, as WebP without metadata."""
    from PIL.Image import Resampling

    size = fit_within(image.size, side)
    small = image.resize(size, Resampling.BICUBIC, reducing_gap=2.0)
    small.info = {}  # without keywords, locations and profiles of the original
    stream = io.BytesIO()
    small.save(stream, "WEBP", quality=quality, method=WEBP_METHOD)
    return stream.getvalue()


class ThumbnailBudget:
    """Limit on the total size of thumbnails. Once exceeded, no more thumbnails are accepted.

    Threads may read ``is_full``; one thread calls ``accept``.
    """

    def __init__(self, max_bytes: int = MAX_THUMBNAIL_BYTES, side: int = THUMBNAIL_SIDE) -> None:
        self._remaining_bytes = max_bytes
        self.side = side  # of each thumbnail, in pixels, at most
        self.is_full = False

    def accept(self, small: bytes) -> bytes:
        """Return the thumbnail if it is within the limit, else b\"\"."""
        self.is_full = self.is_full or len(small) > self._remaining_bytes
        if self.is_full:
            return b""
        self._remaining_bytes -= len(small)
        return small
