"""The embedded collection: what the package holds is what the documents say."""

from __future__ import annotations

import pickle
import zipfile
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from prototag import FeatureExtractor
from prototag.errors import DatasetError, InputError
from prototag.images.decode import open_image
from prototag.research.datasets import clipart, folder, unpack_clipart
from prototag.research.datasets.clipart import CONTAINER, Members, metadata

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def collection():
    return clipart()


def test_counts_are_those_of_the_documents(collection):
    n, t = collection.Y.shape
    assert (n, t, len(collection.train), len(collection.test)) == (2338, 78, 1870, 468)
    text = " ".join((ROOT / "benchmarks/clipart.md").read_text().split())
    assert f"{n:,} pictures, {t} tags, {collection.Y.nnz / n:.2f} tags a picture" in text
    assert f"{len(collection.train):,} to learn from and {len(collection.test)} to score" in text
    assert CONTAINER.stat().st_size <= 8_000_000


def test_every_tag_and_every_picture_has_enough_to_learn_from(collection):
    assert np.asarray(collection.Y.sum(axis=0)).min() >= 20
    assert np.asarray(collection.Y.sum(axis=1)).min() >= 2
    for rows in (collection.train, collection.test):
        assert np.asarray(collection.Y[rows].sum(axis=0)).min() >= 3
    assert collection.tags == sorted({tag.lower().strip() for tag in collection.tags})


def test_no_group_is_cut_and_no_two_pictures_are_the_same(collection):
    groups = collection.groups
    assert not set(groups[collection.train]) & set(groups[collection.test])
    assert np.bincount(groups).min() >= 1
    assert np.bincount(groups).max() <= 8
    assert len(set(collection.images)) == len(set(collection.names)) == len(groups)


def test_every_picture_decodes(collection):
    for content in collection.images:
        picture = open_image(content)
        assert 32 <= max(picture.size) <= 256


def test_the_checksum_is_the_one_of_the_notice(collection):
    assert collection.checksum in (ROOT / "NOTICE").read_text()


def test_members_are_read_alone_from_anywhere(collection):
    with zipfile.ZipFile(CONTAINER) as container:
        assert container.testzip() is None
        assert collection.images[17] == container.read(collection.names[17])
        assert collection.images[-1] == container.read(collection.names[-1])
    assert collection.images[3:5] == [collection.images[3], collection.images[4]]
    assert pickle.loads(pickle.dumps(collection.images))[5] == collection.images[5]
    with pytest.raises(IndexError):
        collection.images[len(collection.images)]


def test_pictures_go_straight_into_the_network(collection):
    extractor = FeatureExtractor(crops="whole", cache=None)
    assert extractor.transform(collection.images[:2]).shape == (2, 1280)


def test_titles_and_authors_are_kept():
    lines = metadata()
    assert sum("author" in line for line in lines) > 0.9 * len(lines)
    assert sum("title" in line for line in lines) > 0.9 * len(lines)


def test_unpacked_it_is_a_folder_to_learn_from(tmp_path, collection):
    again = folder(unpack_clipart(tmp_path / "new" / "art"))
    assert again.tags == collection.tags
    assert again.names == collection.names
    assert (again.Y != collection.Y).nnz == 0
    np.testing.assert_array_equal(again.test, collection.test)
    assert again.images[9].read_bytes() == collection.images[9]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["art"]


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_part_is_unpacked_into_an_empty_folder(tmp_path, collection, part):
    again = folder(unpack_clipart(tmp_path, part))
    rows = getattr(collection, part)
    assert again.names == [collection.names[row] for row in rows]
    assert len(getattr(again, part)) == len(rows)


def test_nothing_is_overwritten_and_nothing_left_half_written(tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DatasetError, match="exists and is not an empty folder: give a new"):
        unpack_clipart(tmp_path)
    with pytest.raises(InputError, match="part='half': give 'train', 'test' or None"):
        unpack_clipart(tmp_path / "new", "half")

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match="No space left"):
        unpack_clipart(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_damaged_package_is_named(tmp_path, monkeypatch):
    broken = tmp_path / "clipart.zip"
    broken.write_bytes(CONTAINER.read_bytes()[:1000])
    monkeypatch.setattr(import_module("prototag.research.datasets.clipart"), "CONTAINER", broken)
    with pytest.raises(DatasetError, match=r"clipart\.zip of this package.*reinstall"):
        metadata()


def test_a_name_that_is_not_there_is_a_key_error():
    with pytest.raises(KeyError, match="nothing"):
        Members(CONTAINER, ["nothing.webp"])
