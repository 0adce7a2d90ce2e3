"""The active model: the loaded model and its candidate pool in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from prototag.annotator.annotator import Annotator
from prototag.arrays import Bools, Rows
from prototag.features.extractor import Extractor
from prototag.library import model_versions, tag_table, training_data
from prototag.library.database import Ids, Store, select_in
from prototag.metadata.tag_names import key
from prototag.tagging import near_duplicates
from prototag.tagging.incremental.fit_state import FitState
from prototag.tagging.incremental.update import IncrementalTagger

MAX_CANDIDATES = 20_000  # unlabeled pictures that are scored again after each decision
BATCH_PICTURES = 4096  # pictures whose vectors are scored together to select candidates


@dataclass
class ActiveModel:
    """The loaded model with its candidate pool, and the label changes that it includes.

    Attributes
    ----------
    number : int
        Number of the model.
    annotator : Annotator
        The model as it was trained; its list of tags grows with new tags.
    tagger : IncrementalTagger
        Scores of all rows, updated incrementally.
    pictures : array of shape (pictures,)
        Pictures of the training set, then other candidates.
    rows : array of shape (pictures,)
        Row of each picture; near-duplicates of the training set share a row.
    tags : list of int
        Tag of each column; -1 where the tag was merged with another.
    columns : array of shape (stored columns,)
        Which columns of the stored vectors the model uses.
    tagged : array of shape (rows,)
        Whether files tag the picture.
    groups : dict of int to int
        Near-duplicate group of each picture that is in one.
    known : set of int
        All pictures that had vectors at the last update.
    row_of : dict of int to int
        Row of each picture.
    applied_changes : dict of int to int
        Number of label changes of each tag that the scores include.
    complete : set of int
        Complete pictures that the scores include.
    """

    number: int
    annotator: Annotator
    tagger: IncrementalTagger
    pictures: Ids
    rows: Rows
    tags: list[int]
    columns: Bools
    tagged: Bools
    groups: dict[int, int]
    known: set[int]
    row_of: dict[int, int] = field(init=False)
    applied_changes: dict[int, int] = field(default_factory=dict)
    complete: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.row_of = dict(zip(self.pictures.tolist(), self.rows.tolist(), strict=True))

    def suggestions_version(self, complete: set[int]) -> str:
        """Describe what suggestions depend on besides labels: the model and the candidates.

        While it stays the same and no label changes, suggestions stay the same.
        """
        candidates = f"{len(self.known)} {max(self.known, default=0)}"
        return f"{self.number} {candidates} {len(complete)} {sum(complete)}"

    def rows_of(self, pictures: Iterable[int]) -> Rows:
        """Return the rows of those pictures that are candidates or in the training set."""
        return np.array([self.row_of[p] for p in pictures if p in self.row_of], np.intp)

    def update_tagged(self, store: Store, rows: Rows) -> bool:
        """Read again whether files tag the pictures of some rows; return whether that changed."""
        is_asked = np.zeros(len(self.tagged), bool)
        is_asked[rows] = True
        pictures = self.pictures[is_asked[self.rows]].tolist()
        with store.read() as conn:
            select = "SELECT DISTINCT picture FROM labels WHERE file_value AND picture IN"
            tagged_by_files = {row[0] for row in select_in(conn, select, pictures)}
        now = np.zeros(len(self.tagged), bool)
        now[[self.row_of[picture] for picture in tagged_by_files]] = True
        changed = bool((now[rows] != self.tagged[rows]).any())
        self.tagged[rows] = now[rows]
        return changed

    def add_new_pictures(self, store: Store) -> bool:
        """Add the pictures that were scanned since to the candidates; return whether any was."""
        with store.read() as conn:
            recipe = store.recipe(conn)
            count, last = conn.execute(
                "SELECT count(*), max(picture) FROM vectors WHERE recipe = ?", (recipe,)
            ).fetchone()
            if count == len(self.known) and (not count or last in self.known):
                return False
            with_vectors = _pictures_with_vectors(conn, recipe)
            tagged = _tagged_by_files(conn)
        room = max(2 * MAX_CANDIDATES - len(self.pictures), 0)
        new = sorted(with_vectors - self.known)[:room]
        self.known = with_vectors
        if new:
            ids = np.array(new, np.int64)
            start = len(self.tagger.rows.labels)
            self.tagger.extend(training_data.vectors(store, ids)[:, self.columns])
            self.pictures = np.concatenate([self.pictures, ids])
            self.rows = np.concatenate([self.rows, np.arange(start, start + len(new))])
            is_tagged = [picture in tagged for picture in new]
            self.tagged = np.concatenate([self.tagged, is_tagged])
            self.__post_init__()
        return bool(new)


def _pictures_with_vectors(conn: sqlite3.Connection, recipe: bytes) -> set[int]:
    rows = conn.execute("SELECT picture FROM vectors WHERE recipe = ?", (recipe,))
    return {row[0] for row in rows}


def _tagged_by_files(conn: sqlite3.Connection) -> set[int]:
    return {row[0] for row in conn.execute("SELECT DISTINCT picture FROM labels WHERE file_value")}


def load(store: Store, extractor: Extractor, number: int) -> ActiveModel:
    """Load a model of the library, with its candidate pool."""
    annotator, fit_state = model_versions.load(
        store, number, n_jobs=extractor.n_jobs, cache=extractor.cache
    )
    used = {block.name for block in annotator.extractor.feature_groups}
    widths = [(block.width, block.name in used) for block in extractor.feature_groups]
    columns = np.concatenate([np.full(width, is_used) for width, is_used in widths])
    training_pictures = np.array([int(name) for name in annotator.gallery.names], np.int64)
    with store.read() as conn:
        tags = _tags_of_columns(conn, annotator.tags)
    pool = model_versions.load_candidate_pool(store, number)
    return build(store, number, annotator, fit_state, training_pictures, tags, columns, pool)


def _tags_of_columns(conn: sqlite3.Connection, names: list[str]) -> Ids:
    """Return the tag of each column; -1 where the tag was merged with another."""
    tags = [tag_table.find_tag(conn, name) for name in names]
    key_of = dict(conn.execute("SELECT id, key FROM tags"))
    unchanged = {tag for tag, name in zip(tags, names, strict=True) if key_of.get(tag) == key(name)}
    result: list[int] = []
    for tag, name in zip(tags, names, strict=True):
        is_taken = tag in result or (tag in unchanged and key_of[tag] != key(name))
        result.append(-1 if tag is None or is_taken else tag)
    return np.array(result, np.int64)


def near_duplicate_groups(
    store: Store, data: training_data.TrainingData, columns: Bools
) -> dict[int, int]:
    """Return the near-duplicate group of each picture that is in one."""
    pictures = np.concatenate([data.pictures, data.others])
    if not 2 < len(pictures) <= near_duplicates.MAX_IMAGES:
        return {}
    with store.read() as conn:
        order = conn.execute("SELECT picture FROM files GROUP BY picture ORDER BY min(path)")
        requested = set(pictures.tolist())
        pictures = np.array([row[0] for row in order if row[0] in requested], np.int64)
    X = training_data.vectors(store, pictures)[:, columns]
    no_labels: Any = sparse.csr_array((len(X), 1), dtype=np.float32)
    group = near_duplicates.near_duplicate_groups(X, no_labels)
    size = np.bincount(group)
    return {
        int(picture): int(number)
        for picture, number in zip(pictures, group, strict=True)
        if size[number] > 1
    }


def build(
    store: Store,
    number: int,
    annotator: Annotator,
    fit_state: FitState,
    training_pictures: Ids,
    tags: Ids,
    columns: Bools,
    pool: tuple[int, Ids] | None = None,
) -> ActiveModel:
    """Combine a model with its candidates: all other pictures, or the most probable of many.

    ``pool`` is the candidate pool that was stored with the model: the last picture that existed
    then, and the candidates that were selected.
    """
    model_versions.check_recipe(store, number)
    with store.read() as conn:
        with_vectors = _pictures_with_vectors(conn, store.recipe(conn))
        others = np.array(sorted(with_vectors - set(training_pictures.tolist())), np.int64)
        tagged_by_files = _tagged_by_files(conn)
        labeled = {
            row[0] for row in conn.execute("SELECT id FROM pictures WHERE n_tags OR n_decided")
        }
        groups = dict(
            conn.execute("SELECT id, duplicate_group FROM pictures WHERE duplicate_group >= 0")
        )
    if len(others) > MAX_CANDIDATES:
        is_labeled = np.array([picture in labeled for picture in others.tolist()])
        room = max(MAX_CANDIDATES - int(is_labeled.sum()), 0)
        unlabeled = others[~is_labeled]
        if pool is None:
            selected = _most_probable(store, annotator, unlabeled, columns, room)
        else:
            last, candidates = pool
            is_selected = np.isin(unlabeled, candidates) | (unlabeled > last)
            selected = unlabeled[is_selected][: room + MAX_CANDIDATES]
        others = np.sort(np.concatenate([others[is_labeled], selected]))
    X = training_data.vectors(store, others)
    X = X[:, columns] if len(others) else np.empty((0, int(columns.sum())), np.float32)
    tagger = IncrementalTagger(annotator.model, fit_state, X, engine=annotator.active_engine)
    rows = np.concatenate([fit_state.group_of, tagger.n_fit + np.arange(len(others))])
    pictures = np.concatenate([training_pictures, others])
    tagged = np.zeros(len(tagger.rows.labels), bool)
    tagged[rows[[picture in tagged_by_files for picture in pictures.tolist()]]] = True
    return ActiveModel(
        number,
        annotator,
        tagger,
        pictures,
        rows,
        [int(tag) for tag in tags],
        columns,
        tagged,
        groups,
        with_vectors,
    )


def _most_probable(
    store: Store, annotator: Annotator, others: Ids, columns: Bools, count: int
) -> Ids:
    """Return the pictures for which some tag is most probable."""
    best = [np.empty(0)]
    for start in range(0, len(others), BATCH_PICTURES):
        X = training_data.vectors(store, others[start : start + BATCH_PICTURES])[:, columns]
        best.append(annotator.model.probabilities(X, annotator.active_engine).max(axis=1))
    order = np.argsort(-np.concatenate(best), kind="stable")[:count]
    return others[order]
