"""What the library's model suggests, what is like its pictures, and why."""

from __future__ import annotations

from typing import Any

from prototag.service.routes.table import Call, Operation, Param
from prototag.service.schemas import NAME, PICTURE

LIMIT = {"type": "integer", "minimum": 1, "maximum": 1000}


async def suggestions(call: Call) -> Any:
    given = {name: call.query[name] for name in ("tag", "picture", "limit") if name in call.query}
    return {"suggestions": await call.off(call.service.library.suggest, **given)}


OPERATIONS = (
    Operation(
        "GET",
        "/suggestions",
        "suggestions",
        "Tags that pictures may have and nobody has decided on, the likeliest first.",
        suggestions,
        "Suggestions",
        query=(
            Param("tag", NAME, "Of this tag."),
            Param("picture", PICTURE, "For this picture."),
            Param("limit", LIMIT, "How many."),
        ),
    ),
)
