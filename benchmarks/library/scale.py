"""Latency of a library of 200,000 pictures and a million decisions: opening, and every page.

    python -m benchmarks.library.scale [--quick] [--work FOLDER]

The library is planted: pictures that lie nowhere, 300 tags, 5.7 a picture, five suggestions a
picture, vectors of 16 numbers. A new process opens it and asks for each page several times. Written
to benchmarks/results/library_scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import stamp
from prototag import Library
from prototag.library import schema
from prototag.library.database import Store, vector_checksum

TARGET = Path(__file__).parents[1] / "results" / "library_scale.json"
TAGS, PER_PICTURE, SUGGESTED, WIDTH = 300, 5.7, 5, 16
ROUNDS = 9
BATCH = 50_000


def plant(path: Path, pictures: int, decisions: int) -> dict[str, float]:
    """Make the library; seconds of its parts."""
    rng = np.random.default_rng(0)
    schema.create(path)
    store = Store(path)
    chances = rng.pareto(1.2, TAGS) + 0.05
    chances /= chances.sum()
    times: dict[str, float] = {}
    began = time.perf_counter()
    with store.write() as base:
        base.execute("INSERT INTO roots VALUES (1, ?, 'auto', NULL, 'path')", (b"/photos",))
        base.executemany(
            "INSERT INTO tags (id, name, key) VALUES (?1, ?2, ?2)",
            [(tag + 1, f"group {tag % 20}|tag {tag}") for tag in range(TAGS)],
        )
        base.executemany(
            "INSERT INTO pictures (id, digest, added_at) VALUES (?, ?, 0)",
            [(number, number.to_bytes(20, "big")) for number in range(1, pictures + 1)],
        )
        for number in range(1, pictures + 1):
            folder = b"/photos/%d/%02d" % (2000 + number * 25 // pictures, number % 12)
            place = b"%s/IMG_%06d.jpg" % (folder, number)
            base.execute(
                "INSERT INTO files (path, folder, search_name, picture, root, parsed_tags) "
                "VALUES (?, ?, ?, ?, 1, '[[],null]')",
                (place, folder, place[8:].decode().lower(), number),
            )
            data = rng.standard_normal(WIDTH, np.float32).tobytes()
            base.execute(
                "INSERT INTO vectors VALUES (?, 'planted', ?, ?)",
                (number, data, vector_checksum(number, data)),
            )
    times["pictures"] = time.perf_counter() - began
    began = time.perf_counter()
    counts = rng.poisson(PER_PICTURE, pictures)
    drawn = rng.choice(TAGS, (pictures, 24), p=chances)
    with store.write() as base:
        for number in range(1, pictures + 1):
            tags = np.unique(drawn[number - 1, : counts[number - 1]])
            base.executemany(
                "INSERT INTO labels VALUES (?, ?, 1, 'file', 1)",
                [(number, int(tag) + 1) for tag in tags],
            )
            likely = np.setdiff1d(drawn[number - 1, 12:], tags)[:SUGGESTED]
            base.executemany(
                "INSERT OR IGNORE INTO suggestions VALUES (?, ?, ?, 1, -1)",
                [(int(tag) + 1, number, float(rng.random())) for tag in likely],
            )
    times["labels_and_suggestions"] = time.perf_counter() - began
    began = time.perf_counter()
    drawn = np.unique(rng.integers(pictures * TAGS, size=decisions * 11 // 10))
    pairs = rng.permutation(drawn)[:decisions]
    for start in range(0, decisions, BATCH):  # as library.decisions writes them
        rows = [
            (int(pair) // TAGS + 1, int(pair) % TAGS + 1, bool(pair % 3), start // 20 + i // 20)
            for i, pair in enumerate(pairs[start : start + BATCH])
        ]
        with store.write() as base:
            base.executemany(
                "INSERT INTO labels (picture, tag, value, source) VALUES (?, ?, ?, 'decision') "
                "ON CONFLICT DO UPDATE SET value = excluded.value, source = excluded.source",
                [row[:3] for row in rows],
            )
            base.executemany(
                "DELETE FROM suggestions WHERE picture = ? AND tag = ?", [row[:2] for row in rows]
            )
            base.executemany(
                "INSERT INTO decisions (picture, tag, verdict, decided_at, decided_by, batch) "
                "VALUES (?1, ?2, iif(?3, 'accepted', 'rejected'), 0, 'person', ?4)",
                rows,
            )
    store.close()
    times["decisions"] = time.perf_counter() - began
    return {name: round(seconds, 1) for name, seconds in times.items()}


def pages(library: Library) -> dict[str, Callable[[], object]]:
    """Return the queries of all pages and commands."""
    tags = sorted(library.tags(), key=lambda tag: tag.pictures)
    common, rare = tags[-1].name, tags[len(tags) // 2].name
    middle = library.status().pictures // 2

    def suggestions(tag: str | None) -> object:
        where = "WHERE tag = (SELECT id FROM tags WHERE name = ?)" if tag else ""
        with library.store.read() as base:
            return base.execute(
                f"SELECT picture, tag, probability FROM suggestions {where} "
                "ORDER BY probability DESC LIMIT 100",
                [tag] if tag else [],
            ).fetchall()

    def views() -> object:
        return [library.picture(number) for number in library.pictures(after=middle)]

    states = ("tagged", "untagged", "suggested", "missing", "complete", "decided")
    return {
        "suggestions of a tag": lambda: suggestions(common),
        "suggestions of all": lambda: suggestions(None),
        "first page of pictures": library.pictures,
        "a page of pictures in the middle, with all that is known of them": views,
        "pictures of a common tag": lambda: library.pictures(tags=[common], after=middle),
        "pictures of two tags": lambda: library.pictures(tags=[common, rare]),
        "pictures of a tag without another": lambda: library.pictures(
            tags=[rare], without=[common]
        ),
        **{
            f"{state} pictures": (lambda state=state: library.pictures(state=state))
            for state in states
        },
        "pictures by text": lambda: library.pictures(text="img_1999"),
        "pictures of a folder": lambda: library.pictures(folder="/photos/2010"),
        "count of a common tag": lambda: library.count(tags=[common]),
        "tags": library.tags,
        "facets": library.facets,
        "status": library.status,
        "history": library.history,
        "history in the middle": lambda: library.history(before=500_000),
        "one picture": lambda: library.picture(middle),
        "one decision and undoing it": lambda: library.undo(
            library.accept([middle], ["a new tag"]).number
        ),
    }


def measure(path: Path) -> None:
    """Print the latencies in a new process as JSON."""
    began = time.perf_counter()
    library = Library(path, cache=None)
    opened = time.perf_counter() - began
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    latencies = {}
    for name, page in pages(library).items():
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            page()
            times.append(1000 * (time.perf_counter() - began))
        latencies[name] = {
            "first": round(times[0], 2),
            "median": round(statistics.median(times), 2),
            "worst": round(max(times), 2),
        }
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    library.close()
    print(
        json.dumps(
            {
                "opening_ms": round(1000 * opened, 1),
                "memory_mb": {"opened": before // 1024, "after_all_pages": after // 1024},
                "pages_ms": latencies,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small, nothing written")
    parser.add_argument("--work", type=Path, help="folder that keeps the library")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure)
        return
    machine = stamp(0)
    pictures, decisions = (2000, 5000) if given.quick else (200_000, 1_000_000)
    result: dict[str, Any] = {"machine": machine, "pictures": pictures, "decisions": decisions}
    with tempfile.TemporaryDirectory() as folder:
        path = (given.work or Path(folder)) / "scale.library"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            result["planting_s"] = plant(path, pictures, decisions)
        result["file_mb"] = round(os.path.getsize(path) / 1e6, 1)
        command = [sys.executable, "-m", "benchmarks.library.scale", "--measure", str(path)]
        runs = [
            json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            for _ in range(3)
        ]
        result["openings_ms"] = [run["opening_ms"] for run in runs]
        result |= {name: runs[-1][name] for name in ("memory_mb", "pages_ms")}
        with Library(path, cache=None) as library:
            began = time.perf_counter()
            damage = library.check()
            result["full_check_s"] = round(time.perf_counter() - began, 1)
            assert not damage
    worst = max(page["worst"] for page in result["pages_ms"].values())
    result["worst_page_ms"] = worst
    print(json.dumps(result, indent=2))
    if not given.quick:
        TARGET.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
