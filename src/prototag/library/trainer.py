"""A library that learns on: from what is said of its pictures to suggestions, and back.

A full learning makes a model of everything. Between two of them a decision changes the columns
concerned only (:mod:`prototag.tagging.incremental.update`), and what is suggested for these tags.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from prototag.annotator.annotator import Annotator
from prototag.annotator.operating_points import MIN_SUGGESTED_PROBABILITY
from prototag.annotator.training_set import fit_tagger
from prototag.arrays import Array, Doubles, Rows
from prototag.errors import InputError, Remedy
from prototag.events import Progress
from prototag.features.extractor import Extractor
from prototag.library import (
    explain as explanations,
)
from prototag.library import (
    model_versions,
    queries,
    query_strategies,
    tag_table,
    training_data,
)
from prototag.library.active_model import State, at_hand, load, look_alikes
from prototag.library.database import Store
from prototag.library.starting import Started, Starter
from prototag.library.types import Learned, ModelView, Reason, Suggestion
from prototag.tagging.incremental.fit_state import HAS, LACKS, UNDECIDED, FitState
from prototag.tagging.incremental.update import p_missing_label

PER_TAG = 1_000  # suggestions that are kept for one tag
DUE = 100, 0.25  # decisions after which all is learned anew: as many, or this share of what taught


class Learner:
    """Learns for one library; several threads may use it."""

    def __init__(self, store: Store, extractor: Extractor) -> None:
        self.store = store
        self.extractor = extractor
        self.starter = Starter(store)
        self._lock = threading.RLock()
        self._full = threading.Lock()  # of one full learning at a time
        self._state: State | None = None

    # -- learning ----------------------------------------------------------------------------------

    def due(self) -> bool:
        """Whether so much has changed that all should be learned anew."""
        with self.store.read() as base:
            row = base.execute(
                "SELECT pictures, decisions, number FROM models WHERE current = 1"
            ).fetchone()
            if row is None or not model_versions.is_of_these_vectors(self.store, row[2]):
                return True
            # Single pairs of pictures that came without tags are learned on as well as they can be.
            since = base.execute(
                "SELECT count(*) FROM decisions d JOIN pictures p ON p.id = d.picture "
                "WHERE d.id > ? AND NOT d.undone AND (p.complete OR p.decided >= ? OR EXISTS "
                "(SELECT 1 FROM labels l WHERE l.picture = p.id AND l.found = 1))",
                (row[1], training_data.MANY),
            ).fetchone()
            tagged = base.execute(
                "SELECT count(DISTINCT picture) FROM labels WHERE found = 1"
            ).fetchone()
        least, share = DUE
        return bool(max(since[0], tagged[0] - row[0]) >= max(least, share * row[0]))

    def learn(self, full: bool | None, progress: Progress | None) -> Learned:
        """Learn what was said since, or everything anew; None does what is due."""
        if full or (full is None and self.due()):
            with self._full:
                if full or self.due():  # else another thread has learned meanwhile
                    return self._learn_all(progress)
        with self._lock:
            changed = self.refresh()
            return Learned(self._model(), False, changed)

    def _learn_all(self, progress: Progress | None) -> Learned:
        """In the background of everything else: the model in use answers until this one is kept."""
        blocks = self.extractor.feature_groups
        told = training_data.gather(self.store, blocks, started=self._started)
        # All in memory, whatever their number: decisions are learned from what a fit leaves there.
        n_jobs = self.extractor.n_jobs
        tagger, training = fit_tagger(told.training, n_jobs, None, progress, out_of_core=False)
        used = {block.name for block in training.feature_groups}
        columns = np.concatenate([np.full(b.width, b.name in used) for b in blocks])
        annotator = self._annotator()
        annotator.extractor.selected_groups = [block.name for block in training.feature_groups]
        annotator.set_fit(tagger.result_, training)
        kept = FitState.from_fit(tagger.result_, training.X, told.ruled_out)
        groups = look_alikes(self.store, told, columns)

        def more(base: sqlite3.Connection, number: int) -> None:  # noqa: ARG001
            base.execute("UPDATE pictures SET grouped = -1 WHERE grouped >= 0")
            base.executemany(
                "UPDATE pictures SET grouped = ? WHERE id = ?",
                [(group, picture) for picture, group in groups.items()],
            )
            base.execute("UPDATE tags SET suggested = -1")
            explanations.write_all_points(base, annotator.operating_points, told.tags.tolist())

        number = model_versions.keep(self.store, annotator, kept, told.decisions, told.recipe, more)
        state = at_hand(self.store, number, annotator, kept, told.pictures, told.tags, columns)
        if len(state.pictures) < len(state.known):  # which took long to choose
            others = state.pictures[len(told.pictures) :]
            model_versions.keep_others(self.store, number, max(state.known), others)
        with self._lock:
            self._state = state
            self.refresh()
            return Learned(self._model(), True, [])

    def _annotator(self) -> Annotator:
        extractor = self.extractor
        return Annotator(
            backbone=extractor.backbone,
            crops=extractor.crops,
            n_jobs=extractor.n_jobs,
            cache=extractor.cache,
            keep_thumbnails=False,
        )

    def state(self) -> State:
        """The current model in memory, which knows all that was said."""
        with self._lock:
            self.refresh()
            if self._state is None:
                raise InputError("the library has not learned anything yet", remedy=Remedy.LEARN)
            return self._state

    @property
    def latest(self) -> State | None:
        """The current model in memory as it is, learning on perhaps; None where it is not."""
        state = self._state
        return (
            state
            if state is not None and state.number == model_versions.current(self.store)
            else None
        )

    def refresh(self) -> list[str]:
        """Learn on what was said since; the names of the tags that changed."""
        with self._lock:
            number = model_versions.current(self.store)
            if number is None:
                return []
            loaded = self._state is None or self._state.number != number
            if loaded:
                self._state = load(self.store, self.extractor, number)
            state = self._state
            assert state is not None
            model_versions.check_recipe(self.store, number)
            if state.take_in(self.store):
                state.seen.clear()
            with self.store.read() as base:
                every = base.execute(
                    "SELECT id, name, changed, suggested, accepted, hidden FROM tags"
                ).fetchall()
                complete = {r[0] for r in base.execute("SELECT id FROM pictures WHERE complete")}
            self._follow(state, {tag: name for tag, name, *_ in every}, complete)
            fresh = [
                (tag, name, changed)
                for tag, name, changed, suggested, accepted, hidden in every
                if (state.seen.get(tag) != changed or suggested != changed)
                and not hidden
                and (tag in state.tags or accepted)
            ]
            new = {name for _, name, changed, suggested, *_ in every if suggested != changed}
            # A model that was read from the file has nothing to add to what it once suggested.
            basis = state.basis(complete)
            is_told = self.store.meta("suggested", "") == basis
            silent = (
                {name for _, name, *_ in fresh if name not in new} if loaded and is_told else ()
            )
            taken = self._take_up(state, fresh, complete, silent)
            if not is_told and self.store.can_write:
                self.store.set_meta("suggested", basis)
            if fresh and not state.seen:
                self.refresh()  # pictures were tagged, or not any more: all of it is suggested anew
            return [name for name in taken if name in new]

    def _follow(self, state: State, names: dict[int, str], complete: set[int]) -> None:
        """Tags that were renamed or joined since, and pictures that were marked.

        Marking a picture says something of every tag. That is too much to learn at once: it counts
        where a tag is learned on next, or all of them are.
        """
        state.tags = [tag if tag in names else -1 for tag in state.tags]
        for column, tag in enumerate(state.tags):
            if tag >= 0:
                state.annotator.tags[column] = names[tag]
        if state.complete - complete:
            state.seen.clear()  # what waited for these pictures comes back
        rows = self._rows(state, complete - state.complete)
        said = state.incremental.rows.labels[rows]
        state.incremental.rows.labels[rows] = np.where(said == UNDECIDED, LACKS, said)

    @staticmethod
    def _rows(state: State, pictures: Iterable[int]) -> Rows:
        return np.array([state.row_of[p] for p in pictures if p in state.row_of], np.intp)

    def _take_up(
        self,
        state: State,
        fresh: list[tuple[int, str, int]],
        complete: set[int],
        silent: Collection[str] = (),
    ) -> list[str]:
        """Learn tags on; what is suggested for those that are ``silent`` is written already."""
        incremental = state.incremental
        whole = self._rows(state, complete)
        marked = np.zeros(len(incremental.rows.labels), bool)
        marked[whole] = marked[self._rows(state, state.complete)] = True
        state.complete = complete
        said: dict[int, Any] = {}
        taken = []
        for tag, name, changed in fresh:
            values = self._said(state, tag, whole)
            state.seen[tag] = changed
            if tag not in state.tags:
                if not (values == HAS).any():
                    continue  # its pictures were not looked at yet
                state.tags.append(tag)
                state.annotator.tags.append(name)
                incremental.add_tag()
            said[state.tags.index(tag)] = values
            taken.append((tag, changed, name not in silent))
        if not taken:
            return []
        learned = [c for c, v in said.items() if _differ(v, incremental.rows.labels[:, c], marked)]
        moved = np.zeros(len(incremental.rows.labels), bool)
        for column, values in said.items():
            moved |= incremental.rows.labels[:, column] != values
            incremental.rows.labels[:, column] = values
        if state.look_at_tagged(self.store, np.flatnonzero(moved)):
            state.seen = {}  # which makes every other tag of these pictures less likely, or more
        if learned:
            incremental.estimate_completeness()
        for column in learned:
            incremental.update_tag(column)
        told = {c: one[:2] for c, one in zip(said, taken, strict=True) if one[2]}
        if told and self.store.can_write:
            self._write(state, told, learned)
        return [state.annotator.tags[column] for column in learned]

    def _write(self, state: State, taken: dict[int, tuple[int, int]], learned: list[int]) -> None:
        """What is suggested for tags, by column, and how well those are known that were learned."""
        with self.store.write() as base:
            if model_versions.current(self.store) != state.number:
                return  # another process has replaced the model meanwhile
            there = {row[0] for row in base.execute("SELECT id FROM tags")}
            for column, (tag, changed) in taken.items():
                if tag not in there:
                    continue  # joined with another meanwhile
                self._write_suggestions(base, state, column)
                started = self._started(tag)
                if started is not None:
                    explanations.write_started(base, tag, started.performance())
                elif column in learned:
                    explanations.write_points(base, explanations.points(state, column), [tag])
                base.execute("UPDATE tags SET suggested = ? WHERE id = ?", (changed, tag))

    def _said(self, state: State, tag: int, whole: Iterable[int]) -> Any:
        """What is said of all rows for one tag; one picture of a burst speaks for all."""
        said = np.full(len(state.incremental.rows.labels), UNDECIDED, np.int8)
        with self.store.read() as base:
            for picture, value in base.execute(
                "SELECT picture, value FROM labels WHERE tag = ? ORDER BY value", (tag,)
            ):
                row = state.row_of.get(picture)
                if row is not None:
                    said[row] = HAS if value else LACKS
        rows = np.array([row for row in whole if said[row] == UNDECIDED], np.intp)
        said[rows] = LACKS
        return said

    # -- asking ------------------------------------------------------------------------------------

    def likely(self, state: State, column: int) -> Doubles:
        """Of each picture at hand how likely a tag fits; 0 where that is decided."""
        incremental = state.incremental
        started = self._started(state.tags[column])
        if started is not None:
            known = dict(zip(started.pictures.tolist(), started.likely().tolist(), strict=True))
            likely = np.array([known.get(picture, 0.0) for picture in state.pictures.tolist()])
            return np.where(incremental.rows.labels[state.rows, column] == UNDECIDED, likely, 0.0)
        if not (incremental.rows.labels[:, column] == HAS).any():
            return np.zeros(len(state.rows))  # all that taught it was taken back
        p = incremental.probabilities([column])[:, 0]
        p = np.where(state.tagged, p_missing_label(p, incremental.completeness), p)
        return np.where(incremental.rows.labels[:, column] == UNDECIDED, p, 0.0)[state.rows]

    def _started(self, tag: int) -> Started | None:
        """Positive-unlabeled estimates of a tag that a full fit cannot estimate."""
        if tag < 0 or not self.starter.is_starting(tag):
            return None
        return self.starter.started(tag)

    def started(self, tag: str) -> Started | None:
        """Positive-unlabeled estimates of a tag, by its name; None where a full fit gives them."""
        with self.store.read() as base:
            number = tag_table.meant(base, tag)
        return self._started(number)

    def is_starting(self, tag: str) -> bool:
        """Return whether a tag, by its name, has too few labels for a full fit."""
        with self.store.read() as base:
            number = tag_table.meant(base, tag)
        return self.starter.is_starting(number)

    def start(
        self, tag: str, *, uncertain: bool, limit: int, skip: Iterable[int] = ()
    ) -> list[Suggestion] | None:
        """Suggest pictures without any model; None where a full fit estimates the tag.

        Raises
        ------
        InputError
            No picture has the tag.
        """
        with self.store.read() as base:
            number, name = self._named(base, tag)
        if not self.starter.is_starting(number):
            return None
        if self.starter.started(number) is None:
            raise _not_scanned(name)
        model = model_versions.current(self.store) or 0
        return self.starter.suggest(number, name, uncertain, limit, set(skip), model)

    @staticmethod
    def _named(base: sqlite3.Connection, tag: str) -> tuple[int, str]:
        number = tag_table.meant(base, tag)
        name, own = base.execute("SELECT name, own FROM tags WHERE id = ?", (number,)).fetchone()
        if not own:
            raise InputError(f"no picture has the tag {name!r}: accept it for one or more first.")
        return number, str(name)

    def _write_suggestions(self, base: sqlite3.Connection, state: State, column: int) -> None:
        tag = state.tags[column]
        p = self.likely(state, column)
        order = query_strategies.ranked(state, column, p, MIN_SUGGESTED_PROBABILITY)
        asked = islice(
            query_strategies.open_pairs(base, state, column, order, there=False), PER_TAG
        )
        base.execute("DELETE FROM suggestions WHERE tag = ?", (tag,))
        base.executemany(
            "INSERT INTO suggestions VALUES (?, ?, ?, ?, ?)",
            [
                (tag, picture, float(p[i]), state.number, state.groups.get(picture, -1))
                for i in asked
                if (picture := int(state.pictures[i]))
            ],
        )

    def suggest(
        self, tag: str | None, *, uncertain: bool, limit: int, skip: Iterable[int] = ()
    ) -> list[Suggestion]:
        """What to ask a person next; see :meth:`prototag.Library.suggest`."""
        if limit < 1:
            raise InputError(f"limit={limit}: give at least 1.")
        if tag is not None:
            found = self.start(tag, uncertain=uncertain, limit=limit, skip=skip)
            if found is not None:
                return found
        with self._lock:
            if tag is None and not uncertain:
                self.refresh()
                return query_strategies.probable(self.store, limit, set(skip))
            state = self.state()
            if tag is None:
                return query_strategies.instructive(
                    self.store, state, self.likely, limit, set(skip)
                )
            column, name = self._column(state, tag)
            p = self.likely(state, column)
            return query_strategies.for_tag(
                self.store, state, column, name, p, uncertain, limit, set(skip)
            )

    def _column(self, state: State, tag: str) -> tuple[int, str]:
        """The column of a tag that a person names; a tag that is new is learned now."""
        with self.store.read() as base:
            number, name = self._named(base, tag)
            changed = base.execute("SELECT changed FROM tags WHERE id = ?", (number,)).fetchone()[0]
            complete = {r[0] for r in base.execute("SELECT id FROM pictures WHERE complete")}
        if number not in state.tags:
            self._take_up(state, [(number, name, changed)], complete)
        if number not in state.tags:
            raise _not_scanned(name)
        return state.tags.index(number), name

    def similar(self, picture: int, limit: int) -> list[tuple[int, float]]:
        """Pictures most like one, with their cosines."""
        return explanations.similar(self.store, self.state(), picture, limit)

    def explain(self, picture: int, tag: str) -> list[Reason]:
        """The pictures that speak most for a tag of one picture."""
        with self._lock:
            state = self.state()
            return explanations.explain(self.store, state, picture, self._column(state, tag)[0])

    def annotator(self) -> Annotator:
        """The current model for any picture, with all that was learned on."""
        with self._lock:
            made = explanations.learned(self.state())
        pictures = [int(name) for name in made.gallery.names]
        made.gallery = replace(made.gallery, names=queries.names(self.store, pictures))
        return made

    def models(self) -> list[ModelView]:
        """The models that can come back, the newest first."""
        return model_versions.listed(self.store)

    def go_back(self, number: int) -> None:
        """Use an earlier model again."""
        with self._lock:
            model_versions.check_listed(self.store, number)
            state = load(self.store, self.extractor, number)
            with self.store.write() as base:
                model_versions.go_back(self.store, number)
                points = state.annotator.operating_points
                explanations.write_all_points(base, points, state.tags)
            self._state = state
            self.refresh()

    def _model(self) -> ModelView:
        return next(model for model in model_versions.listed(self.store) if model.current)


def _not_scanned(name: str) -> InputError:
    return InputError(
        f"none of the pictures with the tag {name!r} was read yet", remedy=Remedy.SCAN
    )


def _differ(said: Array, before: Array, marked: Array) -> bool:
    """Whether there is something to learn, beside that pictures were marked complete or not."""
    by_marks = marked & (said != HAS) & (before != HAS)
    return bool(((said != before) & ~by_marks).any())
