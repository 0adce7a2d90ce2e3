"""Quality and cost of backbones and crops.

    python -m benchmarks.backbones_and_crops [--cache FILE] [--jobs N] [cost quality]

Cost: processor time of one thread for one photograph of 480 x 360, from the file to the vector,
choices in turn. Quality: ``recommended()`` on the embedded clip art, whose split cuts no group of
near duplicates. Writes benchmarks/results/eyes.json; a part not named stays as it was measured.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.machine import stamp
from benchmarks.speed import photos
from prototag.evaluation import metrics
from prototag.features import Extractor
from prototag.research.datasets import clipart
from prototag.tagging.tagger import recommended

SEED = 0
TARGET = Path(__file__).parent / "results" / "eyes.json"


class Choice(NamedTuple):
    network: str
    crops: str
    wanted: tuple[str, ...] | None = None


CHOICES = {
    "fast": Choice("embedded", "fast"),
    "quick": Choice("quick", "large"),
    "large, last alone": Choice("embedded", "large", ("last",)),
    "large": Choice("embedded", "large"),
    "paper": Choice("embedded", "paper"),
    "best, last maps alone": Choice("best", "large", ("last", "lite2.last")),
    "best": Choice("best", "large"),
}


def extractor(choice: Choice, cache: Any, jobs: int) -> Extractor:
    network, crops, groups = choice
    return Extractor(network, crops=crops, selected_groups=groups, cache=cache, n_jobs=jobs)


def cost(rounds: int = 9) -> dict[str, Any]:
    """Milliseconds a picture, and in passes of 224 x 224."""
    extractors = {name: extractor(choice, None, 1) for name, choice in CHOICES.items()}
    taken: dict[str, list[float]] = {name: [] for name in extractors}
    with tempfile.TemporaryDirectory() as work:
        files = photos.write(Path(work), photos.SMALL, 4, SEED)
        for number in range(rounds + 1):
            for name, one in extractors.items():
                began = time.process_time()
                one.extract(files)
                if number:  # the first prepares
                    taken[name].append(1e3 * (time.process_time() - began) / len(files))
    rows = {}
    for name, given in taken.items():
        ratios = [mine / fast for mine, fast in zip(given, taken["fast"], strict=True)]
        rows[name] = {"milliseconds": round(median(given), 1), "passes": round(median(ratios), 2)}
    return rows


def quality(cache: str | None, jobs: int) -> dict[str, Any]:
    """Scores on the test part of the clip art, by thresholds chosen on its training part."""
    collection = clipart()
    Y, train, test = collection.Y, collection.train, collection.test
    rows = {}
    for name, choice in CHOICES.items():
        X = extractor(choice, cache, jobs).transform(collection.images)
        tagger = recommended(n_jobs=jobs, random_state=SEED).fit(X[train], Y[train])
        scores = tagger.decision_function(X[test])
        report = metrics.report(Y[test], scores, tagger.threshold_)
        rows[name] = {key: round(value, 4) for key, value in report.items()}
        rows[name]["columns"] = X.shape[1]
        print(name, rows[name], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=["cost", "quality"])
    parser.add_argument("--cache", help="where vectors are kept; the user's cache if not given")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    result = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    result["machine"] = stamp(SEED, "pillow", "onnxruntime")
    if "cost" in given.parts:
        result["cost"] = cost()
        print(json.dumps(result["cost"], indent=1), flush=True)
    if "quality" in given.parts:
        result["clipart"] = quality(given.cache or "user", given.jobs)
    TARGET.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
