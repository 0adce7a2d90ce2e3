"""Read request bodies, pictures or JSON, with limits of size and time."""

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

from prototag.service.problem_details import Problem, bad_request

OCTET_STREAM = "application/octet-stream"


class Limits(NamedTuple):
    """Limits of request bodies."""

    picture: int = 64 << 20  # bytes of a picture, as a body or decoded from base64
    json: int = 4 << 20  # bytes of any other body
    held: int = 256 << 20  # bytes of all bodies in memory
    seconds: float = 60.0  # for a whole body
    pause: float = 10.0  # seconds between two chunks


class BodyReader:
    """Reader of request bodies that limits their total size in memory."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.held = 0

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """Read a body; its bytes count as held until the context ends."""
        data = bytearray()
        began = time.monotonic()
        content_length = _content_length(request, most)
        if content_length > self.limits.held - self.held:
            raise _too_many_bytes()
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
                    raise self._too_slow(len(data)) from None
                if len(data) + len(piece) > most:
                    raise _too_large(most)
                if len(piece) > self.limits.held - self.held:
                    raise _too_many_bytes()
                self.held += len(piece)
                data += piece
            yield bytes(data)
        except ClientDisconnect:
            raise bad_request("the request ended before its body did.") from None
        finally:
            self.held -= len(data)

    def _too_slow(self, received: int) -> Problem:
        return Problem(
            408,
            "too-slow",
            f"the body arrived too slowly ({received:,} bytes so far): it may take "
            f"{self.limits.seconds:g} s, with pauses of {self.limits.pause:g} s.",
            headers={"Connection": "close"},
        )


def _content_length(request: Request, most: int) -> int:
    given = request.headers.get("content-length", "0")
    if not given.isascii() or not given.isdigit():
        raise bad_request(f"Content-Length is {given[:40]!r}: give a number of bytes.")
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


def _too_many_bytes() -> Problem:
    return Problem(
        429,
        "busy",
        "the service is receiving too many bytes already: try again in 2 s.",
        headers={"Retry-After": "2", "Connection": "close"},
    )


def media_type(request: Request) -> str:
    """Return the media type of a body without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_picture(request: Request) -> bool:
    """Return whether the body is a picture file."""
    kind = media_type(request)
    return kind.startswith("image/") or kind == OCTET_STREAM


def parse_json(request: Request, data: bytes) -> dict[str, Any]:
    """Parse a JSON object from a body."""
    kind = media_type(request)
    if kind != "application/json":
        raise Problem(
            415,
            "unsupported-media-type",
            f"Content-Type is {kind or 'missing'!r}: send application/json or, for a picture file, "
            "image/jpeg or application/octet-stream.",
        )
    try:
        parsed = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise bad_request("the body is not valid JSON: send one object in UTF-8.") from None
    if not isinstance(parsed, dict):
        raise bad_request(f"the body is a JSON {type(parsed).__name__}: send an object, {{...}}.")
    return parsed


def _refuse_constant(name: str) -> Any:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(name)


def decode_data_url(given: Any, most: int) -> bytes:
    """Decode ``data:image/...;base64,...``, or base64 alone."""
    if not isinstance(given, str):
        raise bad_request("an image is not text: give a data URL, data:image/jpeg;base64,... .")
    head, comma, body = given.partition(",")
    if not comma:
        head = ""
        body = given
    elif not (head.startswith("data:") and head.endswith(";base64")):
        raise bad_request(
            f"an image begins with {given[:30]!r}: give a data URL, data:image/jpeg;base64,..."
        )
    if len(body) > most // 3 * 4 + 4:
        raise _too_large(most)
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("an image is not valid base64: encode the bytes of its file.") from None
