"""Where the time of fitting goes, now and before.

    python -m benchmarks.fit.parts [--before PYTHON] [--rounds N]

`--before` is an interpreter in whose environment another version is installed; both take turns. One
thread. Writes benchmarks/results/fit_parts.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks.collections import DATA, _tags, best_at_hand
from benchmarks.machine import stamp

RESULTS = Path(__file__).parents[1] / "results"
SEED, K, ALTERNATIONS = 0, 4000, 5


def published() -> dict[str, float]:
    """`MCDL.published`: its start, with fewer alternations, and one iteration."""
    from prototag import MCDL
    from prototag.engine import ONE
    from prototag.mcdl import steps
    from prototag.mcdl.kmeans import k_means
    from prototag.mcdl.problem import State

    data = best_at_hand()
    problem = replace(MCDL.published(K)._problem(data.X, data.Y), engine=ONE)
    clock = Clock()
    labels = np.float32(np.sqrt(problem.lam)) * data.Y.toarray()
    rng = np.random.default_rng([SEED, 0])
    D = k_means(np.hstack([data.X, labels]), K, rng)[:, : data.X.shape[1]]
    D = steps.to_sphere(D)
    clock.tick("k-means")
    A = problem.codes.coder(D).encode(data.X).codes
    clock.tick("first visual codes")
    for _ in range(ALTERNATIONS):
        D = steps.visual_step(D, data.X, A, None, rng, sphere=True, engine=ONE)
        A = problem.codes.coder(D).encode(data.X, start=A).codes
    clock.tick("one visual alternation", ALTERNATIONS)
    S = steps.initial_semantics(A, data.Y, positive=1.25, v=problem.semantics.v)
    state = State(D, S, A, np.empty(0))
    clock.tick("start of S")
    state.A = problem.code(state, opening=True)
    clock.tick("coupled codes")
    state.D = problem.visual(state, rng)
    clock.tick("visual step")
    state.S, state.tag_objective = problem.semantic(state, rng, 1)
    clock.tick("semantic step")
    clock.parts["objective"] = float(problem.objective(state)[-1])
    return clock.parts


def recommended() -> dict[str, float]:
    """`recommended().fit` on network vectors, its codes apart; mean average precision on test."""
    from prototag import recommended
    from prototag.coding.coder import Coder
    from prototag.evaluation import cuts

    with np.load(DATA / "iaprtc12_lite0_whole.npz") as file:
        raw, Y = file["X"].astype(np.float32), sparse.csr_array(_tags(file))
        train, test = file["train_idx"], file["test_idx"]
    coding, encode = [0.0], Coder.encode

    def timed(self: Coder, *args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        answer = encode(self, *args, **options)
        coding[0] += time.perf_counter() - start
        return answer

    Coder.encode = timed
    clock = Clock()
    model = recommended(random_state=SEED).fit(raw[train], Y[train])
    clock.tick("fit")
    clock.parts["of it codes"] = coding[0]
    scores = model.decision_function(raw[test])
    clock.parts["mean average precision"] = float(cuts.mean_average_precision(Y[test], scores))
    return clock.parts


class Clock:
    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.last = time.perf_counter()

    def tick(self, name: str, times: int = 1) -> None:
        now = time.perf_counter()
        self.parts[name], self.last = (now - self.last) / times, now


PARTS = {"published": published, "recommended": recommended}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", help="an interpreter with another version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--one", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        with threadpool_limits(1):
            print(json.dumps(PARTS[given.one]()))
        return
    pythons = {"now": sys.executable} | ({"before": given.before} if given.before else {})
    result: dict[str, Any] = {"machine": stamp(SEED), "threads": 1, "rounds": given.rounds}
    for part in given.only:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
        for _ in range(given.rounds):
            for name, python in pythons.items():
                command = [python, "-m", "benchmarks.fit.parts", "--one", part]
                run = subprocess.run(command, check=True, capture_output=True, text=True)
                found[name].append(json.loads(run.stdout.splitlines()[-1]))
                print(part, name, found[name][-1], flush=True)
        result[part] = {
            name: {key: float(np.median([row[key] for row in rows])) for key in rows[0]}
            for name, rows in found.items()
        }
        if given.before:
            result[part]["before / now"] = {
                key: float(
                    np.median(
                        [
                            b[key] / n[key]
                            for b, n in zip(found["before"], found["now"], strict=True)
                        ]
                    )
                )
                for key in found["now"][0]
            }
    (RESULTS / "fit_parts.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
