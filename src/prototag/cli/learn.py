"""``prototag learn``: let a library learn from what was tagged and decided."""

from __future__ import annotations

import json as jsonlib
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prototag.cli import console, libraries
from prototag.cli.console import Cache, Jobs, Json, Quiet
from prototag.cli.libraries import Named
from prototag.cli.train import check_replaced

if TYPE_CHECKING:
    from prototag.library.library import Library
    from prototag.library.results import Learned, TagView

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
    `--back` brings an earlier one back.
    """
    console.check_output(output)
    if output is not None:
        check_replaced(output)
    with (
        console.progress() as progress,
        libraries.opened(library, jobs=jobs, cache=cache, progress=progress) as opened,
    ):
        if back is not None:
            opened.go_back(back)
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
            return
        _say(opened, learned)
        if output is not None:
            console.out(f"The model is in {output}.")


def _list(opened: Library, json: bool) -> None:
    found = opened.models()
    if json:
        for model in found:
            print(jsonlib.dumps(model._asdict()))
        return
    if not found:
        console.say("The library has not learned anything yet: `prototag learn` does it.")
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
    console.table(columns, rows, right=columns[2:])


def _say(opened: Library, learned: Learned) -> None:
    model = learned.model
    if learned.full:
        console.out(
            f"Model {model.number} has learned {console.count(model.tags, 'tag')} from "
            f"{console.count(model.pictures, 'picture')}."
        )
        _say_not_learned(opened.tags())
    elif learned.tags:
        some = console.leaves(learned.tags[:NAMED])
        more = f" and {len(learned.tags) - NAMED:,} others" if len(learned.tags) > NAMED else ""
        console.out(f"Learned on: {some}{more}.")
    else:
        console.out("Nothing was decided since: there is nothing new to learn.")
    waiting = opened.status().waiting
    if waiting:
        console.out(f"{console.count(waiting, 'suggestion')} to look at: `prototag suggest`.")


def _say_not_learned(tags: list[TagView]) -> None:
    """Name the tags that have too few pictures, and those that were tried in vain."""
    missing = [tag for tag in tags if tag.own and not tag.learned and not tag.hidden]
    missing.sort(key=lambda tag: (tag.needed, tag.name))
    rare = [f"{console.shown(tag.name)} ({tag.needed:,} more)" for tag in missing if tag.needed]
    vain = [console.shown(tag.name) for tag in missing if not tag.needed]
    if vain:
        console.out(f"Seen, but not told apart better than by chance yet: {_first(vain)}.")
    if rare:
        console.out(f"Not tried, on too few pictures: {_first(rare)}.")


def _first(names: list[str]) -> str:
    more = f", and {len(names) - NAMED:,} others" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
