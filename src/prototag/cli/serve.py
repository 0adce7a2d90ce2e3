"""``prototag serve``: expose a model or a library over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prototag.cli import terminal
from prototag.cli.terminal import Cache, Jobs, Quiet
from prototag.errors import InputError
from prototag.storage.sqlite_lock_guard import open_for_reading, read_text

if TYPE_CHECKING:
    from starlette.applications import Starlette

Host = Annotated[
    str,
    typer.Option(
        help="Address to listen on; any other than a loopback address needs --token-file."
    ),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 selects a free one.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="File with the token that every request must send."),
]
Names = Annotated[
    list[str] | None,
    typer.Option("--name", help="Further host name of the service; may be repeated."),
]


def serve(
    what: Annotated[
        Path, typer.Argument(metavar="MODEL_OR_LIBRARY", help="A model file, or a library.")
    ],
    host: Host = "127.0.0.1",
    port: Port = 8765,
    token_file: TokenFile = None,
    allow: Annotated[
        list[Path] | None,
        typer.Option(help="Folder whose pictures requests may name by path; may be repeated."),
    ] = None,
    name: Names = None,
    fetch: Annotated[
        list[str] | None,
        typer.Option(
            help="Host, besides this computer, from which Label Studio's pictures may be fetched; "
            "may be repeated."
        ),
    ] = None,
    jobs: Jobs = -1,
    queue: Annotated[
        int, typer.Option(min=1, help="Requests that may wait; further ones get HTTP 429.")
    ] = 64,
    cache: Cache = None,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
) -> None:
    """Expose a model or a library over HTTP to programs and browsers.

    Listens on this computer only, unless --host is given. /api/v1/openapi.json describes the API.
    Ctrl-C or SIGTERM stops the service after pending requests.
    """
    from prototag.engine.threads import count_threads

    create_app = application()
    settings: dict[str, Any] = {
        "roots": allow or (),
        "token": read_token(token_file),
        "host": host,
        "names": name or (),
        "fetch": fetch or (),
        "threads": count_threads(jobs),
        "queue": queue,
    }
    if is_model(what):
        # Pictures are computed side by side, each by one thread.
        settings["annotator"] = terminal.load(what, 1, cache)
        run(create_app(**settings), host, port)
        return
    from prototag.library.library import Library

    with Library(what, n_jobs=jobs, cache=terminal.opened(cache)) as library:
        run(create_app(library, **settings), host, port)


def application() -> Callable[..., Starlette]:
    """Import ``create_app``, or say what to install for it."""
    try:
        from prototag.service.app import create_app
        from prototag.service.heap import limit_heaps
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "jinja2"):
            raise
        raise InputError(
            f"the service needs {error.name}, which is not installed: pip install 'prototag[web]'."
        ) from None
    limit_heaps()
    return create_app


def is_model(path: Path) -> bool:
    """Return whether a file is a model and not a library."""
    with open_for_reading(path) as file:
        return not file.read(16).startswith(b"SQLite format 3")


def read_token(path: Path | None) -> str | None:
    """Read the token of a file."""
    if path is None:
        return None
    from prototag.service.security import read_token as check_token

    try:
        return check_token(read_text(path))
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text: give a file that holds a token.") from None


def run(app: Starlette, host: str, port: int, ready: Callable[[str], object] | None = None) -> None:
    """Serve until a signal arrives."""
    from prototag.service.server import Server

    def announce(address: str) -> None:
        terminal.print_info(f"Listening on {address} until Ctrl-C is pressed.")
        if ready is not None:
            ready(address)

    Server(app, announce).listen(host, port)
    terminal.print_info("Stopped. All pending requests were completed.")
