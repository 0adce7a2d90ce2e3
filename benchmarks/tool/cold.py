"""Cold start of ``prototag annotate one.jpg`` compared with the minimum for such a tool.

The minimum: start Python, import numpy, PIL and onnxruntime, run the network once. Both are new
interleaved processes; the cache is new each time, so that the network really runs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.speed import photos

# With its telemetry off, as the package has it: what it would send home is not to be timed.
BARE = """
import os
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy, onnxruntime, PIL.Image
from importlib.resources import files
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
data = (files("prototag") / "features" / "backbones" / "efficientnet_lite0.onnx").read_bytes()
session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
put = session.get_inputs()[0]
shape = (1, 224, 224, 3) if put.shape[3] == 3 else (1, 3, 224, 224)
session.run(None, {put.name: numpy.zeros(shape, numpy.uint8)})
"""


def measure(work: Path, model: Path, rounds: int) -> dict[str, Any]:
    picture = photos.write(work / "480x360", photos.SMALL, 1, 0)[0]
    prototag = Path(sys.executable).with_name("prototag")
    times: dict[str, list[tuple[float, float]]] = {"bare": [], "annotate": []}
    for number in range(rounds + 1):
        cache = work / f"cold-{number}.sqlite"
        command = [str(prototag), "annotate", str(picture), "-m", str(model)]
        for name, arguments in (("bare", [sys.executable, "-c", BARE]), ("annotate", command)):
            environment = {**os.environ, "PROTOTAG_CACHE": str(cache)}
            spent = run(arguments, environment)
            if number:  # the first round brings the files into memory
                times[name].append(spent)
    wall = {name: [one[0] for one in several] for name, several in times.items()}
    cpu = {name: [one[1] for one in several] for name, several in times.items()}
    ratios = [a / b for a, b in zip(wall["annotate"], wall["bare"], strict=True)]
    return {
        "model_mb": round(model.stat().st_size / 1e6, 1),
        "rounds": rounds,
        "wall_s": {name: _summary(values) for name, values in wall.items()},
        "processor_s": {name: _summary(values) for name, values in cpu.items()},
        "wall_ratio_median": round(statistics.median(ratios), 2),
        "processor_ratio": round(
            statistics.median(cpu["annotate"]) / statistics.median(cpu["bare"]), 2
        ),
        "asked": {"wall_s": 1.2, "ratio": 2.5},
        "load_average": [round(value, 1) for value in os.getloadavg()],
    }


def run(arguments: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of wall and processor that a command takes."""
    start = time.perf_counter()
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments[:2]} ended with {process.returncode}")
    return wall, usage.ru_utime + usage.ru_stime


def _summary(values: list[float]) -> dict[str, float]:
    return {"least": round(min(values), 3), "median": round(statistics.median(values), 3)}
