"""XML tree with byte positions, so that edits are splices.

The text is decoded strictly and re-encoded exactly, so unedited parts keep their bytes. Document
types, and with them all entities, are refused, and so are documents that are too large, too deep or
have too many elements.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat

from prototag.errors import MetadataError

MAX_BYTES = 16 << 20
MAX_DEPTH = 100
MAX_ELEMENTS = 200_000

Name = tuple[str, str]  # namespace, local name

# Longest first: the byte order mark of UTF-32 begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ONE_BYTE = {"us-ascii": "ascii", "ascii": "ascii", "iso-8859-1": "latin-1", "latin1": "latin-1"}
_TAG = re.compile(rb"""<[^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*>""")
_ATTRIBUTE = re.compile(rb"""\s+([^\s=]+)\s*=\s*(?:"[^"]*"|'[^']*')""")


class Edit(NamedTuple):
    """Replacement of bytes ``start`` to ``end`` of :attr:`Document.text` by ``text``."""

    start: int
    end: int
    text: bytes


@dataclass(eq=False)
class Element:
    """An element with its positions in the text."""

    name: Name
    parent: Element | None
    attributes: dict[Name, str]
    prefixes: dict[str, str]  # declared on this element
    start: int
    content: int  # end of the start tag
    close: int = -1  # start of the end tag; for <a/> equal to content
    end: int = -1
    text: str = ""
    children: list[Element] = field(default_factory=list)

    @property
    def is_empty_tag(self) -> bool:
        """Whether the element is written as ``<a/>``."""
        return self.end == self.content

    def namespace(self, prefix: str) -> str | None:
        """Return the namespace of a prefix inside this element."""
        node: Element | None = self
        while node is not None:
            if prefix in node.prefixes:
                return node.prefixes[prefix]
            node = node.parent
        return None

    def prefix(self, namespace: str) -> str | None:
        """Return a prefix of a namespace inside this element."""
        node: Element | None = self
        while node is not None:
            for prefix, uri in node.prefixes.items():
                if prefix and uri == namespace and self.namespace(prefix) == uri:
                    return prefix
            node = node.parent
        return None

    def walk(self) -> Iterator[Element]:
        """Yield this element and all its descendants."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Document:
    """A parsed document with its text and encoding."""

    root: Element
    text: bytes  # UTF-8; positions are byte offsets in it
    encoding: str
    mark: bytes  # the byte order mark
    tail: str  # trailing NULs, which some programs write

    def splice(self, edits: Iterable[Edit]) -> bytes:
        """Apply edits, and return the document in its own encoding."""
        pieces = []
        at = 0
        for edit in sorted(edits):
            if edit.start < at:
                raise ValueError("edits overlap")
            pieces += [self.text[at : edit.start], self._plain(edit.text)]
            at = edit.end
        text = (b"".join([*pieces, self.text[at:]])).decode() + self.tail
        return self.mark + text.encode(self.encoding, "xmlcharrefreplace")

    def _plain(self, text: bytes) -> bytes:
        """Replace surrogate pairs of UTF-16 by references, because exiftool cannot read them."""
        if not self.encoding.startswith("utf-16"):
            return text
        return re.sub("[\U00010000-\U0010ffff]", _reference, text.decode()).encode()

    def space_before(self, element: Element) -> bytes:
        """Return the white space before an element."""
        at = element.start
        while self.text[at - 1 : at] in (b" ", b"\t", b"\r", b"\n"):
            at -= 1
        return self.text[at : element.start]

    def attribute(self, element: Element, name: Name) -> Edit | None:
        """Return the edit that removes an attribute."""
        tag = self.text[element.start : element.content]
        for match in _ATTRIBUTE.finditer(tag):
            prefix, colon, local = match[1].decode().rpartition(":")
            if colon and (element.namespace(prefix), local) == name:
                return Edit(element.start + match.start(), element.start + match.end(), b"")
        return None


def parse(data: bytes) -> Document:
    """Parse a document; errors are a :class:`MetadataError` without the name of the file."""
    if len(data) > MAX_BYTES:
        raise MetadataError(f"has {len(data):,} bytes; the limit is {MAX_BYTES:,}")
    encoding, mark = _encoding(data)
    try:
        decoded = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise MetadataError(
            f"is not {encoding} text: {error.reason} at byte {error.start}"
        ) from None
    text = decoded.rstrip("\0")
    if not text.strip():
        raise MetadataError("is empty")
    if "\0" in text:  # expat would detect another encoding
        raise MetadataError("is not well-formed XML: it has a NUL")
    encoded = text.encode()
    return Document(_tree(encoded), encoded, encoding, mark, decoded[len(text) :])


def _encoding(data: bytes) -> tuple[str, bytes]:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return encoding, mark
    for encoding in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):  # without a mark
        if data.startswith("<".encode(encoding)):
            return encoding, b""
    declared = re.match(rb"""\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""", data)
    name = declared[1].decode().lower() if declared else "utf-8"
    if name.startswith("utf"):  # declared as UTF-16 without being it: converted later
        return "utf-8", b""
    if name not in _ONE_BYTE:
        raise MetadataError(f"is written in {name}; UTF-8, UTF-16, UTF-32 and ISO-8859-1 are read")
    return _ONE_BYTE[name], b""


def _tree(text: bytes) -> Element:
    return _TreeBuilder(text).build()


class _TreeBuilder:
    """Builder of elements with positions from the events of expat."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.root: Element | None = None
        self.node: Element | None = None  # the element that is open
        self.depth = 0
        self.count = 0  # of elements and attributes
        self.prefixes: dict[str, str] = {}  # declared by the element that comes next
        self.pieces: list[list[str]] = []  # character data of each open element
        self.parser = expat.ParserCreate("utf-8", " ")
        self.parser.buffer_text = True
        self.parser.StartNamespaceDeclHandler = self._declare
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add_characters
        self.parser.StartDoctypeDeclHandler = self._refuse_declaration
        self.parser.EntityDeclHandler = self._refuse_declaration

    def build(self) -> Element:
        """Parse the text and return the root element."""
        try:
            self.parser.Parse(self.text, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise MetadataError(f"is not well-formed XML: {reason}, line {error.lineno}") from None
        except UnicodeError as error:
            raise MetadataError(f"is not well-formed XML: {error}") from None
        assert self.root is not None
        return self.root

    def _declare(self, prefix: str | None, uri: str | None) -> None:
        self.prefixes[prefix or ""] = uri or ""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        self.count += 1 + len(attributes)
        if self.depth > MAX_DEPTH:
            raise MetadataError(f"nests elements more than {MAX_DEPTH} deep")
        if self.count > MAX_ELEMENTS:
            raise MetadataError(f"has more than {MAX_ELEMENTS:,} elements and attributes")
        at = self.parser.CurrentByteIndex
        tag = _TAG.match(self.text, at)
        if tag is None:
            raise MetadataError(f"has a tag at byte {at} that cannot be read")
        values = {_name(key): value for key, value in attributes.items()}
        element = Element(_name(name), self.node, values, self.prefixes, at, tag.end())
        self.prefixes = {}
        if self.node is None:
            self.root = element
        else:
            self.node.children.append(element)
        self.node = element
        self.pieces.append([])

    def _end(self, _: str) -> None:
        node = self.node
        assert node is not None
        if self.text[node.content - 2 : node.content] == b"/>":
            node.close = node.end = node.content
        else:
            node.close = self.parser.CurrentByteIndex
            node.end = self.text.index(b">", node.close) + 1
        node.text = "".join(self.pieces.pop())
        self.node = node.parent
        self.depth -= 1

    def _add_characters(self, data: str) -> None:
        if self.pieces:
            self.pieces[-1].append(data)

    def _refuse_declaration(self, *_: object) -> None:
        raise MetadataError("declares a document type; none is allowed in metadata")


def _reference(match: re.Match[str]) -> str:
    return f"&#x{ord(match[0]):X};"


def _name(joined: str) -> Name:
    namespace, _, local = joined.rpartition(" ")
    return namespace, local


def escape(text: str) -> str:
    """Escape character data; carriage returns are escaped because parsers normalize them."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#13;")
