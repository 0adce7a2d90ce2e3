"""XML text with positions: nothing is lost, nothing is expanded, everything has a limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototag.errors import MetadataError
from prototag.metadata.xmp import xml_tree
from prototag.metadata.xmp.xml_tree import Edit, parse

TEXT = """<?xml version="1.0"?>
<a:x xmlns:a="u" a:q="1>2" q='"'><a:b/><c a:d='"'> é <![CDATA[<z>]]>&#128049; </c ><!-- < --></a:x>
"""


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"],
)
def test_every_encoding_is_read_and_kept(encoding):
    data = TEXT.encode(encoding)
    document = parse(data)
    assert document.splice([]) == data
    first, second = document.root.children
    assert document.text[first.start : first.end] == b"<a:b/>"
    assert first.is_empty_tag
    assert second.text == " é <z>🐱 "
    assert second.attributes == {("u", "d"): '"'}
    assert document.text[second.content : second.close].startswith(" é".encode())
    assert document.text[: second.end].endswith(b"</c >")
    spliced = document.splice([Edit(second.start, second.start, "ü".encode())])
    assert spliced == TEXT.replace("<c", "ü<c").encode(encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("declared", ["UTF-8", "UTF-16", "utf-16be"])
def test_what_is_declared_may_be_wrong(encoding, declared):
    data = f"<?xml version='1.0' encoding='{declared}'?>\n<a>ü</a>".encode(encoding)
    assert parse(data).root.text == "ü"
    assert parse(data).splice([]) == data


def test_characters_that_the_encoding_lacks_become_references():
    data = '<?xml version="1.0" encoding="ISO-8859-1"?><a>é</a>'.encode("latin-1")
    document = parse(data)
    assert document.root.text == "é"
    spliced = document.splice([Edit(document.root.close, document.root.close, "🐱".encode())])
    assert spliced == data.replace(b"</a>", b"&#128049;</a>")
    assert parse(spliced).root.text == "é🐱"


def test_nuls_after_the_end_are_kept():
    assert parse(b"<a/>\0\0").splice([Edit(0, 4, b"<b/>")]) == b"<b/>\0\0"


def test_attributes_are_found_by_their_namespace():
    document = parse(b"""<x xmlns:p="u" xmlns:q="v" q:k='1' p:k = "2 > 1" k="3"/>""")
    edit = document.attribute(document.root, ("u", "k"))
    assert document.splice([edit]) == b"""<x xmlns:p="u" xmlns:q="v" q:k='1' k="3"/>"""
    assert document.attribute(document.root, ("w", "k")) is None


def test_prefixes_follow_their_scope():
    root = parse(b'<a xmlns:p="u"><b xmlns:p="v" xmlns="u"><c/></b></a>').root
    inner = root.children[0].children[0]
    assert (root.prefix("u"), inner.prefix("v")) == ("p", "p")
    assert inner.prefix("u") is None  # hidden, and the default namespace is no prefix


BOMB = """<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;">]><a>&y;</a>"""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b" \n\0", "is empty"),
        (b"<a>", "not well-formed XML: no element found, line 1"),
        (b"<a><b></a>", "mismatched tag"),
        (b"<a/><b/>", "junk after document element"),
        (b"\xff\xd8\xff\xe0", "not utf-8 text"),
        (b"<a>\xc3</a>", "not utf-8 text"),
        (b"<a>\0</a>", "not well-formed"),
        (b"<p:a/>", "unbound prefix"),
        (b"<a>&nbsp;</a>", "undefined entity"),
        (BOMB.encode(), "declares a document type"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "declares a document type"),
        (b"<a>" * 101 + b"</a>" * 101, "more than 100 deep"),
        (b'<?xml version="1.0" encoding="EBCDIC-CP-BE"?><a/>', "is written in ebcdic-cp-be"),
        (b"<a>" + b" " * xml_tree.MAX_BYTES + b"</a>", "the limit is 16,777,216"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_refused(data, message):
    with pytest.raises(MetadataError, match=message):
        parse(data)


def test_too_many_elements_are_refused(monkeypatch):
    assert xml_tree.MAX_ELEMENTS == 200_000
    monkeypatch.setattr(xml_tree, "MAX_ELEMENTS", 1000)
    for many in (b"<a>" + b"<b/>" * 1000 + b"</a>", b"<a><b c='d'/>" + b"<b c='d'/>" * 500):
        with pytest.raises(MetadataError, match="more than 1,000 elements and attributes"):
            parse(many)


@given(st.binary(max_size=60) | st.text("<>/a&;:\"'= \0?!-[]x", max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data):
    try:
        document = parse(data)
    except MetadataError:
        return
    assert document.splice([]) == data
