"""Keywords inside pictures, written by Pillow and by exiftool."""

from __future__ import annotations

import io
import os
import random
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from prototag.errors import MetadataError
from prototag.metadata import embedded_reader
from prototag.metadata.xmp.packet_editor import merge

from .shapes import GOLDEN
from .test_iptc import dataset, resource

PACKET = (GOLDEN / "digikam.xmp").read_bytes()
TAGS = ("Animals|Cat", "garden", "People|Zoë & Max")
needs_exiftool = pytest.mark.skipif(
    not shutil.which("exiftool"), reason="exiftool is not installed"
)


def save(path: Path, **options: object) -> Path:
    Image.new("RGB", (16, 16), "red").save(path, **options)
    return path


def read(path: Path) -> tuple[str, ...]:
    keywords, problems = embedded_reader.read(path)
    assert problems == []
    return keywords.tags


@pytest.mark.parametrize("suffix", ["jpg", "webp", "avif", "heic"])
def test_xmp_that_pillow_wrote(tmp_path, suffix):
    if suffix == "heic":
        pytest.importorskip("pillow_heif").register_heif_opener()
    assert read(save(tmp_path / f"a.{suffix}", xmp=PACKET)) == TAGS


@pytest.mark.parametrize("compressed", [False, True])
def test_xmp_in_png(tmp_path, compressed):
    info = PngImagePlugin.PngInfo()
    info.add_itxt("Comment", "XML:com.adobe.xmp")
    info.add_itxt("XML:com.adobe.xmp", PACKET.decode(), zip=compressed)
    assert read(save(tmp_path / "a.png", pnginfo=info)) == TAGS


@pytest.mark.parametrize("big", [False, True])
def test_xmp_and_iptc_in_tiff(tmp_path, big):
    info = {700: PACKET, 33723: dataset(2, 25, b"from IPTC") + dataset(2, 25, b"cat")}
    path = save(tmp_path / "a.tif", tiffinfo=info, big_tiff=big)
    assert read(path) == (*TAGS, "from IPTC")


def test_tiff_of_the_other_byte_order(tmp_path):
    packet = b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>'
    data = b"MM\0*" + struct.pack(">IH", 8, 2)
    data += struct.pack(">HHII", 700, 1, len(packet), 38)
    data += struct.pack(">HHII", 33723, 4, 2, 38 + len(packet)) + b"\0" * 4
    record = dataset(2, 25, b"cat")
    (tmp_path / "a.tif").write_bytes(data + packet + record)
    assert read(tmp_path / "a.tif") == ("cat",)


def segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def jpeg(path: Path, *segments: bytes) -> Path:
    buffer = io.BytesIO()
    Image.new("RGB", (16, 16)).save(buffer, "JPEG")
    data = buffer.getvalue()
    path.write_bytes(data[:2] + b"".join(segments) + data[2:])
    return path


def test_iptc_in_several_segments_of_a_jpeg(tmp_path):
    long = "x" * 62
    records = [long, "cat", "Zoë", "home"]
    data = resource(0x0404, b"", b"".join(dataset(2, 25, t.encode()) for t in records))
    halves = [segment(0xED, b"Photoshop 3.0\0" + half) for half in (data[:40], data[40:])]
    packet = merge(None, ["fox", "home"]).data.replace(b"prototag:ns:1.0/", b"other:/")
    packet = packet.replace(b"<rdf:li>fox", f"<rdf:li>{long} and more".encode())
    xmp = segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + packet)
    path = jpeg(tmp_path / "a.jpg", xmp, *halves)
    assert read(path) == (f"{long} and more", "home", "cat", "Zoë")  # cut by IPTC, whole in XMP


def test_our_own_tags_inside_a_picture_are_known_by_their_marks(tmp_path):
    keywords, _ = embedded_reader.read(save(tmp_path / "a.jpg", xmp=merge(PACKET, ["fox"]).data))
    assert (keywords.tags, keywords.added) == (TAGS, ("fox",))


ODD = ["New York, NY", 'say "hi"', "👩‍👩‍👧", "<b>&amp;", "Zoë", "x" * 600]


@needs_exiftool
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
def test_what_exiftool_wrote(tmp_path, suffix):
    path = save(tmp_path / f"a.{suffix}")
    command = ["exiftool", "-q", "-overwrite_original", "-codedcharacterset=utf8"]
    command += [f"-XMP-dc:Subject={tag}" for tag in ODD] + ["-XMP-lr:HierarchicalSubject=a|b"]
    if suffix in ("jpg", "tif"):
        command += [f"-IPTC:Keywords={tag}" for tag in ("only here", "Zoë")]
    subprocess.run([*command, str(path)], check=True, capture_output=True)
    extra = ["only here"] if suffix in ("jpg", "tif") else []
    assert sorted(read(path)) == sorted(["a|b", *ODD, *extra])


@needs_exiftool
def test_extended_xmp_that_exiftool_wrote(tmp_path):
    path = save(tmp_path / "a.jpg")
    tags = [f"tag number {i:04d}" for i in range(4000)]
    (tmp_path / "arguments").write_text("".join(f"-XMP-dc:Subject={tag}\n" for tag in tags))
    command = ["exiftool", "-q", "-overwrite_original", "-@", str(tmp_path / "arguments")]
    subprocess.run([*command, str(path)], check=True, capture_output=True)
    assert b"http://ns.adobe.com/xmp/extension/" in path.read_bytes()
    assert list(read(path)) == tags


def test_pictures_without_keywords(tmp_path):
    for suffix in ("jpg", "png", "gif", "bmp", "tif", "webp"):
        assert read(save(tmp_path / f"a.{suffix}")) == ()
    (tmp_path / "text.jpg").write_text("no picture")
    (tmp_path / "empty.jpg").touch()
    assert read(tmp_path / "text.jpg") == read(tmp_path / "empty.jpg") == ()


def test_broken_xmp_is_a_problem_and_no_end(tmp_path):
    bomb = b'<!DOCTYPE x [<!ENTITY e "x">]><x>&e;</x>'
    data = segment(0xED, b"Photoshop 3.0\0" + resource(0x0404, b"", dataset(2, 25, b"cat")))
    path = jpeg(tmp_path / "a.jpg", segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + bomb), data)
    keywords, problems = embedded_reader.read(path)
    assert keywords.tags == ("cat",)
    assert problems == ["the XMP inside declares a document type; none is allowed in metadata"]


def test_files_that_cannot_be_read(tmp_path):
    os.mkfifo(tmp_path / "fifo.jpg")
    for name, reason in (("gone", "No such file"), ("fifo", "is not a regular file")):
        with pytest.raises(MetadataError, match=rf"{name}\.jpg: cannot be read: {reason}"):
            embedded_reader.read(tmp_path / f"{name}.jpg")


def test_a_bomb_in_a_png_is_not_inflated(tmp_path):
    deflated = zlib.compress(b" " * (embedded_reader.MAX_BYTES + 1), 9)
    body = b"iTXt" + b"XML:com.adobe.xmp\0\1\0\0\0" + deflated
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk * 1000)
    assert read(tmp_path / "a.png") == ()


def test_packets_beyond_a_number_are_not_read(tmp_path):
    info = PngImagePlugin.PngInfo()
    for i in range(20):
        info.add_itxt("XML:com.adobe.xmp", merge(None, [f"t{i}"]).data.decode())
    keywords, _ = embedded_reader.read(save(tmp_path / "a.png", pnginfo=info))
    assert keywords.added == tuple(f"t{i}" for i in range(embedded_reader.MAX_PACKETS))


def test_damage_anywhere_is_survived(tmp_path):
    info = PngImagePlugin.PngInfo()
    info.add_itxt("XML:com.adobe.xmp", PACKET.decode(), zip=True)
    record = {700: PACKET, 33723: dataset(2, 25, b"cat")}
    whole = [
        save(tmp_path / "a.jpg", xmp=PACKET),
        save(tmp_path / "a.png", pnginfo=info),
        save(tmp_path / "a.webp", xmp=PACKET),
        save(tmp_path / "a.tif", tiffinfo=record),
        save(tmp_path / "b.tif", tiffinfo=record, big_tiff=True),
    ]
    chance = random.Random(0)
    broken = tmp_path / "broken"
    for path in whole:
        data = path.read_bytes()
        for _ in range(60):
            mutant = bytearray(data[: chance.randrange(len(data))])
            for _ in range(chance.randrange(4)):
                for near in (200, len(mutant)):
                    if mutant:
                        at = chance.randrange(min(near, len(mutant)))
                        mutant[at] = chance.randrange(256)
            broken.write_bytes(mutant)
            embedded_reader.read(broken)
