"""Lists of a packet changed by splices: a packet and wishes -> its new bytes.

What is there keeps its bytes and its order. New items follow the last one of a list that exists; a
list that does not exist comes in an rdf:Description of our own, with the marks.
"""

from __future__ import annotations

from prototag.metadata.spelling import clean
from prototag.metadata.xmp.markup import Edit, Element, Name, escape
from prototag.metadata.xmp.packet import (
    HIERARCHICAL,
    OURS,
    RDF,
    SUBJECT,
    TAGS_LIST,
    Packet,
    Property,
)

_PREFIXES = {
    RDF: "rdf",
    OURS: "prototag",
    SUBJECT[0]: "dc",
    TAGS_LIST[0]: "digiKam",
    HIERARCHICAL[0]: "lr",
}


class Editor:
    """Collects the splices of one packet; :meth:`result` makes them."""

    def __init__(self, packet: Packet) -> None:
        self.packet = packet
        self.edits: list[Edit] = []
        self.gone: list[Element] = []  # whole properties
        self.fresh: list[tuple[Name, str | None, list[str]]] = []

    @property
    def is_changed(self) -> bool:
        return bool(self.edits or self.gone or self.fresh)

    def set(self, name: Name, texts: list[str], kind: str | None) -> None:
        """Make the list hold these texts; those that stay keep their place."""
        old = self.packet.values(name)
        self.change(
            name, [t for t in old if t not in texts], [t for t in texts if t not in old], kind
        )

    def change(self, name: Name, drop: list[str], add: list[str], kind: str | None) -> None:
        """Take texts out of a list (each once, from its end) and append others."""
        places = self.packet.properties(name)
        drop = list(drop)
        for place in reversed(places):
            last = add if place is places[0] else []
            self._change(place, drop, last)
        if add and not places:
            self.fresh.append((name, kind, add))

    def _change(self, place: Property, drop: list[str], add: list[str]) -> None:
        doc = self.packet.document
        out = []
        for i in reversed(range(len(place.values))):
            if (text := clean(place.values[i])) in drop:
                drop.remove(text)
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
                space = doc.space_before(item)
                self.edits.append(Edit(item.start - len(space), item.end, b""))
            self._append(place.container, place.items, add)

    def _append(self, container: Element, items: list[Element], add: list[str]) -> None:
        """New items after the last one, indented as it is."""
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
        """A property of plain text, or an empty one, becomes a list."""
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
        """The qualified name inside an element, and the declaration that it needs there."""
        prefix = scope.prefix(name[0])
        if prefix is not None:
            return f"{prefix}:{name[1]}", ""
        prefix = _PREFIXES[name[0]]
        return f"{prefix}:{name[1]}", f' xmlns:{prefix}="{name[0]}"'

    def result(self) -> bytes:
        doc = self.packet.document
        home = self._home()
        for description in self.packet.descriptions:
            gone = [node for node in description.children if node in self.gone]
            attributes = {name for name in description.attributes if name[0] not in (RDF, "")}
            cut = [e for e in self.edits if description.start < e.start < description.content]
            if (
                (gone or cut)
                and len(gone) == len(description.children)
                and len(attributes) == len(cut)
                and not (self.fresh and description is home)
            ):
                self.edits = [e for e in self.edits if e not in cut]
                gone = [description]
            for node in gone:
                space = doc.space_before(node)
                self.edits.append(Edit(node.start - len(space), node.end, b""))
        if self.fresh:
            self._insert(home)
        return doc.splice(self.edits)

    def _home(self) -> Element | None:
        """The description that holds our marks."""
        for description in self.packet.descriptions:
            if any(node.name[0] == OURS for node in description.children):
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
        """A new description with the fresh properties, its namespaces declared on it."""
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
    """The prefix with its colon as the file spells it; empty in the default namespace."""
    tag = text[element.start + 1 : element.content].split(None, 1)[0].rstrip(b"/>").decode()
    return tag.removesuffix(element.name[1])


def _inside(text: bytes, element: Element, content: bytes) -> Edit:
    """Put content at the beginning of an element; ``<a/>`` is opened for it."""
    if not element.is_empty_tag:
        return Edit(element.content, element.content, content)
    tag = _qualifier(text, element) + element.name[1]
    return Edit(element.content - 2, element.content, b">" + content + f"</{tag}>".encode())


def _unit(text: bytes, element: Element) -> str:
    """One step of indentation: how much deeper an element stands than its parent."""
    parent = element.parent
    deep, shallow = _indent(text, element), _indent(text, parent) if parent else None
    if deep is None:
        return ""
    if shallow is not None and deep.startswith(shallow) and len(deep) > len(shallow):
        return deep[len(shallow) :]
    return " "


def _indent(text: bytes, element: Element) -> str | None:
    """The white space that begins an element's line; None where it does not begin one."""
    line = text[text.rfind(b"\n", 0, element.start) + 1 : element.start]
    return line.decode() if not line.strip() and element.start > len(line) else None
