"""Reader of keywords in picture files: XMP packets and IPTC records. No pixel is decoded.

The format is detected by the first bytes of a file. Its structure is parsed with seeks, so only
metadata is in memory, and its size is limited.
"""

from __future__ import annotations

import io
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import BinaryIO

from prototag.errors import MetadataError
from prototag.metadata import iptc
from prototag.metadata.tag_names import key, leaf, union, unique
from prototag.metadata.xmp.packet import Keywords, Packet
from prototag.metadata.xmp.xml_tree import MAX_BYTES
from prototag.storage.sqlite_lock_guard import close_descriptor, open_descriptor

MAX_PARTS = 200_000  # segments or chunks; a large PNG has tens of thousands
MAX_PACKETS = 8
MAX_HEIF_BYTES = 1 << 28  # of an AVIF or HEIC file, whose decoder needs it in memory

_FAR = 1 << 40  # beyond the end of every file; seeking to 2**63 fails
_BINARY = getattr(os, "O_BINARY", 0)
XMP = b"http://ns.adobe.com/xap/1.0/\0"
_EXTENDED = b"http://ns.adobe.com/xmp/extension/\0"
PHOTOSHOP = b"Photoshop 3.0\0"
_TIFF = {b"II*\0": "little", b"MM\0*": "big", b"II+\0": "little", b"MM\0+": "big"}
_TIFF_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 6: 1, 7: 1, 9: 4, 13: 4, 16: 8, 17: 8, 18: 8}


@dataclass
class EmbeddedMetadata:
    """Unparsed metadata: XMP packets, IPTC records, Photoshop resources."""

    packets: list[bytes] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)
    resources: list[bytes] = field(default_factory=list)


def read(path: str | os.PathLike[str]) -> tuple[Keywords, list[str]]:
    """Read the keywords in a picture, and problems of its metadata.

    Raises
    ------
    MetadataError
        If the file cannot be opened or is not a regular file. A picture of an unknown format, or a
        damaged one, has no keywords instead.
    """
    return keywords(read_metadata(path))


def read_metadata(path: str | os.PathLike[str]) -> EmbeddedMetadata:
    """Read the unparsed metadata in a picture; raises as :func:`read` does."""
    try:
        handle = open_descriptor(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise MetadataError("is not a regular file")
            with open(handle, "rb", closefd=False) as file:
                return _parts(file, status.st_size)
        finally:
            close_descriptor(handle)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MetadataError(f"{os.fspath(path)}: cannot be read: {reason}") from None


def keywords(parts: EmbeddedMetadata) -> tuple[Keywords, list[str]]:
    """Combine the keywords of all packets and records; IPTC adds to XMP."""
    packets = []
    problems = []
    for packet in parts.packets:
        try:
            packets.append(Packet(packet).keywords())
        except MetadataError as error:
            problems.append(f"the XMP inside {error}")
    records = [*parts.records, *map(iptc.record_in_resources, parts.resources)]
    known = {leaf(tag) for one in packets for tag in (*one.tags, *one.added, *one.rejected)}
    # Tags that we also wrote into IPTC, and tags that a person removed in XMP alone.
    ours = {key(leaf(tag)) for one in packets for tag in (*one.added, *one.rejected)}
    flat = [
        tag
        for record in records
        for tag in iptc.keywords(record)
        if key(tag) not in ours and not _is_cut(tag, known)
    ]
    tags = union([*(list(one.tags) for one in packets), flat])
    added = unique([tag for one in packets for tag in one.added])
    rejected = unique([tag for one in packets for tag in one.rejected])
    touched = any(one.touched for one in packets)
    return Keywords(tuple(tags), tuple(added), tuple(rejected), touched=touched), problems


def _is_cut(tag: str, known: set[str]) -> bool:
    """Return whether an IPTC keyword is a truncated keyword of XMP."""
    size = len(tag.encode())
    return size >= iptc.MAX_KEYWORD_BYTES - 3 and any(
        other.startswith(tag) and other != tag for other in known
    )


def _parts(file: BinaryIO, size: int) -> EmbeddedMetadata:
    head = file.read(16)
    parts = EmbeddedMetadata()
    if head[:3] == b"\xff\xd8\xff":
        _jpeg(file, parts)
    elif head[:8] == b"\x89PNG\r\n\x1a\n":
        _png(file, parts)
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        _webp(file, size, parts)
    elif head[:4] in _TIFF:
        _tiff(file, head, parts)
    elif head[4:8] == b"ftyp":
        _boxes(file, size, parts)
    return parts


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    """Read exactly this many bytes; empty if the file is shorter or the limit is exceeded."""
    data = file.read(size) if size <= MAX_BYTES else b""
    return data if len(data) == size else b""


def _jpeg(file: BinaryIO, parts: EmbeddedMetadata) -> None:
    file.seek(2)
    extended: dict[bytes, dict[int, bytes]] = {}
    photoshop: list[bytes] = []
    total = 0
    for kind, data in _segments(file):
        total += len(data)
        if total > MAX_BYTES:
            break
        if kind == 0xE1 and data.startswith(XMP):
            parts.packets.append(data[len(XMP) :])
        elif kind == 0xE1 and data.startswith(_EXTENDED):
            rest = data[len(_EXTENDED) :]
            offset = int.from_bytes(rest[36:40], "big")
            extended.setdefault(rest[:32], {})[offset] = rest[40:]
        elif kind == 0xED and data.startswith(PHOTOSHOP):
            photoshop.append(data[len(PHOTOSHOP) :])
    for guid, pieces in extended.items():
        # The packet names its extension; others are remains of earlier edits.
        if any(guid in packet for packet in parts.packets) and _is_whole(pieces):
            parts.packets.append(b"".join(pieces[offset] for offset in sorted(pieces)))
    parts.resources += [b"".join(photoshop)] if photoshop else []


def _is_whole(pieces: dict[int, bytes]) -> bool:
    at = 0
    for offset in sorted(pieces):
        if offset != at:
            return False
        at += len(pieces[offset])
    return True


def _segments(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the APP1 and APP13 segments before the first scan."""
    for _ in range(MAX_PARTS):
        marker = file.read(2)
        while marker == b"\xff\xff":  # fill bytes
            marker = b"\xff" + file.read(1)
        if len(marker) < 2 or marker[0] != 0xFF or marker[1] in (0xD9, 0xDA):
            return
        if marker[1] == 0x01 or 0xD0 <= marker[1] <= 0xD7:
            continue
        size = int.from_bytes(file.read(2), "big") - 2
        if size < 0:
            return
        if marker[1] in (0xE1, 0xED):
            yield marker[1], _read_exactly(file, size)
        else:
            file.seek(size, os.SEEK_CUR)


def _png(file: BinaryIO, parts: EmbeddedMetadata) -> None:
    file.seek(8)
    tried = 0
    for _ in range(MAX_PARTS):
        head = file.read(8)
        if len(head) < 8 or head[4:] == b"IEND" or tried >= MAX_PACKETS:
            return
        size = int.from_bytes(head[:4], "big")
        if head[4:] == b"iTXt" and size <= MAX_BYTES:
            data = _read_exactly(file, size)
            if data.startswith(b"XML:com.adobe.xmp\0"):
                tried += 1
                parts.packets += _international_text(data[18:])
            file.seek(4, os.SEEK_CUR)
        else:
            file.seek(size + 4, os.SEEK_CUR)


def _international_text(data: bytes) -> list[bytes]:
    """Parse an iTXt chunk after its keyword: flag, method, language, translation, text."""
    pieces = data[2:].split(b"\0", 2)
    if len(pieces) < 3:
        return []
    if data[:1] != b"\1":
        return [pieces[2]]
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(pieces[2], MAX_BYTES)
    except zlib.error:
        return []
    return [text] if inflate.eof else []


def _webp(file: BinaryIO, size: int, parts: EmbeddedMetadata) -> None:
    file.seek(12)
    for _ in range(MAX_PARTS):
        head = file.read(8)
        if len(head) < 8 or file.tell() > size:
            return
        length = int.from_bytes(head[4:], "little")
        if head[:4] == b"XMP ":
            parts.packets.append(_read_exactly(file, length))
            return
        file.seek(length + (length & 1), os.SEEK_CUR)


def _tiff(file: BinaryIO, head: bytes, parts: EmbeddedMetadata) -> None:
    """Read tags 700 (XMP), 33723 (IPTC) and 34377 (Photoshop) of the first directory."""
    order = _TIFF[head[:4]]
    is_big = b"+" in head[:4]
    wide, entry = (8, 20) if is_big else (4, 12)

    def number(data: bytes) -> int:
        return int.from_bytes(data, "little" if order == "little" else "big")

    file.seek(min(number(head[8:16] if is_big else head[4:8]), _FAR))
    count = number(file.read(8 if is_big else 2))
    if count > 65535:
        return
    directory = _read_exactly(file, count * entry)
    targets = {700: parts.packets, 33723: parts.records, 34377: parts.resources}
    for at in range(0, len(directory), entry):
        field_ = directory[at : at + entry]
        target = targets.pop(number(field_[:2]), None)  # the first of each
        if target is None:
            continue
        size = number(field_[4 : 4 + wide]) * _TIFF_SIZES.get(number(field_[2:4]), 0)
        value = field_[4 + wide :]
        if size > len(value):
            file.seek(min(number(value), _FAR))
            value = _read_exactly(file, size)
        target.append(value[:size])


def _boxes(file: BinaryIO, size: int, parts: EmbeddedMetadata) -> None:
    """Read AVIF and HEIC by their decoders, which parse metadata without decoding pixels."""
    if size > MAX_HEIF_BYTES:
        return
    file.seek(0)
    data = file.read()
    is_avif = b"avi" in data[8 : min(64, int.from_bytes(data[:4], "big"))]
    module, name = (
        ("PIL.AvifImagePlugin", "AvifImageFile") if is_avif else ("pillow_heif", "HeifImageFile")
    )
    try:
        packet = getattr(import_module(module), name)(io.BytesIO(data)).info.get("xmp")
    except Exception:  # not installed, or whatever a damaged file makes a reader raise
        return
    if isinstance(packet, bytes) and packet.strip(b"\0"):
        parts.packets.append(packet)
