"""``prototag accept``: pictures have tags."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from prototag.cli import library_common, terminal
from prototag.cli.library_common import Named, Tags
from prototag.cli.terminal import Json, Pictures, Quiet
from prototag.errors import InputError

By = Annotated[str, typer.Option(help="Who or what decides, for the history.")]
Alike = Annotated[
    bool,
    typer.Option(
        "--alike", help="Decide of their look-alikes too, such as the other frames of a burst."
    ),
]


def accept(
    tags: Tags,
    paths: Pictures,
    library: Named = None,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete", help="Say too that the pictures lack all tags that they do not have."
        ),
    ] = False,
    alike: Alike = False,
    by: By = "person",
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001  (heard by its callback)
) -> None:
    """Say that pictures of the library have tags, new ones too; they count as your own."""
    decided("accepted", tags, paths, library, complete, alike, by, json)


def decided(
    verdict: str,
    tags: str,
    paths: list[Path],
    library: Path | None,
    complete: bool,
    alike: bool,
    by: str,
    json: bool,
) -> None:
    """Decide of all these pictures and tags, together or not at all."""
    with library_common.opened(library) as opened:
        names = library_common.names([tags], opened)
        pictures = opened.numbers(terminal.expand(paths, terminal.complain))
        if not pictures:
            raise InputError(terminal.NO_PICTURES)
        if alike:
            every = (other for picture in pictures for other in opened.near_duplicates(picture))
            pictures = list(dict.fromkeys(every))
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
    what = f"{', '.join(names)} {verdict} for {terminal.count(len(pictures), 'picture')}"
    already = len(pairs) - number
    terminal.out(f"{what}{f'; {already:,} of that was known already' * bool(already)}.")
    if number:
        terminal.say(f"`prototag library undo {batch}` undoes it.")
