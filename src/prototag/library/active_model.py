"""A model in memory, with the pictures of the library that it is asked about."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from prototag.annotator.annotator import Annotator
from prototag.arrays import Bools, Rows
from prototag.features.extractor import Extractor
from prototag.library import model_versions, tag_table, training_data
from prototag.library.database import Ids, Store, selected
from prototag.metadata.tag_names import key
from prototag.tagging.incremental.fit_state import FitState
from prototag.tagging.incremental.update import IncrementalTagger
from prototag.tagging.near_duplicates import MAX_IMAGES, near_duplicate_groups

OTHERS = 20_000  # pictures that teach nothing and are judged anew after each decision


@dataclass
class State:
    """A model in memory, with the pictures at hand."""

    number: int
    annotator: Annotator
    incremental: IncrementalTagger
    pictures: Ids  # that taught it first, then others
    rows: Rows  # of the pictures
    tags: list[int]  # of the columns
    columns: Bools  # of the stored vectors that the model needs
    tagged: Bools  # of the rows, whether a person tagged the picture
    groups: dict[int, int]  # of look-alikes, by picture
    known: set[int]  # pictures with vectors when it was last looked, more than are at hand
    row_of: dict[int, int] = field(init=False)
    seen: dict[int, int] = field(default_factory=dict)  # changes of tags that are learned
    complete: set[int] = field(default_factory=set)  # pictures that were marked so

    def __post_init__(self) -> None:
        self.row_of = dict(zip(self.pictures.tolist(), self.rows.tolist(), strict=True))

    def basis(self, complete: set[int]) -> str:
        """What suggestions rest on beside labels: the model, and the pictures that are asked about.

        Where it is the same, and no label has changed, so are they.
        """
        seen = f"{len(self.known)} {max(self.known, default=0)}"
        return f"{self.number} {seen} {len(complete)} {sum(complete)}"

    def look_at_tagged(self, store: Store, rows: Rows) -> bool:
        """See anew whether files tag the pictures of some rows; whether that has changed."""
        wanted = np.zeros(len(self.tagged), bool)
        wanted[rows] = True
        pictures = self.pictures[wanted[self.rows]].tolist()
        with store.read() as base:
            select = "SELECT DISTINCT picture FROM labels WHERE found AND picture IN"
            own = {row[0] for row in selected(base, select, pictures)}
        now = np.zeros(len(self.tagged), bool)
        now[[self.row_of[picture] for picture in own]] = True
        changed = bool((now[rows] != self.tagged[rows]).any())
        self.tagged[rows] = now[rows]
        return changed

    def take_in(self, store: Store) -> bool:
        """Pictures that were looked at since join those at hand; whether there were any."""
        with store.read() as base:
            recipe = store.recipe(base)
            count, last = base.execute(
                "SELECT count(*), max(picture) FROM vectors WHERE recipe = ?", (recipe,)
            ).fetchone()
            if count == len(self.known) and (not count or last in self.known):
                return False
            every = _described(base, recipe)
            own = _tagged(base)
        new = sorted(every - self.known)[: max(2 * OTHERS - len(self.pictures), 0)]
        self.known = every
        if new:
            ids = np.array(new, np.int64)
            start = len(self.incremental.rows.labels)
            self.incremental.extend(training_data.vectors(store, ids)[:, self.columns])
            self.pictures = np.concatenate([self.pictures, ids])
            self.rows = np.concatenate([self.rows, np.arange(start, start + len(new))])
            self.tagged = np.concatenate([self.tagged, [picture in own for picture in new]])
            self.__post_init__()
        return bool(new)


def _described(base: sqlite3.Connection, recipe: bytes) -> set[int]:
    rows = base.execute("SELECT picture FROM vectors WHERE recipe = ?", (recipe,))
    return {row[0] for row in rows}


def _tagged(base: sqlite3.Connection) -> set[int]:
    return {row[0] for row in base.execute("SELECT DISTINCT picture FROM labels WHERE found")}


def load(store: Store, extractor: Extractor, number: int) -> State:
    annotator, kept = model_versions.load(
        store, number, n_jobs=extractor.n_jobs, cache=extractor.cache
    )
    names = {block.name for block in annotator.extractor.feature_groups}
    blocks = extractor.feature_groups
    columns = np.concatenate([np.full(b.width, b.name in names) for b in blocks])
    taught = np.array([int(name) for name in annotator.gallery.names], np.int64)
    with store.read() as base:
        found = _columns(base, annotator.tags)
    chosen = model_versions.others(store, number)
    return at_hand(store, number, annotator, kept, taught, found, columns, chosen)


def _columns(base: sqlite3.Connection, names: list[str]) -> Ids:
    """Tags of columns. One that was joined with another since is -1, and is never suggested."""
    tags = [tag_table.known(base, name) for name in names]
    spelt = dict(base.execute("SELECT id, key FROM tags"))
    own = {tag for tag, name in zip(tags, names, strict=True) if spelt.get(tag) == key(name)}
    found: list[int] = []
    for tag, name in zip(tags, names, strict=True):
        is_other = tag is None or tag in found or (tag in own and spelt[tag] != key(name))
        found.append(-1 if tag is None or is_other else tag)
    return np.array(found, np.int64)


def look_alikes(store: Store, told: training_data.Teaching, columns: Bools) -> dict[int, int]:
    """Numbers of bursts, of the pictures that are in one."""
    pictures = np.concatenate([told.pictures, told.others])
    if not 2 < len(pictures) <= MAX_IMAGES:
        return {}
    with store.read() as base:
        order = base.execute("SELECT picture FROM places GROUP BY picture ORDER BY min(path)")
        wanted = set(pictures.tolist())
        pictures = np.array([row[0] for row in order if row[0] in wanted], np.int64)
    X = training_data.vectors(store, pictures)[:, columns]
    blank: Any = sparse.csr_array((len(X), 1), dtype=np.float32)
    group = near_duplicate_groups(X, blank)
    size = np.bincount(group)
    return {
        int(picture): int(number)
        for picture, number in zip(pictures, group, strict=True)
        if size[number] > 1
    }


def at_hand(
    store: Store,
    number: int,
    annotator: Annotator,
    kept: FitState,
    taught: Ids,
    tags: Ids,
    columns: Bools,
    chosen: tuple[int, Ids] | None = None,
) -> State:
    """A model with all other pictures, the likeliest to be asked about where they are many.

    ``chosen`` are these as they were chosen before, and the last picture that there was then.
    """
    model_versions.check_recipe(store, number)
    with store.read() as base:
        every = _described(base, store.recipe(base))
        others = np.array(sorted(every - set(taught.tolist())), np.int64)
        own = _tagged(base)
        said = {row[0] for row in base.execute("SELECT id FROM pictures WHERE own OR decided")}
        grouped = base.execute("SELECT id, grouped FROM pictures WHERE grouped >= 0").fetchall()
    if len(others) > OTHERS:
        teach = np.array([picture in said for picture in others.tolist()])
        room = max(OTHERS - int(teach.sum()), 0)
        if chosen is None:
            likeliest = _likeliest(store, annotator, others[~teach], columns, room)
        else:
            rest = others[~teach]
            likeliest = rest[np.isin(rest, chosen[1]) | (rest > chosen[0])][: room + OTHERS]
        others = np.sort(np.concatenate([others[teach], likeliest]))
    X = training_data.vectors(store, others)
    X = X[:, columns] if len(others) else np.empty((0, int(columns.sum())), np.float32)
    incremental = IncrementalTagger(annotator.model, kept, X, engine=annotator.active_engine)
    rows = np.concatenate([kept.group_of, incremental.n_fit + np.arange(len(others))])
    pictures = np.concatenate([taught, others])
    tagged = np.zeros(len(incremental.rows.labels), bool)
    tagged[rows[[picture in own for picture in pictures.tolist()]]] = True
    found = [int(tag) for tag in tags]
    groups = dict(grouped)
    return State(
        number, annotator, incremental, pictures, rows, found, columns, tagged, groups, every
    )


def _likeliest(store: Store, annotator: Annotator, others: Ids, columns: Bools, count: int) -> Ids:
    """The pictures for which some tag is likely, of more than can be held at once."""
    best = [np.empty(0)]
    for start in range(0, len(others), 4096):
        X = training_data.vectors(store, others[start : start + 4096])[:, columns]
        best.append(annotator.model.probabilities(X, annotator.active_engine).max(axis=1))
    order = np.argsort(-np.concatenate(best), kind="stable")[:count]
    return others[order]
