"""The type that every loader returns: consistent, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from prototag.errors import DatasetError, InputError, PrototagError
from prototag.research.datasets import Collection
from prototag.research.datasets.collection import tag_matrix

GOOD = Collection(
    name="toy",
    Y=sparse.csr_array(np.array([[1, 0], [0, 1], [1, 1], [0, 0]], np.float32)),
    tags=["sea", "sky"],
    train=np.array([0, 2]),
    test=np.array([3, 1]),
    X=np.arange(8, dtype=np.float32).reshape(4, 2),
    images=[Path(f"{i}.jpg") for i in range(4)],
    names=list("abcd"),
    groups=np.array([0, 0, 1, 2]),
)


def test_repr_describes_the_collection():
    said = "toy: 4 images (2 training, 2 test), 2 tags, 1.0 an image, vectors of 2"
    assert str(GOOD) == said
    assert repr(GOOD) == f"<{said}>"
    assert str(replace(GOOD, X=None)).endswith("1.0 an image")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tags": ["sea"]}, "1 names for 2 tags"),
        ({"tags": ["sea", "sea"]}, "tag 'sea' is named twice"),
        ({"Y": sparse.csr_array(np.full((4, 2), 2.0))}, "contain 2.0: 0 or 1"),
        ({"Y": sparse.csr_array((0, 2))}, "0 images with 2 tags"),
        ({"X": np.zeros((3, 2), np.float32)}, "X has 3 rows, the tags have 4"),
        ({"images": []}, "images has 0 rows"),
        ({"names": ["a"]}, "names has 1 rows"),
        ({"groups": np.zeros(5)}, "groups has 5 rows"),
        ({"train": np.array([0, 4])}, r"train names rows outside of 0 \.\.\. 3"),
        ({"test": np.array([-1])}, "test names rows outside"),
        ({"test": np.array([0])}, "twice in training and test"),
        ({"train": np.array([1, 1]), "test": np.arange(0)}, "twice in training and test"),
    ],
)
def test_what_does_not_fit_together_is_refused(change, message):
    with pytest.raises(DatasetError, match=message) as caught:
        replace(GOOD, **change)
    assert isinstance(caught.value, PrototagError)


def test_keeping_rows_renumbers_the_split():
    kept = GOOD.keep([1, 2, 3])
    assert_array_equal(kept.Y.toarray(), GOOD.Y.toarray()[1:])
    assert_array_equal(kept.train, [1])
    assert_array_equal(kept.test, [2, 0])
    assert kept.names == ["b", "c", "d"]
    assert kept.images == GOOD.images[1:]
    assert_array_equal(kept.X, GOOD.X[1:])
    assert_array_equal(kept.groups, [0, 1, 2])
    for rows in ([2, 1], [0, 0], [4], [-1]):
        with pytest.raises(InputError, match="increasing numbers from 0 to 3"):
            GOOD.keep(rows)


def test_vectors_can_be_given_later():
    more = GOOD.with_vectors(np.ones((4, 3)))
    assert more.X.dtype == np.float32
    with pytest.raises(DatasetError, match="X has 3 rows"):
        GOOD.with_vectors(np.ones((3, 3)))


def test_lists_of_tags_become_a_matrix():
    Y, names = tag_matrix([["b", "a", "b"], [], ["c"]])
    assert names == ["a", "b", "c"]
    assert_array_equal(Y.toarray(), [[1, 1, 0], [0, 0, 0], [0, 0, 1]])
    assert Y.dtype == np.float32
    Y, names = tag_matrix([["b"]], ["b", "z"])
    assert_array_equal(Y.toarray(), [[1, 0]])
    with pytest.raises(DatasetError, match="'q' is not in the list of 1 tags"):
        tag_matrix([["q"]], ["b"])
