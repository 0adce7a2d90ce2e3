"""Tags inside JPEG files and beside them, judged by other programs, and their exact undo."""

from __future__ import annotations

import io
import json
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from library.test_sidecar_sync import contents, sidecar
from prototag import metadata
from prototag.errors import ConflictError, InputError, UnknownNameError
from prototag.images.decode import digest

needs_exiftool = pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool reads it")
needs_exiv2 = pytest.mark.skipif(shutil.which("exiv2") is None, reason="exiv2 reads it")


def exiftool(path, *options):
    printed = subprocess.run(
        ["exiftool", "-j", "-G1", *options, str(path)], check=True, capture_output=True, text=True
    ).stdout
    return json.loads(printed)[0]


def listed(value):
    return sorted(value if isinstance(value, list) else [value])


@pytest.fixture
def photo(photos):
    return photos / "003.jpg"


@pytest.fixture
def inside(library):
    library.set_write_places(jpeg="file")
    return library


def test_jpeg_files_get_their_tags_inside_and_others_a_sidecar(inside, photos, photo):
    other = photos / "other.png"
    Image.fromarray(np.random.default_rng(9).integers(0, 255, (90, 120, 3), np.uint8)).save(other)
    inside.scan()
    pixels = digest(photo)
    inside.accept([photo, other], ["animal|cat", "Käse"])
    plan = inside.plan_sync()
    assert {change.path.name for change in plan.outgoing} == {"003.jpg", "other.png.xmp"}
    assert not sidecar(photo).exists()
    done = inside.sync(plan)
    assert (done.written, done.added, done.problems) == (2, 4, [])
    assert not sidecar(photo).exists()
    assert digest(photo) == pixels
    assert {*metadata.read_keywords(photo).tags} == {"animal|cat", "Käse"}
    assert inside.status().unwritten == 0
    assert not inside.plan_sync()
    inside.scan()
    assert not inside.plan_sync()
    assert inside.picture(photo).accepted == ["animal|cat", "Käse"]


@needs_exiftool
@needs_exiv2
@pytest.mark.parametrize("create", [False, True])
def test_other_programs_read_xmp_and_iptc(inside, photo, create):
    inside.set_write_places(iptc=create)
    inside.accept([photo], ["animal|cat", "Käse"])
    assert inside.sync().problems == []
    found = exiftool(photo, "-validate", "-warning", "-subject", "-iptc:keywords")
    assert listed(found["XMP-dc:Subject"]) == ["Käse", "cat"]
    assert ("IPTC:Keywords" in found) == create
    if create:
        assert listed(found["IPTC:Keywords"]) == ["Käse", "cat"]
    assert "Warning" not in found
    printed = subprocess.run(
        ["exiv2", "-pi", str(photo)], capture_output=True, text=True, check=False
    ).stdout
    assert ("Käse" in printed) == create
    assert ("cat" in printed) == create


@needs_exiftool
def test_an_existing_record_is_kept_in_step(inside, photo):
    subprocess.run(
        ["exiftool", "-q", "-overwrite_original", "-codedcharacterset=utf8", "-iptc:keywords=mine",
         "-iptc:city=Oslo", str(photo)], check=True,
    )  # fmt: skip
    inside.scan()
    inside.accept([photo], ["Käse"])
    assert inside.sync().problems == []
    found = exiftool(photo, "-iptc:all", "-subject")
    assert listed(found["IPTC:Keywords"]) == ["Käse", "mine"]
    assert found["IPTC:City"] == "Oslo"
    assert "Käse" in listed(found["XMP-dc:Subject"])
    inside.clear([photo], ["Käse"])
    assert inside.sync().removed == 1
    found = exiftool(photo, "-iptc:all", "-subject")
    assert listed(found["IPTC:Keywords"]) == ["mine"]


@needs_exiftool
def test_a_tag_that_a_person_removes_inside_is_rejected(inside, photo):
    inside.accept([photo], ["cat", "sofa"])
    inside.sync()
    subprocess.run(
        ["exiftool", "-q", "-overwrite_original", "-subject-=cat", str(photo)], check=True
    )
    assert inside.sync().rejected == 1
    assert inside.picture(photo).rejected == ["cat"]
    assert inside.picture(photo).accepted == ["sofa"]


def test_a_file_that_was_exported_anew_rejects_nothing(inside, photo):
    inside.accept([photo], ["cat"])
    inside.sync()
    data = io.BytesIO()
    Image.open(photo).save(data, "JPEG", quality=95)
    photo.write_bytes(data.getvalue())
    assert inside.plan_sync().rejected == []


def test_nowhere_writes_nothing(library, photo):
    library.set_write_places(jpeg="nowhere")
    library.accept([photo], ["cat"])
    assert not library.plan_sync().outgoing
    library.set_write_places(jpeg="sidecar")
    assert library.sync().written == 1


def test_places_that_make_no_sense_are_refused(library):
    assert library.write_places == ("sidecar", "sidecar", "sidecar", False)
    with pytest.raises(InputError, match="sidecar, file, nowhere"):
        library.set_write_places(jpeg="inside")
    with pytest.raises(InputError, match="sidecar, nowhere"):
        library.set_write_places(raw="file")


def test_a_change_of_the_place_removes_from_the_old_one(library, photo):
    library.accept([photo], ["cat", "sofa"])
    library.sync()
    library.set_write_places(jpeg="file")
    done = library.sync()
    assert (done.added, done.removed) == (2, 2)
    assert not sidecar(photo).exists()
    assert {*metadata.read_keywords(photo).tags} == {"cat", "sofa"}
    assert not library.plan_sync()
    library.clear([photo], ["cat"])
    library.sync()
    assert {*metadata.read_keywords(photo).tags} == {"sofa"}


@pytest.mark.parametrize("place", ["sidecar", "file"])
@pytest.mark.parametrize("create", [False, True])
def test_a_whole_write_is_undone_exactly(library, photos, place, create, everything):
    library.set_write_places(jpeg=place, iptc=create)
    some = sorted(photos.glob("*.jpg"))[:5]
    library.accept(some[:2], ["before"])
    library.sync()
    files = {path: data for path, (data, _) in contents(photos).items()}
    rows = everything(library)
    library.accept(some, ["cat", "Käse"])
    library.clear(some[:1], ["before"])
    accepted = everything(library)
    done = library.sync()
    assert done.written == 5
    assert {path: data for path, (data, _) in contents(photos).items()} != files
    written = library.writes()[0]
    assert written[:1] + written[2:] == (done.write, 5, 10, 1, False)
    undone = library.undo_write(done.write)
    assert (undone.restored, undone.problems) == (5, [])
    assert {path: data for path, (data, _) in contents(photos).items()} == files
    assert library.writes()[0].undone
    # Nothing that a restored file lacks counts as removed by a person.
    assert everything(library) == accepted
    plan = library.plan_sync()
    assert (plan.rejected, plan.incoming, plan.restored) == ([], [], [])
    assert len(plan.outgoing) == 5
    with pytest.raises(ConflictError, match="undone already"):
        library.undo_write(done.write)
    assert library.sync(plan).written == 5
    assert rows != accepted


def test_a_file_that_changed_since_is_left_as_it_is(inside, photos):
    some = sorted(photos.glob("*.jpg"))[:3]
    before = some[2].read_bytes()
    inside.accept(some, ["cat"])
    number = inside.sync().write
    some[0].write_bytes(some[0].read_bytes() + b"more")
    some[1].unlink()
    mine = some[0].read_bytes()
    undone = inside.undo_write(number)
    assert undone.restored == 1
    assert len(undone.problems) == 2
    assert "has changed since" in undone.problems[0]
    assert "was removed since" in undone.problems[1]
    assert some[0].read_bytes() == mine
    assert some[2].read_bytes() == before
    assert not inside.writes()[0].undone


def test_later_writes_are_undone_first(library, photo):
    library.accept([photo], ["cat"])
    first = library.sync().write
    library.accept([photo], ["sofa"])
    second = library.sync().write
    assert library.undo_write(first).restored == 0
    assert library.undo_write(second).restored == 1
    assert library.undo_write(first).restored == 1
    assert not sidecar(photo).exists()
    with pytest.raises(UnknownNameError):
        library.undo_write(99)


def test_only_the_last_writes_are_kept(library, photo, monkeypatch):
    monkeypatch.setattr("prototag.library.writes.MAX_WRITES", 2)
    numbers = []
    for tag in ("a", "b", "c"):
        library.accept([photo], [tag])
        numbers.append(library.sync().write)
    assert [one.number for one in library.writes()] == numbers[:0:-1]
    assert library.sync().write is None
