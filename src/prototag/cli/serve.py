"""``prototag serve``: the model or the library for other programs."""

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
    typer.Option(help="Address to listen on; any but this computer's own needs --token-file."),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any that is free.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="File with the token that every request must know."),
]
Names = Annotated[
    list[str] | None,
    typer.Option("--name", help="A further name that the service is reached by; may be repeated."),
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
        typer.Option(help="A folder whose pictures may be named by path; may be repeated."),
    ] = None,
    name: Names = None,
    fetch: Annotated[
        list[str] | None,
        typer.Option(
            help="A host besides this computer that Label Studio's pictures may be fetched from; "
            "may be repeated."
        ),
    ] = None,
    jobs: Jobs = -1,
    queue: Annotated[
        int, typer.Option(min=1, help="Requests that may wait; those beyond are turned away.")
    ] = 64,
    cache: Cache = None,
    quiet: Quiet = False,  # noqa: ARG001  (set_quiet)
) -> None:
    """Answer other programs: tags of pictures, and all that a library knows.

    Listens on this computer only, unless told otherwise. /api/v1/openapi.json describes what can
    be asked. Ctrl-C, or SIGTERM, ends it: what was asked before is still answered.
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
    """``create_app``, or what to install for it."""
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
    """Whether a file is a model, by its first bytes."""
    with open_for_reading(path) as file:
        return not file.read(16).startswith(b"SQLite format 3")


def read_token(path: Path | None) -> str | None:
    """The token in a file."""
    if path is None:
        return None
    from prototag.service.security import read_token as checked

    try:
        return checked(read_text(path))
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text: give a file that holds a token.") from None


def run(app: Starlette, host: str, port: int, ready: Callable[[str], object] | None = None) -> None:
    """Answer until a signal ends it."""
    from prototag.service.server import Server

    def told(address: str) -> None:
        terminal.say(f"Listening on {address} until Ctrl-C is pressed.")
        if ready is not None:
            ready(address)

    Server(app, told).listen(host, port)
    terminal.say("Stopped; everything that was asked has been answered.")
