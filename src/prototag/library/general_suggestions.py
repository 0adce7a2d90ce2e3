"""Suggestions without labels: words of the general vocabulary, and pictures for any new name.

They are computed from the concept index, and stored nowhere: only a person's decision makes a word
a tag. So they have no part in training.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from prototag.arrays import Array, Bools, Doubles, Floats
from prototag.knowledge.concepts import NamePrior, embedded
from prototag.knowledge.general import Vocabulary, general_vocabulary
from prototag.knowledge.lexicon import name_vectors
from prototag.knowledge.words import read_name
from prototag.library import query_strategies, tag_table
from prototag.library.concept_index import ConceptIndex, Coordinates
from prototag.library.database import Ids, Store
from prototag.library.preferences import LANGUAGE
from prototag.library.types import GeneralWord, Suggestion
from prototag.metadata.tag_names import key

DEFAULT_LANGUAGE = "en"
MIN_PROBABILITY = 0.25  # of a general word that is suggested
MAX_VOCABULARIES = 2  # languages whose pairs are kept in memory
NO_MODEL = 0  # number of the model of these suggestions


class _Pairs(NamedTuple):
    """Pairs of picture and word of at least the smallest probability."""

    coordinates: Coordinates  # that they were computed from
    pictures: Ids
    words: Array
    probabilities: Floats


class _Exclusions(NamedTuple):
    """Pairs that are not suggested, because somebody has decided on them."""

    pictures: Array  # complete ones, and those without files
    words: Bools  # of hidden tags
    pairs: set[tuple[int, int]]  # picture and word


class GeneralSuggestions:
    """Suggestions for one library that need no labels; threads may share it."""

    def __init__(self, store: Store, index: ConceptIndex) -> None:
        self.store = store
        self.index = index
        self._lock = threading.Lock()
        self._vocabularies: dict[str, Vocabulary] = {}
        self._pairs: dict[str, _Pairs] = {}

    @property
    def is_available(self) -> bool:
        """Whether there are concept heads for the library's vectors, and any vectors."""
        return self.index.coordinates() is not None

    def release(self) -> None:
        """Free the memory; the next use computes the pairs again."""
        with self._lock:
            self._vocabularies.clear()
            self._pairs.clear()
        self.index.release()

    def language(self, preferred: str | None = None) -> str:
        """Return the language of general words: the library's setting, else the preferred one."""
        return self.store.setting(LANGUAGE, "") or preferred or DEFAULT_LANGUAGE

    def words(self, preferred: str | None = None) -> list[GeneralWord]:
        """Return the words that are suggested, with their undecided pictures, frequent first."""
        names, pairs = self._open_pairs(self.language(preferred))
        counts = np.bincount(pairs[1], minlength=len(names))
        order = np.argsort(-counts, kind="stable")
        return [GeneralWord(names[i], int(counts[i])) for i in order.tolist() if counts[i]]

    def of_picture(self, picture: int, preferred: str | None = None) -> list[Suggestion]:
        """Return the words that are suggested for a picture, the most probable first."""
        names, (_, words, p) = self._open_pairs(self.language(preferred), picture)
        order = np.argsort(-p, kind="stable").tolist()
        return [Suggestion(picture, names[words[i]], float(p[i]), NO_MODEL) for i in order]

    def pairs(
        self, limit: int, skip: Iterable[int] = (), preferred: str | None = None
    ) -> list[Suggestion]:
        """Return pairs of picture and word: the best picture of each word, then the second, ...

        By probability alone the first pages would have the most frequent words only.
        """
        names, (pictures, words, p) = self._open_pairs(self.language(preferred))
        order = np.lexsort((-p, words))
        first = np.flatnonzero(np.diff(words[order], prepend=-1))
        rank = np.empty(len(p), np.int64)
        rank[order] = np.arange(len(p)) - np.repeat(first, np.diff(first, append=len(p)))
        groups = self._groups()
        suggestions = (
            Suggestion(
                int(pictures[i]), names[words[i]], float(p[i]), NO_MODEL, groups[int(pictures[i])]
            )
            for i in np.lexsort((-p, rank)).tolist()
        )
        return query_strategies.first_of_groups(suggestions, limit, set(skip))

    def for_name(
        self, name: str, limit: int, skip: Iterable[int] = (), preferred: str | None = None
    ) -> list[Suggestion] | None:
        """Rank pictures for a name that no picture has as a tag; None if it has no word.

        A word of the general vocabulary has its own head and calibration, any other name those of
        similar words.
        """
        coordinates = self.index.coordinates()
        if coordinates is None:
            return None
        vocabulary = self._of_name(name, self.language(preferred))
        if vocabulary is None:
            return None
        log_odds = embedded().on_axes(vocabulary.log_odds)
        scores = coordinates.scores(log_odds.coef.T)[:, 0]
        p = _probability(scores + log_odds.intercept[0])
        groups = self._groups()
        with self.store.read() as conn:
            tag = tag_table.find_tag(conn, name)
            decided = conn.execute("SELECT picture FROM labels WHERE tag = ?", (tag,)).fetchall()
            complete = conn.execute("SELECT id FROM pictures WHERE complete").fetchall()
        closed = {row[0] for row in (*decided, *complete)}
        pictures = coordinates.pictures.tolist()
        suggestions = (
            Suggestion(pictures[i], name, float(p[i]), NO_MODEL, groups[pictures[i]])
            for i in np.argsort(-scores, kind="stable").tolist()
            if pictures[i] in groups and pictures[i] not in closed
        )
        return query_strategies.first_of_groups(suggestions, limit, set(skip))

    def name_scores(self, name: str, pictures: Ids) -> Doubles | None:
        """Return prior scores of pictures by a tag's name, of mean 0 and a deviation of up to 1.

        None if the name has no word, or if there are no concept heads for the vectors.
        """
        coordinates = self.index.coordinates()
        if coordinates is None:
            return None
        vectors = name_vectors([name])
        if not vectors.any():
            return None
        heads, offset = coordinates.standardized(embedded().heads_of_words(vectors))
        rows = coordinates.rows_of(pictures)
        scores = coordinates.scores(heads)[:, 0] + offset[0]
        return np.where(rows >= 0, scores[rows], 0.0)

    def _of_name(self, name: str, language: str) -> Vocabulary | None:
        vocabulary = self._vocabulary(language)
        folded = name.casefold()
        for row, known in enumerate(vocabulary.names):
            if known.casefold() == folded:
                return _one_word(vocabulary, row)
        if not read_name(name):
            return None
        return general_vocabulary().of_names([name])

    def _vocabulary(self, language: str) -> Vocabulary:
        with self._lock:
            if language not in self._vocabularies:
                while len(self._vocabularies) >= MAX_VOCABULARIES:
                    oldest = next(iter(self._vocabularies))
                    del self._vocabularies[oldest]
                    self._pairs.pop(oldest, None)
                self._vocabularies[language] = general_vocabulary().in_language(language)
            return self._vocabularies[language]

    def _all_pairs(self, language: str) -> tuple[list[str], _Pairs | None]:
        """Return the pairs of all pictures; those of pictures that are new are computed."""
        vocabulary = self._vocabulary(language)
        coordinates = self.index.coordinates()
        if coordinates is None:
            return vocabulary.names, None
        with self._lock:
            known = self._pairs.get(language)
            if known is None or known.coordinates is not coordinates:
                known = _probable_pairs(vocabulary, coordinates, known)
                self._pairs[language] = known
            return vocabulary.names, known

    def _open_pairs(
        self, language: str, picture: int | None = None
    ) -> tuple[list[str], tuple[Ids, Array, Floats]]:
        """Return names of words, and the pairs that nobody has decided on."""
        names, known = self._all_pairs(language)
        if known is None:
            return names, (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
        selected = np.arange(len(known.pictures))
        if picture is not None:
            selected = np.flatnonzero(known.pictures == picture)
        pictures = known.pictures[selected]
        words = known.words[selected]
        with self.store.read() as conn:
            closed = _closed(conn, names, picture)
        is_open = ~np.isin(pictures, closed.pictures) & ~closed.words[words]
        if closed.pairs:
            number = len(names)
            decided = np.array([one * number + word for one, word in closed.pairs], np.int64)
            is_open &= ~np.isin(pictures * number + words, decided)
        return names, (pictures[is_open], words[is_open], known.probabilities[selected][is_open])

    def _groups(self) -> dict[int, int]:
        """Return the near-duplicate group of each picture that has a file."""
        with self.store.read() as conn:
            rows = conn.execute("SELECT id, duplicate_group FROM pictures WHERE n_files > 0")
            return dict(rows.fetchall())


def _one_word(vocabulary: Vocabulary, row: int) -> Vocabulary:
    """Return a vocabulary of one word of another one."""
    prior = vocabulary.log_odds
    return vocabulary._replace(
        names=[vocabulary.names[row]],
        vectors=vocabulary.vectors[[row]],
        log_odds=NamePrior(prior.coef[:, [row]], prior.intercept[[row]]),
        auc=vocabulary.auc[[row]],
        precision=vocabulary.precision[[row]],
    )


def _probable_pairs(
    vocabulary: Vocabulary, coordinates: Coordinates, known: _Pairs | None
) -> _Pairs:
    """Compute the pairs of pictures that are new since the known ones were computed."""
    pictures = coordinates.pictures
    parts: list[tuple[Ids, Array, Floats]] = []
    is_new = np.ones(len(pictures), bool)
    if known is not None and known.coordinates.version == coordinates.version:
        is_new = ~np.isin(pictures, known.coordinates.pictures)
        stays = np.isin(known.pictures, pictures)
        parts.append((known.pictures[stays], known.words[stays], known.probabilities[stays]))
    least = np.float32(np.log(MIN_PROBABILITY / (1 - MIN_PROBABILITY)))
    selected = np.flatnonzero(is_new)
    new = Coordinates(
        coordinates.version,
        pictures[selected],
        coordinates.quantized[selected],
        coordinates.scale[selected],
    )
    log_odds = embedded().on_axes(vocabulary.log_odds)
    weights = np.ascontiguousarray(log_odds.coef)
    for start, rows in new.batches():
        odds = rows @ weights * new.scale[start : start + len(rows), None]
        odds += log_odds.intercept
        at, words = np.nonzero(odds >= least)
        parts.append((new.pictures[start + at], words, _probability(odds[at, words])))
    if not parts:
        return _Pairs(coordinates, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, "f4"))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return _Pairs(coordinates, columns[0], columns[1], columns[2])


def _probability(log_odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-log_odds)), np.float32)


def _closed(conn: sqlite3.Connection, names: list[str], picture: int | None) -> _Exclusions:
    """Read which pairs, pictures and words are not to be suggested, perhaps for one picture."""
    word_of = {key(name): word for word, name in enumerate(names)}
    tags: dict[int, int] = {}
    is_hidden = np.zeros(len(names), bool)
    rows = conn.execute(
        "SELECT key, id, hidden FROM tags UNION ALL "
        "SELECT a.key, t.id, t.hidden FROM aliases a JOIN tags t ON t.id = a.tag"
    )
    for tag_key, tag, hidden in rows:
        word = word_of.get(tag_key)
        if word is not None:
            tags[tag] = word
            is_hidden[word] |= bool(hidden)
    pairs = {
        (one, word)
        for tag, word in tags.items()
        for (one,) in conn.execute(
            "SELECT picture FROM labels WHERE tag = ?1 AND (?2 IS NULL OR picture = ?2)",
            (tag, picture),
        )
    }
    closed = conn.execute("SELECT id FROM pictures WHERE complete OR n_files = 0").fetchall()
    return _Exclusions(np.array([row[0] for row in closed], np.int64), is_hidden, pairs)
