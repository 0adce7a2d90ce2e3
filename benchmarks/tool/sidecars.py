"""20,000 pictures annotated from cached vectors, a sidecar written for each.

The disk's own share is measured beside it: the same bytes written to as many new files, each
brought to the disk and renamed, and nothing else done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from prototag.storage.atomic_write import replacing

from .collection import vectors, write


def measure(work: Path, model: Path, count: int) -> dict[str, Any]:
    name, X, _ = vectors(count)
    cache = work / "annotate.sqlite"
    paths = write(work / "annotate", cache, X)
    prototag = str(Path(sys.executable).with_name("prototag"))
    command = [prototag, "annotate", str(work / "annotate"), "-m", str(model), "--cache"]
    command += [str(cache), "--write-xmp", "-o", str(work / "tags.json")]
    first = _run(command)
    sidecars = [path.with_name(path.name + ".xmp") for path in paths]
    written = [path for path in sidecars if path.exists()]
    content = [path.read_bytes() for path in written]
    again = _run(command)
    if content != [path.read_bytes() for path in written]:
        raise RuntimeError("the second run changed sidecars")
    bare = work / "bare"
    bare.mkdir()
    start = time.perf_counter()
    for number, data in enumerate(content):
        with replacing(bare / f"{number:05}.xmp") as file:
            file.write(data)
    disk = time.perf_counter() - start
    return {
        "vectors": name,
        "pictures": count,
        "sidecars": len(written),
        "bytes_a_sidecar": sum(map(len, content)) // max(len(content), 1),
        "first_run": {**first, "pictures_per_s": round(count / first["seconds"])},
        "second_run": {**again, "pictures_per_s": round(count / again["seconds"])},
        "the_same_files_by_the_disk_alone_s": round(disk, 1),
        "first_run_to_disk_alone": round(first["seconds"] / disk, 2),
        "load_average": [round(value, 1) for value in os.getloadavg()],
    }


def _run(command: list[str]) -> dict[str, float]:
    start = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"annotate ended with {process.returncode}")
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "processor_s": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_memory_mb": round(usage.ru_maxrss / 1024),
    }
