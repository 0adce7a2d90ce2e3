"""Run tests with the BLAS kernels of other processors, and without NumPy's vector code.

    python -m tools.core_types tests/engine tests/annotator

OpenBLAS selects its kernels by the processor. ``OPENBLAS_CORETYPE`` selects those of another one,
which this processor must be able to run. NumPy has its own vector code for newer processors;
``NPY_DISABLE_CPU_FEATURES`` switches it off. The arguments go to pytest. Core types that this
processor cannot run, and names of kernels that have been tested already, are skipped with a
sentence. Ends with an error if a test fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import cache

CORE_TYPES = ("Prescott", "Nehalem", "Haswell", "Zen", "SkylakeX")
TESTED = ("Nehalem", "Haswell", "Zen", "SkylakeX")  # by the command; Prescott has tests/engine
INTERRUPTED = 2  # pytest's status after Ctrl-C
# NumPy's names of what the kernels need; from 2.4 on by levels of x86-64.
NEEDS = {
    "Prescott": ("SSE3",),
    "Nehalem": ("SSE42",),
    "Haswell": ("AVX2", "FMA3"),
    "Zen": ("AVX2", "FMA3"),
    "SkylakeX": ("AVX512_SKX",),
}
LOOK = """
import json
import numpy as np
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from threadpoolctl import threadpool_info
np.ones((2, 2)) @ np.ones((2, 2))
blas = [one for one in threadpool_info() if one["user_api"] == "blas"]
print(json.dumps({
    "kernels": next((one["architecture"] for one in blas if "architecture" in one), None),
    "has": [name for name, has in __cpu_features__.items() if has],
    "dispatched": [name for name in __cpu_dispatch__ if __cpu_features__.get(name)],
}))
"""


@cache
def look(**settings: str) -> dict:
    """Return the BLAS kernels and CPU features that a new process selects."""
    env = os.environ | settings
    process = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True, env=env
    )
    return json.loads(process.stdout)


def unsupported(core_type: str) -> str | None:
    """Return why the kernels of ``core_type`` cannot run here, or None if they can."""
    if not core_type:
        return None
    here = look()
    if here["kernels"] is None:
        return f"{core_type}: NumPy's BLAS is not OpenBLAS."
    missing = [name for name in NEEDS[core_type] if name not in here["has"]]
    return f"{core_type}: this processor has no {' and no '.join(missing)}." if missing else None


def variants() -> list[tuple[str, dict[str, str]]]:
    """Return the name and the environment of each run; print skipped ones."""
    here = look()
    seen = {here["kernels"]: "the tests without a core type"}
    settings_by_name = []
    for core_type in TESTED:
        if reason := unsupported(core_type):
            print(f"Skipped {reason}", flush=True)
            continue
        settings = {"OPENBLAS_CORETYPE": core_type}
        kernels = look(**settings)["kernels"]
        if kernels in seen:
            print(f"Skipped {core_type}: {seen[kernels]} use its kernels ({kernels}).", flush=True)
            continue
        seen[kernels] = f"the tests of {core_type}"
        settings_by_name.append((f"OpenBLAS's kernels of {core_type}", settings))
    if here["dispatched"]:
        # Only features that this processor has: NumPy warns of others.
        names = " ".join(here["dispatched"])
        settings_by_name.append((f"NumPy without {names}", {"NPY_DISABLE_CPU_FEATURES": names}))
    else:
        print("Skipped NumPy without vector code: NumPy dispatches on nothing here.", flush=True)
    return settings_by_name


def main(arguments: list[str]) -> int:
    failed = []
    for name, settings in variants():
        print(f"Testing with {name}.", flush=True)
        start = time.monotonic()
        command = [sys.executable, "-m", "pytest", *arguments]
        status = subprocess.run(command, env=os.environ | settings).returncode
        if status == INTERRUPTED:
            return status
        if status:
            failed.append(name)
        print(f"{time.monotonic() - start:.0f} s.", flush=True)
    for name in failed:
        print(f"Failed: {name}.", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
