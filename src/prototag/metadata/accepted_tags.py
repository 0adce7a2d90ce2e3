"""Tags that a person has accepted elsewhere, written into the sidecar as the person's own.

They carry no marks: whoever reads the sidecar, ``train`` among others, finds a person's tags.
Whoever had them written must remember which they were, to take them back, or to see that the person
has taken them away in a photo program.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prototag.metadata import embedded_reader
from prototag.metadata.sidecar import Change, Naming, PathLike, content, named, prepare, target
from prototag.metadata.tag_names import key, unique
from prototag.metadata.xmp.packet import (
    CREATED,
    REJECTED,
    SEEN,
    SUBJECT,
    WRITES,
    Keywords,
    Packet,
    digest,
)
from prototag.metadata.xmp.packet_editor import Editor, Merged, merge, strip


def plan_own(
    image: PathLike,
    tags: Iterable[str],
    *,
    gone: Iterable[str] = (),
    naming: Naming = "auto",
    inside: bool = True,
) -> Change:
    """What writing these tags as a person's own would change.

    Parameters
    ----------
    image : path-like
        The picture; it must exist.
    tags : iterable of str
        Tags that the person has accepted; those that are there stay as they are.
    gone : iterable of str
        Tags that were written so before, and are to go.
    naming, inside
        As for :func:`prototag.metadata.plan`.

    Raises
    ------
    MetadataError
        The picture or its sidecar cannot be read, or the sidecar is broken.
    """
    path = Path(image)
    keywords, problems = embedded_reader.read(path)
    persons = list(keywords.tags) if inside else []
    wanted = unique([*tags])
    unwanted = unique([*gone])

    def again(data: bytes | None) -> Merged:
        return own(data, wanted, unwanted, persons)

    return prepare(path, target(path, naming), again, [f"{path}: {words}" for words in problems])


def own(data: bytes | None, tags: list[str], gone: list[str], inside: list[str]) -> Merged:
    """The packet with these tags as the person's, and without those that are to go."""
    accepted = {key(tag) for tag in tags}
    found = Keywords()
    created = True
    new = data
    if data is not None:
        packet = Packet(data)
        found = packet.keywords()
        created = bool(packet.values(CREATED))
        new = _without(_reconciled(data, accepted), gone, accepted)
        if new == data and _has(packet, tags):
            return Merged(data, [], [])
    new = merge(new, tags, inside=inside, replace=False).data
    if new is not None:
        marked = [tag for tag in Packet(new).added() if key(tag) in accepted]
        if marked:
            new = strip(new, marked, keep=True).data or new
        new = _settled(new, touched=found.touched, created=created)
    before = {key(tag) for tag in found.tags}
    return Merged(
        new,
        [tag for tag in tags if key(tag) not in before],
        [tag for tag in gone if key(tag) in before],
    )


def _has(packet: Packet, tags: list[str]) -> bool:
    """Whether each list has the tags as a person's."""
    return all(
        {key(written(tag)) for tag in tags} <= {key(text) for text in packet.shares(name)[1]}
        for name, written in WRITES.items()
    )


def _reconciled(data: bytes, accepted: set[str]) -> bytes:
    """A person took some of ours away once, and has accepted them since."""
    packet = Packet(data)
    dangling = [tag for tag in packet.taken_away if key(tag) in accepted]
    if dangling:
        packet = Packet(strip(data, dangling).data or data)
    editor = Editor(packet)
    editor.set(REJECTED, [t for t in packet.values(REJECTED) if key(t) not in accepted], "Bag")
    return editor.result() if editor.is_changed else packet.document.splice([])


def _without(data: bytes, gone: list[str], accepted: set[str]) -> bytes:
    """Without entries that we wrote, unless another tag of the picture is written the same way."""
    packet = Packet(data)
    leaving = {key(tag) for tag in gone} - accepted
    found = packet.keywords()
    staying = [tag for tag in (*found.tags, *packet.added()) if key(tag) not in leaving]
    editor = Editor(packet)
    for name, written in WRITES.items():
        kept = {key(written(tag)) for tag in staying}
        texts = {key(written(tag)) for tag in gone if key(tag) in leaving} - kept
        drop = [text for text in packet.values(name) if key(text) in texts]
        if drop:
            editor.change(name, drop, [], None)
    return editor.result() if editor.is_changed else data


def _settled(data: bytes, *, touched: bool, created: bool) -> bytes | None:
    """Marks that tell whether the person has changed tags since: we have, on their behalf."""
    packet = Packet(data)
    editor = Editor(packet)
    if not touched:
        seen = [digest(packet.keywords().tags)] if packet.added() else []
        editor.set(SEEN, seen, None)
    is_bare = not any(packet.values(name) for name in (*WRITES, REJECTED))
    editor.set(CREATED, ["True"] if created and not is_bare else [], None)
    result = editor.result() if editor.is_changed else data
    return None if created and is_bare and Packet(result).is_empty() else result


def taken_away(image: PathLike, tags: Iterable[str]) -> list[str]:
    """Those of the tags that :func:`plan_own` wrote which the person has since taken away.

    A tag that is missing in any of the three lists was taken away there, as programs edit some
    lists and not others. A list that is gone altogether, while the plain one still has several
    keywords, was left out by a program. Without a sidecar, nothing was taken away from it.

    Raises
    ------
    MetadataError
        The picture or its sidecar cannot be read.
    """
    path = Path(image)
    file = target(path)
    data = content(file)
    wanted = unique([*tags])
    if data is None or not wanted:
        return []
    with named(file):
        packet = Packet(data)
        there = {name: {key(text) for text in packet.values(name)} for name in WRITES}
        has = {name: bool(packet.properties(name)) for name in WRITES}
    several = len(there[SUBJECT]) > 1
    gone = [
        tag
        for tag in wanted
        if any(
            key(written(tag)) not in there[name] and (name == SUBJECT or has[name] or not several)
            for name, written in WRITES.items()
        )
    ]
    if gone:  # a program may have moved them into the picture
        inside = {key(tag) for tag in embedded_reader.read(path)[0].tags}
        gone = [tag for tag in gone if key(tag) not in inside]
    return gone
