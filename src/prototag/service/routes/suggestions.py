"""Suggestions of the library's model, similar pictures, and explanations."""

from __future__ import annotations

from typing import Any

from prototag.service.json_schemas import FLAG, MAX_ITEMS, NAME, PICTURE
from prototag.service.routes.operation import Call, Operation, Param
from prototag.service.routes.pictures_and_decisions import language_of

LIMIT = {"type": "integer", "minimum": 1, "maximum": 1000}


async def _check_learned(call: Call) -> None:
    _ = call.service.library
    if not await call.in_thread(lambda: call.service.has_model):
        raise call.service.no_model_problem()


async def suggestions(call: Call) -> Any:
    query = call.query
    library = call.service.library
    options = {
        "uncertain": query.get("uncertain", False),
        "limit": query.get("limit", 40),
        "skip": query.get("skip", ()),
    }
    tag = query.get("tag")
    call.service.words_used()
    if tag is None and not await call.in_thread(lambda: call.service.has_model):
        if not await call.in_thread(lambda: library.knows_words):
            raise call.service.no_model_problem()
        options.pop("uncertain")
        options["language"] = language_of(call)
        return {"suggestions": await call.in_thread(lambda: library.general_suggestions(**options))}
    if tag is None or not await call.in_thread(library.is_cold_start, tag):
        await _check_learned(call)
    return {"suggestions": await call.in_thread(lambda: library.suggest(tag, **options))}


async def similar(call: Call) -> Any:
    await _check_learned(call)
    limit = call.query.get("limit", 20)
    similar = await call.in_thread(call.service.library.similar, call.path["picture"], limit)
    return {
        "similar": [
            {"picture": picture, "similarity": round(similarity, 4)}
            for picture, similarity in similar
        ]
    }


async def explain(call: Call) -> Any:
    await _check_learned(call)
    reasons = await call.in_thread(
        call.service.library.explain, call.path["picture"], call.query["tag"]
    )
    return {"reasons": reasons}


OPERATIONS = (
    Operation(
        "GET",
        "/suggestions",
        "suggestions",
        "Rank undecided pictures for a tag, or pairs of picture and tag for all tags; without a "
        "model, of words of the general vocabulary.",
        suggestions,
        "Suggestions",
        query=(
            Param("tag", NAME, "Tag, which may be new."),
            Param("uncertain", FLAG, "Rank by uncertainty, not by probability."),
            Param("limit", LIMIT, "Largest number of suggestions; 40 if not given."),
            Param("skip", PICTURE, "Picture to skip; may be repeated.", max_count=MAX_ITEMS),
        ),
    ),
    Operation(
        "GET",
        "/pictures/{picture}/similar",
        "similarPictures",
        "List the pictures of the library that are most similar to one of them.",
        similar,
        "SimilarPictures",
        query=(Param("limit", LIMIT, "Largest number of pictures; 20 if not given."),),
    ),
    Operation(
        "GET",
        "/pictures/{picture}/explain",
        "explainPicture",
        "List the pictures of the library that contribute most to the score of a tag.",
        explain,
        "PictureExplanation",
        query=(Param("tag", NAME, "Tag to explain.", required=True),),
    ),
)
