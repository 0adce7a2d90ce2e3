"""Keywords of an IPTC-IIM record (dataset 2:25) in JPEG and TIFF files.

In a JPEG file with such a record they are synchronized with the XMP packet, as the guidelines of
the Metadata Working Group require, because many programs read IPTC first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prototag.metadata.tag_names import key, leaf, unique

MAX_DATASETS = 20_000
MAX_KEYWORD_BYTES = 64  # limit of IIM; longer keywords are truncated
_UTF8 = b"\x1b%G"  # in dataset 1:90


KEYWORDS = (2, 25)
RECORD = 0x0404  # Photoshop image resource with the record
DIGEST = 0x0425  # resource with its MD5, by which programs detect edits of IPTC alone


class Dataset(NamedTuple):
    """One entry of a record, with its position."""

    kind: tuple[int, int]  # record and number, such as (2, 25)
    value: bytes
    start: int
    end: int


class Resource(NamedTuple):
    """A Photoshop image resource, with the position of its content."""

    kind: int
    start: int
    end: int


def keywords(data: bytes) -> list[str]:
    """Read the keywords of a record, up to a damaged dataset."""
    texts = []
    is_utf8 = False
    for kind, value, *_ in _datasets(data):
        if kind == (1, 90):
            is_utf8 = value == _UTF8
        elif kind == KEYWORDS:
            texts.append(value)
    return unique([_decode(text.rstrip(b"\0"), is_utf8) for text in texts])


def _decode(text: bytes, is_utf8: bool) -> str:
    """Decode a keyword: UTF-8 if valid, even if not declared, else Latin-1."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("utf-8", "ignore") if is_utf8 else text.decode("cp1252", "replace")


def synchronize(data: bytes, keywords: Iterable[str], stale: Iterable[str]) -> bytes:
    """Return a record with the keywords of some tags, and without stale ones.

    Existing keywords keep their bytes and order; new ones follow the last. As in ``dc:subject``,
    the keyword of a tag is its last level, truncated to 64 bytes.
    """
    datasets = list(_datasets(data))
    is_utf8 = any(one.kind == (1, 90) and one.value == _UTF8 for one in datasets)
    texts = [_decode(one.value.rstrip(b"\0"), is_utf8) for one in datasets]
    old = {key(_cut(leaf(tag))) for tag in stale}
    gone = [
        one.kind == KEYWORDS and key(text) in old for one, text in zip(datasets, texts, strict=True)
    ]
    pairs = zip(datasets, texts, gone, strict=True)
    there = {key(text) for one, text, is_gone in pairs if one.kind == KEYWORDS and not is_gone}
    new = b""
    for text in unique([_cut(leaf(tag)) for tag in keywords]):
        value = _encode(text, is_utf8=is_utf8 or _is_utf8_by_use(datasets))
        if key(text) not in there and value is not None:
            new += bytes([0x1C, *KEYWORDS]) + len(value).to_bytes(2, "big") + value
    last = max((one.end for one in datasets if one.kind <= KEYWORDS), default=0)
    result = b""
    at = 0
    for one, is_gone in zip(datasets, gone, strict=True):
        result += data[at : one.start if is_gone else one.end]
        result += new if one.end == last else b""
        at = one.end
    return (b"" if last else new) + result + data[at:]


def new_record(keywords: Iterable[str]) -> bytes:
    """Return a record in UTF-8 with the keywords of some tags."""
    empty = b"\x1c\x01\x5a\0\x03" + _UTF8 + b"\x1c\x02\0\0\x02\0\x04"
    return synchronize(empty, keywords, ())


def is_only_keywords(data: bytes) -> bool:
    """Return whether a record has nothing but keywords, its version and its encoding."""
    return all(one.kind in (KEYWORDS, (1, 0), (1, 90), (2, 0)) for one in _datasets(data))


def can_be_changed(data: bytes) -> bool:
    """Return whether a record has datasets in big-endian byte order."""
    return data[:1] == b"\x1c" and any(True for _ in _datasets(data))


def _cut(text: str) -> str:
    return text.encode()[:MAX_KEYWORD_BYTES].decode("utf-8", "ignore")


def _is_utf8_by_use(datasets: list[Dataset]) -> bool:
    """Return whether a record without a declared encoding has UTF-8 text beyond ASCII."""
    try:
        for one in datasets:
            one.value.decode()
    except UnicodeDecodeError:
        return False
    return any(max(one.value, default=0) > 0x7F for one in datasets if one.kind[0] == 2)


def _encode(text: str, *, is_utf8: bool) -> bytes | None:
    """Encode a keyword; None if the encoding of the record lacks its characters.

    Without a declared encoding readers such as exiftool assume Latin-1.
    """
    try:
        return text.encode("utf-8" if is_utf8 else "cp1252")
    except UnicodeEncodeError:
        return None


def _datasets(data: bytes) -> Iterator[Dataset]:
    if data[:1] != b"\x1c" and data[3:4] == b"\x1c":  # byte-swapped 32-bit words
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
        kind = data[at + 1], data[at + 2]
        yield Dataset(kind, data[start : start + size], at, start + size)
        at = start + size


def record_in_resources(data: bytes) -> bytes:
    """Return the record in Photoshop image resources (8BIM 0x0404), empty if there is none."""
    return b"".join(data[one.start : one.end] for one in resources(data) if one.kind == RECORD)


def resources(data: bytes) -> Iterator[Resource]:
    """Yield Photoshop image resources, up to a damaged one."""
    at = 0
    while data[at : at + 4] == b"8BIM" and at + 12 <= len(data):
        kind = int.from_bytes(data[at + 4 : at + 6], "big")
        start = at + 7 + data[at + 6]
        start += start - at & 1  # the name is padded to an even length
        size = int.from_bytes(data[start : start + 4], "big")
        yield Resource(kind, start + 4, start + 4 + size)
        at = start + 4 + size + (size & 1)
