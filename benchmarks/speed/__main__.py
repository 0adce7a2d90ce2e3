"""Pictures per second, one picture's overhead, the cache, and a large folder.

    python -m benchmarks.speed [--quick]

Writes benchmarks/results/speed.json. Times of one line are taken turn by turn in one process, and
compared as ratios, because the machine may be busy with other work.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from . import folder, photos, throughput
from .machine import stamp

SEED = 0
TARGET = Path(__file__).parents[1] / "results" / "speed.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer images and rounds, nothing written"
    )
    quick = parser.parse_args().quick
    result: dict[str, object] = {"machine": stamp(SEED)}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        small = photos.write(work / "small", photos.SMALL, 16 if quick else 64, SEED)
        large = photos.write(work / "large", photos.LARGE, 4 if quick else 12, SEED)
        time.sleep(2.1)  # stamps are trusted from two seconds on
        rounds = 3 if quick else 7
        result["file_bytes"] = {
            "480 x 360": sum(f.stat().st_size for f in small) // len(small),
            "4000 x 3000": sum(f.stat().st_size for f in large) // len(large),
        }
        result["pipeline"] = [
            {
                "pictures": label,
                **throughput.pipeline(files, crops, n_jobs, rounds, work / label[:3]),
            }
            for label, files in (("480 x 360", small), ("4000 x 3000", large))
            for crops in ("whole", "five", "whole+five")
            for n_jobs in (1, 2)
        ]
        result["one_image"] = [
            throughput.one_image(small[0], crops, n_jobs, 10 if quick else 60)
            for crops in ("whole", "five", "whole+five")
            for n_jobs in (1, 2)
        ]
        result["second_run"] = [
            throughput.second_run(sorted((work / "small").iterdir()), crops, 2, 3, work)
            for crops in ("whole", "five")
        ]
        count = 200 if quick else 5000
        result["folder"] = folder.measure(work / "folder", count, 2 if quick else 5, SEED)
    text = json.dumps(result, indent=1)
    print(text)
    if not quick:
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(text + "\n")


if __name__ == "__main__":
    main()
