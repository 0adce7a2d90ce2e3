"""Cold start of a library without tags: marked pictures, then simulated review batches.

    python -m benchmarks.library.cold_start [--seed 0]

For each tag a library of untagged pictures is made from given vectors. A simulated person marks
five pictures, and answers batch after batch of 40 by the truth, as the review page asks. Reported
for each batch: how many suggestions were ticked, how many of them right, how many right ones could
be preselected by an oracle threshold (``tickable``), how many pictures that
have the tag were still open, and how many the library expected.

The constants of :mod:`prototag.tagging.positive_unlabeled` were chosen on COCO (``coco``, other
draws) and nothing was chosen on IAPRTC-12 (``iaprtc12``, from its training images).

Results go to benchmarks/results/library_start.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.collections import DATA
from benchmarks.library import synthetic_library
from benchmarks.machine import stamp
from prototag.evaluation.ranking import average_precision
from prototag.library.types import ACCEPTED, REJECTED
from prototag.tagging import positive_unlabeled as pu

RESULTS = Path(__file__).parents[1] / "results"
DRAWS = {300: 10, 2_000: 3}  # by the number of pictures
MARKED = 5
BATCH = 40
BATCHES = 6
TAGS = 20
LEARNABLE = 0.5  # leave-one-out average precision, all labels known
PRECISION = 0.8  # of what is ticked, aimed at
RARE = 0.05  # frequency of the tags that are tried, in the pictures of the draw, at least


def coco() -> tuple[np.ndarray, np.ndarray]:
    with np.load(DATA / "coco56k_lite0_pca256.npz", allow_pickle=False) as file:
        tags = np.unpackbits(file["label_bits"], axis=1)[:, : int(file["n_tags"])] > 0
        X = file["X"].astype(np.float32)
    # Columns of principal axes would be whitened by a z-score: rotated ones keep their variances.
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(X.shape[1], X.shape[1])))[0]
    return X @ turned.astype(np.float32), tags


def iaprtc12() -> tuple[np.ndarray, np.ndarray]:
    with np.load(DATA / "iaprtc12_lite0_large.npz", allow_pickle=False) as file:
        tags = np.unpackbits(file["label_bits"], axis=1)[:, : int(file["n_tags"])] > 0
        rows = file["train_idx"]
        return file["X"][rows].astype(np.float32), tags[rows]


COLLECTIONS = {"iaprtc12": iaprtc12, "coco": coco}


def draw(X: np.ndarray, Y: np.ndarray, size: int, seed: int) -> list[dict[str, Any]]:
    """All batches of 20 tags in one library of ``size`` untagged pictures."""
    rng = np.random.default_rng([seed, size])
    rows = rng.permutation(len(X))[:size]
    truth = Y[rows]
    frequency = truth.mean(axis=0)
    usable = np.flatnonzero(frequency >= RARE)
    chosen = np.sort(rng.permutation(usable)[:TAGS])
    runs = []
    background = pu.Background.of(X[rows])
    with tempfile.TemporaryDirectory() as folder:
        library = synthetic_library.library(Path(folder), X[rows], np.zeros_like(truth), jobs=1)
        for column in chosen.tolist():
            has = truth[:, column]
            known = background.scores(np.flatnonzero(has))
            runs.append(
                {
                    "tag": column,
                    "pictures": int(has.sum()),
                    "all_known": float(average_precision(has[:, None], known[:, None])[0]),
                    "batches": reviewed(library, column, has, rng),
                }
            )
        library.close()
    return runs


def reviewed(library: Any, column: int, has: np.ndarray, rng: Any) -> list[dict[str, float]]:
    name = synthetic_library.name(column)
    marked = rng.permutation(np.flatnonzero(has))[:MARKED] + 1
    library.accept([int(one) for one in marked], [name])
    batches = []
    for _ in range(BATCHES):
        suggestions = library.suggest(name, limit=BATCH)
        if not suggestions:
            break
        started = library.cold_start_estimate(name)
        ticked = [one for one in suggestions if one.probability >= started.estimate.threshold]
        decided = started.decided
        batches.append(
            {
                "shown": len(suggestions),
                "shown_right": int(sum(has[one.picture - 1] for one in suggestions)),
                "tickable": tickable([bool(has[one.picture - 1]) for one in suggestions]),
                "ticked": len(ticked),
                "ticked_right": int(sum(has[one.picture - 1] for one in ticked)),
                "open": int(np.count_nonzero(has[started.pictures - 1] & ~decided)),
                "expected": round(started.estimate.expected, 2),
            }
        )
        library.decide(
            [
                (one.picture, name, ACCEPTED if has[one.picture - 1] else REJECTED)
                for one in suggestions
            ]
        )
    return batches


def tickable(answers: list[bool]) -> int:
    """Count the yeses of the longest beginning of a batch of which at least 80% are yes."""
    right = np.cumsum(answers)
    good = np.flatnonzero(right >= PRECISION * np.arange(1, len(answers) + 1))
    return int(right[good[-1]]) if len(good) else 0


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sums over tags, by batch."""
    answer = []
    for number in range(BATCHES):
        rows = [run["batches"][number] for run in runs if len(run["batches"]) > number]
        if not rows:
            break
        total = {key: sum(row[key] for row in rows) for key in rows[0]}
        shares = [row["ticked_right"] / row["ticked"] for row in rows if row["ticked"]]
        ratio = [abs(np.log((row["expected"] + 2) / (row["open"] + 2))) for row in rows]
        answer.append(
            {
                "batch": number + 1,
                "tags": len(rows),
                **total,
                "precision": total["ticked_right"] / total["ticked"] if total["ticked"] else None,
                "worst_tag": min(shares) if shares else None,
                "tags_with_ticks": len(shares),
                "typical_factor_of_expected": float(np.exp(np.mean(ratio))),
            }
        )
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    results: dict[str, Any] = {}
    for collection, load in COLLECTIONS.items():
        X, Y = load()
        for size, draws in DRAWS.items():
            runs = [run for number in range(draws) for run in draw(X, Y, size, given.seed + number)]
            learnable = [run for run in runs if run["all_known"] >= LEARNABLE]
            results[f"{collection}, {size} pictures"] = {
                "all_tags": summary(runs),
                "learnable_tags": summary(learnable),
                "tags": runs,
            }
            for name, chosen in (("all", runs), ("learnable", learnable)):
                print(collection, size, name, len(chosen), flush=True)
                for row in summary(chosen):
                    print("   ", row, flush=True)
    record = {"machine": stamp(given.seed), "results": results}
    (RESULTS / "library_start.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
