"""What is sent to us, within limits of bytes and time: raw pictures, or JSON."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request

from prototag.service.problem_details import Problem, bad

RAW = "application/octet-stream"


class Limits(NamedTuple):
    """What one request, and all together, may send."""

    picture: int = 64 << 20  # bytes of a picture, in a body of its own or as base64
    json: int = 4 << 20  # bytes of any other body
    held: int = 256 << 20  # bytes of all bodies at one time
    seconds: float = 60.0  # that a body may take
    pause: float = 10.0  # seconds between two pieces of it


class Intake:
    """Reads bodies, and knows how much of them is in memory."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.held = 0

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """The bytes of a body, counted while the block lasts."""
        data = bytearray()
        began = time.monotonic()
        announced = _announced(request, most)
        if announced > self.limits.held - self.held:
            raise _full()
        stream = request.stream().__aiter__()
        try:
            while True:
                left = self.limits.seconds - (time.monotonic() - began)
                try:
                    async with asyncio.timeout(max(0.01, min(left, self.limits.pause))):
                        piece = await anext(stream)
                except StopAsyncIteration:
                    break
                except TimeoutError:
                    raise self._slow(len(data)) from None
                if len(data) + len(piece) > most:
                    raise _too_large(most)
                if len(piece) > self.limits.held - self.held:
                    raise _full()
                self.held += len(piece)
                data += piece
            yield bytes(data)
        except ClientDisconnect:
            raise bad("the request ended before its body did.") from None
        finally:
            self.held -= len(data)

    def _slow(self, received: int) -> Problem:
        return Problem(
            408,
            "too-slow",
            f"the body came too slowly ({received:,} bytes so far): it may take "
            f"{self.limits.seconds:g} s, with pauses of {self.limits.pause:g} s.",
            headers={"Connection": "close"},
        )


def _announced(request: Request, most: int) -> int:
    given = request.headers.get("content-length", "0")
    if not given.isascii() or not given.isdigit():
        raise bad(f"Content-Length is {given[:40]!r}: give a number of bytes.")
    if int(given) > most:
        raise _too_large(most)
    return int(given)


def _too_large(most: int) -> Problem:
    return Problem(
        413,
        "too-large",
        f"the body has more than {most:,} bytes, which is the limit: send less at a time.",
        headers={"Connection": "close"},
    )


def _full() -> Problem:
    return Problem(
        429,
        "busy",
        "too many bytes are being received already: ask again in 2 s.",
        headers={"Retry-After": "2", "Connection": "close"},
    )


def media_type(request: Request) -> str:
    """What a body says that it is, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_picture(request: Request) -> bool:
    """Whether the body is the file of a picture."""
    kind = media_type(request)
    return kind.startswith("image/") or kind == RAW


def as_json(request: Request, data: bytes) -> dict[str, Any]:
    """The object in a JSON body."""
    kind = media_type(request)
    if kind != "application/json":
        raise Problem(
            415,
            "wrong-type",
            f"Content-Type is {kind or 'missing'!r}: send application/json or, where a picture is "
            "taken, its file as image/jpeg or application/octet-stream.",
        )
    try:
        found = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise bad("the body is not valid JSON: send one object in UTF-8.") from None
    if not isinstance(found, dict):
        raise bad(f"the body is a JSON {type(found).__name__}: send an object, {{...}}.")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(name)


def data_url(given: Any, most: int) -> bytes:
    """The bytes in ``data:image/...;base64,...``, or in base64 alone."""
    if not isinstance(given, str):
        raise bad("an image is no text: give a data URL, data:image/jpeg;base64,... .")
    head, comma, body = given.partition(",")
    if not comma:
        head = ""
        body = given
    elif not (head.startswith("data:") and head.endswith(";base64")):
        raise bad(
            f"an image begins with {given[:30]!r}: give a data URL, data:image/jpeg;base64,..."
        )
    if len(body) > most // 3 * 4 + 4:
        raise _too_large(most)
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise bad("an image is not valid base64: encode the bytes of its file.") from None
