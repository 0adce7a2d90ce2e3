"""Rules that read what a picture is from its pixels and metadata, without a network.

A rule holds or does not hold: there are no probabilities. Camera data are those of EXIF.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prototag.errors import ImageError
from prototag.images.decode import (
    Pixels,
    Size,
    identify,
    open_image,
    read_bytes,
    translate_decoder_errors,
    upright_size,
)
from prototag.images.exif import MAKE, MODEL, TAKEN, metadata_of

if TYPE_CHECKING:
    from PIL import Image

    from prototag.images.decode import Source

SAMPLED_SIDE = 64  # pixels of the reduced picture that colors and darkness are read from
PANORAMA_RATIO = 2.0  # width by height
PORTRAIT_RATIO = 1.2  # height by width
MAX_GRAY_CHROMA = 8  # difference of the channels, of 255: JPEG adds some to gray pixels
GRAY_SHARE = 0.995  # of the pixels
DARK_LEVEL = 40  # of 255
DARK_SHARE = 0.8  # of the pixels of a picture at night
BLACK_LEVEL = 1.5  # mean; a picture below shows nothing, such as a lens cap
NIGHT_HOURS = (*range(21, 24), *range(5))  # of the camera's clock
DAY_HOURS = range(8, 17)
NIGHT_EXPOSURE_VALUE = 4.0  # at ISO 100; lit streets have 3 to 5, lit interiors 5 to 7

# EXIF tags
_DESCRIPTION = 0x010E
_SOFTWARE = 0x0131
_EXPOSURE_TIME = 0x829A
_F_NUMBER = 0x829D
_ISO = 0x8827
_USER_COMMENT = 0x9286
_SCREENSHOT_WORDS = ("screenshot", "screen shot", "screencapture", "spectacle", "snipping")
# Width and height of usual displays, upright or turned.
_DISPLAYS = {
    (1280, 720), (1280, 800), (1366, 768), (1440, 900), (1536, 864), (1600, 900), (1680, 1050),
    (1920, 1080), (1920, 1200), (2560, 1440), (2560, 1600), (2880, 1800), (3024, 1964),
    (3072, 1920), (3456, 2234), (3840, 2160), (5120, 2880), (1334, 750), (1792, 828), (2208, 1242),
    (2436, 1125), (2532, 1170), (2556, 1179), (2688, 1242), (2778, 1284), (2796, 1290),
    (2048, 1536), (2160, 1620), (2224, 1668), (2388, 1668), (2732, 2048), (2160, 1080),
    (2280, 1080), (2340, 1080), (2400, 1080), (2960, 1440), (3040, 1440), (3120, 1440),
    (3200, 1440),
}  # fmt: skip


class PixelFacts(NamedTuple):
    """What rules read from the pixels of a picture; a cache may keep it by its digest."""

    is_gray: bool
    is_dark: bool

    @classmethod
    def of(cls, pixels: Pixels) -> PixelFacts:
        """Read reduced pixels (h x w x 3)."""
        return cls(_is_gray(pixels), _is_dark(pixels))


class Evidence(NamedTuple):
    """The parts of a picture that rules read."""

    size: Size  # upright width and height
    facts: PixelFacts
    format: str  # of the file, such as "PNG"; empty for a picture in memory
    metadata: dict[int, Any]  # EXIF
    texts: str  # of PNG and EXIF that name a program, in lower case

    @classmethod
    def read(cls, source: Source, facts: PixelFacts | None = None) -> Evidence:
        """Read a picture; an ImageError says why it cannot be read.

        With known facts a file is not decoded: its header has all else.
        """
        if isinstance(source, str | os.PathLike):
            source = read_bytes(source)
        metadata: dict[int, Any] = {}
        texts = file_format = ""
        size: Size = (0, 0)
        if facts is None or not isinstance(source, bytes):
            small = open_image(source, at_least=(SAMPLED_SIDE, SAMPLED_SIDE))
            size = small.size
            step = [max(1, side // SAMPLED_SIDE) for side in small.size]
            facts = PixelFacts.of(np.asarray(small)[:: step[1], :: step[0]])
        if isinstance(source, bytes):
            with translate_decoder_errors():
                header = identify(source)
                size = upright_size(header)
                file_format = header.format or ""
                metadata = metadata_of(header)
                texts = _texts(header, metadata)
        return cls(size, facts, file_format, metadata, texts)


def _texts(image: Image.Image, metadata: dict[int, Any]) -> str:
    values = [metadata.get(tag) for tag in (_SOFTWARE, _DESCRIPTION, _USER_COMMENT)]
    values += [value for value in image.info.values() if isinstance(value, str)]
    words = [v.decode("latin-1") if isinstance(v, bytes) else str(v) for v in values if v]
    return " ".join(word[:200] for word in words).lower()


def _is_gray(pixels: Pixels) -> bool:
    channels = pixels.astype(np.int16)
    chroma = channels.max(axis=2) - channels.min(axis=2)
    has_contrast = int(channels.max()) - int(channels.min()) > 2 * MAX_GRAY_CHROMA
    return has_contrast and bool((chroma <= MAX_GRAY_CHROMA).mean() >= GRAY_SHARE)


def _is_dark(pixels: Pixels) -> bool:
    light = pixels.mean(axis=2)
    return bool((light <= DARK_LEVEL).mean() >= DARK_SHARE and light.mean() > BLACK_LEVEL)


def _is_black_and_white(picture: Evidence) -> bool:
    return picture.facts.is_gray


def _is_panorama(picture: Evidence) -> bool:
    width, height = picture.size
    return width >= PANORAMA_RATIO * height


def _is_portrait_format(picture: Evidence) -> bool:
    width, height = picture.size
    return height >= PORTRAIT_RATIO * width


def _is_screenshot(picture: Evidence) -> bool:
    if any(word in picture.texts for word in _SCREENSHOT_WORDS):
        return True
    has_camera = any(picture.metadata.get(tag) for tag in (MAKE, MODEL))
    width, height = picture.size
    is_display = (max(width, height), min(width, height)) in _DISPLAYS
    return is_display and picture.format == "PNG" and not has_camera


def _is_night(picture: Evidence) -> bool:
    hour = _hour(picture.metadata)
    exposure = _exposure_value(picture.metadata)
    if hour in NIGHT_HOURS and exposure is not None:
        return exposure <= NIGHT_EXPOSURE_VALUE
    if hour in DAY_HOURS:
        return False
    return picture.facts.is_dark


def _hour(metadata: dict[int, Any]) -> int | None:
    """Return the hour of ``2021:07:30 23:15:00``, the camera's local time."""
    text = str(metadata.get(TAKEN, ""))[11:13]
    return int(text) if text.isascii() and text.isdigit() else None


def _exposure_value(metadata: dict[int, Any]) -> float | None:
    """Return the exposure value at ISO 100, ``log2(N^2 / t) - log2(ISO / 100)``."""
    try:
        seconds, aperture = (float(metadata[tag]) for tag in (_EXPOSURE_TIME, _F_NUMBER))
        value = metadata[_ISO]
        iso = float(value[0] if isinstance(value, tuple) else value)
        return math.log2(aperture**2 / seconds) - math.log2(iso / 100)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
        return None


RULES: dict[str, Callable[[Evidence], bool]] = {
    "black and white": _is_black_and_white,
    "panorama": _is_panorama,
    "portrait format": _is_portrait_format,
    "screenshot": _is_screenshot,
    "night": _is_night,
}


def matching_rules(source: Source) -> frozenset[str]:
    """Return the names of the rules that hold for a picture; none if it cannot be read."""
    return matching_rules_with_facts(source)[0]


def matching_rules_with_facts(
    source: Source, facts: PixelFacts | None = None
) -> tuple[frozenset[str], PixelFacts | None]:
    """Return the rules that hold, and the facts about the pixels; None if unreadable."""
    try:
        picture = Evidence.read(source, facts)
    except ImageError:
        return frozenset(), None
    names = frozenset(name for name, holds in RULES.items() if holds(picture))
    return names, picture.facts
