"""What the library's model suggests, what is like its pictures, and why."""

from __future__ import annotations

from typing import Any

from prototag.service.json_schemas import FLAG, MAX_ITEMS, NAME, PICTURE
from prototag.service.routes.operation import Call, Operation, Param

LIMIT = {"type": "integer", "minimum": 1, "maximum": 1000}


async def _check_learned(call: Call) -> None:
    _ = call.service.library
    if not await call.in_thread(lambda: call.service.has_model):
        raise call.service.no_model_problem()


async def suggestions(call: Call) -> Any:
    query = call.query
    library = call.service.library
    asked = {
        "uncertain": query.get("uncertain", False),
        "limit": query.get("limit", 40),
        "skip": query.get("skip", ()),
    }
    tag = query.get("tag")
    if tag is None or not await call.in_thread(library.is_cold_start, tag):
        await _check_learned(call)
    return {"suggestions": await call.in_thread(lambda: library.suggest(tag, **asked))}


async def similar(call: Call) -> Any:
    await _check_learned(call)
    limit = call.query.get("limit", 20)
    found = await call.in_thread(call.service.library.similar, call.path["picture"], limit)
    return {"similar": [{"picture": one, "likeness": round(near, 4)} for one, near in found]}


async def explain(call: Call) -> Any:
    await _check_learned(call)
    found = await call.in_thread(
        call.service.library.explain, call.path["picture"], call.query["tag"]
    )
    return {"reasons": found}


OPERATIONS = (
    Operation(
        "GET",
        "/suggestions",
        "suggestions",
        "What to ask a person next: pictures for a tag, or pairs of picture and tag.",
        suggestions,
        "Suggestions",
        query=(
            Param("tag", NAME, "For this tag, which may be new."),
            Param("uncertain", FLAG, "Those that teach most, not the likeliest."),
            Param("limit", LIMIT, "How many; 40 if not given."),
            Param("skip", PICTURE, "A picture to leave out; may be repeated.", max_count=MAX_ITEMS),
        ),
    ),
    Operation(
        "GET",
        "/pictures/{picture}/similar",
        "similarPictures",
        "The pictures of the library most like one of them.",
        similar,
        "Alike",
        query=(Param("limit", LIMIT, "How many; 20 if not given."),),
    ),
    Operation(
        "GET",
        "/pictures/{picture}/explain",
        "explainPicture",
        "The pictures of the library that speak most for a tag of one of them.",
        explain,
        "Reasons",
        query=(Param("tag", NAME, "The tag.", required=True),),
    ),
)
