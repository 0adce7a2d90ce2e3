"""Pictures per second, one picture's overhead, the cache, and a large folder.

    python -m benchmarks.speed [--quick] [--photos FOLDER] [PART ...]

Parts: default, pipeline, one_image, second_run, folder.

Measures the named parts, or all, into benchmarks/results/speed.json; parts not named stay as they
were measured. Times of one line are interleaved in one process, and compared as ratios,
because the machine may be busy with other work: each part says how busy it was.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.machine import stamp

from . import large_folder, photos, throughput

SEED = 0
TARGET = Path(__file__).parents[1] / "results" / "speed.json"
CROPS = ("fast", "paper", "large")


def pipeline(work: Path, quick: bool) -> list[dict[str, Any]]:
    small = photos.write(work / "480x360", photos.SMALL, 16 if quick else 64, SEED)
    large = photos.write(work / "4000x3000", photos.LARGE, 4 if quick else 12, SEED)
    return [
        {
            "pictures": files[0].parent.name,
            "mean_file_bytes": sum(file.stat().st_size for file in files) // len(files),
            **throughput.pipeline(files, crops, n_jobs, 3 if quick else 7, work),
        }
        for files in (small, large)
        for crops in CROPS
        for n_jobs in (1, 2)
    ]


def default(work: Path, quick: bool, source: Path | None = None) -> list[dict[str, Any]]:
    counts = {photos.SMALL: 8 if quick else 48, photos.LARGE: 4 if quick else 16}
    results = []
    for size, count in counts.items():
        folder = work / "x".join(map(str, size))
        if source is None:
            files = photos.write(folder, size, count, SEED)
        else:
            files = photos.enlarged(source, folder, size, count)
        machine = {
            "pictures": large_folder.name,
            "of": "scikit-image and scikit-learn" if source is None else source.name,
            "mean_file_bytes": sum(file.stat().st_size for file in files) // len(files),
        }
        results += [
            {**machine, **throughput.against(files, n_jobs, 2 if quick else 7, work)}
            for n_jobs in (1, 2)
        ]
    return results


def one_image(work: Path, quick: bool) -> list[dict[str, Any]]:
    file = photos.write(work / "480x360", photos.SMALL, 1, SEED)[0]
    rounds = 10 if quick else 60
    return [throughput.one_image(file, crops, jobs, rounds) for crops in CROPS for jobs in (1, 2)]


def second_run(work: Path, quick: bool) -> list[dict[str, Any]]:
    results = []
    for crops in ("fast", "large"):
        files = photos.write(work / crops, photos.SMALL, 16 if quick else 64, SEED)
        time.sleep(2.1)  # stamps are trusted from two seconds on
        results.append(throughput.second_run(files, crops, 2, 3, work))
    return results


def folder(work: Path, quick: bool) -> dict[str, Any]:
    return large_folder.measure(work, 200 if quick else 5000, 2 if quick else 5, SEED)


PARTS: dict[str, Any] = {
    "default": default,
    "pipeline": pipeline,
    "one_image": one_image,
    "second_run": second_run,
    "folder": folder,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=[*PARTS], metavar="PART")
    parser.add_argument("--quick", action="store_true", help="fewer images, nothing written")
    parser.add_argument("--photos", type=Path, help="a folder of JPEGs to measure the default on")
    given = parser.parse_args()
    PARTS["default"] = partial(default, source=given.photos)
    kept = json.loads(TARGET.read_text()) if TARGET.exists() and not given.quick else {}
    result: dict[str, Any] = {**kept, "machine": stamp(SEED, "pillow", "onnxruntime")}
    for name in given.parts:
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as work:
            measured = PARTS[name](Path(work), given.quick)
        result[name] = {"load_average": [round(load, 2), round(os.getloadavg()[0], 2)]}
        result[name]["results"] = measured
        print(json.dumps({name: result[name]}, indent=1), flush=True)
    if not given.quick:
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
