"""``prototag evaluate``: how good a model is on pictures that a person tagged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prototag.cli import console
from prototag.cli.console import Cache, Jobs, Model

if TYPE_CHECKING:
    from prototag.annotator.assess import Assessment


def evaluate(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder of tagged pictures, or a list (CSV, JSON lines).", show_default=False
        ),
    ],
    model: Model = Path(console.MODEL),
    html: Annotated[Path | None, typer.Option(help="Write a page with all of it.")] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write all figures; - to standard output.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="Where tags are: auto, or some of xmp, embedded, listing, text, folders."
        ),
    ] = "auto",
    column: Annotated[
        str | None, typer.Option(help="The column of tags in a list, if unusually named.")
    ] = None,
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Compare a model with the tags that pictures already have.

    Shows precision and recall of each tag, what it is confused with, and which of your own tags may
    be missing or wrong. Pictures that the model learned from are judged as if they had been left
    out.
    """
    from prototag import metadata
    from prototag.annotator.assess import assess
    from prototag.cli import draw

    annotator = console.load(model, jobs, cache)
    kinds = kind if kind == "auto" else [part.strip() for part in kind.split(",")]
    found = metadata.collect(source, kind=kinds, column=column)
    for note in found.notes:
        console.say(console.printable(note))
    tagged = found.tagged()
    if not tagged.images:
        raise ValueError(f"no picture of {source} has a tag: there is nothing to compare with.")
    root = source if source.is_dir() else source.parent
    names = [console.below(path, root) for path in tagged.images]
    with draw.progress() as progress:
        assessment = assess(annotator, tagged.images, tagged.tags, names=names, progress=progress)
    if html is not None:
        write_page(assessment, html)
    if json is not None:
        _write_json(assessment, json)
    if json is None or str(json) != "-":
        show(assessment)
    if html is not None:
        console.say(f"\nThe report is {html}.")
    if assessment.skipped:
        for skipped in assessment.skipped:
            console.complain(str(skipped))
        raise typer.Exit(console.SOME_FAILED)


def write_page(assessment: Assessment, path: Path, *, title: str | None = None) -> None:
    """The report as one file."""
    from prototag.report.pages import evaluation_page

    words = {} if title is None else {"title": title}
    page = evaluation_page(
        assessment.result,
        pictures=assessment.pictures,
        prototypes=assessment.prototypes,
        **words,  # type: ignore[arg-type]
    )
    page.write(path)


def _write_json(assessment: Assessment, path: Path) -> None:
    import json

    from prototag.storage.atomic import replacing

    whole = {**assessment.result.to_json(), "unknown_tags": assessment.unknown}
    text = json.dumps(whole, indent=1)
    if str(path) == "-":
        print(text)
        return
    with replacing(path) as file:
        file.write(text.encode("ascii"))


def show(assessment: Assessment) -> None:
    """The figures as tables."""
    result = assessment.result
    figures = result.figures
    console.say(
        f"{len(result.images):,} pictures compared"
        + (
            f", {assessment.seen:,} of them learned from and judged as left out"
            * bool(assessment.seen)
        )
        + "."
    )
    if assessment.unknown:
        names = ", ".join(f"{tag} ({n})" for tag, n in list(assessment.unknown.items())[:10])
        console.say(f"{len(assessment.unknown):,} of your tags the model never learned: {names}.")
    console.say(
        f"Of the tags given {console.percent(figures['micro_precision'])} are yours; of yours "
        f"{console.percent(figures['micro_recall'])} are given. F1 of the means over tags: "
        f"{console.percent(figures['threshold_f1'])}.\n"
    )
    rows = [tag for tag in result.tags if tag.support]
    rows.sort(key=lambda tag: (-tag.support, tag.name))
    console.table(
        ["Tag", "Pictures", "Given", "Precision", "Recall", "Confused with"],
        [
            [
                tag.name,
                f"{tag.support:,}",
                f"{tag.given:,}",
                console.percent(tag.precision),
                console.percent(tag.recall),
                ", ".join(other.name for other in tag.confused),
            ]
            for tag in rows
        ],
        right=["Pictures", "Given", "Precision", "Recall"],
    )
    for what, suspects in (("missing", result.missing), ("wrong", result.wrong)):
        if suspects and console.is_terminal():
            console.out(f"\nTags of yours that may be {what}, the likeliest first:")
            console.table(
                ["Tag", "Likely", "Picture"],
                [
                    [
                        result.tags[s.tag].name,
                        console.percent(s.probability),
                        result.images[s.image],
                    ]
                    for s in suspects[:10]
                ],
            )
