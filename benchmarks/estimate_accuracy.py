"""Cross-validated estimates against results on new pictures, on small collections.

    python -m benchmarks.estimate_accuracy [--draws 5] [--sizes 30 100 300 1000 3000] [PART ...]

Parts: ``default`` (tags applied without options, trained on all of IAPRTC-12), ``estimates`` (F1,
precision, probabilities, recall at each precision), ``random`` (random tags, alone and among real
ones), ``baselines`` (recommended() against others, each on raw vectors or principal components,
whichever has the better held-out scores) and ``corrections`` (tags that a person corrected).
All but the first use subsets of IAPRTC-12 and COCO, with complete tags and with 40% of the tags
hidden. Subsets are drawn from training images and evaluated on test images; tags on fewer than
five pictures of a subset are ignored, as by ``prototag train``. Results are written to
benchmarks/results/trust_PART.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.machine import stamp
from benchmarks.quality import vectors
from prototag import recommended
from prototag.annotator.operating_points import DEFAULT_PRECISION, OperatingPoints
from prototag.evaluation import metrics
from prototag.evaluation.thresholds import validation_score
from prototag.research.baselines import KNN, KernelRidge, Logistic, TagProp, TwoPassKNN
from prototag.tagging.reduction import Reduction

DATA = Path(__file__).parents[2] / "shared" / "data"
RESULTS = Path(__file__).parent / "results"
FILES = {"IAPRTC-12": "iaprtc12_lite0_whole.npz", "COCO": "coco56k_lite0_pca256.npz"}
HIDDEN_SHARE = 0.4
PRECISIONS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
THREADS = int(os.environ.get("PROTOTAG_JOBS", "2"))
MAX_TEST_IMAGES = 3_000


class Subset(NamedTuple):
    X: Any
    Y: Any
    X_new: Any
    Y_new: Any  # complete
    Y_hidden: Any  # with the same share of tags hidden as in Y


def subsets(name: str, n: int, draws: int, share: float) -> Iterator[tuple[int, Subset]]:
    """Draw n training images with a share of their tags hidden, with the test images."""
    with np.load(DATA / FILES[name], allow_pickle=False) as file:
        X = file["X"].astype(np.float32)
        Y = np.unpackbits(file["label_bits"], axis=1)[:, : int(file["n_tags"])]
        train, test = file["train_idx"], file["test_idx"][:MAX_TEST_IMAGES]
    for seed in range(draws):
        rows = np.random.default_rng(seed).permutation(train)[:n]
        kept = Y[rows] * (np.random.default_rng(100 + seed).random(Y[rows].shape) >= share)
        tags = np.flatnonzero(kept.sum(axis=0) >= 5)
        if len(tags):
            new = Y[test][:, tags]
            alike = new * (np.random.default_rng(200 + seed).random(new.shape) >= share)
            yield seed, Subset(X[rows], kept[:, tags], X[test], new, alike)


def compare(subset: Subset) -> dict[str, Any]:
    """Compare the estimates of a fit with its results on test images."""
    model = recommended(n_jobs=THREADS).fit(subset.X, subset.Y)
    points = OperatingPoints.from_fit(model.result_)
    raw = model.model_.raw(subset.X_new)
    scores, p = model.model_.predict_from_raw(raw)
    true = subset.Y_hidden > 0
    result: dict[str, Any] = {
        "f1_by_complete_tags": metrics.f1_of_means(subset.Y_new, scores > model.threshold_),
        "tags": len(points.learnable),
        "learned": int(points.learnable.sum()),
        "f1": [
            model.choices_["out_of_fold_f1"],
            metrics.f1_of_means(true, scores > model.threshold_),
        ],
        "map": [
            model.choices_["out_of_fold_map"],
            metrics.mean_average_precision(true, scores),
        ],
        "probability": [float(p.mean()), float(true.mean())],
    }
    likely = p >= 0.5
    if likely.any():
        result["probability_above_half"] = [float(p[likely].mean()), float(true[likely].mean())]
    for precision in PRECISIONS:
        applied = (p >= points.threshold_for(precision)) & points.learnable
        right = true & applied
        by_image = applied.sum(axis=1)
        n_given = int(applied.sum())
        share = right.sum() / n_given if n_given else None
        spread = np.square(right.sum(axis=1) - (share or 0) * by_image).sum() ** 0.5
        result[f"precision {precision}"] = {
            "estimated": points.estimated_precision(points.threshold_for(precision)),
            "true": None if share is None else float(share),
            "error": float(spread / n_given) if n_given else None,
            "tags_per_picture": float(by_image.mean()),
            "recall": float(right.sum() / true.sum()),
            "recall_of_the_best_cut": _best_recall(true, p, points.learnable, precision),
        }
    return result


def _best_recall(true: Any, p: Any, learned: Any, precision: float) -> float:
    """Return the recall of the best probability threshold, selected on the test images."""
    values, right = p[:, learned].ravel(), true[:, learned].ravel()
    if not len(values):
        return 0.0
    order = np.argsort(-values)
    hits = np.cumsum(right[order])
    enough = np.flatnonzero(hits / np.arange(1, len(hits) + 1) >= precision)
    return float(hits[enough[-1]] / true.sum()) if len(enough) else 0.0


def estimates(sizes: list[int], draws: int) -> list[dict[str, Any]]:
    rows = []
    for name in FILES:
        for share in (0.0, HIDDEN_SHARE):
            for n in sizes:
                for seed, subset in subsets(name, n, draws, share):
                    row = {"collection": name, "hidden": share, "n": n, "draw": seed}
                    rows.append(row | compare(subset))
                _report(rows, name, share, n)
    return rows


def _report(rows: list[dict[str, Any]], name: str, share: float, n: int) -> None:
    mine = [r for r in rows if (r["collection"], r["hidden"], r["n"]) == (name, share, n)]
    if mine:
        f1 = np.mean([row["f1"] for row in mine], axis=0)
        p = np.mean([row["probability"] for row in mine], axis=0)
        default_points = [row[f"precision {DEFAULT_PRECISION}"] for row in mine]
        reached = [point for point in default_points if point["true"] is not None]
        actual = np.mean([point["true"] for point in reached]) if reached else 0
        estimated = np.mean([point["estimated"] for point in reached]) if reached else 0
        print(
            f"{name} {share} n={n}: F1 {f1[0]:.3f} / {f1[1]:.3f}, p {p[0]:.4f} / {p[1]:.4f}, "
            f"precision {estimated:.3f} / {actual:.3f} in {len(reached)} of "
            f"{len(mine)} draws",
            flush=True,
        )


def noise(sizes: list[int], draws: int) -> list[dict[str, Any]]:
    """Evaluate random tags: alone, and ten of them among the real ones."""
    rows = []
    for name in FILES:
        for n in sizes:
            for seed, subset in subsets(name, n, draws, 0.0):
                rng = np.random.default_rng(seed)
                alone = subset._replace(Y=rng.permutation(subset.Y))
                frequency = rng.uniform(0.1, 0.4, 10)
                among = subset._replace(
                    Y=np.hstack([subset.Y, rng.random((len(subset.Y), 10)) < frequency]),
                    Y_new=np.hstack(
                        [subset.Y_new, rng.random((len(subset.Y_new), 10)) < frequency]
                    ),
                )
                row: dict[str, Any] = {"collection": name, "n": n, "draw": seed}
                for kind, drawn in (("alone", alone), ("among", among)):
                    model = recommended(n_jobs=THREADS).fit(drawn.X, drawn.Y)
                    points = OperatingPoints.from_fit(model.result_)
                    p = model.model_.probabilities(drawn.X_new)
                    given = (p >= points.default_threshold) & points.learnable
                    random = given if kind == "alone" else given[:, -10:]
                    row[kind] = {
                        "learned": int(points.learnable[-random.shape[1] :].sum()),
                        "given_share": float(random.mean()),
                        "largest_share_of_a_tag": float(random.mean(axis=0).max()),
                        "estimated_f1": model.choices_["out_of_fold_f1"],
                        "f1_of_always": _always(drawn.Y),
                    }
                rows.append(row)
                print(row, flush=True)
    return rows


def _always(Y: Any) -> float:
    """Return the F1 of applying every tag to every picture."""
    precision = float(np.asarray(Y).mean(axis=0).mean())
    return 2 * precision / (1 + precision)


COMPONENTS = 200
BASELINES = {
    "recommended": lambda: recommended(n_jobs=THREADS),
    "kernel ridge": lambda: KernelRidge(threshold="per_tag", n_jobs=THREADS),
    "kNN": lambda: KNN(threshold="per_tag", n_jobs=THREADS),
    "logistic": lambda: Logistic(threshold="per_tag", n_jobs=THREADS, random_state=0),
    "2PKNN": lambda: TwoPassKNN(threshold="per_tag", n_jobs=THREADS),
    "TagProp": lambda: TagProp(threshold="per_tag", n_jobs=THREADS),
}


def fitted(name: str, subset: Subset) -> tuple[Any, Any, str]:
    """Fit a model; return it, the new images in its input form, and the name of this form."""
    forms = {"raw": (subset.X, subset.X_new)}
    if name != "recommended" and len(subset.X) > COMPONENTS:
        reduction = Reduction(COMPONENTS, random_state=0).fit(subset.X)
        forms["components"] = (reduction.transform(subset.X), reduction.transform(subset.X_new))
    models = {form: BASELINES[name]().fit(x, subset.Y) for form, (x, _) in forms.items()}
    if len(models) == 1:
        return models["raw"], subset.X_new, "raw"
    best = max(
        models,
        key=lambda form: validation_score(subset.Y, models[form].out_of_fold_scores_, five=True),
    )
    return models[best], forms[best][1], best


def baselines(sizes: list[int], draws: int) -> list[dict[str, Any]]:
    """Compare ProtoTag and baselines on the same vectors, each with its own hyperparameters."""
    rows = []
    for name in FILES:
        for share in (0.0, HIDDEN_SHARE):
            for n in sizes:
                for seed, subset in subsets(name, n, draws, share):
                    row: dict[str, Any] = {"collection": name, "hidden": share, "n": n}
                    row["draw"] = seed
                    for baseline in BASELINES:
                        if baseline == "logistic" and n > 1_000:
                            continue  # takes minutes
                        began = time.process_time()
                        model, new, form = fitted(baseline, subset)
                        spent = time.process_time() - began
                        scores = model.decision_function(new)
                        report = metrics.report(subset.Y_new, scores, model.threshold_)
                        row[baseline] = {
                            "f1": report["threshold_f1"],
                            "five": report["top_f1"],
                            "map": report["mean_average_precision"],
                            "seconds": round(spent, 1),
                            "vectors": form,
                        }
                    rows.append(row)
                mine = [
                    r for r in rows if (r["collection"], r["hidden"], r["n"]) == (name, share, n)
                ]
                for baseline in [key for key in BASELINES if mine and key in mine[0]]:
                    gap = np.array(
                        [
                            [m["recommended"][k] - m[baseline][k] for k in ("f1", "map", "five")]
                            for m in mine
                        ]
                    )
                    error = gap.std(axis=0, ddof=1) / len(gap) ** 0.5 if len(gap) > 1 else gap[0]
                    print(
                        f"{name} {share} n={n} ours minus {baseline}: "
                        f"F1 {100 * gap.mean(axis=0)[0]:+.1f} ± {100 * error[0]:.1f}, "
                        f"mAP {100 * gap.mean(axis=0)[1]:+.1f} ± {100 * error[1]:.1f}, "
                        f"five {100 * gap.mean(axis=0)[2]:+.1f} ± {100 * error[2]:.1f}",
                        flush=True,
                    )
    return rows


def corrections(_sizes: list[int], draws: int) -> list[dict[str, Any]]:
    """Train on 2,000 tagged pictures and 1,000 corrected ones: wrong tags removed, one tag added.

    Remaining tags are present, removed ones absent, all other pairs unlabeled
    (docs/guide/writing-tags.md). For comparison: all other pairs as absent, and all labels.
    """
    rows = []
    for seed, subset in subsets("IAPRTC-12", 3_000, draws, 0.0):
        tagged, more = slice(0, 2_000), slice(2_000, None)
        first = recommended(n_jobs=THREADS).fit(subset.X[tagged], subset.Y[tagged])
        points = OperatingPoints.from_fit(first.result_)
        p, full = first.model_.probabilities(subset.X[more]), subset.Y[more] > 0
        given = (p >= points.default_threshold) & points.learnable
        right = given & full
        rng = np.random.default_rng(seed)
        missing = np.where(full & ~right, rng.random(full.shape), -1)
        added = (missing == missing.max(axis=1, keepdims=True)) & (missing >= 0)
        present = right | added
        unlabeled = ~(present | given)
        row: dict[str, Any] = {"draw": seed, "standing": float(present.sum(axis=1).mean())}
        learned = {
            "before": None,
            "corrected": (present, unlabeled),
            "rest as absent": (present, None),
            "all": (full, None),
        }
        for name, known in learned.items():
            model = first
            if known is not None:
                Y, unknown = np.vstack([subset.Y[tagged], known[0]]), known[1]
                if unknown is not None:
                    unknown = np.vstack([np.zeros_like(subset.Y[tagged]), unknown])
                model = recommended(n_jobs=THREADS).fit(subset.X, Y, unlabeled=unknown)
            scores = model.decision_function(subset.X_new)
            report = metrics.report(subset.Y_new, scores, model.threshold_)
            row[name] = [report["threshold_f1"], report["mean_average_precision"]]
        rows.append(row)
        print(row, flush=True)
    return rows


def default(_sizes: list[int], _draws: int) -> list[dict[str, Any]]:
    """Evaluate the tags that `annotate` applies by default, trained on all of IAPRTC-12."""
    data = vectors.read("large+inner")
    model = recommended(n_jobs=THREADS, feature_groups=data.feature_groups).fit(data.X, data.Y)
    points = OperatingPoints.from_fit(model.result_)
    scores, p = model.model_.predict(data.X_test)
    true = data.Y_test.toarray() > 0
    row: dict[str, Any] = {"vectors": "large+inner", "feature_groups": model.result_.feature_groups}
    row |= metrics.report(data.Y_test, scores, model.threshold_)
    row["estimated_f1"] = model.choices_["out_of_fold_f1"]
    given = {
        "by default": (p >= points.default_threshold) & points.learnable,
        "by research thresholds": scores > model.threshold_,
    }
    for name, mine in given.items():
        row[name] = {
            "right": float((mine & true).sum() / mine.sum()),
            "tags_per_picture": float(mine.sum(axis=1).mean()),
            "recall": float((mine & true).sum() / true.sum()),
        }
    row["by default"]["estimated"] = points.estimated_precision(points.default_threshold)
    print(row, flush=True)
    return [row]


PARTS = {
    "default": default,
    "estimates": estimates,
    "random": noise,
    "baselines": baselines,
    "corrections": corrections,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[30, 100, 300, 1000, 3000])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--suffix", default="", help="suffix of result file names")
    parser.add_argument("--quick", action="store_true", help="write no results")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for part in arguments.parts or PARTS:
        result = {
            "what": __doc__.splitlines()[0],
            "machine": stamp(0),
            "draws": arguments.draws,
            "rows": PARTS[part](arguments.sizes, arguments.draws),
        }
        if not arguments.quick:
            target = RESULTS / f"trust_{part}{arguments.suffix}.json"
            target.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
