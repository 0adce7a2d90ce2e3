"""A model in memory, with the pictures of the library that it is asked about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from prototag.annotator.annotator import Annotator
from prototag.arrays import Bools, Rows
from prototag.features.extractor import Extractor
from prototag.library import models, teaching, words
from prototag.library.store import Ids, Store
from prototag.tagging.examples import MOST, bursts
from prototag.tagging.kept import Kept
from prototag.tagging.onward import Onward

OTHERS = 20_000  # pictures that teach nothing and are judged anew after each decision


@dataclass
class State:
    """A model in memory, with the pictures at hand."""

    number: int
    annotator: Annotator
    onward: Onward
    pictures: Ids  # that taught it first, then others
    rows: Rows  # of the pictures
    tags: list[int]  # of the columns
    columns: Bools  # of the stored vectors that the model needs
    tagged: Bools  # of the rows, whether a person tagged the picture
    groups: dict[int, int]  # of look-alikes, by picture
    row_of: dict[int, int] = field(init=False)
    seen: dict[int, int] = field(default_factory=dict)  # changes of tags that are learned

    def __post_init__(self) -> None:
        self.row_of = dict(zip(self.pictures.tolist(), self.rows.tolist(), strict=True))


def load(store: Store, extractor: Extractor, number: int) -> State:
    annotator, kept = models.load(store, number, n_jobs=extractor.n_jobs, cache=extractor.cache)
    names = {block.name for block in annotator.extractor.blocks}
    blocks = extractor.blocks
    columns = np.concatenate([np.full(b.width, b.name in names) for b in blocks])
    taught = np.array([int(name) for name in annotator.gallery.names], np.int64)
    with store.read() as base:
        tags = [words.known(base, name) for name in annotator.tags]
        # One that was joined with another since has no labels, and is suggested for nothing.
        found = np.array([-1 if tag is None else tag for tag in tags], np.int64)
    return at_hand(store, number, annotator, kept, taught, found, columns)


def look_alikes(store: Store, told: teaching.Teaching, columns: Bools) -> dict[int, int]:
    """Numbers of bursts, of the pictures that are in one."""
    pictures = np.concatenate([told.pictures, told.others])
    if not 2 < len(pictures) <= MOST:
        return {}
    with store.read() as base:
        order = base.execute("SELECT picture FROM places GROUP BY picture ORDER BY min(path)")
        wanted = set(pictures.tolist())
        pictures = np.array([row[0] for row in order if row[0] in wanted], np.int64)
    X = teaching.vectors(store, pictures)[:, columns]
    blank: Any = sparse.csr_array((len(X), 1), dtype=np.float32)
    group = bursts(X, blank)
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
    kept: Kept,
    taught: Ids,
    tags: Ids,
    columns: Bools,
) -> State:
    """A model with all other pictures, the likeliest to be asked about where they are many."""
    with store.read() as base:
        known = set(taught.tolist())
        every = base.execute("SELECT picture FROM vectors ORDER BY picture").fetchall()
        others = np.array([row[0] for row in every if row[0] not in known], np.int64)
        own = {row[0] for row in base.execute("SELECT DISTINCT picture FROM labels WHERE found")}
        grouped = base.execute("SELECT id, grouped FROM pictures WHERE grouped >= 0").fetchall()
    if len(others) > OTHERS:
        others = _likeliest(store, annotator, others, columns)
    X = teaching.vectors(store, others)
    X = X[:, columns] if len(others) else np.empty((0, int(columns.sum())), np.float32)
    onward = Onward(annotator.model, kept, X, engine=annotator._engine)
    rows = np.concatenate([kept.of, onward.taught + np.arange(len(others))])
    pictures = np.concatenate([taught, others])
    tagged = np.zeros(len(onward.said), bool)
    tagged[rows[[picture in own for picture in pictures.tolist()]]] = True
    found = [int(tag) for tag in tags]
    return State(number, annotator, onward, pictures, rows, found, columns, tagged, dict(grouped))


def _likeliest(store: Store, annotator: Annotator, others: Ids, columns: Bools) -> Ids:
    """The pictures for which some tag is likely, of more than can be held at once."""
    best = []
    for start in range(0, len(others), 4096):
        X = teaching.vectors(store, others[start : start + 4096])[:, columns]
        best.append(annotator.model.probabilities(X, annotator._engine).max(axis=1))
    order = np.argsort(-np.concatenate(best), kind="stable")[:OTHERS]
    return np.sort(others[order])
