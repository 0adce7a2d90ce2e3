"""Attack ProtoTag as hostile files, crowds, kills and full disks would, and count what happens.

    python -m benchmarks.attack [KIND ...] [--count N] [--seed S] [--seconds S] [--quick]
    make attack                 # all kinds, some minutes
    make attack N=1000000       # so many attempts of each kind; hours

An attempt is refused with an error of ours, or sound. A traceback, a crash, a hang, memory beyond
the limit, something lost or executed is a finding, and makes the exit status 1. What was reached is
added to benchmarks/results/attack.json: machine, versions, seed, counts, outcomes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.attack.arena import Found, Limits, run
from benchmarks.machine import stamp

TARGET = Path(__file__).parents[1] / "results" / "attack.json"
# How many attempts are made by default.
KINDS = {
    "models": 20_000,
    "pictures": 10_000,
    "sidecars": 2_000,
    "lists": 2_000,
    "names": 40,
    "checkpoints": 1_000,
    "kills": 60,
    "crowds": 6,
    "writers": 1_000,
    "tabs": 800,
    "disks": 20,
}


def attack(kind: str, count: int, seed: int, seconds: float) -> Found:
    module = importlib.import_module(f"benchmarks.attack.{kind}")
    if hasattr(module, "run"):
        found: Found = module.run(count, seed, seconds)
        return found
    limits: Limits | None = getattr(module, "LIMITS", None)
    return run(module.prepare, count, seed, seconds, limits)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND")
    parser.add_argument("--count", type=int, help="attempts of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=900.0, help="for each kind, at most")
    parser.add_argument("--quick", action="store_true", help="nothing is written")
    given = parser.parse_args()
    kept: dict[str, Any] = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    wrong = 0
    for kind in given.kinds or KINDS:
        machine = stamp(given.seed, "pillow", "onnxruntime", "pillow-heif")
        found = attack(kind, given.count or KINDS[kind], given.seed, given.seconds)
        wrong += len(found.findings)
        told = {"asked": given.count or KINDS[kind], **found._asdict(), "machine": machine}
        print(kind, json.dumps({name: told[name] for name in found._fields}, indent=1), flush=True)
        if not given.quick:
            kept = json.loads(TARGET.read_text()) if TARGET.exists() else {}
            kept.setdefault(kind, []).append(told)
            TARGET.write_text(json.dumps(kept, indent=1) + "\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
