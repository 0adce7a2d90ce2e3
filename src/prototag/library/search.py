"""Search a library: conditions, words in any language, likeness, and the order of the result.

Pictures whose tags or paths have all words come first. The others within the conditions follow,
ranked by the prior score of the words (:mod:`prototag.library.concept_index`). Of several words,
the phrase as a whole and each word have a standardized score, and their sum ranks the pictures:
words that say nothing of how pictures look, such as "at", have small scores.
"""

from __future__ import annotations

import sqlite3
from typing import Literal, NamedTuple, get_args

import numpy as np

from prototag.arrays import Floats
from prototag.engine import single_threaded_blas
from prototag.errors import InputError, Remedy
from prototag.knowledge.concepts import embedded
from prototag.knowledge.lexicon import phrase_vectors
from prototag.library import queries
from prototag.library.concept_index import Coordinates
from prototag.library.filters import FUNCTION_WORDS, PictureFilter, where
from prototag.library.general_suggestions import GeneralSuggestions
from prototag.library.query_language import Query, parse
from prototag.library.types import SearchResult

Order = Literal["best", "added", "newest", "oldest", "name", "probability", "likeness"]
ORDERS: tuple[str, ...] = get_args(Order)
MAX_PICTURES = 1_000_000
MAX_SCORED_WORDS = 8  # of a query
WHOLE_WEIGHT = 1.0  # of the phrase, beside its words
EXCLUDED_WEIGHT = 0.5  # of a word that is excluded: looks are no proof that a picture has it
MAX_RANKED = 1_000  # pictures that only look like the words
_SQL_ORDERS = {
    "newest": "(SELECT taken_at FROM captures c WHERE c.picture = {0}) DESC, {0} DESC",
    "oldest": "(SELECT taken_at FROM captures c WHERE c.picture = {0}) IS NULL, "
    "(SELECT taken_at FROM captures c WHERE c.picture = {0}), {0}",
    "probability": "coalesce((SELECT max(probability) FROM suggestions s JOIN tags t "
    "ON t.id = s.tag WHERE s.picture = {0} AND NOT t.hidden), 0) DESC, {0}",
}


class Search(NamedTuple):
    """What is searched, and the order of the result."""

    query: str = ""
    order: str | None = None  # one of ORDERS; by default likeness, the best, or as added
    like: int | None = None  # picture that the others are compared with
    limit: int = 100
    ranked: int = MAX_RANKED  # largest number of pictures that only look like the words


def search(general: GeneralSuggestions, wanted: Search, choice: PictureFilter) -> SearchResult:
    """Search pictures; see :meth:`prototag.Library.search`."""
    if not 1 <= wanted.limit <= MAX_PICTURES:
        raise InputError(f"limit={wanted.limit}: give 1 to {MAX_PICTURES:,}.")
    query = parse(wanted.query)
    order = _order(wanted, query)
    with general.store.read() as conn:
        matches = _select(conn, choice, query, order)
        others: list[int] = []
        if query.word_clauses and len(matches) < wanted.limit:
            others = _select(conn, choice, query.conditions, "added")
            gone = {row[0] for row in conn.execute("SELECT id FROM pictures WHERE n_files = 0")}
        if others:
            excluded = {*matches} if choice.get("state") == "missing" else {*matches} | gone
            others = [one for one in others if one not in excluded]
    ranked = _ranked(general, query, others)[: min(wanted.ranked, wanted.limit - len(matches))]
    n_matches = len(matches)
    pictures = [*matches, *ranked]
    if order == "likeness":
        assert wanted.like is not None
        pictures = _by_likeness(general, wanted.like, pictures)
    elif ranked and order != "best":
        pictures = _sorted(general, pictures, order)
    return SearchResult(pictures[: wanted.limit], min(n_matches, wanted.limit))


def _order(wanted: Search, query: Query) -> str:
    order = wanted.order
    if order is None:
        order = "best" if query.word_clauses else "added"
        order = "likeness" if wanted.like is not None else order
    if order not in ORDERS:
        raise InputError(f"order={order!r}: give {', '.join(ORDERS)}.")
    if order == "likeness" and wanted.like is None:
        raise InputError('order="likeness" compares with a picture: give like=, its number.')
    return order


def _select(conn: sqlite3.Connection, choice: PictureFilter, query: Query, order: str) -> list[int]:
    """Return the pictures that meet all conditions and have all words, in order."""
    one, clause, values = where(conn, {**choice, "query": None}, query)
    if order == "name":
        rows = conn.execute(
            f"SELECT {one}, (SELECT min(search_name) FROM files f WHERE f.picture = {one} "
            f"AND f.present) FROM {clause}",
            values,
        ).fetchall()
        return [row[0] for row in sorted(rows, key=_file_name)]
    by = _SQL_ORDERS.get(order, "{0}").format(one)
    rows = conn.execute(f"SELECT {one} FROM {clause} ORDER BY {by}", values).fetchall()
    return [row[0] for row in rows]


def _file_name(row: tuple[int, str | None]) -> tuple[str, str, int]:
    path = row[1] or ""
    return path.rpartition("/")[2], path, row[0]


def _sorted(general: GeneralSuggestions, pictures: list[int], order: str) -> list[int]:
    """Return matches and pictures that look like the words in one order."""
    with general.store.read() as conn:
        in_order = _select(conn, {}, Query(), order)
    wanted = set(pictures)
    return [one for one in in_order if one in wanted]


def _ranked(general: GeneralSuggestions, query: Query, pictures: list[int]) -> list[int]:
    """Return the pictures that have coordinates, by how much they look like the words."""
    if not pictures or (coordinates := general.index.coordinates()) is None:
        return []
    rows = coordinates.rows_of(np.array(pictures, np.int64))
    rows = rows[rows >= 0]
    scores = word_scores(coordinates, query)[rows]
    best = rows[np.argsort(-scores, kind="stable")]
    return [int(one) for one in coordinates.pictures[best]]


def word_scores(coordinates: Coordinates, query: Query) -> Floats:
    """Return the scores of all pictures for the words of a query.

    Of a clause of several words, joined by "or", the best counts.
    """
    clauses = query.word_clauses
    groups: list[list[str]] = [[term.text for term in clause] for clause in clauses]
    spoken = [group for group in groups if not {w.casefold() for w in group} & FUNCTION_WORDS]
    weights = [1.0] * len(spoken[:MAX_SCORED_WORDS])
    scored = spoken[:MAX_SCORED_WORDS]
    if len(groups) > 1 and all(len(group) == 1 for group in groups):
        scored = [*scored, [" ".join(group[0] for group in groups)]]
        weights.append(WHOLE_WEIGHT)
    elif not scored:
        scored = groups
        weights = [1.0] * len(groups)
    excluded = query.without_words[:MAX_SCORED_WORDS]
    scored = [*scored, *([word] for word in excluded)]
    weights += [-EXCLUDED_WEIGHT] * len(excluded)
    phrases = list(dict.fromkeys(word for group in scored for word in group))
    with single_threaded_blas():  # these products are small: threads would wait for each other
        heads = embedded().heads_of_words(phrase_vectors(phrases))
        scaled, _ = coordinates.standardized(heads)
    if all(len(group) == 1 for group in scored):
        rows = [phrases.index(group[0]) for group in scored]
        combined = np.asarray(weights, np.float32) @ scaled[rows]
        return coordinates.scores(combined[None])[:, 0]
    every = coordinates.scores(scaled)
    total = np.zeros(len(every), np.float32)
    for group, weight in zip(scored, weights, strict=True):
        columns = [phrases.index(word) for word in group]
        total += np.float32(weight) * every[:, columns].max(axis=1)
    return total


def _by_likeness(general: GeneralSuggestions, like: int, pictures: list[int]) -> list[int]:
    """Return pictures by their likeness to one, which comes first."""
    with general.store.read() as conn:
        queries.number(conn, like)  # refuses one that does not exist
    coordinates = general.index.coordinates()
    if coordinates is None or (row := int(coordinates.rows_of(np.array([like]))[0])) < 0:
        raise InputError(f"picture {like} was not scanned yet", remedy=Remedy.SCAN)
    rows = coordinates.rows_of(np.array(pictures, np.int64))
    rows = rows[rows >= 0]
    cosines = coordinates.cosines(row)[rows]
    best = rows[np.argsort(-cosines, kind="stable")]
    return [int(one) for one in coordinates.pictures[best]]
