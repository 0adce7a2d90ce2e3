"""Annotating a batch by neighbours and by MCDL, one thread each, interleaved in one run.

    python -m benchmarks.baselines [--quick] [--rounds 9]

Writes benchmarks/results/baselines_speed.json, unless it is quick. Every round times each annotator
once, from reduced vectors to the scores of all tags, so that a busy machine disturbs all alike;
processor time is recorded beside wall time, because it is disturbed less. Ratios are medians over
rounds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.collections import Collection, best_at_hand
from benchmarks.machine import stamp
from prototag.coding.coder import Coder
from prototag.engine import threads
from prototag.research.baselines import KNN, TwoPassKNN

RESULTS = Path(__file__).parents[1] / "results" / "baselines_speed.json"
PROTOTYPES = (4000, 12_000)
SEED = 0


def annotators(data: Collection) -> dict[str, Callable[[np.ndarray], object]]:
    """Scorers, with every choice made: what is chosen does not change how long it takes to use."""
    fixed = {"sharpness": 16.0, "threshold": 0.5, "n_jobs": 1}
    baselines: dict[str, Any] = {
        "10 nearest neighbours": KNN(10, **fixed),
        "2PKNN, K1 = 2": TwoPassKNN(2, **fixed),
        "2PKNN, K1 = 5": TwoPassKNN(5, **fixed),
    }
    scorers = {
        name: model.fit(data.X, data.Y).decision_function for name, model in baselines.items()
    }
    for k in PROTOTYPES:
        if k <= len(data.X):
            scorers[f"MCDL, {k:,} prototypes"] = mcdl(data, k)
    return scorers


def mcdl(data: Collection, k: int) -> Callable[[np.ndarray], object]:
    """Certified codes over k prototypes, times a dense S: what MCDL does with a new image.

    Prototypes are training images and S their tags; learned ones take as long.
    """
    chosen = np.random.default_rng(SEED).permutation(len(data.X))[:k]
    coder, S = Coder(np.ascontiguousarray(data.X[chosen])), data.Y[chosen].toarray()
    return lambda x: coder.encode(x).codes @ S


def measure(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of wall and processor, rounds x 2 for each."""
    times = {name: np.empty((rounds, 2)) for name in functions}
    with threads.single_threaded_blas():
        for function in functions.values():
            function()  # what is prepared at first use
        for number in range(rounds):
            for name, function in functions.items():
                wall, busy = time.perf_counter(), time.process_time()
                function()
                times[name][number] = time.perf_counter() - wall, time.process_time() - busy
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--quick", action="store_true", help="few images, nothing written")
    arguments = parser.parse_args()
    data, rounds = best_at_hand(), arguments.rounds
    if arguments.quick:
        data, rounds = data._replace(X=data.X[:4000], Y=data.Y[:4000], X_test=data.X_test[:256]), 2
    machine = stamp(SEED)
    x = data.X_test
    functions: dict[str, Callable[[], object]] = {
        name: lambda score=score: score(x) for name, score in annotators(data).items()
    }
    functions["the product with all training images"] = lambda: x @ data.X.T
    times = measure(functions, rounds)
    per_image = {name: 1e6 / len(x) * seconds for name, seconds in times.items()}
    two_pass = per_image["2PKNN, K1 = 2"]
    result = {
        "data": data.name,
        "checksum": data.checksum,
        "images": [len(data.X), len(x)],
        "tags": data.Y.shape[1],
        "width": data.X.shape[1],
        "rounds": rounds,
        "microseconds_per_image": {
            name: {
                "wall, median": round(float(np.median(values[:, 0])), 1),
                "wall, least": round(float(values[:, 0].min()), 1),
                "processor, median": round(float(np.median(values[:, 1])), 1),
                "processor, least": round(float(values[:, 1].min()), 1),
            }
            for name, values in per_image.items()
        },
        "2PKNN with K1 = 2, times the processor time of": {
            name: round(float(np.median(two_pass[:, 1] / values[:, 1])), 2)
            for name, values in per_image.items()
        },
        "machine": machine,
    }
    if not arguments.quick:
        arguments.results.write_text(json.dumps(result, indent=1) + "\n")
    for name, values in result["microseconds_per_image"].items():
        ratio = result["2PKNN with K1 = 2, times the processor time of"][name]
        print(
            f"{name:38} {values['processor, median']:7.0f} us of processor"
            f" ({values['wall, median']:.0f} of wall); 2PKNN takes {ratio:.1f} times as long"
        )


if __name__ == "__main__":
    main()
