"""Tags inside JPEG files: whatever happens, the picture is the same bit for bit."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from pictures import encoded, scene
from prototag.errors import MetadataError
from prototag.images.decode import digest, open_image
from prototag.metadata import (
    apply_inside,
    collect,
    has_added_tags,
    iptc,
    is_jpeg,
    jpeg_writer,
    plan_embed,
    plan_unembed,
    read_keywords,
)

from .shapes import GOLDEN

TAGS = ["animal|fox", "New York, NY", "Zoë & Max"]


def segment(marker: int, payload: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(payload) + 2) + payload


def rich(path: Path, *, xmp: bool = True) -> Path:
    """A JPEG with EXIF, keywords of a person in XMP and IPTC, a profile and a comment."""
    exif = Image.Exif()
    exif[0x0112] = 6
    options = {"xmp": (GOLDEN / "lightroom.xmp").read_bytes()} if xmp else {}
    data = encoded(scene(), "JPEG", exif=exif, comment=b"mine", progressive=True, **options)
    record = b"\x1c\x02\x19\0\5harbo"
    block = b"Photoshop 3.0\0" + b"8BIM\x04\x04\0\0" + struct.pack(">I", len(record)) + record
    path.write_bytes(data[:2] + segment(0xE0, b"JFIF\0\1\2\0\0\1\0\1\0\0") + data[2:])
    data = path.read_bytes()
    at = data.index(b"\xff\xfe")
    path.write_bytes(data[:at] + segment(0xED, block) + data[at:])
    return path


@pytest.fixture(params=[True, False], ids=["with XMP", "without"])
def photo(request, tmp_path):
    return rich(tmp_path / "photo.jpg", xmp=request.param)


def parts(data: bytes) -> list[bytes]:
    """Every segment but XMP and Photoshop's, and the pixels."""
    record = jpeg_writer.find_record(data)
    if record is not None:
        data = data[: record.start] + data[record.end :]
    place = jpeg_writer.find_xmp_segment(data, Path("x"))
    return [data[: place.start] + data[place.end : place.pixels], data[place.pixels :]]


def iptc_of(path: Path) -> list[str]:
    """What a program sees that reads IPTC alone."""
    return iptc.keywords(jpeg_writer.find_record(path.read_bytes()).content(path.read_bytes()))


def with_record(path: Path, *datasets: bytes, before: bytes = b"", behind: bytes = b"") -> Path:
    """A JPEG whose Photoshop segment holds these datasets."""
    record = b"".join(datasets)
    padded = record + b"\0" * (len(record) % 2)
    block = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(record)) + padded
    data = encoded(scene(), "JPEG")
    whole = b"Photoshop 3.0\0" + before + block + behind
    path.write_bytes(data[:2] + segment(0xED, whole) + data[2:])
    return path


def keyword(value: bytes) -> bytes:
    return b"\x1c\x02\x19" + struct.pack(">H", len(value)) + value


def test_iptc_keywords_stay_in_step_and_a_persons_stay_as_they_are(photo):
    """They stayed behind the XMP, and programs that read IPTC first showed none of ours."""
    before = photo.read_bytes()
    tags = ["animal|fox", "Zoë & Max", "x" * 100, "harbo"]
    apply_inside(plan_embed(photo, tags))
    assert iptc_of(photo) == ["harbo", "fox", "Zoë & Max", "x" * 64]
    assert "harbo" not in read_keywords(photo).added  # which is a person's
    assert not set(read_keywords(photo).tags) & {"fox", "Zoë & Max", "x" * 64}
    assert not plan_embed(photo, tags)
    change = plan_embed(photo, ["owl"])
    assert "+IPTC keyword owl" in change.diff()
    assert "-IPTC keyword fox" in change.diff()
    apply_inside(change)
    assert iptc_of(photo) == ["harbo", "owl"]
    apply_inside(plan_unembed(photo))
    assert photo.read_bytes() == before


def test_without_an_iptc_record_none_is_begun(tmp_path):
    path = tmp_path / "plain.jpg"
    path.write_bytes(encoded(scene(), "JPEG"))
    apply_inside(plan_embed(path, ["fox"]))
    assert b"Photoshop 3.0" not in path.read_bytes()


def test_a_persons_keyword_that_is_the_end_of_our_path_stays(tmp_path):
    path = with_record(tmp_path / "a.jpg", keyword(b"fox"), b"\x1c\x02\x78\0\4text")
    before = path.read_bytes()
    apply_inside(plan_embed(path, ["animal|fox", "owl"]))
    assert iptc_of(path) == ["fox", "owl"]
    assert "fox" in read_keywords(path).tags
    apply_inside(plan_unembed(path))
    assert path.read_bytes() == before


def test_what_is_kept_as_a_persons_stays_in_iptc(tmp_path):
    path = with_record(tmp_path / "a.jpg", keyword(b"sea"))
    apply_inside(plan_embed(path, ["fox"]))
    apply_inside(plan_unembed(path, keep=True))
    assert iptc_of(path) == ["sea", "fox"]
    assert set(read_keywords(path).tags) == {"sea", "fox"}


def test_an_older_embedding_is_brought_in_step(tmp_path):
    path = with_record(tmp_path / "a.jpg", keyword(b"sea"))
    alone = tmp_path / "b.jpg"
    alone.write_bytes(encoded(scene(), "JPEG"))
    apply_inside(plan_embed(alone, ["fox"]))
    packet = jpeg_writer.find_xmp_segment(alone.read_bytes(), alone).packet
    path.write_bytes(jpeg_writer._with_packet(path.read_bytes(), packet, path))
    assert iptc_of(path) == ["sea"]
    change = plan_embed(path, ["fox"])
    assert change
    apply_inside(change)
    assert iptc_of(path) == ["sea", "fox"]


def test_the_digest_of_the_record_is_renewed_if_it_fitted(tmp_path):
    record = keyword(b"sea")
    for digest_there, fits in ((hashlib.md5(record).digest(), True), (b"\7" * 16, False)):
        block = b"8BIM\x04\x25\0\0" + struct.pack(">I", 16) + digest_there
        path = with_record(tmp_path / "a.jpg", record, behind=block)
        before = path.read_bytes()
        apply_inside(plan_embed(path, ["fox"]))
        data = path.read_bytes()
        place = jpeg_writer.find_record(data)
        now = data[place.digest : place.digest + 16]
        assert now == (hashlib.md5(place.content(data)).digest() if fits else digest_there)
        apply_inside(plan_unembed(path))
        assert path.read_bytes() == before


def test_the_set_of_characters_of_a_record_is_kept(tmp_path):
    undeclared = with_record(tmp_path / "a.jpg", keyword("Süd".encode("cp1252")))
    apply_inside(plan_embed(undeclared, ["Zoë", "Ω"]))
    assert iptc_of(undeclared) == ["Süd", "Zoë"]  # Latin-1 has no omega; XMP has it
    assert "Zoë".encode("cp1252") in undeclared.read_bytes()
    declared = with_record(tmp_path / "b.jpg", b"\x1c\x01\x5a\0\3\x1b%G", keyword(b"sea"))
    apply_inside(plan_embed(declared, ["Ω"]))
    assert iptc_of(declared) == ["sea", "Ω"]


@pytest.mark.skipif(not shutil.which("exiftool"), reason="exiftool is not installed")
def test_exiftool_sees_iptc_and_xmp_agree(photo):
    apply_inside(plan_embed(photo, ["fox", "owl"]))
    command = ["exiftool", "-j", "-validate", "-warning", "-IPTC:Keywords", "-XMP-dc:Subject"]
    (shown,) = json.loads(subprocess.check_output([*command, photo]))
    assert {"fox", "owl", "harbo"} <= set(shown["Keywords"])
    assert {"fox", "owl"} <= set(shown["Subject"])
    # What a person takes away in XMP alone is no keyword of theirs in IPTC, and goes there, too.
    command = ["exiftool", "-q", "-overwrite_original", "-XMP-dc:Subject-=fox", photo]
    subprocess.run(command, check=True)
    assert "fox" not in read_keywords(photo).tags
    apply_inside(plan_embed(photo, ["fox", "owl"]))
    assert "fox" not in iptc_of(photo)


def test_only_the_xmp_changes_and_removing_restores_every_byte(photo):
    before = photo.read_bytes()
    tags = read_keywords(photo).tags
    assert not has_added_tags(photo)
    change = apply_inside(plan_embed(photo, TAGS))
    assert change.added == tuple(TAGS)
    after = photo.read_bytes()
    assert parts(after) == parts(before)
    assert digest(after) == digest(before)
    assert open_image(after).tobytes() == open_image(before).tobytes()
    found = read_keywords(photo)
    assert set(found.tags) == set(tags)
    assert found.added == tuple(TAGS)
    assert has_added_tags(photo)
    assert not plan_embed(photo, TAGS)  # the second run has nothing to do
    assert apply_inside(plan_embed(photo, ["owl"])).removed == tuple(TAGS)
    apply_inside(plan_unembed(photo))
    assert photo.read_bytes() == before
    assert not plan_unembed(photo)
    assert [path.name for path in photo.parent.iterdir()] == ["photo.jpg"]


def test_a_plain_picture_gets_a_packet_behind_its_exif_data_and_loses_it_again(tmp_path):
    path = tmp_path / "plain.jpg"
    exif = Image.Exif()
    exif[0x0112] = 3
    path.write_bytes(encoded(scene(), "JPEG", exif=exif))
    before = path.read_bytes()
    apply_inside(plan_embed(path, ["fox"]))
    data = path.read_bytes()
    assert 0 < data.index(b"Exif\0\0") < data.index(jpeg_writer.embedded_reader.XMP)
    assert open_image(data).tobytes() == open_image(before).tobytes()
    apply_inside(plan_unembed(path))
    assert path.read_bytes() == before


@pytest.mark.skipif(not shutil.which("exiftool"), reason="exiftool is not installed")
def test_exiftool_reads_them_and_what_it_takes_away_is_not_given_again(photo):
    apply_inside(plan_embed(photo, ["fox", "owl"]))
    shown = json.loads(subprocess.check_output(["exiftool", "-j", "-validate", "-XMP:all", photo]))
    assert {"fox", "owl"} <= set(shown[0]["Subject"])
    command = ["exiftool", "-q", "-overwrite_original", "-XMP-dc:Subject-=fox", photo]
    subprocess.run(command, check=True)
    found = read_keywords(photo)
    assert found.rejected == ("fox",)
    assert "fox" not in plan_embed(photo, ["fox", "owl"]).added
    assert "owl" in collect(photo.parent).tags[0]  # left standing by a person who looked


@pytest.mark.skipif(not shutil.which("exiv2"), reason="exiv2 is not installed")
def test_exiv2_reads_them(photo):
    apply_inside(plan_embed(photo, TAGS))
    shown = subprocess.check_output(["exiv2", "-g", "Xmp.dc.subject", "-Pt", photo], text=True)
    assert "fox" in shown
    assert "Zoë & Max" in shown


def test_a_persons_keywords_are_repeated_where_they_would_be_hidden(tmp_path):
    path = rich(tmp_path / "photo.jpg", xmp=False)
    apply_inside(plan_embed(path, ["fox"]))
    packet = jpeg_writer.find_xmp_segment(path.read_bytes(), path).packet
    assert b"<rdf:li>harbo</rdf:li>" in packet
    assert read_keywords(path).tags == ("harbo",)
    assert collect(tmp_path).tags == [["harbo"]]  # ours is not learned


def test_the_original_is_kept_once(photo):
    before = photo.read_bytes()
    kept = photo.with_name("photo.jpg_original")
    for tags in (["fox"], ["owl"]):
        apply_inside(plan_embed(photo, tags), keep_original=True)
        assert kept.read_bytes() == before
    assert photo.read_bytes() != before


def test_other_names_of_a_picture_keep_the_old_one_and_are_reported(photo):
    before = photo.read_bytes()
    backup = photo.with_name("backup")
    os.link(photo, backup)
    change = apply_inside(plan_embed(photo, ["fox"]))
    assert "has hard links" in change.notes[0]
    assert backup.read_bytes() == before


def test_permissions_stay_and_read_only_pictures_are_left_alone(photo, monkeypatch):
    photo.chmod(0o640)
    apply_inside(plan_embed(photo, ["fox"]))
    assert photo.stat().st_mode & 0o777 == 0o640
    before = photo.read_bytes()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(os, "supports_effective_ids", set())
    with pytest.raises(MetadataError, match="is read-only"):
        apply_inside(plan_embed(photo, ["owl"]))
    assert photo.read_bytes() == before


def test_what_was_written_is_looked_at_before_it_takes_the_place(photo, monkeypatch):
    before = photo.read_bytes()
    real = jpeg_writer.write_beside

    def damaged(path, data):
        return real(path, data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])

    monkeypatch.setattr(jpeg_writer, "write_beside", damaged)
    with pytest.raises(MetadataError, match="would show another picture: nothing was changed"):
        apply_inside(plan_embed(photo, ["fox"]))
    assert photo.read_bytes() == before
    assert [path.name for path in photo.parent.iterdir()] == ["photo.jpg"]


def test_a_picture_that_changed_since_keeps_both(photo):
    change = plan_embed(photo, ["fox"])
    apply_inside(plan_embed(photo, ["owl"], replace=False))
    done = apply_inside(change)
    assert "fox" in read_keywords(photo).added
    assert (done.added, done.removed) == (("fox",), ("owl",))


def test_several_pictures_in_one_file_are_not_moved(tmp_path):
    data = encoded(scene(), "JPEG", xmp=(GOLDEN / "lightroom.xmp").read_bytes())
    index = segment(0xE2, b"MPF\0" + bytes(40))
    path = tmp_path / "many.jpg"
    path.write_bytes(data[:2] + index + data[2:])
    with pytest.raises(MetadataError, match="has several pictures"):
        plan_embed(path, ["fox"])
    at = jpeg_writer.find_xmp_segment(data, path).end
    path.write_bytes(data[:at] + index + data[at:] + b"second picture")
    before = path.read_bytes()
    apply_inside(plan_embed(path, ["fox"]))
    after = path.read_bytes()
    assert after[after.index(index) :] == before[before.index(index) :]
    plain = encoded(scene(), "JPEG")
    path.write_bytes(plain[:2] + index + plain[2:])
    apply_inside(plan_embed(path, ["fox"]))
    assert path.read_bytes().index(b"prototag") < path.read_bytes().index(index)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (encoded(scene(), "PNG"), "is not a JPEG file"),
        (b"", "is not a JPEG file"),
        (encoded(scene(), "JPEG")[:200], "is damaged"),
        (b"\xff\xd8" + b"\xff\xe0\0\2" * 20_000, "is damaged"),
        (b"\xff\xd8" + b"\xff" * 20_000, "is damaged"),
    ],
)
def test_what_cannot_hold_tags_is_refused(tmp_path, data, message):
    path = tmp_path / "x.jpg"
    path.write_bytes(data)
    assert is_jpeg(path) == (message == "is damaged")
    with pytest.raises(MetadataError, match=message):
        plan_embed(path, ["fox"])
    assert path.read_bytes() == data


def test_more_than_a_segment_holds_is_refused(photo):
    before = photo.read_bytes()
    with pytest.raises(MetadataError, match="has no room"):
        apply_inside(plan_embed(photo, [f"tag {number}" for number in range(3000)]))
    assert photo.read_bytes() == before


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.floats(0.3, 1),
)
def test_any_file_is_refused_or_keeps_its_picture(tmp_path, places, cut):
    path = rich(tmp_path / "photo.jpg")
    data = bytearray(path.read_bytes())
    for place, value in places:
        data[int(place * (len(data) - 1))] = value
    before = bytes(data[: int(cut * len(data))])
    path.write_bytes(before)
    try:
        apply_inside(plan_embed(path, ["fox"]))
    except MetadataError:
        assert path.read_bytes() == before
        return
    assert digest(path) == digest(before)
    assert parts(path.read_bytes()) == parts(before)
