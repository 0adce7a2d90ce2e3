"""Keywords in an IPTC-IIM record (dataset 2:25), as JPEG and TIFF files carry them."""

from __future__ import annotations

from collections.abc import Iterator

from prototag.metadata.tags import unique

MAX_DATASETS = 20_000
MAX_KEYWORD_BYTES = 64  # IIM allows no more; writers cut longer ones
_UTF8 = b"\x1b%G"  # in dataset 1:90


def keywords(data: bytes) -> list[str]:
    """Keywords of a record; what follows a damaged dataset is not read."""
    texts, is_utf8 = [], False
    for record, number, value in _datasets(data):
        if (record, number) == (1, 90):
            is_utf8 = value == _UTF8
        elif (record, number) == (2, 25):
            texts.append(value)
    return unique([_decode(text.rstrip(b"\0"), is_utf8) for text in texts])


def _decode(text: bytes, is_utf8: bool) -> str:
    """Without a declared set many writers use UTF-8 all the same; what is not is Latin-1."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("utf-8", "ignore") if is_utf8 else text.decode("cp1252", "replace")


def _datasets(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    if data[:1] != b"\x1c" and data[3:4] == b"\x1c":  # written as 32-bit numbers of the other order
        data = b"".join(data[i : i + 4][::-1] for i in range(0, len(data), 4))
    at = 0
    for _ in range(MAX_DATASETS):
        if data[at : at + 1] != b"\x1c" or at + 5 > len(data):
            return
        size = int.from_bytes(data[at + 3 : at + 5], "big")
        start = at + 5
        if size & 0x8000:  # the length of the length
            wide = size & 0x7FFF
            if wide > 4:
                return
            size = int.from_bytes(data[start : start + wide], "big")
            start += wide
        if start + size > len(data):
            return
        yield data[at + 1], data[at + 2], data[start : start + size]
        at = start + size


def in_photoshop(data: bytes) -> bytes:
    """The record inside Photoshop's image resources (8BIM 0x0404); empty if there is none."""
    at, found = 0, b""
    while data[at : at + 4] == b"8BIM" and at + 12 <= len(data):
        kind = int.from_bytes(data[at + 4 : at + 6], "big")
        start = at + 7 + data[at + 6]
        start += start - at & 1  # the name is padded to an even length
        size = int.from_bytes(data[start : start + 4], "big")
        if kind == 0x0404:
            found += data[start + 4 : start + 4 + size]
        at = start + 4 + size + (size & 1)
    return found
