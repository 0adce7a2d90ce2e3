"""A fit by the published recipe: time per iteration against SPAMS and NumPy, and what it annotates.

    python -m benchmarks.fit speed     iterations of both, turn by turn from one start
    python -m benchmarks.fit recipes   published (4,000 and 2,000 prototypes) and paper, scored
    python -m benchmarks.fit scale     memory and growth with n at the paper's largest size

Each writes its part of benchmarks/results/ (fit_speed.json, fit_recipes.json, fit_scale.json).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.collections import best_at_hand
from benchmarks.fit import rival
from benchmarks.machine import stamp
from prototag import MCDL
from prototag.evaluation import metrics
from prototag.mcdl.problem import Problem, State
from prototag.research.datasets import planted

RESULTS = Path(__file__).parents[1] / "results"
SEED = 0


def write(name: str, result: dict) -> None:
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(result, indent=1)
    (RESULTS / name).write_text(text + "\n")
    print(text)


def speed(k: int = 4000, iterations: int = 2, init_iter: int = 10) -> None:
    """Both schedules from the same start; the objective is ours, computed for both."""
    data = best_at_hand()
    X, Y = data.X, data.Y
    model = MCDL.published(k, random_state=SEED, init_iter=init_iter, n_jobs=2)
    problem = Problem(model, X, Y)
    start = problem.initialise(k, np.random.default_rng([SEED, 0]))
    dense = Y.toarray() > 0
    loss, lam = problem.loss, problem.lam
    targets = {"present": loss.present, "absent": loss.absent}
    rows = []
    ours = State(start.D.copy(), start.S.copy(), start.A.copy(), [])
    theirs = State(start.D.copy(), start.S.copy(), start.A.copy(), [])
    for iteration in range(1, iterations + 1):
        row: dict[str, object] = {"iteration": iteration}
        rng = np.random.default_rng([SEED, iteration])
        rho = 0.1 * np.sqrt(k) * iteration
        for threads in (1,):
            model.set_params(n_jobs=threads)
            with threadpool_limits(threads):
                times = {}
                t = time.perf_counter()
                ours.A = problem.code(ours, opening=iteration == 1)
                times["coding"] = time.perf_counter() - t
                t = time.perf_counter()
                ours.D = problem.visual(ours, rng)
                times["visual"] = time.perf_counter() - t
                t = time.perf_counter()
                ours.S = problem.semantic(ours, rng, iteration)
                times["semantic"] = time.perf_counter() - t
                row["prototag"] = {**times, "total": sum(times.values())}

                times = {}
                t = time.perf_counter()
                theirs.A = rival.code(
                    X, dense, theirs.D, theirs.S, theirs.A, lam=lam, passes=4,
                    opening=iteration == 1, threads=threads, **targets,
                )  # fmt: skip
                times["coding"] = time.perf_counter() - t
                order = rng.permutation(k)
                t = time.perf_counter()
                theirs.S = rival.semantic(
                    dense, theirs.A, theirs.S, order, beta1=model.beta1, rho=rho, **targets
                )
                theirs.S = rival.rescale(dense, theirs.A, theirs.S, beta1=model.beta1, **targets)
                times["semantic"] = time.perf_counter() - t
                t = time.perf_counter()
                theirs.D = rival.visual(X, theirs.A, theirs.D, order)
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
            "passes": 4,
            "objective at the start": problem.objective(start)[-1],
            "iterations": rows,
            "ratio, median": float(np.median([row["ratio"] for row in rows])),
        },
    )


def recipes() -> None:
    """The two recipes in full, scored once on the test images."""
    data = best_at_hand()
    rows = []
    for name, k in (("published", 4000), ("published", 2000), ("paper", 4000)):
        times: list[float] = [time.perf_counter()]
        model = getattr(MCDL, name)(
            k,
            random_state=SEED,
            n_jobs=2,
            callback=lambda p, times=times: (times.append(time.perf_counter()), print(p)),
        )
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
    )


def scale_one(n: int) -> None:
    """One size, in a process of its own so that its peak of memory is its own."""
    data = planted(n, 568, 4000, m=200, mixed=6, noise=0.6, random_state=SEED)
    X, Y = data.X, data.Y
    del data
    times: list[float] = []
    model = MCDL.paper(
        20_000,
        unused="reseed",
        max_iter=1,
        init_iter=0,
        n_jobs=2,
        random_state=SEED,
        callback=lambda _: times.append(time.perf_counter()),
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


def scale() -> None:
    rows = []
    for n in (21_847, 43_694, 87_388):
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.fit", "scale", "--n", str(n)],
            check=True,
            capture_output=True,
            text=True,
        )
        rows.append(json.loads(run.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    write(
        "fit_scale.json",
        {"machine": stamp(SEED), "k": 20_000, "t": 568, "m": 200, "threads": 2, "sizes": rows},
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("part", choices=["speed", "recipes", "scale"])
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.n is not None:
        scale_one(given.n)
    else:
        {"speed": speed, "recipes": recipes, "scale": scale}[given.part]()


if __name__ == "__main__":
    main()
