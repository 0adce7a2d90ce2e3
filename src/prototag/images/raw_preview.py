"""Extract the embedded JPEG preview of a camera's raw file; raw data is not developed.

Raw files are containers: NEF, CR2, ARW, DNG, PEF and SRW are TIFF files, ORF and RW2 are TIFF
variants, CR3 is an ISO base media file like MP4, and RAF is a format of Fujifilm. Each contains one
or more JPEGs, of which the largest is used. The offsets in a file are untrusted: each directory is
visited once, all counts are bounded, and only slices of the given bytes are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from prototag.errors import ImageError

MAX_DIRECTORIES = 64
MAX_ENTRIES = 1000  # of a directory
MAX_BOXES = 1000
MAX_SEGMENTS = 200  # of a JPEG before its frame header
_MAX_BOX_DEPTH = 8

# Tags of TIFF directories
_DESCRIPTION = 0x0103, 0x0106, 0x0112  # compression, photometric interpretation, orientation
_PANASONIC_JPEG = 0x002E
_STRIPS = 0x0111
_STRIP_BYTES = 0x0117
_DIRECTORIES = 0x014A, 0x8769  # SubIFDs, Exif
_JPEG = 0x0201
_JPEG_BYTES = 0x0202
_MAKER = 0x927C
_DNG = 0xC612
_RAW_INTERPRETATIONS = {
    32803,
    34892,
}  # photometric interpretations: colour filter array, linear raw
_COMPRESSED_AS_JPEG = {6, 7}
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}

_TIFF = {b"II*\0": "<", b"MM\0*": ">"}
_OLYMPUS = {b"IIRO": "<", b"IIRS": "<", b"MMOR": ">"}
_PANASONIC = {b"IIU\0": "<"}
_FUJIFILM = b"FUJIFILMCCD-RAW "
# Maker notes of Olympus by signature, with the offset of their directory. Offsets in a maker note
# are relative to its start.
_NOTES = {b"OLYMPUS\0": 12, b"OM SYSTEM\0": 16}
_NOTE_THUMBNAIL = 0x0100
_NOTE_SETTINGS = 0x2020
_NOTE_JPEG = 0x0101
_NOTE_JPEG_BYTES = 0x0102
_CANON_TIFF = b"CMT1"  # box with a TIFF directory that describes the whole picture
_CANON_PREVIEW = bytes.fromhex("eaf42b5e1c984b88b9fbb7dc406e4d16")
_CONTAINER_BOXES = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"uuid"}


class Preview(NamedTuple):
    """An embedded JPEG, with the EXIF orientation of the raw file."""

    data: bytes
    orientation: int | None


def preview(data: bytes) -> Preview | None:
    """Return the largest JPEG inside a raw file; None if it is not a raw file."""
    head = data[:4]
    if head in _TIFF or head in _OLYMPUS or head in _PANASONIC:
        directories = _Directories(data, ({**_TIFF, **_OLYMPUS, **_PANASONIC})[head])
        directories.parse()
        raw = directories.is_raw or head not in _TIFF
        locations = directories.jpegs
        orientation = directories.orientation
    elif data.startswith(_FUJIFILM):
        raw = True  # without an orientation: the JPEG has its own
        orientation = None
        locations = [struct.unpack(">II", data[84:92])] if len(data) >= 92 else []
    elif data[4:12] == b"ftypcrx ":
        raw = True
        locations, orientation = _canon(data)
    else:
        return None
    if not raw:
        return None
    sizes = {location: _jpeg_pixels(data, *location) for location in locations}
    start, length = max(sizes, key=lambda location: sizes[location], default=(0, 0))
    if not sizes.get((start, length)):
        raise ImageError(
            "is a raw file without a JPEG inside, and raw files are not developed: export a JPEG"
        )
    return Preview(data[start : start + length], orientation)


def _jpeg_pixels(data: bytes, start: int, length: int) -> int:
    """Return the pixels of the JPEG at an offset; 0 if there is none or it contains sensor data."""
    end = start + length
    if start < 0 or length < 4 or end > len(data) or data[start : start + 3] != b"\xff\xd8\xff":
        return 0
    at = start + 2
    for _ in range(MAX_SEGMENTS):
        if at + 9 > end or data[at] != 0xFF:
            return 0
        kind = data[at + 1]
        if kind == 0xFF:  # fill byte
            at += 1
            continue
        if kind in (0xC0, 0xC1, 0xC2):  # frames of pictures; 0xC3 is lossless, for sensor data
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return int(height * width)
        if kind in (0xC3, 0xD9, 0xDA) or (0xC5 <= kind <= 0xCF and kind not in (0xC8, 0xCC)):
            return 0
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0


class _Directories:
    """Parser of the directories of a TIFF file, each visited once, for the JPEGs in it.

    Attributes
    ----------
    is_raw : bool
        Whether a directory describes sensor data.
    orientation : int or None
        EXIF orientation of the first directory.
    jpegs : list of (int, int)
        Offset and length of each JPEG, not validated.
    """

    def __init__(self, data: bytes, order: str) -> None:
        self.data = data
        self.order = order
        self.is_raw = data[8:10] == b"CR"  # Canon's CR2
        self.orientation: int | None = None
        self.jpegs: list[tuple[int, int]] = []
        self._seen: set[int] = set()

    def parse(self) -> None:
        """Visit all directories that can be reached from the header."""
        pending = [self._number(4)]
        while pending and len(self._seen) < MAX_DIRECTORIES:
            at = pending.pop(0)
            if at in self._seen or not 8 <= at < len(self.data):
                continue
            first = not self._seen
            self._seen.add(at)
            pending += self._visit(at, first)

    def _visit(self, at: int, first: bool) -> list[int]:
        """Record the contents of a directory; return the offsets of further directories."""
        entries, following = self._entries(at)
        compression, interpretation, orientation = (
            self._values(entries, tag, 1) for tag in _DESCRIPTION
        )
        self.is_raw = (
            self.is_raw
            or _DNG in entries
            or bool(interpretation and interpretation[0] in _RAW_INTERPRETATIONS)
        )
        if first and orientation and 1 <= orientation[0] <= 8:
            self.orientation = orientation[0]
        self._add_jpeg(entries, _JPEG, _JPEG_BYTES)
        if compression and compression[0] in _COMPRESSED_AS_JPEG:
            self._add_jpeg(entries, _STRIPS, _STRIP_BYTES)
        if _PANASONIC_JPEG in entries:
            _, count, offset = entries[_PANASONIC_JPEG]
            self.jpegs.append((offset, count))
        if _MAKER in entries:
            self._visit_maker_note(entries[_MAKER][2])
        further = [at for tag in _DIRECTORIES for at in self._values(entries, tag, 16)]
        return [*further, following]

    def _add_jpeg(self, entries: dict[int, tuple[int, int, int]], start: int, length: int) -> None:
        starts, lengths = (self._values(entries, tag, 2) for tag in (start, length))
        if len(starts) == len(lengths) == 1:  # a JPEG in several strips cannot be copied as one
            self.jpegs.append((starts[0], lengths[0]))

    def _visit_maker_note(self, base: int) -> None:
        """Record the JPEGs in a maker note of Olympus, whose offsets are relative to its start."""
        size = next((n for head, n in _NOTES.items() if self.data.startswith(head, base)), 0)
        if not size:
            return
        entries, _ = self._entries(base + size, base)
        if _NOTE_THUMBNAIL in entries:
            _, count, offset = entries[_NOTE_THUMBNAIL]
            self.jpegs.append((offset, count))
        for at in self._values(entries, _NOTE_SETTINGS, 1):
            settings, _ = self._entries(base + at, base)
            before = len(self.jpegs)
            self._add_jpeg(settings, _NOTE_JPEG, _NOTE_JPEG_BYTES)
            self.jpegs[before:] = [(base + start, n) for start, n in self.jpegs[before:]]

    def _entries(self, at: int, base: int = 0) -> tuple[dict[int, tuple[int, int, int]], int]:
        """Return type, count and offset of values by tag, and the offset of the next directory."""
        count = min(self._short(at), MAX_ENTRIES)
        entries: dict[int, tuple[int, int, int]] = {}
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            tag = self._short(entry)
            kind = self._short(entry + 2)
            n = self._number(entry + 4)
            inside = _SIZES.get(kind, 0) * n <= 4
            entries.setdefault(
                tag, (kind, n, entry + 8 if inside else base + self._number(entry + 8))
            )
        return entries, self._number(at + 2 + 12 * count)

    def _values(self, entries: dict[int, tuple[int, int, int]], tag: int, most: int) -> list[int]:
        """Return the integer values of a tag, at most ``most``."""
        kind, count, at = entries.get(tag, (0, 0, 0))
        read = {3: self._short, 4: self._number, 13: self._number}.get(kind)
        return [read(at + _SIZES[kind] * n) for n in range(min(count, most))] if read else []

    def _short(self, at: int) -> int:
        return self._unpack("H", at, 2)

    def _number(self, at: int) -> int:
        return self._unpack("I", at, 4)

    def _unpack(self, code: str, at: int, size: int) -> int:
        part = self.data[at : at + size]  # values beyond the end of the file are 0
        return int(struct.unpack(self.order + code, part)[0]) if len(part) == size else 0


class _Box(NamedTuple):
    kind: bytes
    start: int  # of the content
    end: int
    track: int  # number of the enclosing track; 0 for none


def _canon(data: bytes) -> tuple[list[tuple[int, int]], int | None]:
    """Return offset and length of the JPEGs of a CR3 file, and its orientation."""
    orientation = None
    locations: list[tuple[int, int]] = []
    sizes: dict[int, int] = {}
    starts: dict[int, int] = {}
    for box in _boxes(data):
        part = data[box.start : min(box.end, box.start + 64)]
        if box.kind == _CANON_TIFF and part[:4] in _TIFF:
            inner = _Directories(data[box.start : box.end], _TIFF[part[:4]])
            inner.parse()
            orientation = inner.orientation
        elif box.kind in (b"THMB", b"PRVW"):
            begin = part.find(b"\xff\xd8\xff")
            if begin >= 0:
                locations.append((box.start + begin, box.end - box.start - begin))
        elif box.kind == b"stsz" and len(part) >= 12:  # one size for all samples, or a list
            same, count = struct.unpack(">II", part[4:12])
            sizes[box.track] = same or (int.from_bytes(part[12:16], "big") if count else 0)
        elif box.kind in (b"stco", b"co64") and len(part) >= 12:
            starts[box.track] = int.from_bytes(part[8 : 16 if box.kind == b"co64" else 12], "big")
    return locations + [(starts[n], sizes[n]) for n in starts.keys() & sizes.keys()], orientation


def _boxes(data: bytes) -> Iterator[_Box]:
    """Iterate over all boxes of an ISO base media file, containers before their contents."""
    pending = [(0, len(data), 0, 0)]
    tracks = seen = 0
    while pending:
        at, end, depth, track = pending.pop()
        while at + 8 <= end and seen < MAX_BOXES:
            seen += 1
            size = int.from_bytes(data[at : at + 4], "big")
            kind = data[at + 4 : at + 8]
            head = 8
            if size == 1:
                size = int.from_bytes(data[at + 8 : at + 16], "big")
                head = 16
            size = size or end - at
            if size < head or at + size > end:
                break
            if kind == b"trak":
                tracks += 1
            box = _Box(kind, at + head, at + size, tracks if kind == b"trak" else track)
            yield box
            if kind in _CONTAINER_BOXES and depth < _MAX_BOX_DEPTH:
                skipped = 0
                if (
                    kind == b"uuid"
                ):  # content follows the identifier, in Canon's preview after eight bytes
                    name = data[box.start : box.start + 16]
                    skipped = 24 if name == _CANON_PREVIEW else 16
                pending.append((box.start + skipped, box.end, depth + 1, box.track))
            at += size
