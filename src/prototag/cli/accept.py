"""``prototag accept``: accept tags of pictures in a library."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from prototag.cli import library_common, terminal
from prototag.cli.library_common import Named, Tags
from prototag.cli.terminal import Json, Pictures, Quiet
from prototag.errors import InputError

By = Annotated[
    str, typer.Option(help="Name of the person or program that decides, for the history.")
]
Alike = Annotated[
    bool,
    typer.Option("--alike", help="Include near-duplicates, such as the other frames of a burst."),
]


def accept(
    tags: Tags,
    paths: Pictures,
    library: Named = None,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete", help="Also mark the pictures as complete: every other tag is absent."
        ),
    ] = False,
    alike: Alike = False,
    by: By = "person",
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
) -> None:
    """Accept tags of pictures in a library, new tags too; they count as your own."""
    decide("accepted", tags, paths, library, complete, alike, by, json)


def decide(
    verdict: str,
    tags: str,
    paths: list[Path],
    library: Path | None,
    complete: bool,
    alike: bool,
    by: str,
    json: bool,
) -> None:
    """Decide on all pairs of these pictures and tags as one batch."""
    with library_common.opened(library) as opened:
        names = library_common.names([tags], opened)
        pictures = opened.numbers(terminal.expand(paths, terminal.print_error))
        if not pictures:
            raise InputError(terminal.NO_PICTURES)
        if alike:
            duplicates = (
                other for picture in pictures for other in opened.near_duplicates(picture)
            )
            pictures = list(dict.fromkeys(duplicates))
        pairs: list[tuple[int, str | None, str]] = [
            (picture, name, verdict) for picture in pictures for name in names
        ]
        if complete:
            pairs += [(picture, None, "complete") for picture in pictures]
        batch, number = opened.decide(pairs, by=by)
    if json:
        print(
            jsonlib.dumps(
                {
                    "verdict": verdict,
                    "tags": names,
                    "pictures": pictures,
                    "decisions": number,
                    "batch": batch,
                }
            )
        )
        return
    message = f"{', '.join(names)} {verdict} for {terminal.count(len(pictures), 'picture')}"
    if unchanged := len(pairs) - number:
        message += f"; {terminal.count(unchanged, 'decision')} unchanged"
    terminal.print_result(f"{message}.")
    if number:
        terminal.print_info(f"`prototag library undo {batch}` undoes it.")
