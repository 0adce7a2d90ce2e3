"""Score annotators on the test split, once for each configuration, and record every scoring.

python -m benchmarks.quality --vectors whole --annotators recommended "kernel ridge"
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.quality import rivals, vectors
from prototag import metrics, parallel, tags

RESULTS = Path(__file__).parents[1] / "results" / "quality.json"


def measure(data: vectors.Vectors, name: str, options: dict[str, Any], n_jobs: int) -> dict:
    began = time.perf_counter()
    learned = rivals.ANNOTATORS[name](data.X, data.Y, n_jobs=n_jobs, **options)
    fitted = time.perf_counter() - began
    with parallel.one_thread():
        learned.score(data.X_test[:256])  # what is prepared at first use
        wall, busy = time.perf_counter(), time.process_time()
        scores = learned.score(data.X_test)
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
    report = metrics.report(data.Y_test, scores, learned.threshold, Y_train=data.Y)
    # The best of all thresholds of the form of the chosen one: a factor to it.
    unit = np.where(np.asarray(learned.threshold) != 0, learned.threshold, 1.0)
    best = tags.best_global_threshold(data.Y_test, scores / unit)[1]
    interval = bootstrap(data, scores, learned.threshold)
    return {
        "vectors": data.name,
        "annotator": name,
        "options": options,
        "images": [len(data.X), len(data.X_test)],
        "tags": data.Y.shape[1],
        **{key: round(value, 5) for key, value in report.items()},
        "best_f1_on_test": round(best, 5),
        "f1_interval_95": interval,
        "seconds_to_fit": round(fitted, 1),
        "threads_to_fit": n_jobs,
        "microseconds_to_annotate": round(1e6 * wall / len(scores)),
        "microseconds_of_processor": round(1e6 * busy / len(scores)),
        "bytes": learned.n_bytes,
        "notes": learned.notes,
        "scored": datetime.now(UTC).isoformat(timespec="seconds"),
        "checksum": data.checksum,
    }


def bootstrap(data: vectors.Vectors, scores: np.ndarray, threshold: Any) -> list[float]:
    """Interval of the F1 by drawing test images again, 200 times."""
    rng, given, true = np.random.default_rng(0), scores > threshold, data.Y_test.toarray()
    draws = [rng.integers(0, len(true), len(true)) for _ in range(200)]
    found = [metrics.f1_of_means(true[rows], given[rows]) for rows in draws]
    return [round(float(value), 5) for value in np.percentile(found, [2.5, 97.5])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", nargs="+", default=["whole", "whole+five"])
    parser.add_argument("--annotators", nargs="+", default=list(rivals.ANNOTATORS))
    parser.add_argument("--options", type=json.loads, default={}, help="JSON, of recommended")
    parser.add_argument("--images", type=int, help="training images at most, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for collection in arguments.vectors:
        data = vectors.read(collection, arguments.images, arguments.seed)
        for name in arguments.annotators:
            options = arguments.options if name == "recommended" else {}
            result = measure(data, name, options, arguments.jobs)
            known = json.loads(arguments.results.read_text()) if arguments.results.exists() else []
            stamped = {**result, "machine": machine.stamp(arguments.seed)}
            arguments.results.write_text(json.dumps([*known, stamped], indent=1) + "\n")
            print(line(result), flush=True)


def line(result: dict[str, Any]) -> str:
    percent = {key: 100 * value for key, value in result.items() if isinstance(value, float)}
    return (
        f"{result['vectors']:11}{result['annotator']:14}"
        f" F1 {percent['threshold_f1']:.1f} (best {percent['best_f1_on_test']:.1f})"
        f" N+ {result['threshold_n_plus']:.0f} top-5 {percent['top_f1']:.1f}"
        f" mAP {percent['mean_average_precision']:.1f}"
        f"  fit {result['seconds_to_fit']:.0f} s, {result['microseconds_of_processor']} us"
        f" an image, {result['bytes'] / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
