"""XMP packet: properties, the person's keywords, and the provenance markers of added tags.

Keywords are the top-level properties in ``READ_PROPERTIES``, with any prefixes, containers
(``rdf:Bag``, ``rdf:Seq``, ``rdf:Alt``) or short forms. Properties of ProtoTag's namespace mark the
tags that it added to the three properties that it writes.
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
NAMESPACE = "prototag:ns:1.0/"  # a name, not an address, like Adobe's own adobe:ns:meta/

SUBJECT = ("http://purl.org/dc/elements/1.1/", "subject")
TAGS_LIST = ("http://www.digikam.org/ns/1.0/", "TagsList")
HIERARCHICAL = ("http://ns.adobe.com/lightroom/1.0/", "hierarchicalSubject")
ADDED = (NAMESPACE, "added")  # the tags that ProtoTag wrote
# Added tags whose entry in a list is not ours but the person's. The local names are unique across
# namespaces, because exiftool identifies properties by local name.
NOT_ADDED_IN = {
    SUBJECT: (NAMESPACE, "theirsInSubject"),
    TAGS_LIST: (NAMESPACE, "theirsInTagsList"),
    HIERARCHICAL: (NAMESPACE, "theirsInHierarchicalSubject"),
}
REJECTED = (NAMESPACE, "rejected")  # removed by a person: never proposed again
COPIED = (
    NAMESPACE,
    "copied",
)  # added tags that repeat a keyword of the person in another list or in the picture
CREATED = (NAMESPACE, "created")  # the sidecar did not exist before
PERSONS_DIGEST = (NAMESPACE, "seen")  # digest of the person's tags at the time of writing

_CATEGORIES = ("http://ns.acdsee.com/iptc/1.0/", "categories")
# Conversion of a tag to the text of a property, and of the text to a tag.
WRITTEN_PROPERTIES: dict[Name, Callable[[str], str]] = {
    SUBJECT: leaf,
    TAGS_LIST: with_slashes,
    HIERARCHICAL: str,
}
READ_PROPERTIES: dict[Name, Callable[[str], str]] = {
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
    """Keywords of one picture by their origin.

    Attributes
    ----------
    tags : tuple of str
        Keywords of the person, hierarchical ones as ``animal|cat``.
    added : tuple of str
        Keywords that ProtoTag added.
    rejected : tuple of str
        Added tags that the person removed.
    copied : tuple of str
        Added tags that repeat a keyword of the person in another list or in the picture.
    touched : bool
        Whether the person has edited the tags since ProtoTag wrote.
    """

    tags: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    touched: bool = False


@dataclass(eq=False)
class Property:
    """A property of an rdf:Description; ``element`` is None if it is an attribute."""

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
        If it is not well-formed, too large, or not XMP; the message does not name the file.
    """

    def __init__(self, data: bytes) -> None:
        self.document: Document = parse(data)
        root = self.document.root
        rdf = next((node for node in root.walk() if node.name == (RDF, "RDF")), None)
        if rdf is None:
            raise MetadataError("is XML, but not XMP: it has no rdf:RDF")
        self.rdf: Element = rdf
        self.descriptions = [node for node in rdf.children if node.name == (RDF, "Description")]
        self._values: dict[Name, list[str]] = {}

    def properties(self, name: Name) -> list[Property]:
        """Find all occurrences of a top-level property."""
        result = []
        for description in self.descriptions:
            if name in description.attributes:
                text = description.attributes[name]
                values = [text] if text.strip() else []
                result.append(Property(name, description, None, None, values))
            for node in description.children:
                if node.name == name:
                    result.append(_property(name, description, node))
        return result

    def values(self, name: Name) -> list[str]:
        """Return the normalized texts of a property."""
        if name not in self._values:
            texts = (clean(value) for place in self.properties(name) for value in place.values)
            self._values[name] = [text for text in texts if text]
        return [*self._values[name]]

    def is_empty(self) -> bool:
        """Return whether the packet has no properties except empty lists."""
        return len(self.descriptions) == len(self.rdf.children) and not any(
            node.attributes.keys() - _SILENT
            or any(not _is_silent(child) for child in node.children)
            for node in self.descriptions
        )

    def added(self) -> list[str]:
        """Return the tags that ProtoTag added, including those that the person has removed."""
        return unique(self.values(ADDED))

    def marked(self, name: Name) -> list[str]:
        """Return the added tags whose entry in a list is ours."""
        theirs = {key(tag) for tag in self.values(NOT_ADDED_IN[name])}
        return [tag for tag in self.added() if key(tag) not in theirs]

    def split_entries(self, name: Name) -> tuple[list[str], list[str]]:
        """Split the entries of a list into ours and the person's.

        A mark covers one entry: of two equal entries the second is the person's.
        """
        marked = dict.fromkeys(WRITTEN_PROPERTIES[name](tag) for tag in self.marked(name))
        program_tags: set[str] = set()
        persons = []
        for text in self.values(name):
            if text in marked and text not in program_tags:
                program_tags.add(text)
            else:
                persons.append(text)
        return [text for text in marked if text in program_tags], persons

    @cached_property
    def removed(self) -> dict[str, None]:
        """Added tags that the person removed, in order.

        ``dc:subject`` decides, because every program edits it. If our entry was not in it, a tag
        counts as removed when it is missing in all lists that had it.
        """
        gone: dict[str, None] = {}
        marked = {name: set(self.marked(name)) for name in WRITTEN_PROPERTIES}
        present = {name: {key(text) for text in self.values(name)} for name in WRITTEN_PROPERTIES}
        for tag in self.added():
            names = [name for name in WRITTEN_PROPERTIES if tag in marked[name]]
            names = [SUBJECT] if SUBJECT in names else names
            if not any(key(WRITTEN_PROPERTIES[name](tag)) in present[name] for name in names):
                gone[tag] = None
        return gone

    def keywords(self) -> Keywords:
        """Return the person's tags and ours, separated by the marks."""
        paths: list[str] = []
        flat: list[str] = []
        for name, read in READ_PROPERTIES.items():
            values = (
                self.split_entries(name)[1] if name in WRITTEN_PROPERTIES else self.values(name)
            )
            target = flat if name == SUBJECT or name[1] == "keywords" else paths
            target += [read(text) for text in values]
        paths += self._categories()
        ours = [tag for tag in self.added() if tag not in self.removed]
        copied = set(self.values(COPIED))
        persons = combine(paths, flat)
        seen = self.values(PERSONS_DIGEST)
        return Keywords(
            tags=tuple(persons),
            added=tuple(tag for tag in ours if tag not in copied),
            rejected=tuple(unique([*self.values(REJECTED), *self.removed])),
            copied=tuple(tag for tag in ours if tag in copied),
            touched=bool(self.removed or self.values(REJECTED))
            or (bool(seen) and seen[0] != tags_digest(persons)),
        )

    def _categories(self) -> list[str]:
        """Read the categories of ACDSee, which are XML in a string."""
        categories = []
        for text in self.values(_CATEGORIES):
            try:
                root = parse(text.encode()).root
            except MetadataError:
                continue  # an unreadable value has no keywords
            for node in root.walk():
                if node.attributes.get(("", "Assigned")) == "1":
                    categories.append(_category(node))
        return categories


def tags_digest(tags: Iterable[str]) -> str:
    """Compute a short digest of tags, independent of their order."""
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
    """Return whether a property is empty, or an empty list."""
    inner = [child for child in node.children if child.name in _CONTAINERS]
    bare = all(not (n.attributes or n.text.strip()) for n in (node, *inner))
    return bare and len(inner) == len(node.children) and not any(n.children for n in inner)


def _value(node: Element) -> str:
    """Return the text of an item; with qualifiers it is in an rdf:value element or attribute."""
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
