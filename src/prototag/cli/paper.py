"""``prototag paper``: tables and figures of the paper, for its data sets or your own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prototag.cli import terminal
from prototag.cli.terminal import Cache, Jobs

if TYPE_CHECKING:
    from prototag.research.datasets import Collection

SOURCES = {"iaprtc12", "espgame", "corel5k", "flickr60k", "flickr125k", "folder"}


def paper(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Vectors in an .npz bundle (a.npz+b.npz joins two), or a data set as NAME:FOLDER "
            "with the name iaprtc12, espgame, corel5k, flickr60k, flickr125k or folder. The first "
            "source is studied in full; further ones give other vectors of the same images. "
            "Without any, the drawings that come with prototag are studied.",
            metavar="[SOURCE]...",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the report.")] = Path(
        "paper"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Run small studies only: one seed, whole pictures.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Compare only this annotator; may be repeated.")
    ] = None,
    study: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only this study beside the comparison: prototypes, sizes, family, networks, "
            "growth, or none; may be repeated."
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of random seeds.")] = None,
    images: Annotated[
        int | None,
        typer.Option(min=2, help="Train on at most so many images, drawn at random."),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name for a source in the report; may be repeated."),
    ] = None,
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Repeat the experiments of the paper: baselines, ablations, tables, figures and a report.

    An interrupted run continues where it stopped: finished trials are kept in the report's folder.
    """
    from prototag.engine.threads import count_threads
    from prototag.research.experiments import run

    crops = "whole" if quick else "whole+five"
    collections = [read(source, cache, jobs, crops) for source in sources or ["clipart"]]
    for place, called in enumerate(name or []):
        if place == len(collections):
            raise typer.BadParameter(
                f"--name {called!r} has no source: give at most one name per source."
            )
        collections[place] = replace(collections[place], name=called)
    for collection in collections:
        terminal.print_info(str(collection))
    with terminal.progress() as progress:
        results = run(
            collections,
            output,
            quick=quick,
            methods=only or None,
            only=[name for name in study if name != "none"] if study else None,
            seeds=None if seeds is None else range(seeds),
            images=images,
            n_jobs=count_threads(jobs),
            progress=progress,
        )
    rows = sorted(results["comparison"]["rows"], key=lambda row: -row["threshold_f1"])
    columns = ["annotator", "F1", "N+", "F1, five", "mAP", "ms per image"]
    terminal.table(columns, [_cells(row) for row in rows], right=columns[1:])
    terminal.print_info(f"The report is {output / 'report.html'}.")


def _cells(row: dict[str, Any]) -> list[str]:
    percent = ("threshold_f1", "top_f1", "mean_average_precision")
    f1, five, precision = (f"{100 * row[key]:.1f}" for key in percent)
    milliseconds = f"{row['microseconds_to_annotate'] / 1000:.2f}"
    return [row["method"], f1, f"{row['threshold_n_plus']:.0f}", five, precision, milliseconds]


def read(source: str, cache: Path | None, jobs: int, crops: str) -> Collection:
    """Load the collection of a source, with vectors."""
    from prototag.research import datasets

    kind, _, folder = source.partition(":")
    if source == "clipart":
        collection = datasets.clipart()
    elif kind in SOURCES and folder:
        collection = getattr(datasets, kind)(folder)
    elif all(Path(part).suffix == ".npz" for part in source.split("+")):
        return datasets.bundle(*source.split("+"))
    else:
        raise typer.BadParameter(
            f"{source!r} is neither an .npz bundle nor NAME:FOLDER with a NAME of "
            f"{', '.join(sorted(SOURCES))}."
        )
    if collection.X is not None or collection.images is None:
        return collection
    from prototag import FeatureExtractor

    extractor = FeatureExtractor(crops=crops, n_jobs=jobs, cache=cache or "user")
    features = extractor.extract(collection.images)
    for skipped in features.skipped:
        terminal.print_error(str(skipped))
    return collection.keep(features.kept).with_vectors(features.vectors)
