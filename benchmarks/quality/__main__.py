"""Score annotators on a test split, once for each configuration and seed, and keep every scoring.

python -m benchmarks.quality --vectors whole --annotators "ProtoTag" "kernel ridge"

Trials are kept in a folder and not run again, so that a test split is scored once; the results file
has the means over seeds, and the differences to ours with intervals by bootstrap over test images.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.quality import vectors
from prototag.research.experiments import studies
from prototag.research.experiments.trials import Laboratory, Task
from prototag.research.registry import Method, select

RESULTS = Path(__file__).parents[1] / "results"
NAMES = (
    "ProtoTag",
    "MCDL out of fold",
    "MCDL, published code",
    "kernel ridge",
    "logistic",
    "ridge",
    "2PKNN",
    "kNN",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", nargs="+", default=["whole", "whole+five"])
    parser.add_argument("--annotators", nargs="+", default=list(NAMES))
    parser.add_argument("--images", type=int, help="training images at most, drawn by seed 0")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--trials", type=Path, required=True, help="folder that keeps trials")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for name in arguments.vectors:
        data = vectors.read(name, arguments.images)
        task = Task(data.name, data.X, data.Y, data.X_test, data.Y_test, json.dumps(data.checksum))
        lab = Laboratory(arguments.trials, n_jobs=arguments.jobs)
        methods = [
            _with_feature_groups(one, data.feature_groups) for one in select(arguments.annotators)
        ]
        results = studies.comparison(
            lab, task, methods, arguments.seeds, lambda words: print(words, flush=True)
        )
        results["images"] = [len(data.X), len(data.X_test)]
        results["machine"] = machine.stamp(arguments.seeds[0])
        target = arguments.results / f"quality_{name.replace('+', '_')}.json"
        target.write_text(json.dumps(results, indent=1) + "\n")
        for row in results["rows"]:
            print(line(name, row), flush=True)


def _with_feature_groups(method: Method, widths: tuple[int, ...]) -> Method:
    """Return ProtoTag's entry with the feature groups; baselines do not use them."""
    if not widths or method.name != "ProtoTag":
        return method
    return replace(method, options={**method.options, "feature_groups": list(widths)})


def line(name: str, row: dict[str, Any]) -> str:
    percent = {key: 100 * value for key, value in row.items() if isinstance(value, float)}
    gap = row.get("ours_minus_this")
    lead = "" if gap is None else f"  ours {100 * gap['f1']:+.1f} F1, {100 * gap['map']:+.1f} mAP"
    return (
        f"{name:11}{row['method']:24}"
        f" F1 {percent['threshold_f1']:.1f} (best {percent['best_f1_on_test']:.1f})"
        f" N+ {row['threshold_n_plus']:.0f} five {percent['top_f1']:.1f}"
        f" mAP {percent['mean_average_precision']:.1f}  fit {row['seconds_to_fit']:.0f} s,"
        f" {row['microseconds_to_annotate']:.0f} us an image{lead}"
    )


if __name__ == "__main__":
    main()
