"""What a model at hand answers: similar pictures, reasons, how well a tag is learned."""

from __future__ import annotations

import copy
import sqlite3
from dataclasses import replace
from itertools import islice

import numpy as np

from prototag.annotator.annotator import Annotator
from prototag.annotator.gallery import nearest
from prototag.annotator.operating_points import MIN_AUC_Z, OperatingPoints, auc_and_z_scores
from prototag.arrays import Floats
from prototag.engine import single_threaded_blas
from prototag.errors import InputError, Remedy
from prototag.library import learning_curves, queries, training_data
from prototag.library.active_model import State
from prototag.library.database import Store
from prototag.library.types import Reason
from prototag.tagging.incremental.fit_state import HAS, UNDECIDED

REASONS = 12


def similar(store: Store, state: State, picture: int, limit: int) -> list[tuple[int, float]]:
    """Pictures most like one, with their cosines."""
    if picture in state.row_of:
        x = state.incremental.rows.kernel_vectors[state.row_of[picture]]
    else:
        x = state.annotator.model.short(_vector(store, state, picture))[0]
    with single_threaded_blas():
        likeness = (state.incremental.rows.kernel_vectors @ x)[state.rows]
    there = _there(store) - {picture}
    order = np.argsort(-likeness, kind="stable").tolist()
    found = ((int(state.pictures[i]), float(likeness[i])) for i in order)
    return list(islice((pair for pair in found if pair[0] in there), limit))


def _there(store: Store) -> set[int]:
    """Pictures of the library; a model may know more, which were pruned since."""
    with store.read() as base:
        return {row[0] for row in base.execute("SELECT id FROM pictures")}


def _vector(store: Store, state: State, picture: int) -> Floats:
    with store.read() as base:
        queries.number(base, picture)  # refuses one that does not exist
    found = training_data.vectors(store, np.array([picture], np.int64))
    if not found.size or not found.any():
        raise InputError(f"picture {picture} was not read yet", remedy=Remedy.SCAN)
    return found[:, state.columns]


def explain(store: Store, state: State, picture: int, column: int) -> list[Reason]:
    """The pictures that speak most for a tag of one picture."""
    annotator = learned(state)
    with single_threaded_blas():
        shares = annotator.model.explain(_vector(store, state, picture), [column])
    gallery = annotator.gallery
    given = np.zeros(len(gallery.names))
    np.add.at(given, gallery.prototypes[shares.prototypes], shares.coded[:, 0])
    np.add.at(given, gallery.landmarks, shares.smooth[:, 0])
    there = _there(store) - {picture}
    order = np.argsort(-given, kind="stable")
    reasons = [Reason(int(gallery.names[i]), float(given[i])) for i in order if given[i] > 0]
    return [reason for reason in reasons if reason.picture in there][:REASONS]


def learned(state: State) -> Annotator:
    """The model for any picture, with all that was learned on."""
    incremental = state.incremental
    made = copy.copy(state.annotator)
    made.tags = list(state.annotator.tags)  # which goes on to grow
    if not incremental.updates:
        made.operating_points = _without_dead(made.operating_points, state)
        return made
    made.model = incremental.build_model()
    gallery = made.gallery
    more = nearest(incremental.landmarks, gallery.vectors)
    made.gallery = replace(gallery, landmarks=np.concatenate([gallery.landmarks, more]))
    made.operating_points = _without_dead(_all_points(state), state)
    return made


def _without_dead(points: OperatingPoints, state: State) -> OperatingPoints:
    """A tag that was joined with another since is none any more: it is never given."""
    dead = np.array(state.tags)[: len(points.learnable)] < 0
    if not dead.any():
        return points
    precision = np.where(dead, np.nan, points.precision)
    recall = np.where(dead, 0.0, points.recall)
    learnable = points.learnable & ~dead
    return points._replace(learnable=learnable, precision=precision, recall=recall)


def _all_points(state: State) -> OperatingPoints:
    known = state.annotator.operating_points
    by_tag = ("positives", "auc", "learnable", "precision", "recall")
    fields = {name: getattr(known, name).copy() for name in by_tag}
    for column in state.incremental.updates:
        one = points(state, column)
        for name, values in fields.items():
            value = getattr(one, name)
            if column < len(values):
                values[column] = value[0]
            else:
                fields[name] = np.append(values, value)
    return known._replace(**fields)


def points(state: State, column: int) -> OperatingPoints:
    """How well one tag is learned, by all that taught it."""
    incremental = state.incremental
    threshold = state.annotator.operating_points.default_threshold
    said = incremental.rows.labels[:, column]
    judges = np.flatnonzero((said != UNDECIDED) | (np.arange(len(said)) < incremental.n_fit))
    true = said[judges, None] == HAS
    auc, z_scores = auc_and_z_scores(true, incremental.rows.raw[judges][:, [column]])
    learnable = z_scores > MIN_AUC_Z
    positives = np.count_nonzero(true, axis=0)
    given = (incremental.probabilities([column], judges) >= threshold) & learnable
    hits = np.count_nonzero(given & true, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = hits / np.count_nonzero(given, axis=0)
        recall = hits / np.maximum(positives, 1)
    return state.annotator.operating_points._replace(
        positives=positives,
        auc=auc,
        learnable=learnable,
        precision=precision,
        recall=recall,
    )


def write_all_points(base: sqlite3.Connection, points: OperatingPoints, tags: list[int]) -> None:
    """Write how well the tags of a model are learned, and what all others lack to be learned."""
    base.execute(
        "UPDATE tags SET learned = 0, needed = iif(own > 0, max(0, ? - own), 0), "
        "precision = NULL, recall = NULL",
        (training_data.MIN_PICTURES,),
    )
    write_points(base, points, tags)


def write_points(base: sqlite3.Connection, points: OperatingPoints, tags: list[int]) -> None:
    """How well tags are learned."""
    for number, tag in enumerate(tags):
        learned = bool(points.learnable[number])
        precision = float(points.precision[number])
        told = precision if learned and np.isfinite(precision) else None
        recall = float(points.recall[number]) if learned else None
        base.execute(
            "UPDATE tags SET learned = ?1, needed = iif(?1, 0, max(0, ?2 - own)), precision = ?3, "
            "recall = ?4 WHERE id = ?5",
            (learned, training_data.MIN_PICTURES, told, recall, tag),
        )
        learning_curves.note(base, tag, told, recall or 0.0)


def write_started(
    base: sqlite3.Connection, tag: int, performance: tuple[float, float] | None
) -> None:
    """Write the precision and recall of a tag that only decisions say something of."""
    precision, recall = performance or (None, None)
    base.execute(
        "UPDATE tags SET learned = ?, needed = 0, precision = ?, recall = ? WHERE id = ?",
        (performance is not None, precision, recall, tag),
    )
    learning_curves.note(base, tag, precision, recall or 0.0)
