"""How names of tags are read, and their vectors in sixteen languages."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from prototag.knowledge import words
from prototag.knowledge.words import DIMENSIONS, LANGUAGES, PARENT_WEIGHT, encode_names, read_name

# Dog, cat, fish, water.
ANIMALS = {
    "ar": ["كلب", "قطة", "سمكة", "ماء"],
    "de": ["Hund", "Katze", "Fisch", "Wasser"],
    "en": ["dog", "cat", "fish", "water"],
    "es": ["perro", "gato", "pez", "agua"],
    "fr": ["chien", "chat", "poisson", "eau"],
    "it": ["cane", "gatto", "pesce", "acqua"],
    "ja": ["犬", "猫", "魚", "水"],
    "ko": ["개", "고양이", "물고기", "물"],
    "nl": ["hond", "kat", "vis", "water"],
    "pl": ["pies", "kot", "ryba", "woda"],
    "pt": ["cachorro", "gato", "peixe", "água"],
    "ru": ["собака", "кошка", "рыба", "вода"],
    "th": ["สุนัข", "แมว", "ปลา", "น้ำ"],
    "tr": ["köpek", "kedi", "balık", "su"],
    "zh": ["狗", "猫", "鱼", "水"],
    "zh-TW": ["狗", "貓", "魚", "水"],
}


@pytest.mark.parametrize(
    ("name", "phrases"),
    [
        ("dog", ["dog"]),
        ("animal|cat", ["cat", "animal"]),
        ("animal | cat", ["cat", "animal"]),
        ("Places/Europe/Rome", ["Rome", "Places", "Europe"]),
        ("animal|", ["animal"]),
        ("2019|Berlin", ["Berlin"]),
        ("Hochzeit Anna 2019", ["Hochzeit Anna"]),
        ("IMG_2041", []),
        ("DSC 0042", []),
        ("IMG-20190412-WA0042", []),
        ("trip|P1010042", ["trip"]),
        ("photo", ["photo"]),
        ("Boeing 747", ["Boeing"]),
        ("camp2019", ["camp"]),
        ("sunset_beach", ["sunset beach"]),
        ("sunset-beach", ["sunset-beach"]),
        ("BlackAndWhite", ["Black And White"]),
        ("black & white", ["black & white"]),
        ("children's party!", ["children's party"]),
        ("ﬁsh", ["fish"]),
        ("Cafe\u0301", ["Café"]),
        ("สุนัข", ["สุนัข"]),
        ("🐕 dog", ["dog"]),
        ("\ud800dog\0", ["dog"]),
        ("2019", []),
        ("12.05.2019", []),
        ("", []),
        (" \t", []),
        ("|", []),
        ("---", []),
        ("🏖️🐕", []),
        ("\u0e38\u0301", []),  # marks without a letter
    ],
)
def test_names_are_read_as_phrases(name, phrases):
    parsed = read_name(name)
    assert [phrase for phrase, _ in parsed] == phrases
    assert [weight for _, weight in parsed] == [1.0, *[PARENT_WEIGHT] * (len(parsed) - 1)][
        : len(parsed)
    ]


def test_the_leaf_of_a_long_hierarchy_counts_most():
    name = "|".join(["a very long name of a place"] * 400 + ["dog"])
    assert len(name) > 10_000
    assert read_name(name)[0] == ("dog", 1.0)
    assert encode_names([name])[0] @ encode_names(["dog"])[0] > 0.3


@pytest.mark.parametrize("name", ["a" * 10_000, "a b " * 2_500, "a|" * 5_000, "ﷺ" * 10_000])
def test_ten_thousand_characters_are_read_in_bounded_time_and_memory(name):
    encode_names(["warm"])
    tracemalloc.start()
    start = time.monotonic()
    vector = encode_names([name])
    seconds = time.monotonic() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(len(phrase) for phrase, _ in read_name(name)) < 10_000
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert seconds < 30
    assert peak < 1e9


def test_vectors_have_unit_length_and_names_without_words_are_zero():
    names = ["dog", "2019", "animal|cat", "", "🏖️", "Hochzeit Anna 2019", "สุนัข"]
    vectors = encode_names(names)
    assert vectors.shape == (7, DIMENSIONS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 1, 0, 0, 1, 1], atol=1e-5)
    assert encode_names([]).shape == (0, DIMENSIONS)


def test_all_languages_are_tested():
    assert set(ANIMALS) == set(LANGUAGES)
    assert len(LANGUAGES) == 16


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_word_is_nearest_to_its_translation(language):
    cosines = encode_names(ANIMALS[language]) @ encode_names(ANIMALS["en"]).T
    np.testing.assert_array_equal(cosines.argmax(axis=1), range(4))
    assert np.diag(cosines).min() > 0.55


def test_hund_is_nearer_to_dog_than_to_cat():
    hund, dog, cat = encode_names(["Hund", "dog", "cat"])
    assert hund @ dog > hund @ cat + 0.15


@pytest.mark.parametrize(
    ("one", "other"),
    [("dog", "Dog"), ("dog", "DOG"), ("dog", "dogs"), ("mountain", "Mountains"),
     ("sunset beach", "sunset_beach"), ("black and white", "BlackAndWhite"),
     ("Hund", "Hunde"), ("cat", "animal|cat"), ("Hochzeit", "Hochzeit 2019")],
)  # fmt: skip
def test_spellings_of_one_word_are_alike(one, other):
    a, b, stranger = encode_names([one, other, "bicycle"])
    assert a @ b > 0.75
    assert a @ b > a @ stranger + 0.2


def test_a_parent_distinguishes_meanings_of_a_word():
    river, money = encode_names(["river|bank", "finance|bank"])
    water = encode_names(["river"])[0]
    assert river @ water > money @ water + 0.05


def test_vectors_do_not_depend_on_the_other_names_nor_on_the_cache(monkeypatch):
    names = ["dog", "a phrase of several words", "animal|cat", "犬"]
    together = encode_names(names)
    monkeypatch.setattr(words, "_cache", {})
    monkeypatch.setattr(words, "MAX_CACHED", 2)
    for name, vector in zip(names, together, strict=True):
        np.testing.assert_allclose(encode_names([name])[0], vector, atol=2e-6)
    np.testing.assert_allclose(encode_names(names), together, atol=2e-6)
    assert len(words._cache) <= 2 * len(names) + 2
