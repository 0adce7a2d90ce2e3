"""Sheets to look through: pairs of picture and tag with their look-alikes, and tags to doubt.

A picture of a burst stands for all of it: what is said of the one is said of the others that nobody
has decided on. What a person's own tags lack, or have too much, is asked by what the model would
say of each picture if that had not taught it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from prototag.library import query_strategies, tag_table
from prototag.library.active_model import State
from prototag.library.database import Store, selected
from prototag.library.trainer import Learner
from prototag.library.types import Suggestion
from prototag.tagging.incremental.fit_state import HAS

ODD = 0.5  # of how frequent a tag is: what is less likely than that though a person said it


class Cell(NamedTuple):
    """One place of a sheet."""

    picture: int
    tag: str
    probability: float
    name: str  # of its file
    stack: list[int]  # its look-alikes of which nothing is decided, itself among them


def cells(store: Store, asked: Iterable[Suggestion]) -> list[Cell]:
    """Suggestions as they are shown."""
    asked = list(asked)
    with store.read() as base:
        shown = sorted({one.picture for one in asked})
        rows = selected(base, "SELECT picture, path FROM places WHERE picture IN", shown)
        names = {picture: os.path.basename(os.fsdecode(path)) for picture, path in rows}
        return [
            Cell(
                one.picture,
                one.tag,
                one.probability,
                names.get(one.picture, ""),
                _stack(base, one) if one.group >= 0 else [one.picture],
            )
            for one in asked
        ]


def _stack(base: sqlite3.Connection, one: Suggestion) -> list[int]:
    rows = base.execute(
        "SELECT id FROM pictures WHERE grouped = (SELECT grouped FROM pictures WHERE id = ?1) "
        "AND id != ?1 AND grouped >= 0 AND NOT complete AND places AND id NOT IN "
        "(SELECT picture FROM labels WHERE tag = (SELECT id FROM tags WHERE name = ?2)) "
        "ORDER BY id",
        (one.picture, one.tag),
    )
    return [one.picture, *(row[0] for row in rows)]


def at_once(
    learner: Learner, tag: str, uncertain: bool, limit: int, skip: Iterable[int]
) -> list[Suggestion] | None:
    """Pictures for a tag by what is learned until now, without waiting for what is being learned.

    None where this needs the model and it is not in memory yet. What was decided never comes back,
    learned or not.
    """
    store = learner.store
    state = learner.latest
    skipped = set(skip)
    started = learner.start(tag, uncertain=uncertain, limit=limit, skip=skipped)
    if started is not None:
        return started
    with store.read() as base:
        number = tag_table.meant(base, tag)
        name = base.execute("SELECT name FROM tags WHERE id = ?", (number,)).fetchone()[0]
        if state is None and not uncertain:
            rows = base.execute(
                "SELECT s.picture, ?2, s.probability, s.model, s.grouped FROM suggestions s "
                "JOIN pictures p ON p.id = s.picture WHERE s.tag = ?1 AND NOT p.complete "
                "AND p.places > 0 ORDER BY s.probability DESC LIMIT ?3",
                (number, name, 4 * limit + len(skipped)),
            ).fetchall()
            kept = (Suggestion(*row) for row in rows)
            return query_strategies.first_of_groups(kept, limit, skipped) or None
    if state is None or number not in state.tags:
        return None
    column = state.tags.index(number)
    p = learner.likely(state, column)
    return query_strategies.for_tag(store, state, column, name, p, uncertain, limit, skipped)


def likely_missing(store: Store, limit: int, skip: Iterable[int]) -> list[Suggestion]:
    """Tags that a person may have forgotten: of pictures that have others, the likeliest first."""
    skipped = set(skip)
    with store.read() as base:
        rows = base.execute(
            "SELECT s.picture, t.name, s.probability, s.model, s.grouped FROM suggestions s "
            "INDEXED BY suggestions_by_probability JOIN tags t ON t.id = s.tag "
            "JOIN pictures p ON p.id = s.picture WHERE NOT t.hidden AND p.own > 0 "
            "AND NOT p.complete AND p.places > 0 "
            "ORDER BY s.probability DESC LIMIT ?",
            (4 * limit + 8 * len(skipped),),
        ).fetchall()
    found = (Suggestion(*row) for row in rows)
    return query_strategies.first_of_groups(found, limit, skipped)


def likely_wrong(learner: Learner, limit: int, skip: Iterable[int]) -> list[Suggestion]:
    """A person's own tags that the model would not give, the oddest first; none twice."""
    state = learner.state()
    skipped = set(skip)
    with learner.store.read() as base:
        sure = {row[0] for row in base.execute("SELECT id FROM tags WHERE learned AND NOT hidden")}
    doubted: list[tuple[float, int, int, float]] = []  # how odd, row, column, probability
    incremental = state.incremental
    for column, tag in enumerate(state.tags):
        if tag not in sure:
            continue
        rows = np.flatnonzero(incremental.rows.labels[: incremental.n_fit, column] == HAS)
        if not len(rows):
            continue
        p = incremental.probabilities([column], rows)[:, 0]
        odd = p / (len(rows) / incremental.n_fit)
        best = np.argsort(odd, kind="stable")[: limit + len(skipped)]
        doubted += [(odd[i], int(rows[i]), column, p[i]) for i in best if odd[i] < ODD]
    doubted.sort()
    return _found(learner.store, state, doubted[: 4 * limit + len(skipped)], limit, skipped)


def _found(
    store: Store,
    state: State,
    doubted: list[tuple[float, int, int, float]],
    limit: int,
    skipped: set[int],
) -> list[Suggestion]:
    """The doubted pairs as pictures, without those that were decided on here."""
    wanted = {row for _, row, *_ in doubted}
    pictures: dict[int, list[int]] = {}
    for picture, row in zip(state.pictures.tolist(), state.rows.tolist(), strict=True):
        if row in wanted:
            pictures.setdefault(row, []).append(picture)
    answer: list[Suggestion] = []
    with store.read() as base:
        for _, row, column, p in doubted:
            for picture in pictures.get(row, ()):
                tag = state.tags[column]
                found = base.execute(
                    "SELECT t.name FROM labels l JOIN tags t ON t.id = l.tag WHERE l.picture = ? "
                    "AND l.tag = ? AND l.value = 1 AND l.origin = 'found'",
                    (picture, tag),
                ).fetchone()
                if found is not None and picture not in skipped:
                    answer.append(Suggestion(picture, found[0], float(p), state.number))
    return answer[:limit]
