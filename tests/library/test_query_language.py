"""Queries are read as people mean them, and any text is a query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototag.errors import InputError
from prototag.library.query_language import Query, Term, date_range, parse


def read(text):
    """Clauses as text: "|" joins alternatives, "-" excludes, quotes and fields as typed."""
    shown = []
    for clause in parse(text).clauses:
        terms = []
        for term in clause:
            value = f'"{term.text}"' if term.is_phrase else term.text
            field = f"{term.field}:" if term.field else ""
            terms.append(f"{'-' * term.is_negated}{field}{value}")
        shown.append("|".join(terms))
    return shown


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("", []),
        ("   ", []),
        ("dog", ["dog"]),
        ("dog beach", ["dog", "beach"]),
        ("dog or cat", ["dog|cat"]),
        ("dog OR cat or horse beach", ["dog|cat|horse", "beach"]),
        ("dog | cat", ["dog|cat"]),
        ("dog without people", ["dog", "-people"]),
        ("dog -people", ["dog", "-people"]),
        ("dog without people or cars", ["dog", "-people", "-cars"]),
        ("without people dog", ["-people", "dog"]),
        ("dog or -cat", ["dog|-cat"]),
        ("black-and-white t-shirt", ["black-and-white", "t-shirt"]),
        ('"New York" harbour', ['"New York"', "harbour"]),
        ("„New York“ harbour", ['"New York"', "harbour"]),
        ('-"New York"', ['-"New York"']),
        ('"New   York', ['"New York"']),
        ('tag:"animal|cat" CAMERA:leica', ['tag:"animal|cat"', "camera:leica"]),
        ("-tag:dog is:untagged date:2023-05", ["-tag:dog", "is:untagged", "date:2023-05"]),
        ("12:30 http://x", ["12:30", "http://x"]),
        ("or", ["or"]),
        ("or dog", ["or", "dog"]),
        ("dog or", ["dog"]),
        ("dog without", ["dog"]),
        ("dog, cat; (horse)!", ["dog", "cat", "horse"]),
        ('- -- "" tag:', []),
        ("Hund am Strand", ["Hund", "am", "Strand"]),
        ("海辺の犬", ["海辺の犬"]),
    ],
)
def test_queries(text, clauses):
    assert read(text) == clauses


@given(st.text(alphabet='ab"-:|,. \n\0“éor tag without', max_size=60))
def test_any_text_is_a_query(text):
    query = parse(text)
    assert isinstance(query, Query)
    assert all(term.text for clause in query.clauses for term in clause)
    assert all(clause for clause in query.clauses)


def test_words_rank_and_everything_else_is_a_condition():
    query = parse('dog beach or sea "New York" -people IMG_2041 2023 camera:leica')
    assert [[term.text for term in one] for one in query.word_clauses] == [
        ["dog"],
        ["beach", "sea"],
    ]
    assert query.conditions == parse('"New York" -people IMG_2041 2023 camera:leica')
    assert query.without_words == ["people"]
    for text in ("IMG_2041", "b52", "42", '"dog"', "tag:dog"):
        assert not parse(text).word_clauses


def test_terms_are_limited():
    with pytest.raises(InputError, match="at most 40"):
        parse("a " * 41)
    assert len(parse("word" * 1000).clauses) == 1


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("2023", ["2023-01-01T00:00:00", "2023-12-31T23:59:59"], ["2022-12-31T23:59:59"]),
        ("2023-5", ["2023-05-01T00:00:00", "2023-05-31T23:59:59"], ["2023-06-01T00:00:00"]),
        ("2023-05-07", ["2023-05-07T12:00:00"], ["2023-05-08T00:00:00", "2023-05-06T23:59:59"]),
        ("2022..2023-05", ["2022-01-01T00:00:00", "2023-05-31T10:00:00"], ["2023-06-01T00:00:00"]),
        ("2022..", ["2022-01-01T00:00:00", "2099-01-01T00:00:00"], ["2021-12-31T23:59:59"]),
        ("..2022", ["1900-01-01T00:00:00", "2022-12-31T23:59:59"], ["2023-01-01T00:00:00"]),
    ],
)  # fmt: skip
def test_date_ranges_compare_as_text(text, inside, outside):
    start, end = date_range(text)
    assert all(start <= time < end for time in inside)
    assert not any(start <= time < end for time in outside)


@pytest.mark.parametrize(
    "text", ["", "..", "may", "2023-13", "2023-00", "2023-01-32", "23", "2023..x"]
)
def test_impossible_dates_are_refused(text):
    with pytest.raises(InputError, match="give a year"):
        date_range(text)
    if text and text != "..":
        with pytest.raises(InputError, match="give a year"):
            parse(f"dog date:{text}")


def test_a_phrase_is_no_field():
    assert parse('"tag:dog"').clauses == ((Term("tag:dog", None, True),),)
