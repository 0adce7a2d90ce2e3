"""``prototag demo``: train, annotate, explain and evaluate on the drawings of the package."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prototag.cli import terminal
from prototag.cli.terminal import Cache, Jobs

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.assess import Assessment
    from prototag.metadata import Collected

SHOWN = 8  # pictures in the table
EXPLAINED = 2


def demo(
    folder: Annotated[
        Path, typer.Argument(help="Folder for the pictures, the model and the report.")
    ] = Path("prototag-demo"),
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Try ProtoTag on a collection of drawings that comes with it.

    Trains on most drawings, tags the others, explains the tags, and writes a report. Takes a minute
    or two.
    """
    import prototag.metadata as metadata
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.assess import assess
    from prototag.cli.evaluate import write_page

    began = time.monotonic()
    train, test = (unpacked(folder, part) for part in ("train", "test"))
    model = folder / "model.prototag"
    report = folder / "report.html"

    terminal.print_info(f"1. Training on the drawings in {train}")
    with terminal.progress() as progress:
        annotator = Annotator(
            crops="whole", n_jobs=jobs, cache=terminal.opened(cache), progress=progress
        )
        annotator.fit(train).save(model)
    learned = annotator.training_summary
    points = annotator.operating_points
    precision = terminal.percent(points.estimated_precision(points.default_threshold))
    terminal.print_info(
        f"   {points.learnable.sum()} of {learned.tags} tags from {learned.pictures:,} drawings. "
        f"Expected precision, by cross-validation: {precision}."
    )

    held = metadata.collect(test)
    terminal.print_info(f"\n2. Tagging {len(held.images):,} held-out drawings")
    names = [terminal.below(path, test) for path in held.images]
    annotator.extractor.progress = None
    with terminal.progress() as progress:
        assessment = assess(annotator, held.images, held.tags, names=names, progress=progress)
    _print_quality(assessment)

    terminal.print_info("\n3. Some of them, with applied tags and their own tags")
    chosen = _chosen(assessment)
    _annotate(annotator, held, chosen, test)

    terminal.print_info("\n4. An explanation of the tags of the first one")
    pages = _explain(annotator, [held.images[i] for i in chosen[:EXPLAINED]], folder)

    write_page(assessment, report, title="Accuracy on held-out drawings")
    terminal.print_info(f"\nDone in {time.monotonic() - began:.0f} s.")
    terminal.print_info(f"Accuracy report:     {report}")
    terminal.print_info(f"Explanations:        {', '.join(str(page) for page in pages)}")
    terminal.print_info(f"To tag drawings:     prototag annotate {test} -m {model}")


def unpacked(folder: Path, part: str) -> Path:
    """Unpack a part of the collection, unless an earlier run did."""
    from prototag.research.datasets import unpack_clipart

    target = folder / part
    if not (target / "metadata.jsonl").exists():
        unpack_clipart(target, part)
    return target


def _print_quality(assessment: Assessment) -> None:
    figures = assessment.result.figures
    terminal.print_info(
        f"   {terminal.percent(figures['micro_precision'])} of the applied tags are correct, and "
        f"{terminal.percent(figures['micro_recall'])} of all tags are applied. F1 is "
        f"{terminal.percent(figures['threshold_f1'])}."
    )


def _chosen(assessment: Assessment) -> list[int]:
    """Select pictures with several applied tags, evenly over the collection."""
    import numpy as np

    several = np.flatnonzero(assessment.result.applied.sum(axis=1) > 1)
    even = np.linspace(0, len(several) - 1, min(SHOWN, len(several))).astype(int)
    return [int(number) for number in several[even]]


def _annotate(annotator: Annotator, held: Collected, chosen: list[int], root: Path) -> None:
    images = held.images
    tags = held.tags
    rows = []
    for number, annotation in zip(
        chosen, annotator.annotate([images[i] for i in chosen]), strict=True
    ):
        given = ", ".join(f"{t.name} {terminal.percent(t.probability)}" for t in annotation.tags)
        rows.append([terminal.below(images[number], root), given, ", ".join(tags[number])])
    terminal.table(["Drawing", "Applied", "Its own tags"], rows)


def _explain(annotator: Annotator, images: list[Path], folder: Path) -> list[Path]:
    from prototag.cli.explain import page, show

    pages = []
    for number, image in enumerate(images, 1):
        explained = annotator.explain(image)
        if number == 1:
            terminal.print_info(f"   {image.name}:")
            show(annotator, explained[:2])
        path = folder / f"why-{number}.html"
        page(annotator, image, explained).write(path)
        pages.append(path)
    return pages
