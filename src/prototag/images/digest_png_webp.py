"""Visible parts of PNG and WebP files, for their digest; JPEG is in :mod:`.decode`.

Text and other metadata are excluded, except for the orientation.
"""

from __future__ import annotations

import re

from prototag.images.decode import MAX_PARTS, Parts, file_orientation

_PNG_METADATA = (b"tEXt", b"zTXt", b"iTXt", b"tIME", b"pHYs")
_PNG_XMP = b"XML:com.adobe.xmp\0"
_XMP_ORIENTATION = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')  # the pattern of Pillow


def visible_parts(data: memoryview) -> Parts | None:
    """Return the parts of a file that affect its display; None if it cannot be parsed."""
    if bytes(data[:4]) == b"RIFF":
        return _in_webp(data) if bytes(data[8:12]) == b"WEBP" else None
    return _in_png(data)


def _in_png(data: memoryview) -> Parts | None:
    parts: Parts = []
    at = 8
    for _ in range(MAX_PARTS):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        kind = bytes(data[at + 4 : at + 8])
        head = bytes(data[at + 8 : at + 8 + len(_PNG_XMP) + 1])
        if kind == b"IEND" or end > len(data):
            return [*parts, data[at:]]
        # A profile in text may hold an orientation, and so may a compressed XMP packet.
        is_opaque = head.startswith(b"Raw profile type") or head == _PNG_XMP + b"\1"
        if kind not in _PNG_METADATA or is_opaque:
            parts.append(data[at:end])
        elif head.startswith(_PNG_XMP) and (match := _XMP_ORIENTATION.search(data[at:end])):
            parts.append(match[1])
        at = end
    return None


def _in_webp(data: memoryview) -> Parts | None:
    parts: Parts = []
    at = 12
    has_metadata = False
    for _ in range(MAX_PARTS):
        if at == len(data):
            return [*parts, bytes([file_orientation(data) if has_metadata else 1])]
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        kind = bytes(data[at : at + 4])
        end = at + 8 + size
        if end > len(data):
            return None
        end = min(end + (size & 1), len(data))
        if kind in (b"EXIF", b"XMP "):
            has_metadata = True
        elif kind == b"VP8X" and size == 10:
            # The first byte has the flags. For a picture without layers the rest repeats the size.
            flags = data[at + 8] & ~0x0C
            parts += [bytes([flags]), data[at + 9 : end]] if flags else []
        else:
            parts.append(data[at:end])
        at = end
    return None
