"""``prototag annotate``: tags of new pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prototag.cli import console
from prototag.cli.console import Cache, Jobs, Json, Model

Paths = Annotated[
    list[Path],
    typer.Argument(
        help="Pictures, folders with all below them, or - for paths on standard input.",
        metavar="PATH...",
        show_default=False,
    ),
]


def annotate(
    paths: Paths,
    model: Model = Path(console.MODEL),
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Give tags that are at least so likely (0 to 1)."),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1,
            help="Give each tag by the threshold that reached this precision in training.",
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Give so many tags; with a threshold, at most.")
    ] = None,
    tags: Annotated[
        str | None,
        typer.Option(help="Tags to stay in: a file with one a line, or a list with commas."),
    ] = None,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV instead of text.")] = False,
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Tag pictures by what a model learned."""
    from prototag.cli import pictures

    annotator = console.load(model, jobs, cache)
    for a in annotator.annotate(
        pictures.expand(paths), threshold=threshold, precision=precision, top=top
    ):
        print(a.source, a.names, a.error)
