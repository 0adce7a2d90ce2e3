"""Whose tags are whose: what goes into a packet, what comes out, and the marks that remember it.

``merge`` and ``strip`` take the bytes of a packet and give its new bytes; :mod:`.editor` splices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from prototag.metadata.editor import Editor
from prototag.metadata.markup import Name
from prototag.metadata.spelling import key, leaf, unique
from prototag.metadata.xmp import (
    ADDED,
    COPIED,
    CREATED,
    REJECTED,
    SUBJECT,
    TAGS_LIST,
    THEIRS,
    WRITES,
    Packet,
)

_EMPTY = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="ProtoTag">\n'
    ' <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n'
    " </rdf:RDF>\n"
    "</x:xmpmeta>\n"
    '<?xpacket end="w"?>\n'
).encode()


class Merged(NamedTuple):
    data: bytes | None  # None where nothing is left of a packet of ours
    added: list[str]
    removed: list[str]


def merge(
    data: bytes | None, tags: Iterable[str], *, inside: Sequence[str] = (), replace: bool = True
) -> Merged:
    """Make the tags that ProtoTag added these ones, beside the person's own.

    Parameters
    ----------
    data : bytes or None
        The packet; None begins a new one.
    tags : iterable of str
        Hierarchical ones as ``animal|cat``.
    inside : sequence of str
        A person's keywords inside the picture. They are repeated if the packet has no list of
        keywords yet, because a photo tool that finds one there may look no further.
    replace : bool
        False keeps what was added before and is not among ``tags``.
    """
    packet = Packet(_EMPTY if data is None else data)
    before = packet.added()
    rejected = unique(packet.values(REJECTED) + packet.taken_away)
    refused = {key(tag) for tag in rejected}
    persons = {key(tag) for tag in inside}
    copied = list(inside)
    if packet.properties(SUBJECT):
        copied = [tag for tag in packet.values(COPIED) if key(tag) in persons]
    old = [] if replace else [tag for tag in before if key(tag) not in refused]
    new = [tag for tag in unique([*tags]) if key(tag) not in refused]
    if data is None and not new:
        return Merged(None, [], [])
    if not old and not new and not packet.keywords().tags:
        copied = []  # a list of copies alone serves nobody
    wanted = unique([*(tag for tag in copied if key(tag) not in refused), *old, *new])
    editor = Editor(packet)
    _write(editor, wanted)
    editor.set(REJECTED, rejected, "Bag")
    said = [tag for tag in wanted if key(tag) in persons or key(leaf(tag)) in persons]
    editor.set(COPIED, said, "Bag")
    if data is None:
        editor.set(CREATED, ["True"], None)
    elif not wanted and not rejected:
        editor.set(CREATED, [], None)
    return _merged(packet, editor, before)


def strip(data: bytes, tags: Iterable[str] | None = None, *, keep: bool = False) -> Merged:
    """Take back what ProtoTag added: all of it with its marks, or only ``tags``.

    ``keep`` leaves the tags and takes the marks alone: they are the person's from then on.
    """
    packet = Packet(data)
    before = packet.added()
    gone = {key(tag) for tag in (before if tags is None else tags)}
    rest = [tag for tag in before if key(tag) not in gone and tag not in packet.taken_away]
    editor = Editor(packet)
    _write(editor, rest, remove=not keep)
    if tags is None:
        for name in (REJECTED, COPIED, CREATED):
            editor.set(name, [], "Bag")
    else:
        editor.set(COPIED, [t for t in packet.values(COPIED) if key(t) not in gone], "Bag")
    merged = _merged(packet, editor, before)
    return merged._replace(removed=[]) if keep else merged


def _merged(packet: Packet, editor: Editor, before: list[str]) -> Merged:
    if not editor.is_changed:
        return Merged(packet.document.splice([]), [], [])
    data = editor.result()
    after = Packet(data)
    now = {key(tag): tag for tag in after.added()}
    then = {key(tag): tag for tag in before if tag not in packet.taken_away}
    return Merged(
        None if packet.values(CREATED) and after.is_empty() else data,
        [tag for name, tag in now.items() if name not in then],
        [tag for name, tag in then.items() if name not in now],
    )


def _write(editor: Editor, wanted: list[str], *, remove: bool = True) -> None:
    """Entries of the three lists, and the marks that tell ours from a person's."""
    packet = editor.packet
    theirs: dict[Name, set[str]] = {}
    for name, written in WRITES.items():
        persons = packet.values(name)
        ours = []
        for text in dict.fromkeys(written(tag) for tag in packet.marked(name)):
            if text in persons:
                persons.remove(text)
                ours.append(text)
        theirs[name] = {key(text) for text in persons}
        texts = unique([written(tag) for tag in wanted])
        editor.change(
            name,
            [text for text in ours if text not in texts] if remove else [],
            [text for text in texts if text not in ours and key(text) not in theirs[name]],
            "Seq" if name == TAGS_LIST else "Bag",
        )
    kept = {
        name: [tag for tag in wanted if key(written(tag)) in theirs[name]]
        for name, written in WRITES.items()
    }
    added = [tag for tag in wanted if not all(tag in tags for tags in kept.values())]
    editor.set(ADDED, added, "Bag")
    for name, tags in kept.items():
        editor.set(THEIRS[name], [tag for tag in tags if tag in added], "Bag")
