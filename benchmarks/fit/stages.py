"""Time of each training stage, compared with another version.

    python -m benchmarks.fit.stages [--before PYTHON] [--rounds N]

`--before` is an interpreter in whose environment another version is installed; both take turns. One
thread; seconds of its processor, which do not grow while others have it. Writes
benchmarks/results/fit_parts.json, and the tables as fit_parts.md.
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
SEED, K, ALTERNATIONS, START = 0, 4000, 5, 10


def published() -> dict[str, float]:
    """`MCDL.published`: its start, with fewer alternations, and one iteration."""
    from prototag import MCDL
    from prototag.engine import SINGLE_THREAD
    from prototag.mcdl import updates
    from prototag.mcdl.algorithm1 import MCDLState
    from prototag.mcdl.kmeans import k_means

    data = best_at_hand()
    problem = replace(MCDL.published(K)._problem(data.X, data.Y), engine=SINGLE_THREAD)
    clock = Clock()
    labels = np.float32(np.sqrt(problem.lam)) * data.Y.toarray()
    rng = np.random.default_rng([SEED, 0])
    D = k_means(np.hstack([data.X, labels]), K, rng)[:, : data.X.shape[1]]
    D = updates.to_sphere(D)
    clock.tick("k-means")
    A = problem.codes.coder(D).encode(data.X).codes
    clock.tick("first visual codes")
    for _ in range(ALTERNATIONS):
        D = updates.visual_update(D, data.X, A, None, rng, sphere=True, engine=SINGLE_THREAD)
        A = problem.codes.coder(D).encode(data.X, start=A).codes
    clock.tick("one visual alternation", ALTERNATIONS)
    S = updates.initial_semantics(A, data.Y, positive=1.25, v=problem.semantics.v)
    state = MCDLState(D, S, A, np.empty(0))
    clock.tick("start of S")
    state.A = problem.update_codes(state, all_violated=True)
    clock.tick("coupled codes")
    state.D = problem.update_visual(state, rng)
    clock.tick("visual step")
    state.S, state.tag_objective = problem.update_semantic(state, rng, 1)
    clock.tick("semantic step")
    clock.parts["objective"] = float(problem.objective(state)[-1])
    clock = Clock(clock.parts)
    model = MCDL.published(K, max_iter=1, init_iter=START, random_state=SEED).fit(data.X, data.Y)
    clock.tick(f"fit of one iteration, with a start of {START} alternations")
    clock.parts["objective of that fit"] = float(model.objective_["total"][-1])
    return clock.parts


def recommended() -> dict[str, float]:
    """`recommended().fit` on network vectors, stage by stage; figures on test images."""
    from prototag import recommended
    from prototag.coding.coder import Coder
    from prototag.evaluation import metrics
    from prototag.tagging import in_memory, pipeline
    from prototag.tagging.in_memory import InMemory
    from prototag.tagging.tagger import Tagger

    with np.load(DATA / "iaprtc12_lite0_whole.npz") as file:
        raw, Y = file["X"].astype(np.float32), sparse.csr_array(_tags(file))
        train, test = file["train_idx"], file["test_idx"]
    spent: dict[str, float] = {}
    watched = [
        (Tagger, "prepare", "near-duplicates"),
        (pipeline, "select_kernel", "select_kernel"),
        *((InMemory, name, name) for name in STAGES),
        (Coder, "encode", "of all: codes"),
        (pipeline, "kernel_ridge", "of all: kernel regressions to select by"),
        (in_memory, "kernel_ridge", "of all: the kernel regression"),
        (pipeline, "ranking", "of all: rankings of held-out images"),
    ]
    for owner, name, part in watched:
        setattr(owner, name, _timed(getattr(owner, name), part, spent))
    clock = Clock()
    model = recommended(random_state=SEED).fit(raw[train], Y[train])
    clock.tick("fit")
    clock.parts |= {part: spent[part] for _, _, part in watched}
    scores = model.decision_function(raw[test])
    report = metrics.report(Y[test], scores, model.threshold_, Y_train=Y[train])
    names = {"threshold_f1": "F1", "top_f1": "F1, five tags", "mean_average_precision": "mAP"}
    clock.parts |= {name: report[key] for key, name in names.items()}
    return clock.parts


STAGES = (
    "reduce",
    "lift",
    "learn_prototypes",
    "regress_kernel",
    "weigh_parts",
    "relate_tags",
    "calibrate",
)


def _timed(function: Any, part: str, spent: dict[str, float]) -> Any:
    def timed(*args: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args, **options)
        finally:
            spent[part] = spent.get(part, 0.0) + time.process_time() - start

    return timed


class Clock:
    def __init__(self, parts: dict[str, float] | None = None) -> None:
        self.parts: dict[str, float] = {} if parts is None else parts
        self.last = time.process_time()

    def tick(self, name: str, times: int = 1) -> None:
        now = time.process_time()
        self.parts[name], self.last = (now - self.last) / times, now


PARTS = {"published": published, "recommended": recommended}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", help="an interpreter with another version")
    parser.add_argument("--name", help="what that version is, for the record")
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
    if given.name:
        result["before"] = given.name
    for part in given.only:
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
        for _ in range(given.rounds):
            for name, python in pythons.items():
                command = [python, "-m", "benchmarks.fit.stages", "--one", part]
                run = subprocess.run(command, check=True, capture_output=True, text=True)
                runs[name].append(json.loads(run.stdout.splitlines()[-1]))
                print(part, name, runs[name][-1], flush=True)
        result[part] = {
            name: {key: float(np.median([row[key] for row in rows])) for key in rows[0]}
            for name, rows in runs.items()
        }
        if given.before:
            result[part]["before / now"] = {
                key: float(
                    np.median(
                        [b[key] / n[key] for b, n in zip(runs["before"], runs["now"], strict=True)]
                    )
                )
                for key in runs["now"][0]
            }
    (RESULTS / "fit_parts.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "fit_parts.md").write_text(table(result))


def table(result: dict[str, Any]) -> str:
    """Seconds before and now, and the ratio of the same round; figures below them."""
    lines = [
        "# Where the time of a fit goes",
        "",
        "IAPRTC-12, 17,665 images, one thread; seconds of the processor. Medians, and ratios of "
        f"the same round; rounds: {result['rounds']}. Before: {result.get('before', 'not given')}.",
    ]
    for part in PARTS:
        if part not in result:
            continue
        columns = [name for name in ("before", "now", "before / now") if name in result[part]]
        lines += ["", f"| {part} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
        for key in result[part]["now"]:
            cells = [_cell(key, name, result[part][name][key]) for name in columns]
            lines.append(f"| {key} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _cell(key: str, column: str, value: float) -> str:
    if key.startswith("objective"):
        return f"{value:,.0f}" if column != "before / now" else ""
    if key in ("F1", "F1, five tags", "mAP"):
        return f"{value:.4f}" if column != "before / now" else ""
    return f"{value:.2f}"


if __name__ == "__main__":
    main()
