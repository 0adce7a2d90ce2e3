"""Evaluation page for the person whose tags a model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prototag.annotator.types import Prototype
from prototag.evaluation.evaluate import Evaluation
from prototag.report import Column, Fact, Markup, Page, Thumbnails, details, facts, paragraph, table
from prototag.report.contact_sheet import Mark, chip
from prototag.report.formatting import last_level, percent, tag_name
from prototag.report.pages import disagreements, evaluation_charts
from prototag.report.pages.prototypes import prototype_sheet

if TYPE_CHECKING:
    from prototag.images.decode import Source

TITLE = "How well it tags your pictures"
SHEET_PICTURES = 12  # of each kind
MIN_PICTURES = 5  # for listing a tag among the best
MAX_LISTED_TAGS = 8  # among the best, and among those that are never found


def evaluation_page(
    result: Evaluation,
    *,
    title: str = "",
    pictures: Sequence[Source | None] | None = None,
    prototypes: Sequence[Prototype] = (),
) -> Page:
    """Return the report of an evaluation.

    Parameters
    ----------
    result : result of :func:`prototag.evaluation.evaluate`
    title : headline, by default ``TITLE``
    pictures : a source for each image, in their order; without them the page has no pictures
    prototypes : training pictures that others are compared with, most important first
    """
    if pictures is not None and len(pictures) != len(result.images):
        raise ValueError(
            f"{len(pictures)} pictures for {len(result.images)} images: give one for each, or None."
        )
    small = Thumbnails()
    page = Page(title or TITLE, lead=_lead(result))
    page.section("Summary", *_summary(result))
    if pictures is not None:
        page.section("Pictures", *disagreements.sheets(result, pictures, small, SHEET_PICTURES))
    if result.missing or result.wrong:
        page.section("Your own tags", *disagreements.suspects(result, pictures, small))
    page.section("Curves", *evaluation_charts.blocks(result))
    if prototypes:
        page.section(
            "Prototypes",
            "New pictures are compared with these, and get tags from those that they resemble. The "
            "number beside a tag is its weight in the prototype.",
            prototype_sheet(prototypes, small),
        )
    page.section("Tag by tag", *_by_tag(result))
    page.section("How to read this", *_terms())
    return page


def _lead(result: Evaluation) -> str:
    return (
        f"{len(result.images):,} pictures with {len(result.tags):,} different tags: the "
        "tags that ProtoTag applied, compared with your own tags."
    )


def _summary(result: Evaluation) -> list[Markup | str]:
    if not result.applied.any():
        return _nothing(result)
    numbers = result.figures
    n = len(result.images)
    applied = int(result.applied.sum())
    present = int(result.present.sum())
    correct = int((result.applied & result.present).sum())
    recalled_tags = int(numbers["threshold_n_plus"])
    known = sum(tag.support > 0 for tag in result.tags)
    shown = [
        Fact(
            percent(numbers["micro_precision"]),
            "of the applied tags are yours, too",
            f"{correct:,} of {applied:,}",
        ),
        Fact(
            percent(numbers["micro_recall"]),
            "of your tags were applied",
            f"{correct:,} of {present:,}",
        ),
        Fact(f"{recalled_tags:,} of {known:,}", "tags were applied correctly at least once"),
        *_expected(result),
    ]
    words = (
        f"On average, ProtoTag applied {applied / n:.1f} tags to a picture; you gave it "
        f"{present / n:.1f}."
    )
    if result.missing or result.wrong:
        words += " Where these differ, either may be right: see “Your own tags”."
    literature = details("Figures by the protocols of the literature", _protocols(result))
    return [facts(shown), words, *_well_known(result), literature]


def _nothing(result: Evaluation) -> list[Markup | str]:
    """Return the summary if no tag was applied, so that precision is undefined."""
    shown = [
        Fact("No tags", "were applied", "none was reliable enough"),
        Fact(f"{result.present.sum() / len(result.images):.1f}", "tags per picture are yours"),
        *_expected(result),
    ]
    words = (
        "More tagged pictures, with complete tags, make it more reliable. The percentages below "
        "are the estimated probabilities of the tags."
    )
    return [
        facts(shown),
        words,
        details("Figures by the protocols of the literature", _protocols(result)),
    ]


def _expected(result: Evaluation) -> list[Fact]:
    """Compare the estimated with the actual precision of likely tags."""
    if result.probabilities is None:
        return []
    likely = result.probabilities >= 0.5
    if not likely.any():
        return []
    expected = float(result.probabilities[likely].mean())
    actual = float(result.present[likely].mean())
    return [
        Fact(
            percent(actual),
            f"were right; the estimate was {percent(expected)}",
            f"{np.count_nonzero(likely):,} tags with a probability of {percent(0.5)} or more",
        )
    ]


def _well_known(result: Evaluation) -> list[Markup]:
    """List the tags with the best F1, and those that are never found."""
    tested = [tag for tag in result.tags if tag.support]
    # A tag found on a single picture counts only if no tag has more pictures.
    enough = min(MIN_PICTURES, max((tag.support for tag in tested), default=0))
    often = [tag for tag in tested if tag.support >= enough]
    best = sorted(often, key=lambda tag: (-tag.f1, -tag.support))[:MAX_LISTED_TAGS]
    never = [tag for tag in tested if not tag.correct]
    never.sort(key=lambda tag: -tag.support)
    rows = []
    if best and best[0].correct:
        marks = [chip(Mark(tag.name, note=percent(tag.f1))) for tag in best if tag.correct]
        rows.append(paragraph("Most accurate (F1): ", *_spaced(marks)))
    if never:
        marks = [chip(Mark(tag.name)) for tag in never[:MAX_LISTED_TAGS]]
        more = len(never) - len(marks)
        rest = f" and {more:,} more" if more else ""
        rows.append(paragraph("Never applied correctly: ", *_spaced(marks), rest))
    return rows


def _spaced(parts: Sequence[Markup]) -> list[Markup | str]:
    return [piece for part in parts for piece in (part, " ")]


def _protocols(result: Evaluation) -> Markup:
    numbers = result.figures
    measures = [("precision", "Precision"), ("recall", "Recall"), ("f1", "F1")]
    measures += [
        (f"f1_{bucket}", f"F1, {bucket} tags") for bucket in ("rare", "middle", "frequent")
    ]
    rows = [
        [name, numbers[f"threshold_{measure}"], numbers[f"top_{measure}"]]
        for measure, name in measures
        if f"threshold_{measure}" in numbers
    ]
    rows.append(["Mean average precision", numbers["mean_average_precision"], None])
    columns: list[Column | str] = [
        "Mean over tags",
        Column("As applied", "percent"),
        Column("Best five", "percent"),
    ]
    return table(
        columns,
        rows,
        caption="F1 is the harmonic mean of mean per-tag precision and mean per-tag recall.",
        sortable=False,
    )


def _by_tag(result: Evaluation) -> list[Markup | str]:
    trained = any(tag.training_images is not None for tag in result.tags)
    columns: list[Column | str] = [
        "Tag",
        *([Column("Trained on", "number", wide=True)] if trained else []),
        Column("Pictures", "number"),
        Column("Applied", "number", wide=True),
        Column("Precision", "percent", 0, bar=True),
        Column("Recall", "percent", 0, bar=True),
        Column("F1", "percent", 0, bar=True),
        Column("Ranking (AP)", "percent", 0, wide=True),
        Column("Wrongly applied to pictures with", wide=True),
    ]
    rows = []
    for tag in sorted(result.tags, key=lambda tag: (-tag.support, -tag.f1)):
        confused = [f"{last_level(one.name)} ({one.images})" for one in tag.confused]
        rows.append(
            [
                tag_name(tag.name),
                *([tag.training_images] if trained else []),
                tag.support,
                tag.applied,
                tag.precision if tag.applied else None,
                tag.recall if tag.support else None,
                tag.f1 if tag.support else None,
                tag.average_precision,
                ", ".join(confused),
            ]
        )
    words = (
        "Pictures: how many you gave the tag. Precision: the share of applied tags that are yours. "
        "Recall: the share of your tags that was applied. The last column lists the own tags of "
        "pictures that got the tag by mistake."
    )
    return [words, table(columns, rows, caption="Every tag, the most frequent first")]


def _terms() -> list[Markup | str]:
    return [
        "ProtoTag applies a tag if it is probable enough and reliable. A tag counts as right if "
        "you gave it, too. People forget tags, so some of those that count as wrong are right.",
        "Precision: the share of applied tags that are right. Recall: the share of your tags that "
        "was applied. F1: their harmonic mean, which is high only if both are.",
        "Average precision: how well pictures with a tag are ranked before others, without any "
        "threshold. Probabilities are calibrated on held-out training pictures.",
    ]
