"""Reports of the experiments: an HTML page with figures, and its tables in Markdown and LaTeX."""

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
    latex,
    lines,
    precision_recall,
    scatter,
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
        "All systems",
        table(*systems_table(results)),
        "F1 with a threshold, with five tags, and mAP; the published precision, recall and F1, "
        "mostly with five tags and always with other vectors, for orientation; processor "
        "milliseconds from a network vector to scores on one thread, and megabytes of the model.",
    )
    report.section(
        "With a threshold",
        table(*comparison_table(results)),
        "Every method selected its hyperparameters and thresholds on training images. Methods "
        "whose results depend on a seed are means over seeds. Times are processor seconds for "
        "fitting, and processor milliseconds from a network vector to scores on one thread.",
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
    report.section(
        "Curves", figures([*_curves(results), _quality_and_time(rows), *_sizes(results)])
    )
    if "prototypes" in results:
        report.section(
            "Neighbour methods on MCDL's prototypes",
            table(*prototypes_table(results)),
            _prototypes_note(results),
        )
    if "family" in results:
        report.section("Effect of coupling and of the margin", table(*family_table(results)))
        report.add(figures(_distributions(results)))
    if "networks" in results:
        report.section("By network", table(*networks_table(results)), _by_network())
    if "growth" in results:
        report.section(
            "Time", figures(_growth(results)), table(*growth_table(results)), _milliseconds()
        )
    return report


def _tables(results: Result) -> dict[str, Table]:
    """Return the tables that have rows, by title."""
    tables = {
        "All systems": systems_table(results),
        "With a threshold": comparison_table(results),
        "Five tags per image": five_table(results),
        "Rare and frequent tags: F1 by thirds": frequency_table(results),
        "ProtoTag minus each method, points, with 95% intervals": differences_table(results),
        "Published results": published_table(results),
    }
    studies = {
        "prototypes": ("Neighbour methods on MCDL's prototypes", prototypes_table),
        "sizes": ("Prototypes", sizes_table),
        "family": ("UDL, CDL, MCDL", family_table),
        "networks": ("By network", networks_table),
        "growth": ("Time", growth_table),
    }
    tables |= {title: make(results) for key, (title, make) in studies.items() if key in results}
    return {title: table for title, table in tables.items() if table[1]}


def markdown(results: Result) -> str:
    """Return the tables as Markdown."""
    parts = [f"# Image annotation on {results['collection']}", PROTOCOLS]
    for name, (columns, rows) in _tables(results).items():
        parts += [f"## {name}", markdown_table(columns, rows)]
    return "\n\n".join([*parts, _footer(results)]) + "\n"


def tex(results: Result) -> str:
    """Return the tables as LaTeX, for a document that uses the package booktabs."""
    comment = f"% {results['collection']}: {PROTOCOLS}\n% {_footer(results)}\n"
    tables = _tables(results).items()
    return "\n".join([comment, *(latex(*table, caption=name) for name, table in tables)])


def systems_table(results: Result) -> Table:
    """Return one row per system: both protocols, published figures, our lead, time and size."""
    columns: list[Column | str] = [
        "Annotator",
        Column("F1", "percent", bar=True),
        Column("P", "percent"),
        Column("R", "percent"),
        Column("F1, five", "percent", bar=True),
        Column("mAP", "percent"),
        "published P / R / F1",
        "ProtoTag minus this, F1",
        "ProtoTag minus this, five",
        Column("ms per image", "number", 2),
        Column("MB", "number", 1),
    ]
    return columns, [
        [
            row["method"] + _image_count(row, results),
            *(row[f"threshold_{what}"] for what in ("f1", "precision", "recall")),
            row["top_f1"],
            row["mean_average_precision"],
            _published(results["collection"], row["method"]),
            _gap(row, "f1"),
            _gap(row, "five"),
            row["microseconds_to_annotate"] / 1000,
            row.get("megabytes"),
        ]
        for row in sorted(results["comparison"]["rows"], key=lambda row: -row["threshold_f1"])
    ]


def _published(collection: str, method: str) -> str | None:
    """Return published precision, recall and F1, with a mark where tags have a threshold."""
    paper = reported(collection, method)
    if paper is None:
        return None
    parts = [paper.precision, paper.recall, paper.f1]
    text = " / ".join("–" if part is None else f"{part:g}" for part in parts)
    return f"{text} (threshold)" if paper.protocol == "threshold" else text


def _gap(row: Result, what: str) -> str | None:
    """Return ProtoTag's lead in points with its interval."""
    gap = row.get("ours_minus_this", {})
    if what not in gap:
        return None
    low, high = (100 * gap[f"{what}_{side}"] for side in ("low", "high"))
    return f"{100 * gap[what]:+.1f} ({low:+.1f} to {high:+.1f})"


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
    return ["ProtoTag minus", "F1", "F1, five", "mAP"], [
        [row["method"], *(_gap(row, what) for what in ("f1", "five", "map"))] for row in rows
    ]


def published_table(results: Result) -> Table:
    columns: list[Column | str] = [
        "Annotator",
        Column("P", "number", 0),
        Column("R", "number", 0),
        Column("F1 published", "number", 1),
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
            theirs = [paper.precision, paper.recall, paper.f1, paper.protocol, paper.vectors]
            rows.append([row["method"], *theirs, *ours])
    return columns, sorted(rows, key=lambda row: -row[3])


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


def prototypes_table(results: Result) -> Table:
    columns: list[Column | str] = [
        "Annotator",
        *(
            column
            for gallery in ("all images", "prototypes")
            for column in (
                Column(f"{gallery}: F1", "percent"),
                Column(f"{gallery}: F1, five", "percent"),
                Column(f"{gallery}: mAP", "percent"),
                Column(f"{gallery}: ms", "number", 2),
            )
        ),
        Column("times as fast", "number", 1),
    ]
    keys = ("threshold_f1", "top_f1", "mean_average_precision")

    def cells(part: Result | None) -> list[Any]:
        if part is None:
            return [None] * 4
        return [*(part[key] for key in keys), part["microseconds_to_annotate"] / 1000]

    rows = []
    for row in results["prototypes"]["rows"]:
        whole = row["all images"]
        few = row["prototypes"]
        times = None
        if whole is not None:
            times = whole["microseconds_to_annotate"] / few["microseconds_to_annotate"]
        rows.append([row["method"], *cells(whole), *cells(few), times])
    return columns, rows


def _prototypes_note(results: Result) -> str:
    study = results["prototypes"]
    return (
        f"{study['n_prototypes']:,} prototypes of MCDL (published recipe, {study['iterations']} "
        f"iterations) were learned from {study['images']:,} training images; a prototype has the "
        f"tags whose semantic weight is at least tau = {study['tau']:g}. Both galleries are in the "
        f"same {study['components']} components, and thresholds were selected per tag on "
        f"{study['held_out']:,} other training images. Milliseconds include the reduction of the "
        "vector."
    )


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


def _curves(results: Result) -> list[Markup]:
    curves = results["comparison"]["curves"]
    if not curves:  # none of the methods whose curves are drawn was compared
        return []
    series = [
        Series(
            f"{curve['method']} ({100 * curve['area']:.1f})", curve["recall"], curve["precision"]
        )
        for curve in curves
    ]
    chart = precision_recall(series, title="Precision and recall")
    note = "Means over tags for decreasing global thresholds; the area under the curve in brackets."
    return [figure(chart, "Precision and recall", note)]


def _quality_and_time(rows: Sequence[Result]) -> Markup:
    """Draw F1 by the time to annotate an image, as the paper's claim is read."""
    milliseconds = [row["microseconds_to_annotate"] / 1000 for row in rows]
    chart = scatter(
        milliseconds,
        [row["threshold_f1"] for row in rows],
        names=[row["method"] for row in rows],
        title="F1 by time to annotate",
        x_label="Milliseconds per image",
        y_label="F1",
        x_log=True,
        y_percent=True,
    )
    return figure(chart, "F1 with a threshold by time to annotate, one thread")


def _sizes(results: Result) -> list[Markup]:
    charts: list[Markup] = []
    if "sizes" not in results:
        return charts
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
