"""Speed of the default compared with another version of the source, interleaved processes.

    git archive COMMIT src | tar -x -C /tmp/before
    python -m benchmarks.speed.compare_versions /tmp/before/src FOLDER

FOLDER holds JPEGs; they are measured at 480 x 360 and enlarged to 12 megapixels. Written into
benchmarks/results/speed.json as "before", with the times that today is faster, by the clock and by
processor time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import stamp

from . import photos
from .__main__ import SEED, TARGET

ROUNDS = 3
RUN = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
import prototag
from prototag.features.extractor import Extractor
assert prototag.__file__.startswith(sys.argv[1]), prototag.__file__
files = sorted(Path(sys.argv[3]).iterdir())
extractor = Extractor(cache=None, n_jobs=int(sys.argv[2]))
extractor.extract(files[:2])
began, worked = time.perf_counter(), time.process_time()
extractor.extract(files)
print(json.dumps([time.perf_counter() - began, time.process_time() - worked]))
"""


def seconds(source: Path, n_jobs: int, folder: Path) -> list[float]:
    command = [sys.executable, "-c", RUN, str(source), str(n_jobs), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    durations: list[float] = json.loads(done.stdout)
    return durations


def main(before: str, source: str) -> None:
    today = Path(__file__).parents[2] / "src"
    rows: list[dict[str, Any]] = []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as work:
        for size, count in ((photos.SMALL, 48), (photos.LARGE, 16)):
            folder = Path(work, "x".join(map(str, size)))
            photos.enlarged(Path(source), folder, size, count)
            for n_jobs in (1, 2):
                turns = [
                    [seconds(one.resolve(), n_jobs, folder) for one in (Path(before), today)]
                    for _ in range(ROUNDS)
                ]
                clock, work_done = (median(old[k] / new[k] for old, new in turns) for k in (0, 1))
                rows.append(
                    {
                        "pictures": folder.name,
                        "images": count,
                        "n_jobs": n_jobs,
                        "rounds": ROUNDS,
                        "times_faster": round(clock, 2),
                        "times_faster_by_processor_time": round(work_done, 2),
                    }
                )
                print(rows[-1], flush=True)
    result = json.loads(TARGET.read_text())
    result["machine"] = stamp(SEED, "pillow", "onnxruntime")
    loads = [round(load, 2), round(os.getloadavg()[0], 2)]
    result["before"] = {"load_average": loads, "results": rows}
    TARGET.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
