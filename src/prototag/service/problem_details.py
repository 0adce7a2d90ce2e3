"""Errors as problem details (RFC 9457), without internal details of the service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from prototag.errors import (
    CacheError,
    ImageError,
    InputError,
    LibraryError,
    ModelFileError,
    NotEnoughMemoryError,
    PrototagError,
    Remedy,
    UnknownNameError,
)

REMEDIES = {
    Remedy.SCAN: "POST /api/v1/scan reads new pictures",
    Remedy.LEARN: "POST /api/v1/learn trains a model",
    Remedy.LEARN_FULL: 'POST /api/v1/learn with {"full": true} trains a new model',
    Remedy.LEARN_OR_GO_BACK: (
        'POST /api/v1/learn with {"full": true} trains a new model, and GET /api/v1/models lists '
        "the ones to go back to"
    ),
    Remedy.TAG_MORE: "tag more pictures",
    Remedy.RANK_FOR_TAG: "GET /api/v1/suggestions?tag=TAG ranks pictures for one tag",
    Remedy.LIST_MODELS: "GET /api/v1/models lists the models",
    Remedy.LIST_BATCHES: "GET /api/v1/history lists the batches",
    Remedy.LIST_MODEL_TAGS: "GET /api/v1/tags lists the tags",
}
MEDIA_TYPE = "application/problem+json"
INTERNAL_ERROR = "internal-error"
TYPE_PREFIX = "urn:prototag:problem:"


class Problem(Exception):
    """Error response of a request.

    Parameters
    ----------
    status : int
        HTTP status.
    kind : str
        Identifier for programs, such as "no-model".
    detail : str
        Message that says what was given, what is allowed and what to do.
    headers : mapping, optional
        Additional headers.
    more : any
        Additional members of the JSON object.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = more

    def response(self) -> Response:
        return Response(
            json.dumps(self.to_json(), ensure_ascii=False).encode("utf-8", "replace"),
            self.status,
            self.headers,
            MEDIA_TYPE,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "type": TYPE_PREFIX + self.kind,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }


def bad_request(detail: str, **more: Any) -> Problem:
    """Return the problem of an invalid request."""
    return Problem(400, "bad-request", detail, **more)


def not_found(detail: str, **more: Any) -> Problem:
    """Return the problem of a missing resource."""
    return Problem(404, "not-found", detail, **more)


def from_error(error: BaseException) -> Problem:  # noqa: PLR0911 - one return for each kind of error
    """Convert an exception; only messages that are meant for users are shown."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ImageError):
        return Problem(422, "unreadable-picture", _sentence(f"the picture {error}"))
    if isinstance(error, MemoryError):
        message = "there is not enough memory"
        if isinstance(error, NotEnoughMemoryError):
            message = str(error)
        return Problem(503, "out-of-memory", _sentence(message), headers={"Retry-After": "10"})
    if isinstance(error, UnknownNameError):
        return not_found(_sentence(error.worded(REMEDIES)))
    if isinstance(error, InputError):
        return bad_request(_sentence(error.worded(REMEDIES)))
    if isinstance(error, ModelFileError | CacheError):
        # Their messages contain paths of this computer, which clients must not see.
        return Problem(500, INTERNAL_ERROR, "a file of the service is unusable: see its log.")
    if isinstance(error, LibraryError):  # locked, or the disk is full
        message = _sentence(error.worded(REMEDIES))
        return Problem(503, "library-unavailable", message, headers={"Retry-After": "10"})
    if isinstance(error, PrototagError):
        return Problem(409, "refused", _sentence(error.worded(REMEDIES)))
    return Problem(500, INTERNAL_ERROR, "an internal error occurred: see the log of the service.")


def _sentence(message: str) -> str:
    return message if message.endswith((".", "!", "?")) else f"{message}."


async def handle_error(request: Request, error: Exception) -> Response:
    """Convert an exception of a route to a response, as Starlette's exception handler."""
    from starlette.exceptions import HTTPException

    if isinstance(error, HTTPException):  # of the router: unknown path or method
        return _from_router(request, error).response()
    problem = from_error(error)
    if problem.kind == INTERNAL_ERROR:
        import logging

        logging.getLogger("prototag.service").error("%s", request.url.path, exc_info=error)
    return problem.response()


def _from_router(request: Request, error: Any) -> Problem:
    """Convert an error of the router, which found no path or no method."""
    path = request.url.path[:200]
    method = request.method
    if error.status_code == 404:
        return not_found(f"{path!r} does not exist: /api/v1/openapi.json lists all paths.")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "other methods")
        message = f"{path!r} does not support {method}: use {allowed}."
        return Problem(405, "method-not-allowed", message, headers=error.headers)
    return Problem(error.status_code, "refused", _sentence(str(error.detail)))
