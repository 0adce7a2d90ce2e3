"""The application: guard, routes, and what begins and ends with it."""

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
from prototag.service.inference_queue import QUEUE
from prototag.service.integrations import labelstudio, photoprism
from prototag.service.request_body import Limits
from prototag.service.routes import (
    annotate,
    jobs,
    pages,
    pictures_and_decisions,
    review,
    suggestions,
)
from prototag.service.routes.operation import PREFIX, Operation
from prototag.service.security import Guard, Rules
from prototag.service.state import Service

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.library.library import Library

OPERATIONS: tuple[Operation, ...] = (
    *annotate.OPERATIONS,
    *pictures_and_decisions.OPERATIONS,
    *suggestions.OPERATIONS,
    *review.OPERATIONS,
    *jobs.OPERATIONS,
    *photoprism.OPERATIONS,
)


def create_app(
    library: Library | None = None,
    annotator: Annotator | None = None,
    roots: Iterable[str | Path] = (),
    token: str | None = None,
    *,
    host: str = "127.0.0.1",
    names: Iterable[str] = (),
    limits: Limits | None = None,
    threads: int | None = None,
    queue: int = QUEUE,
    fetch: Iterable[str] = (),
) -> Starlette:
    """An application for any ASGI server; ``app.state.service`` is what it answers with.

    Parameters
    ----------
    library : Library, optional
        A collection to look through, decide on and learn.
    annotator : Annotator, optional
        A model alone; what needs a library is then refused.
    roots : iterable of paths
        Folders whose pictures may be named by their paths.
    token : str, optional
        What every request must know; needed unless ``host`` is this computer alone.
    host : str
        The address that the server listens on.
    names : iterable of str
        Further names that the service is reached by.
    limits, threads, queue
        Of bodies, of pictures computed at a time, of requests that wait.
    fetch : iterable of str
        Hosts besides this computer that Label Studio's pictures may be fetched from.
    """
    if library is None and annotator is None:
        raise InputError("neither a library nor an annotator was given: give one of them.")
    rules = Rules.of(host, token, names)
    service = Service(
        library,
        annotator,
        roots=roots,
        limits=limits,
        threads=threads,
        queue=queue,
        fetch=fetch,
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.decided()  # in an earlier session, perhaps; and the model is at hand when asked for
        yield
        await run_in_threadpool(service.close)

    app = Starlette(
        routes=[*_routes(service), *pages.routes(service)],
        middleware=[Middleware(Guard, rules=rules)],
        exception_handlers={
            HTTPException: problem_details.answer,
            Exception: problem_details.answer,
        },
        lifespan=lifespan,
    )
    app.state.service = service
    return app


def _routes(service: Service) -> list[BaseRoute]:
    described = json.dumps(openapi.document(OPERATIONS)).encode()

    async def describe(_: Request) -> Response:
        return Response(described, 200, None, "application/json")

    found: list[BaseRoute] = [Route(f"{PREFIX}/openapi.json", describe, methods=["GET"])]
    operations = (*OPERATIONS, *labelstudio.OPERATIONS)
    by_path: dict[str, dict[str, Operation]] = {}
    for one in operations:
        by_path.setdefault(one.full, {})[one.method] = one
    for path, methods in by_path.items():
        found.append(Route(path, _endpoint(service, methods), methods=list(methods)))
    return found


def _endpoint(service: Service, methods: dict[str, Operation]) -> Any:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        try:
            return await methods[method](service, request)
        except Exception as error:
            return await problem_details.answer(request, error)

    return endpoint
