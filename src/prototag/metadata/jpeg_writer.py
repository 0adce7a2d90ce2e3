"""Tags inside JPEG files, where Lightroom and most other programs read them.

Only what was asked for explicitly comes here: everything else of this package opens pictures for
reading alone. The XMP segment of a file is exchanged, or added behind the EXIF data. Where the file
has an IPTC record, our tags are kept in step there, too, as the Metadata Working Group asks of
programs that change a file: many read IPTC first. A record is never begun, and a person's keywords
in it keep their bytes. Every other byte stays. The new file is written beside the old one and read
back: only if its pixels are those of the old one, bit for bit, it takes its place.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from prototag.errors import ImageError, MetadataError
from prototag.metadata import embedded_reader, iptc, sidecar
from prototag.metadata.sidecar import Change, PathLike
from prototag.metadata.tag_names import clean, key, leaf, unique
from prototag.metadata.xmp.packet import OURS, Keywords, Packet
from prototag.metadata.xmp.packet_editor import Merged, merge, strip
from prototag.storage.atomic_write import write_beside
from prototag.storage.sqlite_lock_guard import open_for_reading

ORIGINAL = "_original"  # behind the name of a picture that is kept, as exiftool has it
_START = b"\xff\xd8\xff"
_EXIF = b"Exif\0\0"
_MAX_SEGMENT = 65_533  # bytes behind the length of a segment
_MAX_SEGMENTS = 10_000
_DIGEST_BYTES = 16  # an MD5


class Record(NamedTuple):
    """Where the IPTC record of a JPEG lies: in a resource of the Photoshop segment."""

    start: int  # of the segment
    end: int
    first: int  # byte of the record
    last: int  # and the one behind it
    digest: int | None  # where the MD5 of the record begins
    reason: str = ""  # why it cannot be changed; empty if it can

    def content(self, data: bytes) -> bytes:
        return data[self.first : self.last]


@dataclass(frozen=True)
class InsideChange(Change):
    """What would happen to one JPEG file; ``old`` and ``new`` are its XMP packets."""

    old_record: bytes | None = None  # of IPTC; None where the file has none that can be changed
    new_record: bytes | None = None

    def __bool__(self) -> bool:
        return self.old != self.new or self.old_record != self.new_record

    def diff(self) -> str:
        """The change of the packet as a unified diff, and of IPTC's keywords by name."""
        old, new = (
            {key(name): name for name in iptc.keywords(record or b"")}
            for record in (self.old_record, self.new_record)
        )
        lines = [f"-IPTC keyword {old[name]}\n" for name in old if name not in new]
        lines += [f"+IPTC keyword {new[name]}\n" for name in new if name not in old]
        head = (
            [f"--- {self.path}\n", f"+++ {self.path}\n"] if lines and self.old == self.new else []
        )
        return super().diff() + "".join([*head, *lines])


class Place(NamedTuple):
    """Where the XMP segment of a JPEG is, or would be."""

    start: int
    end: int  # the same where there is none
    pixels: int  # where the first scan begins
    packet: bytes | None


def is_jpeg(image: PathLike) -> bool:
    """Whether a file begins as a JPEG does."""
    with suppress(OSError), open_for_reading(image) as file:
        return file.read(len(_START)) == _START
    return False


def has_ours(image: PathLike) -> bool:
    """Whether the metadata inside a picture names ProtoTag's marks; only that is read."""
    return any(OURS.encode() in packet for packet in embedded_reader.parts_of(image).packets)


def plan_embed(image: PathLike, tags: Iterable[str], *, replace: bool = True) -> Change:
    """What writing these tags into a JPEG file would change; :func:`prototag.metadata.plan` says
    the same of a sidecar.

    Raises
    ------
    MetadataError
        The file cannot be read, is no JPEG, or its metadata cannot be changed without harm.
    """
    path = Path(image)
    given = [*tags]
    keywords, problems = embedded_reader.read(path)
    notes = [f"{path}: {problem}" for problem in problems]
    notes += [
        f"{path}: the tag {tag!r} has no characters to write" for tag in given if not clean(tag)
    ]
    wanted = unique(given)

    def again(packet: bytes | None) -> Merged:
        return merge(packet, wanted, inside=keywords.tags, replace=replace)

    return _prepared(path, again, notes)


def plan_unembed(
    image: PathLike, *, tags: Iterable[str] | None = None, keep: bool = False
) -> Change:
    """What taking back ProtoTag's tags inside a JPEG file would change."""
    wanted = None if tags is None else [*tags]

    def again(packet: bytes | None) -> Merged:
        return Merged(None, [], []) if packet is None else strip(packet, wanted, keep=keep)

    return _prepared(Path(image), again, [])


def _prepared(path: Path, again: Callable[[bytes | None], Merged], notes: list[str]) -> Change:
    data = _read(path)
    packet = find(data, path).packet
    record = find_record(data)
    with sidecar.named(path):
        merged = again(packet)
        old = new = None if record is None or record.reason else record.content(data)
        if old is not None:
            new = _in_step(old, packet, merged.data)
    if record is not None and record.reason and merged.data != packet:
        notes = [*notes, f"{path}: its IPTC keywords stay as they are, for {record.reason}"]
    added = tuple(merged.added)
    removed = tuple(merged.removed)
    told = tuple(dict.fromkeys(notes))
    return InsideChange(path, path, packet, merged.data, added, removed, told, again, old, new)


def _in_step(record: bytes, old: bytes | None, new: bytes | None) -> bytes:
    """The record as a new packet has it, with a person's keywords as they are."""
    before, after = (Keywords() if p is None else Packet(p).keywords() for p in (old, new))
    persons = {
        key(leaf(tag))
        for one in (before, after)
        for tag in (*one.tags, *one.copied, *(after.added if one is after else ()))
    }
    ours = (*before.added, *before.rejected, *after.rejected)
    return iptc.synced(record, after.added, [t for t in ours if key(leaf(t)) not in persons])


def apply_inside(change: Change, *, keep_original: bool = False) -> Change:
    """Make a change inside a picture; what was made is returned.

    Parameters
    ----------
    change : Change
        Of :func:`plan_embed` or :func:`plan_unembed`.
    keep_original : bool
        Leave the old file beside the new one, as ``photo.jpg_original``; one that is there stays.

    Raises
    ------
    MetadataError
        The picture cannot be written, or changes all the time: nothing was changed.
    """
    path = Path(os.path.realpath(change.path))
    change = sidecar.told_of_links(change, path)
    for _ in range(sidecar.TRIES):
        if not change:
            return change
        data = _read(path)
        record = find_record(data)
        content = None if record is None or record.reason else record.content(data)
        old, wanted = (
            (change.old_record, change.new_record)
            if isinstance(change, InsideChange)
            else (None, None)
        )
        is_other = find(data, path).packet != change.old or content != old
        if is_other and change.again is not None:
            change = _prepared(path, change.again, [*change.notes])
            continue
        new = _exchanged(_with_record(data, record, wanted, path), change.new, path)
        try:
            if _put(path, data, new, keep_original):
                return change
        except OSError as error:
            reason = error.strerror or error
            raise MetadataError(
                f"{path} cannot be written: {reason}. Nothing was changed."
            ) from None
    raise MetadataError(f"{path} changes faster than it can be written: close what edits it.")


def _read(path: Path) -> bytes:
    from prototag.images.decode import read_bytes  # which loads NumPy

    try:
        return read_bytes(path)
    except ImageError as error:
        raise MetadataError(f"{path} {error}") from None


def find(data: bytes, path: Path) -> Place:
    """The XMP segment of a JPEG file.

    Raises
    ------
    MetadataError
        It is no JPEG, or not one whose parts are told apart without doubt.
    """
    if not data.startswith(_START):
        raise MetadataError(f"{path} is no JPEG file: only they can hold tags. Use a sidecar.")
    at = 2
    behind = 2
    found = None
    is_indexed = False  # whether a list of further pictures, by their distance, was passed
    for _ in range(_MAX_SEGMENTS):
        marker = data[at : at + 2]
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        if len(marker) < 2 or marker[0] != 0xFF or marker[1] < 0xC0 or 0xD0 <= marker[1] <= 0xD9:
            break
        if marker == b"\xff\xff":  # a fill byte
            at += 1
            continue
        if marker == b"\xff\xda":
            place = Place(behind, behind, at, None) if found is None else found
            return place._replace(pixels=at)
        end = at + 2 + size
        head = data[at + 4 : at + 4 + len(embedded_reader.XMP)]
        if size < 2 or end > len(data):
            break
        is_indexed |= marker == b"\xff\xe2" and head.startswith(b"MPF\0")
        if marker == b"\xff\xe1" and head == embedded_reader.XMP and found is None:
            if is_indexed:
                raise MetadataError(
                    f"{path} holds several pictures, which a longer text before them would move: "
                    "use a sidecar."
                )
            found = Place(at, end, 0, data[at + 4 + len(embedded_reader.XMP) : end])
        if marker == b"\xff\xe0" or (marker == b"\xff\xe1" and head.startswith(_EXIF)):
            behind = end if not is_indexed else behind
        at = end
    raise MetadataError(f"{path} is damaged, or no usual JPEG file: use a sidecar.")


def _exchanged(data: bytes, packet: bytes | None, path: Path) -> bytes:
    """The file with another packet, or with none."""
    place = find(data, path)
    if packet is None:
        return data[: place.start] + data[place.end :]
    content = embedded_reader.XMP + packet
    if len(content) > _MAX_SEGMENT:
        raise MetadataError(
            f"{path} has no room for {len(content):,} bytes of XMP; {_MAX_SEGMENT:,} is the limit: "
            "use a sidecar."
        )
    segment = b"\xff\xe1" + (len(content) + 2).to_bytes(2, "big") + content
    return data[: place.start] + segment + data[place.end :]


def find_record(data: bytes) -> Record | None:
    """The IPTC record of a JPEG file; None where there is none."""
    found: list[Record] = []
    is_indexed = False
    at = 2
    for _ in range(_MAX_SEGMENTS):
        marker = data[at : at + 2]
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == b"\xff\xff":  # a fill byte
            at += 1
            continue
        end = at + 2 + size
        is_segment = len(marker) == 2 and marker[0] == 0xFF and marker[1] >= 0xC0
        if not is_segment or marker == b"\xff\xda" or size < 2 or end > len(data):
            break
        is_indexed |= marker == b"\xff\xe2" and data[at + 4 : at + 8] == b"MPF\0"
        inside = at + 4 + len(embedded_reader.PHOTOSHOP)
        if marker == b"\xff\xed" and data[at + 4 : inside] == embedded_reader.PHOTOSHOP:
            found += _records(data, at, inside, end, is_indexed)
        at = end
    if len(found) > 1:
        return found[0]._replace(reason="there are several records")
    return found[0] if found else None


def _records(data: bytes, at: int, inside: int, end: int, is_indexed: bool) -> list[Record]:
    """The records of one Photoshop segment."""
    resources = list(iptc.resources(data[inside:end]))
    digests = [
        inside + one.start
        for one in resources
        if one.kind == iptc.DIGEST and one.end - one.start == _DIGEST_BYTES
    ]
    found = []
    for one in resources:
        if one.kind != iptc.RECORD:
            continue
        content = data[inside + one.start : inside + one.end]
        reason = ""
        if inside + one.end > end or not iptc.can_be_changed(content):
            reason = "the record is damaged or unusual"
        elif is_indexed:
            reason = "the file holds several pictures, which a longer record would move"
        digest = digests[0] if len(digests) == 1 else None
        found.append(Record(at, end, inside + one.start, inside + one.end, digest, reason))
    return found


def _with_record(data: bytes, place: Record | None, record: bytes | None, path: Path) -> bytes:
    """The file with another IPTC record in the place of the one that it has."""
    if place is None or place.reason or record is None or record == place.content(data):
        return data
    old = place.content(data)
    segment = bytearray(data[place.start : place.end])
    if place.digest is not None:
        at = place.digest - place.start
        # One that does not fit says that IPTC alone was edited, and goes on saying so.
        if segment[at : at + _DIGEST_BYTES] == _md5(old):
            segment[at : at + _DIGEST_BYTES] = _md5(record)
    first = place.first - place.start
    last = place.last - place.start
    behind = min(last + (len(old) & 1), len(segment))  # a resource is padded to an even length
    padded = record + b"\0" * (len(record) & 1)
    segment[first - 4 : behind] = len(record).to_bytes(4, "big") + padded
    if len(segment) - 4 > _MAX_SEGMENT:
        raise MetadataError(f"{path} has no room for more IPTC keywords: use a sidecar.")
    segment[2:4] = (len(segment) - 2).to_bytes(2, "big")
    return data[: place.start] + bytes(segment) + data[place.end :]


def _md5(record: bytes) -> bytes:
    return hashlib.md5(record, usedforsecurity=False).digest()


def _put(path: Path, old: bytes, new: bytes, keep_original: bool) -> bool:
    """Exchange a picture for one that shows the same; False if it is no longer the old one."""
    sidecar.check_writable(path)
    temporary = write_beside(path, new)
    try:
        _check(path, old, temporary)
        with sidecar.locked(path.parent):
            if _read(path) != old:
                return False
            sidecar.make_alike(temporary, path)
            if keep_original:
                _keep(path)
            os.replace(temporary, path)
            return True
    finally:
        temporary.unlink(missing_ok=True)


def _check(path: Path, old: bytes, temporary: Path) -> None:
    """Whether what reached the disk shows the same picture, and says the same but for its XMP."""
    from prototag.images.decode import digest

    new = temporary.read_bytes()
    was = find(old, path)
    now = find(new, path)
    same = (
        old[was.pixels :] == new[now.pixels :]
        and _rest(old, path) == _rest(new, path)
        and digest(old) == digest(new)
    )
    if not same:
        raise MetadataError(f"{path} would show another picture: nothing was changed.")


def _rest(data: bytes, path: Path) -> list[bytes]:
    """All before the pixels but the XMP segment, and of an IPTC record all but keywords."""
    place = find(data, path)
    record = find_record(data)
    if record is not None and not record.reason:
        others = iptc.synced(record.content(data), (), iptc.keywords(record.content(data)))
        if record.digest is not None:
            at = record.digest
            data = data[:at] + bytes(_DIGEST_BYTES) + data[at + _DIGEST_BYTES :]
        data = _with_record(data, record, others, path)
        place = find(data, path)
    return [data[: place.start], data[place.end : place.pixels]]


def _keep(path: Path) -> None:
    """Keep the old file under another name, before the new one takes its own."""
    kept = path.with_name(path.name + ORIGINAL)
    if kept.exists():
        return
    try:
        os.link(path, kept)
    except OSError:  # a disk without links
        with open_for_reading(path) as source, kept.open("xb") as copy:
            shutil.copyfileobj(source, copy)
        shutil.copystat(path, kept)
