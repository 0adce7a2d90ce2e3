"""Tags inside JPEG files, where Lightroom and most other programs read them.

Only what was asked for explicitly comes here: everything else of this package opens pictures for
reading alone. The XMP segment of a file is exchanged, or added behind the EXIF data; every other
byte stays. The new file is written beside the old one and read back: only if its pixels are those
of the old one, bit for bit, it takes its place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from prototag.errors import ImageError, MetadataError
from prototag.metadata import embedded, sidecar
from prototag.metadata.sidecar import Change, PathLike
from prototag.metadata.tags import clean, unique
from prototag.metadata.xmp.editor import Merged, merge, strip
from prototag.metadata.xmp.packet import OURS
from prototag.storage.atomic import write_beside

ORIGINAL = "_original"  # behind the name of a picture that is kept, as exiftool has it
_START = b"\xff\xd8\xff"
_EXIF = b"Exif\0\0"
_MAX_SEGMENT = 65_533  # bytes behind the length of a segment
_MAX_SEGMENTS = 10_000


class Place(NamedTuple):
    """Where the XMP segment of a JPEG is, or would be."""

    start: int
    end: int  # the same where there is none
    pixels: int  # where the first scan begins
    packet: bytes | None


def is_jpeg(image: PathLike) -> bool:
    """Whether a file begins as a JPEG does."""
    with suppress(OSError), open(image, "rb") as file:
        return file.read(len(_START)) == _START
    return False


def has_ours(image: PathLike) -> bool:
    """Whether the metadata inside a picture names ProtoTag's marks; only that is read."""
    return any(OURS.encode() in packet for packet in embedded.parts_of(image).packets)


def plan_embed(image: PathLike, tags: Iterable[str], *, replace: bool = True) -> Change:
    """What writing these tags into a JPEG file would change; :func:`prototag.metadata.plan` says
    the same of a sidecar.

    Raises
    ------
    MetadataError
        The file cannot be read, is no JPEG, or its metadata cannot be changed without harm.
    """
    path, given = Path(image), [*tags]
    keywords, problems = embedded.read(path)
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
    packet = find(_read(path), path).packet
    with sidecar.named(path):
        merged = again(packet)
    added, removed = tuple(merged.added), tuple(merged.removed)
    return Change(path, path, packet, merged.data, added, removed, tuple(notes), again)


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
        if find(data, path).packet != change.old and change.again is not None:
            change = _prepared(path, change.again, [*change.notes])
            continue
        new = _exchanged(data, change.new, path)
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
    at, behind, found = 2, 2, None
    is_indexed = False  # whether a list of further pictures, by their distance, was passed
    for _ in range(_MAX_SEGMENTS):
        marker, size = data[at : at + 2], int.from_bytes(data[at + 2 : at + 4], "big")
        if len(marker) < 2 or marker[0] != 0xFF or marker[1] < 0xC0 or 0xD0 <= marker[1] <= 0xD9:
            break
        if marker == b"\xff\xff":  # a fill byte
            at += 1
            continue
        if marker == b"\xff\xda":
            place = Place(behind, behind, at, None) if found is None else found
            return place._replace(pixels=at)
        end, head = at + 2 + size, data[at + 4 : at + 4 + len(embedded.XMP)]
        if size < 2 or end > len(data):
            break
        is_indexed |= marker == b"\xff\xe2" and head.startswith(b"MPF\0")
        if marker == b"\xff\xe1" and head == embedded.XMP and found is None:
            if is_indexed:
                raise MetadataError(
                    f"{path} holds several pictures, which a longer text before them would move: "
                    "use a sidecar."
                )
            found = Place(at, end, 0, data[at + 4 + len(embedded.XMP) : end])
        if marker == b"\xff\xe0" or (marker == b"\xff\xe1" and head.startswith(_EXIF)):
            behind = end if not is_indexed else behind
        at = end
    raise MetadataError(f"{path} is damaged, or no usual JPEG file: use a sidecar.")


def _exchanged(data: bytes, packet: bytes | None, path: Path) -> bytes:
    """The file with another packet, or with none."""
    place = find(data, path)
    if packet is None:
        return data[: place.start] + data[place.end :]
    content = embedded.XMP + packet
    if len(content) > _MAX_SEGMENT:
        raise MetadataError(
            f"{path} has no room for {len(content):,} bytes of XMP; {_MAX_SEGMENT:,} is the limit: "
            "use a sidecar."
        )
    segment = b"\xff\xe1" + (len(content) + 2).to_bytes(2, "big") + content
    return data[: place.start] + segment + data[place.end :]


def _put(path: Path, old: bytes, new: bytes, keep_original: bool) -> bool:
    """Exchange a picture for one that shows the same; False if it is no longer the old one."""
    sidecar.check_writable(path)
    temporary = write_beside(path, new)
    try:
        _check(path, old, temporary)
        with sidecar.locked(path.parent):
            if path.read_bytes() != old:
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
    was, now = find(old, path), find(new, path)
    same = (
        old[was.pixels :] == new[now.pixels :]
        and old[: was.start] == new[: now.start]
        and old[was.end : was.pixels] == new[now.end : now.pixels]
        and digest(old) == digest(new)
    )
    if not same:
        raise MetadataError(f"{path} would show another picture: nothing was changed.")


def _keep(path: Path) -> None:
    """Keep the old file under another name, before the new one takes its own."""
    kept = path.with_name(path.name + ORIGINAL)
    if kept.exists():
        return
    try:
        os.link(path, kept)
    except OSError:  # a disk without links
        shutil.copy2(path, kept)
