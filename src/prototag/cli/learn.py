"""``prototag learn``: let a library learn from what was tagged and decided."""

from __future__ import annotations

import json as jsonlib
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prototag.cli import library_common, terminal
from prototag.cli.library_common import Named
from prototag.cli.terminal import Cache, Jobs, Json, Quiet
from prototag.cli.train import check_replaced

if TYPE_CHECKING:
    from prototag.library.library import Library
    from prototag.library.types import TagView, TrainingReport

NAMED = 8  # tags in a sentence


def learn(
    library: Named = None,
    full: Annotated[
        bool | None,
        typer.Option(
            "--full/--quick",
            help="Learn everything anew, or only what was decided since. If neither is given, "
            "everything when much has changed.",
            show_default=False,
        ),
    ] = None,
    models: Annotated[
        bool,
        typer.Option("--models", help="List the models that can come back, and learn nothing."),
    ] = False,
    back: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="Use an earlier model again. Decisions stay.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Also write what was learned as a model file, for `prototag annotate -m`.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001  (heard by its callback)
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Learn the tags of a library, and from every yes and no since.

    A few decisions are learned in a moment. Every full learning makes a model with a number, and
    `--back` brings an earlier one back. Ends with exit code 1 if no tag was learned.
    """
    terminal.check_output(output)
    if output is not None:
        check_replaced(output)
    with (
        terminal.progress() as progress,
        library_common.opened(library, jobs=jobs, cache=cache, progress=progress) as opened,
    ):
        if back is not None:
            opened.rollback(back)
        if models or back is not None:
            _list(opened, json)
            return
        learned = opened.learn(full=full)
        if output is not None:
            opened.annotator().save(output)
        if json:
            answer = {
                "model": learned.model._asdict(),
                "full": learned.full,
                "tags": learned.tags,
                "output": None if output is None else str(output),
            }
            print(jsonlib.dumps(answer))
        else:
            _say(opened, learned)
            if output is not None:
                terminal.out(f"The model is in {output}.")
        if learned.full and not any(tag.learned for tag in opened.tags()):
            raise typer.Exit(terminal.FAILED)  # so that no script goes on with it


def _list(opened: Library, json: bool) -> None:
    found = opened.models()
    if json:
        for model in found:
            print(jsonlib.dumps(model._asdict()))
        return
    if not found:
        terminal.say("The library has not learned anything yet: `prototag learn` does it.")
        return
    rows = [
        [
            f"{model.number}{' (in use)' if model.current else ''}",
            datetime.fromtimestamp(model.made).strftime("%Y-%m-%d %H:%M"),
            f"{model.pictures:,}",
            f"{model.tags:,}",
            f"{model.f1:.2f}",
        ]
        for model in found
    ]
    columns = ["Model", "Made", "Pictures", "Tags", "F1 promised"]
    terminal.table(columns, rows, right=columns[2:])


def _say(opened: Library, learned: TrainingReport) -> None:
    model = learned.model
    if learned.full:
        tags = opened.tags()
        learned_tags = sum(tag.learned for tag in tags)
        terminal.out(
            f"Model {model.number} has learned {learned_tags:,} of "
            f"{terminal.count(model.tags, 'tag')} from {terminal.count(model.pictures, 'picture')}."
        )
        _say_not_learned(tags)
    elif learned.tags:
        some = terminal.leaves(learned.tags[:NAMED])
        more = f" and {len(learned.tags) - NAMED:,} others" if len(learned.tags) > NAMED else ""
        terminal.out(f"Learned on: {some}{more}.")
    else:
        terminal.out("Nothing was decided since: there is nothing new to learn.")
    waiting = opened.status().waiting
    if waiting:
        terminal.out(f"{terminal.count(waiting, 'suggestion')} to look at: `prototag suggest`.")


def _say_not_learned(tags: list[TagView]) -> None:
    """Name the tags that have too few pictures, and those that were tried in vain."""
    missing = [tag for tag in tags if tag.own and not tag.learned and not tag.hidden]
    missing.sort(key=lambda tag: (tag.needed, tag.name))
    rare = [f"{terminal.shown(tag.name)} ({tag.needed:,} more)" for tag in missing if tag.needed]
    vain = [terminal.shown(tag.name) for tag in missing if not tag.needed]
    if vain:
        terminal.out(f"Not ranked better than by chance on held-out pictures: {_first(vain)}.")
    if rare:
        terminal.out(f"Not tried, on too few pictures: {_first(rare)}.")


def _first(names: list[str]) -> str:
    more = f", and {len(names) - NAMED:,} others" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
