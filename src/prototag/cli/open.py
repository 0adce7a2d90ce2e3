"""``prototag open``: a folder of pictures as a page in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prototag.cli import console
from prototag.cli.console import Cache, Column, Jobs, Kind, Quiet
from prototag.cli.serve import Port, application, run

LIBRARY = "prototag.library"  # in the folder


def open(
    photos: Annotated[Path, typer.Argument(help="A folder of pictures, or a library.")],
    port: Port = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    kind: Kind = "auto",
    column: Column = None,
    jobs: Jobs = -1,
    cache: Cache = None,
    quiet: Quiet = False,  # noqa: ARG001  (set_quiet)
) -> None:
    """Open a collection in the browser: learn, look through suggestions, correct, write back.

    Makes a library in the folder if there is none, and reads new pictures while the page is open.
    The page is on this computer only. Ctrl-C ends it.
    """
    import webbrowser

    from prototag.engine.threads import count_threads
    from prototag.library.library import Library
    from prototag.service.routes.working import start

    create_app = application()
    kept = console.opened(cache)
    file = photos / LIBRARY if photos.is_dir() else photos
    if file.exists():
        library = Library(file, n_jobs=jobs, cache=kept)
    else:
        library = Library.create(
            photos, kind=console.kinds(kind), column=column, n_jobs=jobs, cache=kept
        )
        console.say(f"Made the library {library.path}.")
    with library:
        app = create_app(library, threads=count_threads(jobs))

        def ready(address: str) -> None:
            start(app.state.service.jobs, "scan", library.scan)
            if browser:
                webbrowser.open(address)

        run(app, "127.0.0.1", port, ready)
