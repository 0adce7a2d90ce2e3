"""Values that pictures can be filtered by, with the numbers of pictures within a filter."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

from prototag.library.database import Store
from prototag.library.filters import STATES, PictureQuery, where
from prototag.library.query_language import parse

CELL_DEGREES = 0.5  # side of the cells in which positions are counted
MAX_CELLS = 2_000  # that are returned, those with the most pictures


class Cell(NamedTuple):
    """Pictures that were taken near a point."""

    latitude: float  # of the middle of the cell
    longitude: float
    pictures: int


class Facets(NamedTuple):
    """Values that pictures can be filtered by, with their numbers of pictures."""

    pictures: int  # within the filter
    tags: dict[str, int]  # the most frequent first
    folders: dict[Path, int]  # without subfolders
    states: dict[str, int]
    cameras: dict[str, int]  # the most frequent first
    lenses: dict[str, int]
    months: dict[str, int]  # of capture, such as 2023-05, in order
    undated: int  # pictures without a time of capture
    places: list[Cell]


def facets(store: Store, choice: PictureQuery) -> Facets:
    """Count the pictures within a filter by tag, folder, state, camera, lens, month and place.

    If no picture has the words of the query, those within its other conditions are counted: they
    are ranked by how much they look like the words.
    """
    with store.read() as conn:
        counter = _Counter(conn, choice)
        return Facets(
            counter.count,
            counter.tags(),
            counter.folders(),
            counter.states(),
            counter.names("camera"),
            counter.names("lens"),
            counter.months(),
            counter.undated(),
            counter.places(),
        )


class _Counter:
    """Counts within one filter."""

    def __init__(self, conn: sqlite3.Connection, choice: PictureQuery) -> None:
        self.conn = conn
        self.is_all = not any(choice.values())
        numbers: list[int] = []
        if not self.is_all:
            numbers = self._numbers(choice)
            query = parse(choice.get("query") or "")
            if not numbers and query.word_clauses:
                rest: PictureQuery = {**choice, "query": None}
                numbers = [row[0] for row in self._select(rest, query.conditions)]
            self.count = len(numbers)
        else:
            (self.count,) = conn.execute("SELECT count(*) FROM pictures").fetchone()
        self.numbers = json.dumps(numbers)

    def _numbers(self, choice: PictureQuery) -> list[int]:
        return [row[0] for row in self._select(choice)]

    def _select(self, choice: PictureQuery, *query: Any) -> Any:
        column, clause, values = where(self.conn, choice, *query)
        return self.conn.execute(f"SELECT {column} FROM {clause}", values)

    def _rows(self, select: str, table: str, condition: str, group: str) -> list[Any]:
        """Return the rows of a query over all pictures, or over those within the filter."""
        if self.is_all:
            return self.conn.execute(
                f"SELECT {select} FROM {table} WHERE {condition} {group}"
            ).fetchall()
        number = "t.id" if table.startswith("pictures") else "t.picture"
        return self.conn.execute(
            f"SELECT {select} FROM json_each(?) j CROSS JOIN {table} ON {number} = j.value "
            f"WHERE {condition} {group}",
            (self.numbers,),
        ).fetchall()

    def tags(self) -> dict[str, int]:
        if self.is_all:
            rows = self.conn.execute(
                "SELECT name, n_pictures FROM tags WHERE n_pictures > 0 "
                "ORDER BY n_pictures DESC, key"
            )
            return dict(rows.fetchall())
        counts = dict(self._rows("t.tag, count(*)", "labels t", "t.value = 1", "GROUP BY t.tag"))
        names = self.conn.execute("SELECT id, name FROM tags WHERE n_pictures > 0 ORDER BY key")
        found = [(name, counts[number]) for number, name in names if number in counts]
        return dict(sorted(found, key=lambda pair: -pair[1]))

    def folders(self) -> dict[Path, int]:
        rows = self._rows(
            "t.folder, count(*)", "files t", "t.present = 1", "GROUP BY t.folder ORDER BY t.folder"
        )
        return {Path(os.fsdecode(path)): size for path, size in rows}

    def states(self) -> dict[str, int]:
        sums = ", ".join(f"coalesce(sum({one}), 0)" for one in STATES.values())
        (row,) = self._rows(sums.replace("p.", "t."), "pictures t", "1", "")
        return dict(zip(STATES, row, strict=True))

    def names(self, column: str) -> dict[str, int]:
        rows = self._rows(
            f"t.{column}, count(*)",
            "captures t",
            f"t.{column} IS NOT NULL",
            f"GROUP BY t.{column} ORDER BY count(*) DESC, t.{column}",
        )
        return dict(rows)

    def months(self) -> dict[str, int]:
        month = "substr(t.taken_at, 1, 7)"
        return dict(
            self._rows(
                f"{month}, count(*)",
                "captures t",
                "t.taken_at IS NOT NULL",
                f"GROUP BY {month} ORDER BY {month}",
            )
        )

    def undated(self) -> int:
        ((dated,),) = self._rows("count(*)", "captures t", "t.taken_at IS NOT NULL", "")
        return int(self.count - dated)

    def places(self) -> list[Cell]:
        cell = [f"floor(t.{name} / {CELL_DEGREES})" for name in ("latitude", "longitude")]
        rows = self._rows(
            f"{cell[0]}, {cell[1]}, count(*)",
            "captures t",
            "t.latitude IS NOT NULL",
            f"GROUP BY 1, 2 ORDER BY 3 DESC LIMIT {MAX_CELLS}",
        )
        half = CELL_DEGREES / 2
        return [
            Cell(south * CELL_DEGREES + half, west * CELL_DEGREES + half, size)
            for south, west, size in rows
        ]
