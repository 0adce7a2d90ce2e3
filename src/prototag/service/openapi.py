"""The OpenAPI document, made of the same table that the router is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from prototag import __version__
from prototag.service.json_schemas import COMPONENTS, PICTURE, array, ref
from prototag.service.problem_details import MEDIA_TYPE
from prototag.service.routes.operation import Operation

ALWAYS = (400, 401, 403, 404, 409, 421, 500, 503)  # that every operation may answer
WITH_BODY = (408, 413, 415, 429)
_WORDS = {
    400: "The request makes no sense.",
    401: "A token is needed.",
    403: "The request comes from another site, or names a file of the library itself.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    409: "It cannot be done in the present state.",
    413: "The body is too large.",
    415: "The body is of another type.",
    421: "The Host header names somebody else.",
    422: "The picture cannot be read.",
    500: "The service made a mistake.",
    503: "The service is stopping, or has too little memory.",
    429: "Too much is being asked: again after Retry-After.",
}


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """What can be asked."""
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.full, {})[one.method.lower()] = _described(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "prototag",
            "version": __version__,
            "summary": "Tags of pictures, learned from one's own.",
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _described(one: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "responses": {str(one.status): _answer(one), **_problems(one)},
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": PICTURE}
        for name in re.findall(r"{(\w+)}", one.path)
    ]
    parameters += [
        {
            "name": param.name,
            "in": "query",
            "required": param.needed,
            "description": param.words,
            "schema": array(param.schema, param.many) if param.many else param.schema,
        }
        for param in one.query
    ]
    if parameters:
        found["parameters"] = parameters
    if one.body:
        content: dict[str, Any] = {"application/json": {"schema": ref(one.body)}}
        if one.picture:
            content |= {"image/*": {}, "application/octet-stream": {}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _answer(one: Operation) -> dict[str, Any]:
    content = {"schema": ref(one.answer)} if one.answer else {}
    return {"description": one.summary, "content": {one.media: content}}


def _problems(one: Operation) -> dict[str, Any]:
    statuses = {*ALWAYS, *(WITH_BODY if one.body else ()), *one.errors}
    content = {MEDIA_TYPE: {"schema": ref("Problem")}}
    return {
        str(status): {"description": _WORDS[status], "content": content}
        for status in sorted(statuses)
    }
