"""Errors as other programs read them: problem details (RFC 9457), with nothing of our insides."""

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
KIND = "urn:prototag:problem:"  # what the type of a problem begins with


class Problem(Exception):
    """What is answered instead of a result.

    Parameters
    ----------
    status : int
        Of the answer.
    kind : str
        A word that programs can tell problems apart by.
    detail : str
        What was given, what is allowed, what to do.
    headers : mapping, optional
        More headers of the answer.
    more : any
        Further members of the answer.
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

    def answer(self) -> Response:
        return Response(
            json.dumps(self.members(), ensure_ascii=False).encode("utf-8", "replace"),
            self.status,
            self.headers,
            MEDIA_TYPE,
        )

    def members(self) -> dict[str, Any]:
        """What the body says."""
        return {
            "type": KIND + self.kind,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }


def bad(detail: str, **more: Any) -> Problem:
    """The request makes no sense."""
    return Problem(400, "bad-request", detail, **more)


def missing(detail: str, **more: Any) -> Problem:
    """What was asked for is not here."""
    return Problem(404, "not-found", detail, **more)


def of(error: BaseException) -> Problem:  # noqa: PLR0911 - one return for each kind of error
    """What an error is answered with. Only errors that are meant to be read say their words."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ImageError):
        return Problem(422, "unreadable-picture", _sentence(f"the picture {error}"))
    if isinstance(error, MemoryError):
        # NotEnoughMemoryError among them
        words = (
            str(error) if isinstance(error, NotEnoughMemoryError) else "there is not enough memory"
        )
        return Problem(503, "no-memory", _sentence(words), headers={"Retry-After": "10"})
    if isinstance(error, UnknownNameError):
        return missing(_sentence(error.worded(REMEDIES)))
    if isinstance(error, InputError):
        return bad(_sentence(error.worded(REMEDIES)))
    if isinstance(error, ModelFileError | CacheError):
        # They name files of this computer, which are nobody's business outside of it.
        return Problem(500, "broken", "a file of the service cannot be used: see its own messages.")
    if isinstance(error, LibraryError):  # in use, on a full disk
        words = _sentence(error.worded(REMEDIES))
        return Problem(503, "library", words, headers={"Retry-After": "10"})
    if isinstance(error, PrototagError):
        return Problem(409, "refused", _sentence(error.worded(REMEDIES)))
    return Problem(500, "broken", "the service made a mistake: its own messages say more.")


def _sentence(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else f"{words}."


async def answer(request: Request, error: Exception) -> Response:
    """Starlette's handler of whatever a route raises."""
    from starlette.exceptions import HTTPException

    if isinstance(error, HTTPException):  # raised by the router: no such path, no such method
        return _of_router(request, error).answer()
    problem = of(error)
    if problem.status >= 500 and problem.kind == "broken":
        import logging

        logging.getLogger("prototag.service").error("%s", request.url.path, exc_info=error)
    return problem.answer()


def _of_router(request: Request, error: Any) -> Problem:
    path = request.url.path[:200]
    method = request.method
    if error.status_code == 404:
        return missing(f"there is nothing at {path!r}: /api/v1/openapi.json lists what there is.")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "other methods")
        words = f"{path!r} does not take {method}: it takes {allowed}."
        return Problem(405, "wrong-method", words, headers=error.headers)
    return Problem(error.status_code, "refused", _sentence(str(error.detail)))
