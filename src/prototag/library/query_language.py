"""The language of searches: words, tags, "or", "without", quotes and fields.

    dog beach            both words
    dog or cat           one of them; "or" joins its neighbours before other words are added
    dog without people   "without" and "-" exclude: dog -people
    "New York"           these words beside each other, nothing that only looks like them
    camera:leica date:2023-05..2023-08 is:untagged

A query is a list of clauses that must all hold; a clause is a list of terms, of which one must
hold. Any text is a query: what cannot be read as an operator or a field is a word.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from prototag.errors import InputError
from prototag.metadata.generated_names import is_generated_name

MAX_LENGTH = 500  # characters that are read
MAX_TERMS = 40  # each is a condition in SQL
FIELDS = ("tag", "name", "folder", "camera", "lens", "date", "is")
_OPENING = '"“”„«»'
_TOKEN = re.compile(
    rf"\s*(-?)(?:({'|'.join(FIELDS)}):)?(?:[{_OPENING}]([^{_OPENING}]*)[{_OPENING}]?|(\S+))", re.I
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_EARLIEST = "0000"
_LATEST = "9999"


class Term(NamedTuple):
    """A word, a phrase or a field with its value."""

    text: str
    field: str | None = None  # one of FIELDS; None for words
    is_phrase: bool = False  # in quotes
    is_negated: bool = False

    @property
    def is_word(self) -> bool:
        """Whether pictures can look like it: words without digits that are not in quotes."""
        return (
            self.field is None
            and not self.is_phrase
            and not any(map(str.isdigit, self.text))
            and "_" not in self.text
            and not is_generated_name(self.text)
            and _WORD.search(self.text) is not None
        )


Clause = tuple[Term, ...]  # one of these must hold


class Query(NamedTuple):
    """Clauses that must all hold."""

    clauses: tuple[Clause, ...] = ()

    @property
    def word_clauses(self) -> list[Clause]:
        """Clauses of words, which rank pictures by their looks; none is negated."""
        return [one for one in self.clauses if _is_ranking(one)]

    @property
    def conditions(self) -> Query:
        """The clauses that every picture must meet: all but those of words."""
        return Query(tuple(one for one in self.clauses if not _is_ranking(one)))

    @property
    def without_words(self) -> list[str]:
        """Words that are excluded: pictures that look like them come later."""
        return [
            clause[0].text
            for clause in self.clauses
            if len(clause) == 1 and clause[0].is_negated and clause[0].is_word
        ]


def _is_ranking(clause: Clause) -> bool:
    return all(term.is_word and not term.is_negated for term in clause)


class DateRange(NamedTuple):
    """Times of capture as text: from the first, which is included, to before the last."""

    start: str
    end: str


def parse(text: str) -> Query:
    """Parse a query.

    Raises
    ------
    InputError
        The query has too many terms, or a field has an impossible value.
    """
    clauses: list[list[Term]] = []
    joins = False  # the last word was "or"
    excludes = False  # the last word was "without"
    excluding = False  # the last clause belongs to a "without", which "or" continues
    for dash, field, phrase, word in _TOKEN.findall(text[:MAX_LENGTH]):
        lone = word.casefold() if not dash and not field else ""
        if lone in ("or", "|") and clauses and not excludes:
            joins = True
            continue
        if lone == "without":
            excludes = True
            continue
        value = _value(phrase or word, is_phrase=not word)
        if not value:
            continue
        negated = bool(dash) or excludes or (joins and excluding)
        term = Term(value, field.casefold() or None, not word, negated)
        if joins and not excluding:
            clauses[-1].append(term)
        else:
            clauses.append([term])
        excluding = excludes or (joins and excluding)
        joins = excludes = False
    if sum(map(len, clauses)) > MAX_TERMS:
        raise InputError(f"the query has more than {MAX_TERMS} words: give at most {MAX_TERMS}.")
    query = Query(tuple(map(tuple, clauses)))
    _check(query)
    return query


def _value(text: str, *, is_phrase: bool) -> str:
    """Return a term without punctuation; empty for a dash or a field that lack their words."""
    text = " ".join(text.split())
    if is_phrase:
        return text
    text = text.strip(",;()[]{}!?" + _OPENING)
    is_unfinished = not text.strip("-") or text.casefold() in [f"{field}:" for field in FIELDS]
    return "" if is_unfinished else text


def _check(query: Query) -> None:
    for clause in query.clauses:
        for term in clause:
            if term.field == "date":
                date_range(term.text)


def date_range(text: str) -> DateRange:
    """Return the range of a year, a month, a day, or of two of them with ".." between.

    Raises
    ------
    InputError
        The text is not such a range.
    """
    start, separator, end = text.partition("..")
    if not separator:
        end = start
    is_open = separator and (start or end)
    if not (_is_date(start) or (is_open and not start)) or not (
        _is_date(end) or (is_open and not end)
    ):
        raise InputError(
            f"date:{text} is no date: give a year (2023), a month (2023-05), a day (2023-05-17), "
            "or a range such as 2022..2023-05."
        )
    return DateRange(_normalized(start) if start else _EARLIEST, _after(end) if end else _LATEST)


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    month = int(match[2] or 1)
    day = int(match[3] or 1)
    return 1 <= month <= 12 and 1 <= day <= 31


def _normalized(text: str) -> str:
    match = _DATE.fullmatch(text)
    assert match is not None
    return "-".join(part.zfill(2) for part in match.groups() if part)


def _after(text: str) -> str:
    """Return the first text after all times of a period; "~" sorts after digits and signs."""
    return _normalized(text) + "~"
