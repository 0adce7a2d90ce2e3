"""How well, how fast and how large by the number of prototypes: every model scored once on test.

python -m benchmarks.quality.curve --trials build/trials

Trials are kept in a folder and not run again. Sharpness and penalty of the kernel and the weight
of the lifting are chosen from a sample before there are prototypes, so the first model's serve all.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.quality import vectors
from prototag.report import Series, lines, standalone
from prototag.research.experiments.trials import Laboratory, Task, best_f1
from prototag.research.registry import select

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "quality_curve.json"
COUNTS = (100, 250, 500, 1_000, 2_000, 4_000, 8_000)
KEPT = ("gamma", "strength")
FIGURES = {
    "threshold_f1": "F1",
    "top_f1": "F1, five tags",
    "mean_average_precision": "mean average precision",
}


def curve(lab: Laboratory, task: Task, counts: list[int]) -> Iterator[dict[str, Any]]:
    """The record of a model for each number of prototypes, the smallest first."""
    method, options = select(["ProtoTag"])[0], {}
    for count in counts:
        trial = lab.trial(method, task, 0, n_prototypes=count, **options)
        options = options or {name: trial.record["chosen"][name] for name in KEPT}
        best = best_f1(task.Y_test, trial)
        yield {"n_prototypes": count, **trial.record, "best_f1_on_test": best}


def line(record: dict[str, Any]) -> str:
    return (
        f"{record['n_prototypes']:6} prototypes: F1 {100 * record['threshold_f1']:.1f}"
        f" (best {100 * record['best_f1_on_test']:.1f}) N+ {record['threshold_n_plus']:.0f}"
        f" five {100 * record['top_f1']:.1f} mAP {100 * record['mean_average_precision']:.1f}"
        f"  fit {record['seconds_to_fit']:.0f} s, {record['microseconds_to_annotate']:.0f} us"
        f" an image, {record['megabytes']:.1f} MB"
    )


def draw(records: list[dict[str, Any]], folder: Path) -> None:
    """Two figures: quality, and what it costs."""
    counts = [record["n_prototypes"] for record in records]
    quality = lines(
        [Series(name, counts, [row[key] for row in records]) for key, name in FIGURES.items()],
        title="Quality on the test images by the number of prototypes",
        x_label="prototypes",
        x_log=True,
        y_percent=True,
    )
    cost = lines(
        [
            Series("us an image", counts, [row["microseconds_to_annotate"] for row in records]),
            Series("MB", counts, [row["megabytes"] for row in records]),
        ],
        title="Time to annotate and size of the model by the number of prototypes",
        x_label="prototypes",
        x_log=True,
        y_log=True,
    )
    for name, figure in {"quality-curve": quality, "quality-cost": cost}.items():
        (folder / f"{name}.svg").write_text(str(standalone(figure)) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", default="whole")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--images", type=int, help="training images at most, drawn by seed 0")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--trials", type=Path, required=True, help="folder that keeps trials")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--figures", type=Path, default=ROOT / "docs" / "images")
    arguments = parser.parse_args()
    data = vectors.read(arguments.vectors, arguments.images)
    task = Task(data.name, data.X, data.Y, data.X_test, data.Y_test, json.dumps(data.checksum))
    lab = Laboratory(arguments.trials, n_jobs=arguments.jobs)
    known = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    results: dict[str, Any] = {"records": [], "machine": machine.stamp(0)}
    results["earlier"] = known.get("earlier", [])  # scorings before the method was as it is
    for record in curve(lab, task, [*arguments.counts, len(data.X)]):
        results["records"].append(record)
        print(line(record), flush=True)
        arguments.results.write_text(json.dumps(results, indent=1) + "\n")
    draw(results["records"], arguments.figures)


if __name__ == "__main__":
    main()
