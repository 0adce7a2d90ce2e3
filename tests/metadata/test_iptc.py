"""IPTC records: encodings, lengths, damage."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from prototag.metadata.iptc import keywords, record_in_resources

UTF8 = b"\x1b%G"


def dataset(record: int, number: int, value: bytes) -> bytes:
    return struct.pack(">BBBH", 0x1C, record, number, len(value)) + value


def resource(kind: int, name: bytes, data: bytes) -> bytes:
    name = bytes([len(name)]) + name
    pad = b"\0" * (len(name) % 2)
    return b"8BIM" + struct.pack(">H", kind) + name + pad + struct.pack(">I", len(data)) + data


def test_encodings():
    declared = dataset(1, 90, UTF8) + dataset(2, 25, "Zoë 🐱".encode())
    assert keywords(declared) == ["Zoë 🐱"]
    assert keywords(dataset(2, 25, "Zoë".encode())) == ["Zoë"]  # not declared, but UTF-8
    assert keywords(dataset(2, 25, "Zoë “q”".encode("cp1252"))) == ["Zoë “q”"]
    assert keywords(dataset(1, 90, UTF8) + dataset(2, 25, b"cut \xc3")) == ["cut"]


def test_other_datasets_and_long_lengths():
    long = struct.pack(">BBBHI", 0x1C, 2, 25, 0x8004, 70_000) + b"k" * 70_000
    data = dataset(2, 5, b"title") + dataset(2, 25, b"cat\0") + long + dataset(2, 25, b"CAT")
    assert keywords(data) == ["cat", "k" * 70_000]


def test_numbers_of_the_other_byte_order():
    data = dataset(2, 25, b"cats") + b"\0" * 3
    swapped = b"".join(data[i : i + 4][::-1] for i in range(0, len(data), 4))
    assert keywords(swapped) == ["cats"]


def test_photoshop_resources():
    record = dataset(2, 25, b"cat")
    data = resource(0x03ED, b"odd", b"123") + b"\0" + resource(0x0404, b"", record)
    assert record_in_resources(data) == record
    assert record_in_resources(b"") == b""


@given(st.binary(max_size=80))
def test_damage_is_survived(data):
    keywords(b"\x1c\x02\x19" + data)
    keywords(record_in_resources(b"8BIM\x04\x04" + data))
