"""Keywords as programs write them."""

from __future__ import annotations

import pytest

from prototag.errors import MetadataError
from prototag.metadata.xmp.packet import Packet

from ..shapes import GOLDEN

NAMESPACES = """xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:lr="http://ns.adobe.com/lightroom/1.0/"
 xmlns:digiKam="http://www.digikam.org/ns/1.0/" """


def packet(inner: str, attributes: str = "") -> Packet:
    return Packet(
        f"<rdf:RDF {NAMESPACES}><rdf:Description rdf:about='' {attributes}>{inner}"
        "</rdf:Description></rdf:RDF>".encode()
    )


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("digikam", ("Animals|Cat", "garden", "People|Zoë & Max")),
        ("darktable", ("lake", "places|Bavaria")),
        ("lightroom", ("nature|coast", "pier")),
        ("bridge", ()),
        ("prefixes", ("one", "two")),
    ],
)
def test_programs(name, tags):
    keywords = Packet((GOLDEN / f"{name}.xmp").read_bytes()).keywords()
    assert keywords.tags == tags
    assert keywords.added == ()


@pytest.mark.parametrize(
    ("inner", "tags"),
    [
        ("<dc:subject><rdf:Alt><rdf:li>a</rdf:li></rdf:Alt></dc:subject>", ("a",)),
        ("<dc:subject>  a, b </dc:subject>", ("a, b",)),
        ("<dc:subject/>", ()),
        ("<dc:subject><rdf:Bag/></dc:subject>", ()),
        ("<dc:subject><rdf:Bag><rdf:li/><rdf:li> </rdf:li></rdf:Bag></dc:subject>", ()),
        ("<dc:subject><rdf:Bag><rdf:li rdf:value='a'/></rdf:Bag></dc:subject>", ("a",)),
        (
            "<dc:subject><rdf:Bag><rdf:li>a</rdf:li><rdf:li>A</rdf:li></rdf:Bag></dc:subject>",
            ("a",),
        ),
        ("<lr:x rdf:parseType='Resource'><dc:subject>inner</dc:subject></lr:x>", ()),
        (
            "<digiKam:TagsList><rdf:Seq><rdf:li>a</rdf:li><rdf:li>a/b</rdf:li></rdf:Seq>"
            "</digiKam:TagsList><dc:subject>a</dc:subject>",
            ("a", "a|b"),
        ),
    ],
)
def test_forms(inner, tags):
    assert packet(inner).keywords().tags == tags


def test_short_form():
    assert packet("", "dc:subject='cat'").keywords().tags == ("cat",)


def test_what_is_no_xmp():
    with pytest.raises(MetadataError, match="is XML, but not XMP: it has no rdf:RDF"):
        Packet(b"<html/>")
