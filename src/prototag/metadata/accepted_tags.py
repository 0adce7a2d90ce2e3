"""Accepted tags, written to the sidecar or into a JPEG file as the person's own.

They have no marks: programs that read the sidecar, including ``train``, find the person's tags. The
caller must record which tags it wrote, to remove them later, or to detect that the person removed
them in a photo program.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prototag.metadata import embedded_reader, iptc
from prototag.metadata.jpeg_writer import plan_inside
from prototag.metadata.sidecar import (
    Change,
    Naming,
    PathLike,
    naming_file,
    prepare,
    read_if_exists,
    target,
)
from prototag.metadata.tag_names import key, leaf, unique
from prototag.metadata.xmp.packet import (
    CREATED,
    PERSONS_DIGEST,
    REJECTED,
    SUBJECT,
    WRITTEN_PROPERTIES,
    Keywords,
    Packet,
    tags_digest,
)
from prototag.metadata.xmp.packet_editor import Editor, Merged, merge, strip


def plan_own(
    image: PathLike,
    tags: Iterable[str],
    *,
    removed: Iterable[str] = (),
    naming: Naming = "auto",
    inside: bool = True,
) -> Change:
    """Plan to write tags as the person's own; nothing is written.

    Parameters
    ----------
    image : path-like
        The picture; it must exist.
    tags : iterable of str
        Tags that the person has accepted; existing ones are not changed.
    removed : iterable of str
        Tags that were written before and are to be removed.
    naming, inside
        As for :func:`prototag.metadata.plan`.

    Raises
    ------
    MetadataError
        If the picture or its sidecar cannot be read, or the sidecar is damaged.
    """
    path = Path(image)
    keywords, problems = embedded_reader.read(path)
    persons = list(keywords.tags) if inside else []
    accepted = unique([*tags])
    unwanted = unique([*removed])

    def replan(data: bytes | None) -> Merged:
        return own(data, accepted, unwanted, persons)

    return prepare(path, target(path, naming), replan, [f"{path}: {words}" for words in problems])


def plan_own_inside(
    image: PathLike,
    tags: Iterable[str],
    *,
    removed: Iterable[str] = (),
    create_iptc: bool = False,
) -> Change:
    """Plan to write tags as the person's own into a JPEG file; nothing is written.

    Parameters
    ----------
    image : path-like
        The picture.
    tags, removed : iterable of str
        As for :func:`plan_own`.
    create_iptc : bool
        Write IPTC keywords also into a file that has no IPTC record. An existing record is always
        kept in step with the XMP packet.

    Raises
    ------
    MetadataError
        If the file is no JPEG, cannot be read, or its metadata cannot be changed safely.
    """
    path = Path(image)
    keywords, problems = embedded_reader.read(path)
    persons = list(keywords.tags)
    accepted = unique([*tags])
    unwanted = unique([*removed])

    def replan(packet: bytes | None) -> Merged:
        return own(packet, accepted, unwanted, persons)

    def synchronize(record: bytes | None, _: bytes | None, new: bytes | None) -> bytes | None:
        if record is not None:
            staying = set() if new is None else {key(leaf(t)) for t in Packet(new).keywords().tags}
            stale = [tag for tag in unwanted if key(leaf(tag)) not in staying]
            return iptc.synchronize(record, accepted, stale)
        if not create_iptc or new is None:
            return None
        return iptc.new_record(Packet(new).keywords().tags)

    notes = [f"{path}: {words}" for words in problems]
    return plan_inside(path, replan, notes, synchronize)


def own(data: bytes | None, tags: list[str], removed: list[str], inside: list[str]) -> Merged:
    """Return the packet with accepted tags as the person's own, and without removed ones."""
    accepted = {key(tag) for tag in tags}
    keywords = Keywords()
    created = True
    new = data
    if data is not None:
        packet = Packet(data)
        keywords = packet.keywords()
        created = bool(packet.values(CREATED))
        new = _without(_reconciled(data, accepted), removed, accepted)
        if new == data and _has(packet, tags):
            return Merged(data, [], [])
    new = merge(new, tags, inside=inside, replace=False).data
    if new is not None:
        marked = [tag for tag in Packet(new).added() if key(tag) in accepted]
        if marked:
            new = strip(new, marked, keep=True).data or new
        new = _settled(new, touched=keywords.touched, created=created)
    before = {key(tag) for tag in keywords.tags}
    return Merged(
        new,
        [tag for tag in tags if key(tag) not in before],
        [tag for tag in removed if key(tag) in before],
    )


def _has(packet: Packet, tags: list[str]) -> bool:
    """Return whether each list has the tags as the person's own."""
    return all(
        {key(written(tag)) for tag in tags} <= {key(text) for text in packet.split_entries(name)[1]}
        for name, written in WRITTEN_PROPERTIES.items()
    )


def _reconciled(data: bytes, accepted: set[str]) -> bytes:
    """Clear the rejections of tags that the person removed once and has accepted since."""
    packet = Packet(data)
    dangling = [tag for tag in packet.removed if key(tag) in accepted]
    if dangling:
        packet = Packet(strip(data, dangling).data or data)
    editor = Editor(packet)
    editor.set(REJECTED, [t for t in packet.values(REJECTED) if key(t) not in accepted], "Bag")
    return editor.result() if editor.is_changed else packet.document.splice([])


def _without(data: bytes, removed: list[str], accepted: set[str]) -> bytes:
    """Remove entries, unless another tag of the picture is written as the same text."""
    packet = Packet(data)
    leaving = {key(tag) for tag in removed} - accepted
    keywords = packet.keywords()
    staying = [tag for tag in (*keywords.tags, *packet.added()) if key(tag) not in leaving]
    editor = Editor(packet)
    for name, written in WRITTEN_PROPERTIES.items():
        kept = {key(written(tag)) for tag in staying}
        texts = {key(written(tag)) for tag in removed if key(tag) in leaving} - kept
        drop = [text for text in packet.values(name) if key(text) in texts]
        if drop:
            editor.change(name, drop, [], None)
    return editor.result() if editor.is_changed else data


def _settled(data: bytes, *, touched: bool, created: bool) -> bytes | None:
    """Update the mark that detects edits by the person: this edit was ours."""
    packet = Packet(data)
    editor = Editor(packet)
    if not touched:
        seen = [tags_digest(packet.keywords().tags)] if packet.added() else []
        editor.set(PERSONS_DIGEST, seen, None)
    is_bare = not any(packet.values(name) for name in (*WRITTEN_PROPERTIES, REJECTED))
    editor.set(CREATED, ["True"] if created and not is_bare else [], None)
    result = editor.result() if editor.is_changed else data
    return None if created and is_bare and Packet(result).is_empty() else result


def removed_tags(image: PathLike, tags: Iterable[str]) -> list[str]:
    """Return the tags written by :func:`plan_own` that the person has removed since.

    A tag that is missing in one of the three lists was removed, because programs edit some lists
    and not others. A list that is missing entirely, while ``dc:subject`` has several keywords, was
    dropped by a program. Without a sidecar nothing was removed.

    Raises
    ------
    MetadataError
        If the picture or its sidecar cannot be read.
    """
    path = Path(image)
    file = target(path)
    data = read_if_exists(file)
    removed = _missing(file, data, unique([*tags]))
    if removed:  # a program may have moved them into the picture
        inside = {key(tag) for tag in embedded_reader.read(path)[0].tags}
        removed = [tag for tag in removed if key(tag) not in inside]
    return removed


def removed_tags_inside(image: PathLike, tags: Iterable[str]) -> list[str]:
    """Return the tags written by :func:`plan_own_inside` that the person has removed since.

    A file without a packet was exported again, which removes nothing.
    """
    path = Path(image)
    packets = embedded_reader.read_metadata(path).packets
    return _missing(path, packets[0] if packets else None, unique([*tags]))


def _missing(file: Path, data: bytes | None, accepted: list[str]) -> list[str]:
    """Return the tags that one of the lists of a packet lacks."""
    if data is None or not accepted:
        return []
    with naming_file(file):
        packet = Packet(data)
        there = {name: {key(text) for text in packet.values(name)} for name in WRITTEN_PROPERTIES}
        has = {name: bool(packet.properties(name)) for name in WRITTEN_PROPERTIES}
    several = len(there[SUBJECT]) > 1
    return [
        tag
        for tag in accepted
        if any(
            key(written(tag)) not in there[name] and (name == SUBJECT or has[name] or not several)
            for name, written in WRITTEN_PROPERTIES.items()
        )
    ]
