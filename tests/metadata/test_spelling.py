"""Tags as they are kept and compared."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototag.metadata.spelling import clean, from_slashes, key, leaf, unique, with_slashes


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
