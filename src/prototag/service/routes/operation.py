"""One operation of the API: what it takes and answers, for the router and for OpenAPI alike."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from prototag.service import request_body
from prototag.service.jobs import plain
from prototag.service.json_schemas import PICTURE, Schema, check, kind_in_words
from prototag.service.problem_details import bad
from prototag.service.state import Service

T = TypeVar("T")
PREFIX = "/api/v1"


class Param(NamedTuple):
    """A value in the query string, given once, or up to ``many`` times."""

    name: str
    schema: Schema
    words: str
    many: int = 0
    needed: bool = False


@dataclass
class Call:
    """One request on its way to its answer."""

    service: Service
    request: Request
    query: dict[str, Any] = field(default_factory=dict)  # checked, by name
    path: dict[str, int] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)  # of JSON, checked
    picture: bytes | None = None  # a body that is a picture

    async def off(self, function: Callable[..., T], *given: Any, **named: Any) -> T:
        """The answer of a function that may wait for the disk, in a thread."""
        return await run_in_threadpool(function, *given, **named)


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True)
class Operation:
    """What can be asked."""

    method: str
    path: str  # below PREFIX; {name} is a whole number
    name: str
    summary: str
    handler: Handler
    answer: str = ""  # name of the schema; none where the media type is not JSON
    body: str = ""  # name of the schema
    query: tuple[Param, ...] = ()
    picture: bool = False  # whether the body may be the file of a picture
    large: bool = False  # whether JSON may hold pictures
    status: int = 200
    media: str = "application/json"
    errors: tuple[int, ...] = ()  # besides those that all have
    prefix: str = PREFIX

    @property
    def full(self) -> str:
        return self.prefix + self.path

    async def __call__(self, service: Service, request: Request) -> Response:
        call = Call(service, request)
        call.path = {name: _number(name, given) for name, given in request.path_params.items()}
        call.query = self._read_query(request)
        if not self.body and not self.picture:
            return await self._respond(call)
        is_picture = self.picture and request_body.is_picture(request)
        async with service.intake.body(request, self._most(service, is_picture)) as data:
            if is_picture:
                call.picture = data
            else:
                call.body = request_body.as_json(request, data)
                check(call.body, {"$ref": self.body})
            return await self._respond(call)

    def _most(self, service: Service, is_picture: bool) -> int:
        """Bytes that a body may have."""
        limits = service.intake.limits
        if is_picture:
            return limits.picture
        return limits.picture // 3 * 4 + limits.json if self.picture or self.large else limits.json

    async def _respond(self, call: Call) -> Response:
        found = await self.handler(call)
        if isinstance(found, Response):
            return found
        text = json.dumps(plain(found), ensure_ascii=False)
        return Response(text.encode("utf-8", "backslashreplace"), self.status, None, self.media)

    def _read_query(self, request: Request) -> dict[str, Any]:
        known = {param.name: param for param in self.query}
        found: dict[str, Any] = {}
        for name in request.query_params:
            if name not in known:
                allowed = ", ".join(known) or "none"
                raise bad(f"the parameter {name[:60]!r} is not known: there are {allowed}.")
            param = known[name]
            given = request.query_params.getlist(name)
            if len(given) > max(param.many, 1):
                most = f"at most {param.many} times" if param.many else "once"
                raise bad(f"{name} was given {len(given)} times: give it {most}.")
            values = [_value(param, text) for text in given]
            found[name] = values if param.many else values[0]
        for param in self.query:
            if param.needed and param.name not in found:
                raise bad(f"the parameter {param.name} is missing: give it.")
        return found


def _value(param: Param, text: str) -> Any:
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
        raise bad(f"{param.name} is {text[:60]!r}: give {kind_in_words(str(kind))}.") from None
    check(value, param.schema, param.name)
    return value


def _number(name: str, given: str) -> int:
    if not given.isascii() or not given.isdigit() or len(given) > 19:
        raise bad(f"the {name} is {given[:60]!r}: give its number.")
    value = int(given)
    check(value, PICTURE, f"the {name}")
    return value
