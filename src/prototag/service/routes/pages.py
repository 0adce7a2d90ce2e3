"""Pages of the browser, from templates/ and static/, without inline code or external files."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from prototag import __version__
from prototag.report import theme
from prototag.service.phone import CONNECT_PAGE
from prototag.service.state import Service

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parents[1]
CLIENT = HERE.parent / "client.py"  # needs the standard library only, so that one file is enough
SCREENS = ("/", "/review", "/picture/{number:int}", "/library", "/training", "/settings")
REVALIDATE = {"Cache-Control": "no-cache"}  # the browser keeps a file and checks its version


@lru_cache(maxsize=1)
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
    )


def page(name: str, **values: object) -> Response:
    """Render a template."""
    return HTMLResponse(_templates().get_template(name).render(version=__version__, **values))


class _Static(StaticFiles):
    """Static files with cache headers."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(REVALIDATE)
        return response


def colours() -> str:
    """Return the stylesheet of the common colours of pages and reports."""
    return (
        f":root{{color-scheme:light dark;{theme.variables(theme.LIGHT)}}}"
        "@media (prefers-color-scheme:dark){:root:not([data-theme=light])"
        f"{{{theme.variables(theme.DARK)}}}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{theme.variables(theme.DARK)}}}"
        ":root[data-theme=light]{color-scheme:light}"
    )


def routes(service: Service) -> list[Route | Mount]:
    """Return the routes of all pages."""

    async def start(_: Request) -> Response:
        if not service.has_library:
            return page("start.html")
        path = os.fsencode(service.library.path)
        key = hashlib.blake2b(path, digest_size=6).hexdigest()
        return page("app.html", key=key, title=service.library.path.parent.name or "prototag")

    async def theme_style(_: Request) -> Response:
        return Response(colours(), 200, REVALIDATE, "text/css")

    async def docs(_: Request) -> Response:
        return page("docs.html")

    async def python_client(_: Request) -> Response:
        return FileResponse(CLIENT, headers=REVALIDATE, media_type="text/x-python")

    async def connect(_: Request) -> Response:
        return page("connect.html")

    return [
        Route(CONNECT_PAGE, connect, methods=["GET"]),
        Route("/docs", docs, methods=["GET"]),
        Route("/docs/prototag_client.py", python_client, methods=["GET"]),
        *(Route(path, start, methods=["GET"]) for path in SCREENS),
        Route("/static/theme.css", theme_style, methods=["GET"]),
        Mount("/static", _Static(directory=HERE / "static")),
    ]
