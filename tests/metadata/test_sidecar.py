"""Sidecars: their names, and what real readers read from them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from prototag.errors import MetadataError
from prototag.metadata import apply, plan, plan_untag, read_keywords, sidecar
from prototag.metadata.xmp.packet import SUBJECT, Packet

from .shapes import GOLDEN, beside

ODD = [
    "New York, NY",
    'say "hi"',
    "👩‍👩‍👧",
    "<b>&amp;",
    "x" * 1000,
    "b/w",
    "animal|fox",
    "Zoë",
    "a;b",
]
LEAVES = [tag.rpartition("|")[2] for tag in ODD]

needs_exiv2 = pytest.mark.skipif(not shutil.which("exiv2"), reason="exiv2 is not installed")
needs_exiftool = pytest.mark.skipif(
    not shutil.which("exiftool"), reason="exiftool is not installed"
)


def exiv2(path: Path, name: str) -> list[str]:
    out = subprocess.run(
        ["exiv2", "-K", name, "-Pv", str(path)], capture_output=True, check=False
    ).stdout.decode()
    return out.rstrip("\n").split(", ") if out.strip() else []


def exiftool(path: Path, name: str) -> list[str]:
    command = ["exiftool", "-json", "-struct", f"-{name}", str(path)]
    out = subprocess.run(command, capture_output=True, check=True).stdout
    value = json.loads(out)[0].get(name.rpartition(":")[2], [])
    return [str(v) for v in value] if isinstance(value, list) else [str(value)]


SOURCES = [(None, "utf-8"), ("digikam", "utf-8"), ("darktable", "utf-8"), ("lightroom", "utf-8")]
SOURCES += [("bridge", "utf-8"), ("digikam", "utf-16"), ("lightroom", "utf-8-sig")]


@needs_exiftool
@pytest.mark.parametrize(("program", "encoding"), SOURCES)
def test_exiftool_reads_the_same_keywords(image, program, encoding):
    before = beside(image, program, encoding) if program else None
    persons = Packet(before.read_bytes()).values(SUBJECT) if before else []
    path = apply(plan(image, ODD)).path
    assert exiftool(path, "XMP-dc:Subject") == persons + LEAVES
    assert exiftool(path, "XMP-lr:HierarchicalSubject")[-len(ODD) :] == ODD
    tags_list = exiftool(path, "XMP-digiKam:TagsList")
    assert tags_list[-3:] == ["animal/fox", "Zoë", "a;b"]
    assert tags_list[-4] == "b\\w"


@needs_exiv2
@pytest.mark.parametrize(("program", "encoding"), [s for s in SOURCES if s[1] == "utf-8"])
def test_exiv2_reads_the_same_keywords(image, program, encoding):
    before = beside(image, program, encoding) if program else None
    persons = Packet(before.read_bytes()).values(SUBJECT) if before else []
    tags = [tag for tag in ODD if ", " not in tag]  # exiv2 joins what it prints by ", "
    path = apply(plan(image, tags)).path
    leaves = [leaf for leaf in LEAVES if ", " not in leaf]
    assert exiv2(path, "Xmp.dc.subject") == persons + leaves
    assert exiv2(path, "Xmp.lr.hierarchicalSubject")[-len(tags) :] == tags
    assert "animal/fox" in exiv2(path, "Xmp.digiKam.TagsList")


REWRITERS = [
    pytest.param(["exiv2", "-M", "set Xmp.xmp.Rating 2"], marks=needs_exiv2, id="exiv2"),
    pytest.param(
        ["exiftool", "-q", "-overwrite_original", "-XMP-xmp:Rating=2"],
        marks=needs_exiftool,
        id="exiftool",
    ),
]


@pytest.mark.parametrize("program", [None, "digikam", "lightroom", "bridge"])
@pytest.mark.parametrize("command", REWRITERS)
def test_marks_survive_a_program_that_writes_the_sidecar_anew(image, command, program):
    before = beside(image, program) if program else None
    persons = Packet(before.read_bytes()).values(SUBJECT) if before else []
    path = apply(plan(image, ODD)).path
    ours = path.read_bytes()
    subprocess.run([*command, str(path)], check=True, capture_output=True)
    assert path.read_bytes() != ours
    assert set(read_keywords(image).added) == set(ODD)
    assert not plan(image, ODD)
    change = apply(plan_untag(image))
    assert set(change.removed) == set(ODD)
    rest = Packet(path.read_bytes())  # the rating is a person's: the file stays
    assert sorted(rest.values(SUBJECT)) == sorted(persons)
    assert b":Rating" in path.read_bytes()
    assert rest.added() == []


@needs_exiftool
def test_what_exiftool_adds_and_takes_away_is_a_persons(image):
    path = apply(plan(image, ["fox", "owl"])).path
    for change in ("-XMP-dc:Subject-=fox", "-XMP-dc:Subject+=home"):
        command = ["exiftool", "-q", "-overwrite_original", change, str(path)]
        subprocess.run(command, check=True)
    keywords = read_keywords(image)
    assert (keywords.tags, keywords.added) == (("home",), ("owl",))
    apply(plan(image, ["fox", "owl", "home", "sky"]))
    keywords = read_keywords(image)
    assert keywords.tags == ("home",)
    assert set(keywords.added) == {"owl", "sky"}
    assert keywords.copied == ("home",)  # the person has it in the plain list alone
    assert keywords.rejected == ("fox",)
    apply(plan_untag(image))
    assert exiftool(path, "XMP-dc:Subject") == ["home"]


def test_tags_without_characters_are_left_out_with_a_note(image):
    change = plan(image, ["\x00\x01", "a\x00b", " "])
    assert change.added == ("ab",)
    assert len(change.notes) == 2
    assert "the tag '\\x00\\x01' has no characters to write" in change.notes[0]


def test_names_of_sidecars(tmp_path):
    image = tmp_path / "photo.jpg"
    Image.new("RGB", (8, 8)).save(image)
    assert sidecar.target(image).name == "photo.jpg.xmp"
    assert sidecar.target(image, "stem").name == "photo.xmp"
    (tmp_path / "photo.XMP").touch()
    assert sidecar.target(image).name == "photo.XMP"
    (tmp_path / "photo.dng").touch()  # now photo.xmp belongs to two
    assert sidecar.target(image).name == "photo.jpg.xmp"
    assert sidecar.target(image, "stem").name == "photo.jpg.xmp"
    (tmp_path / "photo.jpg.xmp").touch()
    assert [p.name for p in sidecar.sidecars(image)] == ["photo.jpg.xmp", "photo.XMP"]
    with pytest.raises(MetadataError, match=r"naming='x': \"full\""):
        sidecar.target(image, "x")


def test_an_adobe_sidecar_is_used_where_it_is(image):
    path = image.with_name("photo.xmp")
    path.write_bytes((GOLDEN / "lightroom.xmp").read_bytes())
    assert apply(plan(image, ["fox"])).path == path
    assert read_keywords(image).tags == ("nature|coast", "pier")
    apply(plan_untag(image))
    assert path.read_bytes() == (GOLDEN / "lightroom.xmp").read_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "photo.jpg.xmp is empty. It was left as it is"),
        (b"<x:xmpmeta", "is not well-formed XML"),
        ((GOLDEN / "digikam.xmp").read_bytes()[:900], "is not well-formed XML"),
        (b"<html/>", "is XML, but not XMP"),
        (b"<!DOCTYPE x [<!ENTITY e 'x'>]><x>&e;</x>", "declares a document type"),
        (b"\x89PNG\r\n\x1a\n", "is not utf-8 text"),
    ],
)
def test_a_broken_sidecar_is_never_overwritten(image, data, message):
    path = image.with_name("photo.jpg.xmp")
    path.write_bytes(data)
    for attempt in (lambda: plan(image, ["fox"]), lambda: plan_untag(image)):
        with pytest.raises(MetadataError, match=message):
            attempt()
    with pytest.raises(MetadataError, match=message):
        read_keywords(image)
    assert path.read_bytes() == data


def test_no_picture(tmp_path):
    with pytest.raises(MetadataError, match=r"gone\.jpg: cannot be read: No such"):
        plan(tmp_path / "gone.jpg", ["fox"])
    with pytest.raises(MetadataError, match=r"gone\.jpg does not exist, nor has it a sidecar"):
        plan_untag(tmp_path / "gone.jpg")


def test_a_sidecar_that_is_no_file(image):
    os.mkfifo(image.with_name("photo.jpg.xmp"))
    with pytest.raises(MetadataError, match="is not a regular file"):
        plan(image, ["fox"])
