"""Reports of the experiments: an HTML page with figures, and Markdown with the same tables."""

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
    "is assigned above a threshold that was selected on training images. “Five”: each image is "
    "assigned its five best tags, as in the older literature. The two protocols are not comparable."
)


def page(results: Result) -> Page:
    """Return the self-contained report."""
    n, n_test = results["images"]
    report = Page(
        f"Image annotation on {results['collection']}",
        lead=f"{n:,} training and {n_test:,} test images, {results['tags']} tags. {PROTOCOLS}",
        footer=_footer(results),
    )
    rows = results["comparison"]["rows"]
    report.section("Summary", facts(_facts(rows)))
    report.section(
        "With a threshold",
        table(*comparison_table(results)),
        "Every method selected its hyperparameters and thresholds on training images. ProtoTag, "
        "MCDL out of fold and the published code are means over seeds. Times are processor seconds "
        "for fitting, and processor milliseconds from a network vector to scores on one thread.",
    )
    report.section("Five tags per image", table(*five_table(results)))
    report.section(
        "Rare and frequent tags",
        table(*frequency_table(results)),
        "F1 with a threshold, within the thirds of the tags by their frequency in training.",
    )
    if any("ours_minus_this" in row for row in rows):
        report.section(
            "Differences with confidence intervals",
            table(*differences_table(results)),
            "Differences in percentage points with 95% confidence intervals, by 300 paired "
            "bootstrap samples of the test images.",
        )
    columns, reports = published_table(results)
    if reports:
        report.section(
            "Published results",
            table(columns, reports),
            "Published figures come from other networks, features and protocols: they are for "
            "orientation and not a comparison.",
        )
    report.section("Curves", figures([_curves(results), *_sizes(results)]))
    report.section("Effect of coupling and of the margin", table(*family_table(results)))
    report.add(figures(_distributions(results)))
    report.section("By network", table(*networks_table(results)), _by_network())
    report.section(
        "Time", figures(_growth(results)), table(*growth_table(results)), _milliseconds()
    )
    return report


def markdown(results: Result) -> str:
    """Return the tables as Markdown."""
    parts = [f"# Image annotation on {results['collection']}", PROTOCOLS]
    tables = {
        "With a threshold": comparison_table(results),
        "Five tags per image": five_table(results),
        "Rare and frequent tags: F1 by thirds": frequency_table(results),
        "ProtoTag minus each method, points, with 95% intervals": differences_table(results),
        "Published results": published_table(results),
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
        Column("ms per image", "number", 2),
        Column("MB", "number", 1, wide=True),
    ]
    return columns, [
        [
            row["method"] + _image_count(row, results),
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


def _image_count(row: Result, results: Result) -> str:
    fewer = row["images"][0] < results["images"][0]
    return f" ({row['images'][0]:,} training images)" if fewer else ""


def differences_table(results: Result) -> Table:
    rows = [row for row in results["comparison"]["rows"] if "ours_minus_this" in row]
    rows.sort(key=lambda row: row["ours_minus_this"]["f1"])

    def formatted(gap: Result, what: str) -> str:
        low, high = (100 * gap[f"{what}_{side}"] for side in ("low", "high"))
        return f"{100 * gap[what]:+.1f} ({low:+.1f} to {high:+.1f})"

    return ["ProtoTag minus", "F1", "mAP"], [
        [row["method"], *(formatted(row["ours_minus_this"], what) for what in ("f1", "map"))]
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
        Column("ms per image", "number", 2),
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
    for row, record in zip(rows, results["networks"]["rows"], strict=True):
        row.insert(1, record["method"])
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
        Column("s per iteration", "number", 2),
        Column("MCDL, µs per image", "number", 0),
        Column("2PKNN, µs per image", "number", 0),
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
    curves = results["comparison"]["curves"]
    series = [
        Series(
            f"{curve['method']} ({100 * curve['area']:.1f})", curve["recall"], curve["precision"]
        )
        for curve in curves
    ]
    chart = precision_recall(series, title="Precision and recall")
    note = "Means over tags for decreasing global thresholds; the area under the curve in brackets."
    return figure(chart, "Precision and recall", note)


def _sizes(results: Result) -> list[Markup]:
    charts = []
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
            title=f"{name} by prototypes",
            x_label="Prototypes",
            y_label=name,
            x_log=True,
            y_percent=True,
        )
        charts.append(figure(svg, f"{name} by number of prototypes"))
    return charts


def _distributions(results: Result) -> list[Markup]:
    return [
        figure(
            histogram(
                distribution["edges"],
                {"present": distribution["present"], "absent": distribution["absent"]},
                title=f"Scores of tags, {loss}",
                x_label="Score",
                mark=distribution["threshold"],
                mark_name="threshold",
            ),
            f"Scores of present and absent tags: {loss}",
        )
        for loss, distribution in results["family"]["scores"].items()
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
                title="Seconds per iteration",
                x_label="Training images",
                y_label="Seconds",
            ),
            "Training: seconds per iteration",
            "Synthetic images, one prototype per five images.",
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
            "Annotation: microseconds per image, one thread",
        ),
    ]


def _by_network() -> str:
    listed = "; ".join(f"{name} {ours} ({near})" for name, (ours, near) in BY_NETWORK.items())
    return (
        f"The paper on IAPRTC-12, MCDL with a threshold (2PKNN with five tags): {listed}. ProtoTag "
        "does not include the weights of these networks; it can use them through timm."
    )


def _milliseconds() -> str:
    listed = "; ".join(f"{name} {ours} and {near}" for name, (ours, near) in MILLISECONDS.items())
    return f"The paper's milliseconds per image with MCDL and 2PKNN, on its machine: {listed}."


def _footer(results: Result) -> str:
    machine = results["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    load = f", load {machine['load_average'][0]}" if "load_average" in machine else ""
    return (
        f"Computed {results['made']} on {machine['cores']} cores ({machine['system']}{load}), "
        f"Python {machine['python']}, {versions}. Data: {results['checksum']}."
    )
