"""What other programs read in files that ProtoTag has written."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

import raws
import tagged
from prototag.images.decode import digest, open_image
from prototag.metadata import read_keywords
from with_programs.conftest import program

ROOT = Path(__file__).parents[2]
TAGS = ["animal|cat", "Zoë & Max"]


def annotate(*arguments: object) -> None:
    command = [sys.executable, "-m", "prototag", "annotate", "--quiet", *arguments]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


@pytest.fixture
def containers(tmp_path: Path) -> Path:
    """The same picture in seven kinds of file; the TIFF has a tag of a person."""
    folder = tmp_path / "containers"
    folder.mkdir()
    picture = tagged.picture(["red", "striped"], 7)
    for ending in ("jpg", "tif", "png"):
        picture.resize((640, 480)).save(folder / f"{ending}.{ending}")
    large, small = (tmp_path / name for name in ("large.jpg", "small.jpg"))
    picture.resize((640, 480)).save(large)
    picture.resize((160, 120)).save(small)
    for ending in ("dng", "cr2", "nef", "arw"):
        made = getattr(raws, ending)(large.read_bytes(), small.read_bytes(), 1)
        (folder / f"{ending}.{ending}").write_bytes(made)
    mine = [program("exiftool"), "-q", "-overwrite_original", "-XMP-dc:Subject=mine"]
    subprocess.run([*mine, folder / "tif.tif"], check=True)
    return folder


def subjects(*files: Path) -> dict[str, set[str]]:
    """Return the keywords that exiftool reads in each file."""
    command = [program("exiftool"), "-j", "-sep", ";", "-XMP-lr:HierarchicalSubject", *files]
    read = json.loads(subprocess.check_output([str(part) for part in command]))
    return {
        Path(one["SourceFile"]).name: {*str(one.get("HierarchicalSubject", "")).split(";")} - {""}
        for one in read
    }


def test_lightroom_finds_tags_where_it_reads_them(containers, model):
    """Inside JPEG, TIFF, PNG and DNG, and in photo.xmp of other raw files: docs/integrate."""
    pixels = {path.name: open_image(path.read_bytes()).tobytes() for path in containers.iterdir()}
    annotate(containers, "-m", model, "--embed", "--write-xmp", "--top", 2)
    given = {"red", "striped"}
    assert subjects(containers / "jpg.jpg") == {"jpg.jpg": given}
    for ending in ("cr2", "nef", "arw"):
        assert subjects(containers / f"{ending}.xmp") == {f"{ending}.xmp": given}
    # The two commands of the page.
    copied = ["-XMP-dc:Subject", "-XMP-lr:HierarchicalSubject", "-overwrite_original"]
    for kinds, sidecar in ((["tif", "png"], "%d%F.xmp"), (["dng"], "%d%f.xmp")):
        kind_options = [part for kind in kinds for part in ("-ext", kind)]
        command = [program("exiftool"), "-q", *kind_options, "-tagsFromFile", sidecar, *copied]
        subprocess.run([*command, containers], check=True)
    inside = subjects(*(containers / f"{kind}.{kind}" for kind in ("tif", "png", "dng")))
    assert inside == {"tif.tif": {"mine", *given}, "png.png": given, "dng.dng": given}
    for name, before in pixels.items():
        assert open_image((containers / name).read_bytes()).tobytes() == before
        # The copies are still known as ProtoTag's.
        keywords = read_keywords(containers / name)
        assert {*keywords.added} == given
        assert keywords.tags == (("mine",) if name == "tif.tif" else ())


def test_exiv2_and_exiftool_read_every_list_of_a_sidecar(photos):
    from prototag.metadata import apply, plan

    change = apply(plan(photos / "101.jpg", TAGS))
    command = [program("exiv2"), "-PXkv", "print", str(change.path)]
    printed = subprocess.check_output(command, text=True)
    rows = dict(line.split(maxsplit=1) for line in printed.splitlines() if " " in line)
    assert rows["Xmp.dc.subject"] == "cat, Zoë & Max"
    assert rows["Xmp.digiKam.TagsList"] == "animal/cat, Zoë & Max"
    assert rows["Xmp.lr.hierarchicalSubject"] == "animal|cat, Zoë & Max"
    assert subjects(change.path) == {"101.jpg.xmp": {*TAGS}}


def test_shotwell_imports_the_tags_inside_jpeg_files(photos, model, expected, tmp_path):
    annotate(photos, "-m", model, "--embed", "--top", 2)
    home = tmp_path / "home"
    settings = home / ".config" / "glib-2.0" / "settings"
    settings.mkdir(parents=True)
    (settings / "keyfile").write_text(
        "[org/yorba/shotwell/preferences/files]\n"
        f"auto-import=true\nimport-dir='{_quoted(photos)}'\n",
        encoding="utf-8",
    )
    command = [program("xvfb-run"), "--auto-servernum", program("dbus-run-session"), "--"]
    command += [program("shotwell"), "--no-startup-progress", "--datadir", str(home / "data")]
    environment = {**os.environ, "HOME": str(home), "GSETTINGS_BACKEND": "keyfile"}
    environment |= {"XDG_CONFIG_HOME": str(home / ".config"), "XDG_CACHE_HOME": str(home / "cache")}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wanted = {f"/{name}" for names in expected for name in names}
    try:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and _shotwell_tags(home / "data") != wanted:
            time.sleep(1)
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)
    assert _shotwell_tags(home / "data") == wanted


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace("'", "\\'")


def _shotwell_tags(data: Path) -> set[str]:
    for file in data.rglob("photo.db"):
        opened = closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True))
        with opened as conn, suppress(sqlite3.OperationalError):  # the table is made later
            return {name for (name,) in conn.execute("SELECT name FROM TagTable")}
    return set()


def test_the_script_for_the_batch_queue_of_digikam(photos, model, tmp_path):
    """digiKam replaces the two words and runs the script by /bin/sh -c."""
    commands = tmp_path / "bin"
    commands.mkdir()
    command = commands / "prototag"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m prototag "$@"\n')
    command.chmod(0o755)
    source, target = photos / "it's one.jpg", tmp_path / "out of the queue.jpg"
    script = (ROOT / "integrations" / "digikam" / "batch-queue.sh").read_text(encoding="utf-8")
    for word, path in (("$INPUT", source), ("$OUTPUT", target)):
        script = script.replace(word, f'"{path}"')
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    assert model == tmp_path / "model.prototag"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
    subprocess.run(["/bin/sh", "-c", script], check=True, env=environment, capture_output=True)
    assert read_keywords(target).added
    assert read_keywords(source).added == ()
    assert digest(target.read_bytes()) == digest(source.read_bytes())
