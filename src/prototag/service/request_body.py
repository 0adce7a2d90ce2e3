"""Read request bodies, pictures or JSON, with limits of size and time."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import Message
from email.parser import BytesHeaderParser
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request

from prototag.service.problem_details import Problem, bad_request

OCTET_STREAM = "application/octet-stream"
FORM = "multipart/form-data"
MAX_FORM_OVERHEAD = 16 << 10  # bytes of a form beside its file: delimiters and headers
MAX_BOUNDARY = 70  # characters, by RFC 2046


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


def is_form(request: Request) -> bool:
    """Return whether the body is a form with files, as ``curl -F file=@photo.jpg`` sends."""
    return media_type(request) == FORM


def file_of_form(request: Request, data: bytes, most: int) -> bytes:
    """Return the only file of a form (RFC 7578); other fields are refused."""
    marker = b"--" + _boundary(request)
    position = 0 if data.startswith(marker) else data.find(b"\r\n" + marker) + 2
    if position == 1:
        raise bad_request("the form does not contain its boundary: send multipart/form-data.")
    contents: list[bytes] = []
    while not data.startswith(b"--", position + len(marker)):
        head = position + len(marker)
        body = data.find(b"\r\n\r\n", head)
        position = data.find(b"\r\n" + marker, head) + 2
        line_end = data.find(b"\r\n", head)
        if body < 0 or position == 1 or body > position or data[head:line_end].strip(b" \t"):
            raise bad_request("the form is malformed: send multipart/form-data of one file.")
        if contents or not _is_file(data[line_end:body]):
            raise bad_request(
                "the form has a field that is no file, or several files: send one file, and "
                "options as parameters of the address."
            )
        contents.append(data[body + 4 : position - 2])
    if not contents:
        raise bad_request("the form has no file: send one, such as curl -F file=@photo.jpg.")
    if len(contents[0]) > most:
        raise _too_large(most)
    return contents[0]


def _boundary(request: Request) -> bytes:
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    boundary = header.get_boundary("")
    if not 0 < len(boundary) <= MAX_BOUNDARY or not boundary.isascii():
        raise bad_request("the form has no valid boundary in Content-Type: give 1 to 70 letters.")
    return boundary.encode("ascii")


def _is_file(headers: bytes) -> bool:
    """Return whether the headers of a field name a file and no transfer encoding."""
    parsed = BytesHeaderParser().parsebytes(headers.lstrip(b"\r\n"))
    encoding = str(parsed.get("content-transfer-encoding", "binary")).strip().lower()
    has_name = parsed.get_param("filename", header="content-disposition") is not None
    return (
        parsed.get_content_disposition() == "form-data"
        and has_name
        and encoding in ("binary", "8bit", "7bit")
    )


def parse_json(request: Request, data: bytes) -> dict[str, Any]:
    """Parse a JSON object from a body."""
    kind = media_type(request)
    if kind != "application/json":
        raise Problem(
            415,
            "unsupported-media-type",
            f"Content-Type is {kind or 'missing'!r}: send application/json or, for a picture file, "
            "image/jpeg, application/octet-stream or multipart/form-data.",
        )
    try:
        parsed = json.loads(data, parse_constant=_refuse_constant, parse_float=_parse_float)
    except (ValueError, RecursionError):
        raise bad_request("the body is not valid JSON: send one object in UTF-8.") from None
    if not isinstance(parsed, dict):
        raise bad_request(f"the body is a JSON {type(parsed).__name__}: send an object, {{...}}.")
    return parsed


def _parse_float(text: str) -> float | int:
    """Parse a number; 2.0 is an integer in JSON Schema."""
    number = float(text)
    return int(number) if number.is_integer() else number


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
