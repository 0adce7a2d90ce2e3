"""``prototag demo``: everything on the collection inside the package, pictures to report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prototag.cli import console
from prototag.cli.console import Cache, Jobs

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.assess import Assessment
    from prototag.metadata import Collected

SHOWN = 8  # pictures that are annotated before your eyes
EXPLAINED = 2


def demo(
    folder: Annotated[
        Path, typer.Argument(help="Where pictures, model and report are put.")
    ] = Path("prototag-demo"),
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Learn an embedded collection of drawings, tag others, explain them, write a report.

    Takes a minute or two, needs nothing, and leaves a folder to go on playing with.
    """
    from prototag import metadata
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.assess import assess
    from prototag.cli import draw
    from prototag.cli.evaluate import write_page

    began = time.monotonic()
    train, test = (unpacked(folder, part) for part in ("train", "test"))
    model, report = folder / "model.prototag", folder / "report.html"

    console.say(f"1. Learning from the drawings in {train}")
    with draw.progress() as progress:
        annotator = Annotator(
            crops="whole", n_jobs=jobs, cache=console.opened(cache), progress=progress
        )
        annotator.fit(train).save(model)
    f1 = annotator.tagger.choices_["out_of_fold_f1"]
    learned = annotator.learned
    console.say(
        f"   {learned.tags} tags from {learned.pictures:,} drawings; it expects F1 {f1:.2f}."
    )

    held = metadata.collect(test)
    console.say(f"\n2. Scoring {len(held.images):,} drawings that it has not seen")
    names = [console.below(path, test) for path in held.images]
    annotator.extractor.progress = None
    with draw.progress() as progress:
        assessment = assess(annotator, held.images, held.tags, names=names, progress=progress)
    _say_quality(assessment)

    console.say("\n3. Tagging some of them (with their own tags)")
    chosen = _chosen(assessment)
    _annotate(annotator, held, chosen, test)

    console.say("\n4. Why it gave them")
    pages = _explain(annotator, [held.images[i] for i in chosen[:EXPLAINED]], folder)

    write_page(assessment, report, title="How well it tags drawings it has not seen")
    console.say(f"\nDone in {time.monotonic() - began:.0f} s.")
    console.say(f"The report:  {report}")
    console.say(f"Why, pages:  {', '.join(str(page) for page in pages)}")
    console.say(f"Go on:       prototag annotate {test} -m {model}")


def unpacked(folder: Path, part: str) -> Path:
    """A part of the collection as files, unless an earlier run has put it there."""
    from prototag.research.datasets import unpack_clipart

    target = folder / part
    if not (target / "metadata.jsonl").exists():
        unpack_clipart(target, part)
    return target


def _say_quality(assessment: Assessment) -> None:
    figures = assessment.result.figures
    console.say(
        f"   Of the tags given {console.percent(figures['micro_precision'])} are right; it finds "
        f"{console.percent(figures['micro_recall'])} of all. F1 of the means over tags: "
        f"{figures['threshold_f1']:.2f}."
    )


def _chosen(assessment: Assessment) -> list[int]:
    """Pictures with several tags, right and not so right, from all over the collection."""
    import numpy as np

    several = np.flatnonzero(assessment.result.given.sum(axis=1) > 1)
    even = np.linspace(0, len(several) - 1, min(SHOWN, len(several))).astype(int)
    return several[even].tolist()


def _annotate(annotator: Annotator, held: Collected, chosen: list[int], root: Path) -> None:
    images, tags = held.images, held.tags
    rows = []
    for number, found in zip(chosen, annotator.annotate([images[i] for i in chosen]), strict=True):
        given = ", ".join(f"{t.name} {console.percent(t.probability)}" for t in found.tags)
        rows.append([console.below(images[number], root), given, ", ".join(tags[number])])
    console.table(["Drawing", "Given", "Its tags"], rows)


def _explain(annotator: Annotator, images: list[Path], folder: Path) -> list[Path]:
    from prototag.cli.explain import SIMILAR, page, rows

    pages = []
    for number, image in enumerate(images, 1):
        found = annotator.explain(image)
        if number == 1:
            columns = ["Tag", "Likely", "Share", "From", "With the tags"]
            console.say(f"   {image.name}:")
            console.table(columns, rows(found[:2]), right=["Share"])
        path = folder / f"why-{number}.html"
        page(image, found, annotator.similar(image, SIMILAR)).write(path)
        pages.append(path)
    return pages
