"""Endpoints that need no labels: general words, and search by words."""

from __future__ import annotations

from typing import Any

from prototag.service.routes.operation import Call, Operation, Param
from prototag.service.routes.pictures_and_decisions import FILTERS, LIMIT, filters, language_of

MAX_QUERY_LENGTH = 200
QUERY = {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_LENGTH}


async def general_words(call: Call) -> Any:
    library = call.service.library
    call.service.words_used()
    words = await call.in_thread(library.general_words, language_of(call))
    return {"available": await call.in_thread(lambda: library.knows_words), "words": words}


async def search(call: Call) -> Any:
    query = dict(call.query)
    call.service.words_used()
    limit = query.get("limit", 100)
    return await call.in_thread(
        call.service.library.search, query["query"], limit=limit, **filters(query)
    )


OPERATIONS = (
    Operation(
        "GET",
        "/general-words",
        "generalWords",
        "List the words of the general vocabulary that are suggested for undecided pictures, in "
        "the library's language or that of Accept-Language.",
        general_words,
        "GeneralWords",
    ),
    Operation(
        "GET",
        "/search",
        "search",
        "Search pictures by words in any language: matches of tags and paths first, then by how "
        "much pictures look like the words.",
        search,
        "SearchResult",
        query=(
            Param("query", QUERY, "One or more words.", required=True),
            Param("limit", LIMIT, "Largest number of pictures; 100 if not given."),
            *(one for one in FILTERS if one.name != "text"),
        ),
    ),
)
