"""The JPEG inside a camera's raw file: what the camera itself would show. No raw is developed.

Raw files are containers: NEF, CR2, ARW, DNG, PEF, SRW are TIFF files, ORF and RW2 nearly so, CR3 is
of the family of MP4, RAF is Fujifilm's own. Each holds one or more JPEGs; the largest is taken. A
file says where things are, and may lie: every place is looked at once, all counts are bounded, and
nothing is read but slices of the bytes given.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from prototag.errors import ImageError

MAX_DIRECTORIES = 64
MAX_ENTRIES = 1000  # of a directory
MAX_BOXES = 1000
MAX_SEGMENTS = 200  # of a JPEG before its size is told
_DEEPEST = 8  # boxes in boxes

# Tags of TIFF directories
_WIDE = 0x0103, 0x0106, 0x0112  # compression, photometric interpretation, orientation
_PANASONIC_JPEG = 0x002E
_STRIPS = 0x0111
_STRIP_BYTES = 0x0117
_DIRECTORIES = 0x014A, 0x8769  # SubIFDs, Exif
_JPEG = 0x0201
_JPEG_BYTES = 0x0202
_MAKER = 0x927C
_DNG = 0xC612
_SENSOR = {32803, 34892}  # photometric interpretations: colour filter array, linear raw
_COMPRESSED_AS_JPEG = {6, 7}
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}

_TIFF = {b"II*\0": "<", b"MM\0*": ">"}
_OLYMPUS = {b"IIRO": "<", b"IIRS": "<", b"MMOR": ">"}
_PANASONIC = {b"IIU\0": "<"}
_FUJIFILM = b"FUJIFILMCCD-RAW "
# The maker's note of Olympus: head, where its directory begins, and that its places count from it.
_NOTES = {b"OLYMPUS\0": 12, b"OM SYSTEM\0": 16}
_NOTE_THUMBNAIL = 0x0100
_NOTE_SETTINGS = 0x2020
_NOTE_JPEG = 0x0101
_NOTE_JPEG_BYTES = 0x0102
_CANON_TIFF = b"CMT1"  # a box with a TIFF directory of the whole picture
_CANON_PREVIEW = bytes.fromhex("eaf42b5e1c984b88b9fbb7dc406e4d16")
_HOLD_BOXES = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"uuid"}


class Preview(NamedTuple):
    """A JPEG inside a raw file, and how the raw file says that it must be turned."""

    data: bytes
    orientation: int | None


def preview(data: bytes) -> Preview | None:
    """The largest JPEG inside a raw file; None if it is no raw file."""
    head = data[:4]
    if head in _TIFF or head in _OLYMPUS or head in _PANASONIC:
        found = _Directories(data, ({**_TIFF, **_OLYMPUS, **_PANASONIC})[head])
        found.walk()
        raw = found.is_raw or head not in _TIFF
        places = found.places
        orientation = found.orientation
    elif data.startswith(_FUJIFILM):
        # the JPEG has its own
        raw = True
        orientation = None
        places = [struct.unpack(">II", data[84:92])] if len(data) >= 92 else []
    elif data[4:12] == b"ftypcrx ":
        raw = True
        places, orientation = _canon(data)
    else:
        return None
    if not raw:
        return None
    sizes = {place: _jpeg_pixels(data, *place) for place in places}
    start, length = max(sizes, key=lambda place: sizes[place], default=(0, 0))
    if not sizes.get((start, length)):
        raise ImageError(
            "is a raw file without a JPEG inside, and raw files are not developed: export a JPEG"
        )
    return Preview(data[start : start + length], orientation)


def _jpeg_pixels(data: bytes, start: int, length: int) -> int:
    """Pixels of the JPEG that lies there; 0 if none does, or one that only holds sensor data."""
    end = start + length
    if start < 0 or length < 4 or end > len(data) or data[start : start + 3] != b"\xff\xd8\xff":
        return 0
    at = start + 2
    for _ in range(MAX_SEGMENTS):
        if at + 9 > end or data[at] != 0xFF:
            return 0
        kind = data[at + 1]
        if kind == 0xFF:  # a filler
            at += 1
            continue
        if kind in (0xC0, 0xC1, 0xC2):  # frames that a picture has; 0xC3 is lossless: a sensor's
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return int(height * width)
        if kind in (0xC3, 0xD9, 0xDA) or (0xC5 <= kind <= 0xCF and kind not in (0xC8, 0xCC)):
            return 0
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0


class _Directories:
    """The directories of a TIFF file, each visited once, and the JPEGs that they speak of."""

    def __init__(self, data: bytes, order: str) -> None:
        self.data = data
        self.order = order
        self.is_raw = data[8:10] == b"CR"  # Canon's CR2
        self.orientation: int | None = None
        self.places: list[tuple[int, int]] = []
        self._seen: set[int] = set()

    def walk(self) -> None:
        waiting = [self._number(4)]
        while waiting and len(self._seen) < MAX_DIRECTORIES:
            at = waiting.pop(0)
            if at in self._seen or not 8 <= at < len(self.data):
                continue
            first = not self._seen
            self._seen.add(at)
            waiting += self._visit(at, first)

    def _visit(self, at: int, first: bool) -> list[int]:
        """Note what a directory says; the places of further ones."""
        entries, following = self._entries(at)
        kind, meaning, turn = (self._values(entries, tag, 1) for tag in _WIDE)
        self.is_raw = self.is_raw or _DNG in entries or bool(meaning and meaning[0] in _SENSOR)
        if first and turn and 1 <= turn[0] <= 8:
            self.orientation = turn[0]
        self._pair(entries, _JPEG, _JPEG_BYTES)
        if kind and kind[0] in _COMPRESSED_AS_JPEG:
            self._pair(entries, _STRIPS, _STRIP_BYTES)
        if _PANASONIC_JPEG in entries:
            _, count, place = entries[_PANASONIC_JPEG]
            self.places.append((place, count))
        if _MAKER in entries:
            self._note(entries[_MAKER][2])
        further = [at for tag in _DIRECTORIES for at in self._values(entries, tag, 16)]
        return [*further, following]

    def _pair(self, entries: dict[int, tuple[int, int, int]], start: int, length: int) -> None:
        starts, lengths = (self._values(entries, tag, 2) for tag in (start, length))
        if len(starts) == len(lengths) == 1:  # a JPEG in several strips is none that can be taken
            self.places.append((starts[0], lengths[0]))

    def _note(self, base: int) -> None:
        """Olympus keeps its JPEGs in the maker's note, at places that count from its beginning."""
        size = next((n for head, n in _NOTES.items() if self.data.startswith(head, base)), 0)
        if not size:
            return
        entries, _ = self._entries(base + size, base)
        if _NOTE_THUMBNAIL in entries:
            _, count, place = entries[_NOTE_THUMBNAIL]
            self.places.append((place, count))
        for at in self._values(entries, _NOTE_SETTINGS, 1):
            settings, _ = self._entries(base + at, base)
            before = len(self.places)
            self._pair(settings, _NOTE_JPEG, _NOTE_JPEG_BYTES)
            self.places[before:] = [(base + start, n) for start, n in self.places[before:]]

    def _entries(self, at: int, base: int = 0) -> tuple[dict[int, tuple[int, int, int]], int]:
        """Type, count and place of the values of each tag; and the place of the next directory."""
        count = min(self._short(at), MAX_ENTRIES)
        found: dict[int, tuple[int, int, int]] = {}
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            tag = self._short(entry)
            kind = self._short(entry + 2)
            n = self._number(entry + 4)
            inside = _SIZES.get(kind, 0) * n <= 4
            found.setdefault(
                tag, (kind, n, entry + 8 if inside else base + self._number(entry + 8))
            )
        return found, self._number(at + 2 + 12 * count)

    def _values(self, entries: dict[int, tuple[int, int, int]], tag: int, most: int) -> list[int]:
        """Whole numbers of a tag, so many at most."""
        kind, count, at = entries.get(tag, (0, 0, 0))
        read = {3: self._short, 4: self._number, 13: self._number}.get(kind)
        return [read(at + _SIZES[kind] * n) for n in range(min(count, most))] if read else []

    def _short(self, at: int) -> int:
        return self._unpack("H", at, 2)

    def _number(self, at: int) -> int:
        return self._unpack("I", at, 4)

    def _unpack(self, code: str, at: int, size: int) -> int:
        part = self.data[at : at + size]  # beyond the end there is nothing, and nothing is 0
        return int(struct.unpack(self.order + code, part)[0]) if len(part) == size else 0


class _Box(NamedTuple):
    kind: bytes
    start: int  # of the content
    end: int
    track: int  # number of the track that it is in; 0 outside


def _canon(data: bytes) -> tuple[list[tuple[int, int]], int | None]:
    """Places of the JPEGs of a CR3 file, and the orientation that it tells."""
    orientation = None
    places: list[tuple[int, int]] = []
    sizes: dict[int, int] = {}
    starts: dict[int, int] = {}
    for box in _boxes(data):
        part = data[box.start : min(box.end, box.start + 64)]
        if box.kind == _CANON_TIFF and part[:4] in _TIFF:
            inner = _Directories(data[box.start : box.end], _TIFF[part[:4]])
            inner.walk()
            orientation = inner.orientation
        elif box.kind in (b"THMB", b"PRVW"):
            begin = part.find(b"\xff\xd8\xff")
            if begin >= 0:
                places.append((box.start + begin, box.end - box.start - begin))
        elif box.kind == b"stsz" and len(part) >= 12:  # one size for all samples, or a list
            same, count = struct.unpack(">II", part[4:12])
            sizes[box.track] = same or (int.from_bytes(part[12:16], "big") if count else 0)
        elif box.kind in (b"stco", b"co64") and len(part) >= 12:
            starts[box.track] = int.from_bytes(part[8 : 16 if box.kind == b"co64" else 12], "big")
    return places + [(starts[n], sizes[n]) for n in starts.keys() & sizes.keys()], orientation


def _boxes(data: bytes) -> Iterator[_Box]:
    """All boxes of a file of the MP4 family, those that hold others before what they hold."""
    waiting = [(0, len(data), 0, 0)]
    tracks = seen = 0
    while waiting:
        at, end, depth, track = waiting.pop()
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
            if kind in _HOLD_BOXES and depth < _DEEPEST:
                skipped = 0
                if kind == b"uuid":  # its name first; Canon puts eight bytes before the preview
                    name = data[box.start : box.start + 16]
                    skipped = 24 if name == _CANON_PREVIEW else 16
                waiting.append((box.start + skipped, box.end, depth + 1, box.track))
            at += size
