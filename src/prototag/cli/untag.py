"""``prototag untag``: remove the tags that ``annotate --write-xmp`` wrote."""

from __future__ import annotations

import json as jsonlib
import sys
from collections import Counter
from typing import Annotated

import typer

from prototag.cli import terminal
from prototag.cli.terminal import Json, Pictures, Quiet


def untag(
    paths: Pictures,
    tags: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Remove only these tags, separated by commas."),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Keep the tags as your own: remove the note that prototag wrote them."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show how many pictures would lose each tag, without writing."
        ),
    ] = False,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Show every change of a sidecar in full, without writing."),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
) -> None:
    """Remove the tags that prototag wrote to sidecars and JPEG files; keep your own."""
    from prototag.errors import InputError

    if json and diff:
        raise typer.BadParameter("give --json or --diff, not both.")
    names = None if tags is None else [name.strip() for name in tags.split(",") if name.strip()]
    run = _Run(names, keep=keep, dry_run=dry_run or diff, diff=diff, as_json=json)
    for path in terminal.expand(paths, run.note_unread):
        run.take(path)
    if not run.n_changed + run.n_same + run.n_failed + run.n_unread:
        raise InputError(terminal.NO_PICTURES)
    run.report()
    if run.n_failed or run.n_unread:
        raise typer.Exit(terminal.SOME_FAILED)


class _Run:
    """One run over pictures, with its counts."""

    def __init__(
        self, tags: list[str] | None, *, keep: bool, dry_run: bool, diff: bool, as_json: bool
    ) -> None:
        self.tags = tags
        self.keep = keep
        self.dry_run = dry_run
        self.diff = diff
        self.as_json = as_json
        self.removed: Counter[str] = Counter()
        self.n_changed = 0  # files
        self.n_same = 0  # pictures
        self.n_failed = 0
        self.n_unread = 0  # folders

    def note_unread(self, problem: str) -> None:
        self.n_unread += 1
        terminal.print_error(problem)

    def take(self, path: str) -> None:
        from prototag.metadata.write_policy import apply_change, plan_removal

        writes = plan_removal(path, self.tags, keep=self.keep)
        planned = [write.change for write in writes if write.change is not None]
        text = "".join(change.diff() for change in planned) if self.diff else ""
        if not self.dry_run and all(write.problem is None for write in writes):
            writes = [apply_change(change) for change in planned]
        for problem in [write.problem for write in writes if write.problem is not None]:
            terminal.print_error(problem)
            if self.as_json:
                print(jsonlib.dumps({"path": path, "error": problem}))
            self.n_failed += 1
            return
        sys.stdout.write(terminal.printable(text, keep="\n"))
        changes = [write.change for write in writes if write.change is not None]
        for change in changes:
            self.removed.update(change.removed)
            if self.as_json:
                record = {"path": path, "file": str(change.path), "removed": list(change.removed)}
                print(jsonlib.dumps({**record, "kept": self.keep, "dry_run": self.dry_run}))
            elif not self.dry_run:
                done = f"{change.path}: tags kept as yours" if self.keep else change.summary()
                terminal.print_result(done)
        self.n_changed += len(changes)
        self.n_same += not changes

    def report(self) -> None:
        if self.dry_run and not (self.diff or self.as_json):
            terminal.changes(Counter(), self.removed)
        verb = "would change" if self.dry_run else "changed"
        words = f"{terminal.count(self.n_changed, 'file')} {verb}"
        if self.n_same:
            such = "tags" if self.tags is None else "these tags"
            words += f", {terminal.count(self.n_same, 'picture')} without {such} from prototag"
        if self.n_failed:
            words += f", {self.n_failed:,} failed"
        terminal.print_info(f"{words}.")
