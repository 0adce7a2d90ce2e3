"""How well each tag was learned at each number of its pictures, as it was told at the time.

A point is written whenever a tag is learned, with all others or on its own, and is what left-out
pictures showed then. Nothing is estimated afterwards: of a number of pictures at which nobody
learned there is no point. One at more pictures than there are now was taken back, and goes.
"""

from __future__ import annotations

import sqlite3
import time

import numpy as np

from prototag.library import tag_table
from prototag.library.database import Store
from prototag.library.types import CurvePoint

MOST = 24  # points of one tag that are told


def note(base: sqlite3.Connection, tag: int, precision: float | None, recall: float) -> None:
    """A tag was learned from the pictures that have it now."""
    base.execute(
        "INSERT OR REPLACE INTO curves "
        "SELECT id, own, ?2, ?3, (SELECT number FROM models WHERE current = 1), ?4 FROM tags "
        "WHERE id = ?1 AND own > 0",
        (tag, precision, recall, time.time()),
    )
    base.execute(
        "DELETE FROM curves WHERE tag = ?1 AND examples > (SELECT own FROM tags WHERE id = ?1)",
        (tag,),
    )


def curves(store: Store, tag: str | None) -> dict[str, list[CurvePoint]]:
    """The points of all tags, or of one, by rising numbers of pictures."""
    with store.read() as base:
        one = None if tag is None else tag_table.meant(base, tag)
        rows = base.execute(
            "SELECT t.name, c.examples, c.precision, c.recall, c.model, c.at FROM curves c "
            "JOIN tags t ON t.id = c.tag WHERE ?1 IS NULL OR c.tag = ?1 ORDER BY t.key, c.examples",
            (one,),
        ).fetchall()
    found: dict[str, list[CurvePoint]] = {}
    for name, *row in rows:
        found.setdefault(name, []).append(CurvePoint(*row))
    return {name: _fewer(points) for name, points in found.items()}


def _fewer(points: list[CurvePoint]) -> list[CurvePoint]:
    """Few enough to draw, as far apart as can be where numbers double; first and last stay."""
    if len(points) <= MOST:
        return points
    at = np.log([point.examples for point in points])
    wanted = np.linspace(at[0], at[-1], MOST)
    return [points[i] for i in np.unique(np.abs(at[:, None] - wanted).argmin(axis=0))]
