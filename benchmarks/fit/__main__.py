"""Fits by the published recipe: time per iteration compared with SPAMS and NumPy, and accuracy.

    python -m benchmarks.fit speed     interleaved iterations of both from one start
    python -m benchmarks.fit recipes   published (4,000 and 2,000 prototypes) and paper, scored
    python -m benchmarks.fit scale     memory and growth with n at the paper's largest size

Each writes its part of benchmarks/results/ (fit_speed.json, fit_recipes.json, fit_scale.json);
with --quick it takes few images and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.collections import Collection, best_at_hand
from benchmarks.fit import spams_baseline
from benchmarks.machine import stamp
from prototag import MCDL
from prototag.engine import SINGLE_THREAD
from prototag.evaluation import metrics
from prototag.events import Event
from prototag.mcdl.algorithm1 import MCDLState
from prototag.mcdl.settings import RECIPES
from prototag.research.datasets import planted

RESULTS = Path(__file__).parents[1] / "results"
SEED = 0


def write(name: str, result: dict, quick: bool) -> None:
    text = json.dumps(result, indent=1)
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / name).write_text(text + "\n")
    print(text)


def collection(quick: bool) -> Collection:
    data = best_at_hand()
    return data._replace(X=data.X[:1500], Y=data.Y[:1500]) if quick else data


def speed(quick: bool) -> None:  # noqa: PLR0915 - two schedules, timed step by step
    """Both schedules from the same start; the objective is ours, computed for both."""
    k, iterations, init_iter = (200, 1, 1) if quick else (4000, 2, 10)
    data = collection(quick)
    X, Y = data.X, data.Y
    model = MCDL.published(k, init_iter=init_iter, n_jobs=2)
    problem = model._problem(X, Y)
    start = problem.initialise(k, SEED, {})
    problem = replace(problem, engine=SINGLE_THREAD)
    dense = Y.toarray() > 0
    loss, beta1 = problem.semantics.loss, problem.semantics.beta1
    targets = {"present": loss.present, "absent": loss.absent}
    rows = []
    ours, theirs = (
        MCDLState(start.D.copy(), start.S.copy(), start.A.copy(), start.tag_objective)
        for _ in range(2)
    )
    for iteration in range(1, iterations + 1):
        row: dict[str, object] = {"iteration": iteration}
        rng = np.random.default_rng([SEED, iteration])
        rho = problem.rho * np.sqrt(k) * iteration
        with threadpool_limits(1):
            times = {}
            t = time.perf_counter()
            ours.A = problem.update_codes(ours, all_violated=iteration == 1)
            times["coding"] = time.perf_counter() - t
            t = time.perf_counter()
            ours.D = problem.update_visual(ours, rng)
            times["visual"] = time.perf_counter() - t
            t = time.perf_counter()
            ours.S, ours.tag_objective = problem.update_semantic(ours, rng, iteration)
            times["semantic"] = time.perf_counter() - t
            row["prototag"] = {**times, "total": sum(times.values())}

            times = {}
            t = time.perf_counter()
            theirs.A = spams_baseline.code(
                X, dense, theirs.D, theirs.S, theirs.A, lam=problem.lam, passes=problem.n_passes,
                opening=iteration == 1, threads=1, **targets,
            )  # fmt: skip
            times["coding"] = time.perf_counter() - t
            order = rng.permutation(k)
            t = time.perf_counter()
            theirs.S = spams_baseline.semantic(
                dense, theirs.A, theirs.S, order, beta1=beta1, rho=rho, **targets
            )
            theirs.S = spams_baseline.rescale(dense, theirs.A, theirs.S, beta1=beta1, **targets)
            times["semantic"] = time.perf_counter() - t
            t = time.perf_counter()
            theirs.D = spams_baseline.visual(X, theirs.A, theirs.D, order)
            times["visual"] = time.perf_counter() - t
            row["SPAMS and NumPy"] = {**times, "total": sum(times.values())}
        row["ratio"] = row["SPAMS and NumPy"]["total"] / row["prototag"]["total"]
        row["objective"] = {
            "prototag": problem.objective(ours)[-1],
            "SPAMS and NumPy": problem.objective(theirs)[-1],
        }
        rows.append(row)
        print(row, flush=True)
    write(
        "fit_speed.json",
        {
            "machine": stamp(SEED, "spams-bin"),
            "data": data.name,
            "checksum": data.checksum,
            "k": k,
            "threads": 1,
            "passes": problem.n_passes,
            "objective at the start": problem.objective(start)[-1],
            "iterations": rows,
            "ratio, median": float(np.median([row["ratio"] for row in rows])),
        },
        quick,
    )


def recipes(quick: bool) -> None:
    """The two recipes in full, scored once on the test images."""
    data = collection(quick)
    rows = []
    small = {"max_iter": 2, "init_iter": 1} if quick else {}
    for name, k in (("published", 4000), ("published", 2000), ("paper", 4000)):
        k = k // 10 if quick else k
        times: list[float] = [time.perf_counter()]

        def on_event(event: Event, times: list[float] = times) -> None:
            times.append(time.perf_counter())
            print(event, flush=True)

        model = getattr(MCDL, name)(k, random_state=SEED, n_jobs=2, progress=on_event, **small)
        model.fit(data.X, data.Y)
        scores = model.decision_function(data.X_test)
        rows.append(
            {
                "recipe": name,
                "k": k,
                "seconds for the initialisation": times[1] - times[0],
                "seconds per iteration": float(np.mean(np.diff(times[1:]))),
                "threads": 2,
                "objective": [float(v) for v in model.objective_["total"]],
                "threshold": model.threshold_,
                "largest gap of the codes": model.codes_gap_,
                "test": metrics.report(data.Y_test, scores, model.threshold_, Y_train=data.Y),
            }
        )
        print(rows[-1]["test"], flush=True)
    write(
        "fit_recipes.json",
        {
            "machine": stamp(SEED),
            "data": data.name,
            "checksum": data.checksum,
            "protocol": "threshold: one value chosen on training images; top: five tags per image",
            "recipes": rows,
        },
        quick,
    )


def scale_one(n: int, k: int) -> None:
    """Measure one size in a separate process, for its peak memory."""
    data = planted(n, 568, 4000, m=200, mixed=6, noise=0.6, random_state=SEED)
    X, Y = data.X, data.Y
    del data
    times: list[float] = []
    model = MCDL.paper(
        k,
        recipe=replace(RECIPES["paper"], unused="reseed"),
        max_iter=1,
        init_iter=0,
        n_jobs=2,
        random_state=SEED,
        progress=lambda _: times.append(time.perf_counter()),
    )
    begin = time.perf_counter()
    model.fit(X, Y)
    print(
        json.dumps(
            {
                "n": n,
                "seconds for the initialisation": times[0] - begin,
                "seconds for one iteration of 4 passes": times[1] - times[0],
                "seconds for codes and threshold at the end": time.perf_counter() - times[1],
                "peak memory, GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            }
        )
    )


def scale(quick: bool) -> None:
    rows = []
    k = 300 if quick else 20_000
    for n in (1_000, 2_000) if quick else (21_847, 43_694, 87_388):
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.fit", "scale", "--size", str(n), str(k)],
            check=True,
            capture_output=True,
            text=True,
        )
        rows.append(json.loads(run.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    write(
        "fit_scale.json",
        {"machine": stamp(SEED), "k": k, "t": 568, "m": 200, "threads": 2, "sizes": rows},
        quick,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("part", choices=["speed", "recipes", "scale"])
    parser.add_argument("--quick", action="store_true", help="few images, nothing written")
    parser.add_argument("--size", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.size is not None:
        scale_one(*given.size)
    else:
        {"speed": speed, "recipes": recipes, "scale": scale}[given.part](given.quick)


if __name__ == "__main__":
    main()
