"""Pictures to tag."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image

from .shapes import GOLDEN, picture


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "photo.jpg"
    Image.new("RGB", (8, 8)).save(path)
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """One picture for every kind of source, and what is to be left out."""
    picture(tmp_path / "a.jpg")
    shutil.copy(GOLDEN / "lightroom.xmp", tmp_path / "a.jpg.xmp")
    picture(tmp_path / "b.JPG", format="JPEG")
    shutil.copy(GOLDEN / "darktable.xmp", tmp_path / "b.xmp")
    picture(tmp_path / "c.jpg", xmp=(GOLDEN / "digikam.xmp").read_bytes())
    (tmp_path / "c.txt").write_text("one\ntwo, too\n")
    picture(tmp_path / "sub" / "d.png")
    (tmp_path / "sub" / "d.png.txt").write_text("one, two")
    picture(tmp_path / "sub" / "e.webp")
    (tmp_path / "sub" / "metadata.csv").write_text("file_name,tags\ne.webp,three\nd.png,one\n")
    picture(tmp_path / "sub" / "untagged.gif")
    for junk in (".hidden.jpg", "._a.jpg", "@eaDir/a.jpg", ".trash/x.jpg"):
        picture(tmp_path / junk)
    (tmp_path / ".DS_Store").touch()
    (tmp_path / "notes.txt").write_text("no tags of a picture")
    return tmp_path
