"""What to ask a person next: what is likeliest, or what would teach most.

A decision teaches most where it is open, where a tag has few pictures, and where the picture is not
like those that were decided on before: ``p (1 - p) / sqrt(pictures of the tag + 1)``, less what a
decided look-alike has taught already. Of look-alikes only one is asked about.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from prototag.arrays import Doubles, Floats, Rows
from prototag.library.database import CHUNK, Store, selected
from prototag.library.types import Suggestion
from prototag.tagging.incremental.fit_state import HAS, UNDECIDED

if TYPE_CHECKING:
    from prototag.library.active_model import State

SHARP = 4.0  # of the likeness exp(-SHARP ||x - y||^2) that decisions reach by
OPEN = 0.05  # probability from which on a decision is worth a question
CANDIDATES = 1_000  # that are looked at more closely
LEAST = 0.01  # probability that a picture needs to be shown for a tag


def probable(store: Store, limit: int, skip: set[int]) -> list[Suggestion]:
    """The likeliest pairs of picture and tag."""
    with store.read() as base:
        rows = base.execute(
            "SELECT s.picture, t.name, s.probability, s.model, s.grouped FROM suggestions s "
            "INDEXED BY suggestions_by_probability JOIN tags t ON t.id = s.tag "
            "JOIN pictures p ON p.id = s.picture "
            "WHERE NOT t.hidden AND NOT p.complete AND p.places > 0 "
            "ORDER BY s.probability DESC"
        )  # read as far as is needed
        return first_of_groups((Suggestion(*row) for row in rows), limit, skip)


def first_of_groups(found: Iterable[Suggestion], limit: int, skip: set[int]) -> list[Suggestion]:
    asked: set[tuple[str, int]] = set()
    answer: list[Suggestion] = []
    for one in found:
        if one.picture in skip or (one.group >= 0 and (one.tag, one.group) in asked):
            continue
        asked.add((one.tag, one.group))
        answer.append(one)
        if len(answer) == limit:
            break
    return answer


def for_tag(
    store: Store,
    state: State,
    column: int,
    name: str,
    p: Doubles,
    uncertain: bool,
    limit: int,
    skip: set[int],
) -> list[Suggestion]:
    """Pictures for one tag, the likeliest first, or those whose decision teaches most."""
    with store.read() as base:
        if uncertain:
            value = p * (1 - p)
            likely = np.flatnonzero((p >= LEAST) & (value > 0))
            best = likely[np.argsort(-value[likely], kind="stable")]
            asked = open_pairs(base, state, column, best)
            top = np.array(
                [*islice((i for i in asked if _is_new(state, i, skip)), CANDIDATES)], int
            )
            decided = np.flatnonzero(state.incremental.rows.labels[:, column] != UNDECIDED)
            rows = state.rows[top]
            chosen = _greedy(
                state.incremental.rows.kernel_vectors, rows, value[top], decided, limit
            )
            order: Iterable[int] = [int(top[i]) for i in chosen]
        else:
            order = open_pairs(base, state, column, ranked(state, column, p, LEAST))
        found = (_suggestion(state, i, name, p[i]) for i in order)
        return first_of_groups(found, limit, skip)


def _is_new(state: State, place: int, skip: set[int]) -> bool:
    return int(state.pictures[place]) not in skip


def open_pairs(
    base: sqlite3.Connection, state: State, column: int, order: Rows, there: bool = True
) -> Iterator[int]:
    """Those of the places, in order, that can be asked about: not complete, not decided, not gone.

    They are looked up as far as somebody reads, because there are many more than are shown. If not
    ``there``, pictures whose files are gone are among them: they may come back.
    """
    query = (
        f"SELECT id FROM pictures p WHERE places >= {int(there)} AND NOT complete AND NOT EXISTS "
        f"(SELECT 1 FROM labels WHERE picture = p.id AND tag = {int(state.tags[column])}) "
        "AND id IN"
    )
    for start in range(0, len(order), CHUNK):
        part = order[start : start + CHUNK].tolist()
        pictures = state.pictures[part].tolist()
        asked = {row[0] for row in selected(base, query, pictures)}
        yield from (place for place, one in zip(part, pictures, strict=True) if one in asked)


def _askable(base: sqlite3.Connection) -> set[int]:
    """Pictures that are there, and of which not all is known."""
    rows = base.execute("SELECT id FROM pictures WHERE places > 0 AND NOT complete")
    return {row[0] for row in rows}


def ranked(state: State, column: int, p: Doubles, least: float) -> Rows:
    """Places of likely pictures in order; many are equally likely, and then the score decides."""
    likely = np.flatnonzero(p >= least)
    raw = state.incremental.rows.raw[state.rows[likely], column]
    return likely[np.lexsort((-raw, -p[likely]))]


def instructive(
    store: Store,
    state: State,
    likely: Callable[[State, int], Doubles],
    limit: int,
    skip: set[int],
) -> list[Suggestion]:
    """Pairs of picture and tag whose decision teaches most."""
    with store.read() as base:
        hidden = {r[0] for r in base.execute("SELECT id FROM tags WHERE hidden")}
        asked = _askable(base) - skip
        decided = {r[0] for r in base.execute("SELECT id FROM pictures WHERE decided > 0")}
    own = np.count_nonzero(state.incremental.rows.labels == HAS, axis=0)
    usable = np.array([picture in asked for picture in state.pictures.tolist()])
    pairs: list[tuple[float, int, int, float]] = []  # value, place, column, probability
    for column, tag in enumerate(state.tags):
        if tag < 0 or tag in hidden:
            continue
        p = np.where(usable, likely(state, column), 0.0)
        value = p * (1 - p) / np.sqrt(own[column] + 1)
        best = np.argpartition(-value, min(limit, len(value) - 1))[: limit + 1]
        pairs += [(value[i], int(i), column, p[i]) for i in best if p[i] >= OPEN]
    pairs = sorted(pairs, reverse=True)[:CANDIDATES]
    rows = np.array([state.row_of[i] for i in decided if i in state.row_of], np.intp)
    at = state.rows[[place for _, place, *_ in pairs]]
    worth = np.array([value for value, *_ in pairs])
    chosen = [
        pairs[i] for i in _greedy(state.incremental.rows.kernel_vectors, at, worth, rows, limit)
    ]
    names = state.annotator.tags
    found = (_suggestion(state, place, names[column], p) for _, place, column, p in chosen)
    return first_of_groups(found, limit, skip)


def _suggestion(state: State, place: int, name: str, p: float) -> Suggestion:
    picture = int(state.pictures[place])
    return Suggestion(picture, name, float(p), state.number, state.groups.get(picture, -1))


def _greedy(short: Floats, rows: Rows, value: Doubles, decided: Rows, limit: int) -> list[int]:
    """Places of the most valuable candidates; each takes from those that are like it."""
    if not len(rows):
        return []
    x = short[rows]
    value = value.copy()
    if len(decided):
        value *= 1 - _near(x, short[decided]).max(axis=1)
    chosen: list[int] = []
    for _ in range(min(limit, len(rows))):
        best = int(np.argmax(value))
        if value[best] < 0:
            break
        chosen.append(best)
        value *= 1 - _near(x, x[[best]])[:, 0]
        value[chosen] = -1.0
    return chosen


def _near(x: Floats, y: Floats) -> Floats:
    return np.asarray(np.exp(SHARP * (2 * np.minimum(x @ y.T, 1) - 2)), np.float32)
