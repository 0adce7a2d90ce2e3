"""Keywords in an IPTC-IIM record (dataset 2:25), as JPEG and TIFF files carry them.

They are read, and in a JPEG file that has such a record kept in step with what is written into its
XMP, as the guidelines of the Metadata Working Group ask: many programs read IPTC first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prototag.metadata.tag_names import key, leaf, unique

MAX_DATASETS = 20_000
MAX_KEYWORD_BYTES = 64  # IIM allows no more; writers cut longer ones
_UTF8 = b"\x1b%G"  # in dataset 1:90


KEYWORDS = (2, 25)
RECORD = 0x0404  # Photoshop's image resource that holds the record
DIGEST = 0x0425  # the one that holds its MD5, by which programs see that IPTC alone was edited


class Dataset(NamedTuple):
    """One entry of a record, and where it lies."""

    kind: tuple[int, int]  # record and number, such as (2, 25)
    value: bytes
    start: int
    end: int


class Resource(NamedTuple):
    """One of Photoshop's image resources, and where its content lies."""

    kind: int
    start: int
    end: int


def keywords(data: bytes) -> list[str]:
    """Keywords of a record; what follows a damaged dataset is not read."""
    texts = []
    is_utf8 = False
    for kind, value, *_ in _datasets(data):
        if kind == (1, 90):
            is_utf8 = value == _UTF8
        elif kind == KEYWORDS:
            texts.append(value)
    return unique([_decode(text.rstrip(b"\0"), is_utf8) for text in texts])


def _decode(text: bytes, is_utf8: bool) -> str:
    """Without a declared set many writers use UTF-8 all the same; what is not is Latin-1."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("utf-8", "ignore") if is_utf8 else text.decode("cp1252", "replace")


def synced(data: bytes, wanted: Iterable[str], stale: Iterable[str]) -> bytes:
    """Return a record with the keywords of these tags, and without those that are stale.

    What is there keeps its bytes and its order; new keywords follow the last one. As in
    ``dc:subject``, the keyword of a tag is its last level, which IPTC cuts at 64 bytes.
    """
    found = list(_datasets(data))
    is_utf8 = any(one.kind == (1, 90) and one.value == _UTF8 for one in found)
    texts = [_decode(one.value.rstrip(b"\0"), is_utf8) for one in found]
    old = {key(_cut(leaf(tag))) for tag in stale}
    gone = [
        one.kind == KEYWORDS and key(text) in old for one, text in zip(found, texts, strict=True)
    ]
    pairs = zip(found, texts, gone, strict=True)
    there = {key(text) for one, text, is_gone in pairs if one.kind == KEYWORDS and not is_gone}
    new = b""
    for text in unique([_cut(leaf(tag)) for tag in wanted]):
        value = _encoded(text, is_utf8=is_utf8 or _is_utf8_by_use(found))
        if key(text) not in there and value is not None:
            new += bytes([0x1C, *KEYWORDS]) + len(value).to_bytes(2, "big") + value
    last = max((one.end for one in found if one.kind <= KEYWORDS), default=0)
    result = b""
    at = 0
    for one, is_gone in zip(found, gone, strict=True):
        result += data[at : one.start if is_gone else one.end]
        result += new if one.end == last else b""
        at = one.end
    return (b"" if last else new) + result + data[at:]


def can_be_changed(data: bytes) -> bool:
    """Whether a record has datasets in the usual order of bytes."""
    return data[:1] == b"\x1c" and any(True for _ in _datasets(data))


def _cut(text: str) -> str:
    return text.encode()[:MAX_KEYWORD_BYTES].decode("utf-8", "ignore")


def _is_utf8_by_use(found: list[Dataset]) -> bool:
    """Whether texts of a record without a declared set are UTF-8, or plain ASCII."""
    try:
        for one in found:
            one.value.decode()
    except UnicodeDecodeError:
        return False
    return any(max(one.value, default=0) > 0x7F for one in found if one.kind[0] == 2)


def _encoded(text: str, *, is_utf8: bool) -> bytes | None:
    """The bytes of a keyword; None where the set of the record lacks its characters.

    Without a declared set readers take Latin-1, exiftool among them.
    """
    try:
        return text.encode("utf-8" if is_utf8 else "cp1252")
    except UnicodeEncodeError:
        return None


def _datasets(data: bytes) -> Iterator[Dataset]:
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
        kind = data[at + 1], data[at + 2]
        yield Dataset(kind, data[start : start + size], at, start + size)
        at = start + size


def in_photoshop(data: bytes) -> bytes:
    """The record inside Photoshop's image resources (8BIM 0x0404); empty if there is none."""
    return b"".join(data[one.start : one.end] for one in resources(data) if one.kind == RECORD)


def resources(data: bytes) -> Iterator[Resource]:
    """Photoshop's image resources, until one is damaged."""
    at = 0
    while data[at : at + 4] == b"8BIM" and at + 12 <= len(data):
        kind = int.from_bytes(data[at + 4 : at + 6], "big")
        start = at + 7 + data[at + 6]
        start += start - at & 1  # the name is padded to an even length
        size = int.from_bytes(data[start : start + 4], "big")
        yield Resource(kind, start + 4, start + 4 + size)
        at = start + 4 + size + (size & 1)
