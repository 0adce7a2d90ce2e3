"""Which pictures a folder or a list holds."""

from __future__ import annotations

import pytest

from prototag.errors import MetadataError
from prototag.metadata import collect

from .shapes import as_somebody, found, picture


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
    with pytest.raises(MetadataError, match=r"holds no pictures: files named .*\.jpg"):
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
