"""The pictures of a library, what is suggested for them, and what people decide."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.responses import Response

from prototag.errors import ConflictError
from prototag.library.queries import MAX_TAGS
from prototag.library.types import BatchChange
from prototag.service.json_schemas import INTEGER_ID, NAME, PICTURE, TEXT
from prototag.service.problem_details import Problem, not_found
from prototag.service.routes.operation import Call, Operation, Param

STATES = ("tagged", "untagged", "waiting", "missing", "complete", "decided")
LIMIT = {"type": "integer", "minimum": 1, "maximum": 1000}
SIDE = {"type": "integer", "minimum": 64, "maximum": 4096}
QUALITY = 85  # of a preview
KEEP = {"Cache-Control": "private, max-age=86400"}  # a number shows the same picture for ever
LIBRARY = Param("library", TEXT, "Tells the pictures of libraries apart in a browser's memory.")
CHOSEN = MAX_TAGS // 2  # tags that pictures have, and as many that they lack
FILTERS = (
    Param("tag", NAME, "Pictures that have this tag; may be repeated.", max_count=CHOSEN),
    Param(
        "without", NAME, "Pictures that do not have this tag; may be repeated.", max_count=CHOSEN
    ),
    Param("state", {"enum": list(STATES)}, "Pictures in this state."),
    Param("folder", TEXT, "Pictures below this folder."),
    Param("text", TEXT, "Pictures whose name or tags hold this."),
)


async def status(call: Call) -> Any:
    return await call.in_thread(call.service.library.status)


def filters(query: dict[str, Any]) -> dict[str, Any]:
    """Which pictures are meant."""
    found = {"tags": query.get("tag", ()), "without": query.get("without", ())}
    return found | {name: query[name] for name in ("state", "folder", "text") if name in query}


async def pictures(call: Call) -> Any:
    query = dict(call.query)
    library = call.service.library
    chosen = filters(query)
    limit = query.get("limit", 100)
    after = query.get("after", 0)
    found = await call.in_thread(library.pictures, **chosen, limit=limit, after=after)
    count = await call.in_thread(library.count, **chosen)
    return {
        "pictures": found,
        "count": count,
        "next": found[-1] if len(found) == limit else None,
    }


async def picture(call: Call) -> Any:
    return await call.in_thread(call.service.library.picture, call.path["picture"])


async def facets(call: Call) -> Any:
    return await call.in_thread(call.service.library.facets)


async def thumbnail(call: Call) -> Any:
    number = call.path["picture"]
    found = await call.in_thread(call.service.library.thumbnail, number)
    if not found:
        raise not_found(f"picture {number} has no thumbnail yet: it has not been read.")
    return Response(found, 200, KEEP, "image/webp")


async def preview(call: Call) -> Any:
    number = call.path["picture"]
    side = call.query.get("side", 1600)
    place = await call.in_thread(call.service.library.existing_file, number)
    if place is None:
        raise not_found(f"the file of picture {number} is gone.")
    data = await call.service.pool.run(shrunk, place, side)
    return Response(data, 200, KEEP, "image/jpeg")


def shrunk(place: Path | bytes, side: int) -> bytes:
    """A JPEG, upright and in sRGB, with no side longer than asked; nothing is enlarged."""
    from prototag.images.decode import open_image

    def fitting(size: tuple[int, int]) -> tuple[int, int]:
        scale = min(1.0, side / max(size))
        return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))

    image = open_image(place, at_least=fitting)
    image.thumbnail((side, side))
    made = io.BytesIO()
    image.convert("RGB").save(made, "JPEG", quality=QUALITY)
    return made.getvalue()


async def decide(call: Call) -> Any:
    given = [(one["picture"], one["tag"], one["verdict"]) for one in call.body["decisions"]]
    by = call.body.get("by", "person")
    made = await call.in_thread(call.service.library.decide, given, by=by)
    call.service.decisions_changed()
    return {"changed": made.changed, "batch": made.number}


async def complete(call: Call) -> Any:
    made = await call.in_thread(
        call.service.library.mark_complete,
        call.body["pictures"],
        call.body.get("complete", True),
        by=call.body.get("by", "person"),
    )
    call.service.decisions_changed()
    return {"changed": made.changed, "batch": made.number}


async def undo(call: Call) -> Any:
    return await _change(call, call.service.library.undo)


async def redo(call: Call) -> Any:
    return await _change(call, call.service.library.redo)


async def _change(call: Call, method: Callable[[int], BatchChange]) -> Any:
    try:
        change = await call.in_thread(method, call.body["batch"])
    except ConflictError as error:
        raise Problem(409, "conflict", str(error)) from None
    call.service.decisions_changed()
    return change


async def history(call: Call) -> Any:
    limit = call.query.get("limit", 50)
    before = call.query.get("before")
    return {"decisions": await call.in_thread(call.service.library.history, limit, before)}


async def curves(call: Call) -> Any:
    found = await call.in_thread(call.service.library.learning_curves, call.query.get("tag"))
    return {"curves": [{"tag": name, "points": points} for name, points in found.items()]}


async def rename(call: Call) -> Any:
    await call.in_thread(call.service.library.rename, call.body["old"], call.body["new"])
    return {}


async def hide(call: Call) -> Any:
    await call.in_thread(call.service.library.hide, call.body["tag"], call.body.get("hidden", True))
    return {}


OPERATIONS = (
    Operation("GET", "/library", "status", "How the library stands.", status, "Status"),
    Operation(
        "GET",
        "/pictures",
        "pictures",
        "Numbers of pictures, a page at a time.",
        pictures,
        "Pictures",
        query=(
            *FILTERS,
            Param("limit", LIMIT, "How many; 100 if not given."),
            Param("after", INTEGER_ID, "Go on behind this picture."),
        ),
    ),
    Operation(
        "GET",
        "/pictures/{picture}",
        "picture",
        "One picture, with all that is known of it.",
        picture,
        "Picture",
    ),
    Operation(
        "GET",
        "/pictures/{picture}/thumbnail",
        "thumbnail",
        "A small copy, at most 256 pixels a side.",
        thumbnail,
        query=(LIBRARY,),
        media="image/webp",
    ),
    Operation(
        "GET",
        "/pictures/{picture}/preview",
        "preview",
        "A copy for the screen, upright, in sRGB.",
        preview,
        query=(Param("side", SIDE, "Pixels of the longer side; 1600 if not given."), LIBRARY),
        media="image/jpeg",
        errors=(422, 429),
    ),
    Operation(
        "GET", "/facets", "facets", "Tags, folders and states with counts.", facets, "Facets"
    ),
    Operation(
        "POST",
        "/decisions",
        "decide",
        "Accept, reject or clear tags of pictures; all together are one step to undo.",
        decide,
        "Changed",
        "DecideRequest",
        status=201,
    ),
    Operation(
        "POST",
        "/complete",
        "complete",
        "Say that pictures have no other tags than theirs.",
        complete,
        "Changed",
        "CompleteRequest",
        status=201,
    ),
    Operation(
        "POST",
        "/undo",
        "undo",
        "Undo a batch of decisions, except those that a later decision overrides; 409 if none is "
        "left to undo.",
        undo,
        "BatchChange",
        "BatchRequest",
        errors=(404, 409),
    ),
    Operation(
        "POST",
        "/redo",
        "redo",
        "Decide again what was undone of a batch, except where somebody has decided since; 409 if "
        "nothing is left to redo.",
        redo,
        "BatchChange",
        "BatchRequest",
        errors=(404, 409),
    ),
    Operation(
        "GET",
        "/history",
        "history",
        "Decisions, the last first.",
        history,
        "Decisions",
        query=(
            Param("limit", LIMIT, "How many; 50 if not given."),
            Param("before", PICTURE, "Decisions before this number."),
        ),
    ),
    Operation(
        "GET",
        "/curves",
        "curves",
        "How well tags were learned at rising numbers of their pictures.",
        curves,
        "Curves",
        query=(Param("tag", NAME, "Of this tag only."),),
    ),
    Operation(
        "POST",
        "/tags/rename",
        "rename",
        "Give a tag another name.",
        rename,
        "Nothing",
        "RenameRequest",
    ),
    Operation(
        "POST",
        "/tags/hide",
        "hide",
        "Never suggest a tag, or again.",
        hide,
        "Nothing",
        "HideRequest",
    ),
)
