"""Queries of the active model: similar pictures, explanations, performance of tags, its export."""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import islice

import numpy as np

from prototag.annotator.annotator import Annotator
from prototag.annotator.gallery import Gallery, nearest
from prototag.annotator.operating_points import MIN_AUC_Z, OperatingPoints, auc_and_z_scores
from prototag.arrays import Array, Floats
from prototag.engine import single_threaded_blas
from prototag.errors import InputError, Remedy
from prototag.library import learning_curves, queries, training_data
from prototag.library.active_model import ActiveModel
from prototag.library.database import Store
from prototag.library.types import Reason
from prototag.tagging.incremental.fit_state import HAS, UNDECIDED
from prototag.tagging.incremental.rows import widen

MAX_REASONS = 12  # pictures of one explanation


def similar(store: Store, active: ActiveModel, picture: int, limit: int) -> list[tuple[int, float]]:
    """Return the pictures most similar to one, with their cosine similarities."""
    if picture in active.row_of:
        x = active.tagger.rows.kernel_vectors[active.row_of[picture]]
    else:
        x = active.annotator.model.kernel_vectors(_vector(store, active, picture))[0]
    with single_threaded_blas():
        cosines = (active.tagger.rows.kernel_vectors @ x)[active.rows]
    others = _existing_pictures(store) - {picture}
    order = np.argsort(-cosines, kind="stable").tolist()
    pairs = ((int(active.pictures[i]), float(cosines[i])) for i in order)
    return list(islice((pair for pair in pairs if pair[0] in others), limit))


def _existing_pictures(store: Store) -> set[int]:
    """Return the pictures of the library; a model may know more, which were pruned since."""
    with store.read() as conn:
        return {row[0] for row in conn.execute("SELECT id FROM pictures")}


def _vector(store: Store, active: ActiveModel, picture: int) -> Floats:
    with store.read() as conn:
        queries.number(conn, picture)  # refuses one that does not exist
    X = training_data.vectors(store, np.array([picture], np.int64))
    if not X.size or not X.any():
        raise InputError(f"picture {picture} was not scanned yet", remedy=Remedy.SCAN)
    return X[:, active.columns]


def explain(store: Store, active: ActiveModel, picture: int, column: int) -> list[Reason]:
    """Return the training pictures that contribute most to the score of a tag of one picture."""
    annotator = export_annotator(active)
    with single_threaded_blas():
        shares = annotator.model.explain(_vector(store, active, picture), [column])
    gallery = annotator.gallery
    contributions = np.zeros(len(gallery.names))
    np.add.at(contributions, gallery.prototypes[shares.prototypes], shares.code_scores[:, 0])
    np.add.at(contributions, gallery.landmarks, shares.kernel_scores[:, 0])
    others = _existing_pictures(store) - {picture}
    order = np.argsort(-contributions, kind="stable")
    reasons = [
        Reason(int(gallery.names[i]), float(contributions[i]))
        for i in order
        if contributions[i] > 0
    ]
    return [reason for reason in reasons if reason.picture in others][:MAX_REASONS]


def export_annotator(active: ActiveModel) -> Annotator:
    """Return an annotator for any picture, with all incremental updates."""
    tagger = active.tagger
    annotator = copy.copy(active.annotator)
    annotator.tags = list(active.annotator.tags)  # the original list grows with new tags
    points = annotator.operating_points
    if tagger.updates:
        annotator.model = tagger.build_model()
        gallery = annotator.gallery
        landmarks = nearest(tagger.landmarks, gallery.vectors)
        annotator.gallery = replace(
            gallery,
            landmarks=np.concatenate([gallery.landmarks, landmarks]),
            held_out_scores=_updated_scores(active, gallery),
        )
        points = _updated_points(active)
    annotator.operating_points = _without_merged_tags(points, active)
    return annotator


def _updated_scores(active: ActiveModel, gallery: Gallery) -> Array:
    """Return the held-out scores of the gallery, those of updated columns from the updates."""
    tagger = active.tagger
    scores = widen(gallery.held_out_scores, tagger.n_tags - gallery.held_out_scores.shape[1])
    pictures = [int(name) for name in gallery.names]
    known = np.array([picture in active.row_of for picture in pictures])
    columns = np.array(list(tagger.updates), np.intp)
    scores[np.ix_(known, columns)] = tagger.rows.raw[np.ix_(active.rows_of(pictures), columns)]
    return scores


def _without_merged_tags(points: OperatingPoints, active: ActiveModel) -> OperatingPoints:
    """Mark tags that were merged with others as not learned, so that they are never applied."""
    is_merged = np.array(active.tags)[: len(points.learnable)] < 0
    if not is_merged.any():
        return points
    precision = np.where(is_merged, np.nan, points.precision)
    recall = np.where(is_merged, 0.0, points.recall)
    learnable = points.learnable & ~is_merged
    return points._replace(learnable=learnable, precision=precision, recall=recall)


def _updated_points(active: ActiveModel) -> OperatingPoints:
    """Return the operating points of all tags, those of updated columns computed again."""
    points = active.annotator.operating_points
    by_tag = ("positives", "auc", "learnable", "precision", "recall")
    fields = {name: getattr(points, name).copy() for name in by_tag}
    for column in active.tagger.updates:
        updated = operating_points_of(active, column)
        for name, values in fields.items():
            value = getattr(updated, name)
            if column < len(values):
                values[column] = value[0]
            else:
                fields[name] = np.append(values, value)
    return points._replace(**fields)


def operating_points_of(
    active: ActiveModel, column: int, without: Collection[int] = ()
) -> OperatingPoints:
    """Compute the operating point of one tag from the held-out scores of its labeled rows.

    Rows of the pictures ``without`` do not count.
    """
    tagger = active.tagger
    threshold = active.annotator.operating_points.default_threshold
    labels = tagger.rows.labels[:, column]
    is_training_row = np.arange(len(labels)) < tagger.n_fit
    is_counted = (labels != UNDECIDED) | is_training_row
    is_counted[active.rows_of(without)] = False
    rows = np.flatnonzero(is_counted)
    has = labels[rows, None] == HAS
    auc, z_scores = auc_and_z_scores(has, tagger.rows.raw[rows][:, [column]])
    learnable = z_scores > MIN_AUC_Z
    positives = np.count_nonzero(has, axis=0)
    applied = (tagger.probabilities([column], rows) >= threshold) & learnable
    hits = np.count_nonzero(applied & has, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = hits / np.count_nonzero(applied, axis=0)
        recall = hits / np.maximum(positives, 1)
    return active.annotator.operating_points._replace(
        positives=positives,
        auc=auc,
        learnable=learnable,
        precision=precision,
        recall=recall,
    )


def write_all_operating_points(
    conn: sqlite3.Connection, points: OperatingPoints, tags: list[int]
) -> None:
    """Write the performance of a model's tags, and how many pictures all other tags lack."""
    conn.execute(
        "UPDATE tags SET learned = 0, precision = NULL, recall = NULL, "
        "n_needed = iif(n_pictures > 0, max(0, ? - n_pictures), 0)",
        (training_data.MIN_PICTURES,),
    )
    write_operating_points(conn, points, tags)


def write_operating_points(
    conn: sqlite3.Connection, points: OperatingPoints, tags: list[int]
) -> None:
    """Write the performance of tags."""
    for row, tag in enumerate(tags):
        learned = bool(points.learnable[row])
        measured = float(points.precision[row])
        precision = measured if learned and np.isfinite(measured) else None
        recall = float(points.recall[row]) if learned else None
        conn.execute(
            "UPDATE tags SET learned = ?1, n_needed = iif(?1, 0, max(0, ?2 - n_pictures)), "
            "precision = ?3, recall = ?4 WHERE id = ?5",
            (learned, training_data.MIN_PICTURES, precision, recall, tag),
        )


def record_curves(
    conn: sqlite3.Connection,
    active: ActiveModel,
    columns: Iterable[int],
    later_labels: learning_curves.LaterLabels,
) -> None:
    """Record points of the learning curves, each measured on the fixed test part of its tag."""
    for column in columns:
        tag = active.tags[column]
        row = conn.execute("SELECT precision, recall FROM tags WHERE id = ?", (tag,)).fetchone()
        if row is None:
            continue  # merged with another tag
        precision, recall = row
        later = [one for one in later_labels.pictures(tag) if one in active.row_of]
        if later:
            points = operating_points_of(active, column, later)
            if points.positives[0] >= learning_curves.MIN_TEST_PICTURES:
                measured = float(points.precision[0])
                precision = measured if np.isfinite(measured) else None
                recall = float(points.recall[0])
        learning_curves.record_point(conn, tag, precision, recall or 0.0)


def write_cold_start_performance(
    conn: sqlite3.Connection, tag: int, performance: tuple[float, float] | None
) -> None:
    """Write the precision and recall of a tag that are estimated from decisions only."""
    precision, recall = performance or (None, None)
    conn.execute(
        "UPDATE tags SET learned = ?, n_needed = 0, precision = ?, recall = ? WHERE id = ?",
        (performance is not None, precision, recall, tag),
    )
    learning_curves.record_point(conn, tag, precision, recall or 0.0)
