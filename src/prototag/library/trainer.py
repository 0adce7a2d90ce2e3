"""Train on the labels of a library, fully or incrementally, and write suggestions.

A full retrain makes a new model of all labels. Between two of them, :meth:`Trainer.update` applies
label changes to the columns of their tags only (:mod:`prototag.tagging.incremental.update`), in
three steps: read the pending changes, apply them to the active model, publish the suggestions.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from prototag.annotator.annotator import Annotator
from prototag.annotator.operating_points import MIN_SUGGESTED_PROBABILITY
from prototag.annotator.training_set import fit_tagger
from prototag.arrays import Array, Bools, Doubles, Rows
from prototag.errors import InputError, Remedy, TrainingError, UnknownNameError
from prototag.events import Progress
from prototag.features.extractor import Extractor
from prototag.knowledge.concepts import BACKBONE, NamePrior, name_prior
from prototag.library import (
    active_model,
    model_versions,
    queries,
    query_strategies,
    tag_table,
    training_data,
)
from prototag.library import (
    explain as explanations,
)
from prototag.library.active_model import ActiveModel
from prototag.library.cold_start import ColdStart, ColdStartEstimate
from prototag.library.concept_index import ConceptIndex
from prototag.library.database import Store
from prototag.library.general_suggestions import GeneralSuggestions
from prototag.library.learning_curves import LaterLabels
from prototag.library.types import ModelView, Reason, Suggestion, TrainingReport
from prototag.tagging.incremental.fit_state import HAS, LACKS, UNDECIDED, FitState
from prototag.tagging.incremental.update import p_missing_label

MAX_SUGGESTIONS_PER_TAG = 1_000  # that are stored
# A full retrain is due after so many decisions, or this share of the training pictures if larger.
MIN_DECISIONS_TO_RETRAIN = 100
SHARE_OF_PICTURES_TO_RETRAIN = 0.25


class TagRow(NamedTuple):
    """A tag as the library's file has it."""

    tag: int
    name: str
    label_changes: int
    suggested_changes: int  # label changes that the stored suggestions include
    n_accepted: int
    hidden: int

    @property
    def is_published(self) -> bool:
        return self.suggested_changes == self.label_changes


@dataclass(frozen=True)
class PendingChanges:
    """Label changes that the active model or the stored suggestions do not include yet."""

    tags: list[TagRow]  # whose labels have changed
    visible_tags: list[TagRow]  # all tags that are not hidden
    complete: set[int]  # complete pictures
    up_to_date: set[int]  # tags of ``tags`` whose stored suggestions are up to date


class AppliedChanges(NamedTuple):
    """Columns of the active model that label changes affect."""

    updated: list[int]  # whose parameters have changed
    publish: dict[int, TagRow]  # whose suggestions are to be written


class Trainer:
    """Full retrains and incremental updates of one library; threads may share it."""

    def __init__(self, store: Store, extractor: Extractor) -> None:
        self.store = store
        self.extractor = extractor
        self.concept_index = ConceptIndex(store, extractor)
        self.general = GeneralSuggestions(store, self.concept_index)
        self.cold_start = ColdStart(store, self.general)
        self._lock = threading.RLock()
        self._full = threading.Lock()  # held by the one full retrain
        self._active: ActiveModel | None = None

    # -- full retrain ------------------------------------------------------------------------------

    def is_retrain_due(self) -> bool:
        """Return whether enough labels have changed since the last full retrain."""
        with self.store.read() as conn:
            row = conn.execute(
                "SELECT n_pictures, last_decision, number FROM models WHERE is_current = 1"
            ).fetchone()
            if row is None:
                return True
            n_pictures, last_decision, number = row
            if not model_versions.has_current_vectors(self.store, number):
                return True
            # Single decisions on pictures without other labels are not counted: a retrain uses
            # them no better than an update does.
            (decisions,) = conn.execute(
                "SELECT count(*) FROM decisions d JOIN pictures p ON p.id = d.picture "
                "WHERE d.id > ? AND NOT d.undone AND (p.complete OR p.n_decided >= ? OR EXISTS "
                "(SELECT 1 FROM labels l WHERE l.picture = p.id AND l.file_value = 1))",
                (last_decision, training_data.MIN_DECIDED_PAIRS),
            ).fetchone()
            (tagged,) = conn.execute(
                "SELECT count(DISTINCT picture) FROM labels WHERE file_value = 1"
            ).fetchone()
        least = max(MIN_DECISIONS_TO_RETRAIN, SHARE_OF_PICTURES_TO_RETRAIN * n_pictures)
        return bool(max(decisions, tagged - n_pictures) >= least)

    def learn(self, full: bool | None, progress: Progress | None) -> TrainingReport:
        """Update or fully retrain the model; None chooses a full retrain when it is due."""
        if full or (full is None and self.is_retrain_due()):
            with self._full:
                if full or self.is_retrain_due():  # else another thread has retrained meanwhile
                    return self._retrain(progress)
        with self._lock:
            changed = self.update()
            return TrainingReport(self._current_model(), False, changed)

    def _name_prior(self, active: ActiveModel, name: str) -> NamePrior | None:
        """Return the prior scores of a new tag by its name, if the vectors are the default ones."""
        if self.extractor.fingerprint != BACKBONE:
            return None
        return name_prior([name], active.annotator.model.n_features)

    def _retrain(self, progress: Progress | None) -> TrainingReport:
        """Train all tags; the active model answers until the new one is stored."""
        blocks = self.extractor.feature_groups
        data = training_data.gather(self.store, blocks, estimate=self._cold_start_estimate)
        # In memory for any number of pictures: updates need the arrays that the fit leaves there.
        n_jobs = self.extractor.n_jobs
        tagger, training = fit_tagger(
            data.training,
            n_jobs,
            None,
            progress,
            out_of_core=False,
            backbone=self.extractor.fingerprint,
            network=str(self.extractor.backbone),
        )
        used = {block.name for block in training.feature_groups}
        columns = np.concatenate([np.full(b.width, b.name in used) for b in blocks])
        annotator = self._new_annotator()
        annotator.extractor.selected_groups = [block.name for block in training.feature_groups]
        annotator.set_fit(tagger.result_, training)
        fit_state = FitState.from_fit(tagger.result_, training.X, data.ruled_out)
        groups = active_model.near_duplicate_groups(self.store, data, columns)

        def write_more(conn: sqlite3.Connection) -> None:
            conn.execute("UPDATE pictures SET duplicate_group = -1 WHERE duplicate_group >= 0")
            conn.executemany(
                "UPDATE pictures SET duplicate_group = ? WHERE id = ?",
                [(group, picture) for picture, group in groups.items()],
            )
            conn.execute("UPDATE tags SET suggested_changes = -1")
            explanations.write_all_operating_points(
                conn, annotator.operating_points, data.tags.tolist()
            )

        number = model_versions.store_model(
            self.store, annotator, fit_state, data.last_decision, data.recipe, write_more
        )
        active = active_model.build(
            self.store, number, annotator, fit_state, data.pictures, data.tags, columns
        )
        if len(active.pictures) < len(active.known):  # the selection took long: store it
            others = active.pictures[len(data.pictures) :]
            model_versions.store_candidate_pool(self.store, number, max(active.known), others)
        with self.store.write() as conn:
            trained = [column for column, tag in enumerate(active.tags) if tag >= 0]
            explanations.record_curves(conn, active, trained, LaterLabels(conn))
        with self._lock:
            self._active = active
            self.update()
            return TrainingReport(self._current_model(), True, [])

    def _new_annotator(self) -> Annotator:
        extractor = self.extractor
        return Annotator(
            backbone=extractor.backbone,
            crops=extractor.crops,
            n_jobs=extractor.n_jobs,
            cache=extractor.cache,
            keep_thumbnails=False,
        )

    # -- incremental update: pending changes -> apply -> publish -----------------------------------

    def active_model(self) -> ActiveModel:
        """Return the active model with all label changes applied.

        Raises
        ------
        InputError
            The library has no model.
        """
        with self._lock:
            self.update()
            if self._active is None:
                raise InputError("the library has no model yet", remedy=Remedy.LEARN)
            return self._active

    @property
    def latest(self) -> ActiveModel | None:
        """The active model, perhaps during an update, without waiting; None if not loaded."""
        active = self._active
        if active is None or active.number != model_versions.current(self.store):
            return None
        return active

    def update(self) -> list[str]:
        """Apply the pending label changes to the active model and publish its suggestions.

        Returns
        -------
        list of str
            The tags whose parameters have changed.
        """
        with self._lock:
            number = model_versions.current(self.store)
            if number is None:
                return []
            is_loaded = self._active is None or self._active.number != number
            if self._active is None or is_loaded:
                self._active = active_model.load(self.store, self.extractor, number)
            active = self._active
            model_versions.check_recipe(self.store, number)
            changes = self._pending_changes(active, is_loaded=is_loaded)
            applied = self._apply(active, changes)
            self._publish(active, applied)
            self._store_suggestions_version(active)
            unpublished = {row.name for row in changes.tags if not row.is_published}
            names = [active.annotator.tags[column] for column in applied.updated]
            return [name for name in names if name in unpublished]

    def _pending_changes(
        self, active: ActiveModel, *, is_loaded: bool = False, new_tag: int | None = None
    ) -> PendingChanges:
        """Read what has changed in the library since the last update of the active model.

        ``is_loaded`` tells that the model was just read from the file. Then the suggestions in the
        file are up to date for those tags whose labels have not changed since they were written.
        ``new_tag`` gets a column although nobody has accepted it.
        """
        if active.add_new_pictures(self.store):
            active.applied_changes.clear()
        with self.store.read() as conn:
            rows = conn.execute(
                "SELECT id, name, label_changes, suggested_changes, n_accepted, hidden FROM tags"
            )
            tags = [TagRow(*row) for row in rows]
            complete = {row[0] for row in conn.execute("SELECT id FROM pictures WHERE complete")}
        _sync_tag_names(active, tags)
        _sync_complete_pictures(active, complete)
        visible = [row for row in tags if not row.hidden]
        changed = [
            row
            for row in visible
            if (row.tag in active.tags or row.n_accepted)
            and not (row.is_published and active.applied_changes.get(row.tag) == row.label_changes)
        ]
        if new_tag is not None and new_tag not in {row.tag for row in changed}:
            changed += [row for row in tags if row.tag == new_tag]
        up_to_date = set()
        version = self.store.setting("suggestions_version", "")
        if is_loaded and version == active.suggestions_version(complete):
            up_to_date = {row.tag for row in changed if row.is_published}
        return PendingChanges(changed, visible, complete, up_to_date)

    def _apply(self, active: ActiveModel, changes: PendingChanges) -> AppliedChanges:
        """Fit the columns of changed tags again, and add columns for new tags."""
        tagger = active.tagger
        complete_rows = active.rows_of(changes.complete)
        was_or_is_complete = np.zeros(len(tagger.rows.labels), bool)
        was_or_is_complete[complete_rows] = True
        was_or_is_complete[active.rows_of(active.complete)] = True
        active.complete = changes.complete
        labels: dict[int, Any] = {}
        publish: dict[int, TagRow] = {}
        for row in changes.tags:
            values = self._row_labels(active, row.tag, complete_rows)
            active.applied_changes[row.tag] = row.label_changes
            if row.tag not in active.tags:
                if not (values == HAS).any():
                    continue  # none of its pictures was scanned yet
                active.tags.append(row.tag)
                active.annotator.tags.append(row.name)
                tagger.add_tag(self._name_prior(active, row.name))
            column = active.tags.index(row.tag)
            labels[column] = values
            if row.tag not in changes.up_to_date:
                publish[column] = row
        updated = [
            column
            for column, values in labels.items()
            if _has_new_labels(values, tagger.rows.labels[:, column], was_or_is_complete)
        ]
        changed_rows = np.zeros(len(tagger.rows.labels), bool)
        for column, values in labels.items():
            changed_rows |= tagger.rows.labels[:, column] != values
            tagger.rows.labels[:, column] = values
        if active.update_tagged(self.store, np.flatnonzero(changed_rows)):
            # A picture that files tag, or no longer, is less, or more, likely to lack every tag.
            column_of = {tag: column for column, tag in enumerate(active.tags)}
            publish = {
                column_of[row.tag]: row for row in changes.visible_tags if row.tag in column_of
            }
        if updated:
            tagger.estimate_completeness()
        for column in updated:
            tagger.update_tag(column)
        return AppliedChanges(updated, publish)

    def _row_labels(self, active: ActiveModel, tag: int, complete_rows: Rows) -> Any:
        """Return the label of each row for one tag; near-duplicates share the label of one."""
        values = np.full(len(active.tagger.rows.labels), UNDECIDED, np.int8)
        with self.store.read() as conn:
            for picture, value in conn.execute(
                "SELECT picture, value FROM labels WHERE tag = ? ORDER BY value", (tag,)
            ):
                row = active.row_of.get(picture)
                if row is not None:
                    values[row] = HAS if value else LACKS
        lacking = complete_rows[values[complete_rows] == UNDECIDED]
        values[lacking] = LACKS
        return values

    def _publish(self, active: ActiveModel, applied: AppliedChanges) -> None:
        """Write the suggestions of changed columns, and how well updated tags are learned."""
        if not applied.publish or not self.store.can_write:
            return
        with self.store.write() as conn:
            if model_versions.current(self.store) != active.number:
                return  # another process has replaced the model meanwhile
            existing = {row[0] for row in conn.execute("SELECT id FROM tags")}
            later_labels = LaterLabels(conn)
            for column, row in applied.publish.items():
                if row.tag not in existing:
                    continue  # merged with another tag meanwhile
                self._write_suggestions(conn, active, column)
                estimate = self._cold_start_estimate(row.tag)
                if estimate is not None:
                    performance = estimate.performance()
                    explanations.write_cold_start_performance(conn, row.tag, performance)
                elif column in applied.updated:
                    points = explanations.operating_points_of(active, column)
                    explanations.write_operating_points(conn, points, [row.tag])
                    explanations.record_curves(conn, active, [column], later_labels)
                conn.execute(
                    "UPDATE tags SET suggested_changes = ? WHERE id = ?",
                    (row.label_changes, row.tag),
                )

    def _write_suggestions(
        self, conn: sqlite3.Connection, active: ActiveModel, column: int
    ) -> None:
        tag = active.tags[column]
        p = self.probabilities(active, column)
        order = query_strategies.ranked(active, column, p, MIN_SUGGESTED_PROBABILITY)
        places = query_strategies.open_pairs(conn, active, column, order, only_existing=False)
        conn.execute("DELETE FROM suggestions WHERE tag = ?", (tag,))
        conn.executemany(
            "INSERT INTO suggestions VALUES (?, ?, ?, ?, ?)",
            [
                (tag, picture, float(p[i]), active.number, active.groups.get(picture, -1))
                for i in islice(places, MAX_SUGGESTIONS_PER_TAG)
                if (picture := int(active.pictures[i]))
            ],
        )

    def _store_suggestions_version(self, active: ActiveModel) -> None:
        version = active.suggestions_version(active.complete)
        if self.store.can_write and self.store.setting("suggestions_version", "") != version:
            self.store.set_setting("suggestions_version", version)

    # -- queries -----------------------------------------------------------------------------------

    def probabilities(self, active: ActiveModel, column: int) -> Doubles:
        """Return each candidate's probability of a tag; 0 where the pair is labeled."""
        tagger = active.tagger
        is_open = tagger.rows.labels[:, column] == UNDECIDED
        estimate = self._cold_start_estimate(active.tags[column])
        if estimate is not None:
            pairs = zip(estimate.pictures.tolist(), estimate.probabilities().tolist(), strict=True)
            by_picture = dict(pairs)
            p = np.array([by_picture.get(picture, 0.0) for picture in active.pictures.tolist()])
            return np.where(is_open[active.rows], p, 0.0)
        if not (tagger.rows.labels[:, column] == HAS).any():
            return np.zeros(len(active.rows))  # all its labels were undone
        p = tagger.probabilities([column])[:, 0]
        p = np.where(active.tagged, p_missing_label(p, tagger.completeness), p)
        return np.where(is_open, p, 0.0)[active.rows]

    def _cold_start_estimate(self, tag: int) -> ColdStartEstimate | None:
        """Return positive-unlabeled estimates of a tag that has too few labels for a full fit."""
        if tag < 0 or not self.cold_start.is_cold_start(tag):
            return None
        return self.cold_start.estimate(tag)

    def cold_start_estimate(self, tag: str) -> ColdStartEstimate | None:
        """Return positive-unlabeled estimates of a tag by name.

        None if a full fit estimates it, or if only its name can rank pictures.
        """
        if self.is_new_name(tag) and self.general.is_available:
            return None
        with self.store.read() as conn:
            number = tag_table.resolve_tag(conn, tag)
        return self._cold_start_estimate(number)

    def is_cold_start(self, tag: str) -> bool:
        """Return whether a tag, by name, has too few labels for a full fit."""
        if self.is_new_name(tag) and self.general.is_available:
            return True
        with self.store.read() as conn:
            number = tag_table.resolve_tag(conn, tag)
        return self.cold_start.is_cold_start(number)

    def suggest_cold_start(
        self, tag: str, *, uncertain: bool, limit: int, skip: Iterable[int] = ()
    ) -> list[Suggestion] | None:
        """Suggest pictures without a model; None if a full fit estimates the tag.

        Raises
        ------
        TrainingError
            No picture has the tag.
        """
        skip = set(skip)
        if self.is_new_name(tag):
            suggestions = self.general.for_name(tag, limit, skip)
            if suggestions is not None:
                return suggestions
        with self.store.read() as conn:
            row = self._tag_row(conn, tag)
        if not self.cold_start.is_cold_start(row.tag):
            return None
        if self.cold_start.estimate(row.tag) is None:
            raise _not_scanned_error(row.name)
        model = model_versions.current(self.store) or 0
        return self.cold_start.suggest(row.tag, row.name, uncertain, limit, skip, model)

    def is_new_name(self, tag: str) -> bool:
        """Return whether no picture has the tag, so that only its name can rank pictures."""
        with self.store.read() as conn:
            try:
                number = tag_table.resolve_tag(conn, tag)
            except UnknownNameError:
                return True
            row = conn.execute("SELECT n_pictures FROM tags WHERE id = ?", (number,)).fetchone()
        return not row[0]

    @staticmethod
    def _tag_row(conn: sqlite3.Connection, tag: str) -> TagRow:
        """Read a tag by name; raise an error if no picture has it."""
        number = tag_table.resolve_tag(conn, tag)
        *row, n_pictures = conn.execute(
            "SELECT id, name, label_changes, suggested_changes, n_accepted, hidden, n_pictures "
            "FROM tags WHERE id = ?",
            (number,),
        ).fetchone()
        tag_row = TagRow(*row)
        if not n_pictures:
            raise TrainingError(
                f"no picture has the tag {tag_row.name!r}: accept it for one or more first."
            )
        return tag_row

    def suggest(
        self, tag: str | None, *, uncertain: bool, limit: int, skip: Iterable[int] = ()
    ) -> list[Suggestion]:
        """Select pairs to review next; see :meth:`prototag.Library.suggest`."""
        if limit < 1:
            raise InputError(f"limit={limit}: give at least 1.")
        skipped = set(skip)
        if tag is not None:
            suggestions = self.suggest_cold_start(
                tag, uncertain=uncertain, limit=limit, skip=skipped
            )
            if suggestions is not None:
                return suggestions
        with self._lock:
            if tag is None and not uncertain:
                self.update()
                return query_strategies.probable(self.store, limit, skipped)
            active = self.active_model()
            if tag is None:
                return query_strategies.most_informative(
                    self.store, active, self.probabilities, limit, skipped
                )
            column, name = self._column(active, tag)
            p = self.probabilities(active, column)
            return query_strategies.for_tag(
                self.store, active, column, name, p, uncertain, limit, skipped
            )

    def _column(self, active: ActiveModel, tag: str) -> tuple[int, str]:
        """Return the column and the name of a tag; train the column now if the tag is new."""
        with self.store.read() as conn:
            row = self._tag_row(conn, tag)
        if row.tag not in active.tags:
            changes = self._pending_changes(active, new_tag=row.tag)
            self._publish(active, self._apply(active, changes))
        if row.tag not in active.tags:
            raise _not_scanned_error(row.name)
        return active.tags.index(row.tag), row.name

    def similar(self, picture: int, limit: int) -> list[tuple[int, float]]:
        """Return the pictures most similar to one, with their cosine similarities."""
        return explanations.similar(self.store, self.active_model(), picture, limit)

    def explain(self, picture: int, tag: str) -> list[Reason]:
        """Return the training pictures that contribute most to the score of a tag."""
        with self._lock:
            active = self.active_model()
            column, _ = self._column(active, tag)
            return explanations.explain(self.store, active, picture, column)

    def export_annotator(self) -> Annotator:
        """Return an annotator for any picture, with all updates of the active model."""
        with self._lock:
            annotator = explanations.export_annotator(self.active_model())
        gallery = annotator.gallery
        pictures = [int(name) for name in gallery.names]
        annotator.gallery = replace(gallery, names=queries.names(self.store, pictures))
        return annotator

    # -- model versions ----------------------------------------------------------------------------

    def models(self) -> list[ModelView]:
        """Return the models that can become active again, the newest first."""
        return model_versions.list_models(self.store)

    def rollback(self, number: int) -> None:
        """Make an earlier model active again, and apply all later label changes to it."""
        with self._lock:
            model_versions.check_is_listed(self.store, number)
            active = active_model.load(self.store, self.extractor, number)
            with self.store.write() as conn:
                model_versions.rollback(self.store, number)
                points = active.annotator.operating_points
                explanations.write_all_operating_points(conn, points, active.tags)
            self._active = active
            self.update()

    def _current_model(self) -> ModelView:
        return next(model for model in model_versions.list_models(self.store) if model.current)


def _sync_tag_names(active: ActiveModel, tags: list[TagRow]) -> None:
    """Take over renamed tags; a tag that was merged with another loses its column."""
    names = {row.tag: row.name for row in tags}
    active.tags = [tag if tag in names else -1 for tag in active.tags]
    for column, tag in enumerate(active.tags):
        if tag >= 0:
            active.annotator.tags[column] = names[tag]


def _sync_complete_pictures(active: ActiveModel, complete: set[int]) -> None:
    """Label the pictures that were marked complete as lacking all other tags.

    That changes a label of every tag, and updating every column would take too long: a column is
    fitted with these labels when other labels of its tag change, or in a full retrain.
    """
    if active.complete - complete:
        active.applied_changes.clear()  # suggestions for these pictures come back
    rows = active.rows_of(complete - active.complete)
    labels = active.tagger.rows.labels[rows]
    active.tagger.rows.labels[rows] = np.where(labels == UNDECIDED, LACKS, labels)


def _not_scanned_error(name: str) -> InputError:
    return InputError(
        f"none of the pictures with the tag {name!r} was scanned yet", remedy=Remedy.SCAN
    )


def _has_new_labels(now: Array, before: Array, complete: Bools) -> bool:
    """Return whether labels have changed, except by marking pictures complete or incomplete."""
    by_completeness = complete & (now != HAS) & (before != HAS)
    return bool(((now != before) & ~by_completeness).any())
