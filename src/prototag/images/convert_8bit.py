"""Palettes, transparency and deep samples -> 8 bits of grey or colour on white, strip by strip.

What is neither plain grey nor plain colour is converted before it can be averaged. A small file may
hold two hundred megapixels of it, so a picture that is to become small is taken in strips: beside
the decoded picture only a few megabytes are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prototag.arrays import Array
from prototag.errors import ImageError

if TYPE_CHECKING:
    from PIL import Image

STRIP = 4_000_000  # pixels that are converted at a time
_DEEP = "IF"  # first letters of the modes of 16 or 32 bits a sample


def flat(image: Image.Image, factor: int = 1) -> Image.Image:
    """The picture as L, RGB, CMYK or LAB, box-filtered by ``factor``."""
    from PIL import Image as pil

    levels = _levels(image, factor) if image.mode[0] in _DEEP else None
    if factor == 1 or image.width * image.height <= STRIP:
        small = _plain(image, levels)
        small = small.reduce(factor) if factor > 1 else small
    else:
        whole: Image.Image | None = None
        for top, strip in _strips(image, factor):
            part = _plain(strip, levels).reduce(factor)
            if whole is None:
                size = -(-image.width // factor), -(-image.height // factor)
                whole = pil.new(part.mode, size)
            whole.paste(part, (0, top // factor))
        assert whole is not None
        small = whole
    small.info = image.info
    return small


def _strips(image: Image.Image, factor: int) -> Iterator[tuple[int, Image.Image]]:
    rows = max(1, STRIP // (image.width * factor)) * factor
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _plain(image: Image.Image, levels: tuple[float, float] | None) -> Image.Image:
    from PIL import Image as pil

    mode = image.mode
    if levels is not None:
        return pil.fromarray(eight_bits(np.asarray(image), levels))
    if image.has_transparency_data:
        coloured = image.convert("RGBA")
        white = pil.new("RGB", image.size, "white")
        white.paste(coloured, mask=coloured.getchannel("A"))
        return white
    if mode in ("L", "RGB", "CMYK", "LAB"):
        return image
    return image.convert("L" if mode == "1" else "RGB")


def _levels(image: Image.Image, factor: int) -> tuple[float, float]:
    """The lowest and the highest sample of a deep picture."""
    found = [levels_of(np.asarray(strip)) for _, strip in _strips(image, factor)]
    return min(low for low, _ in found), max(high for _, high in found)


def levels_of(values: Array) -> tuple[float, float]:
    """The lowest and the highest of deep samples."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ImageError("has float samples that are not finite or not in [0, 1] or [0, 255]")
    return float(values.min()), float(values.max())


def eight_bits(values: Array, levels: tuple[float, float]) -> npt.NDArray[np.uint8]:
    """Deep samples as uint8. Values below 4,096 in 16 bits are a 12-bit picture, not a dark one."""
    low, high = levels
    if values.dtype.kind == "f":
        if low < 0 or high > 255:
            raise ImageError("has float samples that are not finite or not in [0, 1] or [0, 255]")
        return rounded(values * np.float32(255 if high <= 1 else 1))
    if low < 0 or high > 65535:
        raise ImageError(f"has samples from {low:.0f} to {high:.0f}; 0 to 65535 is allowed")
    white = next(2**bits - 1 for bits in (8, 10, 12, 16) if high < 2**bits)
    table = rounded(np.minimum(np.arange(65536), white) * (255 / white))
    return table[values]


def rounded(values: Array) -> npt.NDArray[np.uint8]:
    return np.asarray(np.rint(values), np.uint8)
