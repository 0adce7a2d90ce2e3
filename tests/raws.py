"""Raw files made of JPEGs: the containers as cameras lay them out, around sensor data of noise."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

SHORT, LONG, UNDEFINED, BYTE, ASCII, IFD = 3, 4, 7, 1, 2, 13
SENSOR = np.random.default_rng(0).integers(0, 256, 4000, np.uint8).tobytes()
LOSSLESS = (
    b"\xff\xd8\xff\xc4\0\4\0\0\xff\xc3\0\x0b\x0e\x0f\xa0\x0f\xa0\1\1\x11\0" + SENSOR
)  # 4000 x 4000


class Tiff:
    """A TIFF file that grows: data and directories are added, the first directory last."""

    def __init__(self, order: str = "<", magic: bytes | None = None, room: int = 8) -> None:
        self.order = order
        head = magic or (b"II*\0" if order == "<" else b"MM\0*")
        self.data = bytearray(head.ljust(room, b"\0"))

    def blob(self, data: bytes) -> int:
        """Where the data was put."""
        self.data += b"\0" * (len(self.data) % 2)
        self.data += data
        return len(self.data) - len(data)

    def directory(
        self, entries: dict[int, tuple[int, object]], following: int = 0, base: int = 0
    ) -> int:
        """Where the directory was put; places inside it count from ``base``."""
        rows = b""
        for tag, (kind, given) in sorted(entries.items()):
            if isinstance(given, bytes):
                packed, count = given, len(given)
            else:
                values = given if isinstance(given, list) else [given]
                code = {SHORT: "H", LONG: "I", IFD: "I", BYTE: "B"}[kind]
                packed, count = (
                    struct.pack(f"{self.order}{len(values)}{code}", *values),
                    len(values),
                )
            if len(packed) > 4:
                packed = struct.pack(self.order + "I", self.blob(packed) - base)
            rows += struct.pack(self.order + "HHI", tag, kind, count) + packed.ljust(4, b"\0")
        head = struct.pack(self.order + "H", len(entries))
        return self.blob(head + rows + struct.pack(self.order + "I", following))

    def close(self, first: int) -> bytes:
        self.data[4:8] = struct.pack(self.order + "I", first)
        return bytes(self.data)


def _jpeg(file: Tiff, data: bytes, **more: tuple[int, object]) -> dict[int, tuple[int, object]]:
    entries: dict[int, tuple[int, object]] = {0x0103: (SHORT, 6)}
    return entries | {0x0201: (LONG, file.blob(data)), 0x0202: (LONG, len(data))} | more  # type: ignore[return-value]


def _sensor(file: Tiff, compression: int) -> dict[int, tuple[int, object]]:
    return {
        0x00FE: (LONG, 0),
        0x0103: (SHORT, compression),
        0x0106: (SHORT, 32803),
        0x0111: (LONG, file.blob(SENSOR)),
        0x0117: (LONG, len(SENSOR)),
    }


def nef(large: bytes, small: bytes, turn: int, order: str = ">") -> bytes:
    """Nikon: a thumbnail in the first directory, JPEG and sensor in directories below it."""
    file = Tiff(order)
    preview = file.directory(_jpeg(file, large))
    sensor = file.directory(_sensor(file, 34713))
    third = file.directory(_jpeg(file, small))
    strip = {0x0103: (SHORT, 1), 0x0111: (LONG, file.blob(SENSOR)), 0x0117: (LONG, len(SENSOR))}
    first = {0x010F: (ASCII, b"NIKON CORPORATION\0"), 0x0112: (SHORT, turn), **strip}
    return file.close(file.directory({**first, 0x014A: (LONG, [preview, sensor, third])}))


def cr2(large: bytes, small: bytes, turn: int) -> bytes:
    """Canon: a chain of four directories; the last holds the sensor as a lossless JPEG."""
    file = Tiff(magic=b"II*\0\0\0\0\0CR\2\0", room=16)
    strip = {0x0103: (SHORT, 6), 0x0111: (LONG, file.blob(LOSSLESS)), 0x0117: (LONG, len(LOSSLESS))}
    fourth = file.directory(strip)
    third = file.directory({0x0103: (SHORT, 1), 0x0111: (LONG, file.blob(SENSOR))}, fourth)
    second = file.directory(_jpeg(file, small), third)
    strip = {0x0103: (SHORT, 6), 0x0111: (LONG, file.blob(large)), 0x0117: (LONG, len(large))}
    return file.close(file.directory({**strip, 0x0112: (SHORT, turn)}, second))


def arw(large: bytes, small: bytes, turn: int) -> bytes:
    """Sony: the JPEG in the first directory, the sensor in one below it."""
    file = Tiff()
    sensor = file.directory(_sensor(file, 32767))
    second = file.directory({**_jpeg(file, small), 0x0112: (SHORT, 1)})
    first = {**_jpeg(file, large), 0x0112: (SHORT, turn), 0x014A: (LONG, sensor)}
    return file.close(file.directory(first, second))


def dng(large: bytes, small: bytes, turn: int, order: str = "<") -> bytes:
    """Adobe: previews are strips compressed as JPEG, and so is the sensor, losslessly."""
    file = Tiff(order)
    places = []
    for data, meaning in ((LOSSLESS, 32803), (large, 6), (small, 6)):
        strip = {0x0111: (LONG, file.blob(data)), 0x0117: (LONG, len(data))}
        places.append(file.directory({0x0103: (SHORT, 7), 0x0106: (SHORT, meaning), **strip}))
    first = {0x0112: (SHORT, turn), 0x014A: (LONG, places), 0xC612: (BYTE, [1, 4, 0, 0])}
    return file.close(file.directory(first))


def pef(large: bytes, small: bytes, turn: int) -> bytes:
    """Pentax: the sensor first, then the thumbnail, then the JPEG."""
    file = Tiff(">")
    third = file.directory(_jpeg(file, large))
    second = file.directory(_jpeg(file, small), third)
    return file.close(file.directory({**_sensor(file, 65535), 0x0112: (SHORT, turn)}, second))


def srw(large: bytes, small: bytes, turn: int) -> bytes:
    """Samsung: JPEG and sensor in directories below the first, a thumbnail in the second."""
    file = Tiff()
    below = [file.directory(_jpeg(file, large)), file.directory(_sensor(file, 32772))]
    second = file.directory(_jpeg(file, small))
    first = {0x010F: (ASCII, b"SAMSUNG\0"), 0x0112: (SHORT, turn), 0x014A: (LONG, below)}
    return file.close(file.directory(first, second))


def orf(large: bytes, small: bytes, turn: int, head: bytes = b"OLYMPUS\0II\3\0") -> bytes:
    """Olympus: JPEGs behind the maker's note, at places that count from its beginning."""
    file = Tiff(magic=b"IIRO")
    base = file.blob(head.ljust(16 if head.startswith(b"OM") else 12, b"\0"))
    # The directory stands right behind the head, so it is written when the others are known: room
    # for two entries is left.
    at = file.blob(bytes(2 + 2 * 12 + 4))
    assert at == base + (16 if head.startswith(b"OM") else 12)
    start = file.blob(large) - base
    settings = file.directory({0x0101: (LONG, start), 0x0102: (LONG, len(large))}, base=base) - base
    thumb = file.blob(small) - base
    note = struct.pack("<HHHIIHHIII", 2, 0x100, 7, len(small), thumb, 0x2020, IFD, 1, settings, 0)
    file.data[at : at + len(note)] = note
    length = len(file.data) - base
    exif = file.blob(struct.pack("<HHHIII", 1, 0x927C, UNDEFINED, length, base, 0))
    strip = {0x0103: (SHORT, 1), 0x0111: (LONG, file.blob(SENSOR)), 0x0117: (LONG, len(SENSOR))}
    first = {0x0112: (SHORT, turn), 0x8769: (LONG, exif), **strip}
    return file.close(file.directory(first))


def rw2(large: bytes, small: bytes, turn: int) -> bytes:
    """Panasonic: a TIFF but for its magic, the JPEG in a tag of its own."""
    del small
    file = Tiff(magic=b"IIU\0", room=24)
    return file.close(
        file.directory({0x002E: (UNDEFINED, large), 0x0112: (SHORT, turn), 0x0118: (LONG, 9)})
    )


def raf(large: bytes, small: bytes, turn: int) -> bytes:
    """Fujifilm: a head of its own; the JPEG keeps the orientation itself."""
    del small
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = turn
    block = b"Exif\0\0" + exif.tobytes().removeprefix(b"Exif\0\0")
    large = large[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + large[2:]
    head = b"FUJIFILMCCD-RAW 0201FF383501X-T3".ljust(84, b"\0")
    places = struct.pack(
        ">6I", 160, len(large), 160 + len(large), 100, 260 + len(large), len(SENSOR)
    )
    return (head + places).ljust(160, b"\0") + large + bytes(100) + SENSOR


def _box(kind: bytes, *parts: bytes) -> bytes:
    data = b"".join(parts)
    return struct.pack(">I", 8 + len(data)) + kind + data


def cr3(large: bytes, small: bytes, turn: int) -> bytes:
    """Canon: boxes; the large JPEG is the first sample of a track, and lies in ``mdat``."""

    def laid(at: int) -> bytes:
        tiff = Tiff()
        about = tiff.close(tiff.directory({0x0112: (SHORT, turn)}))
        thumb = _box(b"THMB", bytes(4), struct.pack(">HHII", 160, 120, len(small), 0), small)
        name = bytes.fromhex("85c0b687820f11e08111f4ce462b6a48")
        canon = _box(b"uuid", name, _box(b"CNCV", b"CanonCR3_001"), _box(b"CMT1", about), thumb)

        def track(start: int, size: int, count: int) -> bytes:
            table = _box(
                b"stbl",
                _box(b"stsz", bytes(4), struct.pack(">II", size, count)),
                _box(b"co64", bytes(4), struct.pack(">IQ", 1, start)),
            )
            return _box(b"trak", _box(b"tkhd", bytes(84)), _box(b"mdia", _box(b"minf", table)))

        tracks = track(at, len(large), 1) + track(at + len(large), len(SENSOR), 1)
        moov = _box(b"moov", canon, _box(b"mvhd", bytes(100)), tracks)
        preview = _box(b"PRVW", bytes(6), struct.pack(">HHHI", 160, 120, 1, len(small)), small)
        name = bytes.fromhex("eaf42b5e1c984b88b9fbb7dc406e4d16")
        second = _box(b"uuid", name, struct.pack(">II", 0, 1), preview)
        head = _box(b"ftyp", b"crx \0\0\0\1crx isom") + moov + second
        size = struct.pack(">I", 1) + b"mdat" + struct.pack(">Q", 16 + len(large) + len(SENSOR))
        return head + size

    return laid(len(laid(0))) + large + SENSOR


MAKERS: dict[str, Callable[[bytes, bytes, int], bytes]] = {
    "nef": nef,
    "cr2": cr2,
    "cr3": cr3,
    "arw": arw,
    "dng": dng,
    "orf": orf,
    "rw2": rw2,
    "raf": raf,
    "pef": pef,
    "srw": srw,
}
