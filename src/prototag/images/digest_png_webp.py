"""What is seen of a PNG or WebP file, without the words in it; JPEG is in :mod:`.decode`.

From what is left out only the turn is read.
"""

from __future__ import annotations

import re

from prototag.images.decode import MAX_PARTS, Parts, turn_of

_PNG_WORDS = (b"tEXt", b"zTXt", b"iTXt", b"tIME", b"pHYs")
_PNG_XMP = b"XML:com.adobe.xmp\0"
_XMP_TURN = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')  # as Pillow finds it


def seen(data: memoryview) -> Parts | None:
    """The parts of a file that show something; None where they cannot be told."""
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
        # A profile in text may hold a turn, and so may a packet that would have to be inflated.
        is_closed = head.startswith(b"Raw profile type") or head == _PNG_XMP + b"\1"
        if kind not in _PNG_WORDS or is_closed:
            parts.append(data[at:end])
        elif head.startswith(_PNG_XMP) and (turn := _XMP_TURN.search(data[at:end])):
            parts.append(turn[1])
        at = end
    return None


def _in_webp(data: memoryview) -> Parts | None:
    parts: Parts = []
    at = 12
    is_turned = False
    for _ in range(MAX_PARTS):
        if at == len(data):
            return [*parts, bytes([turn_of(data) if is_turned else 1])]
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        kind = bytes(data[at : at + 4])
        end = at + 8 + size
        if end > len(data):
            return None
        end = min(end + (size & 1), len(data))
        if kind in (b"EXIF", b"XMP "):
            is_turned = True
        elif kind == b"VP8X" and size == 10:
            # The first byte says what the file holds. Without pictures of several layers, the rest
            # repeats the size.
            flags = data[at + 8] & ~0x0C
            parts += [bytes([flags]), data[at + 9 : end]] if flags else []
        else:
            parts.append(data[at:end])
        at = end
    return None
