"""Search by words in a library of 100,000 pictures: time and memory.

    python -m benchmarks.library.search [--pictures 100000]

The vectors are random; what is measured does not depend on their values. Reported: the time to
compute and to read the concept index, the time of a query that was not asked before with the
encoder loaded (its words are encoded) and again, and the peak memory.

Results go to benchmarks/results/library_search.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.library import synthetic_library
from benchmarks.machine import stamp
from prototag.knowledge import words
from prototag.knowledge.concepts import WIDTH
from prototag.library.library import Library

RESULTS = Path(__file__).parents[1] / "results"
QUERIES = ("boats at sunset", "Hund am Strand", "une vieille voiture rouge", "snow", "dos gatos")
REPEATS = 5


def timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fill(library: Library, pictures: int) -> None:
    """Write random coordinates for pictures whose vectors are empty but for their size."""
    index = library.trainer.concept_index
    index.coordinates()  # of the first picture, which has a real vector
    rng = np.random.default_rng(0)
    with library.store.write() as conn:
        (version,) = conn.execute("SELECT version FROM concept_coordinates").fetchone()
        for number in range(2, pictures + 1):
            conn.execute(
                "INSERT INTO pictures (id, digest, added_at) VALUES (?, ?, 0)",
                (number, number.to_bytes(20, "big")),
            )
            path = f"/photos/{number:06}.jpg".encode()
            conn.execute(
                "INSERT INTO files (path, folder, search_name, picture, root) "
                "VALUES (?, '/photos', ?, ?, 1)",
                (path, f"{number:06}.jpg", number),
            )
            conn.execute(
                "INSERT INTO vectors VALUES (?, ?, x'00', x'00')",
                (number, synthetic_library.RECIPE),
            )
            row = np.float32(0.1).tobytes() + rng.bytes(512)
            conn.execute("INSERT INTO concept_coordinates VALUES (?, ?, ?)", (number, version, row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=100_000)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        first = rng.normal(size=(1, WIDTH)).astype(np.float32)
        library = synthetic_library.library(Path(folder), first, np.zeros((1, 0), bool), jobs=1)
        fill(library, given.pictures)
        library.trainer.concept_index.release()
        before = peak_mb()
        read = timed(library.trainer.concept_index.coordinates)
        words.keep_encoder()
        load = timed(lambda: words.encode_phrases(["load"]))
        library.search("statistics of the index", limit=1000)  # its covariance, computed once
        new = [timed(lambda q=query: library.search(q, limit=1000)) for query in QUERIES]
        again = [
            timed(lambda q=query: library.search(q, limit=1000))
            for query in QUERIES
            for _ in range(REPEATS)
        ]
        result = {
            "pictures": given.pictures,
            "read_index_s": read,
            "load_encoder_s": load,
            "new_query_s": {"median": float(np.median(new)), "max": max(new)},
            "same_query_s": {"median": float(np.median(again)), "max": max(again)},
            "memory_mb": {"before": before, "peak": peak_mb()},
        }
        library.close()
    print(json.dumps(result, indent=1))
    record = {"machine": stamp(0), "results": result}
    (RESULTS / "library_search.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
