"""Crash safety: processes that use a library are killed by SIGKILL at random times.

    python -m benchmarks.library.sigkill [--kills 200] [--quick] [decisions sync learning]

A process decides, syncs or trains in a loop and prints what is committed. It is killed after a
random time, and the library is checked: it opens, every page and row is valid, and it has all
decisions that were reported, and at most one more batch. After a sync every sidecar is complete, no
tag counts as removed by a person, and another sync writes every accepted tag to its sidecar. After
training the current model is complete. Pictures keep their bytes. Results are written to
benchmarks/results/library_kills.json.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.attack.sigkill import undo_last
from benchmarks.machine import stamp
from prototag import Library, metadata

TARGET = Path(__file__).parents[1] / "results" / "library_kills.json"
OPERATIONS = ("decisions", "sync", "learning")
PICTURES = 40
# Seconds until the kill, once the work has begun: long enough for any of its steps.
LONGEST = {"decisions": 0.4, "sync": 0.4, "learning": 3.0}
WORDS = ("sea", "sky", "sand", "boat", "gull", "rock")


def make(folder: Path) -> Path:
    """A library of small pictures of noise, half of them tagged."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = []
    for number in range(PICTURES):
        path = folder / f"{number:03}.jpg"
        Image.fromarray(rng.integers(0, 255, (48, 64, 3), np.uint8)).save(path)
        if number % 2:
            lines.append({"file_name": path.name, "tags": [WORDS[number % 3], WORDS[3]]})
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
        return library.path


def work(operation: str, path: Path, seed: int) -> None:
    """Run the process to kill: print "begun", then the number of each committed decision."""
    rng = random.Random(seed)
    with Library(path, cache=None) as library:
        if operation == "learning":
            library.learn(full=False)  # loads what learning needs
        print("begun", flush=True)
        while True:
            chosen = rng.sample(range(1, PICTURES + 1), 3)
            word = rng.choice(WORDS)
            if operation == "decisions" and rng.random() < 0.2:
                undo_last(library)
                continue
            verdict = library.reject if rng.random() < 0.3 else library.accept
            if word in {tag.name for tag in library.tags()} or verdict == library.accept:
                before = library.store.last_decision()
                if verdict(chosen, [word]):
                    print(*range(before + 1, library.store.last_decision() + 1), flush=True)
            if operation == "sync":
                library.sync()
            elif operation == "learning":
                library.learn(full=rng.random() < 0.3)


def kill(operation: str, path: Path, seed: int) -> list[int]:
    """Start the process and kill it; return the numbers of the decisions that it reported."""
    command = [sys.executable, "-m", "benchmarks.library.sigkill", "--work", str(path)]
    process = subprocess.Popen(
        [*command, "--seed", str(seed), operation], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    if process.stdout.readline() != "begun\n":
        raise RuntimeError(f"the work did not begin: {process.wait()}")
    time.sleep(random.Random(seed).random() * LONGEST[operation])
    process.send_signal(signal.SIGKILL)
    output = process.stdout.read()
    process.wait()
    whole = output[: output.rfind("\n") + 1]
    return [int(word) for word in whole.split()]


def look(operation: str, path: Path, reported: list[int], before: int) -> Counter[str]:
    """Count the faults after a kill."""
    wrong: Counter[str] = Counter()
    with Library(path, cache=None) as library:
        wrong["damage"] += len(library.check())
        committed = {d.number for d in library.history(100_000) if d.number > before}
        wrong["decisions lost"] += len({*reported} - committed)
        wrong["batches beyond what was said"] += _extra(library, {*reported}, before) > 1
        if operation == "sync":
            for sidecar in path.parent.glob("*.xmp"):
                try:
                    metadata.sidecar.read(sidecar)
                except metadata.sidecar.MetadataError:
                    wrong["broken sidecars"] += 1
            library.sync()
            wrong["taken for removed"] += sum(d.by == "sidecar" for d in library.history(100_000))
            wrong["second sync not empty"] += bool(library.plan_sync())
            for number, tags in enumerate(metadata.collect(path.parent).tags, 1):
                accepted = {*library.picture(number).accepted}
                wrong["accepted tags not written"] += len(accepted - {*tags})
        elif operation == "learning":
            models = library.models()
            wrong["not one current model"] += bool(models) and sum(m.current for m in models) != 1
            library.suggest(limit=5)
    return wrong


def _extra(library: Library, reported: set[int], before: int) -> int:
    """Count batches that were committed and not reported; at most one may be in flight."""
    unreported = [
        d for d in library.history(100_000) if d.number > before and d.number not in reported
    ]
    return len({d.batch for d in unreported})


def run(operation: str, kills: int, folder: Path) -> dict[str, Any]:
    path = make(folder / operation)
    if operation == "learning":
        with Library(path, cache=None) as library:
            library.learn(full=True)
    pictures = {file: file.read_bytes() for file in path.parent.glob("*.jpg")}
    wrong: Counter[str] = Counter()
    decisions = in_flight = 0
    began = time.perf_counter()
    for seed in range(kills):
        with Library(path, cache=None) as library:
            before = library.store.last_decision()
        reported = kill(operation, path, seed)
        decisions += len(reported)
        faults = look(operation, path, reported, before)
        with Library(path, cache=None) as library:
            in_flight += library.store.last_decision() > max([before, *reported])
        wrong.update(faults)
        print(operation, seed, len(reported), dict(+faults), flush=True)
    wrong["pictures changed"] += sum(file.read_bytes() != data for file, data in pictures.items())
    with Library(path, cache=None) as library:
        n_models = max((model.number for model in library.models()), default=0)
    return {
        "kills": kills,
        **({"models_made": n_models} if operation == "learning" else {}),
        "decisions_said": decisions,
        "kills_with_a_batch_in_flight_that_was_kept": in_flight,
        "wrong": dict(wrong),
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("operations", nargs="*", choices=[*OPERATIONS, []])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="few, nothing written")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.operations[0], given.work, given.seed)
    kept = json.loads(TARGET.read_text()) if TARGET.exists() and not given.quick else {}
    result: dict[str, Any] = {**kept, "machine": stamp(0)}
    with tempfile.TemporaryDirectory() as folder:
        for operation in given.operations or ("decisions", "sync"):
            result[operation] = run(operation, 5 if given.quick else given.kills, Path(folder))
            print(json.dumps(result[operation]))
    if not given.quick:
        TARGET.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
