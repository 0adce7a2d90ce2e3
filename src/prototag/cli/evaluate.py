"""``prototag evaluate``: accuracy of a model on tagged pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prototag.cli import cluster_option as clusters
from prototag.cli import terminal
from prototag.cli.cluster_option import Cluster
from prototag.cli.terminal import Cache, Column, Jobs, Json, Kind, Model, Quiet, TaggedPictures
from prototag.errors import InputError

if TYPE_CHECKING:
    from prototag.annotator.assess import Assessment
    from prototag.evaluation.evaluate import Evaluation

NAMED = 10  # unknown tags, and tags of yours that may be missing or wrong


def evaluate(
    context: typer.Context,
    source: TaggedPictures,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="The model, instead of -m.", show_default=False),
    ] = None,
    model: Model = Path(terminal.MODEL),
    html: Annotated[
        Path | None, typer.Option(help="Write a report, a page with pictures and curves.")
    ] = None,
    json: Json = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write all figures to this file, as JSON."),
    ] = None,
    kind: Kind = "auto",
    column: Column = None,
    research: Annotated[
        bool,
        typer.Option(
            "--research",
            help="Evaluate every tag, reliable or not, by the threshold of its best F1: the "
            "protocol of the literature.",
        ),
    ] = False,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
    jobs: Jobs = -1,
    cluster: Cluster = None,
    cache: Cache = None,
) -> None:
    """Compare a model with the tags that pictures already have.

    Shows the precision and recall of each tag, the tags that it is confused with, and your own tags
    that may be missing or wrong. Training pictures are evaluated by their cross-validated scores.
    """
    terminal.check_output(html, *terminal.PAGE)
    terminal.check_ending(output, "figures", ("", ".json"), "JSON (.json)")
    terminal.check_output(output, "an evaluation", [b'{\n "images": '])
    source, file = _in_order(source, file)
    model = terminal.named_model(context, file, model)
    import prototag.metadata as metadata
    from prototag.annotator.assess import assess, assess_vectors
    from prototag.features.vector_folder import VectorFolder, is_vector_folder

    annotator = terminal.load(model, jobs, cache, clusters.join(cluster) if cluster else None)
    if is_vector_folder(source):
        with terminal.progress() as progress:
            folder = VectorFolder(source)
            judged = assess_vectors(annotator, folder, research=research, progress=progress)
        _answer(judged, html, output, as_json=json)
        return
    collected = metadata.collect(source, kind=terminal.kinds(kind), column=column)
    for note in collected.notes:
        terminal.print_info(terminal.printable(note))
    tagged = collected.tagged()
    if not tagged.images:
        raise InputError(f"no picture of {source} has a tag: there is nothing to compare with.")
    root = source if source.is_dir() else source.parent
    names = [terminal.below(path, root) for path in tagged.images]
    with terminal.progress() as progress:
        assessment = assess(
            annotator,
            tagged.images,
            tagged.tags,
            names=names,
            research=research,
            progress=progress,
        )
    _answer(assessment, html, output, as_json=json)


def _in_order(source: Path, file: Path | None) -> tuple[Path, Path | None]:
    """Return pictures and model, which may be given in either order."""
    if terminal.is_model(source):
        if file is None or terminal.is_model(file):
            raise typer.BadParameter(f"{source} is a model: name the tagged pictures, too.")
        return file, source
    if file is not None and file.exists() and not terminal.is_model(file):
        raise typer.BadParameter(f"{file} is not a model: give a file that `prototag train` wrote.")
    return source, file


def _answer(
    assessment: Assessment, html: Path | None, output: Path | None, *, as_json: bool
) -> None:
    if html is not None:
        write_page(assessment, html)
    if output is not None:
        from prototag.storage.atomic_write import replacing

        with replacing(output) as file:
            file.write(_figures(assessment).encode("ascii"))
        terminal.print_info(f"All figures are in {output}.")
    elif as_json:
        print(_figures(assessment))
    if not as_json:
        show(assessment)
    if html is not None:
        terminal.print_info(f"\nThe report is {html}.")
    if assessment.skipped:
        for skipped in assessment.skipped:
            terminal.print_error(str(skipped))
        raise typer.Exit(terminal.SOME_FAILED)


def write_page(assessment: Assessment, path: Path, *, title: str = "") -> None:
    """Write the report as one file."""
    from prototag.report.pages import evaluation_page

    page = evaluation_page(
        assessment.result,
        title=title,
        pictures=assessment.pictures,
        prototypes=assessment.prototypes,
    )
    page.write(path)


def _figures(assessment: Assessment) -> str:
    import json

    return json.dumps(assessment.to_dict(), indent=1)


def show(assessment: Assessment) -> None:
    """Print the figures as tables."""
    result = assessment.result
    figures = result.figures
    compared = f"{terminal.count(len(result.images), 'picture')} compared"
    if assessment.n_trained_on:
        compared += f", {assessment.n_trained_on:,} of them by cross-validated scores"
    terminal.print_info(f"{compared}.")
    if assessment.unknown_tags:
        names = ", ".join(
            f"{tag} ({n})" for tag, n in list(assessment.unknown_tags.items())[:NAMED]
        )
        more = len(assessment.unknown_tags) - NAMED
        rest = f" and {more:,} more" if more > 0 else ""
        terminal.print_info(f"The model does not know these tags of yours: {names}{rest}.")
    if result.applied.any():
        terminal.print_info(
            f"{terminal.percent(figures['micro_precision'])} of the applied tags are yours, and "
            f"{terminal.percent(figures['micro_recall'])} of your tags are applied. F1 is "
            f"{terminal.percent(figures['threshold_f1'])}, from precision and recall averaged over "
            f"{_averaged(result)}.\n"
        )
    else:
        terminal.print_info(
            "No tag is applied: none is reliable enough. --research applies tags anyway.\n"
        )
    rows = [tag for tag in result.tags if tag.support]
    rows.sort(key=lambda tag: (-tag.support, tag.name))
    terminal.table(
        ["Tag", "Pictures", "Applied", "Precision", "Recall", "Confused with"],
        [
            [
                terminal.shown(tag.name),
                f"{tag.support:,}",
                f"{tag.applied:,}",
                terminal.percent(tag.precision) if tag.applied else "-",
                terminal.percent(tag.recall),
                terminal.leaves(other.name for other in tag.confused),
            ]
            for tag in rows
        ],
        right=["Pictures", "Applied", "Precision", "Recall"],
    )
    doubts = (
        ("Tags that may be missing, the most probable first:", result.missing),
        ("Tags that may be wrong, the least probable first:", result.wrong),
    )
    for heading, suspects in doubts:
        if suspects and terminal.is_terminal():
            terminal.print_result()
            terminal.print_result(heading)
            terminal.table(
                ["Tag", "Probability", "Picture"],
                [
                    [
                        terminal.shown(result.tags[s.tag].name),
                        terminal.percent(s.probability),
                        result.images[s.image],
                    ]
                    for s in suspects[:NAMED]
                ],
                right=["Probability"],
            )


def _averaged(result: Evaluation) -> str:
    """Describe the tags of the mean, which includes tags without pictures."""
    words = f"all {terminal.count(len(result.tags), 'tag')} of the model"
    absent = sum(not tag.support for tag in result.tags)
    return words + f", {absent:,} of which no picture has" * bool(absent)
