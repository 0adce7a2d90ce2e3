"""A file is replaced whole, or stays as it was with nothing beside it."""

from __future__ import annotations

import pytest

from prototag.storage.atomic import replacing


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
