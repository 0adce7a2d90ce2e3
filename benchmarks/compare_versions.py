"""Comparison of the speed of two checkouts of the package.

    python -m benchmarks.compare_versions BEFORE_PYTHON [--quick] [--rounds 7] [--threads 1]
                                        [--same-columns]

BEFORE_PYTHON is the python of an environment with the older checkout; the newer one is this. Both
get the same files: pictures of the clip art, and vectors of IAPRTC-12 (planted ones if it is not
available). Models are not interchangeable, so each learns its own. Measured are

    cold      a new process: prototag annotate one picture, cache empty
    annotate  pictures annotated whose vectors are in the cache, by picture
    score     vectors scored by the recommended annotator, by vector
    fit       the recommended annotator learned
    core      the repaired core learned

each time in a new process, interleaved, with the same number of threads. Writes
benchmarks/results/rebuild.json (rebuild_same_columns.json): seconds of wall and of processor, and
for each round the newer divided by the older, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import PACKAGES, stamp
from benchmarks.quality import vectors
from benchmarks.tool.cold import run
from prototag import Reduction
from prototag.research.datasets import clipart, planted
from prototag.research.registry import COMPONENTS

TARGET = Path(__file__).parent / "results" / "rebuild.json"
SAME_TARGET = TARGET.with_name("rebuild_same_columns.json")
SEED = 0
SIDES = ("before", "after")

# The scripts below are run by both sides, so they use only what both have. Each says on its last
# line what it measured: seconds of wall and of processor.
CLOCK = """
import json, os, sys, time
import numpy as np
work, own, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
def timed(function, count=1):
    wall, busy = time.perf_counter(), time.process_time()
    answer = function()
    spent = time.perf_counter() - wall, time.process_time() - busy
    return answer, [seconds / count for seconds in spent]
def pictures(name):
    with open(f"{work}/{name}.json") as file:
        rows = json.load(file)
    return [row[0] for row in rows], [row[1] for row in rows]
"""
ABOUT = """
import subprocess, prototag
from importlib.metadata import version
names = sys.argv[4:]
git = ["git", "-C", os.path.dirname(prototag.__file__), "rev-parse", "--short", "HEAD"]
commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or None
print(json.dumps({"commit": commit, "versions": {name: version(name) for name in names}}))
"""
SAME_COLUMNS = """
try:
    from prototag.tagging import in_memory
    in_memory.MIN_IMAGES_PER_COMPONENT = 0
except ImportError:
    pass  # as it was before
"""
LEARN = """
from prototag import Annotator
annotator = Annotator(crops="whole", n_jobs=threads, cache=f"{own}/cache.sqlite")
annotator.fit(*pictures("train")).save(f"{own}/model.prototag")
list(annotator.annotate(pictures("new")[0]))  # their vectors are now in the cache
print(json.dumps({"tags": len(annotator.tags)}))
"""
ANNOTATE = """
from prototag import Annotator
files = pictures("new")[0]
annotator = Annotator.load(f"{own}/model.prototag", n_jobs=threads, cache=f"{own}/cache.sqlite")
list(annotator.annotate(files[:1]))  # what is prepared at first use
found, spent = timed(lambda: list(annotator.annotate(files)), len(files))
assert not any(one.error for one in found)
print(json.dumps({"annotate": spent}))
"""
FIT = """
from scipy import sparse
from prototag import recommended
try:
    from prototag import ExemplarMCDL as Core
except ImportError:
    from prototag import MCDL as Core  # as it was called before
with np.load(f"{work}/vectors.npz") as file:
    X, short, Y, new = (file[name] for name in ("X", "short", "Y", "new"))
Y = sparse.csr_array(Y.astype(np.float32))
model = recommended(n_jobs=threads, random_state=0)
fit = timed(lambda: model.fit(X, Y))[1]
model.decision_function(new[:64])  # what is prepared at first use
scores, score = timed(lambda: model.decision_function(new), len(new))
np.save(f"{own}/scores.npy", scores)
core = Core(n_jobs=threads, random_state=0)
spent = timed(lambda: core.fit(short, Y))[1]
print(json.dumps({"fit": fit, "score": score, "core": spent}))
"""


class Side:
    """One checkout, whose scripts run in its environment and in a separate folder."""

    def __init__(
        self, python: str, work: Path, name: str, threads: int, same_columns: bool
    ) -> None:
        self.python, self.work, self.own, self.threads = python, work, work / name, threads
        self.own.mkdir()
        self.clock = CLOCK + (SAME_COLUMNS if same_columns else "")
        count = str(threads)
        self.environment = {
            **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), count),
            "PROTOTAG_CACHE": str(self.own / "cold.sqlite"),
        }

    def script(self, text: str, *more: str) -> dict[str, Any]:
        """Run a script; return the JSON of its last line."""
        arguments = [str(self.work), str(self.own), str(self.threads), *more]
        done = subprocess.run(
            [self.python, "-c", self.clock + text, *arguments],
            env=self.environment,
            cwd=self.own,
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"{self.own.name}: a script ended with {done.returncode}.")
        return json.loads(done.stdout.splitlines()[-1])

    def cold(self) -> dict[str, Any]:
        """A whole command, the network included."""
        for left in self.own.glob("cold.sqlite*"):
            left.unlink()
        command = [self.python, "-m", "prototag", "annotate", str(self.work / "one.webp")]
        command += ["-m", str(self.own / "model.prototag"), "--jobs", str(self.threads)]
        return {"cold": run(command, self.environment)}


def write_pictures(work: Path, learned: int, new: int) -> dict[str, Any]:
    """Files that both learn from and annotate, drawn from the clip art's training part."""
    collection = clipart()
    drawn = np.random.default_rng(SEED).permutation(collection.train)[: learned + new]
    rows = []
    for number in drawn.tolist():
        path = work / f"{number:04}.webp"
        path.write_bytes(collection.images[number])
        tags = [str(collection.tags[tag]) for tag in collection.Y[[number]].indices]
        rows.append((str(path), tags))
    (work / "one.webp").write_bytes(collection.images[int(collection.test[0])])
    (work / "train.json").write_text(json.dumps(rows[:learned]))
    (work / "new.json").write_text(json.dumps(rows[learned:]))
    return {"name": "clip art", "learned": learned, "annotated": len(rows) - learned}


def write_vectors(work: Path, learned: int, new: int) -> dict[str, Any]:
    """Raw vectors, and the same reduced for the core; those scored are training images too."""
    try:
        data = vectors.read("whole", learned + new, SEED)
        X, Y, about = data.X, data.Y.toarray(), {"name": "IAPRTC-12", "checksum": data.checksum}
    except FileNotFoundError:
        synthetic = planted(learned + new, 100, 400, m=400, noise=0.5, random_state=SEED)
        X, Y, about = synthetic.X, synthetic.Y.toarray(), {"name": "planted"}
    order = np.random.default_rng(SEED).permutation(len(X))
    mine, rest = order[:learned], order[learned:]
    short = Reduction(COMPONENTS, random_state=SEED).fit_transform(X[mine])
    np.savez(work / "vectors.npz", X=X[mine], short=short, Y=Y[mine] > 0, new=X[rest])
    return {**about, "learned": learned, "scored": len(rest)}


def measure(sides: dict[str, Side], rounds: int) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """(wall, processor) of each round: what -> side -> rounds."""
    times: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for side in sides.values():
        side.cold()  # brings the files into memory
    for number in range(rounds):
        # Each begins every other round: whoever comes second finds caches warmer.
        turn = list(sides.items())[:: -1 if number % 2 else 1]
        for work in (Side.cold, lambda side: side.script(ANNOTATE), lambda side: side.script(FIT)):
            for name, side in turn:
                for what, spent in work(side).items():
                    by_side = times.setdefault(what, {each: [] for each in SIDES})
                    by_side[name].append(tuple(spent))
        print(f"round {number + 1} of {rounds}", flush=True)
    return times


def summary(values: list[float]) -> dict[str, float]:
    """The median, and how far single rounds are from it."""
    figures = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


def compared(times: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """Seconds of both sides, and the newer divided by the older, by round."""
    answer: dict[str, Any] = {}
    for place, clock in enumerate(("wall", "processor")):
        old, new = ([one[place] for one in times[name]] for name in SIDES)
        ratios = [b / a for a, b in zip(old, new, strict=True)]
        answer[f"{clock}_s"] = {"before": summary(old), "after": summary(new)}
        answer[f"{clock}_after_to_before"] = summary(ratios)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("before", metavar="BEFORE_PYTHON")
    parser.add_argument("--quick", action="store_true", help="small, two rounds, nothing written")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--same-columns",
        action="store_true",
        help="reduce few images to principal components on both sides: the older always did",
    )
    given = parser.parse_args()
    rounds = 2 if given.quick else given.rounds
    pictures, annotated, learned, scored = (
        (60, 60, 500, 1_000) if given.quick else (400, 1_000, 3_000, 10_000)
    )
    result: dict[str, Any] = {"machine": stamp(SEED, "pillow", "onnxruntime"), "rounds": rounds}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        result["pictures"] = write_pictures(work, pictures, annotated)
        result["vectors"] = write_vectors(work, learned, scored)
        result["threads"] = given.threads
        result["same_columns"] = given.same_columns
        pythons = dict(zip(SIDES, (os.path.abspath(given.before), sys.executable), strict=True))
        sides = {
            name: Side(path, work, name, given.threads, given.same_columns)
            for name, path in pythons.items()
        }
        names = (*PACKAGES, "pillow", "onnxruntime")
        result["sides"] = {name: side.script(ABOUT, *names) for name, side in sides.items()}
        time.sleep(2.1)  # stamps of files are trusted from two seconds on
        for name, side in sides.items():
            result["sides"][name].update(side.script(LEARN))
        times = measure(sides, rounds)
        old, new = (np.load(side.own / "scores.npy") for side in sides.values())
    # Tells whether both did the same work. Not zero where the core's folds decide: the older one
    # draws them differently.
    result["largest_difference_of_scores"] = float(np.abs(old - new).max())
    result["measured"] = {what: compared(by_side) for what, by_side in times.items()}
    print(json.dumps(result, indent=1))
    if not given.quick:
        target = SAME_TARGET if given.same_columns else TARGET
        target.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
