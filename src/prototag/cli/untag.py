"""``prototag untag``: take back the tags that ``annotate --write-xmp`` wrote."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated

import typer

from prototag.cli import console
from prototag.cli.console import Pictures, Quiet


def untag(
    paths: Pictures,
    tags: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Remove only these tags, separated by commas."),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep the tags as your own: forget that prototag wrote them."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show how many pictures would lose each tag, write nothing."
        ),
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show every change of a sidecar in full, write nothing.")
    ] = False,
    quiet: Quiet = False,  # noqa: ARG001  (heard by its callback)
) -> None:
    """Remove the tags that prototag wrote to sidecars and into JPEG files, and none of yours."""
    import prototag.metadata as metadata
    from prototag.errors import InputError, MetadataError

    wanted = None if tags is None else [name.strip() for name in tags.split(",") if name.strip()]
    removed: Counter[str] = Counter()
    n_changed = n_same = n_failed = n_unread = 0

    def unread(problem: str) -> None:
        nonlocal n_unread
        n_unread += 1
        console.complain(problem)

    for path in console.expand(paths, unread):
        try:
            changes = [metadata.plan_untag(path, tags=wanted, keep=keep)]
            if metadata.is_jpeg(path) and metadata.has_ours(path):
                changes.append(metadata.plan_unembed(path, tags=wanted, keep=keep))
            changes = [change for change in changes if change]
            text = "".join(change.diff() for change in changes) if diff else ""
            if not (dry_run or diff):
                changes = [
                    (metadata.apply if change.path != change.image else metadata.apply_inside)(
                        change
                    )
                    for change in changes
                ]
        except (MetadataError, OSError) as error:
            console.complain(str(error))
            n_failed += 1
            continue
        # Outside: whoever reads may go, as head does, and that is no failure of a sidecar.
        sys.stdout.write(console.printable(text, keep="\n"))
        for change in changes:
            removed.update(change.removed)
            if not (dry_run or diff):
                console.out(f"{change.path}: tags kept as yours" if keep else change.summary())
        n_changed += len(changes)
        n_same += not changes
    if not n_changed + n_same + n_failed + n_unread:
        raise InputError(console.NO_PICTURES)
    if dry_run and not diff:
        console.changes(Counter(), removed)
    verb = "would change" if dry_run or diff else "changed"
    words = f"{console.count(n_changed, 'file')} {verb}"
    if n_same:
        such = "tags" if wanted is None else "these tags"
        words += f", {console.count(n_same, 'picture')} without {such} from prototag"
    if n_failed:
        words += f", {n_failed:,} failed"
    console.say(f"{words}.")
    if n_failed or n_unread:
        raise typer.Exit(console.SOME_FAILED)
