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
    from prototag.errors import MetadataError

    wanted = None if tags is None else [name.strip() for name in tags.split(",") if name.strip()]
    n_done = n_changed = n_failed = 0
    for path in pictures.expand(paths):
        n_done += 1
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
    if not n_done:
        raise ValueError("no pictures were found: give pictures, or folders that hold some.")
    verb = "would change" if dry_run else "changed"
    console.say(
        f"{n_changed:,} sidecars {verb}, {n_done - n_changed - n_failed:,} had none of ours."
    )
    if n_failed:
        raise typer.Exit(console.SOME_FAILED)
