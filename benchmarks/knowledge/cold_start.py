"""Measures how long the general vocabulary takes to load, and ``prototag annotate`` with it.

    python -m benchmarks.knowledge.cold_start

Writes benchmarks/results/knowledge_cold_start.json. Each run is a new process with one BLAS thread.
Loading is timed inside it, as wall time and as processor time, because other programs on the
machine disturb the former. Commands with a small model and with the general vocabulary alternate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.machine import stamp
from prototag import Annotator

RESULTS = Path(__file__).parents[1] / "results/knowledge_cold_start.json"
RUNS = 15
LOAD = """
import time
import prototag.annotator.annotator
wall, processor = time.perf_counter(), time.process_time()
from prototag.knowledge.concepts import embedded
from prototag.knowledge.general import general_vocabulary
general_vocabulary().in_language("de")
if {concepts}:
    embedded()
print(1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - processor))
"""


def main() -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        values = measure(Path(folder), {**environment, "PROTOTAG_CACHE": f"{folder}/cache"})
    RESULTS.write_text(json.dumps({**stamp(0), "runs": RUNS, **values}, indent=1) + "\n")
    print(json.dumps(values, indent=1))


def measure(folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Return medians and minima of milliseconds."""
    rng = np.random.default_rng(0)
    pictures = []
    for number in range(12):
        pixels = rng.integers(0, 255, (48, 64, 3), np.uint8)
        pixels[:, :, number % 2] //= 4
        pictures.append(folder / f"{number}.png")
        Image.fromarray(pixels).save(pictures[-1])
    tags = [["red" if number % 2 else "green"] for number in range(12)]
    Annotator(cache=None).fit(pictures, tags).save(folder / "small.prototag")
    command = [sys.executable, "-m", "prototag", "annotate", str(pictures[0])]
    commands = {
        "annotate_with_small_model": [*command, "-m", str(folder / "small.prototag")],
        "annotate_with_general_vocabulary": [*command, "--language", "de"],
    }
    loads = {
        "load_vocabulary": LOAD.format(concepts=False),
        "load_vocabulary_and_concept_heads": LOAD.format(concepts=True),
    }
    wall: dict[str, list[float]] = {name: [] for name in (*loads, *commands)}
    processor: dict[str, list[float]] = {name: [] for name in wall}
    for _ in range(RUNS):
        for name, code in loads.items():
            output = subprocess.check_output([sys.executable, "-c", code], env=environment)
            for times, value in zip((wall, processor), output.split(), strict=True):
                times[name].append(float(value))
        for name, arguments in commands.items():
            used = os.times()
            began = time.perf_counter()
            subprocess.run(arguments, env=environment, capture_output=True, check=True)
            wall[name].append(1000 * (time.perf_counter() - began))
            now = os.times()
            before = used.children_user + used.children_system
            processor[name].append(1000 * (now.children_user + now.children_system - before))
    return {
        name: {
            "wall_ms": _summary(wall[name]),
            "processor_ms": _summary(processor[name]),
        }
        for name in wall
    }


def _summary(values: list[float]) -> dict[str, float]:
    return {"median": round(median(values), 1), "minimum": round(min(values), 1)}


if __name__ == "__main__":
    main()
