"""Out-of-core training on many images: seconds and peak memory of each stage.

    python -m benchmarks.scale --work FOLDER [--workers 2] [--tags 500] [100000 300000 1000000]
    python -m benchmarks.scale --work FOLDER --tags 1000 --held 100000

Vectors are planted (1,280 columns) and lie on the disk, in the folder; `--held` gives them as an
array in memory, which counts. With workers a local Dask cluster learns, without them the threads of
this process. `--until STAGE` ends there: the time of one changed stage. Into
benchmarks/results/scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import stamp

TARGET = Path(__file__).parents[1] / "results" / "scale.json"
STAGES = ("sums", "lifting", "prototypes", "codes", "semantics", "kernel", "scores", "relations")
STAGES += ("thresholds",)
NEW = 20_000  # images to be annotated
EVERY = 0.2  # seconds between looks at memory


def resident(pid: int) -> int:
    """Bytes that a process holds by itself: what it maps of files can be given back."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


def children(pid: int) -> list[int]:
    """A process and all that it has started."""
    processes = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            processes += children(int(child))
    return processes


class Watch:
    """Monitor of the memory of this process and its children in each stage."""

    def __init__(self) -> None:
        self.most = self.together = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self) -> None:
        while not self.ended.wait(EVERY):
            try:
                sizes = [resident(pid) for pid in children(os.getpid())]
            except OSError:
                continue
            self.most, self.together = (
                max(self.most, *sizes),
                max(self.together, sum(sizes)),
            )

    def take(self) -> dict[str, float]:
        record = {
            "largest_process_gb": round(self.most / 2**30, 2),
            "together_gb": round(self.together / 2**30, 2),
        }
        self.most = self.together = 0
        return record


class Enough(Exception):
    """Signal that the requested last stage has ended."""


def learn(n: int, folder: Path, workers: int, t: int, until: str, held: bool) -> dict[str, Any]:
    """Run one fit in a separate process."""
    from benchmarks.scale import synthetic_vectors
    from prototag import recommended
    from prototag.engine import Engine, Threads
    from prototag.evaluation import metrics

    X: Any
    X, Y = synthetic_vectors.written(folder / f"vectors-{t}", n, t=t)
    if held:
        X = X.load()
    engine: Engine = Threads(2)
    if workers:
        from prototag.engine.dask import Dask

        engine = Dask.local(workers)
    watch, rows, last = Watch(), [], [time.perf_counter()]

    def on_event(event: Any) -> None:
        now = time.perf_counter()
        if event.done:
            name = STAGES[event.done - 1]
            rows.append({"stage": name, "seconds": round(now - last[0], 1), **watch.take()})
            print(n, rows[-1], flush=True)
            if name == until != STAGES[-1]:
                raise Enough
        last[0] = now

    began = time.perf_counter()
    with suppress(Enough):
        model = recommended(engine=engine, progress=on_event).fit(X, Y)
    seconds = time.perf_counter() - began
    watch.ended.set()
    close = getattr(engine, "close", None)
    if close is not None:
        close()
    learned = {
        "images": n,
        "tags": t,
        "workers": workers,
        "until": until,
        "held": held,
        "seconds": round(seconds, 1),
        "largest_process_gb": max(row["largest_process_gb"] for row in rows),
        "together_gb": max(row["together_gb"] for row in rows),
        "stages": rows,
    }
    if until != STAGES[-1]:
        return learned
    # Pieces of later numbers than any of those learned.
    parts = [
        synthetic_vectors.piece(10**6 + i, synthetic_vectors.PIECE, 0, t)
        for i in range(NEW // synthetic_vectors.PIECE + 1)
    ]
    x = np.concatenate([part[0] for part in parts])[:NEW]
    true = np.concatenate([part[1].toarray() for part in parts])[:NEW]
    scores = model.model_.scores(x, Threads(2))
    return {
        **learned,
        "chosen": model.choices_,
        "threshold_f1": round(metrics.f1_of_means(true, scores > model.threshold_), 4),
        "mean_average_precision": round(metrics.mean_average_precision(true, scores), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="*", type=int, default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--tags", type=int, default=500)
    parser.add_argument("--held", action="store_true", help="vectors as an array in memory")
    parser.add_argument("--until", choices=STAGES, default=STAGES[-1])
    parser.add_argument("--alone", action="store_true", help="one fit, printed as JSON")
    given = parser.parse_args()
    if given.alone:
        run = learn(given.counts[0], given.work, given.workers, given.tags, given.until, given.held)
        print("RESULT", json.dumps(run))
        return
    results = json.loads(TARGET.read_text()) if TARGET.exists() else {"runs": []}
    for n in given.counts:
        command = [sys.executable, "-u", "-m", "benchmarks.scale", str(n), "--alone"]
        command += [
            "--work",
            str(given.work),
            "--workers",
            str(given.workers),
            "--tags",
            str(given.tags),
        ]
        command += ["--until", given.until, *(["--held"] if given.held else [])]
        at_start = stamp(0)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("RESULT "):
                    run = {**json.loads(line.removeprefix("RESULT ")), "machine": at_start}
                    same = {
                        "images": n,
                        "workers": given.workers,
                        "tags": given.tags,
                        "until": given.until,
                        "held": given.held,
                    }
                    results["runs"] = [
                        old for old in results["runs"] if {k: old.get(k) for k in same} != same
                    ]
                    results["runs"].append(run)
                    TARGET.write_text(json.dumps(results, indent=1) + "\n")
                else:
                    print(line, end="", flush=True)
        if process.returncode:
            raise SystemExit(f"{n} images: the fit ended with {process.returncode}.")


if __name__ == "__main__":
    main()
