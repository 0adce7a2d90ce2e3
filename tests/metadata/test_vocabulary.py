"""Tags worth learning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototag.errors import MetadataError
from prototag.metadata import vocabulary
from prototag.metadata.spelling import key

TAGS = [["Cat", "dog"], ["cat", "sky"], ["cat ", "CAT"], [], ["sky", ""]]


def test_counts_spellings_and_rare_tags():
    words = vocabulary(TAGS, min_count=2)
    assert words.names == ("cat", "sky")
    assert words.counts == (3, 2)
    assert words.dropped == {"dog": 1}
    assert words.merged == {"CAT": "cat", "Cat": "cat"}
    Y = words.matrix(TAGS)
    assert Y.dtype == np.float32
    assert Y.toarray().tolist() == [[1, 0], [1, 1], [1, 0], [0, 0], [0, 1]]


def test_nothing_is_common_enough():
    words = vocabulary(TAGS, min_count=9)
    assert (words.names, len(words.dropped)) == ((), 3)
    assert words.matrix(TAGS).shape == (5, 0)
    with pytest.raises(MetadataError, match="min_count=0: at least 1"):
        vocabulary(TAGS, min_count=0)


@given(st.lists(st.lists(st.sampled_from(["a", "A", "b", "B ", "c|D", "c|d", ""]))))
def test_the_matrix_counts_what_the_lists_say(tags):
    words = vocabulary(tags)
    Y = words.matrix(tags)
    assert Y.sum(axis=0).tolist() == list(words.counts)
    for i, name in enumerate(words.names):
        rows = [float(key(name) in map(key, row)) for row in tags]
        assert Y.toarray()[:, i].tolist() == rows
    assert words == vocabulary(tags[::-1])  # the order of pictures is nothing
