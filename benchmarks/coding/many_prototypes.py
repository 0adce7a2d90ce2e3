"""Many prototypes: memory and time, in batches and one image at a time.

    python -m benchmarks.coding.many_prototypes [--quick]

10^5 and 10^6 planted prototypes, and vectors of IAPRTC-12 crops if they are available. Each size
runs in a separate process, for its peak memory. Writes
benchmarks/results/coding_scale.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.coding.encoders import CAP, SEED
from benchmarks.collections import iaprtc12
from benchmarks.machine import stamp
from prototag.coding.coder import Coder

RESULTS = Path(__file__).parents[1] / "results"
M, BATCH, SINGLES, ROUNDS = 200, 256, 20, 3


def crowd(k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors about few directions, as images of few subjects are; n of them to be coded."""
    rng = np.random.default_rng(SEED)
    centres = rng.standard_normal((1000, M)).astype(np.float32)
    vectors = np.empty((k + n, M), np.float32)
    for start in range(0, k + n, 65_536):
        part = vectors[start : start + 65_536]
        part[:] = centres[rng.integers(0, 1000, len(part))]
        part += 1.2 * rng.standard_normal(part.shape, dtype=np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return vectors[:k], vectors[k:]


def crops(k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of whole images and of crops; beyond their number, of both mixed at random."""
    data = iaprtc12(M)
    if data is None:
        raise SystemExit("the IAPRTC-12 vectors are not available.")
    rng = np.random.default_rng(SEED)
    pool = np.vstack([data.X, data.X_more])
    vectors = np.empty((k, M), np.float32)
    vectors[: len(pool)] = pool[:k]
    for start in range(len(pool), k, 65_536):
        part = vectors[start : start + 65_536]
        share = rng.uniform(0.6, 0.9, (len(part), 1)).astype(np.float32)
        a, b = rng.integers(0, len(pool), (2, len(part)))
        part[:] = share * pool[a] + (1 - share) * pool[b]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return vectors, data.X_test[:n]


def measure(kind: str, k: int) -> dict[str, Any]:
    D, X = {"planted": crowd, "crops": crops}[kind](k, BATCH)
    X = np.ascontiguousarray(X)
    with threadpool_limits(1):
        start = time.perf_counter()
        coder = Coder(D, max_nonzeros=CAP)
        coder.quantized(), coder.screening_map()
        prepared = time.perf_counter() - start
        batch, single, floor, floor_single = [], [], [], []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            codes = coder.encode(X)
            batch.append((time.perf_counter() - start) / len(X))
            start = time.perf_counter()
            for i in range(SINGLES):
                coder.encode(X[i : i + 1])
            single.append((time.perf_counter() - start) / SINGLES)
            start = time.perf_counter()
            for first in range(0, k, 4096):
                X @ D[first : first + 4096].T
            floor.append((time.perf_counter() - start) / len(X))
            start = time.perf_counter()
            for i in range(SINGLES):
                D @ X[i]
            floor_single.append((time.perf_counter() - start) / SINGLES)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    packed = coder.quantized()

    def microseconds(seconds: list[float]) -> float:
        return round(float(np.median(seconds)) * 1e6, 1)

    return {
        "data": kind,
        "k": k,
        "m": M,
        "seconds to prepare": round(prepared, 3),
        "prototypes, GB": round(D.nbytes / 2**30, 3),
        "in eight bits, GB": round((packed.codes.nbytes + packed.bounds.nbytes) / 2**30, 3),
        "peak of the process, GB": round(peak / 2**20, 3),
        "microseconds an image": {
            "batch": microseconds(batch),
            "one at a time": microseconds(single),
            "X D^T, batch": microseconds(floor),
            "X D^T, one at a time": microseconds(floor_single),
        },
        "largest gap": float(codes.gap[~codes.capped].max(initial=0.0)),
        "capped": int(codes.capped.sum()),
        "images": len(X),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few prototypes, nothing written")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], int(given.one[1]))))
        return
    sizes = [10_000] if given.quick else [100_000, 1_000_000]
    kinds = ["planted"] + ([] if iaprtc12() is None else ["crops"])
    rows = []
    for kind in kinds:
        for k in sizes:
            run = subprocess.run(
                [sys.executable, "-m", "benchmarks.coding.many_prototypes", "--one", kind, str(k)],
                check=True,
                capture_output=True,
                text=True,
            )
            rows.append(json.loads(run.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
    if not given.quick:
        result = {"machine": stamp(SEED), "threads": 1, "max_nonzeros": CAP, "sizes": rows}
        (RESULTS / "coding_scale.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
