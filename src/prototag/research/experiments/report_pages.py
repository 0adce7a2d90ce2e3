"""Results as a page and as Markdown: the same tables, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototag.report import (
    Column,
    Fact,
    Markup,
    Page,
    Series,
    facts,
    figure,
    figures,
    histogram,
    lines,
    precision_recall,
    table,
)
from prototag.report import markdown as markdown_table
from prototag.research.experiments.published_results import BY_NETWORK, MILLISECONDS, reported

Result = dict[str, Any]
Table = tuple[list[Column | str], list[list[Any]]]
PROTOCOLS = (
    "F1 is the harmonic mean of mean precision and mean recall per tag, in %. “Threshold”: a tag "
    "is given above a threshold that was chosen on training images. “Five”: each image is given "
    "its five best tags, as the older literature does. The two do not compare with each other."
)


def page(results: Result) -> Page:
    """The report, self-contained."""
    n, n_test = results["images"]
    made = Page(
        f"Image annotation on {results['collection']}",
        lead=f"{n:,} training and {n_test:,} test images, {results['tags']} tags. {PROTOCOLS}",
        footer=_footer(results),
    )
    rows = results["comparison"]["rows"]
    made.section("In short", facts(_facts(rows)))
    made.section(
        "With a threshold",
        table(*comparison_table(results)),
        "Every annotator chose its settings and thresholds on training images. Ours, MCDL out of "
        "fold and the published code are means over seeds. Times are seconds of a processor: to "
        "fit, and from the network's vector to scores on one thread.",
    )
    made.section("Five tags each", table(*five_table(results)))
    made.section(
        "Rare and frequent tags",
        table(*frequency_table(results)),
        "F1 with a threshold, within the thirds of the tags by their frequency in training.",
    )
    if any("ours_minus_this" in row for row in rows):
        made.section(
            "How sure the lead is",
            table(*differences_table(results)),
            "Differences in points; 95 % of what other test images would give, by drawing them "
            "again 300 times, the same ones for both.",
        )
    columns, reports = published_table(results)
    if reports:
        made.section(
            "Beside the papers",
            table(columns, reports),
            "Reported figures come from other networks, features and protocols: they say where the "
            "literature stands, not who wins.",
        )
    made.section("Curves", figures([_curves(results), *_sizes(results)]))
    made.section("What coupling and the margin give", table(*family_table(results)))
    made.add(figures(_distributions(results)))
    made.section("By network", table(*networks_table(results)), _by_network())
    made.section("Time", figures(_growth(results)), table(*growth_table(results)), _milliseconds())
    return made


def markdown(results: Result) -> str:
    """The tables, for documents."""
    parts = [f"# Image annotation on {results['collection']}", PROTOCOLS]
    tables = {
        "With a threshold": comparison_table(results),
        "Five tags each": five_table(results),
        "Rare and frequent tags: F1 by thirds": frequency_table(results),
        "Ours minus each, points, with 95 % intervals": differences_table(results),
        "Beside the papers": published_table(results),
        "Prototypes": sizes_table(results),
        "UDL, CDL, MCDL": family_table(results),
        "By network": networks_table(results),
        "Time": growth_table(results),
    }
    for name, (columns, rows) in tables.items():
        if rows:
            parts += [f"## {name}", markdown_table(columns, rows)]
    return "\n\n".join([*parts, _footer(results)]) + "\n"


def comparison_table(results: Result) -> Table:
    columns: list[Column | str] = [
        "Annotator",
        "Vectors",
        Column("F1", "percent", bar=True),
        Column("P", "percent"),
        Column("R", "percent"),
        Column("N+", "number", 0),
        Column("mAP", "percent", bar=True),
        Column("fit, s", "number", 0, wide=True),
        Column("ms an image", "number", 2),
        Column("MB", "number", 1, wide=True),
    ]
    return columns, [
        [
            row["method"] + _fewer(row, results),
            row.get("vectors", ""),
            *(row[f"threshold_{what}"] for what in ("f1", "precision", "recall", "n_plus")),
            row["mean_average_precision"],
            row["seconds_to_fit"],
            row["microseconds_to_annotate"] / 1000,
            row.get("megabytes"),
        ]
        for row in sorted(results["comparison"]["rows"], key=lambda row: -row["threshold_f1"])
    ]


def five_table(results: Result) -> Table:
    columns: list[Column | str] = [
        "Annotator",
        Column("F1", "percent", bar=True),
        Column("P", "percent"),
        Column("R", "percent"),
        Column("N+", "number", 0),
    ]
    return columns, [
        [
            row["method"],
            *(row[f"top_{what}"] for what in ("f1", "precision", "recall", "n_plus")),
        ]
        for row in sorted(results["comparison"]["rows"], key=lambda row: -row["top_f1"])
    ]


def frequency_table(results: Result) -> Table:
    buckets = ("rare", "middle", "frequent")
    columns: list[Column | str] = ["Annotator", *(Column(name, "percent") for name in buckets)]
    return columns, [
        [row["method"], *(row.get(f"threshold_f1_{bucket}") for bucket in buckets)]
        for row in sorted(results["comparison"]["rows"], key=lambda row: -row["threshold_f1"])
    ]


def _fewer(row: Result, results: Result) -> str:
    fewer = row["images"][0] < results["images"][0]
    return f" ({row['images'][0]:,} training images)" if fewer else ""


def differences_table(results: Result) -> Table:
    rows = [row for row in results["comparison"]["rows"] if "ours_minus_this" in row]
    rows.sort(key=lambda row: row["ours_minus_this"]["f1"])

    def written(gap: Result, what: str) -> str:
        low, high = (100 * gap[f"{what}_{side}"] for side in ("low", "high"))
        return f"{100 * gap[what]:+.1f} ({low:+.1f} to {high:+.1f})"

    return ["Ours minus", "F1", "mAP"], [
        [row["method"], *(written(row["ours_minus_this"], what) for what in ("f1", "map"))]
        for row in rows
    ]


def published_table(results: Result) -> Table:
    columns: list[Column | str] = [
        "Annotator",
        Column("F1 reported", "number", 1),
        "Protocol",
        "Vectors",
        Column("ours, threshold", "percent"),
        Column("ours, five", "percent"),
    ]
    rows = []
    for row in results["comparison"]["rows"]:
        paper = reported(results["collection"], row["method"])
        if paper is not None:
            ours = [row["threshold_f1"], row["top_f1"]]
            rows.append([row["method"], paper.f1, paper.protocol, paper.vectors, *ours])
    return columns, sorted(rows, key=lambda row: -row[1])


def sizes_table(results: Result) -> Table:
    columns: list[Column | str] = [
        "Recipe",
        Column("prototypes", "number"),
        *(Column(name, "percent") for name in ("F1", "P", "R", "F1, five", "mAP")),
        Column("ms an image", "number", 2),
    ]
    return columns, [
        [
            name,
            row["n_prototypes"],
            *(row[f"threshold_{what}"] for what in ("f1", "precision", "recall")),
            row["top_f1"],
            row["mean_average_precision"],
            row["microseconds_to_annotate"] / 1000,
        ]
        for name, rows in results["sizes"]["series"].items()
        for row in rows
    ]


def family_table(results: Result) -> Table:
    return _plain_table("Recipe", "recipe", results["family"]["rows"])


def networks_table(results: Result) -> Table:
    columns, rows = _plain_table("Vectors", "vectors", results["networks"]["rows"])
    columns.insert(1, "Annotator")
    for row, found in zip(rows, results["networks"]["rows"], strict=True):
        row.insert(1, found["method"])
    return columns, rows


def _plain_table(name: str, key: str, rows: Sequence[Result]) -> Table:
    columns: list[Column | str] = [
        name,
        *(Column(what, "percent") for what in ("F1", "P", "R")),
        Column("N+", "number", 0),
        Column("F1, five", "percent"),
        Column("mAP", "percent"),
    ]
    return columns, [
        [
            row[key],
            *(row[f"threshold_{what}"] for what in ("f1", "precision", "recall", "n_plus")),
            row["top_f1"],
            row["mean_average_precision"],
        ]
        for row in rows
    ]


def growth_table(results: Result) -> Table:
    columns: list[Column | str] = [
        Column("images", "number"),
        Column("prototypes", "number"),
        Column("s an iteration", "number", 2),
        Column("MCDL, us an image", "number", 0),
        Column("2PKNN, us an image", "number", 0),
    ]
    keys = ("images", "n_prototypes", "seconds_an_iteration")
    times = ("microseconds_mcdl", "microseconds_2pknn")
    return columns, [[row[key] for key in (*keys, *times)] for row in results["growth"]["rows"]]


def _facts(rows: Sequence[Result]) -> list[Fact]:
    best = max(rows, key=lambda row: row["threshold_f1"])
    five = max(rows, key=lambda row: row["top_f1"])
    precise = max(rows, key=lambda row: row["mean_average_precision"])
    return [
        Fact(f"{100 * best['threshold_f1']:.1f}", "best F1 with a threshold", best["method"]),
        Fact(f"{100 * five['top_f1']:.1f}", "best F1 with five tags", five["method"]),
        Fact(f"{100 * precise['mean_average_precision']:.1f}", "best mAP", precise["method"]),
    ]


def _curves(results: Result) -> Markup:
    found = results["comparison"]["curves"]
    series = [
        Series(
            f"{curve['method']} ({100 * curve['area']:.1f})", curve["recall"], curve["precision"]
        )
        for curve in found
    ]
    drawn = precision_recall(series, title="Precision against recall")
    words = "Mean over tags while one threshold for all falls; the area in brackets."
    return figure(drawn, "Precision against recall", words)


def _sizes(results: Result) -> list[Markup]:
    drawn = []
    for what, name in (("f1", "F1"), ("precision", "Precision"), ("recall", "Recall")):
        series = [
            Series(
                recipe,
                [row["n_prototypes"] for row in rows],
                [row[f"threshold_{what}"] for row in rows],
            )
            for recipe, rows in results["sizes"]["series"].items()
        ]
        svg = lines(
            series,
            title=f"{name} against prototypes",
            x_label="Prototypes",
            y_label=name,
            x_log=True,
            y_percent=True,
        )
        drawn.append(figure(svg, f"{name} against the number of prototypes"))
    return drawn


def _distributions(results: Result) -> list[Markup]:
    return [
        figure(
            histogram(
                found["edges"],
                {"present": found["present"], "absent": found["absent"]},
                title=f"Scores of tags, {loss}",
                x_label="Score",
                mark=found["threshold"],
                mark_name="threshold",
            ),
            f"Scores of present and absent tags: {loss}",
        )
        for loss, found in results["family"]["scores"].items()
    ]


def _growth(results: Result) -> list[Markup]:
    rows = results["growth"]["rows"]
    images = np.array([row["images"] for row in rows])
    fit = [row["seconds_an_iteration"] for row in rows]
    annotators = {"MCDL": "microseconds_mcdl", "2PKNN": "microseconds_2pknn"}
    return [
        figure(
            lines(
                [Series("MCDL", images, fit)],
                title="Seconds an iteration",
                x_label="Training images",
                y_label="Seconds",
            ),
            "Learning: seconds an iteration",
            "Planted images, a prototype for every five.",
        ),
        figure(
            lines(
                [
                    Series(name, images, [row[key] for row in rows])
                    for name, key in annotators.items()
                ],
                title="Microseconds to annotate an image",
                x_label="Training images",
                y_label="Microseconds",
            ),
            "Annotating: microseconds an image, one thread",
        ),
    ]


def _by_network() -> str:
    listed = "; ".join(f"{name} {ours} ({near})" for name, (ours, near) in BY_NETWORK.items())
    return (
        f"The paper on IAPRTC-12, MCDL with a threshold (2PKNN with five tags): {listed}. Those "
        "networks' weights are not shipped; prototag extracts with them through timm."
    )


def _milliseconds() -> str:
    listed = "; ".join(f"{name} {ours} and {near}" for name, (ours, near) in MILLISECONDS.items())
    return f"The paper's milliseconds an image, MCDL and 2PKNN, on its own machine: {listed}."


def _footer(results: Result) -> str:
    machine = results["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    load = f", load {machine['load_average'][0]}" if "load_average" in machine else ""
    return (
        f"Made {results['made']} on {machine['cores']} cores ({machine['system']}{load}), Python "
        f"{machine['python']}, {versions}. Data: {results['checksum']}."
    )
