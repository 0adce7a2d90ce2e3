"""The lexicon: names of sixteen languages get the vectors of their English names."""

from __future__ import annotations

import numpy as np
import pytest

from prototag.knowledge import words
from prototag.knowledge.lexicon import Lexicon, lexicon, name_vectors, without_accents
from prototag.knowledge.words import DIMENSIONS, LANGUAGES, encode_names
from tools import make_knowledge


def english(*phrases):
    known = lexicon()
    return [known.names["en"][row] if row >= 0 else None for row in known.rows_of(phrases)]


def test_it_has_the_words_of_the_table_in_every_language():
    known = lexicon()
    assert set(known.names) == set(LANGUAGES)
    assert len({len(names) for names in known.names.values()}) == 1
    assert known.vectors.shape == (len(known.names["en"]), DIMENSIONS)
    rows = set(zip(*(known.names[language] for language in known.names), strict=True))
    table = make_knowledge.vocabulary_table()
    assert list(known.names) == table[0]
    assert {tuple(row) for row in table[1:]} <= rows
    assert len(rows) > len(table) + 500


@pytest.mark.parametrize(
    ("names", "meanings"),
    [
        (["Strand", "Katze", "Rock"], ["beach", "cat", "skirt"]),
        (["plage", "chat", "pain"], ["beach", "cat", "bread"]),
        (["playa", "gato", "pan"], ["beach", "cat", "bread"]),
        (["beach", "cat", "pan"], ["beach", "cat", "pan"]),
        (["犬", "猫", "海"], ["dog", "cat", "sea"]),
    ],
)
def test_all_names_together_tell_the_language(names, meanings):
    assert english(*names) == meanings


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("Hunde", "dog"),
        ("gatos", "cat"),
        ("la plage", "beach"),
        ("arbol", "tree"),
        ("BEACH", "beach"),
        ("beaches", "beach"),
        ("koty", "cat"),
        ("quixotry", None),
        ("Rex", None),
    ],
)
def test_articles_accents_and_plurals_are_read(name, meaning):
    assert english(name) == [meaning]


def test_several_endings_of_one_language():
    assert english("Hund", "Strände", "Häuser", "die Katze") == ["dog", "beach", "house", "cat"]


def test_a_language_is_not_guessed_from_a_few_of_many_names():
    assert english("dog", "beach", "cat", "Brot") == ["dog", "beach", "cat", None]


def test_no_phrases_have_no_language():
    assert lexicon().language_of([]) is None
    assert lexicon().language_of(["quixotry"]) is None
    assert name_vectors([]).shape == (0, DIMENSIONS)


def test_known_names_have_the_vectors_of_their_english_names():
    known = name_vectors(["Strand", "Katze", "Tier|Hund", "2019", "IMG_2041"])
    encoded = encode_names(["beach", "cat", "animal|dog"])
    assert (known[:3] * encoded).sum(
        axis=1
    ).min() > 0.97  # the lexicon reads names in a phrase, too
    assert not known[3:].any()


def test_unknown_names_have_the_vectors_of_the_encoder():
    names = ["quixotry", "Xanthippe"]
    np.testing.assert_allclose(name_vectors(names), encode_names(names), atol=1e-6)


def test_an_unknown_name_is_read_in_the_language_of_the_others():
    """Alone, "Rast" (rest, in German) is near no rest; with German names it is nearer."""
    meaning = encode_names(["rest"])[0]
    assert name_vectors(["Hund", "Rast"])[1] @ meaning > encode_names(["Rast"])[0] @ meaning


def test_known_names_do_not_load_the_encoder(monkeypatch):
    monkeypatch.setattr(words, "_cache", {})
    monkeypatch.setattr(words._encoder, "get", lambda: pytest.fail("the encoder was loaded"))
    assert name_vectors(["Strand", "Katze", "2019"])[:2].any(axis=1).all()


def test_accents_of_other_alphabets_are_vowels():
    assert without_accents("árbol") == "arbol"
    assert without_accents("กำแพง") == "กำแพง"
    assert without_accents("") == ""


def test_a_file_holds_the_same_lexicon(tmp_path):
    lexicon().save(tmp_path)
    again = Lexicon.load(tmp_path)
    assert again.names == lexicon().names
    np.testing.assert_array_equal(again.vectors, lexicon().vectors)
