"""A file is known by what is seen of it: keywords come and go, pixels, turns and colours count."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from pictures import encoded, scene
from prototag.images.decode import digest, open_image

XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF>sky, tree</rdf:RDF></x:xmpmeta>'
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def exif(turn: int, **more: str) -> bytes:
    made = Image.Exif()
    made[0x0112] = turn
    for text in more.values():
        made[0x9C9E] = text.encode("utf-16-le")  # XPKeywords
    return made.tobytes()


def with_segment(data: bytes, marker: int, payload: bytes) -> bytes:
    """A JPEG with one more segment in front."""
    return (
        data[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(payload) + 2) + payload + data[2:]
    )


def with_chunk(data: bytes, kind: bytes, payload: bytes, before: bytes = b"IDAT") -> bytes:
    """A PNG with one more chunk."""
    at = data.index(before) - 4
    chunk = struct.pack(">I", len(payload)) + kind + payload
    return data[:at] + chunk + struct.pack(">I", zlib.crc32(kind + payload)) + data[at:]


def test_keywords_written_into_a_jpeg_do_not_change_it():
    data = encoded(scene(), "JPEG")
    found = {
        digest(data),
        digest(with_segment(data, 0xE1, b"http://ns.adobe.com/xap/1.0/\0" + XMP)),
        digest(with_segment(data, 0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\0")),
        digest(with_segment(data, 0xFE, b"a comment")),
        digest(with_segment(data, 0xE1, exif(1, keywords="sky"))),
        digest(encoded(scene(), "JPEG", dpi=(300, 300))),
        digest(encoded(scene(), "JPEG", xmp=XMP, comment=b"x")),
    }
    assert len(found) == 1


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_pixels_turns_and_colours_are_seen(kind):
    found = [
        digest(encoded(scene(), kind)),
        digest(encoded(scene(seed=1), kind)),
        digest(encoded(scene(), kind, exif=exif(6))),
        digest(encoded(scene(), kind, exif=exif(3))),
        digest(encoded(scene(), kind, icc_profile=PROFILE)),
        digest(encoded(scene(), kind, quality=30)),
        digest(encoded(scene(), kind, xmp=b'<a tiff:Orientation="6"/>')),
    ]

    assert len(set(found)) in (6, 7)  # a turn may be said in either place
    turned = open_image(encoded(scene(), kind, exif=exif(6)))
    assert turned.size == scene().size[::-1]


def test_keywords_written_into_a_png_do_not_change_it():
    data = encoded(scene(), "PNG")
    text = b"XML:com.adobe.xmp\0\0\0\0\0" + XMP
    found = {
        digest(data),
        digest(with_chunk(data, b"iTXt", text)),
        digest(with_chunk(data, b"tEXt", b"Comment\0sky", before=b"IEND")),
        digest(with_chunk(data, b"zTXt", b"Comment\0\0" + zlib.compress(b"sky"))),
        digest(with_chunk(data, b"tIME", bytes(7))),
        digest(with_chunk(data, b"pHYs", bytes(9))),
    }
    assert len(found) == 1
    other = {
        digest(encoded(scene(seed=1), "PNG")),
        digest(encoded(scene(), "PNG", exif=exif(6))),
        digest(encoded(scene(), "PNG", icc_profile=PROFILE)),
        digest(with_chunk(data, b"iTXt", text.replace(b"sky", b'tiff:Orientation="8"'))),
        digest(with_chunk(data, b"tRNS", bytes(6))),
    }
    assert len(other | found) == 6


def test_keywords_written_into_a_webp_do_not_change_it():
    plain = encoded(scene(), "WEBP", lossless=True)
    found = {
        digest(plain),
        digest(encoded(scene(), "WEBP", lossless=True, xmp=XMP)),
        digest(encoded(scene(), "WEBP", lossless=True, xmp=XMP + b" ", exif=exif(1))),
    }
    assert len(found) == 1
    clear = scene().convert("RGBA")
    clear.putalpha(100)
    assert digest(encoded(clear, "WEBP", lossless=True)) not in found


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "BMP"])
def test_other_files_are_known_by_all_their_bytes(kind):
    data = encoded(scene(), kind)
    assert digest(data) != digest(data + b"\0")


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(["JPEG", "PNG", "WEBP"]),
    places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.floats(0, 1),
)
def test_damaged_files_have_distinct_digests(kind, places, cut):
    data = bytearray(encoded(scene(32, 24), kind))
    for place, value in places:
        data[int(place * (len(data) - 1))] = value
    for damaged in (bytes(data), bytes(data[: int(cut * len(data))])):
        assert len(digest(damaged)) == 20
        try:
            shown = open_image(damaged).tobytes()
        except ValueError:
            continue
        same = digest(damaged) == digest(encoded(scene(32, 24), kind))
        assert not same or shown == open_image(encoded(scene(32, 24), kind)).tobytes()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8\xff",
        b"\xff\xd8" + b"\xff" * 100_000,
        b"\xff\xd8" + b"\xff\xe1\0\0" * 10,
        b"\xff\xd8" + b"\xff\xe1\0\2" * 300_000,
        b"\x89PNG\r\n\x1a\n" + b"\xff" * 50,
        b"\x89PNG\r\n\x1a\n" + b"\0\0\0\0tEXt\0\0\0\0" * 300_000,
        b"RIFF\xff\xff\xff\xffWEBPXMP \xff\xff\xff\xff",
        b"RIFF\0\0\0\0WEBP" + b"XMP \0\0\0\0" * 300_000,
    ],
)
def test_hostile_files_cost_no_more_than_their_bytes(data):
    assert len(digest(data)) == 20
    assert digest(data) != digest(data + b"x")


def test_no_pixel_is_decoded_for_an_identity(monkeypatch):
    files = [encoded(scene(), kind) for kind in ("JPEG", "PNG", "WEBP")]

    def decoded(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Image.Image, "load", decoded)
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", decoded)
    assert len({digest(data) for data in files}) == 3
