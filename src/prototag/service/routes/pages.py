"""Pages for people, made of templates/ and static/; nothing in them is inline, nothing is fetched
from elsewhere."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from prototag import __version__
from prototag.report import theme
from prototag.service.state import Service

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parents[1]
SCREENS = ("/", "/sheet", "/picture/{number:int}", "/library", "/training")
ASK_FIRST = {"Cache-Control": "no-cache"}  # a browser keeps it, and asks whether it is still so


@lru_cache(maxsize=1)
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
    )


def page(name: str, **values: object) -> Response:
    """A template, filled in."""
    return HTMLResponse(_templates().get_template(name).render(version=__version__, **values))


class _Static(StaticFiles):
    """Scripts and styles, which a browser may keep."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        answer = super().file_response(*given, **named)
        answer.headers.update(ASK_FIRST)
        return answer


def colours() -> str:
    """The style sheet of the colours that all of prototag has."""
    return (
        f":root{{color-scheme:light dark;{theme.variables(theme.LIGHT)}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{theme.variables(theme.DARK)}}}}}"
    )


def routes(service: Service) -> list[Route | Mount]:
    """All pages."""

    async def start(_: Request) -> Response:
        if not service.has_library:
            return page("start.html")
        path = os.fsencode(service.library.path)
        key = hashlib.blake2b(path, digest_size=6).hexdigest()
        return page("app.html", key=key, title=service.library.path.parent.name or "prototag")

    async def theme_style(_: Request) -> Response:
        return Response(colours(), 200, ASK_FIRST, "text/css")

    return [
        *(Route(path, start, methods=["GET"]) for path in SCREENS),
        Route("/static/theme.css", theme_style, methods=["GET"]),
        Mount("/static", _Static(directory=HERE / "static")),
    ]
