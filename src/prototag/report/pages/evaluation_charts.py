"""Charts of an evaluation, with captions."""

from __future__ import annotations

import numpy as np

from prototag.evaluation.evaluate import Evaluation
from prototag.report import (
    Column,
    Markup,
    Series,
    figure,
    figures,
    histogram,
    precision_recall,
    reliability,
    scatter,
    table,
)
from prototag.report.charts.bar_charts import bars
from prototag.report.formatting import last_level

BUCKETS = {"rare": "Rare third", "middle": "Middle third", "frequent": "Frequent third"}


def blocks(result: Evaluation) -> list[Markup]:
    """Return the charts that the evaluation has data for."""
    drawn = [_precision_recall(result), _reliability(result)]
    if result.applied.any():  # otherwise charts would show only zeros
        drawn += [_margins(result), _buckets(result), _by_frequency(result)]
    return [figures([one for one in drawn if one is not None])]


def _precision_recall(result: Evaluation) -> Markup:
    curve = result.curve
    numbers = result.figures
    # Above the highest thresholds most tags are applied to no picture, which counts as precision 0:
    # the mean would start near zero although every applied tag is correct.
    first = int(np.argmax(curve.precision))
    series = [
        Series(
            f"all tags together, area {curve.micro_area:.2f}",
            curve.micro_recall,
            curve.micro_precision,
        ),
        Series(
            f"mean over tags, area {curve.area:.2f}",
            curve.recall[first:],
            curve.precision[first:],
        ),
    ]
    any_applied = result.applied.any()
    point = (numbers["micro_recall"], numbers["micro_precision"]) if any_applied else None
    svg = precision_recall(
        series,
        title="Precision and recall for all thresholds",
        point=point,
        point_name="as applied",
    )
    return figure(
        svg,
        "Precision and recall",
        "From a few certain tags on the left to many on the right. "
        + "The dot marks the applied tags. " * bool(any_applied)
        + "The mean over tags starts at its best precision: at higher thresholds, most tags are "
        "applied to no picture.",
    )


def _reliability(result: Evaluation) -> Markup | None:
    measured = result.reliability
    if measured is None:
        return None
    used = np.flatnonzero(measured.pairs)
    rows = [
        [
            f"{10 * step} to {10 * step + 10}%",
            measured.expected[step],
            measured.observed[step],
            int(measured.pairs[step]),
        ]
        for step in used.tolist()
    ]
    columns: list[Column | str] = [
        "Estimated",
        Column("Mean estimate", "percent"),
        Column("Share correct", "percent"),
        Column("Pairs", "number"),
    ]
    svg = reliability(
        measured.expected,
        measured.observed,
        measured.pairs,
        title="Estimated probability and share of correct tags",
    )
    return figure(
        svg,
        "Are its probabilities right?",
        "On the dashed line they are exact; below it, they are too high. Whiskers are 95% "
        f"intervals. On average, estimate and outcome differ by {100 * measured.error:.1f} points.",
        data=table(columns, rows, sortable=False),
    )


def _margins(result: Evaluation) -> Markup:
    edges, present, absent = result.margins
    svg = histogram(
        edges,
        {"tags that are yours": present, "tags that are not": absent},
        title="Scores of tags that are yours and of tags that are not",
        x_label="Score minus the threshold of its tag",
        mark=0.0,
        mark_name="applied",
    )
    return figure(
        svg,
        "Separation of right and wrong tags",
        "Each group as shares of itself. Tags to the right of the line are applied; the less the "
        "two groups overlap, the better the scores separate them.",
    )


def _buckets(result: Evaluation) -> Markup | None:
    numbers = result.figures
    names = [name for name in BUCKETS if f"threshold_f1_{name}" in numbers]
    if not names:
        return None
    values = {
        "as applied": [numbers[f"threshold_f1_{name}"] for name in names],
        "best five tags": [numbers[f"top_f1_{name}"] for name in names],
    }
    svg = bars(
        [BUCKETS[name] for name in names],
        values,
        title="F1 of rare and frequent tags",
        percent=True,
    )
    return figure(
        svg,
        "Rare and frequent tags",
        "F1 of the means, with the tags divided into thirds by their frequency in training.",
    )


def _by_frequency(result: Evaluation) -> Markup | None:
    tested = [tag for tag in result.tags if tag.support]
    if len(tested) < 3:
        return None
    tested.sort(key=lambda tag: -tag.support)
    learned = all(tag.training_images for tag in tested)
    counts = [(tag.training_images if learned else None) or tag.support for tag in tested]
    svg = scatter(
        counts,
        [tag.f1 for tag in tested],
        names=[last_level(tag.name) for tag in tested],
        title="F1 of each tag by number of pictures",
        x_label="Training pictures with the tag" if learned else "Pictures with the tag",
        y_label="F1 of the tag",
        x_log=True,
        y_percent=True,
        y_limits=(0.0, 1.0),
    )
    return figure(svg, "Every tag", "Tags with more pictures are usually more accurate.")
