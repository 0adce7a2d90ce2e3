"""Endpoints of the pictures, tags and decisions of a library."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.responses import Response

from prototag.errors import ConflictError
from prototag.knowledge.general import preferred_language
from prototag.library.filters import MAX_TAGS, STATES
from prototag.library.ingest import THUMBNAIL_PIXELS
from prototag.library.large_thumbnails import SIDES
from prototag.library.query_language import MAX_LENGTH
from prototag.library.types import BatchChange
from prototag.service.json_schemas import INTEGER_ID, NAME, PICTURE, TEXT
from prototag.service.problem_details import Problem, bad_request, not_found
from prototag.service.routes.operation import Call, Operation, Param

LIMIT = {"type": "integer", "minimum": 1, "maximum": 1000}
SIDE = {"type": "integer", "minimum": 64, "maximum": 4096}
THUMBNAIL_SIDE = {"enum": [THUMBNAIL_PIXELS, *SIDES], "type": "integer"}
JPEG_QUALITY = 85  # of previews
MAX_FULL_SIDE = 16_384  # pixels that JPEG decoders of browsers accept
# Formats that browsers show upright and in their colours, by their first bytes.
BROWSER_FORMATS = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"RIFF": "image/webp",
}
CACHE_HEADERS = {"Cache-Control": "private, max-age=86400"}  # a number keeps its picture
LIBRARY = Param(
    "library", TEXT, "Key of the library in the browser's cache; ignored by the service."
)
_AREA = re.compile(r"(-?\d{1,3}(?:\.\d{1,8})?)" + 3 * r",(-?\d{1,3}(?:\.\d{1,8})?)", re.ASCII)
MAX_FILTER_TAGS = MAX_TAGS // 2  # half of the library's limit for each of the two filters
FILTERS = (
    Param("tag", NAME, "Pictures that have this tag; may be repeated.", max_count=MAX_FILTER_TAGS),
    Param(
        "without", NAME, "Pictures without this tag; may be repeated.", max_count=MAX_FILTER_TAGS
    ),
    Param("state", {"enum": list(STATES)}, "Pictures in this state."),
    Param("folder", TEXT, "Pictures below this folder."),
    Param("camera", NAME, "Pictures that were taken with this camera."),
    Param("lens", NAME, "Pictures that were taken with this lens."),
    Param(
        "date",
        {"type": "string", "minLength": 1, "maxLength": 40},
        "Pictures that were taken then: 2023, 2023-05, 2023-05-17, or a range: 2022..2023-05.",
    ),
    Param(
        "area",
        {"type": "string", "maxLength": 60},
        "Pictures that were taken between these degrees: south,west,north,east.",
    ),
)
QUERY = Param(
    "query",
    {"type": "string", "maxLength": MAX_LENGTH},
    'Words in any language, "or", "without" or -, quotes, and the fields tag:, name:, folder:, '
    "camera:, lens:, date: and is:.",
)


async def status(call: Call) -> Any:
    return await call.in_thread(call.service.library.status)


def language_of(call: Call) -> str | None:
    """Return the language that the browser prefers; None if it names none."""
    accepted = call.request.headers.get("accept-language")
    return None if accepted is None else preferred_language(accepted)


def filters(query: dict[str, Any]) -> dict[str, Any]:
    """Return the filters of a query as arguments of the library."""
    filters = {"tags": query.get("tag", ()), "without": query.get("without", ())}
    if "area" in query:
        match = _AREA.fullmatch(query["area"])
        if match is None:
            raise bad_request("area: give four degrees, as in 59,10,60,11: south,west,north,east.")
        filters["area"] = tuple(map(float, match.groups()))
    names = ("state", "folder", "camera", "lens", "date")
    return filters | {name: query[name] for name in names if name in query}


async def pictures(call: Call) -> Any:
    query = dict(call.query)
    library = call.service.library
    chosen = {**filters(query), "query": query.get("query")}
    limit = query.get("limit", 100)
    after = query.get("after", 0)
    numbers = await call.in_thread(library.pictures, **chosen, limit=limit, after=after)
    count = await call.in_thread(library.count, **chosen)
    return {
        "pictures": numbers,
        "count": count,
        "next": numbers[-1] if len(numbers) == limit else None,
    }


async def picture(call: Call) -> Any:
    library = call.service.library
    view = await call.in_thread(library.picture, call.path["picture"])
    has_model = await call.in_thread(lambda: call.service.has_model)
    if view.suggestions or has_model:
        return view
    call.service.words_used()
    language = language_of(call)
    suggestions = await call.in_thread(library.general_suggestions, view.number, language=language)
    return replace(view, suggestions=suggestions)


async def picture_list(call: Call) -> Any:
    pictures = call.body["pictures"]
    return {"rows": await call.in_thread(call.service.library.picture_list, pictures)}


async def facets(call: Call) -> Any:
    chosen = {**filters(call.query), "query": call.query.get("query")}
    return await call.in_thread(call.service.library.facets, **chosen)


async def thumbnail(call: Call) -> Any:
    library = call.service.library
    number = call.path["picture"]
    side = call.query.get("side", THUMBNAIL_PIXELS)
    data = None
    if side > THUMBNAIL_PIXELS:
        data = await call.in_thread(library.kept_thumbnail, number, side)
        if data is None:
            data = await call.service.pool.run(library.make_thumbnail, number, side)
    if data is None:
        data = await call.in_thread(library.thumbnail, number)
    if not data:
        raise not_found(f"picture {number} has no thumbnail yet: it has not been read.")
    return Response(data, 200, CACHE_HEADERS, "image/webp")


async def preview(call: Call) -> Any:
    path = await _existing_file(call)
    side = call.query.get("side", 1600)
    data = await call.service.pool.run(shrink, path, side)
    return Response(data, 200, CACHE_HEADERS, "image/jpeg")


async def full_size(call: Call) -> Any:
    path = await _existing_file(call)
    data, media = await call.service.pool.run(displayable, path)
    return Response(data, 200, CACHE_HEADERS, media)


async def _existing_file(call: Call) -> Path:
    number = call.path["picture"]
    path = await call.in_thread(call.service.library.existing_file, number)
    if path is None:
        raise not_found(f"the file of picture {number} is gone.")
    return path


def displayable(path: Path) -> tuple[bytes, str]:
    """Return the file of a picture with its media type if browsers show it, else a JPEG of it."""
    from prototag.images.decode import read_bytes

    data = read_bytes(path)
    for start, media in BROWSER_FORMATS.items():
        if data.startswith(start) and (media != "image/webp" or data[8:12] == b"WEBP"):
            return data, media
    return shrink(data, MAX_FULL_SIDE), "image/jpeg"


def shrink(path: Path | bytes, side: int) -> bytes:
    """Return a JPEG, upright and in sRGB, whose longer side has at most ``side`` pixels."""
    from prototag.images.crops import fit_within
    from prototag.images.decode import open_image

    image = open_image(path, at_least=lambda size: fit_within(size, side))
    image.thumbnail((side, side))
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=JPEG_QUALITY)
    return buffer.getvalue()


async def decide(call: Call) -> Any:
    pairs = [(one["picture"], one["tag"], one["verdict"]) for one in call.body["decisions"]]
    by = call.body.get("by", "person")
    new = call.body.get("new", False)
    batch = await call.in_thread(call.service.library.decide, pairs, by=by, new=new)
    call.service.decisions_changed()
    return {"changed": batch.changed, "batch": batch.number}


async def complete(call: Call) -> Any:
    batch = await call.in_thread(
        call.service.library.mark_complete,
        call.body["pictures"],
        call.body.get("complete", True),
        by=call.body.get("by", "person"),
    )
    call.service.decisions_changed()
    return {"changed": batch.changed, "batch": batch.number}


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
    by_tag = await call.in_thread(call.service.library.learning_curves, call.query.get("tag"))
    return {"curves": [{"tag": name, "points": points} for name, points in by_tag.items()]}


async def rename(call: Call) -> Any:
    await call.in_thread(call.service.library.rename, call.body["old"], call.body["new"])
    return {}


async def hide(call: Call) -> Any:
    body = call.body
    hidden = body.get("hidden", True)
    library = call.service.library
    await call.in_thread(library.hide, body["tag"], hidden, new=body.get("new", False))
    return {}


OPERATIONS = (
    Operation(
        "GET",
        "/library",
        "status",
        "Return the counts and the current model of the library.",
        status,
        "Status",
    ),
    Operation(
        "GET",
        "/pictures",
        "pictures",
        "List the numbers of matching pictures, a page at a time.",
        pictures,
        "Pictures",
        query=(
            *FILTERS,
            QUERY,
            Param("limit", LIMIT, "Largest number of pictures; 100 if not given."),
            Param("after", INTEGER_ID, "Continue after this picture."),
        ),
    ),
    Operation(
        "GET",
        "/pictures/{picture}",
        "picture",
        "Return one picture with its tags and suggestions; without a model, those of the general "
        "vocabulary.",
        picture,
        "Picture",
    ),
    Operation(
        "GET",
        "/pictures/{picture}/thumbnail",
        "thumbnail",
        "Return a copy with at most 256 pixels a side, or a larger one, which is made once and "
        "kept.",
        thumbnail,
        query=(
            Param("side", THUMBNAIL_SIDE, "Pixels of the longer side; 256 if not given."),
            LIBRARY,
        ),
        media="image/webp",
        errors=(422, 429),
    ),
    Operation(
        "GET",
        "/pictures/{picture}/full-size",
        "fullSize",
        "Return the file of a picture if browsers show its format, else a JPEG of its size.",
        full_size,
        query=(LIBRARY,),
        media="image/jpeg",
        errors=(422, 429),
    ),
    Operation(
        "GET",
        "/pictures/{picture}/preview",
        "preview",
        "Return a copy for the screen, upright and in sRGB.",
        preview,
        query=(Param("side", SIDE, "Pixels of the longer side; 1600 if not given."), LIBRARY),
        media="image/jpeg",
        errors=(422, 429),
    ),
    Operation(
        "POST",
        "/picture-list",
        "pictureList",
        "List the files of pictures with their tags, as rows of a list that training reads.",
        picture_list,
        "PictureList",
        "PictureListRequest",
    ),
    Operation(
        "GET",
        "/facets",
        "facets",
        "Count the matching pictures by tag, folder, state, camera, lens, month and place.",
        facets,
        "Facets",
        query=(*FILTERS, QUERY),
    ),
    Operation(
        "POST",
        "/decisions",
        "decide",
        "Accept, reject or clear tags of pictures, as one batch that can be undone.",
        decide,
        "Changed",
        "DecideRequest",
        status=201,
    ),
    Operation(
        "POST",
        "/complete",
        "complete",
        "Mark pictures as complete: every other tag is absent.",
        complete,
        "Changed",
        "CompleteRequest",
        status=201,
    ),
    Operation(
        "POST",
        "/undo",
        "undo",
        "Undo a batch of decisions, except those that a later decision overrides; 409 if no "
        "decision is left.",
        undo,
        "BatchChange",
        "BatchRequest",
        errors=(404, 409),
    ),
    Operation(
        "POST",
        "/redo",
        "redo",
        "Redo the undone decisions of a batch, except pairs with a later decision; 409 if no "
        "decision is left.",
        redo,
        "BatchChange",
        "BatchRequest",
        errors=(404, 409),
    ),
    Operation(
        "GET",
        "/history",
        "history",
        "List decisions, the latest first.",
        history,
        "Decisions",
        query=(
            Param("limit", LIMIT, "Largest number of decisions; 50 if not given."),
            Param("before", PICTURE, "Decisions before this number."),
        ),
    ),
    Operation(
        "GET",
        "/curves",
        "curves",
        "Return learning curves: precision and recall at each training.",
        curves,
        "Curves",
        query=(Param("tag", NAME, "Only the curve of this tag."),),
    ),
    Operation(
        "POST",
        "/tags/rename",
        "rename",
        "Rename a tag, or merge it with another one.",
        rename,
        "Nothing",
        "RenameRequest",
    ),
    Operation(
        "POST",
        "/tags/hide",
        "hide",
        "Hide a tag, so that it is never suggested, or show it again.",
        hide,
        "Nothing",
        "HideRequest",
    ),
)
