"""Endpoints of searches, which need no labels, and of general words."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from prototag.library.search import MAX_PICTURES, MAX_RANKED, ORDERS
from prototag.service.json_schemas import COUNT, PICTURE
from prototag.service.routes.operation import Call, Operation, Param
from prototag.service.routes.pictures_and_decisions import FILTERS, QUERY, filters, language_of


async def general_words(call: Call) -> Any:
    library = call.service.library
    call.service.words_used()
    words = await call.in_thread(library.general_words, language_of(call))
    return {"available": await call.in_thread(lambda: library.knows_words), "words": words}


async def search(call: Call) -> Any:
    query = dict(call.query)
    call.service.words_used()
    found = await call.in_thread(
        call.service.library.search,
        query.get("query", ""),
        order=query.get("order"),
        like=query.get("like"),
        limit=query.get("limit", 100),
        ranked=query.get("ranked", MAX_RANKED),
        **filters(query),
    )
    body = json.dumps(found._asdict(), separators=(",", ":"))  # may have all pictures
    return Response(body, 200, None, "application/json")


async def saved_searches(call: Call) -> Any:
    searches = await call.in_thread(call.service.library.saved_searches)
    return {"searches": [{"name": name, "address": address} for name, address in searches.items()]}


async def save_search(call: Call) -> Any:
    await call.in_thread(call.service.library.save_search, call.body["name"], call.body["address"])
    return await saved_searches(call)


async def delete_search(call: Call) -> Any:
    await call.in_thread(call.service.library.delete_search, call.body["name"])
    return await saved_searches(call)


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
        "Search pictures by words in any language: matches of tags, paths and EXIF first, then by "
        "how much pictures look like the words.",
        search,
        "SearchResult",
        query=(
            QUERY,
            Param(
                "order",
                {"enum": list(ORDERS)},
                "Order of the pictures; if not given, by likeness if `like` is given, the best "
                "first if there are words, else as they were added.",
            ),
            Param("like", PICTURE, "Compare the pictures with this one."),
            Param(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MAX_PICTURES},
                "Largest number of pictures; 100 if not given.",
            ),
            Param(
                "ranked",
                {**COUNT, "maximum": MAX_PICTURES},
                f"Of these, largest number that only look like the words; {MAX_RANKED:,} if not "
                "given.",
            ),
            *FILTERS,
        ),
    ),
    Operation(
        "GET", "/searches", "savedSearches", "List the saved searches.", saved_searches, "Searches"
    ),
    Operation(
        "POST",
        "/searches",
        "saveSearch",
        "Save a search of the page, or replace that of the same name.",
        save_search,
        "Searches",
        "SavedSearch",
    ),
    Operation(
        "POST",
        "/searches/delete",
        "deleteSearch",
        "Delete a saved search.",
        delete_search,
        "Searches",
        "DeleteSearchRequest",
        errors=(404,),
    ),
)
