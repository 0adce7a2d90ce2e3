"""Tags as they are kept, compared and joined, and those worth learning."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototag.errors import InputError, MetadataError
from prototag.metadata import vocabulary
from prototag.metadata.tag_names import (
    TagLookup,
    clean,
    combine,
    from_slashes,
    key,
    leaf,
    nearest_ancestor,
    split_tag_options,
    union,
    unique,
    with_slashes,
)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("  cat ", "cat"),
        ("New\tYork,\n NY", "New York, NY"),
        ("Zoe\u0308", "Zoë"),
        ("a\x00b\x0bc\ud800d\uffff", "ab cd"),
        ("animal | | cat|", "animal|cat"),
        ("b/w", "b/w"),
        ("👩‍👩‍👧 <b>&", "👩‍👩‍👧 <b>&"),
        ("|", ""),
        (" \n", ""),
    ],
)
def test_cleaned(given, kept):
    assert clean(given) == kept


@given(st.text())
def test_cleaning_twice_is_cleaning_once(text):
    once = clean(text)
    assert clean(once) == once
    assert unicodedata.is_normalized("NFC", once)
    once.encode()  # no lone surrogate is left


def test_case_does_not_tell_tags_apart():
    assert key("CAT ") == key("cat")
    assert key("Straße") == key("STRASSE")
    assert unique(["Cat", "dog", "", "cat", "DOG"]) == ["Cat", "dog"]


def test_paths():
    assert leaf("animal|cat") == "cat"
    assert leaf("b/w") == "b/w"
    assert with_slashes("style|b/w") == "style/b\\w"
    assert from_slashes("style/b\\w") == "style|b/w"


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
    with pytest.raises(MetadataError, match="min_count=0: give at least 1"):
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


def test_reading_and_writing_tags_loads_no_numpy():
    code = "import sys, prototag.metadata; print({'numpy', 'scipy', 'PIL'} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


def test_names_beside_paths_are_no_tags_of_their_own():
    assert combine(["a|b", "c"], ["b", "a", "c", "d"]) == ["a|b", "c", "d"]
    assert union([["b", "x"], ["a|b"], ["A", "y"]]) == ["x", "a|b", "y"]
    assert union([["a", "a|b"]]) == ["a", "a|b"]  # both assigned, in one place


def test_tags_are_found_as_people_type_them():
    names = TagLookup(
        ["sky", "Natur|Landschaft|sky", "Natur|Pflanze|Bäume", "Zoë", "Orte|Zoe", "a, b"]
    )
    assert names.find("sky") == ["sky"]
    assert names.find("Landschaft|SKY") == ["Natur|Landschaft|sky"]
    assert names.find("baume") == names.find("BÄUME") == ["Natur|Pflanze|Bäume"]
    assert names.find("zoe") == ["Zoë"]
    assert names.find("Zoe ") == ["Zoë"]
    assert names.find("Natur") == names.find("") == names.find("Pflanze") == []
    assert split_tag_options(["Zoë, sky", "a, b"], names) == ["Zoë", "sky", "a, b"]
    assert names.find_all(["zoë", "sky"], owner="x") == ["sky", "Zoë"]
    both = TagLookup(["a|sky", "b|Sky"])
    assert both.find("sky") == ["a|sky", "b|Sky"]


def test_misspelled_names_are_reported_with_similar_ones():
    names = TagLookup(["tree", "Natur|Pflanze|Bäume", "sky"])
    with pytest.raises(InputError, match=r"^the model knows no tag 'trea': did you mean 'tree'\?$"):
        names.find_all(["sky", "trea"], owner="the model knows")
    with pytest.raises(InputError, match=r"did you mean 'Natur\|Pflanze\|Bäume'\?"):
        names.find_all(["Baüm"], owner="the model knows")
    with pytest.raises(InputError, match=r"no tag 'xyz123'\.$"):
        names.find_all(["xyz123"], owner="the model knows")


def test_the_tag_above_rare_ones_is_in_the_vocabulary():
    rows = [["animal|cat"], ["Animal|dog"], ["animal|cat", "sky"], ["animal|bird|owl"], ["sky"]]
    rows += [["sky", "plant|rose"]]
    words = vocabulary(rows, min_count=3)
    assert words.names == ("animal", "sky")
    assert words.counts == (4, 3)
    expected = {"animal|bird|owl": 1, "animal|cat": 2, "Animal|dog": 1, "plant|rose": 1}
    assert words.dropped == expected
    assert words.matrix(rows).toarray().tolist() == [[1, 0], [1, 0], [1, 1], [1, 0], [0, 1], [0, 1]]
    # The absence of a cat says nothing about animals.
    absent = words.matrix([["animal|cat"], ["animal"]], with_ancestors=False)
    assert absent.toarray().tolist() == [[0, 0], [1, 0]]


def test_frequent_tags_below_count_for_the_tag_above():
    """The nearest tag above a rare one is taken; it holds for the frequent ones below, too."""
    rows = [["animal|dog"]] * 3 + [["animal|bird|owl"], ["animal|bird|hen"], ["animal|cat"]]
    words = vocabulary(rows, min_count=2)
    assert words.names == ("animal", "animal|bird", "animal|dog")
    assert words.counts == (6, 2, 3)
    assert words.matrix(rows).toarray().sum(axis=0).tolist() == [6, 2, 3]
    assert vocabulary(rows, min_count=1).names == tuple(sorted({row[0] for row in rows}))
    assert nearest_ancestor("Animal|Bird|owl", words.names) == "animal|bird"
    assert nearest_ancestor("animal", words.names) is None
