"""Search a library by words in any language: matches of tags and paths first, then by meaning.

The meaning of a query is the prior score of its words (:mod:`prototag.library.concept_index`). Of
several words, the phrase as a whole and each word have a standardized score, and their sum ranks
the pictures: words that say nothing of how pictures look, such as "at", have small scores.
"""

from __future__ import annotations

import re

import numpy as np

from prototag.arrays import Bools, Floats
from prototag.engine import single_threaded_blas
from prototag.errors import InputError
from prototag.knowledge.concepts import embedded
from prototag.knowledge.lexicon import phrase_vectors
from prototag.library import queries
from prototag.library.concept_index import Coordinates
from prototag.library.database import Ids
from prototag.library.general_suggestions import GeneralSuggestions
from prototag.library.queries import PictureFilter
from prototag.library.types import SearchResult

MAX_QUERY_LENGTH = 200  # characters that are read
MAX_WORDS = 8  # of a query that are scored
WHOLE_WEIGHT = 1.0  # of the phrase, beside its words
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def search(
    general: GeneralSuggestions, query: str, limit: int, choice: PictureFilter
) -> SearchResult:
    """Search pictures by words; see :meth:`prototag.Library.search`."""
    text = " ".join(query[:MAX_QUERY_LENGTH].split())
    if not text:
        raise InputError("the query is empty: give one or more words.")
    if not 1 <= limit <= queries.MAX_LIMIT:
        raise InputError(f"limit={limit}: give 1 to {queries.MAX_LIMIT:,}.")
    store = general.store
    coordinates = general.index.coordinates()
    if coordinates is None or not words_of(text) or any(map(str.isdigit, text)):
        # A part of a file name, or all that a library without concept heads can do.
        matches = queries.pictures(store, limit, 0, {**choice, "text": text})
    else:
        matches = queries.matching_words(store, text.split(), limit, choice)
    scores = None if coordinates is None else word_scores(coordinates, text)
    if coordinates is None or scores is None or len(matches) == limit:
        return SearchResult(matches, len(matches))
    is_match = np.isin(coordinates.pictures, matches)
    allowed = ~is_match & _is_allowed(general, coordinates.pictures, choice)
    rows = np.flatnonzero(allowed)
    count = min(limit - len(matches), len(rows))
    best = rows[np.argpartition(-scores[rows], count - 1)[:count]] if count else rows[:0]
    best = best[np.argsort(-scores[best], kind="stable")]
    return SearchResult([*matches, *coordinates.pictures[best].tolist()], len(matches))


def words_of(text: str) -> list[str]:
    """Return the words of a query, each once; a language without spaces has one."""
    return list(dict.fromkeys(_WORD.findall(text)))


def word_scores(coordinates: Coordinates, text: str) -> Floats | None:
    """Return the scores of all pictures for a query; None if it has no words."""
    words = words_of(text)
    if not words:
        return None
    phrases = [text, *words[:MAX_WORDS]] if len(words) > 1 else [text]
    with single_threaded_blas():  # these products are small: threads would wait for each other
        heads = embedded().heads_of_words(phrase_vectors(phrases))
        scaled, _ = coordinates.standardized(heads)
    weights = np.ones(len(phrases), np.float32)
    weights[0] = WHOLE_WEIGHT
    return coordinates.scores((weights @ scaled)[None])[:, 0]


def _is_allowed(general: GeneralSuggestions, pictures: Ids, choice: PictureFilter) -> Bools:
    """Return which pictures match the other conditions, by default those that have a file."""
    store = general.store
    if any(choice.get(name) for name in ("tags", "without", "state", "folder", "text")):
        allowed = queries.pictures(store, queries.MAX_LIMIT, 0, choice)
        return np.isin(pictures, allowed)
    with store.read() as conn:
        gone = [row[0] for row in conn.execute("SELECT id FROM pictures WHERE n_files = 0")]
    return ~np.isin(pictures, gone) if gone else np.ones(len(pictures), bool)
