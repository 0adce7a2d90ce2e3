"""``prototag train``: learn the tags of a collection."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prototag.cli import console
from prototag.cli.console import Cache, Jobs, Json

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.metadata import Collected

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
SHOWN = 10  # of a list that may be long


def seconds(text: str) -> float:
    """``90s``, ``10m``, ``1.5h`` or plain seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text.lower())
    if not match or not float(match[1]):
        raise typer.BadParameter(f"{text!r} is no time: give for example 90s, 10m or 1h.")
    return float(match[1]) * _UNITS[match[2]]


def train(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder of tagged pictures, or a list (CSV, JSON lines).", show_default=False
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model to write.")] = Path(
        console.MODEL
    ),
    budget: Annotated[
        str | None,
        typer.Option(help="Time for tuning, such as 10m or 1h; without, none is spent on it."),
    ] = None,
    least: Annotated[
        int, typer.Option(min=2, help="Leave out tags with fewer pictures than this.")
    ] = 5,
    kind: Annotated[
        str,
        typer.Option(
            help="Where tags are: auto, or some of xmp, embedded, listing, text, folders."
        ),
    ] = "auto",
    column: Annotated[
        str | None, typer.Option(help="The column of tags in a list, if unusually named.")
    ] = None,
    hierarchy: Annotated[
        Literal["path", "leaf"],
        typer.Option(help="Keep animal|cat as it is (path), or learn cat (leaf)."),
    ] = "path",
    crops: Annotated[
        Literal["whole+five", "whole", "five", "ten"],
        typer.Option(help="Regions of a picture that the network sees; whole is six times faster."),
    ] = "whole+five",
    thumbnails: Annotated[
        bool, typer.Option(help="Keep small copies of the pictures in the model, to explain with.")
    ] = True,
    json: Json = False,
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Learn the tags of your pictures.

    Tags are read from XMP sidecars, from keywords inside the files (XMP, IPTC), from a
    metadata.jsonl or CSV list, from a .txt beside each picture, or else from the names of folders.
    Pictures are only read. Says what it found, what it left out, and how well each tag is learned,
    judged on pictures that were left out in turn.
    """
    time = None if budget is None else seconds(budget)
    _check_output(output)
    from prototag import metadata
    from prototag.annotator.annotator import Annotator
    from prototag.cli import draw

    kinds = kind if kind == "auto" else [part.strip() for part in kind.split(",")]
    with draw.progress() as progress:
        found = metadata.collect(
            source, kind=kinds, column=column, hierarchy=hierarchy, progress=progress
        )
    _say_found(found)
    with draw.progress() as progress:
        annotator = Annotator(
            crops=crops,
            n_jobs=jobs,
            cache=console.opened(cache),
            least=least,
            budget=time,
            keep_thumbnails=thumbnails,
            progress=progress,
        ).fit(found)
    _say_learned(annotator)
    annotator.save(output)
    console.tag_table(annotator, as_json=json)
    _warn(annotator)
    size = os.path.getsize(output) / 1e6
    console.say(f"\nThe model is {output} ({size:.1f} MB). Tag pictures with it:")
    console.say(f"  prototag annotate PATH... -m {output}")


def _check_output(output: Path) -> None:
    """Refuse before an hour of work what would fail after it."""
    folder = output.parent
    if not folder.is_dir():
        raise typer.BadParameter(f"the folder {folder} does not exist: make it, or give another.")
    if not os.access(folder, os.W_OK):
        raise typer.BadParameter(f"the folder {folder} cannot be written: give another.")
    if output.exists():
        from prototag.storage import modelfile

        modelfile.read_header(output)  # only a model gives way to a model


def _say_found(found: Collected) -> None:
    for note in found.notes:
        console.say(console.printable(note))
    _list("could not be read and is left out", found.problems)


def _say_learned(annotator: Annotator) -> None:
    learned = annotator.learned
    _list("pictures cannot be read", [str(skipped) for skipped in learned.skipped])
    if learned.untagged:
        console.say(f"{learned.untagged:,} pictures have no tag to learn and are left out.")
    if learned.too_rare:
        rare = sorted(learned.too_rare.items(), key=lambda item: (-item[1], item[0]))
        names = [f"{tag} ({count})" for tag, count in rare]
        _list(f"tags are too rare (fewer than {annotator.least} pictures)", names, inline=True)
    f1 = annotator.tagger.choices_["out_of_fold_f1"]
    console.say(
        f"Learned {learned.tags:,} tags from {learned.pictures:,} pictures. On pictures left out "
        f"in turn: F1 {100 * f1:.0f} %.\n"
    )


def _list(what: str, items: list[str], *, inline: bool = False) -> None:
    if not items:
        return
    shown = [console.printable(item) for item in items[:SHOWN]]
    more = f"{len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
    if inline:
        console.say(f"{len(items):,} {what}: {', '.join([*shown, *([more] if more else [])])}.")
        return
    console.say(f"{len(items):,} {what}:")
    for line in [*shown, *([f"... and {more}"] if more else [])]:
        console.say(f"  {line}")


def _warn(annotator: Annotator) -> None:
    weak = [annotator.tags[number] for number in annotator.evidence.weak.nonzero()[0]]
    if weak:
        console.say()
        _list("tags could not be learned and will hardly ever be given right", weak, inline=True)
