"""Large folder: 5,000 pictures with 2% broken files, with limits of memory, kills and resumes.

Each run is a separate process (``python -m benchmarks.speed.large_folder FOLDER CACHE LOG``), whose
memory can be read and which can be killed. It logs every batch before the backbone runs.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from prototag.features.backbones import EmbeddedBackbone
from prototag.features.transformer import FeatureExtractor
from prototag.features.vector_cache import VectorCache

from .photos import LARGE, SMALL, write

BATCH = 16
SETTINGS = {"crops": "whole", "n_jobs": 2, "batch_size": BATCH}


class Logging:
    """Embedded backbone that logs the size of each batch before it runs."""

    def __init__(self, log: Path) -> None:
        self.network = EmbeddedBackbone(n_jobs=2)
        self.file = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)

    def __call__(self, pixels: np.ndarray, names: list[str]) -> np.ndarray:
        return self.alone(pixels, names)

    def alone(self, pixels: np.ndarray, names: list[str]) -> np.ndarray:
        os.write(self.file, f"{len(pixels)}\n".encode())
        return self.network.alone(pixels, names)


def run(folder: Path, cache: Path, log: Path) -> None:
    files = sorted(folder.iterdir())
    start = time.perf_counter()
    features = FeatureExtractor(Logging(log), cache=cache, **SETTINGS).extract(files)
    report = {
        "read": len(features.kept),
        "from_cache": features.n_cached,
        "skipped": {Path(skipped.source).name: skipped.reason for skipped in features.skipped},
        "seconds": round(time.perf_counter() - start, 1),
        "peak_memory_mb": _peak_memory(),
    }
    print(json.dumps(report))


def _peak_memory() -> int:
    # Not getrusage: its figure includes the process that started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def make(folder: Path, count: int, seed: int) -> dict[str, str]:
    """Pictures, one of a hundred with 12 megapixels; every fiftieth file is broken: name -> how."""
    files = write(folder, SMALL, count, seed)
    large = write(folder.with_name("large"), LARGE, 5, seed)
    for number, file in enumerate(files[7::100]):
        shutil.copy(large[number % len(large)], file)
    broken = {}
    for number, file in enumerate(files[49::50]):
        data = file.read_bytes()
        how = ("truncated", "empty", "text", "foreign")[number % 4]
        change = {
            "truncated": data[: len(data) * 2 // 3],
            "empty": b"",
            "text": b"a note, renamed",
            "foreign": b"%PDF-1.7\n" + data,
        }
        file.write_bytes(change[how])
        broken[file.name] = how
    return broken


def measure(work: Path, count: int, kills: int, seed: int) -> dict[str, Any]:
    broken = make(work / "photos", count, seed)
    time.sleep(2.1)  # stamps are trusted from two seconds on
    command = [sys.executable, "-m", "benchmarks.speed.large_folder", str(work / "photos")]
    whole = subprocess.run(
        [*command, str(work / "whole.sqlite"), str(work / "whole.log")],
        check=True,
        capture_output=True,
        text=True,
    )
    report = json.loads(whole.stdout)
    named = report.pop("skipped")
    report["broken"] = len(broken)
    report["every_broken_file_named_with_a_reason"] = named.keys() == broken.keys()
    report["reasons"] = sorted(set(named.values()))
    report["killed"] = _killed(command, work, kills, count - len(broken), seed)
    return {"images": count, **SETTINGS, **report}


def _killed(command: list[str], work: Path, kills: int, good: int, seed: int) -> dict[str, Any]:
    """Kill at random times, resume, and count pictures that were computed twice."""
    rng = random.Random(seed)
    cache, log = work / "killed.sqlite", work / "killed.log"
    stored = []
    for _ in range(kills):
        process = subprocess.Popen([*command, str(cache), str(log)], stdout=subprocess.DEVNULL)
        time.sleep(rng.uniform(1, 6))
        process.send_signal(signal.SIGKILL)
        process.wait()
        with VectorCache(cache) as left:
            stored.append(len(left))
    done = subprocess.run(
        [*command, str(cache), str(log)], check=True, capture_output=True, text=True
    )
    computed = sum(map(int, log.read_text().split()))
    return {
        "kills": kills,
        "stored_after_each": stored,
        "computed_twice_in_all": computed - good,
        "allowed": kills * BATCH,
        "read_in_the_end": json.loads(done.stdout)["read"],
    }


if __name__ == "__main__":
    run(*map(Path, sys.argv[1:4]))
