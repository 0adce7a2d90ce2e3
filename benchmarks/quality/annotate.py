"""Microseconds that a model takes from network vectors to scores, in batch, on one processor.

python -m benchmarks.quality.annotate mine.prototag whole+five [results.json]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks import machine
from benchmarks.quality import vectors
from prototag.annotator.annotator import Annotator
from prototag.engine import threads

RESULTS = Path(__file__).parents[1] / "results" / "annotate.json"


def main(path: str, name: str, results: str | Path = RESULTS) -> None:
    model, data = Annotator.load(path, n_jobs=1).model, vectors.read(name)
    times = []
    with threads.single_threaded_blas():
        model.scores(data.X_test[:256])  # what is prepared at first use
        for _ in range(5):
            began = time.process_time()
            model.scores(data.X_test)
            times.append((time.process_time() - began) / len(data.X_test) * 1e6)
    result = {
        "vectors": name,
        "prototypes": len(model.prototypes),
        "tags": model.n_tags,
        "microseconds": [round(each, 1) for each in sorted(times)],
        "machine": machine.stamp(0),
    }
    Path(results).write_text(json.dumps(result, indent=1) + "\n")
    print(result["microseconds"])


if __name__ == "__main__":
    main(*sys.argv[1:])
