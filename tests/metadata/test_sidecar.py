"""Sidecars: their names, what real readers read from them, and changes on a real disk.

A change is made whole or not at all, by several processes at once.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from PIL import Image

from prototag.errors import ImageError, MetadataError
from prototag.metadata import apply, embedded_reader, plan, plan_untag, read_keywords, sidecar
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
def test_markers_survive_a_program_that_rewrites_the_sidecar(image, command, program):
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


def test_tags_without_characters_are_skipped_with_a_note(image):
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
    with pytest.raises(MetadataError, match=r"naming='x': \"auto\""):
        sidecar.target(image, "x")


def test_sidecars_of_raw_files_are_those_of_adobe_unless_there_is_another(tmp_path):
    raw, jpeg = tmp_path / "photo.NEF", tmp_path / "photo.jpg"
    raw.write_bytes(b"II*\0")
    Image.new("RGB", (8, 8)).save(jpeg)
    assert sidecar.target(raw).name == "photo.xmp"
    assert sidecar.target(raw, "full").name == "photo.NEF.xmp"
    assert sidecar.target(jpeg).name == "photo.jpg.xmp"
    apply(plan(raw, ["fox"]))
    assert (tmp_path / "photo.xmp").exists()  # Lightroom's, of the raw file alone
    assert sidecar.target(jpeg, "stem").name == "photo.jpg.xmp"
    (tmp_path / "photo.NEF.xmp").touch()  # darktable's or digiKam's
    assert sidecar.target(raw).name == "photo.NEF.xmp"
    (tmp_path / "other.dng").touch()
    (tmp_path / "other.nef").touch()
    assert sidecar.target(tmp_path / "other.nef").name == "other.nef.xmp"


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
        (b"", "photo.jpg.xmp is empty. It was not changed"),
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
    with pytest.raises(MetadataError, match=r"gone\.jpg does not exist and has no sidecar"):
        plan_untag(tmp_path / "gone.jpg")


def test_a_sidecar_that_is_no_file(image):
    os.mkfifo(image.with_name("photo.jpg.xmp"))
    with pytest.raises(MetadataError, match="is not a regular file"):
        plan(image, ["fox"])


AWKWARD = ["New York, NY", "👩‍👩‍👧", "<b>&amp;", "x" * 1000, "animal|fox"]


def test_the_second_run_touches_nothing(image):
    path = apply(plan(image, AWKWARD)).path
    os.utime(path, ns=(1, 1))
    before = path.stat()
    change = plan(image, reversed(list(reversed(AWKWARD))))
    assert not change
    assert apply(change) == change
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, 1)
    assert change.summary() == f"{path}: no change"
    assert change.diff() == ""


def test_untag_leaves_the_folder_as_it_was(image):
    pixels = image.read_bytes()
    apply(plan(image, AWKWARD))
    assert image.read_bytes() == pixels
    assert sorted(os.listdir(image.parent)) == ["photo.jpg", "photo.jpg.xmp"]
    change = apply(plan_untag(image))
    assert change.new is None
    assert os.listdir(image.parent) == ["photo.jpg"]
    assert not plan_untag(image)


def test_planning_touches_nothing_and_shows_what_it_would_do(image):
    path = beside(image, "lightroom")
    data = path.read_bytes()
    change = plan(image, ["fox", "animal|owl"])
    assert (path.read_bytes(), os.listdir(image.parent).sort()) == (data, None)
    assert (change.added, change.removed) == (("fox", "animal|owl"), ())
    diff = change.diff().splitlines()
    assert diff[:2] == [f"--- {path}", f"+++ {path}"]
    assert "+     <rdf:li>fox</rdf:li>" in diff
    assert not [line for line in diff[2:] if line.startswith("-")]
    assert change.summary() == f"{path}: +fox, +animal|owl"
    assert plan(image, []).diff() == ""
    apply(change)
    assert plan_untag(image).summary() == f"{path}: -fox, -animal|owl"


def test_a_sidecar_that_breaks_after_planning_is_not_overwritten(image):
    change = plan(image, ["fox"])
    change.path.write_bytes(b"broken")
    with pytest.raises(MetadataError, match="is not well-formed XML"):
        apply(change)
    assert change.path.read_bytes() == b"broken"


def test_a_sidecar_that_changes_after_planning_keeps_both(image):
    first, second = plan(image, ["fox"], replace=False), plan(image, ["owl"], replace=False)
    apply(first)
    done = apply(second)
    assert done.added == ("owl",)
    assert set(read_keywords(image).added) == {"fox", "owl"}


def test_permissions_and_links_are_kept(image):
    real = image.parent / "store" / "real.xmp"
    real.parent.mkdir()
    real.write_bytes((GOLDEN / "lightroom.xmp").read_bytes())
    real.chmod(0o640)
    image.with_name("photo.jpg.xmp").symlink_to(real)
    apply(plan(image, ["fox"]))
    assert image.with_name("photo.jpg.xmp").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert b"<rdf:li>fox" in real.read_bytes()


def child(code: str, *arguments: str, limit: int | None = None):
    def before() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )


WRITE = """
import sys
from prototag.errors import ImageError, MetadataError
from prototag.metadata import apply, plan
try:
    apply(plan(sys.argv[1], ["fox" * 400]))
except MetadataError as error:
    print(error)
"""


def test_a_full_disk_loses_nothing(image):
    path = beside(image, "digikam")
    data = path.read_bytes()
    out, error = child(WRITE, str(image), limit=len(data)).communicate()
    assert "photo.jpg.xmp cannot be written: File too large. Nothing was changed." in out, error
    assert path.read_bytes() == data
    assert sorted(os.listdir(image.parent)) == ["photo.jpg", "photo.jpg.xmp"]


@pytest.mark.parametrize("locked", ["folder", "file"])
def test_what_is_read_only_is_left_alone(image, locked):
    path = beside(image, "digikam")
    data = path.read_bytes()
    for parent in image.parents[:4]:  # pytest closes its folders to others, each worker one more
        if parent != Path(tempfile.gettempdir()):
            parent.chmod(0o755)
    image.parent.chmod(0o555 if locked == "folder" else 0o777)
    path.chmod(0o666 if locked == "folder" else 0o444)
    said = "cannot be written: Permission denied" if locked == "folder" else "is read-only"
    user = os.geteuid()
    try:
        os.seteuid(user or 65534)  # nothing is read-only to root
        with pytest.raises(MetadataError, match=said):
            apply(plan(image, ["fox"]))
    finally:
        os.seteuid(user)
        image.parent.chmod(0o755)
    assert path.read_bytes() == data
    assert sorted(os.listdir(image.parent)) == ["photo.jpg", "photo.jpg.xmp"]


def test_two_runs_at_once_lose_nothing(image):
    """Processes add and take back their own tags; a person's and the last of each stay."""
    path = beside(image, "digikam")
    persons = read_keywords(image).tags
    code = """
    import sys
    from prototag.metadata import apply, plan, plan_untag
    image, name = sys.argv[1:]
    for i in range(15):
        apply(plan(image, [f"{name} {i}"], replace=False))
        if i % 5 == 4:
            apply(plan_untag(image, tags=[f"{name} {i - 1}"]))
    """
    running = [child(code, str(image), name) for name in ("one", "two", "three")]
    for process in running:
        _, error = process.communicate()
        assert process.returncode == 0, error
    keywords = read_keywords(image)
    wanted = {f"{n} {i}" for n in ("one", "two", "three") for i in range(15) if i % 5 != 3}
    assert set(keywords.added) == wanted
    assert keywords.tags == persons
    assert sorted(os.listdir(image.parent)) == ["photo.jpg", "photo.jpg.xmp"]
    apply(plan_untag(image))
    assert path.read_bytes() == (GOLDEN / "digikam.xmp").read_bytes()


def test_a_killed_run_leaves_a_whole_sidecar(image):
    path = beside(image, "digikam")
    code = """
    import sys
    from prototag.metadata import apply, plan
    i = 0
    print("ready", flush=True)
    while True:
        i += 1
        apply(plan(sys.argv[1], [f"tag {i}"]))
    """
    for _ in range(3):
        process = child(code, str(image))
        assert process.stdout.readline() == "ready\n"
        process.kill()
        process.communicate()
        assert Packet(path.read_bytes()).values(SUBJECT)[:3] == ["Cat", "garden", "Zoë & Max"]
    apply(plan(image, ["fox"]))  # the lock went with its holder
    assert read_keywords(image).added == ("fox",)


def own(image: Path) -> Path:
    return image.with_name(image.name + ".xmp")


def test_folders_named_as_sidecars_and_pictures_leave_no_descriptor_open(tmp_path):
    from prototag.images.decode import read_bytes

    (tmp_path / "x.jpg").mkdir()
    (tmp_path / "x.jpg.xmp").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(MetadataError):
            embedded_reader.read(tmp_path / "x.jpg")
        with pytest.raises(MetadataError):
            sidecar.read_if_exists(tmp_path / "x.jpg.xmp")
        with pytest.raises(ImageError, match="is a folder"):
            read_bytes(tmp_path / "x.jpg")
    assert len(os.listdir("/proc/self/fd")) == before


def test_waiting_for_a_lock_of_another_program_times_out(image, monkeypatch):
    import fcntl

    monkeypatch.setattr(sidecar, "LOCK_TIMEOUT_SECONDS", 0.1)
    handle = os.open(image.parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(MetadataError, match=r"another program has locked .* try again"):
            apply(plan(image, ["fox"]))
    finally:
        os.close(handle)
    assert not own(image).exists()
    assert [path.name for path in image.parent.iterdir()] == [image.name]
    assert apply(plan(image, ["fox"])).added == ("fox",)


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes")
def test_extended_attributes_stay(image):
    apply(plan(image, ["fox"]))
    try:
        os.setxattr(own(image), "user.rating", b"5")
    except OSError:
        pytest.skip("the disk knows no extended attributes")
    apply(plan(image, ["owl"]))
    assert os.getxattr(own(image), "user.rating") == b"5"


def test_other_names_of_a_sidecar_are_reported(image, tmp_path):
    apply(plan(image, ["fox"]))
    copy = tmp_path / "backup.xmp"
    os.link(own(image), copy)
    before = copy.read_bytes()
    change = apply(plan(image, ["owl"]))
    assert copy.read_bytes() == before
    assert [note for note in change.notes if "has hard links" in note]
    assert apply(plan(image, ["owl"])).notes == ()
