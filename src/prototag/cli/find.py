"""``prototag find``: search the pictures of a library."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prototag.cli import library_common, terminal
from prototag.cli.library_common import Named
from prototag.cli.terminal import Json

if TYPE_CHECKING:
    from prototag.library.filters import PictureFilter, PictureQuery
    from prototag.library.library import Library
    from prototag.library.types import PictureView


def find(
    tags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TAG...]",
            help="Tags that the pictures have, all of them. If one is no tag of the library, all "
            "are a query: words in any of sixteen languages, 'or', 'without', quotes, and fields "
            "such as camera: and date:.",
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
    order: Annotated[
        Literal["best", "added", "newest", "oldest", "name", "probability"] | None,
        typer.Option(
            "--sort",
            help="Order: the best match of the words first, as added, by time of capture, by file "
            "name, or by the most probable suggestion. Best if there are words, else added.",
            show_default=False,
        ),
    ] = None,
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
    them, then those that look most like them. `prototag find 'dog or cat -people date:2023'` and
    `prototag find '"New York" camera:leica is:untagged'` are queries, too.
    """
    if similar is not None:
        _find_similar(library, similar, count or 20, json)
        return
    count = count or 100
    choice: PictureFilter = {
        "without": without or (),
        "state": state,
        "folder": folder,
    }
    with library_common.opened(library) as opened:
        numbers, total = _matching(opened, tags or [], order, choice, count)
        views = [opened.picture(number) for number in numbers]
    _print(views, json)
    words = terminal.shown(" ".join(tags or []))
    if total is None and views:
        terminal.print_info(f"Ranked by the words {words}.")
    elif total is not None and total > len(views):
        terminal.print_info(f"{total - len(views):,} more; -n {total} shows all.")
    elif not views:
        terminal.print_info("No picture of the library matches.")


def _matching(
    opened: Library, tags: list[str], order: str | None, choice: PictureFilter, count: int
) -> tuple[list[int], int | None]:
    """Return pictures and how many match in total; None if words rank further ones."""
    query = ""
    if all(map(opened.has_tag, tags)):
        choice = {**choice, "tags": tags}
    else:
        query = " ".join(tags)
    result = opened.search(query, order=order, limit=count, **choice)
    if len(tags) == 1 and tags[0].isalpha() and not result.pictures:
        opened.count(tags=tags)  # refuses a name that is no tag, and suggests similar ones
    if len(result.pictures) > result.n_matches:
        return result.pictures, None
    total = len(result.pictures)
    if total == count:
        wanted: PictureQuery = {**choice, "query": query}
        total = opened.count(**wanted)
    return result.pictures, total


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
