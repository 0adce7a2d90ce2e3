"""TagProp's lists and JSON lists, whole and damaged."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prototag.errors import DatasetError
from prototag.research.datasets.annotation_lists import json_lists, tagprop

from .forms import tags_of, words, write_json, write_tagprop, write_vecs

Y_TRAIN, Y_TEST = tags_of(12, 5), tags_of(4, 5, seed=1)


def read(folder, feature=None):
    return tagprop(folder / "toy_train_list.txt", "toy", feature)


@pytest.fixture
def folder(tmp_path):
    write_tagprop(tmp_path, "toy", Y_TRAIN, Y_TEST)
    return tmp_path


def test_tagprops_lists(folder):
    found = read(folder)
    assert_array_equal(found.Y.toarray(), np.vstack([Y_TRAIN, Y_TEST]))
    assert found.Y.dtype == np.float32
    assert found.tags == words(5)
    assert found.names == [f"00/{row}" for row in range(16)]
    assert found.n_train == 12
    assert found.X is None
    assert len(found.files) == 5


def test_features_are_read_and_joined(folder):
    rng = np.random.default_rng(0)
    gist = rng.random((16, 3)).astype(np.float32)
    sift = rng.integers(0, 99, (16, 4))
    for part, rows in (("train", slice(0, 12)), ("test", slice(12, 16))):
        write_vecs(folder / f"toy_{part}_Gist.fvec", gist[rows])
        write_vecs(folder / f"toy_{part}_DenseSift.hvecs", sift[rows])
    assert_array_equal(read(folder, "Gist").X, gist)
    assert_array_equal(read(folder, ["Gist", "DenseSift"]).X, np.hstack([gist, sift]))
    with pytest.raises(DatasetError, match=r"toy_train_Lab.* Available features: DenseSift, Gist"):
        read(folder, "Lab")


@pytest.mark.parametrize("part", ["dictionary.txt", "test_list.txt", "test_annot.hvecs"])
def test_a_missing_companion_is_named(folder, part):
    (folder / f"toy_{part}").unlink()
    with pytest.raises(DatasetError, match=f"toy_{part} is missing: it belongs beside"):
        read(folder)


def test_lists_of_different_lengths_are_refused(folder):
    (folder / "toy_test_list.txt").write_text("a\nb\n")
    with pytest.raises(DatasetError, match=r"toy_test_list.txt has 2 images.*annot.hvecs 4"):
        read(folder)


def test_another_dictionary_is_refused(folder):
    (folder / "toy_dictionary.txt").write_text("a\nb\n")
    with pytest.raises(DatasetError, match=r"train_annot.hvecs has 5 tags, toy_dictionary.txt 2"):
        read(folder)


# -- JSON ------------------------------------------------------------------------------------------


def test_json_lists(tmp_path):
    write_json(tmp_path, Y_TRAIN, Y_TEST)
    found = json_lists(tmp_path / "train.json")
    assert_array_equal(found.Y.toarray(), np.vstack([Y_TRAIN, Y_TEST]))
    assert found.tags == words(5)
    assert found.n_train == 12
    assert found.names[0] == "0.jpeg"


@pytest.mark.parametrize(
    "train",
    [
        [{"file_name": "a", "tags": ["sky"]}, {"file_name": "b", "tags": ["sea", "sky"]}],
        {"a": ["sky"], "b": ["sea", "sky"]},
        {
            "labels": ["sea", "sky"],
            "samples": [{"image": "a", "tags": [1]}, {"image": "b", "tags": [0, 1]}],
        },
    ],
)
def test_other_shapes_of_json(tmp_path, train):
    (tmp_path / "train.json").write_text(json.dumps(train))
    (tmp_path / "test.json").write_text(json.dumps([{"name": "c", "labels": ["sea"]}]))
    found = json_lists(tmp_path / "train.json")
    assert found.names == ["a", "b", "c"]
    assert found.tags == ["sea", "sky"]
    assert_array_equal(found.Y.toarray(), [[0, 1], [1, 1], [1, 0]])


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("3", "no list of samples"),
        ('[{"image_name": "a"}]', "sample 0 needs a name .* and a list of tags"),
        ('[{"tags": ["a"]}]', "sample 0 needs a name"),
        ("[3]", "sample 0 needs"),
        ('[{"image_name": "a", "tags": [7]}]', "tag 7 is neither a name"),
        (
            '{"labels": ["x"], "samples": [{"image_name": "a", "tags": [1]}]}',
            "tag 1 is neither a name",
        ),
        ('{"labels": ["x"], "samples": [{"image_name": "a", "tags": ["y"]}]}', "'y' is not in"),
    ],
)
def test_json_that_is_no_list_of_samples(tmp_path, train, message):
    (tmp_path / "train.json").write_text(train)
    (tmp_path / "test.json").write_text("[]")
    with pytest.raises(DatasetError, match=message):
        json_lists(tmp_path / "train.json")


def test_json_lists_with_different_labels_are_refused(tmp_path):
    for part in ("train", "test"):
        (tmp_path / f"{part}.json").write_text(json.dumps({"labels": [part], "samples": []}))
    with pytest.raises(DatasetError, match="list different labels"):
        json_lists(tmp_path / "train.json")
