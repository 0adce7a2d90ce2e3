"""Review batches: pages of pairs for one tag or of one queue, with their near-duplicates.

A picture of a near-duplicate group stands for all of them: a decision applies to those that nobody
has decided on. Likely missing and likely wrong labels are found from held-out probabilities.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from prototag.errors import InputError
from prototag.library import preferences, query_strategies, tag_table
from prototag.library.active_model import ActiveModel
from prototag.library.cold_start import ColdStartEstimate
from prototag.library.database import Store, select_in
from prototag.library.trainer import Trainer
from prototag.library.types import ReviewBatch, ReviewCell, Suggestion
from prototag.tagging.incremental.fit_state import HAS

# queues of pairs of all tags
MOST_INFORMATIVE = "most_informative"
LIKELY_MISSING = "likely_missing"
LIKELY_WRONG = "likely_wrong"
GENERAL_WORDS = "general_words"  # of the general vocabulary, without any label
QUEUES = (MOST_INFORMATIVE, LIKELY_MISSING, LIKELY_WRONG, GENERAL_WORDS)
NEVER = 1.0  # threshold that preselects nothing

# A label is likely wrong if its held-out probability is below this share of the tag's frequency.
MAX_RELATIVE_PROBABILITY = 0.5
MIN_THRESHOLD = 0.3  # for any precision that is wanted
DEFAULT_THRESHOLD = 0.5  # without a model, or for a model that applies no tags


def review_batch(
    trainer: Trainer,
    tag: str | None,
    queue: str | None,
    *,
    uncertain: bool,
    limit: int,
    skip: Iterable[int],
    language: str | None = None,
) -> ReviewBatch:
    """Select a page of pairs; see :meth:`prototag.Library.review_batch`."""
    if (tag is None) == (queue is None):
        raise InputError("give either a tag or a queue.")
    if queue is not None and queue not in QUEUES:
        raise InputError(f"queue={queue!r}: give {', '.join(QUEUES)}.")
    skipped = set(skip)
    count = 2 * limit  # this page and the next one
    estimate = None
    is_ranked_by_name = False
    threshold: float | None = None
    if tag is not None and trainer.is_new_name(tag) and trainer.general.is_available:
        is_ranked_by_name = True
        threshold = NEVER
        suggestions = trainer.general.for_name(tag, count, skipped, language) or []
    elif tag is not None:
        suggestions = _for_tag(trainer, tag, uncertain, count, skipped)
        estimate = trainer.cold_start_estimate(tag)
    elif queue == LIKELY_MISSING:
        trainer.update()
        suggestions = likely_missing(trainer.store, count, skipped)
    elif queue == LIKELY_WRONG:
        suggestions = likely_wrong(trainer, count, skipped)
    elif queue == GENERAL_WORDS:
        threshold = NEVER
        suggestions = trainer.general.pairs(count, skipped, language)
    else:
        suggestions = trainer.suggest(None, uncertain=True, limit=count, skip=skipped)
    return ReviewBatch(
        cells=_cells(trainer.store, suggestions[:limit]),
        threshold=_threshold(trainer, estimate) if threshold is None else threshold,
        is_ranked_only=estimate is not None and estimate.is_ranked_only,
        is_ranked_by_name=is_ranked_by_name,
        upcoming=[one.picture for one in suggestions[limit:]],
    )


def _threshold(trainer: Trainer, estimate: ColdStartEstimate | None) -> float:
    """Return the probability from which on cells are preselected."""
    if estimate is not None:
        return estimate.estimate.threshold
    active = trainer.latest
    wanted = preferences.precision(trainer.store)
    if active is None:
        return DEFAULT_THRESHOLD if wanted is None else NEVER  # nobody knows its precision
    points = active.annotator.operating_points
    if wanted is not None:
        return max(min(points.threshold_for(wanted), NEVER), MIN_THRESHOLD)
    usual = points.default_threshold
    return usual if usual <= 1 else DEFAULT_THRESHOLD


def _cells(store: Store, suggestions: list[Suggestion]) -> list[ReviewCell]:
    with store.read() as conn:
        pictures = sorted({one.picture for one in suggestions})
        rows = select_in(conn, "SELECT picture, path FROM files WHERE picture IN", pictures)
        names = {picture: os.path.basename(os.fsdecode(path)) for picture, path in rows}
        return [
            ReviewCell(
                one.picture,
                one.tag,
                one.probability,
                names.get(one.picture, ""),
                _stack(conn, one) if one.group >= 0 else [one.picture],
            )
            for one in suggestions
        ]


def _stack(conn: sqlite3.Connection, one: Suggestion) -> list[int]:
    """Return a picture and its near-duplicates without a label of the tag."""
    rows = conn.execute(
        "SELECT id FROM pictures "
        "WHERE duplicate_group = (SELECT duplicate_group FROM pictures WHERE id = ?1) "
        "AND id != ?1 AND duplicate_group >= 0 AND NOT complete AND n_files AND id NOT IN "
        "(SELECT picture FROM labels WHERE tag = (SELECT id FROM tags WHERE name = ?2)) "
        "ORDER BY id",
        (one.picture, one.tag),
    )
    return [one.picture, *(row[0] for row in rows)]


def _for_tag(
    trainer: Trainer, tag: str, uncertain: bool, limit: int, skip: set[int]
) -> list[Suggestion]:
    suggestions = suggest_without_waiting(trainer, tag, uncertain, limit, skip)
    if suggestions is None:
        suggestions = trainer.suggest(tag, uncertain=uncertain, limit=limit, skip=skip)
    return suggestions


def suggest_without_waiting(
    trainer: Trainer, tag: str, uncertain: bool, limit: int, skip: set[int]
) -> list[Suggestion] | None:
    """Suggest pictures for a tag without waiting for an update that is running.

    The probabilities may lack the last decisions, but decided pairs are never suggested. None if
    the model is needed and not loaded.
    """
    store = trainer.store
    active = trainer.latest
    suggestions = trainer.suggest_cold_start(tag, uncertain=uncertain, limit=limit, skip=skip)
    if suggestions is not None:
        return suggestions
    with store.read() as conn:
        number = tag_table.resolve_tag(conn, tag)
        (name,) = conn.execute("SELECT name FROM tags WHERE id = ?", (number,)).fetchone()
        if active is None and not uncertain:
            rows = conn.execute(
                f"SELECT {query_strategies.SUGGESTION} FROM suggestions s "
                "JOIN tags t ON t.id = s.tag JOIN pictures p ON p.id = s.picture "
                "WHERE s.tag = ? AND NOT p.complete AND p.n_files > 0 "
                "ORDER BY s.probability DESC",
                (number,),
            )
            stored = (Suggestion(*row) for row in rows)
            return query_strategies.first_of_groups(stored, limit, skip) or None
    if active is None or number not in active.tags:
        return None
    column = active.tags.index(number)
    p = trainer.probabilities(active, column)
    return query_strategies.for_tag(store, active, column, name, p, uncertain, limit, skip)


def likely_missing(store: Store, limit: int, skip: set[int]) -> list[Suggestion]:
    """Return tags that pictures with other tags probably lack, the most probable first."""
    return query_strategies.probable(store, limit, skip, tagged_only=True)


class _Doubt(NamedTuple):
    """A label of a row with a low held-out probability; doubts sort by relative probability."""

    relative_probability: float
    row: int
    column: int
    probability: float


def likely_wrong(trainer: Trainer, limit: int, skip: set[int]) -> list[Suggestion]:
    """Return labels from files whose held-out probability is low, the lowest first."""
    active = trainer.active_model()
    with trainer.store.read() as conn:
        rows = conn.execute("SELECT id FROM tags WHERE learned AND NOT hidden")
        learned = {row[0] for row in rows}
    doubts: list[_Doubt] = []
    tagger = active.tagger
    for column, tag in enumerate(active.tags):
        if tag not in learned:
            continue
        having = np.flatnonzero(tagger.rows.labels[: tagger.n_fit, column] == HAS)
        if not len(having):
            continue
        p = tagger.probabilities([column], having)[:, 0]
        relative = p / (len(having) / tagger.n_fit)
        lowest = np.argsort(relative, kind="stable")[: limit + len(skip)]
        doubts += [
            _Doubt(relative[i], int(having[i]), column, p[i])
            for i in lowest
            if relative[i] < MAX_RELATIVE_PROBABILITY
        ]
    doubts.sort()
    pairs = _undecided_pairs(trainer.store, active, doubts[: 4 * limit + len(skip)])
    return [one for one in pairs if one.picture not in skip][:limit]


def _undecided_pairs(store: Store, active: ActiveModel, doubts: list[_Doubt]) -> list[Suggestion]:
    """Return the pictures of doubted rows, without pairs that were decided on."""
    rows = {doubt.row for doubt in doubts}
    pictures: dict[int, list[int]] = {}
    for picture, row in zip(active.pictures.tolist(), active.rows.tolist(), strict=True):
        if row in rows:
            pictures.setdefault(row, []).append(picture)
    suggestions: list[Suggestion] = []
    with store.read() as conn:
        for doubt in doubts:
            for picture in pictures.get(doubt.row, ()):
                label = conn.execute(
                    "SELECT t.name FROM labels l JOIN tags t ON t.id = l.tag WHERE l.picture = ? "
                    "AND l.tag = ? AND l.value = 1 AND l.source = 'file'",
                    (picture, active.tags[doubt.column]),
                ).fetchone()
                if label is not None:
                    p = float(doubt.probability)
                    suggestions.append(Suggestion(picture, label[0], p, active.number))
    return suggestions
