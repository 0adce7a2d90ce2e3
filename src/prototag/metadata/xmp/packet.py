"""An XMP packet: its properties, the keywords a person gave, and the marks of what we added.

Keywords are the top-level properties named in ``READS``, whatever prefixes, containers
(``rdf:Bag``, ``rdf:Seq``, ``rdf:Alt``) or short forms a program chose. What ProtoTag added to each
of the three that it writes is marked by properties of its own namespace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from prototag.errors import MetadataError
from prototag.metadata.tag_names import (
    SEPARATOR,
    clean,
    combine,
    from_slashes,
    key,
    leaf,
    unique,
    with_slashes,
)
from prototag.metadata.xmp.xml_tree import Document, Element, Name, parse

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
OURS = "prototag:ns:1.0/"  # a name, not an address, like Adobe's own adobe:ns:meta/

SUBJECT = ("http://purl.org/dc/elements/1.1/", "subject")
TAGS_LIST = ("http://www.digikam.org/ns/1.0/", "TagsList")
HIERARCHICAL = ("http://ns.adobe.com/lightroom/1.0/", "hierarchicalSubject")
ADDED = (OURS, "added")  # the tags that ProtoTag wrote
# Of these, the ones that are not ours in a list of the packet: there the entry is a person's. No
# local name is one of another namespace: exiftool offers properties by that alone.
THEIRS = {
    SUBJECT: (OURS, "theirsInSubject"),
    TAGS_LIST: (OURS, "theirsInTagsList"),
    HIERARCHICAL: (OURS, "theirsInHierarchicalSubject"),
}
REJECTED = (OURS, "rejected")  # ours once, taken away by a person: never proposed again
COPIED = (OURS, "copied")  # those of ``added`` that a person says elsewhere
CREATED = (OURS, "created")  # the sidecar did not exist before
SEEN = (OURS, "seen")  # a digest of the person's tags when ours were written

_CATEGORIES = ("http://ns.acdsee.com/iptc/1.0/", "categories")
# How a tag is written into a property, and how the text of a property becomes a tag.
WRITES: dict[Name, Callable[[str], str]] = {
    SUBJECT: leaf,
    TAGS_LIST: with_slashes,
    HIERARCHICAL: str,
}
READS: dict[Name, Callable[[str], str]] = {
    HIERARCHICAL: clean,
    TAGS_LIST: lambda text: clean(from_slashes(text)),
    ("http://ns.microsoft.com/photo/1.0/", "LastKeywordXMP"): lambda text: clean(
        from_slashes(text)
    ),
    ("http://ns.iview-multimedia.com/mediapro/1.0/", "CatalogSets"): clean,
    SUBJECT: clean,
    ("http://ns.acdsee.com/iptc/1.0/", "keywords"): clean,
}

_CONTAINERS = {(RDF, "Bag"), (RDF, "Seq"), (RDF, "Alt")}
_SILENT = {(RDF, "about"), ("", "about"), (RDF, "ID"), (RDF, "nodeID")}


@dataclass(frozen=True)
class Keywords:
    """What one picture is tagged with, and by whom.

    Attributes
    ----------
    tags : tuple of str
        A person's, hierarchical ones as ``animal|cat``.
    added : tuple of str
        ProtoTag's.
    rejected : tuple of str
        ProtoTag's once; a person took them away.
    copied : tuple of str
        Written by ProtoTag too, but repeating what the person says in another list or inside the
        picture.
    touched : bool
        Whether the person has changed tags of this picture since ProtoTag wrote its own.
    """

    tags: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    touched: bool = False


@dataclass(eq=False)
class Property:
    """One property of one rdf:Description; ``element`` is None where it is an attribute."""

    name: Name
    description: Element
    element: Element | None
    container: Element | None
    values: list[str]
    items: list[Element] = field(default_factory=list)  # one for each value, in a container


class Packet:
    """A parsed packet.

    Raises
    ------
    MetadataError
        Not well-formed, hostile, or no XMP; the message names no file.
    """

    def __init__(self, data: bytes) -> None:
        self.document: Document = parse(data)
        root = self.document.root
        found = next((node for node in root.walk() if node.name == (RDF, "RDF")), None)
        if found is None:
            raise MetadataError("is XML, but not XMP: it holds no rdf:RDF")
        self.rdf: Element = found
        self.descriptions = [node for node in found.children if node.name == (RDF, "Description")]
        self._values: dict[Name, list[str]] = {}

    def properties(self, name: Name) -> list[Property]:
        """Every occurrence of a top-level property."""
        found = []
        for description in self.descriptions:
            if name in description.attributes:
                text = description.attributes[name]
                values = [text] if text.strip() else []
                found.append(Property(name, description, None, None, values))
            for node in description.children:
                if node.name == name:
                    found.append(_property(name, description, node))
        return found

    def values(self, name: Name) -> list[str]:
        """The texts of a property, cleaned."""
        if name not in self._values:
            texts = (clean(value) for place in self.properties(name) for value in place.values)
            self._values[name] = [text for text in texts if text]
        return [*self._values[name]]

    def is_empty(self) -> bool:
        """Whether the packet says nothing about the picture; an empty list says nothing."""
        return len(self.descriptions) == len(self.rdf.children) and not any(
            node.attributes.keys() - _SILENT
            or any(not _is_silent(child) for child in node.children)
            for node in self.descriptions
        )

    def added(self) -> list[str]:
        """Tags that ProtoTag wrote and has not taken back, whether or not they are still there."""
        return unique(self.values(ADDED))

    def marked(self, name: Name) -> list[str]:
        """Those of them whose entry in a list is ours."""
        theirs = {key(tag) for tag in self.values(THEIRS[name])}
        return [tag for tag in self.added() if key(tag) not in theirs]

    def shares(self, name: Name) -> tuple[list[str], list[str]]:
        """The entries of a list that are ours and those that are a person's.

        One mark stands for one entry: of two equal ones the second is a person's.
        """
        marked = dict.fromkeys(WRITES[name](tag) for tag in self.marked(name))
        found: set[str] = set()
        persons = []
        for text in self.values(name):
            if text in marked and text not in found:
                found.add(text)
            else:
                persons.append(text)
        return [text for text in marked if text in found], persons

    @cached_property
    def taken_away(self) -> dict[str, None]:
        """The tags of ours that a person removed, in their order.

        The plain list of keywords decides, which every program edits; if our entry was not in it,
        a tag must be gone from all lists that had it.
        """
        gone: dict[str, None] = {}
        marked = {name: set(self.marked(name)) for name in WRITES}
        present = {name: {key(text) for text in self.values(name)} for name in WRITES}
        for tag in self.added():
            names = [name for name in WRITES if tag in marked[name]]
            names = [SUBJECT] if SUBJECT in names else names
            if not any(key(WRITES[name](tag)) in present[name] for name in names):
                gone[tag] = None
        return gone

    def keywords(self) -> Keywords:
        """A person's tags and ours, told apart by the marks."""
        paths: list[str] = []
        flat: list[str] = []
        for name, read in READS.items():
            values = self.shares(name)[1] if name in WRITES else self.values(name)
            target = flat if name == SUBJECT or name[1] == "keywords" else paths
            target += [read(text) for text in values]
        paths += self._categories()
        ours = [tag for tag in self.added() if tag not in self.taken_away]
        copied = set(self.values(COPIED))
        persons = combine(paths, flat)
        seen = self.values(SEEN)
        return Keywords(
            tags=tuple(persons),
            added=tuple(tag for tag in ours if tag not in copied),
            rejected=tuple(unique([*self.values(REJECTED), *self.taken_away])),
            copied=tuple(tag for tag in ours if tag in copied),
            touched=bool(self.taken_away or self.values(REJECTED))
            or (bool(seen) and seen[0] != digest(persons)),
        )

    def _categories(self) -> list[str]:
        """ACDSee keeps its tree of categories as XML in a string."""
        found = []
        for text in self.values(_CATEGORIES):
            try:
                root = parse(text.encode()).root
            except MetadataError:
                continue  # what cannot be understood is no keyword
            for node in root.walk():
                if node.attributes.get(("", "Assigned")) == "1":
                    found.append(_category(node))
        return found


def digest(tags: Iterable[str]) -> str:
    """Short, and the same for the same tags in any order."""
    text = "\n".join(sorted({key(tag) for tag in tags}))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _property(name: Name, description: Element, node: Element) -> Property:
    container = next((child for child in node.children if child.name in _CONTAINERS), None)
    if container is None:
        text = _value(node)
        return Property(name, description, node, None, [text] if text.strip() else [])
    items = [item for item in container.children if item.name == (RDF, "li")]
    return Property(name, description, node, container, [_value(item) for item in items], items)


def _is_silent(node: Element) -> bool:
    """Whether a property is empty, or an empty list."""
    inner = [child for child in node.children if child.name in _CONTAINERS]
    bare = all(not (n.attributes or n.text.strip()) for n in (node, *inner))
    return bare and len(inner) == len(node.children) and not any(n.children for n in inner)


def _value(node: Element) -> str:
    """The text of an item; with qualifiers it stands in an rdf:value, as element or attribute."""
    if (RDF, "value") in node.attributes:
        return node.attributes[(RDF, "value")]
    for child in node.children:
        if child.name in ((RDF, "value"), (RDF, "Description")):
            return _value(child)
    return node.text if not node.children else ""


def _category(node: Element) -> str:
    names: list[str] = []
    at: Element | None = node
    while at is not None and at.name[1] == "Category":
        names.insert(0, clean(at.text))
        at = at.parent
    return SEPARATOR.join(name for name in names if name)
