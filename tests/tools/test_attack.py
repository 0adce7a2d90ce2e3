"""The attacks run, and what they watch for is found: a suite that sees nothing would pass, too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

BAD = """
import json, os, signal, sys
from benchmarks.attack.runner import Limits, run

def prepare(folder):
    calls = iter(range(1000))
    def attempt(rng, _):
        number = next(calls)
        if number == 0:
            return "warm"
        kind = rng.choice(["sound", "sound", "raises", "dies", "grows", "hangs"])
        if kind == "raises":
            raise KeyError("bare")
        if kind == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        if kind == "grows":
            bytearray(400 << 20)
        while kind == "hangs":
            pass
        return "sound"
    return attempt

found = run(prepare, 24, 2, 120, Limits(seconds=0.5))
print(json.dumps(found._asdict()))
"""


def test_tracebacks_crashes_hangs_and_memory_are_findings():
    done = subprocess.run(
        [sys.executable, "-c", BAD], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    told = {finding["where"].split(":")[0] for finding in found["findings"]}
    assert {"<string>", "exit -11", "memory", "hang"} <= told
    assert found["outcomes"]["crash"] > 0 < found["outcomes"]["hang"]


def test_some_attacks_find_nothing():
    kinds = ["tag_lists", "hostile_sidecars", "checkpoints", "concurrent_processes"]
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.attack", "--quick"]
    done = subprocess.run(
        [*command, "--count", "5", *kinds],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(kind in done.stdout for kind in kinds)
