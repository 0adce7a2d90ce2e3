"""``prototag untag``: take back the tags that ``annotate --write-xmp`` wrote."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from prototag.cli import console
from prototag.cli.console import Pictures


def untag(
    paths: Pictures,
    tags: Annotated[
        str | None, typer.Option(help="Take back these only, a list with commas.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the tags and forget that prototag wrote them.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; write nothing.")
    ] = False,
) -> None:
    """Remove exactly the tags that prototag wrote to sidecars; yours stay."""
    from prototag import metadata
    from prototag.cli import pictures
    from prototag.errors import InputError, MetadataError

    wanted = None if tags is None else [name.strip() for name in tags.split(",") if name.strip()]
    n_changed = n_same = n_failed = n_unread = 0

    def unread(problem: str) -> None:
        nonlocal n_unread
        n_unread += 1
        console.complain(problem)

    for path in pictures.expand(paths, unread):
        try:
            change = metadata.plan_untag(path, tags=wanted, keep=keep)
            if change and dry_run:
                sys.stdout.write(change.diff())
            elif change:
                change = metadata.apply(change)
                console.out(change.summary())
        except (MetadataError, OSError) as error:
            console.complain(str(error))
            n_failed += 1
            continue
        n_changed += bool(change)
        n_same += not change
    if not n_changed + n_same + n_failed + n_unread:
        raise InputError(pictures.NONE)
    verb = "would change" if dry_run else "changed"
    failed = f", {n_failed:,} failed" * bool(n_failed)
    console.say(f"{n_changed:,} sidecars {verb}, {n_same:,} had none of ours{failed}.")
    if n_failed or n_unread:
        raise typer.Exit(console.SOME_FAILED)
