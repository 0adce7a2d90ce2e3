"""``prototag library``: create, inspect and sync a library."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from prototag.cli import library_common, terminal
from prototag.cli.library_common import Language, Named
from prototag.cli.terminal import Cache, Column, Jobs, Json, Kind, Quiet
from prototag.errors import InputError, LibraryError

if TYPE_CHECKING:
    from prototag.library.library import Library
    from prototag.library.types import Status
    from prototag.library.writes import WriteView

library = typer.Typer(
    name="library",
    help="Keep a collection in one file: its pictures, their tags, and your decisions.",
    no_args_is_help=True,
)
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, without changes.")
]


@library.command()
def create(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A folder of pictures, or a list of them (CSV, JSON lines). Some should have "
            "tags.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to create; prototag.library in the folder if not given.",
            show_default=False,
        ),
    ] = None,
    kind: Kind = "auto",
    column: Column = None,
    network: Annotated[
        str, typer.Option(help="Network that computes the vectors: embedded, or an ONNX file.")
    ] = "embedded",
    language: Language = None,
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001  (heard by its callback)
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Create a library of a folder of pictures, and scan them.

    Pictures are never changed. `prototag library sync` resumes an interrupted scan.
    """
    from prototag.knowledge.words import check_language
    from prototag.library.library import Library

    if language is not None:
        check_language(language)
    library_common.check_has_pictures(source, kind, column)
    with (
        terminal.progress() as progress,
        Library.create(
            source,
            output,
            kind=terminal.kinds(kind),
            column=column,
            backbone=network,
            n_jobs=jobs,
            cache=terminal.opened(cache),
            progress=progress,
        ) as opened,
    ):
        if language is not None:
            opened.set_language(language)
        try:
            scanned = opened.scan()
        except KeyboardInterrupt:
            shown = library_common.shown(opened.path)
            terminal.print_info(
                f"\nScanned pictures are kept: `prototag library sync -l {shown}` continues."
            )
            raise
        except LibraryError:
            opened.close()
            opened.path.unlink(missing_ok=True)  # it contains no picture
            raise
        status = opened.status()
    library_common.print_problems(scanned.problems)
    if json:
        print(jsonlib.dumps({"library": str(opened.path), **_facts(status)}))
    else:
        _welcome(status, scanned.unreadable)
    if scanned.unreadable:
        raise typer.Exit(terminal.SOME_FAILED)


def _welcome(status: Status, unreadable: int) -> None:
    from prototag.cli import COMMANDS

    words = f"{terminal.count(status.pictures, 'picture')}, {status.tagged:,} of them with tags"
    words += f" ({terminal.count(status.tags, 'different tag')})" if status.tags else ""
    words += f"; {unreadable:,} cannot be read" if unreadable else ""
    terminal.print_result(f"{words}.")
    terminal.print_result(f"The library is {library_common.shown(status.path)}.")
    steps = [
        ("learn", "prototag learn", "train on the tagged pictures"),
        ("suggest", "prototag suggest", "show suggestions for the others"),
        ("accept", "prototag accept TAG PICTURE...", "accept a tag; `prototag reject` rejects it"),
        ("find", "prototag find TAG", "list the pictures that have a tag"),
        ("library", "prototag library sync", "write accepted tags to sidecars, scan new pictures"),
    ]
    here = status.path.parent == Path.cwd()
    where = "" if here else f", in that folder or with -l {library_common.shown(status.path)}"
    terminal.print_result(f"Next steps{where}:")
    for name, command, words in steps:
        if name in COMMANDS:
            terminal.print_result(f"  {command:32s}{words}")


def _facts(status: Status) -> dict[str, Any]:
    model = None if status.model is None else status.model._asdict()
    facts = {
        name: getattr(status, name)
        for name in (
            *("pictures", "missing", "unread", "tagged", "tags", "decisions", "suggestions"),
            *("unwritten", "decisions_since_retrain", "problems"),
        )
    }
    return {"roots": [str(root) for root in status.roots], **facts, "model": model}


@library.command()
def status(
    name: Named = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the whole file for damage, which takes time.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the content of a library, and pending work."""
    with library_common.opened(name) as opened:
        summary = opened.status()
        damage = opened.check() if check else None
    if json:
        extra = {} if damage is None else {"damage": damage}
        print(jsonlib.dumps({"library": str(summary.path), **_facts(summary), **extra}))
    else:
        for label, words in _described(summary).items():
            terminal.print_result(f"{label:12s}{words}")
        if damage == []:
            terminal.print_result("Damage      none")
    library_common.print_problems(damage or [])
    if damage:
        raise typer.Exit(terminal.FAILED)


def _described(status: Status) -> dict[str, str]:
    size = os.path.getsize(status.path) / 1e6
    count = terminal.count
    facts = {
        "Library": f"{library_common.shown(status.path)} ({size:.1f} MB)",
        "Folder": ", ".join(str(root) for root in status.roots),
        "Pictures": f"{status.pictures:,}, {status.tagged:,} with tags"
        + f", {status.unread:,} not scanned yet" * (status.unread > 0)
        + f", {status.missing:,} missing (`prototag library prune` removes them)"
        * (status.missing > 0),
        "Tags": f"{status.tags:,}",
        "Decisions": f"{status.decisions:,}"
        + f", {status.decisions_since_retrain:,} since the last full training"
        * bool(status.model and status.decisions_since_retrain),
    }
    if status.suggestions:
        facts["Suggestions"] = f"{status.suggestions:,} to review"
    if status.model is not None:
        facts["Model"] = (
            f"number {status.model.number}, {count(status.model.tags, 'tag')} from "
            f"{count(status.model.pictures, 'picture')}"
        )
    if status.unwritten:
        facts["To write"] = (
            f"accepted tags of {count(status.unwritten, 'picture')}: `prototag library sync`"
        )
    facts |= {"Note" if i == 0 else " " * i: words for i, words in enumerate(status.problems)}
    return facts


@library.command()
def sync(
    name: Named = None,
    dry_run: DryRun = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show every change of a file in full, write nothing.")
    ] = False,
    jpeg: Annotated[
        Literal["sidecar", "file", "nowhere"] | None,
        typer.Option(
            help="Where tags of JPEG files are written, from now on: to sidecars, into the files, "
            "or nowhere. Lightroom and Bridge read the tags of JPEG files only inside the file.",
            show_default=False,
        ),
    ] = None,
    iptc: Annotated[
        bool | None,
        typer.Option(
            "--iptc/--no-iptc",
            help="Write IPTC keywords also into JPEG files that have none, from now on. Existing "
            "ones are always kept in step.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Sync library and files: scan new pictures and changed tags, write accepted tags.

    Accepted tags are written as your own: to XMP sidecars, or with --jpeg file into JPEG files, and
    never into other pictures. A written tag that you remove in a photo program counts as rejected.
    A second sync changes nothing.
    """
    with (
        terminal.progress() as progress,
        library_common.opened(
            name, scans=True, jobs=jobs, cache=cache, progress=progress
        ) as opened,
    ):
        opened.set_write_places(jpeg=jpeg, iptc=iptc)
        scanned = opened.scan()
        plan = opened.plan_sync()
        done = None if dry_run or diff else opened.sync(plan)
        example = ""
        if plan.kept:
            picture, tag = plan.kept[0]
            example = f"{tag} of {library_common.place(opened.picture(picture))}"
    problems = list(dict.fromkeys([*scanned.problems, *(done.problems if done else plan.problems)]))
    library_common.print_problems(problems)
    for change in plan.outgoing if diff else ():
        sys.stdout.write(terminal.printable(change.diff(), keep="\n"))
    if json:
        print(jsonlib.dumps(library_common.synced(scanned, plan, done)))
    elif not diff:
        library_common.print_sync(library_common.scan_summary(scanned), plan, done, example)
    if scanned.unreadable or (done and done.problems):
        raise typer.Exit(terminal.SOME_FAILED)


@library.command("undo-write")
def undo_write(
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="[NUMBER]", help="Number of the write; without it, the writes are listed."
        ),
    ] = None,
    name: Named = None,
    json: Json = False,
) -> None:
    """Restore the files of a sync exactly as they were before it.

    Files that changed since are left as they are. Decisions stay: the next sync writes their tags
    again, unless you undo them as well.
    """
    with library_common.opened(name) as opened:
        if number is None:
            _print_writes(opened.writes(), json)
            return
        undone = opened.undo_write(number)
    library_common.print_problems(undone.problems)
    if json:
        print(jsonlib.dumps(undone._asdict()))
    else:
        terminal.print_result(f"{terminal.count(undone.restored, 'file')} restored.")
    if undone.problems:
        raise typer.Exit(terminal.SOME_FAILED)


def _print_writes(writes: list[WriteView], json: bool) -> None:
    from datetime import datetime

    if json:
        for one in writes:
            print(jsonlib.dumps(one._asdict()))
    elif not writes:
        terminal.print_result("Nothing was written to files yet.")
    else:
        rows = [
            [
                str(one.number),
                datetime.fromtimestamp(one.written_at).strftime("%Y-%m-%d %H:%M"),
                f"{one.files:,}",
                f"{one.added:,}",
                f"{one.removed:,}",
                "undone" if one.undone else "",
            ]
            for one in writes
        ]
        heads = ["Write", "When", "Files", "Added", "Removed", ""]
        terminal.table(heads, rows, right=["Write", "Files", "Added", "Removed"])


@library.command()
def prune(name: Named = None, dry_run: DryRun = False, json: Json = False) -> None:
    """Remove pictures whose files are missing, with their decisions.

    `prototag library sync` recognises moved pictures, which are not missing.
    """
    with library_common.opened(name) as opened:
        missing = opened.status().missing
        if not dry_run:
            missing = opened.prune()
    if json:
        print(jsonlib.dumps({"pruned": missing, "dry_run": dry_run}))
    elif not missing:
        terminal.print_result("No picture is missing: there is nothing to remove.")
    else:
        verb = "would be removed" if dry_run else "removed"
        terminal.print_result(f"{terminal.count(missing, 'picture')} {verb}.")


@library.command()
def history(
    name: Named = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=100_000, help="Number of decisions to show.")
    ] = 20,
    json: Json = False,
) -> None:
    """Show the last decisions, the latest first, with their batches for undo and redo."""
    with library_common.opened(name) as opened:
        _show(opened, opened.history(count), json, "There are no decisions yet.")


Batches = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="[BATCH]...",
        help="Batches, as `prototag library history` numbers them.",
        show_default=False,
    ),
]


@library.command()
def undo(batches: Batches = None, name: Named = None, json: Json = False) -> None:
    """Undo batches of decisions, which one command or one step on the page made together.

    Decisions that a later one overrides stay. The next sync removes tags that were written to
    sidecars meanwhile.
    """
    _change("undo", batches, name, json)


@library.command()
def redo(batches: Batches = None, name: Named = None, json: Json = False) -> None:
    """Redo undone decisions, except pairs with a later decision."""
    _change("redo", batches, name, json)


def _change(verb: str, batches: list[int] | None, name: Path | None, json: bool) -> None:
    """Undo or redo batches one by one."""
    with library_common.opened(name) as opened:
        if not batches:
            raise InputError(_name_a_batch(opened, verb))
        for batch in batches:
            change = getattr(opened, verb)(batch)
            _show(opened, change.decisions, json, "")
            words = f"{terminal.count(len(change.decisions), 'decision')} {_PAST[verb]}"
            if kept := len(change.overridden):
                words += (
                    f"; {terminal.count(kept, 'decision')} overridden by later ones, which stay"
                )
            terminal.print_info(f"Batch {batch}: {words}.")


_PAST = {"undo": "undone", "redo": "made again"}


def _name_a_batch(opened: Library, verb: str) -> str:
    """Ask for the number of a batch, with the latest possible one as an example."""
    undone = verb == "redo"
    last = next((one for one in opened.history(1000) if one.undone == undone), None)
    if last is None:
        return f"there is nothing to {verb}."
    what = f"{last.tag} {last.verdict}" if last.tag is not None else last.verdict
    return (
        f"name the batch, because others may have made decisions since: the last is {last.batch} "
        f"({terminal.shown(what)}, by {last.by}), so `prototag library {verb} {last.batch}`. "
        "`prototag library history` lists all."
    )


def _show(opened: Library, decided: list[Any], json: bool, nothing: str) -> None:
    from datetime import datetime

    places = {one.picture: opened.picture(one.picture).files for one in decided}
    paths = {
        number: paths_of_one[0] if paths_of_one else None for number, paths_of_one in places.items()
    }
    if json:
        for one in decided:
            print(jsonlib.dumps(library_common.decision(one, paths[one.picture])))
        return
    if not decided:
        terminal.print_info(nothing)
        return
    rows = []
    for one in decided:
        path = paths[one.picture]
        when = datetime.fromtimestamp(one.at).strftime("%Y-%m-%d %H:%M")
        verdict = one.verdict + " (undone)" * one.undone
        place = f"picture {one.picture}" if path is None else library_common.shown(path)
        rows.append([str(one.batch), when, verdict, terminal.shown(one.tag or ""), place, one.by])
    columns = ["Batch", "When", "Decision", "Tag", "Picture", "By"]
    terminal.table(columns, rows, right=["Batch"])


@library.command()
def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write.", show_default=False)
    ],
    name: Named = None,
    json: Json = False,
) -> None:
    """Write tags, locations and decisions of a library as JSON lines, also for other programs."""
    terminal.check_output(file, "an export of a library", [b'{"prototag":"library"'])
    with library_common.opened(name) as opened:
        number = opened.export(file)
    if json:
        print(jsonlib.dumps({"file": str(file), "pictures": number}))
    else:
        terminal.print_result(f"{terminal.count(number, 'picture')} written to {file}.")


@library.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that export wrote.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The library to create.")] = Path(
        library_common.NAME
    ),
    root: Annotated[
        Path | None,
        typer.Option(
            help="The new folder of the pictures, if they were moved.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Create a library from an export; `prototag library sync` then finds its pictures."""
    from prototag.library.library import Library

    with Library.restore(file, output, root=root) as restored:
        summary = restored.status()
    if json:
        print(jsonlib.dumps({"library": str(summary.path), **_facts(summary)}))
        return
    terminal.print_result(
        f"{terminal.count(summary.pictures, 'picture')} and "
        f"{terminal.count(summary.decisions, 'decision')} are in "
        f"{library_common.shown(summary.path)}."
    )
    folders = ", ".join(str(folder) for folder in summary.roots)
    terminal.print_result(f"`prototag library sync` looks for the pictures in {folders}.")
