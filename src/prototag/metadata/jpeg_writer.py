"""Writer of tags inside JPEG files, used only on explicit request.

The XMP segment of the file is replaced, or inserted after the EXIF data. If the file has an IPTC
record, it is synchronized, as the Metadata Working Group requires, because many programs read IPTC
first; a record is created only on request, and the person's keywords in it keep their bytes. All
other bytes stay. The new file is written beside the old one and read back: it replaces the old one
only if its pixels are bit-identical.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from prototag.errors import ImageError, MetadataError
from prototag.metadata import embedded_reader, iptc, sidecar
from prototag.metadata.sidecar import Change, PathLike
from prototag.metadata.tag_names import clean, key, leaf, unique
from prototag.metadata.xmp.packet import NAMESPACE, Keywords, Packet
from prototag.metadata.xmp.packet_editor import Merged, merge, strip
from prototag.storage.atomic_write import write_beside
from prototag.storage.sqlite_lock_guard import open_for_reading

ORIGINAL_SUFFIX = "_original"  # appended to the name of the original, as in exiftool
_JPEG_START = b"\xff\xd8\xff"
_EXIF = b"Exif\0\0"
_MAX_SEGMENT_BYTES = 65_533  # without marker and length
_MAX_SEGMENTS = 10_000
_DIGEST_BYTES = 16  # an MD5
# Returns the new record of an old one, and of the packets before and after.
Synchronize = Callable[[bytes | None, bytes | None, bytes | None], bytes | None]


class IptcRecord(NamedTuple):
    """Position of the IPTC record of a JPEG, in a resource of the Photoshop segment."""

    start: int  # of the segment
    end: int
    first: int  # start of the record
    last: int  # end of the record, exclusive
    digest: int | None  # start of the MD5 of the record
    reason: str = ""  # why it cannot be changed; empty if it can

    def content(self, data: bytes) -> bytes:
        return data[self.first : self.last]


@dataclass(frozen=True)
class InsideChange(Change):
    """Planned change of one JPEG file; ``old`` and ``new`` are its XMP packets."""

    old_record: bytes | None = None  # IPTC record; None if the file has none that can be changed
    new_record: bytes | None = None
    synchronize: Synchronize | None = field(default=None, repr=False, compare=False)
    before: bytes | None = field(default=None, repr=False, compare=False)  # file, once written
    after: bytes | None = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.old != self.new or self.old_record != self.new_record

    @property
    def contents(self) -> tuple[bytes | None, bytes | None]:
        return self.before, self.after

    def diff(self) -> str:
        """Return a unified diff of the packet, and the changed IPTC keywords."""
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


class XmpSegment(NamedTuple):
    """Position of the XMP segment of a JPEG, or where to insert it."""

    start: int
    end: int  # equal to start if there is none
    pixels: int  # start of the first scan
    packet: bytes | None


def is_jpeg(image: PathLike) -> bool:
    """Return whether a file has the signature of a JPEG."""
    with suppress(OSError), open_for_reading(image) as file:
        return file.read(len(_JPEG_START)) == _JPEG_START
    return False


def has_added_tags(image: PathLike) -> bool:
    """Return whether the metadata in a picture has ProtoTag's marks."""
    return any(
        NAMESPACE.encode() in packet for packet in embedded_reader.read_metadata(image).packets
    )


def plan_embed(image: PathLike, tags: Iterable[str], *, replace: bool = True) -> Change:
    """Plan to write tags into a JPEG file, as :func:`prototag.metadata.plan` does for a sidecar.

    Raises
    ------
    MetadataError
        If the file cannot be read, is not a JPEG, or its metadata cannot be changed safely.
    """
    path = Path(image)
    given = [*tags]
    keywords, problems = embedded_reader.read(path)
    notes = [f"{path}: {problem}" for problem in problems]
    notes += [
        f"{path}: the tag {tag!r} has no characters to write" for tag in given if not clean(tag)
    ]
    unique_tags = unique(given)

    def replan(packet: bytes | None) -> Merged:
        return merge(packet, unique_tags, inside=keywords.tags, replace=replace)

    return plan_inside(path, replan, notes, synchronized_record)


def plan_unembed(
    image: PathLike, *, tags: Iterable[str] | None = None, keep: bool = False
) -> Change:
    """Plan to remove ProtoTag's tags from a JPEG file."""
    names = None if tags is None else [*tags]

    def replan(packet: bytes | None) -> Merged:
        return Merged(None, [], []) if packet is None else strip(packet, names, keep=keep)

    return plan_inside(Path(image), replan, [], synchronized_record)


def plan_inside(
    path: Path,
    replan: Callable[[bytes | None], Merged],
    notes: list[str],
    synchronize: Synchronize,
) -> InsideChange:
    """Plan to change the packet of a JPEG file, and its IPTC record with it.

    ``synchronize`` returns the new record of an old one (None if there is none), and the packets
    before and after.
    """
    data = _read(path)
    packet = find_xmp_segment(data, path).packet
    record = find_record(data)
    with sidecar.naming_file(path):
        merged = replan(packet)
        old = None if record is None or record.reason else record.content(data)
        new = None
        if record is None or not record.reason:
            new = synchronize(old, packet, merged.data)
    if record is not None and record.reason and merged.data != packet:
        notes = [*notes, f"{path}: its IPTC keywords are not changed: {record.reason}"]
    added = tuple(merged.added)
    removed = tuple(merged.removed)
    messages = tuple(dict.fromkeys(notes))
    return InsideChange(
        path, path, packet, merged.data, added, removed, messages, replan, old, new, synchronize
    )


def synchronized_record(record: bytes | None, old: bytes | None, new: bytes | None) -> bytes | None:
    """Synchronize a record with ProtoTag's tags of a new packet; the person's keywords stay."""
    if record is None:
        return None
    before, after = (Keywords() if p is None else Packet(p).keywords() for p in (old, new))
    persons = {
        key(leaf(tag))
        for one in (before, after)
        for tag in (*one.tags, *one.copied, *(after.added if one is after else ()))
    }
    ours = (*before.added, *before.rejected, *after.rejected)
    return iptc.synchronize(record, after.added, [t for t in ours if key(leaf(t)) not in persons])


def apply_inside(change: Change, *, keep_original: bool = False) -> Change:
    """Apply a change inside a picture, and return the change that was made.

    Parameters
    ----------
    change : Change
        Result of :func:`plan_embed` or :func:`plan_unembed`.
    keep_original : bool
        Keep the original as ``photo.jpg_original``, unless this file exists.

    Raises
    ------
    MetadataError
        If the picture cannot be written, or changes all the time: nothing was changed.
    """
    path = Path(os.path.realpath(change.path))
    change = sidecar.note_hard_links(change, path)
    for _ in range(sidecar.MAX_ATTEMPTS):
        if not change:
            return change
        data = _read(path)
        record = find_record(data)
        content = None if record is None or record.reason else record.content(data)
        if not isinstance(change, InsideChange):
            raise TypeError(
                "apply_inside takes the changes that plan_embed and plan_unembed return."
            )
        is_other = find_xmp_segment(data, path).packet != change.old or content != change.old_record
        if is_other and change.replan is not None and change.synchronize is not None:
            change = plan_inside(path, change.replan, [*change.notes], change.synchronize)
            continue
        new = _with_packet(_with_record(data, record, change.new_record, path), change.new, path)
        try:
            if _replace_file(path, data, new, keep_original):
                return dataclasses.replace(change, before=data, after=new)
        except OSError as error:
            reason = error.strerror or error
            raise MetadataError(
                f"{path} cannot be written: {reason}. Nothing was changed."
            ) from None
    raise MetadataError(f"{path} changes faster than it can be written: close what edits it.")


def _read(path: Path) -> bytes:
    from prototag.images.decode import read_bytes  # imported late: it loads NumPy

    try:
        return read_bytes(path)
    except ImageError as error:
        raise MetadataError(f"{path} {error}") from None


def find_xmp_segment(data: bytes, path: Path) -> XmpSegment:
    """Find the XMP segment of a JPEG file.

    Raises
    ------
    MetadataError
        If it is not a JPEG, or its structure is unusual.
    """
    if not data.startswith(_JPEG_START):
        raise MetadataError(
            f"{path} is not a JPEG file, the only kind that tags are embedded in: use a sidecar."
        )
    at = 2
    behind = 2
    segment = None
    is_indexed = False  # whether an MPF index was passed, which has offsets of further pictures
    for _ in range(_MAX_SEGMENTS):
        marker = data[at : at + 2]
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        if len(marker) < 2 or marker[0] != 0xFF or marker[1] < 0xC0 or 0xD0 <= marker[1] <= 0xD9:
            break
        if marker == b"\xff\xff":  # a fill byte
            at += 1
            continue
        if marker == b"\xff\xda":
            place = XmpSegment(behind, behind, at, None) if segment is None else segment
            return place._replace(pixels=at)
        end = at + 2 + size
        head = data[at + 4 : at + 4 + len(embedded_reader.XMP)]
        if size < 2 or end > len(data):
            break
        is_indexed |= marker == b"\xff\xe2" and head.startswith(b"MPF\0")
        if marker == b"\xff\xe1" and head == embedded_reader.XMP and segment is None:
            if is_indexed:
                raise MetadataError(
                    f"{path} has several pictures, whose offsets a longer segment would change: "
                    "use a sidecar."
                )
            segment = XmpSegment(at, end, 0, data[at + 4 + len(embedded_reader.XMP) : end])
        if marker == b"\xff\xe0" or (marker == b"\xff\xe1" and head.startswith(_EXIF)):
            behind = end if not is_indexed else behind
        at = end
    raise MetadataError(f"{path} is damaged, or an unusual JPEG file: use a sidecar.")


def _with_packet(data: bytes, packet: bytes | None, path: Path) -> bytes:
    """Return the file with another packet, or without one."""
    place = find_xmp_segment(data, path)
    if packet is None:
        return data[: place.start] + data[place.end :]
    content = embedded_reader.XMP + packet
    if len(content) > _MAX_SEGMENT_BYTES:
        raise MetadataError(
            f"{path} has no room for {len(content):,} bytes of XMP; the limit is "
            f"{_MAX_SEGMENT_BYTES:,}: use a sidecar."
        )
    segment = b"\xff\xe1" + (len(content) + 2).to_bytes(2, "big") + content
    return data[: place.start] + segment + data[place.end :]


def find_record(data: bytes) -> IptcRecord | None:
    """Find the IPTC record of a JPEG file; None if there is none."""
    records: list[IptcRecord] = []
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
            records += _records(data, at, inside, end, is_indexed)
        at = end
    if len(records) > 1:
        return records[0]._replace(reason="there are several records")
    return records[0] if records else None


def _records(data: bytes, at: int, inside: int, end: int, is_indexed: bool) -> list[IptcRecord]:
    """Find the records of one Photoshop segment."""
    resources = list(iptc.resources(data[inside:end]))
    digests = [
        inside + one.start
        for one in resources
        if one.kind == iptc.DIGEST and one.end - one.start == _DIGEST_BYTES
    ]
    records = []
    for one in resources:
        if one.kind != iptc.RECORD:
            continue
        content = data[inside + one.start : inside + one.end]
        reason = ""
        if inside + one.end > end or not iptc.can_be_changed(content):
            reason = "the record is damaged or unusual"
        elif is_indexed:
            reason = "the file has several pictures, whose offsets a longer record would change"
        digest = digests[0] if len(digests) == 1 else None
        records.append(IptcRecord(at, end, inside + one.start, inside + one.end, digest, reason))
    return records


def _with_record(data: bytes, place: IptcRecord | None, record: bytes | None, path: Path) -> bytes:
    """Return the file with its IPTC record replaced, or with a new one."""
    if place is None:
        return data if record is None else _with_new_record(data, record, path)
    if place.reason or record is None or record == place.content(data):
        return data
    old = place.content(data)
    segment = bytearray(data[place.start : place.end])
    if place.digest is not None:
        at = place.digest - place.start
        # A wrong MD5 means that IPTC alone was edited; it stays wrong.
        if segment[at : at + _DIGEST_BYTES] == _md5(old):
            segment[at : at + _DIGEST_BYTES] = _md5(record)
    first = place.first - place.start
    last = place.last - place.start
    behind = min(last + (len(old) & 1), len(segment))  # a resource is padded to an even length
    padded = record + b"\0" * (len(record) & 1)
    segment[first - 4 : behind] = len(record).to_bytes(4, "big") + padded
    if len(segment) - 4 > _MAX_SEGMENT_BYTES:
        raise MetadataError(f"{path} has no room for more IPTC keywords: use a sidecar.")
    segment[2:4] = (len(segment) - 2).to_bytes(2, "big")
    return data[: place.start] + bytes(segment) + data[place.end :]


def _with_new_record(data: bytes, record: bytes, path: Path) -> bytes:
    """Return the file with a record, in its Photoshop segment or in a new one."""
    place = find_xmp_segment(data, path)
    resource = b"8BIM" + iptc.RECORD.to_bytes(2, "big") + b"\0\0" + len(record).to_bytes(4, "big")
    resource += record + b"\0" * (len(record) & 1)
    at = find_photoshop_segment(data)
    content = resource
    start = end = place.end
    if at is not None:
        start, end = at
        content = data[start + 4 + len(embedded_reader.PHOTOSHOP) : end] + resource
    content = embedded_reader.PHOTOSHOP + content
    if len(content) > _MAX_SEGMENT_BYTES:
        raise MetadataError(f"{path} has no room for IPTC keywords: use a sidecar.")
    segment = b"\xff\xed" + (len(content) + 2).to_bytes(2, "big") + content
    return data[:start] + segment + data[end:]


def find_photoshop_segment(data: bytes) -> tuple[int, int] | None:
    """Find the first Photoshop segment that stands before any index of further pictures."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        marker = data[at : at + 2]
        if marker == b"\xff\xff":  # a fill byte
            at += 1
            continue
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        is_index = marker == b"\xff\xe2" and data[at + 4 : at + 8] == b"MPF\0"
        if len(marker) < 2 or marker == b"\xff\xda" or is_index or end > len(data):
            return None
        head = data[at + 4 : at + 4 + len(embedded_reader.PHOTOSHOP)]
        if marker == b"\xff\xed" and head == embedded_reader.PHOTOSHOP:
            return at, end
        at = end
    return None


def _md5(record: bytes) -> bytes:
    return hashlib.md5(record, usedforsecurity=False).digest()


def _replace_file(path: Path, old: bytes, new: bytes, keep_original: bool) -> bool:
    """Replace a picture by one with the same pixels; return False if it has changed meanwhile."""
    sidecar.check_writable(path)
    temporary = write_beside(path, new)
    try:
        _verify_picture(path, old, temporary)
        with sidecar.lock_folder(path.parent):
            if _read(path) != old:
                return False
            sidecar.copy_attributes(temporary, path)
            if keep_original:
                _keep_original(path)
            os.replace(temporary, path)
            return True
    finally:
        temporary.unlink(missing_ok=True)


def _verify_picture(path: Path, old: bytes, temporary: Path) -> None:
    """Verify that the written file has the same pixels, and the same metadata except keywords."""
    from prototag.images.decode import digest

    new = temporary.read_bytes()
    was = find_xmp_segment(old, path)
    now = find_xmp_segment(new, path)
    same = (
        old[was.pixels :] == new[now.pixels :]
        and _unchanged_parts(old, path) == _unchanged_parts(new, path)
        and digest(old) == digest(new)
    )
    if not same:
        raise MetadataError(f"{path} would show another picture: nothing was changed.")


def _unchanged_parts(data: bytes, path: Path) -> list[bytes]:
    """Return the bytes before the pixels without the XMP segment and IPTC keywords."""
    place = find_xmp_segment(data, path)
    record = find_record(data)
    if record is not None and not record.reason:
        others = iptc.synchronize(record.content(data), (), iptc.keywords(record.content(data)))
        if record.digest is not None:
            at = record.digest
            data = data[:at] + bytes(_DIGEST_BYTES) + data[at + _DIGEST_BYTES :]
        if iptc.is_only_keywords(record.content(data)):
            data = _without_record(data, record)
        else:
            data = _with_record(data, record, others, path)
        place = find_xmp_segment(data, path)
    return [data[: place.start], data[place.end : place.pixels]]


def _without_record(data: bytes, place: IptcRecord) -> bytes:
    """Return the file without a record, and without its segment if nothing else is in it."""
    inside = place.start + 4 + len(embedded_reader.PHOTOSHOP)
    resource = place.first - 12
    end = min(place.last + ((place.last - place.first) & 1), place.end)
    rest = data[inside:resource] + data[end : place.end]
    segment = b""
    if rest:
        content = embedded_reader.PHOTOSHOP + rest
        segment = b"\xff\xed" + (len(content) + 2).to_bytes(2, "big") + content
    return data[: place.start] + segment + data[place.end :]


def _keep_original(path: Path) -> None:
    """Keep the original file under another name."""
    kept = path.with_name(path.name + ORIGINAL_SUFFIX)
    if kept.exists():
        return
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        with open_for_reading(path) as source, kept.open("xb") as copy:
            shutil.copyfileobj(source, copy)
        shutil.copystat(path, kept)
