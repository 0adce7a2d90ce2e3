"""Cold start: suggestions for a tag that has too few labels for a full fit.

A person marks a few pictures of an untagged collection. A full fit cannot learn from that, because
no picture is known to lack the tag; positive-unlabeled learning can
(:mod:`prototag.tagging.positive_unlabeled`), together with what the tag's name says
(:mod:`prototag.library.general_suggestions`). It needs no model: it reads vectors and labels, and
includes every decision at once. A full retrain does not change its estimates.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from prototag.arrays import Bools, Doubles, Rows
from prototag.library import query_strategies, training_data
from prototag.library.database import Ids, Store
from prototag.library.general_suggestions import GeneralSuggestions
from prototag.library.types import REJECTED, Suggestion
from prototag.tagging import positive_unlabeled as pu

# A full fit estimates a tag if, besides decisions on the tag, this share of all pictures, between
# these limits, is known to lack it.
SHARE_OF_PICTURES_LACKING = 0.05
MIN_PICTURES_LACKING = 5
MAX_PICTURES_LACKING = 20
MIN_PICTURES_OF_NEW_TAG = 20  # with the tag, for a full fit of a tag that no file has
MAX_MARKED = 10  # pictures accepted before the first rejection that count as chosen, not as asked
MAX_RANKED = 20_000  # pictures that are ranked: labeled ones first, then by number
N_MOST_SIMILAR = 24  # pictures of the first review batch: the most similar ones
N_CONFUSERS = 16  # pictures of all lower ranks in it, whose answers show where the tag ends
MIN_OPEN_PROBABILITY = 1e-6  # of undecided pictures; 0 marks decided ones


class ColdStartEstimate(NamedTuple):
    """Positive-unlabeled estimates of one tag for all ranked pictures."""

    pictures: Ids
    estimate: pu.Estimate
    decided: Bools  # of each picture, whether it is labeled or complete
    accepted: Rows  # rows of ``pictures`` that were asked about and accepted
    rejected: Rows
    vectors: pu.Background

    @property
    def is_ranked_only(self) -> bool:
        """Whether no picture is known to lack the tag: then probabilities have no evidence."""
        return not len(self.rejected)

    def probabilities(self) -> Doubles:
        """Return the probabilities of undecided pictures; 0 for the others."""
        p = np.maximum(self.estimate.probabilities, MIN_OPEN_PROBABILITY)
        return np.where(self.decided, 0.0, p)

    def performance(self) -> tuple[float, float] | None:
        """Estimate precision, by a Beta posterior of the answers above the threshold, and recall.

        None if no accepted picture is above the threshold.
        """
        applied = self.estimate.probabilities >= self.estimate.threshold
        right = int(np.count_nonzero(applied[self.accepted]))
        wrong = int(np.count_nonzero(applied[self.rejected]))
        if not right:
            return None
        has = len(self.accepted) + self.estimate.expected
        share = float(self.estimate.probabilities[applied & ~self.decided].sum())
        return (right + 1) / (right + wrong + 2), min((right + share) / max(has, 1.0), 1.0)


class _State(NamedTuple):
    """Labels of one tag that an estimate includes."""

    name: str
    label_changes: int
    n_complete: int
    sum_complete: int  # of the numbers of complete pictures


class _Cached(NamedTuple):
    background: pu.Background
    state: _State
    estimate: ColdStartEstimate | None


class ColdStart:
    """Positive-unlabeled estimates for one library; threads may share it."""

    def __init__(self, store: Store, general: GeneralSuggestions) -> None:
        self.store = store
        self.general = general
        self._lock = threading.Lock()
        self._vectors_version: tuple[bytes, int, int] | None = None
        self._pictures = np.empty(0, np.int64)
        self._background: pu.Background | None = None
        self._answers: dict[int, tuple[int, bool]] = {}  # by tag: label changes, is_cold_start
        self._estimates: dict[int, _Cached] = {}

    def is_cold_start(self, tag: int) -> bool:
        """Return whether a tag has too few labels for a full fit.

        The answer is cached until labels of the tag change or pictures are added.
        """
        with self.store.read() as conn:
            row = conn.execute("SELECT label_changes FROM tags WHERE id = ?", (tag,)).fetchone()
            if row is None:
                return False
            (label_changes,) = row
            known_changes, answer = self._answers.get(tag, (None, False))
            if known_changes != label_changes:
                answer = is_cold_start(conn, tag)
                self._answers[tag] = label_changes, answer
        return answer

    def estimate(self, tag: int) -> ColdStartEstimate | None:
        """Return the estimates of one tag; None if no scanned picture has it."""
        pictures, background = self._prepared()
        if background is None:
            return None
        with self.store.read() as conn:
            row = conn.execute(
                "SELECT name, label_changes FROM tags WHERE id = ?", (tag,)
            ).fetchone()
            complete = conn.execute("SELECT count(*), total(id) FROM pictures WHERE complete")
            state = _State(*(row or ("", -1)), *complete.fetchone())
        cached = self._estimates.get(tag)
        if cached is None or cached.background is not background or cached.state != state:
            cached = _Cached(
                background, state, self._compute(tag, state.name, pictures, background)
            )
            self._estimates[tag] = cached
        return cached.estimate

    def _compute(
        self, tag: int, name: str, pictures: Ids, background: pu.Background
    ) -> ColdStartEstimate | None:
        row_of = {picture: row for row, picture in enumerate(pictures.tolist())}
        with self.store.read() as conn:
            labels = conn.execute(
                "SELECT picture, value, source = 'decision' FROM labels WHERE tag = ?", (tag,)
            ).fetchall()
            complete = {row[0] for row in conn.execute("SELECT id FROM pictures WHERE complete")}
            decisions = _current_decisions(conn, tag)
        has = [picture for picture, value, _ in labels if value and picture in row_of]
        lacks = {picture for picture, value, _ in labels if not value and picture in row_of}
        lacks |= (complete & row_of.keys()) - set(has)
        if not has:
            return None
        accepted = {picture for picture, value, is_decided in labels if value and is_decided}
        marked = _marked_pictures(has, accepted, decisions) if lacks else set(has)
        decided = np.zeros(len(pictures), bool)
        decided[[row_of[picture] for picture in (*has, *lacks)]] = True
        marked_rows, accepted_rows, rejected_rows = (
            np.array(sorted(row_of[picture] for picture in part), np.intp)
            for part in (marked, set(has) - marked, lacks)
        )
        estimate = pu.estimate(
            background,
            marked_rows,
            accepted_rows,
            rejected_rows,
            usable=~decided,
            prior=self.general.name_scores(name, pictures),
        )
        return ColdStartEstimate(
            pictures, estimate, decided, accepted_rows, rejected_rows, background
        )

    def suggest(
        self, tag: int, name: str, uncertain: bool, limit: int, skip: set[int], model: int
    ) -> list[Suggestion]:
        """Select pictures for one tag; see :meth:`prototag.Library.suggest`."""
        estimate = self.estimate(tag)
        if estimate is None:
            return []
        p = estimate.probabilities()
        order = np.lexsort((-estimate.estimate.scores, -p))[: np.count_nonzero(p)]
        with self.store.read() as conn:
            rows = conn.execute("SELECT id, duplicate_group FROM pictures WHERE n_files > 0")
            groups = dict(rows.fetchall())
        pictures = estimate.pictures.tolist()
        usable = [i for i in order.tolist() if pictures[i] in groups and pictures[i] not in skip]
        if uncertain:
            candidates = np.array(usable[: query_strategies.MAX_CANDIDATES], int)
            usable = self._most_informative(estimate, candidates, limit)
        elif estimate.is_ranked_only:
            usable = _with_confusers(usable)
        suggestions = (
            Suggestion(pictures[i], name, float(p[i]), model, groups[pictures[i]]) for i in usable
        )
        return query_strategies.first_of_groups(suggestions, limit, skip)

    @staticmethod
    def _most_informative(estimate: ColdStartEstimate, rows: Rows, limit: int) -> list[int]:
        p = estimate.estimate.probabilities[rows]
        decided = np.flatnonzero(estimate.decided)
        vectors = estimate.vectors.vectors
        selected = query_strategies.select_diverse(vectors, rows, p * (1 - p), decided, limit)
        return [int(rows[i]) for i in selected]

    def _prepared(self) -> tuple[Ids, pu.Background | None]:
        """Return the ranked pictures and what all estimates share, read again after scans."""
        with self.store.read() as conn:
            recipe = self.store.recipe(conn)
            count, last = conn.execute(
                "SELECT count(*), max(picture) FROM vectors WHERE recipe = ?", (recipe,)
            ).fetchone()
        version = recipe, int(count), int(last or 0)
        with self._lock:
            if self._vectors_version != version:
                self._pictures, self._background = self._read(recipe)
                self._vectors_version = version
                self._answers = {}
                self._estimates = {}
            return self._pictures, self._background

    def _read(self, recipe: bytes) -> tuple[Ids, pu.Background | None]:
        """Read the vectors of the ranked pictures: labeled ones first, up to ``MAX_RANKED``."""
        with self.store.read() as conn:
            rows = conn.execute(
                "SELECT v.picture FROM vectors v JOIN pictures p ON p.id = v.picture "
                "WHERE v.recipe = ? "
                "ORDER BY p.n_tags + p.n_decided + p.complete = 0, v.picture LIMIT ?",
                (recipe, MAX_RANKED),
            )
            pictures = np.array(sorted(row[0] for row in rows), np.int64)
        if len(pictures) < 2:
            return pictures, None
        return pictures, pu.Background.of(training_data.vectors(self.store, pictures))


def is_cold_start(conn: sqlite3.Connection, tag: int) -> bool:
    """Return whether a tag is new, or hardly any picture is known to lack it besides decisions.

    A picture that files tag, or that is complete, lacks all tags that it does not have.
    """
    n_pictures, is_in_files = conn.execute(
        "SELECT n_pictures, EXISTS (SELECT 1 FROM labels WHERE tag = tags.id AND file_value = 1) "
        "FROM tags WHERE id = ?",
        (tag,),
    ).fetchone()
    if not is_in_files and n_pictures < MIN_PICTURES_OF_NEW_TAG:
        return True
    (total,) = conn.execute("SELECT count(*) FROM pictures").fetchone()
    share = int(SHARE_OF_PICTURES_LACKING * total)
    enough = min(max(MIN_PICTURES_LACKING, share), MAX_PICTURES_LACKING)
    lacking = conn.execute(
        "SELECT id FROM pictures p WHERE (complete OR EXISTS (SELECT 1 FROM labels WHERE "
        "picture = p.id AND file_value = 1)) AND NOT EXISTS (SELECT 1 FROM labels WHERE "
        "picture = p.id AND tag = ? AND value = 1) LIMIT ?",
        (tag, enough),
    )
    return len(lacking.fetchall()) < enough


def _current_decisions(conn: sqlite3.Connection, tag: int) -> list[tuple[int, str]]:
    """Return picture and verdict of the decisions that are not undone, in order."""
    return conn.execute(
        "SELECT picture, verdict FROM decisions WHERE tag = ? AND NOT undone ORDER BY id", (tag,)
    ).fetchall()


def _marked_pictures(
    has: Iterable[int], accepted: set[int], decisions: Iterable[tuple[int, str]]
) -> set[int]:
    """Return the pictures that a person chose for the tag, in contrast to those asked about.

    These are the pictures that files tag, and the first accepted ones before any rejection.
    """
    early: list[int] = []
    for picture, verdict in decisions:
        if verdict == REJECTED or len(early) == MAX_MARKED:
            break
        if picture in accepted and picture not in early:
            early.append(picture)
    return (set(has) - accepted) | set(early)


def _with_confusers(order: list[int]) -> list[int]:
    """Put confusers into the first review batch, behind its most similar pictures."""
    rest = order[N_MOST_SIMILAR:]
    if len(rest) <= N_CONFUSERS:
        return order
    spaced = np.geomspace(1, len(rest), N_CONFUSERS).round().astype(int) - 1
    ranks = list(dict.fromkeys(spaced.tolist()))
    unused = [rank for rank in range(len(rest)) if rank not in ranks]
    ranks += unused[: N_CONFUSERS - len(ranks)]
    confusers = [rest[rank] for rank in sorted(ranks)]
    taken = set(confusers)
    return order[:N_MOST_SIMILAR] + confusers + [one for one in rest if one not in taken]
