"""Load tests of the service: cached vectors, uploads, overload, and 10,000 hostile requests.

    python -m benchmarks.service [--quick] [--work FOLDER] [known uploads overload hostile]

Measures the named parts, or all, into benchmarks/results/service.json. Needs wrk. The model of
17,665 pictures takes minutes to learn and is kept in the folder of work, if one is given.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import stamp
from benchmarks.speed.photos import SMALL, write
from prototag import Library

from . import collection, hostile_requests, load_clients
from .server import serving

TARGET = Path(__file__).parents[1] / "results" / "service.json"
PARTS = ("known", "uploads", "overload", "hostile")
ASKED = {"known_per_second": 300, "share_of_the_command_line": 0.85}
SEED = 0


def known(work: Path, scratch: Path, model: Path, quick: bool) -> dict[str, Any]:
    """Measure files with cached vectors, sent by path, with a rising number of clients."""
    folder = next(path for path in work.glob("service-*") if path.is_dir())
    cache = folder.with_suffix(".sqlite")
    paths = [str(path.relative_to(folder)) for path in sorted(folder.glob("*/*.png"))]
    rng = np.random.default_rng(SEED)
    chosen = [paths[i] for i in rng.permutation(len(paths))[:5000]]
    with serving(model, "--allow", folder, "--cache", cache) as server:
        load_clients.by_path(
            server.port, chosen, scratch, 1, 1
        )  # the first requests prepare the rest
        runs = [
            load_clients.by_path(server.port, chosen, scratch, clients, 2 if quick else 10)
            for clients in (1, 8, 32)
        ]
        return {"runs": runs, "memory": server.memory()}


def _command_line(files: list[Path], model: Path, scratch: Path) -> np.ndarray:
    """Seconds of `prototag annotate` for files that it has never seen: passed, and computed."""
    cache = scratch / "cli.sqlite"
    cache.unlink(missing_ok=True)
    names = scratch / "names.txt"
    names.write_text("\n".join(map(str, files)))
    command = [sys.executable, "-m", "prototag", "annotate", "-", "-m", str(model), "--json"]
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with names.open() as given:
        subprocess.run(
            [*command, "--cache", str(cache)],
            stdin=given,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=600,
        )
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    computed = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return np.array([time.perf_counter() - began, computed])


def uploads(scratch: Path, model: Path, quick: bool) -> dict[str, Any]:
    """Each picture sent once, by 8 clients, in turns with the command line on the same files.

    Where other programs use the processor, too, its time says more than the clock does.
    """
    few, many = (8, 40) if quick else (16, 112)
    files = write(scratch / "photos", SMALL, many, SEED)
    data = [path.read_bytes() for path in files]
    line, runs, memory = [], [], {}
    for _ in range(1 if quick else 5):
        start, whole = (_command_line(files[:n], model, scratch) for n in (few, many))
        line.append((whole - start) / (many - few))
        cache = scratch / "served.sqlite"
        cache.unlink(missing_ok=True)
        with serving(model, "--cache", cache) as server:
            load_clients.uploads(server.port, data[:few], 2)
            used = server.seconds()
            run = load_clients.uploads(server.port, data[few:], 8)
            run["computed_ms"] = round(1e3 * (server.seconds() - used) / (many - few), 2)
            runs.append(run)
            memory = server.memory()
    shares = [run["answered_per_second"] * one[0] for run, one in zip(runs, line, strict=True)]
    computed = [1e3 * one[1] / run["computed_ms"] for run, one in zip(runs, line, strict=True)]
    return {
        "size": SMALL,
        "command_line_per_second": [round(1 / one[0], 1) for one in line],
        "command_line_computed_ms": [round(1e3 * one[1], 2) for one in line],
        "runs": runs,
        "share_of_the_command_line": round(statistics.median(shares), 3),
        "shares": [round(share, 3) for share in shares],
        "share_by_processor_time": round(statistics.median(computed), 3),
        "memory": memory,
    }


def overload(scratch: Path, model: Path, quick: bool) -> dict[str, Any]:
    """64 clients at a queue of 8; then one client, which must be answered as before."""
    files = write(scratch / "photos", SMALL, 50 if quick else 400, SEED + 1)
    data = [path.read_bytes() for path in files]
    with serving(model, "--cache", scratch / "over.sqlite", "--queue", 8) as server:
        before = load_clients.uploads(server.port, data[:8], 1)
        during = load_clients.uploads(server.port, data[8:-8], 64)
        after = load_clients.uploads(server.port, data[-8:], 1)
        return {"before": before, "during": during, "after": after, "memory": server.memory()}


def attacked(scratch: Path, model: Path, quick: bool) -> dict[str, Any]:
    """Hostile requests to services with a model and with a library; all stays as it was."""
    folder = scratch / "collection"
    write(folder, SMALL, 20, SEED + 2)
    (scratch / "outside.jpg").write_bytes((folder / "00000.jpg").read_bytes())
    (folder / "link.jpg").symlink_to(scratch / "outside.jpg")
    with Library.create(folder, scratch / "own.library", n_jobs=-1, cache=None) as library:
        library.scan()
    before = hostile_requests.state(folder, scratch / "own.library")
    arguments = ("--allow", folder, "--cache", scratch / "hostile_requests.sqlite")
    with (
        serving(model, *arguments) as first,
        serving(scratch / "own.library", *arguments) as second,
    ):
        start = {"model": first.memory(), "library": second.memory()}
        ports = {"model": first.port, "library": second.port}
        count, slow, seconds = (300, 5, 15.0) if quick else (10_000, 100, 75.0)
        report = hostile_requests.attack(ports, count, slow, seconds, SEED)
        memory = {"model": first.memory(), "library": second.memory()}
        ask = hostile_requests._request("GET", "/api/v1/health", b"", hostile_requests.JSON)
        health = [hostile_requests._send(port, ask) for port in ports.values()]
    after = hostile_requests.state(folder, scratch / "own.library")
    return {
        **report,
        "changed": before != after,
        "answers_afterwards": health,
        "memory": {"before": start, "after": memory},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART")
    parser.add_argument("--quick", action="store_true", help="small, nothing written")
    parser.add_argument("--work", type=Path, help="folder that keeps the model")
    given = parser.parse_args()
    kept = json.loads(TARGET.read_text()) if TARGET.exists() and not given.quick else {}
    machine = stamp(SEED, "pillow", "onnxruntime", "starlette", "uvicorn", "h11")
    result: dict[str, Any] = {**kept, "machine": machine, "asked": ASKED}
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        model, name = collection.model(work, 400 if given.quick else 17_665)
        for part in given.parts:
            scratch = Path(tempfile.mkdtemp(dir=temporary))
            if part == "known":
                figures = known(work, scratch, model, given.quick)
            else:
                measure = {"uploads": uploads, "overload": overload, "hostile": attacked}[part]
                figures = measure(scratch, model, given.quick)
            shutil.rmtree(scratch)
            result[part] = {"model": name, **figures}
            print(json.dumps({part: result[part]}, indent=2), flush=True)
    if not given.quick:
        TARGET.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
