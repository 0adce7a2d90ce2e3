"""``prototag immich``: tags for the pictures of an Immich server."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from prototag.cli import library_common, terminal
from prototag.cli.terminal import Cache, Jobs, Json, Model, Quiet
from prototag.storage.sqlite_lock_guard import read_text


def immich(
    url: Annotated[str, typer.Argument(help="Address of Immich, such as http://192.168.1.7:2283.")],
    key_file: Annotated[Path, typer.Option(help="File with an API key of Immich.")],
    model: Model = Path(terminal.MODEL),
    precision: Annotated[
        float | None,
        typer.Option(
            parser=terminal.share,
            metavar="SHARE",
            help="Precision to aim for: the share of applied tags that are correct, as 0.9, 90 or "
            "90%.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only pictures changed since this time, such as 2026-11-01."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option(help="Count the tags that would be applied, without changes.")
    ] = False,
    memory: Annotated[
        Path | None,
        typer.Option(help="File that keeps the applied tags and those that people removed."),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option(
            "--library",
            "-l",
            help="A library in which tags that people removed in Immich are rejected.",
        ),
    ] = None,
    jobs: Jobs = -1,
    cache: Cache = None,
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
) -> None:
    """Tag the pictures of an Immich server. Contacts that server, and no other.

    Fetches previews, annotates them here, and applies the tags there. A tag that somebody removed
    in Immich is never applied to that picture again.
    """
    from datetime import datetime

    from prototag.annotator.types import Annotation
    from prototag.service.integrations.immich import Immich, Memory, Rejected, reject, tag_pictures

    try:
        after = datetime.fromisoformat(since).astimezone().isoformat() if since else None
    except ValueError:
        raise typer.BadParameter(
            f"--since {since!r} is not a date: give one such as 2026-11-01."
        ) from None
    server = Immich(url, read_text(key_file).strip())
    annotator = terminal.load(model, jobs, cache)
    annotator.selector(precision=precision)  # refuses invalid options before any request
    kept = Memory.load(memory or _place(server.base), server.base)

    def annotate(previews: list[bytes]) -> list[Annotation]:
        return list(annotator.annotate(previews, precision=precision))

    n_rejected = 0

    def reject_in_library(rejected: Rejected) -> None:
        nonlocal n_rejected
        if library is not None:
            with library_common.opened(library) as opened:
                n_rejected = reject(server, opened, rejected)

    with terminal.progress() as progress:
        outcome, new = tag_pictures(
            server,
            kept,
            annotate,
            updated_after=after,
            dry_run=dry_run,
            on_rejected=reject_in_library,
            progress=progress,
        )
    if json:
        import json as jsonlib

        figures = {
            "pictures": outcome.pictures,
            "changed": len(new),
            "added": outcome.pushed,
            "rejected": outcome.rejected,
            "rejected_in_library": n_rejected,
            "failed": outcome.failed,
            "dry_run": dry_run,
            "tags": new,
        }
        print(jsonlib.dumps(figures))
    else:
        terminal.changes(Counter(tag for tags in new.values() for tag in tags), Counter())
    for asset, reason in outcome.failed.items():
        terminal.print_error(f"picture {asset}: {reason}")
    verb = "would get" if dry_run else "got"
    terminal.print_info(
        f"{terminal.count(outcome.pictures, 'picture')} annotated, {len(new):,} {verb} "
        f"{terminal.count(outcome.pushed, 'tag')}."
    )
    if outcome.rejected:
        terminal.print_info(
            f"{terminal.count(outcome.rejected, 'tag')} had been removed in Immich, and will not "
            "be applied there again."
        )
    if library is not None and outcome.rejected:
        terminal.print_info(f"The library rejects {n_rejected:,} of them.")
    if outcome.failed:
        raise typer.Exit(terminal.SOME_FAILED)


def _place(server: str) -> Path:
    """Return the default file of the memory of a server."""
    import hashlib

    from platformdirs import user_data_path

    name = hashlib.blake2b(server.encode(), digest_size=8).hexdigest()
    return user_data_path("prototag", appauthor=False) / f"immich-{name}.json"
