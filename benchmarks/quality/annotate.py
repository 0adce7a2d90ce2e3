"""Microseconds that a model takes from network vectors to scores, in batch, on one processor.

python -m benchmarks.quality.annotate mine.prototag whole+five
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


def main(model: str, name: str) -> None:
    scorer, data = Annotator.load(model, n_jobs=1).scorer, vectors.read(name)
    times = []
    with threads.one_thread():
        scorer.scores(data.X_test[:256])  # what is prepared at first use
        for _ in range(5):
            began = time.process_time()
            scorer.scores(data.X_test)
            times.append((time.process_time() - began) / len(data.X_test) * 1e6)
    result = {
        "vectors": name,
        "prototypes": len(scorer.semantics),
        "tags": len(scorer.names),
        "microseconds": [round(each, 1) for each in sorted(times)],
        "machine": machine.stamp(0),
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(result["microseconds"])


if __name__ == "__main__":
    main(*sys.argv[1:])
