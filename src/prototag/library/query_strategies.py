"""Query strategies of active learning: the most probable pairs, or the most informative ones.

The informativeness of a pair is uncertainty with diversity: ``p (1 - p) / sqrt(pictures of the tag
+ 1)``, discounted by the similarity to decided pictures and to pictures that are selected already.
Of each near-duplicate group one picture is selected.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prototag.arrays import Doubles, Floats, Rows
from prototag.library.database import MAX_SQL_VARIABLES, Store, select_in
from prototag.library.types import Suggestion
from prototag.tagging.incremental.fit_state import HAS, UNDECIDED

if TYPE_CHECKING:
    from prototag.library.active_model import ActiveModel

# of the similarity exp(-SIMILARITY_SHARPNESS ||x - y||^2) that discounts informativeness
SIMILARITY_SHARPNESS = 4.0
MIN_INFORMATIVE_PROBABILITY = 0.05  # below it a pair is not worth a question
MAX_CANDIDATES = 1_000  # pairs among which diverse ones are selected
MIN_PROBABILITY = 0.01  # of a picture that is shown for a tag

# columns of a Suggestion, of the tables suggestions s and tags t
SUGGESTION = "s.picture, t.name, s.probability, s.model, s.duplicate_group"


def probable(
    store: Store, limit: int, skip: set[int], *, tagged_only: bool = False
) -> list[Suggestion]:
    """Return the most probable pairs; with ``tagged_only`` those of pictures that have tags."""
    with store.read() as conn:
        rows = conn.execute(
            f"SELECT {SUGGESTION} FROM suggestions s INDEXED BY suggestions_by_probability "
            "JOIN tags t ON t.id = s.tag JOIN pictures p ON p.id = s.picture "
            "WHERE NOT t.hidden AND NOT p.complete AND p.n_files > 0 AND p.n_tags >= ? "
            "ORDER BY s.probability DESC",
            (int(tagged_only),),
        )  # a cursor: rows are read as far as needed
        return first_of_groups((Suggestion(*row) for row in rows), limit, skip)


def first_of_groups(
    suggestions: Iterable[Suggestion], limit: int, skip: set[int]
) -> list[Suggestion]:
    """Return the first suggestions, one for each tag and near-duplicate group."""
    shown: set[tuple[str, int]] = set()
    result: list[Suggestion] = []
    for one in suggestions:
        if one.picture in skip or (one.group >= 0 and (one.tag, one.group) in shown):
            continue
        shown.add((one.tag, one.group))
        result.append(one)
        if len(result) == limit:
            break
    return result


def for_tag(
    store: Store,
    active: ActiveModel,
    column: int,
    name: str,
    p: Doubles,
    uncertain: bool,
    limit: int,
    skip: set[int],
) -> list[Suggestion]:
    """Return pictures for one tag, the most probable or, if ``uncertain``, the most informative."""
    with store.read() as conn:
        if uncertain:
            value = p * (1 - p)
            candidates = np.flatnonzero((p >= MIN_PROBABILITY) & (value > 0))
            ordered = candidates[np.argsort(-value[candidates], kind="stable")]
            places = open_pairs(conn, active, column, ordered)
            unseen = (i for i in places if int(active.pictures[i]) not in skip)
            top = np.array([*islice(unseen, MAX_CANDIDATES)], int)
            decided = np.flatnonzero(active.tagger.rows.labels[:, column] != UNDECIDED)
            rows = active.rows[top]
            selected = select_diverse(active.tagger.rows.vectors, rows, value[top], decided, limit)
            order: Iterable[int] = [int(top[i]) for i in selected]
        else:
            order = open_pairs(conn, active, column, ranked(active, column, p, MIN_PROBABILITY))
        suggestions = (_suggestion(active, i, name, p[i]) for i in order)
        return first_of_groups(suggestions, limit, skip)


def open_pairs(
    conn: sqlite3.Connection,
    active: ActiveModel,
    column: int,
    order: Rows,
    *,
    only_existing: bool = True,
) -> Iterator[int]:
    """Generate those of the candidates, in order, that are neither labeled nor complete.

    With ``only_existing`` pictures whose files are gone are excluded. The database is queried in
    batches as far as the caller reads, because few of many candidates are shown.
    """
    query = (
        f"SELECT id FROM pictures p WHERE n_files >= {int(only_existing)} AND NOT complete "
        "AND NOT EXISTS (SELECT 1 FROM labels WHERE picture = p.id "
        f"AND tag = {int(active.tags[column])}) AND id IN"
    )
    for start in range(0, len(order), MAX_SQL_VARIABLES):
        batch = order[start : start + MAX_SQL_VARIABLES].tolist()
        pictures = active.pictures[batch].tolist()
        is_open = {row[0] for row in select_in(conn, query, pictures)}
        yield from (i for i, picture in zip(batch, pictures, strict=True) if picture in is_open)


def ranked(active: ActiveModel, column: int, p: Doubles, least: float) -> Rows:
    """Return the candidates of at least a probability, by probability and then by score."""
    candidates = np.flatnonzero(p >= least)
    raw = active.tagger.rows.raw[active.rows[candidates], column]
    return candidates[np.lexsort((-raw, -p[candidates]))]


class _Pair(NamedTuple):
    """A pair of picture and tag; pairs sort by informativeness."""

    value: float
    place: int  # of the picture among the candidates
    column: int
    probability: float


def most_informative(
    store: Store,
    active: ActiveModel,
    probabilities: Callable[[ActiveModel, int], Doubles],
    limit: int,
    skip: set[int],
) -> list[Suggestion]:
    """Return the most informative pairs of all tags."""
    with store.read() as conn:
        hidden = {row[0] for row in conn.execute("SELECT id FROM tags WHERE hidden")}
        rows = conn.execute("SELECT id FROM pictures WHERE n_files > 0 AND NOT complete")
        open_pictures = {row[0] for row in rows} - skip
        rows = conn.execute("SELECT id FROM pictures WHERE n_decided > 0")
        decided = active.rows_of({row[0] for row in rows})
    n_pictures = np.count_nonzero(active.tagger.rows.labels == HAS, axis=0)
    usable = np.array([picture in open_pictures for picture in active.pictures.tolist()])
    pairs: list[_Pair] = []
    for column, tag in enumerate(active.tags):
        if tag < 0 or tag in hidden:
            continue
        p = np.where(usable, probabilities(active, column), 0.0)
        value = p * (1 - p) / np.sqrt(n_pictures[column] + 1)
        best = np.argpartition(-value, min(limit, len(value) - 1))[: limit + 1]
        pairs += [
            _Pair(value[i], int(i), column, p[i])
            for i in best
            if p[i] >= MIN_INFORMATIVE_PROBABILITY
        ]
    pairs = sorted(pairs, reverse=True)[:MAX_CANDIDATES]
    at = active.rows[[pair.place for pair in pairs]]
    values = np.array([pair.value for pair in pairs])
    selected = select_diverse(active.tagger.rows.vectors, at, values, decided, limit)
    names = active.annotator.tags
    suggestions = (
        _suggestion(active, pair.place, names[pair.column], pair.probability)
        for pair in (pairs[i] for i in selected)
    )
    return first_of_groups(suggestions, limit, skip)


def _suggestion(active: ActiveModel, place: int, name: str, p: float) -> Suggestion:
    picture = int(active.pictures[place])
    return Suggestion(picture, name, float(p), active.number, active.groups.get(picture, -1))


def select_diverse(
    vectors: Floats, rows: Rows, value: Doubles, decided: Rows, limit: int
) -> list[int]:
    """Greedily select candidates of high value, each discounting those that are similar to it."""
    if not len(rows):
        return []
    x = vectors[rows]
    value = value.copy()
    if len(decided):
        value *= 1 - _similarity(x, vectors[decided]).max(axis=1)
    selected: list[int] = []
    for _ in range(min(limit, len(rows))):
        best = int(np.argmax(value))
        if value[best] < 0:
            break
        selected.append(best)
        value *= 1 - _similarity(x, x[[best]])[:, 0]
        value[selected] = -1.0
    return selected


def _similarity(x: Floats, y: Floats) -> Floats:
    """Return exp(-SIMILARITY_SHARPNESS ||x - y||^2) of unit vectors."""
    return np.asarray(np.exp(SIMILARITY_SHARPNESS * (2 * np.minimum(x @ y.T, 1) - 2)), np.float32)
