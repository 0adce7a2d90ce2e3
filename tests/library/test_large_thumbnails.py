"""Large thumbnails: made from the picture, kept within a budget, shared by libraries."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prototag import Library
from prototag.library.large_thumbnails import LargeThumbnails


@pytest.fixture
def library(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    noise = np.random.default_rng(1).integers(0, 255, (600, 900, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "photos" / "noise.png")
    with Library.create(
        tmp_path / "photos", crops="fast", cache=tmp_path / "cache" / "vectors"
    ) as made:
        made.scan()
        yield made


def size_of(data: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(data)).size


def test_a_large_thumbnail_is_made_once_and_kept(library, tmp_path):
    assert library.kept_thumbnail(1, 512) is None
    made = library.make_thumbnail(1, 512)
    assert size_of(made) == (512, 341)
    assert library.kept_thumbnail(1, 512) == made
    assert size_of(library.make_thumbnail(1, 1024)) == (900, 600)  # never enlarged
    assert len([*(tmp_path / "cache" / "thumbnails").rglob("*.webp")]) == 2


def test_a_kept_thumbnail_outlives_the_file(library, tmp_path):
    made = library.make_thumbnail(1, 512)
    (tmp_path / "photos" / "noise.png").unlink()
    assert library.make_thumbnail(1, 1024) is None
    with Library(library.path, cache=tmp_path / "cache" / "vectors") as again:
        assert again.kept_thumbnail(1, 512) == made


def test_the_least_recently_used_are_evicted(tmp_path):
    kept = LargeThumbnails(tmp_path, max_bytes=250)
    for name in ("aa1", "bb2"):
        kept.put(name, 512, b"x" * 100)
    assert kept.get("aa1", 512) is not None  # now bb2 is the oldest
    kept.put("cc3", 512, b"y" * 100)
    assert kept.get("bb2", 512) is None
    assert kept.get("aa1", 512) == b"x" * 100
    assert kept.total_bytes == 200
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.webp")) == 200
    assert LargeThumbnails(tmp_path).total_bytes == 200


def test_a_deleted_folder_loses_nothing_but_time(library, tmp_path):
    library.make_thumbnail(1, 512)
    for file in (tmp_path / "cache" / "thumbnails").rglob("*.webp"):
        file.unlink()
    assert library.kept_thumbnail(1, 512) is None
    assert library.make_thumbnail(1, 512) is not None
    assert library.kept_thumbnail(1, 512) is not None


def test_without_a_cache_nothing_is_kept(tmp_path):
    Image.new("RGB", (600, 400), "red").save(tmp_path / "red.png")
    with Library.create(tmp_path, crops="fast", cache=None) as made:
        made.scan()
        assert size_of(made.make_thumbnail(1, 512)) == (512, 341)
        assert made.kept_thumbnail(1, 512) is None
