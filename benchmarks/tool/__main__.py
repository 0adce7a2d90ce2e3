"""Benchmarks of the command line: cold start, and 20,000 pictures with sidecars.

    python -m benchmarks.tool [--quick] [--work FOLDER] [cold sidecars]

Measures the named parts, or all, into benchmarks/results/tool.json. The model that it needs (of
17,665 pictures) takes minutes to learn and is kept in the folder of work, if one is given.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import stamp

from . import cold, collection, sidecars

TARGET = Path(__file__).parents[1] / "results" / "tool.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=["cold", "sidecars"], metavar="PART")
    parser.add_argument("--quick", action="store_true", help="small, nothing written")
    parser.add_argument("--work", type=Path, help="folder that keeps the model")
    given = parser.parse_args()
    kept = json.loads(TARGET.read_text()) if TARGET.exists() and not given.quick else {}
    result: dict[str, Any] = {**kept, "machine": stamp(0, "pillow", "onnxruntime", "typer", "rich")}
    with tempfile.TemporaryDirectory() as folder:
        work = given.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        model, name = collection.model(work, 400 if given.quick else 17_665)
        scratch = work / "scratch"
        for part in given.parts:
            scratch.mkdir()
            try:
                if part == "cold":
                    figures = cold.measure(scratch, model, 3 if given.quick else 15)
                else:
                    figures = sidecars.measure(scratch, model, 400 if given.quick else 20_000)
            finally:
                shutil.rmtree(scratch)
            result[part] = {"model": name, **figures}
            print(json.dumps({part: result[part]}, indent=2))
    if not given.quick:
        TARGET.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
