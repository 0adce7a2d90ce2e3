"""SQL conditions of filters and queries on the pictures of a library."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from prototag.errors import InputError
from prototag.library import tag_table
from prototag.library.query_language import Clause, Query, Term, date_range, parse
from prototag.library.text_matching import has_phrase, has_word
from prototag.metadata.find_files import normalized_path
from prototag.metadata.tag_names import SEPARATOR, key

STATES = {
    "tagged": "p.n_tags > 0",
    "untagged": "p.n_tags = 0",
    "suggested": "p.n_suggestions > 0",
    "missing": "p.n_files = 0",
    "complete": "p.complete = 1",
    "decided": "p.n_decided > 0",
}
MAX_TAGS = 100  # in one filter; each is a condition of the query, and SQLite allows 1,000
MAX_NAMES = 100  # of cameras or lenses that one word matches
# Words of English, German, French, Spanish and Italian that carry no meaning in a query such as
# "dog on a beach": pictures need not have them in a tag or a path.
_FUNCTION_WORDS = (
    "a an and at by for from in into is of on onto the to with",
    "am an auf aus bei beim das dem den der des die ein eine einem einen einer im in ins mit und",
    "unter vom von vor zu zum zur über",
    "au aux avec dans de des du en et la le les sous sur un une",
    "al con del el en las los por una y",
    "alla alle con da dei del della di e gli i il lo nel nella su sul sulla un uno",
)
FUNCTION_WORDS = frozenset(word for line in _FUNCTION_WORDS for word in line.split())
_PERIOD = re.compile(r"(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?")


class PictureFilter(TypedDict, total=False):
    """Conditions on pictures, all of which must hold."""

    tags: Sequence[str]  # all of these
    without: Sequence[str]  # none of these
    state: str | None  # one of STATES
    folder: str | os.PathLike[str] | None  # with its subfolders
    camera: str | None  # exactly
    lens: str | None
    date: str | None  # of capture: 2023, 2023-05, 2023-05-17 or a range such as 2022..2023-05
    area: tuple[float, float, float, float] | None  # south, west, north, east


class PictureQuery(PictureFilter, total=False):
    """Conditions on pictures, with a query."""

    query: str | None  # in the language of searches; its words are in tags, paths or EXIF


class Where(NamedTuple):
    """SQL of a filter."""

    column: str  # of the picture's number
    clause: str  # tables with conditions
    values: list[Any]


def where(conn: sqlite3.Connection, choice: PictureQuery, query: Query | None = None) -> Where:
    """Return SQL of a filter; ``query`` are further conditions."""
    tags = choice.get("tags") or ()
    without = choice.get("without") or ()
    state = choice.get("state")
    if len(tags) + len(without) > MAX_TAGS:
        raise InputError(
            f"{len(tags) + len(without)} tags to filter by: give at most {MAX_TAGS} of tags= and "
            "without= together."
        )
    if state is not None and state not in STATES:
        raise InputError(f"state={state!r}: give {', '.join(STATES)}.")
    builder = _Builder(conn, state)
    builder.require_tags(tags)
    builder.exclude_tags(without)
    if (folder := choice.get("folder")) is not None:
        builder.require_folder(folder)
    builder.require_capture(choice)
    for one in (parse(choice.get("query") or ""), query or Query()):
        for clause in one.clauses:
            builder.require(clause)
    return Where(
        builder.column,
        f"{builder.source} WHERE {' AND '.join(builder.conditions)}",
        builder.values,
    )


class _Builder:
    """Conditions that are collected, with their values."""

    def __init__(self, conn: sqlite3.Connection, state: str | None) -> None:
        self.conn = conn
        self.column = "p.id"
        self.source = "pictures p"
        self.conditions = ["1"]
        self.values = list[Any]()
        self.state = state
        self.there = f"present = {int(state != 'missing')}"
        if state is not None:
            self.conditions.append(STATES[state])

    def require_tags(self, tags: Sequence[str]) -> None:
        numbers = [tag_table.resolve_tag(self.conn, tag) for tag in tags]
        # The rarest tag comes first: its index returns pictures in order.
        numbers.sort(key=self._count)
        if not numbers:
            return
        self.column = "l0.picture"
        joined = " CROSS JOIN pictures p ON p.id = l0.picture"
        self.source = "labels l0" + joined * (self.state is not None)
        self.conditions.append("l0.tag = ? AND l0.value = 1")
        self.values.append(numbers[0])
        for number in numbers[1:]:
            self._add(self._has_tags([number]))

    def _count(self, tag: int) -> int:
        row = self.conn.execute("SELECT n_pictures FROM tags WHERE id = ?", (tag,)).fetchone()
        return int(row[0])

    def exclude_tags(self, tags: Sequence[str]) -> None:
        for tag in tags:
            self._add(f"NOT {self._has_tags([tag_table.resolve_tag(self.conn, tag)])}")

    def require_folder(self, folder: str | os.PathLike[str]) -> None:
        inside = os.fsencode(normalized_path(Path(folder))).rstrip(b"/") + os.sep.encode()
        end = inside[:-1] + bytes([inside[-1] + 1])
        self._add(self._files("path > ? AND path < ?"), inside, end)

    def require_capture(self, choice: PictureFilter) -> None:
        """Add the conditions on EXIF."""
        for name in ("camera", "lens"):
            if value := choice.get(name):
                self._add(self._captures(f"{name} = ?"), value)
        if date := choice.get("date"):
            self._add(self._captures("taken_at >= ? AND taken_at < ?"), *date_range(str(date)))
        if area := choice.get("area"):
            south, west, north, east = area
            both = "AND" if west <= east else "OR"  # an area may cross the date line
            self._add(
                self._captures(
                    f"latitude BETWEEN ? AND ? AND (longitude >= ? {both} longitude <= ?)"
                ),
                *(south, north, west, east),
            )

    def require(self, clause: Clause) -> None:
        """Add a clause of a query."""
        parts = []
        for term in clause:
            sql, values = self._term(term)
            parts.append(f"NOT ({sql})" if term.is_negated else sql)
            self.values += values
        self.conditions.append(f"({' OR '.join(parts)})")

    def _term(self, term: Term) -> tuple[str, list[Any]]:
        folded = key(term.text)
        text = term.text.casefold()
        match term.field:
            case None:
                return self._words(term, text, folded)
            case "tag":
                return self._has_tags(self._tags_named(folded)), []
            case "is":
                return self._state(folded), []
            case "name":
                return self._files("has_file_name(search_name, ?)"), [text]
            case "folder":
                return self._files("has_folder(search_name, ?)"), [text]
            case "date":
                return self._captures("taken_at >= ? AND taken_at < ?"), [*date_range(term.text)]
            case field:
                return self._equipment(
                    field, [n for n in self._names(field) if text in n.casefold()]
                )

    def _state(self, name: str) -> str:
        if name not in STATES:
            raise InputError(f"is:{name}: give one of {', '.join(f'is:{one}' for one in STATES)}.")
        return f"{self.column} IN (SELECT p.id FROM pictures p WHERE {STATES[name]})"

    def _words(self, term: Term, text: str, folded: str) -> tuple[str, list[Any]]:
        """Return the condition of words: in a tag, a path, or the name of a camera or lens."""
        matches: Callable[[str, str], bool]
        if term.is_word:
            if text in FUNCTION_WORDS:
                return "1", []
            matches = has_word
            # instr() is much faster than a function of Python, and leaves few rows to it.
            path = self._files("instr(search_name, ?) AND has_path_word(search_name, ?)")
        elif term.is_phrase:
            matches = has_phrase
            path = self._files("instr(search_name, ?) AND has_path_phrase(search_name, ?)")
        else:  # part of a file name, or a tag with digits
            matches = str.__contains__
            path = self._files("instr(search_name, ?)")
        parts = [self._has_tags(self._matching_tags(matches, folded)), path]
        values: list[Any] = [text] * path.count("?")
        for column in ("camera", "lens"):
            names = [name for name in self._names(column) if matches(name.casefold(), text)]
            if names:
                sql, more = self._equipment(column, names)
                parts.append(sql)
                values += more
        if _PERIOD.fullmatch(text):
            parts.append(self._captures("taken_at >= ? AND taken_at < ?"))
            values += date_range(text)
        return f"({' OR '.join(parts)})", values

    def _names(self, column: str) -> list[str]:
        """Return the names of all cameras or lenses."""
        rows = self.conn.execute(
            f"SELECT DISTINCT {column} FROM captures WHERE {column} IS NOT NULL"
        )
        return [name for (name,) in rows]

    def _equipment(self, column: str, names: list[str]) -> tuple[str, list[Any]]:
        """Return the condition that a picture was taken with one of some cameras or lenses."""
        marks = ",".join("?" * len(names[:MAX_NAMES]))
        return self._captures(f"{column} IN ({marks})"), names[:MAX_NAMES]

    def _matching_tags(self, matches: Callable[[str, str], bool], folded: str) -> list[int]:
        rows = self.conn.execute("SELECT id, key FROM tags WHERE n_pictures > 0")
        return [number for number, name in rows if matches(name, folded)]

    def _tags_named(self, folded: str) -> list[int]:
        """Return the tags of this name, those with this last level, and those below it."""
        rows = self.conn.execute("SELECT id, key FROM tags WHERE n_pictures > 0")
        inside = f"{SEPARATOR}{folded}{SEPARATOR}"
        return [number for number, name in rows if inside in f"{SEPARATOR}{name}{SEPARATOR}"]

    def _has_tags(self, numbers: Sequence[int]) -> str:
        """Return the condition that a picture has one of some tags."""
        listed = ",".join(map(str, numbers))
        if len(numbers) == 1:
            return (
                f"EXISTS (SELECT 1 FROM labels l WHERE l.picture = {self.column} "
                f"AND l.tag = {listed} AND l.value = 1)"
            )
        return (
            f"{self.column} IN (SELECT picture FROM labels WHERE value = 1 AND tag IN ({listed}))"
        )

    def _files(self, condition: str) -> str:
        return f"{self.column} IN (SELECT picture FROM files WHERE {self.there} AND {condition})"

    def _captures(self, condition: str) -> str:
        return f"{self.column} IN (SELECT picture FROM captures WHERE {condition})"

    def _add(self, condition: str, *values: Any) -> None:
        self.conditions.append(condition)
        self.values += values
