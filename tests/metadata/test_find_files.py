"""One rule for every search of a folder, and which pictures a folder or a list holds."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from prototag.errors import MetadataError
from prototag.metadata import PICTURES, collect
from prototag.metadata.find_files import SKIPPED_FOLDERS, pictures, walk

from .shapes import as_somebody, found, picture


def names(root: Path) -> tuple[list[str], list[str]]:
    problems: list[str] = []
    found = [str(path.relative_to(root)) for path in pictures(root, problems.append)]
    return found, problems


def touch(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_files_come_before_sub_folders_each_in_the_order_of_the_alphabet(tmp_path):
    touch(tmp_path, "b/2.jpg", "b/a/3.jpg", "z.jpg", "a.PNG", "B/1.jpg", "b/10.jpg", "b/notes.txt")
    found = ["a.PNG", "z.jpg", "B/1.jpg", "b/10.jpg", "b/2.jpg", "b/a/3.jpg"]
    assert names(tmp_path) == (found, [])
    assert [image.relative_to(tmp_path).as_posix() for image in collect(tmp_path).images] == found
    folders = [(str(f.path.relative_to(tmp_path)), f.files) for f in walk(tmp_path, print)]
    assert folders[2] == ("b", ["10.jpg", "2.jpg", "notes.txt"])


def test_hidden_names_and_folders_of_systems_are_skipped(tmp_path):
    vendors = (
        "@eaDir",
        "#recycle",
        "#snapshot",
        "$RECYCLE.BIN",
        "__MACOSX",
        "lost+found",
        "@EADIR",
    )
    touch(tmp_path, "a.jpg", ".b.jpg", "._a.jpg", ".trash/c.jpg", *(f"{v}/a.jpg" for v in vendors))
    assert names(tmp_path) == (["a.jpg"], [])
    # What a person names is entered, whatever its name.
    assert names(tmp_path / ".trash") == (["c.jpg"], [])


def test_linked_folders_are_followed_and_each_is_entered_once(tmp_path):
    touch(tmp_path, "in/real/a.jpg", "elsewhere/b.jpg")
    root = tmp_path / "in"
    (root / "again").symlink_to(root / "real")
    (root / "real" / "up").symlink_to(root)
    (root / "zz out").symlink_to(tmp_path / "elsewhere")
    assert names(root) == (["again/a.jpg", "zz out/b.jpg"], [])


def test_linked_files_count_and_links_to_nothing_do_not(tmp_path):
    touch(tmp_path, "in/a.jpg", "else.jpg")
    root = tmp_path / "in"
    (root / "b.jpg").symlink_to(tmp_path / "else.jpg")
    (root / "broken.jpg").symlink_to(tmp_path / "gone.jpg")
    (root / "loop.jpg").symlink_to(root / "loop.jpg")
    (root / "through.jpg").symlink_to(root / "a.jpg" / "no folder")
    os.mkfifo(root / "pipe.jpg")
    assert names(root) == (["a.jpg", "b.jpg"], [])


def test_an_unreadable_folder_is_reported_and_the_walk_continues(tmp_path):
    touch(tmp_path, "a/1.jpg", "locked/2.jpg", "z/3.jpg")
    (tmp_path / "m.jpg").symlink_to(tmp_path / "locked" / "2.jpg")
    with as_somebody(tmp_path, locked=tmp_path / "locked"):
        found, problems = names(tmp_path)
    assert found == ["a/1.jpg", "z/3.jpg"]
    assert problems == [
        f"{tmp_path / name} cannot be read: Permission denied" for name in ("m.jpg", "locked")
    ]


def test_a_folder_that_vanishes_meanwhile(tmp_path):
    touch(tmp_path, "0.jpg", "a/1.jpg", "b/2.jpg")
    problems: list[str] = []
    found = pictures(tmp_path, problems.append)
    next(found)
    shutil.rmtree(tmp_path / "a")
    assert [path.name for path in found] == ["2.jpg"]
    assert problems == [f"{tmp_path / 'a'} cannot be read: No such file or directory"]


def test_nothing_is_read_before_it_is_asked_for(tmp_path, monkeypatch):
    touch(tmp_path, "0.jpg", "a/1.jpg", "b/2.jpg")
    entered = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: entered.append(Path(path).name) or real(path))
    found = pictures(tmp_path, print)
    assert entered == []
    next(found), next(found)
    assert entered == [tmp_path.name, "a"]


@pytest.mark.parametrize("missing", ["gone", "gone/further"])
def test_a_root_that_is_not_there_is_a_problem(tmp_path, missing):
    found, problems = names(tmp_path / missing)
    assert found == []
    assert problems == [f"{tmp_path / missing} cannot be read: No such file or directory"]


def test_the_page_names_what_counts_and_what_is_skipped():
    page = (Path(__file__).parents[2] / "docs/guide/writing-tags.md").read_text(encoding="utf-8")
    section = page.split("## Which pictures a folder holds")[1].split("\n## ")[0]
    counted = re.search(r"names end in `([^`]*)`", section)
    assert counted is not None
    assert set(counted[1].split()) == PICTURES
    skipped = {name.lower() for name in re.findall(r"`([^`]*)`", section)}
    assert skipped >= SKIPPED_FOLDERS


def test_lists(mixed):
    (mixed / "plain.list").write_text("b.JPG\nsub/d.png\n\nb.JPG\ngone.jpg\nnotes.txt\n")
    result = collect(mixed / "plain.list")
    assert found(result, mixed) == {
        "b.JPG": ["lake", "places|Bavaria"],
        "sub/d.png": ["one", "two"],
    }
    assert [p.rpartition(": ")[2] for p in result.problems] == [
        "gone.jpg does not exist",
        "notes.txt is not a picture",
    ]
    assert collect(mixed / "plain.list", kind="folders").tags == [[], ["sub"]]
    (mixed / "list.csv").write_text(f"path,tags\n{mixed}/a.jpg,x;y\nb.JPG,z\na.jpg,w\n")
    result = collect(mixed / "list.csv", kind="listing")
    assert found(result, mixed) == {"a.jpg": ["x", "y", "w"], "b.JPG": ["z"]}


def test_links_and_locked_folders(tmp_path):
    picture(tmp_path / "real" / "a.jpg")
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "other").symlink_to(tmp_path / "real")
    (tmp_path / "nowhere.jpg").symlink_to(tmp_path / "gone.jpg")
    locked = tmp_path / "zz locked"
    picture(locked / "b.jpg")
    with as_somebody(tmp_path, locked=locked):
        result = collect(tmp_path)
    assert len(result.images) == 1
    assert result.problems == [f"{locked} cannot be read: Permission denied"]


def test_no_pictures(tmp_path):
    with pytest.raises(MetadataError, match=r"contains no pictures: files named .*\.jpg"):
        collect(tmp_path)
    with pytest.raises(MetadataError, match="gone does not exist"):
        collect(tmp_path / "gone")
    picture(tmp_path / "a.jpg")
    with pytest.raises(MetadataError, match=r"a\.jpg is a picture: give a folder"):
        collect(tmp_path / "a.jpg")
    with pytest.raises(MetadataError, match="kind='tags': 'auto', or some of xmp"):
        collect(tmp_path, kind="tags")
    with pytest.raises(MetadataError, match='hierarchy=\'x\': "path" or "leaf"'):
        collect(tmp_path, hierarchy="x")
    assert collect(tmp_path).tags == [[]]
