"""Whose tags are whose: what goes into a packet, what comes out, and the marks that remember it.

``merge`` and ``strip`` take the bytes of a packet and give its new bytes; :mod:`.editor` splices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from prototag.metadata.spelling import key, leaf, unique
from prototag.metadata.xmp.editor import Editor
from prototag.metadata.xmp.markup import Name
from prototag.metadata.xmp.packet import (
    ADDED,
    COPIED,
    CREATED,
    REJECTED,
    TAGS_LIST,
    THEIRS,
    WRITES,
    Packet,
    union,
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
        A person's keywords inside the picture.
    replace : bool
        False keeps what was added before and is not among ``tags``.
    """
    packet = Packet(_EMPTY if data is None else data)
    persons = {key(tag): tag for tag in union([[*packet.keywords().tags], unique([*inside])])}
    rejected = unique(packet.values(REJECTED) + packet.taken_away)
    refused = {key(tag) for tag in rejected}
    old = [] if replace else [tag for tag in packet.added() if tag not in packet.values(COPIED)]
    ours = [tag for tag in unique([*old, *tags]) if key(tag) not in refused]
    if data is None and not ours:
        return Merged(None, [], [])
    wanted = {}
    for name in WRITES:
        # A program that finds one list may look at no other, nor inside the picture. So a list in
        # which the person has nothing repeats what he says elsewhere; one of his keeps the copies
        # that it has.
        copies = [tag for tag in packet.marked(name) if tag in packet.values(COPIED)]
        if not packet.shares(name)[1]:
            copies = list(persons.values()) if ours else []
        copies = [tag for tag in copies if key(tag) in persons and key(tag) not in refused]
        wanted[name] = unique([persons.get(key(tag), tag) for tag in (*copies, *ours)])
    editor = Editor(packet)
    written = _write(editor, wanted)
    editor.set(REJECTED, rejected, "Bag")
    said = [tag for tag in written if key(tag) in persons or key(leaf(tag)) in persons]
    editor.set(COPIED, said, "Bag")
    if data is None:
        editor.set(CREATED, ["True"], None)
    elif not written and not rejected:
        editor.set(CREATED, [], None)
    return _merged(packet, editor, {*persons})


def strip(data: bytes, tags: Iterable[str] | None = None, *, keep: bool = False) -> Merged:
    """Take back what ProtoTag added: all of it with its marks, or only ``tags``.

    ``keep`` leaves the tags and takes the marks alone: they are the person's from then on.
    """
    packet = Packet(data)
    before = packet.added()
    gone = {key(tag) for tag in (before if tags is None else tags)}
    rest = [tag for tag in before if key(tag) not in gone and tag not in packet.taken_away]
    editor = Editor(packet)
    wanted = {name: [tag for tag in rest if tag in packet.marked(name)] for name in WRITES}
    _write(editor, wanted, remove=not keep)
    if tags is None:
        for name in (REJECTED, COPIED, CREATED):
            editor.set(name, [], "Bag")
    else:
        editor.set(COPIED, [t for t in packet.values(COPIED) if key(t) not in gone], "Bag")
    merged = _merged(packet, editor, {key(tag) for tag in packet.values(COPIED)})
    return merged._replace(removed=[]) if keep else merged


def _merged(packet: Packet, editor: Editor, said: set[str]) -> Merged:
    """The result, without the tags that the person says himself among the news."""
    if not editor.is_changed:
        return Merged(packet.document.splice([]), [], [])
    data = editor.result()
    after = Packet(data)
    now = {key(tag): tag for tag in after.added()}
    then = {key(tag): tag for tag in packet.added() if tag not in packet.taken_away}
    return Merged(
        None if packet.values(CREATED) and after.is_empty() else data,
        [tag for name, tag in now.items() if name not in then and name not in said],
        [tag for name, tag in then.items() if name not in now and name not in said],
    )


def _write(editor: Editor, wanted: dict[Name, list[str]], *, remove: bool = True) -> list[str]:
    """Entries of the three lists, and the marks that tell ours from a person's.

    What carries a mark afterwards is returned.
    """
    marks: dict[Name, set[str]] = {}
    for name, written in WRITES.items():
        ours, persons = editor.packet.shares(name)
        theirs = {key(text) for text in persons}
        texts = unique([written(tag) for tag in wanted[name]])
        editor.change(
            name,
            [text for text in ours if text not in texts] if remove else [],
            [text for text in texts if text not in ours and key(text) not in theirs],
            "Seq" if name == TAGS_LIST else "Bag",
        )
        marks[name] = {tag for tag in wanted[name] if key(written(tag)) not in theirs}
    every = unique([tag for tags in wanted.values() for tag in tags])
    added = [tag for tag in every if any(tag in marked for marked in marks.values())]
    editor.set(ADDED, added, "Bag")
    for name, marked in marks.items():
        editor.set(THEIRS[name], [tag for tag in added if tag not in marked], "Bag")
    return added
