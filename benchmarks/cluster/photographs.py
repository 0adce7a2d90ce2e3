"""Photographs through `features` and `annotate`: threads, one worker, two workers, turn by turn.

    python -m benchmarks.cluster.photographs [--count 2000] [--rounds 3] [--crops large]

Makes variations (parts, turns, brightness) of the photographs at hand, so that no two have the same
content, and takes them through the functions behind both commands without a cache, on the same
cores: as many threads as two workers have, one worker, two workers. Rates are of whole turns.
Results go to benchmarks/results/cluster_photographs_COUNT.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance

from benchmarks.collections import DATA
from benchmarks.machine import stamp
from prototag import Annotator, metadata
from prototag.annotator.vectors import write_vectors
from prototag.engine import Engine
from prototag.engine.dask import Dask
from prototag.features.extractor import Extractor

RESULTS = Path(__file__).parents[1] / "results"
SEED, TAGS = 0, 6
WAYS = ("threads", "one worker", "two workers")


def vary(count: int, folder: Path) -> None:
    """Variations of the photographs, with tags that a list gives: numbers of the originals."""
    rng = np.random.default_rng(SEED)
    originals = sorted((DATA / "iaprtc12_photos").glob("*.jpg"))
    lines = []
    for number in range(count):
        with Image.open(originals[number % len(originals)]) as photo:
            image = photo.convert("RGB")
        width, height = image.size
        share = rng.uniform(0.85, 1)
        left, top = rng.uniform(0, 1 - share, 2)
        box = (left * width, top * height, (left + share) * width, (top + share) * height)
        image = image.resize(image.size, Image.Resampling.BICUBIC, box=box)
        image = image.rotate(rng.uniform(-5, 5), Image.Resampling.BICUBIC)
        image = ImageEnhance.Brightness(image).enhance(rng.uniform(0.8, 1.2))
        image.save(folder / f"{number:06}.jpg", quality=90)
        tag = f"tag {number % len(originals) % TAGS}"
        lines.append(json.dumps({"file_name": f"{number:06}.jpg", "tags": [tag]}))
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n")


def extract(found: Any, engine: Engine | None, crops: str, work: Path) -> tuple[float, bytes]:
    """Seconds, and the checksums of what was written."""
    target = Path(tempfile.mkdtemp(dir=work)) / "vectors"
    extractor = Extractor(crops=crops, cache=None, n_jobs=2, engine=engine)
    began = time.perf_counter()
    write_vectors(found, extractor, target)
    seconds = time.perf_counter() - began
    manifest = (target / "manifest.json").read_bytes()
    shutil.rmtree(target.parent)
    return seconds, manifest


def annotate(model: Path, files: list[Path], engine: Engine | None) -> tuple[float, list[Any]]:
    annotator = Annotator.load(model, n_jobs=2, cache=None, engine=engine)
    began = time.perf_counter()
    found = [(a.error, a.tags) for a in annotator.annotate(files)]
    return time.perf_counter() - began, found


def measure(count: int, rounds: int, crops: str, work: Path) -> dict[str, Any]:
    folder = work / "photographs"
    folder.mkdir()
    vary(count, folder)
    found, model = metadata.collect(folder), work / "model.prototag"
    few = metadata.collect(folder).tagged()
    few.images, few.tags, few.ruled_out = few.images[:200], few.tags[:200], few.ruled_out[:200]
    Annotator(crops=crops, cache=None, n_jobs=2, keep_thumbnails=False).fit(few).save(model)
    taken: dict[str, dict[str, list[float]]] = {
        command: {way: [] for way in WAYS} for command in ("features", "annotate")
    }
    answers: dict[str, list[Any]] = {"features": [], "annotate": []}
    with Dask.local(1) as one, Dask.local(2) as two:
        engines: dict[str, Engine | None] = {"threads": None, "one worker": one, "two workers": two}
        for engine in (one, two):  # workers load what they need before anything is measured
            annotate(model, [*found.images[:128]], engine)
        for number in range(rounds):
            for way in WAYS[:: 1 if number % 2 else -1]:
                seconds, manifest = extract(found, engines[way], crops, work)
                taken["features"][way].append(seconds)
                answers["features"].append(manifest)
                seconds, tags = annotate(model, [*found.images], engines[way])
                taken["annotate"][way].append(seconds)
                answers["annotate"].append(tags)
    return {
        "photographs": count,
        "mean_file_bytes": sum(f.stat().st_size for f in found.images) // count,
        "crops": crops,
        "rounds": rounds,
        **{command: _rates(count, times, answers[command]) for command, times in taken.items()},
    }


def _rates(count: int, taken: dict[str, list[float]], answers: list[Any]) -> dict[str, Any]:
    def ratio(a: str, b: str) -> float:
        return round(median(x / y for x, y in zip(taken[a], taken[b], strict=True)), 3)

    return {
        "pictures_per_second": {way: round(count / median(t), 2) for way, t in taken.items()},
        "two_workers_times_one": ratio("one worker", "two workers"),
        "two_workers_share_of_threads": ratio("threads", "two workers"),
        "seconds": {way: [round(value, 2) for value in t] for way, t in taken.items()},
        "same_answers": all(answer == answers[0] for answer in answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--crops", default="large")
    parser.add_argument("--dry", action="store_true", help="write no results")
    given = parser.parse_args()
    result = {"machine": stamp(SEED, "dask", "distributed", "pillow", "onnxruntime")}
    with tempfile.TemporaryDirectory() as work:
        result |= measure(given.count, given.rounds, given.crops, Path(work))
    result["load_average_at_end"] = [round(value, 2) for value in os.getloadavg()]
    text = json.dumps(result, indent=1)
    print(text)
    if not given.dry:
        (RESULTS / f"cluster_photographs_{given.count}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
