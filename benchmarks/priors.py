"""Default hyperparameters for small collections, selected over many subsets.

    python -m benchmarks.priors [--draws 3]

Subsets of 30 to 1,000 training images of IAPRTC-12, COCO and the embedded clip art, complete and
with 40% of their tags forgotten, judged by *other training images*: test images choose nothing.
For every setting of the kernel and every pair of shares, what it loses to the best of the grid in
mean average precision, over all subsets; DEFAULTS in prototag/tagging/pipeline.py lose
least, and SELECTION_PENALTY in task.py is how firmly they are held. Results go to
benchmarks/results/priors.json.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from typing import Any

import numpy as np

from benchmarks.estimate_accuracy import RESULTS
from benchmarks.machine import stamp
from benchmarks.quality import vectors
from prototag import recommended
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import SINGLE_THREAD
from prototag.evaluation.metrics import mean_average_precision
from prototag.tagging import pipeline
from prototag.tagging.loo_ridge import kernel_ridge
from prototag.tagging.reduction import Reduction

COLLECTIONS = ("whole", "coco", "clipart")
SIZES = (30, 100, 300, 1000)
JUDGES = 2_000  # training images outside of the subset


def subsets(draws: int) -> Any:
    for name in COLLECTIONS:
        data = vectors.read(name)
        X, Y = data.X[:, :1280], data.Y.toarray() > 0
        for n, seed, share in product(SIZES, range(draws), (0.0, 0.4)):
            order = np.random.default_rng(seed).permutation(len(X))
            rows, others = order[:n], order[n:][:JUDGES]
            kept = Y[rows] & (np.random.default_rng(100 + seed).random(Y[rows].shape) >= share)
            tags = np.flatnonzero(kept.sum(axis=0) >= 5)
            if len(tags):
                yield (name, n, share), X[rows], kept[:, tags], X[others], Y[others][:, tags]


def of_kernels(X: Any, Y: Any, X_new: Any, Y_new: Any) -> dict[str, float]:
    reduction = Reduction(None, prior=pipeline.VARIANCE_PRIOR).fit(X)
    x, new, values = reduction.transform(X), reduction.transform(X_new), {}
    for gamma, strength in product(pipeline.GAMMAS, pipeline.STRENGTHS):
        dual = kernel_ridge(x, Y.astype("f4"), gamma=gamma, strength=strength).dual
        scores = (rbf_kernel_with_constant(new, x, gamma) @ dual).astype("f4")
        values[f"gamma {gamma}, strength {strength}"] = mean_average_precision(Y_new, scores)
    return values


def of_shares(X: Any, Y: Any, X_new: Any, Y_new: Any) -> dict[str, float]:
    fitted = recommended(n_jobs=1, gamma=1.0, strength=1.0, kernel_share=0.5, linear_share=0.5).fit(
        X, Y
    )
    model, lifted = fitted.model_, fitted.result_.stages.lifted
    projected = model.projection(X_new)
    coded = model.semantics.weighted_row_sums(*model._codes(projected, SINGLE_THREAD))
    smooth = model.kernel_scores(projected[:, model.projection.kernel], SINGLE_THREAD)
    straight = projected[:, model.projection.predicted] * lifted.linear.scale + Y.mean(axis=0)
    parts = coded, smooth, straight.astype("f4")
    return {
        f"share {share}, linear {linear}": mean_average_precision(
            Y_new, pipeline.mix_parts(parts, share, linear)
        )
        for share, linear in product(pipeline.KERNEL_SHARES, pipeline.LINEAR_SHARES)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=3)
    draws = parser.parse_args().draws
    losses: dict[str, dict[str, list[float]]] = {"kernel": {}, "shares": {}}
    for about, *data in subsets(draws):
        for kind, values in (("kernel", of_kernels(*data)), ("shares", of_shares(*data))):
            best = max(values.values())
            for setting, value in values.items():
                losses[kind].setdefault(setting, []).append(best - value)
        print(*about, flush=True)
    record: dict[str, Any] = {"what": __doc__.splitlines()[0], "machine": stamp(0), "draws": draws}
    for kind, values in losses.items():
        mean = {setting: round(100 * float(np.mean(v)), 2) for setting, v in values.items()}
        record[kind] = dict(sorted(mean.items(), key=lambda item: item[1]))
        print(kind, list(record[kind].items())[:5])
    (RESULTS / "priors.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
