"""Accuracy by number of images, beyond the size limit of the exact kernel.

    python -m benchmarks.scale.quality_by_size [5000 10000 20000 39186]

COCO's training images of the shared data, each smaller set within the next, judged on its 16,814
test images, of which nothing is chosen. Into benchmarks/results/scale_coco.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.machine import stamp
from prototag import recommended
from prototag.evaluation import metrics

DATA = Path(__file__).parents[3] / "shared" / "data" / "coco56k_lite0_pca256.npz"
TARGET = Path(__file__).parents[1] / "results" / "scale_coco.json"
DRAWS = 200


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [5_000, 10_000, 20_000, 39_186]
    with np.load(DATA, allow_pickle=False) as data:
        X = data["X"].astype(np.float32)
        Y = np.unpackbits(data["label_bits"], axis=1)[:, : int(data["n_tags"])]
        train, test = data["train_idx"], data["test_idx"]
    order = np.random.default_rng(0).permutation(train)
    results = json.loads(TARGET.read_text()) if TARGET.exists() else {"runs": []}
    for n in counts:
        machine, rows, began = stamp(0), np.sort(order[:n]), time.perf_counter()
        model = recommended(n_jobs=2).fit(X[rows], Y[rows])
        seconds = time.perf_counter() - began
        scores, true = model.decision_function(X[test]), Y[test]
        given, five = scores > model.threshold_, metrics.top_tags(scores, 5)
        rng = np.random.default_rng(0)
        draws = [rng.integers(len(true), size=len(true)) for _ in range(DRAWS)]
        drawn = [metrics.f1_of_means(true[draw], given[draw]) for draw in draws]
        run = {
            "images": n,
            "streamed": model.result_.stages is None,
            "seconds": round(seconds, 1),
            "threshold_f1": metrics.f1_of_means(true, given),
            "threshold_f1_deviation": float(np.std(drawn)),
            "top_f1": metrics.f1_of_means(true, five),
            "mean_average_precision": metrics.mean_average_precision(true, scores),
            "chosen": model.choices_,
            "machine": machine,
        }
        print({name: run[name] for name in list(run)[:7]}, flush=True)
        kept = [old for old in results["runs"] if old["images"] != n]
        results["runs"] = sorted([*kept, run], key=lambda run: int(run["images"]))
        TARGET.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
