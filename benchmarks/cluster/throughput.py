"""Throughput of `features` and `annotate` on two workers and on threads, interleaved.

    python -m benchmarks.cluster.throughput [--count 20000] [--network quick] [--work FOLDER]

Makes variations (parts, brightness) of sample photographs, so that no two have the same
content, and takes them through the functions behind both commands without a cache. Two workers take
all of them, in turns of 2,000; in every fourth turn as many threads, one worker and one thread take
the same ones before or after. Rates are of whole turns, ratios of the same turn. What a second
thread brings says how much of a core the machine's second core is. Results go to
benchmarks/results/cluster_photographs_NETWORK.json. A folder to work in keeps the variations.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance

from benchmarks.collections import DATA
from benchmarks.machine import stamp
from prototag import Annotator, metadata
from prototag.annotator.vector_export import write_vectors
from prototag.engine import Engine, batch_slices
from prototag.engine.dask import Dask
from prototag.features.extractor import Extractor

RESULTS = Path(__file__).parents[1] / "results"
SEED, TAGS, CROPS = 0, 6, "large"
TURN, EVERY = 2000, 4
WAYS = ("two workers", "two threads", "one worker", "one thread")
PAIRS = (
    ("two workers", "one worker"),
    ("two threads", "one thread"),
    ("two workers", "two threads"),
)


def vary(count: int, folder: Path) -> None:
    """Variations of the photographs, with tags that a list gives: numbers of the originals."""
    originals = sorted((DATA / "iaprtc12_photos").glob("*.jpg"))
    if not (folder / "metadata.jsonl").exists():
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for number in range(count):
            _save(originals[number % len(originals)], folder / f"{number:06}.jpg", number)
            tag = f"tag {number % len(originals) % TAGS}"
            lines.append(json.dumps({"file_name": f"{number:06}.jpg", "tags": [tag]}))
        (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    if len(list(folder.glob("*.jpg"))) != count:
        raise SystemExit(f"{folder} has another number of photographs: give another folder.")


def _save(original: Path, target: Path, number: int) -> None:
    rng = np.random.default_rng([SEED, number])
    with Image.open(original) as photo:
        image = photo.convert("RGB")
    width, height = image.size
    share = rng.uniform(0.85, 1)
    left, top = rng.uniform(0, 1 - share, 2)
    box = (left * width, top * height, (left + share) * width, (top + share) * height)
    image = image.resize(image.size, Image.Resampling.BILINEAR, box=box)
    ImageEnhance.Brightness(image).enhance(rng.uniform(0.8, 1.2)).save(target, quality=90)


def extract(
    collected: Any, engine: Engine | None, network: str, work: Path, jobs: int
) -> tuple[float, bytes]:
    """Return the seconds, and the checksums of the written files."""
    target = Path(tempfile.mkdtemp(dir=work)) / "vectors"
    extractor = Extractor(network, crops=CROPS, cache=None, n_jobs=jobs, engine=engine)
    began = time.perf_counter()
    write_vectors(collected, extractor, target)
    seconds = time.perf_counter() - began
    manifest = (target / "manifest.json").read_bytes()
    shutil.rmtree(target.parent)
    return seconds, manifest


def annotate(
    model: Path, files: list[Path], engine: Engine | None, jobs: int
) -> tuple[float, list[Any]]:
    annotator = Annotator.load(model, n_jobs=jobs, cache=None, engine=engine)
    began = time.perf_counter()
    annotations = [(a.error, a.tags) for a in annotator.annotate(files)]
    return time.perf_counter() - began, annotations


def measure(count: int, network: str, work: Path) -> dict[str, Any]:
    folder = work / "photographs"
    vary(count, folder)
    collected, model = metadata.collect(folder), work / "model.prototag"
    few = _part(collected, slice(200))
    options = {"crops": CROPS, "cache": None, "n_jobs": 2, "keep_thumbnails": False}
    Annotator(backbone=network, **options).fit(few).save(model)
    turns: list[dict[str, Any]] = []
    with Dask.local(1) as one, Dask.local(2) as two:
        engines: dict[str, Engine | None] = {"one worker": one, "two workers": two}
        for engine in (one, two):  # workers load what they need before anything is measured
            annotate(model, [*collected.images[:128]], engine, 2)
        for number, rows in enumerate(batch_slices(count, TURN)):
            part = _part(collected, rows)
            ways = WAYS if number % EVERY == 0 else WAYS[:1]
            for command in ("features", "annotate"):
                answers = []
                for way in ways[:: 1 if number % (2 * EVERY) else -1]:
                    engine, jobs = engines.get(way), 1 if way == "one thread" else 2
                    if command == "features":
                        seconds, answer = extract(part, engine, network, work, jobs)
                    else:
                        seconds, answer = annotate(model, [*part.images], engine, jobs)
                    answers.append(answer)
                    turn = {"turn": number, "command": command, "way": way}
                    turns.append(
                        {**turn, "seconds": round(seconds, 2), "pictures": len(part.images)}
                    )
                    print(turns[-1], flush=True)
                if any(answer != answers[0] for answer in answers):
                    raise SystemExit(f"turn {number}: the answers differ.")
    return {
        "photographs": count,
        "mean_file_bytes": sum(f.stat().st_size for f in collected.images) // count,
        "network": network,
        "crops": CROPS,
        "same_answers": True,
        **{command: _rates(command, turns) for command in ("features", "annotate")},
        "turns": turns,
    }


def _part(collected: Any, rows: slice) -> Any:
    """Return a slice of a tagged collection."""
    return replace(
        collected,
        images=collected.images[rows],
        tags=collected.tags[rows],
        ruled_out=collected.ruled_out[rows],
    )


def _rates(command: str, turns: list[dict[str, Any]]) -> dict[str, Any]:
    taken = {
        way: {t["turn"]: t for t in turns if t["command"] == command and t["way"] == way}
        for way in WAYS
    }

    def ratios(of: str, to: str) -> list[float]:
        """Return by which factor the first was faster, by turn."""
        return [
            round(t["seconds"] / taken[of][n]["seconds"], 3)
            for n, t in taken[to].items()
            if n in taken[of]
        ]

    def rate(of: dict[int, dict[str, Any]]) -> float:
        return round(
            sum(t["pictures"] for t in of.values()) / sum(t["seconds"] for t in of.values()), 2
        )

    rates: dict[str, Any] = {"pictures_per_second": {way: rate(of) for way, of in taken.items()}}
    for of, to in PAIRS:
        name, by_turn = f"{of} times {to}".replace(" ", "_"), ratios(of, to)
        rates |= {name: median(by_turn), f"{name}_by_turn": by_turn}
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--network", default="quick")
    parser.add_argument("--work", type=Path, help="keeps the variations; else they are made anew")
    parser.add_argument("--vary", action="store_true", help="make the variations, and no more")
    parser.add_argument("--dry", action="store_true", help="write no results")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        if given.vary:
            vary(given.count, work / "photographs")
            return
        result = {"machine": stamp(SEED, "dask", "distributed", "pillow", "onnxruntime")}
        result |= measure(given.count, given.network, work)
    result["load_average_at_end"] = [round(value, 2) for value in os.getloadavg()]
    text = json.dumps(result, indent=1)
    print(text)
    if not given.dry:
        (RESULTS / f"cluster_photographs_{given.network}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
