"""Suggestions for tags of which nothing but decisions, or too few pictures without them, are known.

A person marks a few pictures of an untagged collection. No full fit can learn from that, because no
picture is known to lack the tag; positive-unlabeled learning can
(:mod:`prototag.tagging.positive_unlabeled`). It needs no model: it reads vectors and labels, and
knows each decision at once. Full training does not change its estimates.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from prototag.arrays import Bools, Doubles, Rows
from prototag.library import query_strategies, training_data
from prototag.library.database import Ids, Store
from prototag.library.types import Suggestion
from prototag.tagging import positive_unlabeled as pu

LACKING = (
    5,
    20,
)  # least and most pictures known to lack a tag that a full fit needs, besides answers
SHARE_LACKING = 0.05  # of all pictures, between these
NEW = 20  # pictures of a tag that no file has, below which a full fit does not estimate it
MARKED = 10  # pictures accepted before the first no that count as marked, not as answers
MOST = 20_000  # pictures that are ranked: decided ones, then the first ones
FIRST = 24  # of the first review batch: the most similar pictures
CONFUSERS = 16  # and as many of all ranks below, whose answers show where the tag ends


class Started(NamedTuple):
    """All pictures as one tag sees them."""

    pictures: Ids
    estimate: pu.Estimate
    decided: Bools  # labeled, or complete
    accepted: Rows  # answers, in rows of ``pictures``
    rejected: Rows
    vectors: pu.Background

    @property
    def is_ranked_only(self) -> bool:
        """Whether no picture is known to lack the tag: then no probability rests on evidence."""
        return not len(self.rejected)

    def likely(self) -> Doubles:
        """Probabilities of the pictures that nobody has decided on; 0 for the others."""
        return np.where(self.decided, 0.0, np.maximum(self.estimate.probabilities, 1e-6))

    def performance(self) -> tuple[float, float] | None:
        """Precision of answers above the line, by a Beta estimate, and the recall of all yeses.

        None where no answer is above the line, or the line is not reached.
        """
        given = self.estimate.probabilities >= self.estimate.line
        right = int(np.count_nonzero(given[self.accepted]))
        wrong = int(np.count_nonzero(given[self.rejected]))
        if not right:
            return None
        has = len(self.accepted) + self.estimate.expected
        share = float(self.estimate.probabilities[given & ~self.decided].sum())
        return (right + 1) / (right + wrong + 2), min((right + share) / max(has, 1.0), 1.0)


_Key = tuple[pu.Background, tuple[int, ...], tuple[int, ...]]


class Starter:
    """Positive-unlabeled estimates of one library; several threads may ask."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._made_of: tuple[bytes, int, int] | None = None
        self._pictures = np.empty(0, np.int64)
        self._background: pu.Background | None = None
        self._kinds: dict[int, tuple[int, bool]] = {}  # by tag, with the changes of its labels
        self._estimates: dict[int, tuple[_Key, Started | None]] = {}

    def is_starting(self, tag: int) -> bool:
        """Whether a full fit knows too little of pictures without the tag to estimate it.

        That is looked up again when labels of the tag change, or pictures are added.
        """
        with self.store.read() as base:
            changed = base.execute("SELECT changed FROM tags WHERE id = ?", (tag,)).fetchone()
            if changed is None:
                return False
            known = self._kinds.get(tag)
            if known is None or known[0] != changed[0]:
                known = self._kinds[tag] = changed[0], is_starting(base, tag)
        return known[1]

    def started(self, tag: int) -> Started | None:
        """The estimates of one tag; None where no picture has it, or none was scanned."""
        pictures, background = self._prepared()
        if background is None:
            return None
        with self.store.read() as base:
            changed = base.execute("SELECT changed FROM tags WHERE id = ?", (tag,)).fetchone()
            complete = base.execute("SELECT count(*), total(id) FROM pictures WHERE complete")
            key = background, changed, complete.fetchone()
        known = self._estimates.get(tag)
        if known is not None and known[0][0] is background and known[0][1:] == key[1:]:
            return known[1]
        found = self._estimated(tag, pictures, background)
        self._estimates[tag] = key, found
        return found

    def _estimated(self, tag: int, pictures: Ids, background: pu.Background) -> Started | None:
        place = {picture: row for row, picture in enumerate(pictures.tolist())}
        with self.store.read() as base:
            labels = base.execute(
                "SELECT picture, value, origin = 'decided' FROM labels WHERE tag = ?", (tag,)
            ).fetchall()
            complete = {r[0] for r in base.execute("SELECT id FROM pictures WHERE complete")}
            turns = _turns(base, tag)
        has = [one for one, value, _ in labels if value and one in place]
        lacks = {one for one, value, _ in labels if not value and one in place}
        lacks |= (complete & place.keys()) - set(has)
        if not has:
            return None
        answers = {one for one, value, decided in labels if value and decided}
        marked = _marked(has, answers, turns) if lacks else set(has)
        decided = np.zeros(len(pictures), bool)
        decided[[place[one] for one in (*has, *lacks)]] = True
        rows = [
            np.array(sorted(place[one] for one in part), np.intp)
            for part in (marked, set(has) - marked, lacks)
        ]
        found = pu.estimate(background, *rows, usable=~decided)
        return Started(pictures, found, decided, rows[1], rows[2], background)

    def suggest(
        self, tag: int, name: str, uncertain: bool, limit: int, skip: set[int], model: int
    ) -> list[Suggestion]:
        """Pictures for one tag: see :meth:`prototag.Library.suggest`."""
        started = self.started(tag)
        if started is None:
            return []
        p = started.likely()
        order = np.lexsort((-started.estimate.scores, -p))[: np.count_nonzero(p)]
        with self.store.read() as base:
            rows = base.execute("SELECT id, grouped FROM pictures WHERE places > 0")
            groups = dict(rows.fetchall())
        usable = [i for i in order.tolist() if int(started.pictures[i]) in groups]
        usable = [i for i in usable if int(started.pictures[i]) not in skip]
        if uncertain:
            usable = self._instructive(
                started, np.array(usable[: query_strategies.CANDIDATES], int), limit
            )
        elif started.is_ranked_only:
            usable = _with_confusers(usable)
        found = (
            Suggestion(one, name, float(p[i]), model, groups[one])
            for i in usable
            if (one := int(started.pictures[i]))
        )
        return query_strategies.first_of_groups(found, limit, skip)

    @staticmethod
    def _instructive(started: Started, rows: Rows, limit: int) -> list[int]:
        x = started.vectors.vectors
        p = started.estimate.probabilities[rows]
        chosen = query_strategies._greedy(
            x, rows, p * (1 - p), np.flatnonzero(started.decided), limit
        )
        return [int(rows[i]) for i in chosen]

    def _prepared(self) -> tuple[Ids, pu.Background | None]:
        with self.store.read() as base:
            recipe = self.store.recipe(base)
            count, last = base.execute(
                "SELECT count(*), max(picture) FROM vectors WHERE recipe = ?", (recipe,)
            ).fetchone()
        made_of = recipe, int(count), int(last or 0)
        with self._lock:
            if self._made_of != made_of:
                self._pictures, self._background = self._read(recipe)
                self._made_of = made_of
                self._kinds = {}
                self._estimates = {}
            return self._pictures, self._background

    def _read(self, recipe: bytes) -> tuple[Ids, pu.Background | None]:
        """Decided pictures first, then all others, as many as are ranked."""
        with self.store.read() as base:
            ids = [
                row[0]
                for row in base.execute(
                    "SELECT v.picture FROM vectors v JOIN pictures p ON p.id = v.picture "
                    "WHERE v.recipe = ? ORDER BY p.own + p.decided + p.complete = 0, v.picture",
                    (recipe,),
                )
            ]
        pictures = np.array(sorted(ids[:MOST]), np.int64)
        if len(pictures) < 2:
            return pictures, None
        return pictures, pu.Background.of(training_data.vectors(self.store, pictures))


def is_starting(base: sqlite3.Connection, tag: int) -> bool:
    """Whether hardly any picture is known to lack a tag, but by answers; or the tag is new.

    A picture that files tag, or that is complete, lacks all tags that it does not have.
    """
    own, found = base.execute(
        "SELECT t.own, EXISTS (SELECT 1 FROM labels WHERE tag = t.id AND found = 1) FROM tags t "
        "WHERE t.id = ?",
        (tag,),
    ).fetchone()
    if not found and own < NEW:
        return True
    pictures = base.execute("SELECT count(*) FROM pictures").fetchone()[0]
    enough = min(max(LACKING[0], int(SHARE_LACKING * pictures)), LACKING[1])
    lacking = base.execute(
        "SELECT id FROM pictures p WHERE (complete OR EXISTS (SELECT 1 FROM labels WHERE "
        "picture = p.id AND found = 1)) AND NOT EXISTS (SELECT 1 FROM labels WHERE "
        "picture = p.id AND tag = ? AND value = 1) LIMIT ?",
        (tag, enough),
    )
    return len(lacking.fetchall()) < enough


def _turns(base: sqlite3.Connection, tag: int) -> Iterator[tuple[int, str]]:
    """Decisions that stand, in order."""
    rows = base.execute(
        "SELECT picture, verdict FROM decisions WHERE tag = ? AND NOT undone ORDER BY id", (tag,)
    )
    return iter(rows.fetchall())


def _marked(has: Iterable[int], answers: set[int], turns: Iterable[tuple[int, str]]) -> set[int]:
    """Pictures that were chosen because they have the tag: from files, and before the first no."""
    marked = set(has) - answers
    early: list[int] = []
    for picture, verdict in turns:
        if verdict == "rejected" or len(early) == MARKED:
            break
        if picture in answers and picture not in early:
            early.append(picture)
    return marked | set(early)


def _with_confusers(order: list[int]) -> list[int]:
    """The first batch, of similar pictures and confusers, then all others in their order."""
    rest = order[FIRST:]
    if len(rest) <= CONFUSERS:
        return order
    spaced = np.geomspace(1, len(rest), CONFUSERS).round().astype(int) - 1
    chosen = list(dict.fromkeys(spaced.tolist()))
    chosen += [place for place in range(len(rest)) if place not in chosen][
        : CONFUSERS - len(chosen)
    ]
    confusers = [rest[place] for place in sorted(chosen)]
    taken = set(confusers)
    return order[:FIRST] + confusers + [one for one in rest if one not in taken]
