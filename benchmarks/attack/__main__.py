"""Run seeded fuzz tests with hostile files, concurrent processes, kills and full disks.

    python -m benchmarks.attack [KIND ...] [--count N] [--seed S] [--seconds S] [--quick]
    make attack                 # all kinds, some minutes
    make attack N=1000000       # a million attempts of each kind; hours

An attempt passes if ProtoTag raises one of its own errors or gives a valid result. A traceback, a
crash, a hang, memory beyond the limit, lost data or executed code is a finding: the exit status is
then 1. Machine, versions, seed, counts and outcomes are appended to benchmarks/results/attack.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.attack.runner import Found, Limits, run
from benchmarks.machine import stamp

TARGET = Path(__file__).parents[1] / "results" / "attack.json"
# Default number of attempts of each kind.
KINDS = {
    "model_files": 20_000,
    "damaged_pictures": 10_000,
    "hostile_sidecars": 2_000,
    "tag_lists": 2_000,
    "hostile_names": 40,
    "checkpoints": 1_000,
    "sigkill": 60,
    "concurrent_processes": 6,
    "concurrent_writers": 1_000,
    "browser_tabs": 800,
    "full_disk": 20,
}


def attack(kind: str, count: int, seed: int, seconds: float) -> Found:
    module = importlib.import_module(f"benchmarks.attack.{kind}")
    if hasattr(module, "run"):
        report: Found = module.run(count, seed, seconds)
        return report
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
    arguments = parser.parse_args()
    kept: dict[str, Any] = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    wrong = 0
    for kind in arguments.kinds or KINDS:
        machine = stamp(arguments.seed, "pillow", "onnxruntime", "pillow-heif")
        report = attack(kind, arguments.count or KINDS[kind], arguments.seed, arguments.seconds)
        wrong += len(report.findings)
        record = {"asked": arguments.count or KINDS[kind], **report._asdict(), "machine": machine}
        print(
            kind, json.dumps({name: record[name] for name in report._fields}, indent=1), flush=True
        )
        if not arguments.quick:
            kept = json.loads(TARGET.read_text()) if TARGET.exists() else {}
            kept.setdefault(kind, []).append(record)
            TARGET.write_text(json.dumps(kept, indent=1) + "\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
