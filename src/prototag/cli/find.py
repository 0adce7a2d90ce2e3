"""``prototag find``: pictures of the library by tags, state or text."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Literal

import typer

from prototag.cli import library_common, terminal
from prototag.cli.library_common import Named
from prototag.cli.terminal import Json


def find(
    tags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TAG...]", help="Tags that the pictures have, all of them.", show_default=False
        ),
    ] = None,
    library: Named = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="TAG", help="A tag that the pictures do not have; may be repeated."),
    ] = None,
    state: Annotated[
        Literal["tagged", "untagged", "suggested", "missing", "complete", "decided"] | None,
        typer.Option(
            help="Tagged, untagged, with suggestions, with missing files, marked as complete, or "
            "with decisions."
        ),
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="In this folder or below it.")] = None,
    text: Annotated[str | None, typer.Option(help="Part of a path or of a tag.")] = None,
    similar: Annotated[
        Path | None,
        typer.Option(
            metavar="PICTURE", help="Pictures that are most similar to this picture of the library."
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            "-n",
            min=1,
            max=100_000,
            help="Number of pictures to show: 100, or 20 that are similar, if not given.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the pictures of a library that have all these tags; all pictures if none is given."""
    if similar is not None:
        _find_similar(library, similar, count or 20, json)
        return
    count = count or 100
    with library_common.opened(library) as opened:
        numbers = opened.pictures(
            tags=tags or (),
            without=without or (),
            state=state,
            folder=folder,
            text=text,
            limit=count,
        )
        views = [opened.picture(number) for number in numbers]
        every = len(numbers)
        if every == count:
            every = opened.count(
                tags=tags or (), without=without or (), state=state, folder=folder, text=text
            )
    if json:
        for view in views:
            print(jsonlib.dumps(library_common.record(view)))
    elif terminal.is_terminal():
        terminal.table(
            ["Picture", "Tags"],
            [[library_common.place(view), terminal.leaves(view.tags)] for view in views],
        )
    else:
        for view in views:
            terminal.print_result(library_common.place(view))
    if every > len(views):
        terminal.print_info(f"{every - len(views):,} more; -n {every} shows all.")
    elif not views:
        terminal.print_info("No picture of the library matches.")


def _find_similar(library: Path | None, picture: Path, count: int, json: bool) -> None:
    with library_common.opened(library) as opened:
        matches = [(opened.picture(n), value) for n, value in opened.similar(picture, count)]
    if json:
        for view, value in matches:
            print(jsonlib.dumps({**library_common.record(view), "similarity": value}))
        return
    rows = [
        [f"{value:.2f}", library_common.shown(view.files[0]), terminal.leaves(view.tags)]
        for view, value in matches
    ]
    terminal.table(["Similarity", "Picture", "Tags"], rows, right=["Similarity"])
