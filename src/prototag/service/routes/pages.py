"""Pages for people, made of templates/ and static/; nothing in them is inline, nothing is fetched
from elsewhere."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from prototag import __version__
from prototag.service.core import Service

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parents[1]


@lru_cache(maxsize=1)
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
    )


def page(name: str, **values: object) -> Response:
    """A template, filled in."""
    return HTMLResponse(_templates().get_template(name).render(version=__version__, **values))


def routes(service: Service) -> list[Route | Mount]:
    """All pages."""

    async def start(_: Request) -> Response:
        learned = await run_in_threadpool(lambda: service.learned)
        return page("start.html", library=service.has_library, learned=learned)

    return [
        Route("/", start, methods=["GET"]),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
