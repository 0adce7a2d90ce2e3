"""Text within limits, checksums, and pictures found by the names of a list."""

from __future__ import annotations

import hashlib
import os
import re

import pytest

from prototag.errors import DatasetError
from prototag.research.datasets.file_access import (
    Tree,
    checksum,
    find_all,
    only_file,
    read_lines,
    read_text,
    report_problem,
)


def test_text_is_composed_and_freed_of_its_mark(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfcafe\xcc\x81\r\n\r\n  sky \rsea\n")
    assert read_lines(path) == ["caf\u00e9", "sky", "sea"]
    path.write_bytes("next\u0085line".encode())
    assert read_lines(path) == ["next\u0085line"]  # not an end of line in a tag file


def test_other_encodings_are_reported_and_can_be_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(DatasetError, match=r"a.txt: byte 3 \(0xe9\) is not utf-8.*latin-1"):
        read_text(path)
    assert read_text(path, encoding="latin-1") == "caf\u00e9"
    path.write_bytes("sky".encode("utf-16-le"))
    with pytest.raises(DatasetError, match=r"NUL bytes.*utf-16"):
        read_text(path)
    assert read_text(path, encoding="utf-16-le") == "sky"


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(DatasetError, match=r"none.txt: cannot be read \(No such file"):
        read_text(tmp_path / "none.txt")
    path = tmp_path / "a.txt"
    path.write_text("12345")
    with pytest.raises(DatasetError, match="5 bytes, at most 4"):
        read_text(path, max_bytes=4)


def test_the_checksum_depends_on_every_byte_and_on_the_borders(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"ab")
    two.write_bytes(b"c")
    expected = hashlib.sha256(
        b"".join([(2).to_bytes(8, "little"), b"ab", bytes([1] + 7 * [0]), b"c"])
    )
    assert checksum([one, two]) == expected.hexdigest()
    before = checksum([one, two])
    one.write_bytes(b"a")
    two.write_bytes(b"bc")
    assert checksum([one, two]) != before


def test_pictures_are_found_by_what_lists_call_them(tmp_path):
    for name in ("images/00/25.jpg", "images/01/1000.JPG", "images/02/1000.jpeg", "notes/25.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    tree = Tree(tmp_path)
    first = tmp_path / "images/00/25.jpg"
    for name in ("25", "25.jpg", "00/25", "/images/00/25", "other/25.png", "images\\00\\25.jpg"):
        assert tree.find(name) == first, name
    assert tree.find("02/1000") == tmp_path / "images/02/1000.jpeg"
    assert tree.find("1000") is None  # two fit equally well
    assert tree.find("7") is None
    paths, lost = find_all(tree, ["25", "7", "8"])
    assert paths == [first, None, None]
    assert "2 of 3 pictures" in lost
    assert "'7'" in lost
    assert find_all(tree, ["25"])[1] == ""
    assert not Tree(tmp_path / "notes")


def test_complaints_are_errors_or_warnings():
    with pytest.raises(DatasetError, match=r"one is missing. Give strict=False"):
        report_problem("one is missing.", strict=True)
    with pytest.warns(UserWarning, match=r"one is missing."):
        report_problem("one is missing.", strict=False)


def test_one_file_or_none_but_not_two(tmp_path):
    assert only_file(tmp_path, "*.txt") is None
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").touch()
    assert only_file(tmp_path, "*.none", "*.txt") == tmp_path / "a" / "x.txt"
    (tmp_path / "x.txt").touch()
    with pytest.raises(DatasetError, match=r"both match '\*\.txt'"):
        only_file(tmp_path, "*.txt")


def test_data_sets_are_searched_by_the_rule_of_the_walk(tmp_path, monkeypatch):
    for name in ("in/a.jpg", "in/@eaDir/a.jpg", "in/.old/b.jpg", "in/c.ppm", "out/d.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    root = tmp_path / "in"
    (root / "linked").symlink_to(tmp_path / "out")
    tree = Tree(root)
    assert [tree.find(name) for name in "abcd"] == [
        root / "a.jpg",
        None,
        None,
        root / "linked/d.jpg",
    ]
    assert only_file(root, "d.*") == root / "linked/d.jpg"
    assert tree.problems == []
    real = os.scandir

    def forbidden(path):
        if os.fspath(path).endswith("linked"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", forbidden)
    words = f"{root / 'linked'} cannot be read: Permission denied"
    assert words in find_all(Tree(root), ["d"])[1]
    with pytest.warns(UserWarning, match=re.escape(words)):
        assert only_file(root, "d.*") is None
