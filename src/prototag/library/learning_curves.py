"""Learning curves: precision and recall of each tag by its number of pictures.

A point is recorded whenever a tag is trained, alone or with all others, from the held-out scores of
that training; no point is estimated afterwards. Points at more pictures than the tag has now, after
labels were undone, are removed.

People review difficult pictures, so performance on all labeled pictures seems to fall while the
model improves. Therefore all points are measured on a fixed test part: the pictures that were
labeled at the first point with ``MIN_TEST_PICTURES`` pictures of the tag.
"""

from __future__ import annotations

import sqlite3
import time
from functools import cached_property

import numpy as np

from prototag.library import tag_table
from prototag.library.database import Store, select_in
from prototag.library.types import CurvePoint

MIN_TEST_PICTURES = 10  # of the tag, in a fixed test part
MAX_POINTS = 24  # of one tag that are returned


class LaterLabels:
    """Pictures that are not in the fixed test part of a tag, because they were labeled later."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._joined: dict[float, set[int]] = {}  # by the time since when, for all tags

    @cached_property
    def _first_decisions(self) -> dict[int, dict[int | None, float]]:
        """The time of the first decision on each picture and tag; tag None is completeness."""
        first: dict[int, dict[int | None, float]] = {}
        for picture, tag, at in self._conn.execute(
            "SELECT picture, tag, min(decided_at) FROM decisions WHERE NOT undone "
            "GROUP BY picture, tag"
        ):
            first.setdefault(picture, {})[tag] = at
        return first

    def pictures(self, tag: int) -> set[int]:
        """Return the pictures that were labeled for a tag after its test part was fixed."""
        (since,) = self._conn.execute(
            "SELECT min(trained_at) FROM learning_curves WHERE tag = ? AND n_pictures >= ?",
            (tag, MIN_TEST_PICTURES),
        ).fetchone()
        if since is None:
            return set()
        if since not in self._joined:
            self._joined[since] = self._joined_since(since)
        decided = {
            picture for picture, at in self._first_decisions.items() if at.get(tag, 0.0) > since
        }
        return self._joined[since] | decided

    def _joined_since(self, since: float) -> set[int]:
        """Return the pictures that were added or labeled for the first time after a time."""
        rows = self._conn.execute("SELECT id FROM pictures WHERE added_at > ?", (since,))
        added = {row[0] for row in rows}
        late = [one for one, at in self._first_decisions.items() if min(at.values()) > since]
        by_files = select_in(
            self._conn, "SELECT DISTINCT picture FROM labels WHERE file_value AND picture IN", late
        )
        return added | (set(late) - {row[0] for row in by_files})


def record_point(
    conn: sqlite3.Connection, tag: int, precision: float | None, recall: float
) -> None:
    """Record the performance of a tag at its current number of pictures.

    A point at the same number of pictures is replaced and keeps its time, from which the fixed test
    part follows.
    """
    conn.execute(
        "INSERT INTO learning_curves SELECT id, n_pictures, ?2, ?3, "
        "(SELECT number FROM models WHERE is_current = 1), ?4 FROM tags "
        "WHERE id = ?1 AND n_pictures > 0 ON CONFLICT DO UPDATE SET "
        "precision = excluded.precision, recall = excluded.recall, model = excluded.model",
        (tag, precision, recall, time.time()),
    )
    conn.execute(
        "DELETE FROM learning_curves WHERE tag = ?1 "
        "AND n_pictures > (SELECT n_pictures FROM tags WHERE id = ?1)",
        (tag,),
    )


def curves(store: Store, tag: str | None) -> dict[str, list[CurvePoint]]:
    """Return the points of all tags, or of one, by rising numbers of pictures."""
    with store.read() as conn:
        number = None if tag is None else tag_table.resolve_tag(conn, tag)
        rows = conn.execute(
            "SELECT t.name, c.n_pictures, c.precision, c.recall, c.model, c.trained_at "
            "FROM learning_curves c JOIN tags t ON t.id = c.tag "
            "WHERE ?1 IS NULL OR c.tag = ?1 ORDER BY t.key, c.n_pictures",
            (number,),
        ).fetchall()
    points_of: dict[str, list[CurvePoint]] = {}
    for name, *row in rows:
        points_of.setdefault(name, []).append(CurvePoint(*row))
    return {name: _thinned(points) for name, points in points_of.items()}


def _thinned(points: list[CurvePoint]) -> list[CurvePoint]:
    """Select at most ``MAX_POINTS`` points, evenly on a logarithmic axis, with first and last."""
    if len(points) <= MAX_POINTS:
        return points
    at = np.log([point.examples for point in points])
    targets = np.linspace(at[0], at[-1], MAX_POINTS)
    return [points[i] for i in np.unique(np.abs(at[:, None] - targets).argmin(axis=0))]
