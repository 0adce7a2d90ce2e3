"""Upright pictures -> small copies of them, to show where the pictures are not at hand."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

SIDE = 96  # pixels
QUALITY = 60  # of WebP; about 2 kB a picture
MAX_BYTES = 16 << 20  # of all thumbnails of a collection


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

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._room = max_bytes
        self.full = False

    def take(self, small: bytes) -> bytes:
        """The thumbnail if there is room for it, else b""; after that every other is b"" too."""
        self.full = self.full or len(small) > self._room
        if self.full:
            return b""
        self._room -= len(small)
        return small
