"""What forgotten tags cost: a share of the training tags is hidden, at random.

python -m benchmarks.quality.incomplete

Learns from and is scored on *training* images of IAPRTC-12 (planted data if it is not available);
the images scored keep all their tags. Figures are means over seeds, each with images of its own.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import machine
from benchmarks.quality import vectors
from prototag.research.datasets import hide_tags, planted
from prototag.research.experiments.trials import Laboratory, Task
from prototag.research.registry import select

RESULTS = Path(__file__).parents[1] / "results" / "incomplete.json"
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
NAMES = (
    "ProtoTag",
    "MCDL out of fold",
    "MCDL, published code",
    "kernel ridge",
    "kNN",
    "2PKNN",
)
FIGURES = ("threshold_f1", "top_f1", "mean_average_precision")


def task(
    X: np.ndarray, Y: sparse.csr_array, checksum: str, n: int, seed: int, share: float
) -> Task:
    rows = np.random.default_rng(seed).permutation(len(X))
    learn, judge = rows[:n], rows[n : n + 2_000]
    hidden = hide_tags(Y[learn], share, random_state=seed)
    about = f"{checksum}, {n} images by seed {seed}, {share:.0%} of the tags hidden"
    return Task("incomplete", X[learn], hidden, X[judge], Y[judge], about)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--annotators", nargs="+", default=list(NAMES))
    parser.add_argument("--trials", type=Path, required=True, help="folder that keeps trials")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    try:
        data = vectors.read("whole")
        X, Y, name, checksum = data.X, data.Y, "IAPRTC-12, training images", str(data.checksum)
    except FileNotFoundError:
        synthetic = planted(8_000, 100, 400, m=200, noise=0.5, random_state=0)
        X, Y, name, checksum = synthetic.X, synthetic.Y, "planted", "planted seed 0"
    lab = Laboratory(arguments.trials)
    rows: list[dict[str, Any]] = []
    for method in select(arguments.annotators):
        for share in SHARES:
            records = [
                lab.trial(method, task(X, Y, checksum, arguments.images, seed, share), seed).record
                for seed in arguments.seeds
            ]
            figures = {key: [record[key] for record in records] for key in FIGURES}
            means = {key: round(float(np.mean(values)), 5) for key, values in figures.items()}
            rows.append({"annotator": method.name, "hidden": share, **means, "by_seed": figures})
            print(line(rows), flush=True)
    stamped = {
        "collection": name,
        "images": [arguments.images, 2_000],
        "seeds": arguments.seeds,
        "rows": rows,
        "machine": machine.stamp(arguments.seeds[0]),
    }
    arguments.results.write_text(json.dumps(stamped, indent=1) + "\n")


def line(rows: list[dict[str, Any]]) -> str:
    """The last row, and what is left of the same annotator's figures with all tags."""
    row = rows[-1]
    whole = next(r for r in rows if r["annotator"] == row["annotator"] and r["hidden"] == 0)
    parts = [f"{100 * row[key]:.1f} ({row[key] / whole[key]:.0%})" for key in FIGURES]
    figures = f"F1 {parts[0]}, five {parts[1]}, mAP {parts[2]}"
    return f"{row['annotator']:24}{row['hidden']:4.0%} hidden: {figures}"


if __name__ == "__main__":
    main()
