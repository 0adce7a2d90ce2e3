"""A file is replaced whole, or stays as it was with nothing beside it."""

from __future__ import annotations

import os
import stat

import pytest

from prototag.storage.atomic_write import replacing, write_beside


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    target = tmp_path / "page.html"
    for content in (b"one", b"two"):
        with replacing(target) as file:
            file.write(content)
        assert target.read_bytes() == content
    assert list(tmp_path.iterdir()) == [target]


def test_a_failure_leaves_what_was_there(tmp_path):
    target = tmp_path / "page.html"
    target.write_bytes(b"before")

    def write():
        with replacing(target) as file:
            file.write(b"after")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write()
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]


def test_the_first_step_alone_leaves_the_target(tmp_path):
    target = tmp_path / "photo.xmp"
    target.write_bytes(b"before")
    beside = write_beside(target, b"after")
    assert target.read_bytes() == b"before"
    assert beside.read_bytes() == b"after"
    assert beside.parent == tmp_path
    assert beside.name.startswith(".")
    os.replace(beside, target)
    assert list(tmp_path.iterdir()) == [target]


def test_a_first_step_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_beside(tmp_path / "photo.xmp", b"after")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="has no umask")
def test_the_umask_decides_who_may_read(tmp_path):
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "page.html") as file:
            file.write(b"one")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o640


def test_what_killed_runs_left_is_swept_once_and_nothing_else(tmp_path):
    left = tmp_path / ".prototag-0123456789abcdef.tmp"
    young = tmp_path / ".prototag-fedcba9876543210.tmp"
    others = [tmp_path / name for name in (".prototag-notes.tmp", "a.tmp", ".prototag-0.tmp")]
    folder = tmp_path / ".prototag-1123456789abcdef.tmp"
    folder.mkdir()
    for path in (left, young, *others):
        path.write_bytes(b"half")
        os.utime(path, (0, 0))
    os.utime(folder, (0, 0))
    os.utime(young)
    write_beside(tmp_path / "photo.xmp", b"new").unlink()
    assert sorted(tmp_path.iterdir()) == sorted([young, folder, *others])
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    write_beside(tmp_path / "photo.xmp", b"new").unlink()
    assert left.exists()  # a folder is looked through once, however many files are written
