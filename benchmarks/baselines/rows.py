"""Rows of the comparison, one method at a time: each is written as soon as it exists.

    python -m benchmarks.baselines.rows whole.npz "MSFS (orthonormal tag basis)" SLED
    python -m benchmarks.baselines.rows coco.npz --name COCO --images 5000 --trials folder

`prototag paper` reads the same trials: with `folder` as its `trials`, it shows them without a run.
Without methods, all rows whose trials are in the folder are written and nothing runs. Writes
benchmarks/results/baselines_rows.json, by collection and method.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.machine import stamp
from prototag.research.datasets import bundle
from prototag.research.experiments.trials import Laboratory, Task, best_f1
from prototag.research.registry import METHODS, Method, select

RESULTS = Path(__file__).parents[1] / "results" / "baselines_rows.json"
SEED = 0


def row(lab: Laboratory, method: Method, task: Task) -> dict[str, Any]:
    """Run a trial or read it; return its record."""
    trial = lab.trial(method, task, SEED)
    return {**trial.record, "best_f1_on_test": best_f1(task.Y_test, trial)}


def store(path: Path, collection: str, record: dict[str, Any]) -> None:
    """Add a row to the file."""
    rows = json.loads(path.read_text()) if path.exists() else {}
    rows.setdefault(collection, {})[record["method"]] = record
    path.write_text(json.dumps(rows, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", help="a bundle (.npz)")
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--name", help="of the collection; the name of the bundle by default")
    parser.add_argument("--images", type=int, help="train on so many, drawn by seed 0")
    parser.add_argument("--trials", type=Path, default=Path("trials"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    collection = bundle(arguments.source)
    if arguments.name:
        collection = replace(collection, name=arguments.name)
    task = Task.of(collection)
    if arguments.images:
        task = task.first(arguments.images, SEED)
    lab = Laboratory(arguments.trials)
    methods = select(arguments.methods or None)
    if not arguments.methods:
        methods = [method for method in METHODS if lab.has_trial(method, task, SEED)]
    machine = stamp(SEED)
    for method in methods:
        record = {**row(lab, method, task), "machine": machine}
        store(arguments.results, f"{task.name}, {len(task.X):,} images", record)
        figures = [record[name] for name in ("threshold_f1", "top_f1", "mean_average_precision")]
        print(method.name, *(f"{100 * value:.1f}" for value in figures), record["seconds_to_fit"])


if __name__ == "__main__":
    main()
