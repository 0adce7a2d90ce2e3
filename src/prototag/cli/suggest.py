"""``prototag suggest``: show suggestions of a library, to accept or reject."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prototag.cli import library_common, terminal
from prototag.cli.general_option import language_of_system
from prototag.cli.library_common import Named
from prototag.cli.terminal import Cache, Jobs, Json, Quiet
from prototag.errors import TrainingError

if TYPE_CHECKING:
    from prototag.library.library import Library
    from prototag.library.types import Suggestion

RANKED_BY_SIMILARITY = (
    "Ranked by similarity. Accept and reject some, then ProtoTag can estimate probabilities."
)
RANKED_BY_NAME = (
    "No picture has this tag: ranked by its name. Accept some with `prototag accept`, then both "
    "rank."
)
GENERAL_WORDS = (
    "These are words that ProtoTag knows without your tags: `prototag accept TAG PICTURE` makes "
    "one your tag."
)


def suggest(
    library: Named = None,
    tag: Annotated[
        str | None,
        typer.Option(
            "--tag",
            "-t",
            help="Pictures for this tag, the most probable first. It may be a new tag that a "
            "single picture has, or one that no picture has: then its name ranks them.",
            show_default=False,
        ),
    ] = None,
    uncertain: Annotated[
        bool, typer.Option("--uncertain", help="Show the most informative suggestions first.")
    ] = False,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=100_000, help="Number of suggestions.")
    ] = 20,
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Suggest tags for pictures, without pairs that were decided on.

    Decide with `prototag accept TAG PICTURE` or `prototag reject TAG PICTURE`; the next suggestions
    use the decision. Only one of several near-duplicates, such as the frames of a burst, is shown.
    """
    with (
        terminal.progress() as progress,
        library_common.opened(library, jobs=jobs, cache=cache, progress=progress) as opened,
    ):
        started = opened.cold_start_estimate(tag) if tag else None
        is_by_name = tag is not None and started is None and opened.is_cold_start(tag)
        is_general = started is None and not is_by_name and not _has_model(opened, tag)
        if is_general:
            suggestions = opened.general_suggestions(limit=count, language=language_of_system())
        else:
            suggestions = opened.suggest(tag, uncertain=uncertain, limit=count)
        rows = []
        for one in suggestions:
            places = opened.picture(one.picture).files
            path = str(places[0]) if places else None
            alike = len(opened.near_duplicates(one.picture)) if one.group >= 0 else 1
            rows.append({**one._asdict(), "path": path, "alike": alike})
        not_learned = (
            not is_by_name
            and bool(suggestions and tag)
            and _is_not_learned(opened, suggestions[0].tag)
        )
    if json:
        for row in rows:
            print(jsonlib.dumps(row))
        return
    if not rows:
        what = f"the tag {tag!r}" if tag else "any picture"
        terminal.print_info(f"No suggestion for {what} is probable enough.")
        return
    _show(rows, suggestions)
    if started is not None and started.is_ranked_only:
        terminal.print_info(RANKED_BY_SIMILARITY)
    elif is_by_name:
        terminal.print_info(RANKED_BY_NAME)
    elif is_general:
        terminal.print_info(GENERAL_WORDS)
    elif not_learned:
        terminal.print_info(
            f"{terminal.shown(suggestions[0].tag)} is not reliable yet, so many of these may be "
            "wrong. Each decision improves it."
        )


def _has_model(opened: Library, tag: str | None) -> bool:
    """Train the first model; return False if there are too few tags, but words are known."""
    if opened.status().model is not None:
        return True
    try:
        opened.learn()
    except TrainingError:
        if tag is not None or not opened.knows_words:
            raise
        return False
    return True


def _is_not_learned(opened: Library, name: str) -> bool:
    view = next((tag for tag in opened.tags(text=name) if tag.name == name), None)
    return view is not None and not view.learned


def _show(rows: list[dict[str, Any]], suggestions: list[Suggestion]) -> None:
    table = []
    for row, one in zip(rows, suggestions, strict=True):
        path = row["path"]
        name = f"picture {one.picture}" if path is None else library_common.shown(Path(path))
        more = f" (+{row['alike'] - 1} alike)" if row["alike"] > 1 else ""
        table.append([terminal.shown(one.tag), f"{one.probability:.0%}", f"{name}{more}"])
    terminal.table(["Tag", "Probability", "Picture"], table, right=["Probability"])
