"""Operations of the API: one table for the router, the validation and the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from prototag.service import request_body
from prototag.service.jobs import to_json
from prototag.service.json_schemas import PICTURE, Schema, check, type_phrase
from prototag.service.problem_details import bad_request
from prototag.service.state import Service

T = TypeVar("T")
PREFIX = "/api/v1"


class Param(NamedTuple):
    """Query parameter, given once, or up to ``max_count`` times if that is not 0."""

    name: str
    schema: Schema
    description: str
    max_count: int = 0
    required: bool = False


@dataclass
class Call:
    """One validated request."""

    service: Service
    request: Request
    query: dict[str, Any] = field(default_factory=dict)  # by parameter
    path: dict[str, int] = field(default_factory=dict)  # by path parameter
    body: dict[str, Any] = field(default_factory=dict)  # JSON object
    picture: bytes | None = None  # picture file

    async def in_thread(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a function that may block, such as on the disk, in a thread."""
        return await run_in_threadpool(function, *args, **kwargs)


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True)
class Operation:
    """One operation of the API."""

    method: str
    path: str  # below the prefix; {name} is an integer
    name: str  # operationId
    summary: str
    handler: Handler
    response: str = ""  # name of the schema; empty if the media type is not JSON
    body: str = ""  # name of the schema
    query: tuple[Param, ...] = ()
    picture: bool = False  # whether the body may be a picture file
    large: bool = False  # whether the JSON may contain pictures
    status: int = 200
    media: str = "application/json"
    errors: tuple[int, ...] = ()  # in addition to COMMON_ERRORS and BODY_ERRORS
    prefix: str = PREFIX

    @property
    def full_path(self) -> str:
        """Path with its prefix."""
        return self.prefix + self.path

    async def __call__(self, service: Service, request: Request) -> Response:
        call = Call(service, request)
        call.path = {
            name: _picture_number(name, given) for name, given in request.path_params.items()
        }
        call.query = self._read_query(request)
        if not self.body and not self.picture:
            return await self._respond(call)
        is_picture = self.picture and request_body.is_picture(request)
        is_form = self.picture and request_body.is_form(request)
        max_bytes = self._max_body_bytes(service, is_picture, is_form)
        async with service.body_reader.body(request, max_bytes) as data:
            if is_picture:
                call.picture = data
            elif is_form:
                max_picture = service.body_reader.limits.picture
                call.picture = request_body.file_of_form(request, data, max_picture)
            else:
                call.body = request_body.parse_json(request, data)
                check(call.body, {"$ref": self.body})
            return await self._respond(call)

    def _max_body_bytes(self, service: Service, is_picture: bool, is_form: bool) -> int:
        """Return the size limit of a body."""
        limits = service.body_reader.limits
        if is_form:
            return limits.picture + request_body.MAX_FORM_OVERHEAD
        if is_picture:
            return limits.picture
        return limits.picture // 3 * 4 + limits.json if self.picture or self.large else limits.json

    async def _respond(self, call: Call) -> Response:
        result = await self.handler(call)
        if isinstance(result, Response):
            return result
        text = json.dumps(to_json(result), ensure_ascii=False)
        return Response(text.encode("utf-8", "backslashreplace"), self.status, None, self.media)

    def _read_query(self, request: Request) -> dict[str, Any]:
        known = {param.name: param for param in self.query}
        query: dict[str, Any] = {}
        for name in request.query_params:
            if name not in known:
                allowed = ", ".join(known) or "none"
                raise bad_request(f"the parameter {name[:60]!r} is unknown: allowed are {allowed}.")
            param = known[name]
            given = request.query_params.getlist(name)
            if len(given) > max(param.max_count, 1):
                most = f"at most {param.max_count} times" if param.max_count else "once"
                raise bad_request(f"{name} was given {len(given)} times: give it {most}.")
            values = [_value(param, text) for text in given]
            query[name] = values if param.max_count else values[0]
        for param in self.query:
            if param.required and param.name not in query:
                raise bad_request(f"the parameter {param.name} is missing: give it.")
        return query


def _value(param: Param, text: str) -> Any:
    """Convert a query parameter to the type of its schema."""
    kind = param.schema.get("type")
    value: Any = text
    try:
        if kind == "integer":
            value = int(text[:30])
        elif kind == "number":
            value = float(text[:30])
        elif kind == "boolean":
            value = {"true": True, "false": False}[text]
    except (ValueError, KeyError):
        raise bad_request(
            f"{param.name} is {text[:60]!r}: give {type_phrase(str(kind))}."
        ) from None
    check(value, param.schema, param.name)
    return value


def _picture_number(name: str, given: str) -> int:
    if not given.isascii() or not given.isdigit() or len(given) > 19:
        raise bad_request(f"the {name} is {given[:60]!r}: give its number.")
    value = int(given)
    check(value, PICTURE, f"the {name}")
    return value
