"""OpenAPI document, derived from the table of operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from prototag import __version__
from prototag.service.json_schemas import COMPONENTS, PICTURE, array, ref
from prototag.service.problem_details import MEDIA_TYPE
from prototag.service.routes.operation import Operation

COMMON_ERRORS = (400, 401, 403, 404, 409, 421, 500, 503)  # of every operation
BODY_ERRORS = (408, 413, 415, 429)
_STATUS_DESCRIPTIONS = {
    400: "The request is invalid.",
    401: "The request has no valid token.",
    403: "The request comes from another site, or names a file of the service itself.",
    404: "The resource does not exist.",
    408: "The body arrived too slowly.",
    409: "The operation conflicts with the current state.",
    413: "The body is too large.",
    415: "The media type of the body is not supported.",
    421: "The Host header does not name this service.",
    422: "The picture cannot be read.",
    500: "An internal error occurred.",
    503: "The service is stopping, or has not enough memory.",
    429: "Too many requests: try again after the seconds in Retry-After.",
}


def document(groups: Mapping[str, Iterable[Operation]]) -> dict[str, Any]:
    """Build the document of these operations, by the names of their groups."""
    paths: dict[str, dict[str, Any]] = {}
    for name, operations in groups.items():
        for operation in operations:
            methods = paths.setdefault(operation.full_path, {})
            methods[operation.method.lower()] = {"tags": [name], **_describe_operation(operation)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "prototag",
            "version": __version__,
            "summary": "Automatic tags for pictures, learned from your own tags.",
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "tags": [{"name": name} for name in groups],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _describe_operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            str(operation.status): _describe_response(operation),
            **_describe_errors(operation),
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": PICTURE}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    parameters += [
        {
            "name": param.name,
            "in": "query",
            "required": param.required,
            "description": param.description,
            "schema": array(param.schema, param.max_count) if param.max_count else param.schema,
        }
        for param in operation.query
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.body:
        content: dict[str, Any] = {"application/json": {"schema": ref(operation.body)}}
        if operation.picture:
            file = {"contentMediaType": "application/octet-stream"}
            form = {"type": "object", "properties": {"file": file}, "required": ["file"]}
            content |= {
                "image/*": {},
                "application/octet-stream": {},
                "multipart/form-data": {"schema": form},
            }
        described["requestBody"] = {"required": True, "content": content}
    return described


def _describe_response(operation: Operation) -> dict[str, Any]:
    content = {"schema": ref(operation.response)} if operation.response else {}
    return {"description": operation.summary, "content": {operation.media: content}}


def _describe_errors(operation: Operation) -> dict[str, Any]:
    statuses = {*COMMON_ERRORS, *(BODY_ERRORS if operation.body else ()), *operation.errors}
    content = {MEDIA_TYPE: {"schema": ref("Problem")}}
    return {
        str(status): {"description": _STATUS_DESCRIPTIONS[status], "content": content}
        for status in sorted(statuses)
    }
