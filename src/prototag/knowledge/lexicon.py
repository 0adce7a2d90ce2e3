"""Lexicon: words in sixteen languages with the vectors of their English names.

The encoder places a word of another language near its English translation, but not at it, and a
short word such as "Rock" (German for skirt) near another word. A name that the lexicon has gets the
vector of its English name instead. Names that it does not have are left to the encoder, which gets
them alone and in a phrase of their language ("ein Foto von Rock"), because it is not told the
language otherwise.

tools/make_knowledge.py makes the file.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Self

import numpy as np

from prototag.arrays import Array, Floats
from prototag.knowledge.words import DIMENSIONS, combine_phrases, encode_phrases, unit_vectors

FOLDER = "data"
FILE = "lexicon.npz"
INFLECTED_WEIGHT = 0.5  # of a word without its ending, as evidence of a language
MIN_STEM_LENGTH = 3  # characters that are left of a word without its ending

ARTICLES = {
    "de": ("der", "die", "das", "ein", "eine"),
    "en": ("the", "a", "an"),
    "es": ("el", "la", "los", "las", "un", "una"),
    "fr": ("le", "la", "les", "un", "une", "des"),
    "it": ("il", "lo", "la", "i", "gli", "le", "un", "una"),
    "nl": ("de", "het", "een"),
    "pt": ("o", "a", "os", "as", "um", "uma"),
}
# Endings of plurals and what replaces them, for words without accents.
PLURALS = {
    "de": (("nen", ""), ("en", ""), ("er", ""), ("n", ""), ("e", ""), ("s", "")),
    "en": (("ies", "y"), ("es", ""), ("s", "")),
    "es": (("ces", "z"), ("s", ""), ("es", "")),
    "fr": (("aux", "al"), ("s", ""), ("x", "")),
    "it": (("chi", "co"), ("che", "ca"), ("i", "o"), ("i", "e"), ("e", "a")),
    "nl": (("en", ""), ("s", "")),
    "pl": (("y", ""), ("i", ""), ("y", "a"), ("i", "a"), ("e", "a"), ("a", "o")),
    "pt": (("oes", "ao"), ("ns", "m"), ("s", ""), ("es", "")),
    "ru": (("ы", ""), ("и", ""), ("ы", "а"), ("и", "а"), ("и", "ь"), ("а", "о")),
    "tr": (("lar", ""), ("ler", "")),
}
# Phrases that tell the encoder the language of a name.
PHRASES = {
    "ar": "صورة {}",
    "de": "ein Foto von {}",
    "en": "a photo of {}",
    "es": "una foto de {}",
    "fr": "une photo de {}",
    "it": "una foto di {}",
    "ja": "{}の写真",
    "ko": "{} 사진",
    "nl": "een foto van {}",
    "pl": "zdjęcie: {}",
    "pt": "uma foto de {}",
    "ru": "фотография: {}",
    "th": "รูปถ่ายของ{}",
    "tr": "{} fotoğrafı",
    "zh": "{}的照片",
    "zh-TW": "{}的照片",
}


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Words in sixteen languages; each has the vector of its English name."""

    names: dict[str, list[str]]  # of each language, one for each word
    vectors: Array  # words x 512, int8, of the English names
    phrase_offsets: Floats  # languages x 512, mean difference of a name in its phrase and alone

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what :meth:`save` wrote."""
        with np.load(folder / FILE, allow_pickle=False) as file:
            lines = file["names"].tobytes().decode().split("\n")
            vectors = file["vectors"]
            offsets = file["phrase_offsets"]
        table = [line.split("\t") for line in lines]
        names = {language: [row[i] for row in table[1:]] for i, language in enumerate(table[0])}
        return cls(names, vectors, offsets)

    def save(self, folder: Path) -> None:
        """Write ``lexicon.npz``."""
        rows = [list(self.names), *zip(*self.names.values(), strict=True)]
        text = np.frombuffer("\n".join("\t".join(row) for row in rows).encode(), np.uint8)
        np.savez(
            folder / FILE, names=text, vectors=self.vectors, phrase_offsets=self.phrase_offsets
        )

    @cached_property
    def _exact(self) -> dict[str, dict[str, int]]:
        """Return the row of each word, in lower case, of each language."""
        tables: dict[str, dict[str, int]] = {}
        for language, words in self.names.items():
            table = tables.setdefault(language, {})
            for row, word in enumerate(words):
                table.setdefault(word.casefold(), row)
        return tables

    @cached_property
    def _plain(self) -> dict[str, dict[str, int]]:
        """Return the row of each word without accents, of each language."""
        tables: dict[str, dict[str, int]] = {}
        for language, table in self._exact.items():
            plain = tables.setdefault(language, {})
            for word, row in table.items():
                plain.setdefault(without_accents(word), row)
        return tables

    def language_of(self, phrases: Sequence[str]) -> str | None:
        """Return the language that has most of the phrases, None if no language has any.

        One phrase alone says little: "pan" is bread in Spanish. The phrases of all tags together
        tell the language.
        """
        folded = {phrase.casefold() for phrase in phrases}
        counts = {name: self._count(folded, name) for name in self.names}
        best = max(counts.values())
        if best == 0:
            return None
        return "en" if counts["en"] == best else max(counts, key=lambda name: counts[name])

    def _count(self, phrases: Collection[str], language: str) -> float:
        """Count the phrases of a language; endings of plurals are weak evidence."""
        exact = self._exact[language]
        return sum(
            1.0 if phrase in exact else INFLECTED_WEIGHT * (self._inflected(phrase, language) >= 0)
            for phrase in phrases
        )

    def encode(self, phrases: Sequence[str], language: str | None) -> Floats:
        """Return a unit vector for each phrase by the encoder, alone and in a longer phrase."""
        vectors = encode_phrases(phrases)
        if language is None:
            return vectors
        offset = self.phrase_offsets[list(self.names).index(language)]
        return unit_vectors(vectors + in_phrases(phrases, language) - offset)

    def rows_of(self, phrases: Sequence[str]) -> list[int]:
        """Return the row of each phrase, -1 for phrases that the lexicon does not have.

        Phrases are words of the language that has most of them, or of English.
        """
        language = self.language_of(phrases)
        if language is None:
            return [-1] * len(phrases)
        rows = []
        for phrase in phrases:
            row = self._row(phrase, language)
            rows.append(self._row(phrase, "en") if row < 0 else row)
        return rows

    def _row(self, phrase: str, language: str) -> int:
        row = self._exact[language].get(phrase.casefold(), -1)
        return self._inflected(phrase, language) if row < 0 else row

    def _inflected(self, phrase: str, language: str) -> int:
        """Return the row of a phrase without article, accents and the ending of its plural."""
        plain = self._plain[language]
        word = without_accents(phrase.casefold())
        first, _, rest = word.partition(" ")
        if rest and first in ARTICLES.get(language, ()):
            word = rest
        if word in plain:
            return plain[word]
        for ending, replacement in PLURALS.get(language, ()):
            stem = word.removesuffix(ending)
            if stem != word and len(stem) >= MIN_STEM_LENGTH:
                row = plain.get(stem + replacement, -1)
                if row >= 0:
                    return row
        return -1


def in_phrases(phrases: Sequence[str], language: str) -> Floats:
    """Return the vectors of longer phrases, which tell the encoder the language."""
    return encode_phrases([PHRASES[language].format(phrase) for phrase in phrases])


def without_accents(word: str) -> str:
    """Return a word of a Latin or Cyrillic alphabet without accents; others as they are."""
    if not word or word[0] > "\u052f":  # marks of other alphabets are vowels
        return word
    decomposed = unicodedata.normalize("NFKD", word)
    return "".join(character for character in decomposed if not unicodedata.combining(character))


@cache
def lexicon() -> Lexicon:
    """Return the lexicon of the package, loaded once."""
    return Lexicon.load(Path(__file__).parent / FOLDER)


def phrase_vectors(phrases: Sequence[str]) -> Floats:
    """Return a unit vector for each phrase (n x 512), by the lexicon where it has the phrase.

    The encoder is loaded only for phrases that the lexicon does not have.
    """
    if not phrases:
        return np.zeros((0, DIMENSIONS), np.float32)
    known = lexicon()
    rows = known.rows_of(phrases)
    vectors = unit_vectors(known.vectors[rows])
    unknown = [number for number, row in enumerate(rows) if row < 0]
    if unknown:
        language = known.language_of(phrases)
        vectors[unknown] = known.encode([phrases[number] for number in unknown], language)
    return vectors


def name_vectors(names: Sequence[str]) -> Floats:
    """Return a unit vector for each tag name (n x 512); zeros for names without words."""
    return combine_phrases(names, phrase_vectors)
