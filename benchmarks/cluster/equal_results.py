"""Equality of results on threads and on clusters, also when workers die.

    python -m benchmarks.cluster.equal_results [--collections iaprtc12 coco]
                                               [--workers 1 2 4] [--most N]

Trains recommended() on threads, on clusters of local processes, and on two workers, one of which is
killed by SIGKILL in each stage of training. Compares the scores of all test images: the largest
difference, and whether the same tags are applied. Results are written to
benchmarks/results/cluster_same.json.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.collections import DATA
from benchmarks.machine import stamp
from prototag import recommended
from prototag.engine import Engine, Threads
from prototag.engine.dask import Dask
from prototag.events import Event

RESULTS = Path(__file__).parents[1] / "results"
FILES = {"iaprtc12": "iaprtc12_lite0_large.npz", "coco": "coco56k_lite0_pca256.npz"}


def read(name: str, most: int | None) -> tuple[Any, ...]:
    with np.load(DATA / FILES[name], allow_pickle=False) as file:
        X = file["X"].astype(np.float32)
        Y = np.unpackbits(file["label_bits"], axis=1)[:, : int(file["n_tags"])]
        train, test = file["train_idx"][:most], file["test_idx"]
    Y_train = sparse.csr_array(Y[train].astype(np.float32))
    common = np.flatnonzero(Y_train.sum(axis=0) >= 2)  # a part of a collection lacks some tags
    return X[train], sparse.csr_array(Y_train[:, common]), X[test]


class Mortal(Engine):
    """A local cluster that loses a worker in the first call of each stage, and gets another."""

    def __init__(self, engine: Dask) -> None:
        self.engine, self.due, self.stages, self.killed = engine, True, 0, 0

    def on_event(self, _: Event) -> None:
        """Kill a worker in the next stage, because a stage has ended."""
        self.due, self.stages = True, self.stages + 1

    def stream(self, function: Any, rows: Any, shared: Any = (), *, size: int) -> Iterator[Any]:
        results = self.engine.stream(function, rows, shared, size=size)
        if self.due:
            yield next(results)
            # One more comes before one goes: a nanny does not always start a killed one again.
            cluster = self.engine._cluster
            assert cluster is not None
            cluster.scale(len(cluster.worker_spec) + 1)
            self.engine.client.wait_for_workers(2, timeout=600)
            victim = next(iter(self.engine.client.run(os.getpid).values()))
            os.kill(victim, signal.SIGKILL)
            self.due, self.killed = False, self.killed + 1
        yield from results


def learn(data: tuple[Any, ...], engine: Engine, progress: Any = None) -> tuple[Any, Any, float]:
    X, Y, X_test = data
    began = time.perf_counter()
    model = recommended(engine=engine, progress=progress).fit(X, Y)
    seconds = time.perf_counter() - began
    return model.decision_function(X_test), model.predict(X_test), seconds


def compare(name: str, workers: list[int], most: int | None) -> Iterator[dict[str, Any]]:
    data = read(name, most)
    scores, tags, seconds = learn(data, Threads(-1))
    common = {"collection": name, "images": len(data[0]), "tested": len(data[2])}
    yield {**common, "engine": "threads", "seconds": round(seconds, 1)}

    def line(engine: str, outcome: tuple[Any, Any, float], **more: Any) -> dict[str, Any]:
        return {
            **common,
            "engine": engine,
            "seconds": round(outcome[2], 1),
            "largest_difference": float(np.abs(outcome[0] - scores).max()),
            "same_bits": bool(np.array_equal(outcome[0], scores)),
            "same_tags": bool((outcome[1] != tags).sum() == 0),
            **more,
        }

    for count in workers:
        with Dask.local(count) as engine:
            yield line(f"{count} workers", learn(data, engine))
    with Dask.local(2) as engine:
        mortal = Mortal(engine)
        outcome = learn(data, mortal, mortal.on_event)
        yield line(
            "2 workers, one killed in each stage",
            outcome,
            workers_killed=mortal.killed,
            stages=mortal.stages,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--collections", nargs="+", default=[*FILES], choices=[*FILES])
    parser.add_argument("--workers", nargs="*", type=int, default=[1, 2, 4])
    parser.add_argument("--most", type=int, help="learn from the first images only; not written")
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": stamp(0, "dask", "distributed"), "results": []}
    for name in given.collections:
        for record in compare(name, given.workers, given.most):
            result["results"].append(record)
            print(json.dumps(record), flush=True)
    if given.most is None:
        (RESULTS / "cluster_same.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
