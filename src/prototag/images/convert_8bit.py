"""Conversion of palettes, transparency and 16 or 32-bit samples to 8 bits on white, in strips.

Pictures in these modes must be converted before they can be averaged. A small file may have 200
megapixels, so a picture that is reduced is converted in strips: this needs only a few megabytes
besides the decoded picture.
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

STRIP_PIXELS = 4_000_000  # converted at a time: 16 MB as RGBA
_HIGH_DEPTH_MODES = "IF"  # first letters of the modes with 16 or 32 bits per sample


def to_8bit(image: Image.Image, factor: int = 1) -> Image.Image:
    """Convert a picture to L, RGB, CMYK or LAB, and reduce it by ``factor`` with a box filter."""
    from PIL import Image as pil

    value_range = _picture_range(image, factor) if image.mode[0] in _HIGH_DEPTH_MODES else None
    if factor == 1 or image.width * image.height <= STRIP_PIXELS:
        small = _strip_to_8bit(image, value_range)
        small = small.reduce(factor) if factor > 1 else small
    else:
        whole: Image.Image | None = None
        for top, strip in _strips(image, factor):
            part = _strip_to_8bit(strip, value_range).reduce(factor)
            if whole is None:
                size = -(-image.width // factor), -(-image.height // factor)
                whole = pil.new(part.mode, size)
            whole.paste(part, (0, top // factor))
        assert whole is not None
        small = whole
    small.info = image.info
    return small


def _strips(image: Image.Image, factor: int) -> Iterator[tuple[int, Image.Image]]:
    rows = max(1, STRIP_PIXELS // (image.width * factor)) * factor
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _strip_to_8bit(image: Image.Image, value_range: tuple[float, float] | None) -> Image.Image:
    from PIL import Image as pil

    mode = image.mode
    if value_range is not None:
        return pil.fromarray(samples_to_8bit(np.asarray(image), value_range))
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        on_white = pil.new("RGB", image.size, "white")
        on_white.paste(rgba, mask=rgba.getchannel("A"))
        return on_white
    if mode in ("L", "RGB", "CMYK", "LAB"):
        return image
    return image.convert("L" if mode == "1" else "RGB")


def _picture_range(image: Image.Image, factor: int) -> tuple[float, float]:
    """Return the lowest and the highest sample of a picture of high bit depth."""
    ranges = [sample_range(np.asarray(strip)) for _, strip in _strips(image, factor)]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def sample_range(values: Array) -> tuple[float, float]:
    """Return the lowest and the highest of samples of high bit depth."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ImageError("has float samples that are not finite or not in [0, 1] or [0, 255]")
    return float(values.min()), float(values.max())


def samples_to_8bit(values: Array, value_range: tuple[float, float]) -> npt.NDArray[np.uint8]:
    """Scale samples to uint8; 16-bit samples below 4,096 are taken for a 12-bit picture."""
    low, high = value_range
    if values.dtype.kind == "f":
        if low < 0 or high > 255:
            raise ImageError("has float samples that are not finite or not in [0, 1] or [0, 255]")
        return round_to_uint8(values * np.float32(255 if high <= 1 else 1))
    if low < 0 or high > 65535:
        raise ImageError(f"has samples from {low:.0f} to {high:.0f}; 0 to 65535 is allowed")
    maximum = next(2**bits - 1 for bits in (8, 10, 12, 16) if high < 2**bits)
    table = round_to_uint8(np.minimum(np.arange(65536), maximum) * (255 / maximum))
    return table[values]


def round_to_uint8(values: Array) -> npt.NDArray[np.uint8]:
    return np.asarray(np.rint(values), np.uint8)
