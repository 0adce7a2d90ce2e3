"""``prototag find``: pictures of the library by tags, state or text."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prototag.cli import library_common, terminal
from prototag.cli.library_common import Named
from prototag.cli.terminal import Json

if TYPE_CHECKING:
    from prototag.library.library import Library
    from prototag.library.queries import PictureFilter
    from prototag.library.types import PictureView


def find(
    tags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TAG...]",
            help="Tags that the pictures have, all of them. If one is no tag of the library, all "
            "are words to search by, in any of sixteen languages.",
            show_default=False,
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
    """List the pictures of a library that have all these tags; all pictures if none is given.

    `prototag find boats at sunset` searches by words: first the pictures whose tags or paths have
    them, then those that look most like them.
    """
    if similar is not None:
        _find_similar(library, similar, count or 20, json)
        return
    count = count or 100
    choice: PictureFilter = {
        "without": without or (),
        "state": state,
        "folder": folder,
        "text": text,
    }
    with library_common.opened(library) as opened:
        numbers, total = _matching(opened, tags or [], choice, count)
        views = [opened.picture(number) for number in numbers]
    _print(views, json)
    if total is None and views:
        terminal.print_info(f"Ranked by the words {terminal.shown(' '.join(tags or []))}.")
    elif total is not None and total > len(views):
        terminal.print_info(f"{total - len(views):,} more; -n {total} shows all.")
    elif not views:
        terminal.print_info("No picture of the library matches.")


def _matching(
    opened: Library, tags: list[str], choice: PictureFilter, count: int
) -> tuple[list[int], int | None]:
    """Return pictures and how many match in total; None if they are ranked by words."""
    if not all(map(opened.has_tag, tags)) and opened.knows_words:
        return opened.search(" ".join(tags), limit=count, **choice).pictures, None
    with_tags: PictureFilter = {**choice, "tags": tags}
    numbers = opened.pictures(limit=count, **with_tags)
    total = len(numbers) if len(numbers) < count else opened.count(**with_tags)
    return numbers, total


def _print(views: list[PictureView], json: bool) -> None:
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
