"""Editor of XMP packets: adds and removes tags, with marks of their provenance.

``merge`` and ``strip`` return the new bytes of a packet, spliced by :class:`Editor`. Existing
content keeps its bytes and order. New items follow the last item of an existing list; new lists are
in an rdf:Description of our own, with the marks.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from prototag.metadata.tag_names import TagLookup, clean, key, leaf, union, unique
from prototag.metadata.xmp.packet import (
    ADDED,
    COPIED,
    CREATED,
    HIERARCHICAL,
    NAMESPACE,
    NOT_ADDED_IN,
    PERSONS_DIGEST,
    RDF,
    REJECTED,
    SUBJECT,
    TAGS_LIST,
    WRITTEN_PROPERTIES,
    Packet,
    Property,
    tags_digest,
)
from prototag.metadata.xmp.xml_tree import Edit, Element, Name, escape

_PREFIXES = {
    RDF: "rdf",
    NAMESPACE: "prototag",
    SUBJECT[0]: "dc",
    TAGS_LIST[0]: "digiKam",
    HIERARCHICAL[0]: "lr",
}
_EMPTY = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="ProtoTag">\n'
    ' <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n'
    " </rdf:RDF>\n"
    "</x:xmpmeta>\n"
    '<?xpacket end="w"?>\n'
).encode()


class Merged(NamedTuple):
    """New bytes of a packet, with the added and removed tags."""

    data: bytes | None  # None if a packet that we created is empty again
    added: list[str]
    removed: list[str]


def merge(
    data: bytes | None, tags: Iterable[str], *, inside: Sequence[str] = (), replace: bool = True
) -> Merged:
    """Set the tags added by ProtoTag in a packet; the person's own stay.

    Parameters
    ----------
    data : bytes or None
        The packet; None for a new one.
    tags : iterable of str
        Tags, hierarchical ones as ``animal|cat``.
    inside : sequence of str
        The person's keywords inside the picture.
    replace : bool
        False keeps earlier added tags that are not among ``tags``.
    """
    packet = Packet(_EMPTY if data is None else data)
    before = packet.keywords()
    persons = {key(tag): tag for tag in union([[*before.tags], unique([*inside])])}
    rejected = unique([*packet.values(REJECTED), *packet.removed])
    copied = set(packet.values(COPIED))
    refused = {key(tag) for tag in rejected}
    old = [] if replace else [tag for tag in packet.added() if tag not in copied]
    ours = [tag for tag in unique([*old, *tags]) if key(tag) not in refused]
    if data is None and not ours:
        return Merged(None, [], [])
    entries = {}
    for name in WRITTEN_PROPERTIES:
        # Some programs read one list only, and not the keywords in the picture. So a list without
        # the person's entries receives copies of their other keywords; a list with such entries
        # keeps the copies that it has.
        copies = [tag for tag in packet.marked(name) if tag in copied]
        if not packet.split_entries(name)[1]:
            copies = list(persons.values()) if ours else []
        copies = [tag for tag in copies if key(tag) in persons and key(tag) not in refused]
        entries[name] = unique([persons.get(key(tag), tag) for tag in (*copies, *ours)])
    editor = Editor(packet)
    written = _write(editor, entries)
    editor.set(REJECTED, rejected, "Bag")
    from_persons = [tag for tag in written if key(tag) in persons or key(leaf(tag)) in persons]
    editor.set(COPIED, from_persons, "Bag")
    if not before.touched:  # an edit stays recorded
        editor.set(PERSONS_DIGEST, [tags_digest(before.tags)] if written else [], None)
    if data is None:
        editor.set(CREATED, ["True"], None)
    elif not written and not rejected:
        editor.set(CREATED, [], None)
    return _merged(packet, editor, {*persons})


def strip(data: bytes, tags: Iterable[str] | None = None, *, keep: bool = False) -> Merged:
    """Remove the tags that ProtoTag added: all with their marks, or only ``tags``.

    ``tags`` are matched as people type them. ``keep`` removes the marks only: the tags become the
    person's own.
    """
    packet = Packet(data)
    before = packet.added()
    known = TagLookup(before)
    meant = before if tags is None else [tag for name in tags for tag in known.find(name)]
    gone = {key(tag) for tag in meant}
    rest = [tag for tag in before if key(tag) not in gone and tag not in packet.removed]
    editor = Editor(packet)
    marked = {name: set(packet.marked(name)) for name in WRITTEN_PROPERTIES}
    entries = {name: [tag for tag in rest if tag in marked[name]] for name in WRITTEN_PROPERTIES}
    _write(editor, entries, remove=not keep)
    if tags is None:
        for name in (REJECTED, COPIED, CREATED, PERSONS_DIGEST):
            editor.set(name, [], "Bag")
    else:
        editor.set(COPIED, [t for t in packet.values(COPIED) if key(t) not in gone], "Bag")
    merged = _merged(packet, editor, {key(tag) for tag in packet.values(COPIED)})
    return merged._replace(removed=[]) if keep else merged


def _merged(packet: Packet, editor: Editor, from_persons: set[str]) -> Merged:
    """Return the result; copies of the person's tags are not reported as added or removed."""
    if not editor.is_changed:
        return Merged(packet.document.splice([]), [], [])
    data = editor.result()
    after = Packet(data)
    now = {key(tag): tag for tag in after.added()}
    then = {key(tag): tag for tag in packet.added() if tag not in packet.removed}
    return Merged(
        None if packet.values(CREATED) and after.is_empty() else data,
        [tag for name, tag in now.items() if name not in then and name not in from_persons],
        [tag for name, tag in then.items() if name not in now and name not in from_persons],
    )


def _write(editor: Editor, entries: dict[Name, list[str]], *, remove: bool = True) -> list[str]:
    """Write the entries of the three lists, and the marks of ours.

    Return the marked tags.
    """
    marks: dict[Name, set[str]] = {}
    for name, written in WRITTEN_PROPERTIES.items():
        ours, persons = editor.packet.split_entries(name)
        theirs = {key(text) for text in persons}
        texts = dict.fromkeys(unique([written(tag) for tag in entries[name]]))
        there = set(ours)
        editor.change(
            name,
            [text for text in ours if text not in texts] if remove else [],
            [text for text in texts if text not in there and key(text) not in theirs],
            "Seq" if name == TAGS_LIST else "Bag",
        )
        marks[name] = {tag for tag in entries[name] if key(written(tag)) not in theirs}
    every = unique([tag for tags in entries.values() for tag in tags])
    added = [tag for tag in every if any(tag in marked for marked in marks.values())]
    editor.set(ADDED, added, "Bag")
    for name, marked in marks.items():
        editor.set(NOT_ADDED_IN[name], [tag for tag in added if tag not in marked], "Bag")
    return added


class Editor:
    """Collector of edits of one packet, which :meth:`result` applies."""

    def __init__(self, packet: Packet) -> None:
        self.packet = packet
        self.edits: list[Edit] = []
        self.gone: list[Element] = []  # properties to remove entirely
        self.fresh: list[tuple[Name, str | None, list[str]]] = []

    @property
    def is_changed(self) -> bool:
        """Whether there are edits."""
        return bool(self.edits or self.gone or self.fresh)

    def set(self, name: Name, texts: list[str], kind: str | None) -> None:
        """Set the texts of a list; those that stay keep their position."""
        old = self.packet.values(name)
        was = set(old)
        will = set(texts)
        self.change(
            name, [t for t in old if t not in will], [t for t in texts if t not in was], kind
        )

    def change(self, name: Name, drop: list[str], add: list[str], kind: str | None) -> None:
        """Remove texts from a list (each once, from its end) and append others."""
        places = self.packet.properties(name)
        left = Counter(drop)
        for place in reversed(places):
            last = add if place is places[0] else []
            self._change(place, left, last)
        if add and not places:
            self.fresh.append((name, kind, add))

    def _change(self, place: Property, drop: Counter[str], add: list[str]) -> None:
        doc = self.packet.document
        out = []
        for i in reversed(range(len(place.values))):
            if drop[text := clean(place.values[i])]:
                drop[text] -= 1
                out.append(i)
        if not out and not add:
            return
        if len(out) == len(place.values) and not add:
            self._remove(place)
        elif place.element is None:
            self._remove(place)
            self.fresh.append((place.name, "Bag", ([] if out else place.values) + add))
        elif place.container is None:
            self._wrap(place.element, add, keep=not out)
        else:
            for i in out:
                item = place.items[i]
                self.edits.append(Edit(item.start - len(doc.space_before(item)), item.end, b""))
            self._append(place.container, place.items, add)

    def _append(self, container: Element, items: list[Element], add: list[str]) -> None:
        """Append items with the indentation of the last one."""
        doc = self.packet.document
        prefix = _qualifier(doc.text, container)
        last = items[-1] if items else None
        space = doc.space_before(last) if last else b""
        text = b"".join(space + _item(prefix, value) for value in add)
        if last:
            self.edits.append(Edit(last.end, last.end, text))
        elif add:
            self.edits.append(_inside(doc.text, container, text))

    def _wrap(self, element: Element, add: list[str], *, keep: bool) -> None:
        """Convert a property of plain text, or an empty one, to a list."""
        doc = self.packet.document
        bag, declared = self._name(element, (RDF, "Bag"))
        prefix = bag.removesuffix("Bag")
        old = doc.text[element.content : element.close] if keep and element.text.strip() else b""
        items = (f"<{prefix}li>".encode() + old + f"</{prefix}li>".encode()) if old else b""
        items += b"".join(_item(prefix, value) for value in add)
        text = f"<{bag}{declared}>".encode() + items + f"</{bag}>".encode()
        if element.is_empty_tag:
            self.edits.append(_inside(doc.text, element, text))
        else:
            self.edits.append(Edit(element.content, element.close, text))

    def _remove(self, place: Property) -> None:
        if place.element is not None:
            self.gone.append(place.element)
        elif (edit := self.packet.document.attribute(place.description, place.name)) is not None:
            self.edits.append(edit)

    def _name(self, scope: Element, name: Name) -> tuple[str, str]:
        """Return the qualified name inside an element, and the declaration that it needs."""
        prefix = scope.prefix(name[0])
        if prefix is not None:
            return f"{prefix}:{name[1]}", ""
        prefix = _PREFIXES[name[0]]
        return f"{prefix}:{name[1]}", f' xmlns:{prefix}="{name[0]}"'

    def result(self) -> bytes:
        """Apply all edits and return the packet."""
        doc = self.packet.document
        home = self._home()
        removed = set(map(id, self.gone))
        edits = sorted(self.edits)
        dropped = set[Edit]()
        for description in self.packet.descriptions:
            gone = [node for node in description.children if id(node) in removed]
            attributes = {name for name in description.attributes if name[0] not in (RDF, "")}
            tag = description.start, description.content - 1
            cut = edits[slice(*(bisect(edits, at, key=attrgetter("start")) for at in tag))]
            if (
                (gone or cut)
                and len(gone) == len(description.children)
                and len(attributes) == len(cut)
                and not (self.fresh and description is home)
            ):
                dropped.update(cut)
                gone = [description]
            for node in gone:
                self.edits.append(Edit(node.start - len(doc.space_before(node)), node.end, b""))
        self.edits = [edit for edit in self.edits if edit not in dropped]
        if self.fresh:
            self._insert(home)
        return doc.splice(self.edits)

    def _home(self) -> Element | None:
        """Find the description with our marks."""
        for description in self.packet.descriptions:
            if any(node.name[0] == NAMESPACE for node in description.children):
                return description
        return None

    def _insert(self, home: Element | None) -> None:
        doc = self.packet.document
        if home is not None:
            last = home.children[-1]
            space = doc.space_before(last).decode()
            text = "".join(
                space + self._element(home, fresh, space, _unit(doc.text, last))
                for fresh in self.fresh
            )
            self.edits.append(Edit(last.end, last.end, text.encode()))
            return
        rdf = self.packet.rdf
        if self.packet.descriptions:
            last = self.packet.descriptions[-1]
            space = doc.space_before(last).decode()
            unit = _unit(doc.text, last)
        else:
            space = doc.space_before(rdf).decode()
            unit = " " if space else ""
            space += unit
        text = space + self._description(space, unit)
        if self.packet.descriptions:
            self.edits.append(Edit(last.end, last.end, text.encode()))
        else:
            self.edits.append(_inside(doc.text, rdf, text.encode()))

    def _description(self, space: str, unit: str) -> str:
        """Build a description with the new properties and their namespaces."""
        rdf = self.packet.rdf
        about = next(
            (
                value
                for node in self.packet.descriptions
                for name, value in node.attributes.items()
                if name in ((RDF, "about"), ("", "about"))
            ),
            "",
        )
        spaces = dict.fromkeys([RDF, *(name[0] for name, _, _ in self.fresh)])
        missing = {uri: _PREFIXES[uri] for uri in spaces if rdf.prefix(uri) is None}
        scope = Element(
            (RDF, "Description"), rdf, {}, {prefix: uri for uri, prefix in missing.items()}, 0, 0
        )
        tag, _ = self._name(scope, (RDF, "Description"))
        about_name = tag.removesuffix("Description") + "about"
        quoted = escape(about).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")
        inner = space + unit
        gap = inner or " "
        return (
            f'<{tag} {about_name}="{quoted}"'
            + "".join(f'{gap}xmlns:{prefix}="{uri}"' for uri, prefix in missing.items())
            + ">"
            + "".join(inner + self._element(scope, fresh, inner, unit) for fresh in self.fresh)
            + f"{space}</{tag}>"
        )

    def _element(
        self, scope: Element, fresh: tuple[Name, str | None, list[str]], space: str, unit: str
    ) -> str:
        name, kind, texts = fresh
        tag, declared = self._name(scope, name)
        if kind is None:
            return f"<{tag}{declared}>{escape(texts[0])}</{tag}>"
        bag, rdf_declared = self._name(scope, (RDF, kind))
        prefix = bag.removesuffix(kind)
        inner = space + unit
        items = "".join(inner + unit + _item(prefix, text).decode() for text in texts)
        return f"<{tag}{declared}>{inner}<{bag}{rdf_declared}>{items}{inner}</{bag}>{space}</{tag}>"


def _item(prefix: str, text: str) -> bytes:
    return f"<{prefix}li>{escape(text)}</{prefix}li>".encode()


def _qualifier(text: bytes, element: Element) -> str:
    """Return the prefix of an element with its colon, empty in the default namespace."""
    tag = text[element.start + 1 : element.content].split(None, 1)[0].rstrip(b"/>").decode()
    return tag.removesuffix(element.name[1])


def _inside(text: bytes, element: Element, content: bytes) -> Edit:
    """Insert content at the beginning of an element; ``<a/>`` becomes ``<a>...</a>``."""
    if not element.is_empty_tag:
        return Edit(element.content, element.content, content)
    tag = _qualifier(text, element) + element.name[1]
    return Edit(element.content - 2, element.content, b">" + content + f"</{tag}>".encode())


def _unit(text: bytes, element: Element) -> str:
    """Return one step of indentation: that of an element relative to its parent."""
    parent = element.parent
    deep = _indent(text, element)
    shallow = _indent(text, parent) if parent else None
    if deep is None:
        return ""
    if shallow is not None and deep.startswith(shallow) and len(deep) > len(shallow):
        return deep[len(shallow) :]
    return " "


def _indent(text: bytes, element: Element) -> str | None:
    """Return the indentation of an element; None if it does not begin its line."""
    line = text[text.rfind(b"\n", 0, element.start) + 1 : element.start]
    return line.decode() if not line.strip() and element.start > len(line) else None
