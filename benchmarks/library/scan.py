"""Time of a library scan compared with the extractor alone, on the same new pictures.

    python -m benchmarks.library.scan [--pictures N] [--rounds N] [--jobs N] [--photos FOLDER]

Photographs are made distinct (a crop and a corner of their own) until there are enough, with their
tags in a list. A round runs both sides in new processes, in turn, each with an empty cache: the
extractor gives vectors, the scan finds, reads and keeps pictures, vectors, thumbnails and tags. CPU
seconds are said beside the clock's, because other work on the machine moves the latter. Between the
batches of a scan the share of the pictures it has read that count as tagged is asked: 1 unless some
photographs have no tags. Written to benchmarks/results/library_scan.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.machine import stamp

TARGET = Path(__file__).parents[1] / "results" / "library_scan.json"
SEED = 0
QUALITY = 90
CORNER = 12  # pixels of a side of the square that no two pictures share
LEAST = 0.88  # share of a photograph that a crop keeps
SIDES = ("extractor", "scan")


def collection(folder: Path, count: int, photos: Path) -> list[Path]:
    """Make a tagged folder of distinct photographs."""
    sources = sorted(photos.glob("*.jpg"))
    if not sources:
        sys.exit(f"{photos} holds no .jpg files: give --photos FOLDER.")
    tags = _tags(photos)
    rng = np.random.default_rng(SEED)
    lines, files = [], []
    for number in range(count):
        source = sources[number % len(sources)]
        image = Image.open(source).convert("RGB")
        wide, high = image.size
        share = rng.uniform(LEAST, 1.0)
        w, h = int(wide * share), int(high * share)
        x, y = int(rng.integers(0, wide - w + 1)), int(rng.integers(0, high - h + 1))
        image = image.crop((x, y, x + w, y + h))
        corner = Image.fromarray(rng.integers(0, 256, (CORNER, CORNER, 3), np.uint8))
        image.paste(corner, (0, 0))
        path = folder / f"{number:05}.jpg"
        image.save(path, "JPEG", quality=QUALITY)
        files.append(path)
        lines.append(json.dumps({"file_name": path.name, "tags": tags.get(source.name, ["any"])}))
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    # Files that were made a moment ago are not yet known by their time alone.
    past = time.time() - 3600
    for path in files:
        os.utime(path, (past, past))
    return files


def _tags(photos: Path) -> dict[str, list[str]]:
    listed = photos / "metadata.jsonl"
    if not listed.exists():
        return {}
    rows = [json.loads(line) for line in listed.read_text().splitlines() if line.strip()]
    return {Path(row["file_name"]).name: row["tags"] for row in rows}


def one_side(side: str, folder: Path, work: Path, jobs: int) -> None:
    """Run one side in this process and print what it took."""
    from prototag import Library
    from prototag.features.extractor import Extractor

    pictures = sorted(folder.glob("*.jpg"))
    seen: list[tuple[int, int]] = []
    began, cpu = time.perf_counter(), _cpu()
    if side == "extractor":
        extractor = Extractor(n_jobs=jobs, cache=work / "cache.sqlite")
        count = len(extractor.extract(pictures).kept)
    else:
        with Library.create(
            folder, work / "mine.library", n_jobs=jobs, cache=work / "cache.sqlite"
        ) as library:
            scanned = library.scan(stop=lambda: _asked(library, seen))
            count = scanned.new
    took = {
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(_cpu() - cpu, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "pictures": count,
    }
    if seen:
        took["tagged_of_read_at_worst"] = min(tagged / read for read, tagged in seen)
    print(json.dumps(took))


def _asked(library: Any, seen: list[tuple[int, int]]) -> bool:
    status = library.status()
    if status.pictures:
        seen.append((status.pictures, status.tagged))
    return False


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(side: str, folder: Path, jobs: int) -> dict[str, Any]:
    """Run one side in a new process, with a separate cache and library."""
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, "-m", "benchmarks.library.scan", "--side", side]
        command += ["--folder", str(folder), "--work", work, "--jobs", str(jobs)]
        return dict(json.loads(subprocess.check_output(command, text=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--photos", type=Path, required="--side" not in sys.argv)
    parser.add_argument("--target", type=Path, default=TARGET)
    for name in ("--side", "--folder", "--work"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        one_side(given.side, Path(given.folder), Path(given.work), given.jobs)
        return
    machine = stamp(SEED, "onnxruntime", "pillow")
    rounds: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        collection(folder, given.pictures, given.photos)
        for number in range(given.rounds):
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                rounds[side].append(run(side, folder, given.jobs))
                print(side, rounds[side][-1], flush=True)
    ratios = {
        what: [
            round(scan[what] / alone[what], 3)
            for scan, alone in zip(rounds["scan"], rounds["extractor"], strict=True)
        ]
        for what in ("seconds", "cpu_seconds")
    }
    medians = {what: statistics.median(values) for what, values in ratios.items()}
    result = {
        "machine": machine,
        "pictures": given.pictures,
        "threads": given.jobs,
        "rounds": rounds,
        "scan_to_extractor": {**ratios, "median": medians},
    }
    given.target.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["scan_to_extractor"]))


if __name__ == "__main__":
    main()
