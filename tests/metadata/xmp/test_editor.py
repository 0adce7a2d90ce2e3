"""Splices: in the file's own indentation, prefixes and line ends."""

from __future__ import annotations

import pytest

from prototag.metadata.xmp.merge import merge, strip
from prototag.metadata.xmp.packet import SUBJECT, Packet

from ..shapes import golden, texts

RDF = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/">%s</rdf:RDF>'
)
ABOUT = '<rdf:Description rdf:about=""%s'


def test_splices_follow_the_indentation_and_the_prefixes_of_the_file():
    data = merge(golden("lightroom"), ["fox"]).data.decode()
    assert "     <rdf:li>pier</rdf:li>\n     <rdf:li>fox</rdf:li>\n    </rdf:Bag>" in data
    assert '\n  </rdf:Description>\n  <rdf:Description rdf:about=""\n   xmlns:' in data
    data = merge(golden("bridge"), ["fox"]).data.decode()
    assert '\r\n      <rdf:Description rdf:about="uuid:a&amp;b"\r\n         xmlns:' in data
    assert "\n" not in data.replace("\r\n", "")
    data = merge(golden("prefixes"), ["fox"]).data.decode()
    assert "</li><li>fox</li></Bag></p:subject>" in data
    assert '<r:Description r:about="" xmlns:digiKam=' in data
    assert "\n" not in data


def test_a_list_in_two_places_is_one():
    second = '<rdf:Description rdf:about=""><dc:subject><rdf:Bag>%s</rdf:Bag></dc:subject>'
    second += "</rdf:Description>"
    items = ["<rdf:li>one</rdf:li>", "<rdf:li>two</rdf:li><rdf:li>one</rdf:li>"]
    old = (RDF % "".join(second % item for item in items)).encode()
    data = merge(old, ["fox"]).data
    assert texts(data)[SUBJECT] == ["one", "fox", "two", "one"]
    assert strip(data).data == old
    twice = data.replace(b"<rdf:li>two", b"<rdf:li>fox</rdf:li><rdf:li>two", 1)
    assert texts(strip(twice).data)[SUBJECT].count("fox") == 1


@pytest.mark.parametrize(
    ("inner", "persons"),
    [
        ("", []),
        ("\n ", []),
        (ABOUT % "/>", []),
        (ABOUT % "><dc:subject/></rdf:Description>", []),
        (ABOUT % "><dc:subject><rdf:Bag/></dc:subject></rdf:Description>", []),
        (ABOUT % "><dc:subject><rdf:Bag> </rdf:Bag></dc:subject></rdf:Description>", []),
        (ABOUT % "><dc:subject>a &lt; b</dc:subject></rdf:Description>", ["a < b"]),
        (ABOUT % " dc:subject='a &lt; b'/>", ["a < b"]),
        (ABOUT % " dc:subject='a &lt; b' dc:title='t'/>", ["a < b"]),
    ],
)
def test_lists_that_are_no_lists_become_some(inner, persons):
    old = (RDF % inner).encode()
    merged = merge(old, ["fox"])
    assert texts(merged.data)[SUBJECT] == [*persons, "fox"]
    assert Packet(merged.data).keywords().tags == tuple(persons)
    assert merge(merged.data, ["fox"]).data == merged.data
    bare = strip(merged.data).data
    assert texts(bare) == texts(old)
    assert b"prototag" not in bare.replace(b'xmlns:prototag="prototag:ns:1.0/"', b"")
    assert (b"dc:title='t'" in bare) == ("dc:title" in inner)


def test_an_empty_rdf_is_opened():
    old = b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>'
    merged = merge(old, ["fox"])
    assert texts(merged.data)[SUBJECT] == ["fox"]
    assert merge(merged.data, ["fox"]).data == merged.data
