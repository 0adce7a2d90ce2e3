"""``prototag learn``: train a library on its tags and decisions."""

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

MAX_NAMES = 8  # in a sentence


def learn(
    library: Named = None,
    full: Annotated[
        bool | None,
        typer.Option(
            "--full/--quick",
            help="Retrain all tags, or only update the tags of new decisions. If neither is given, "
            "retrain when many decisions were made.",
            show_default=False,
        ),
    ] = None,
    models: Annotated[
        bool,
        typer.Option("--models", help="List the models of the library, without training."),
    ] = False,
    back: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Use an earlier model again. Decisions are kept.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Also write the model to a file, for `prototag annotate -m`.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Train a library on its tags and decisions.

    Updating the model with a few decisions takes less than a second. Each full training makes a
    numbered model; `--back` uses an earlier one again. Exit code 1 means that no tag is learnable.
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
            _print_report(opened, learned)
            if output is not None:
                terminal.print_result(f"The model is in {output}.")
        if learned.full and not any(tag.learned for tag in opened.tags()):
            raise typer.Exit(terminal.FAILED)  # so that no script uses the model


def _list(opened: Library, json: bool) -> None:
    models = opened.models()
    if json:
        for model in models:
            print(jsonlib.dumps(model._asdict()))
        return
    if not models:
        terminal.print_info("The library has no model yet: `prototag learn` trains one.")
        return
    rows = [
        [
            f"{model.number}{' (in use)' if model.current else ''}",
            datetime.fromtimestamp(model.trained_at).strftime("%Y-%m-%d %H:%M"),
            f"{model.pictures:,}",
            f"{model.tags:,}",
            f"{model.f1:.2f}",
        ]
        for model in models
    ]
    columns = ["Model", "Trained", "Pictures", "Tags", "Expected F1"]
    terminal.table(columns, rows, right=columns[2:])


def _print_report(opened: Library, learned: TrainingReport) -> None:
    model = learned.model
    if learned.full:
        terminal.print_result(
            f"Trained model {model.number} for {terminal.count(model.tags, 'tag')} on "
            f"{terminal.count(model.pictures, 'picture')}."
        )
        _print_not_learned(opened.tags())
    elif learned.tags:
        some = terminal.leaves(learned.tags[:MAX_NAMES])
        more = (
            f" and {len(learned.tags) - MAX_NAMES:,} others"
            if len(learned.tags) > MAX_NAMES
            else ""
        )
        terminal.print_result(f"Updated: {some}{more}.")
    else:
        terminal.print_result("There are no new decisions: the model is up to date.")
    suggestions = opened.status().suggestions
    if suggestions:
        terminal.print_result(
            f"{terminal.count(suggestions, 'suggestion')} to review: `prototag suggest`."
        )


def _print_not_learned(tags: list[TagView]) -> None:
    """List the tags that need more pictures, and those that are not learnable."""
    missing = [tag for tag in tags if tag.pictures and not tag.learned and not tag.hidden]
    missing.sort(key=lambda tag: (tag.pictures_needed, tag.name))
    rare = [
        f"{terminal.shown(tag.name)} ({tag.pictures_needed:,} more)"
        for tag in missing
        if tag.pictures_needed
    ]
    not_learnable = [terminal.shown(tag.name) for tag in missing if not tag.pictures_needed]
    if not_learnable:
        terminal.print_result(f"Not learnable yet, no better than chance: {_first(not_learnable)}.")
    if rare:
        terminal.print_result(f"Too few pictures to train: {_first(rare)}.")


def _first(names: list[str]) -> str:
    more = f", and {len(names) - MAX_NAMES:,} others" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
