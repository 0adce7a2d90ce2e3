"""The ASGI application: middleware, routes, startup and shutdown."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from prototag.errors import InputError
from prototag.service import openapi, problem_details
from prototag.service.inference_queue import MAX_WAITING
from prototag.service.integrations import labelstudio, photoprism
from prototag.service.phone import PhoneAccess
from prototag.service.request_body import Limits
from prototag.service.routes import (
    annotate,
    jobs,
    pages,
    phone,
    pictures_and_decisions,
    review,
    settings,
    suggestions,
    words,
)
from prototag.service.routes.operation import PREFIX, Operation
from prototag.service.security import Guard, Rules
from prototag.service.state import Service

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.library.library import Library

GROUPS: dict[str, tuple[Operation, ...]] = {
    "Annotation": annotate.OPERATIONS,
    "Pictures and decisions": pictures_and_decisions.OPERATIONS,
    "Suggestions": suggestions.OPERATIONS,
    "Review": review.OPERATIONS,
    "Search": words.OPERATIONS,
    "Settings": settings.OPERATIONS,
    "Scan, training, sync": jobs.OPERATIONS,
    "Phones": phone.OPERATIONS,
    "Other programs": photoprism.OPERATIONS,
}
OPERATIONS = tuple(operation for group in GROUPS.values() for operation in group)


def create_app(  # noqa: PLR0913 - each argument is an option of `serve` or `open`
    library: Library | None = None,
    annotator: Annotator | None = None,
    roots: Iterable[str | Path] = (),
    token: str | None = None,
    *,
    host: str = "127.0.0.1",
    names: Iterable[str] = (),
    limits: Limits | None = None,
    threads: int | None = None,
    queue: int = MAX_WAITING,
    fetch: Iterable[str] = (),
    phones: PhoneAccess | None = None,
) -> Starlette:
    """Create the application for an ASGI server; ``app.state.service`` is its state.

    Parameters
    ----------
    library : Library, optional
        Library to review, decide on and train.
    annotator : Annotator, optional
        Model without a library. Operations that need a library are refused.
    roots : iterable of paths
        Folders whose pictures requests may name by path.
    token : str, optional
        Token that every request must send; required unless ``host`` is a loopback address.
    host : str
        Address that the server listens on.
    names : iterable of str
        Further host names of the service.
    limits : Limits, optional
        Sizes and times of request bodies.
    threads : int, optional
        Number of pictures computed at a time; one per core if not given.
    queue : int
        Largest number of requests in a queue.
    fetch : iterable of str
        Hosts, besides this computer, from which Label Studio's pictures may be fetched.
    phones : PhoneAccess, optional
        Sessions of phones, for a server that also listens on the address in it.
    """
    if library is None and annotator is None:
        raise InputError("neither a library nor an annotator was given: give one of them.")
    if phones is not None:
        names = [*names, phones.host]
    rules = Rules.create(host, token, names)
    service = Service(
        library,
        annotator,
        roots=roots,
        limits=limits,
        threads=threads,
        queue=queue,
        fetch=fetch,
    )
    service.phones = phones

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.decisions_changed()  # learn decisions of an earlier run, and load the model
        yield
        await run_in_threadpool(service.close)

    app = Starlette(
        routes=[*_routes(service), *pages.routes(service)],
        middleware=[Middleware(Guard, rules=rules, phones=phones)],
        exception_handlers={
            HTTPException: problem_details.handle_error,
            Exception: problem_details.handle_error,
        },
        lifespan=lifespan,
    )
    app.state.service = service
    return app


def _routes(service: Service) -> list[BaseRoute]:
    document = json.dumps(openapi.document(GROUPS)).encode()

    async def openapi_document(_: Request) -> Response:
        return Response(document, 200, None, "application/json")

    routes: list[BaseRoute] = [Route(f"{PREFIX}/openapi.json", openapi_document, methods=["GET"])]
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in (*OPERATIONS, *labelstudio.OPERATIONS):
        by_path.setdefault(operation.full_path, {})[operation.method] = operation
    for path, methods in by_path.items():
        routes.append(Route(path, _endpoint(service, methods), methods=list(methods)))
    return routes


def _endpoint(service: Service, methods: dict[str, Operation]) -> Any:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        try:
            return await methods[method](service, request)
        except Exception as error:
            return await problem_details.handle_error(request, error)

    return endpoint
