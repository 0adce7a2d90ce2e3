"""Machine, versions and seed of a result, without names that identify the machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("prototag", "numpy", "scipy", "scikit-learn")
# The instructions that inner products may be made of.
FLAGS = ("sse4_1", "avx", "fma", "avx2", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16")


def stamp(seed: int, *packages: str) -> dict[str, Any]:
    """Machine, versions and seed, for a results file."""
    return {
        "processor": _processor(),
        "flags": _flags(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in (*PACKAGES, *packages)},
        "load_average_at_start": [round(value, 2) for value in os.getloadavg()],
        "seed": seed,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    return _cpuinfo("model name") or "unknown"


def _flags() -> list[str]:
    has = _cpuinfo("flags").split()
    return [flag for flag in FLAGS if flag in has]


def _cpuinfo(field: str) -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith(field)), "")
