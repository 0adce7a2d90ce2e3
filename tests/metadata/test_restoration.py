"""Exact undo of a file's change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototag.errors import MetadataError
from prototag.metadata.restoration import restoration, restore

CONTENT = st.one_of(st.none(), st.binary(max_size=40), st.text("ab", max_size=12).map(str.encode))


@given(before=CONTENT, after=CONTENT)
def test_every_change_is_undone(tmp_path_factory, before, after):
    path = tmp_path_factory.mktemp("undo") / "file"
    if after is not None:
        path.write_bytes(after)
    one = restoration(path, before, after)
    if before == after:
        return
    restore(one)
    assert (path.read_bytes() if path.exists() else None) == before


def test_only_the_changed_part_is_kept(tmp_path):
    pixels = bytes(range(256)) * 1000
    one = restoration(tmp_path / "a", b"head old" + pixels, b"head much newer" + pixels)
    assert one.old is not None
    assert len(one.old) < 10


def test_permissions_stay(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"new")
    path.chmod(0o640)
    restore(restoration(path, b"old", b"new"))
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("now", [b"other", b"", None])
def test_a_changed_file_is_refused(tmp_path, now):
    path = tmp_path / "a"
    if now is not None:
        path.write_bytes(now)
    with pytest.raises(MetadataError, match="since it was written"):
        restore(restoration(path, b"old", b"new"))
    assert (path.read_bytes() if path.exists() else None) == now


def test_a_damaged_record_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"new")
    one = restoration(path, b"old", b"new")
    with pytest.raises(MetadataError, match="record is damaged"):
        restore(one._replace(old=b"xyz"))
    assert path.read_bytes() == b"new"
