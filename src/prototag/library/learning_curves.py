"""Learning curves: precision and recall of each tag by its number of pictures.

A point is recorded whenever a tag is trained, alone or with all others, from the held-out scores of
that training; no point is estimated afterwards. Points at more pictures than the tag has now, after
labels were undone, are removed.
"""

from __future__ import annotations

import sqlite3
import time

import numpy as np

from prototag.library import tag_table
from prototag.library.database import Store
from prototag.library.types import CurvePoint

MAX_POINTS = 24  # of one tag that are returned


def record_point(
    conn: sqlite3.Connection, tag: int, precision: float | None, recall: float
) -> None:
    """Record the performance of a tag at its current number of pictures."""
    conn.execute(
        "INSERT OR REPLACE INTO learning_curves SELECT id, n_pictures, ?2, ?3, "
        "(SELECT number FROM models WHERE is_current = 1), ?4 FROM tags "
        "WHERE id = ?1 AND n_pictures > 0",
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
