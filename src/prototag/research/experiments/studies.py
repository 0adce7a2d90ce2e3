"""The studies of the paper: each runs trials and returns plain values for JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from prototag.arrays import Array
from prototag.estimator import TagEstimator
from prototag.evaluation import metrics
from prototag.evaluation.thresholds import THRESHOLD_SHRINKAGE, best_tag_thresholds
from prototag.mcdl.estimator import MCDL
from prototag.research.baselines import TwoPassKNN
from prototag.research.datasets import planted
from prototag.research.experiments import bootstrap
from prototag.research.experiments.trials import Laboratory, Task, Trial, best_f1, time_annotation
from prototag.research.registry import (
    COMPONENTS,
    MCDL_OUT_OF_FOLD,
    MCDL_PUBLISHED,
    OURS,
    Method,
    select,
)
from prototag.tagging.reduction import Reduction

Result = dict[str, Any]
Announce = Callable[[str], None]
FIGURES = ("precision", "recall", "f1", "n_plus")
CURVES = (OURS, MCDL_PUBLISHED, "2PKNN", "kNN", "kernel ridge")
CURVE_POINTS = 120
BOOTSTRAP_SAMPLES = 300
SYNTHETIC_TAGS = 100
SYNTHETIC_WIDTH = 200
INIT_ITER = 20  # initial alternations in studies of many fits; the paper's 100 change little


def comparison(
    lab: Laboratory,
    task: Task,
    methods: Sequence[Method],
    seeds: Sequence[int],
    announce: Announce,
) -> Result:
    """Compare all methods under both protocols, with intervals of the differences to ProtoTag."""
    trials: dict[str, list[Trial]] = {}
    for method in methods:
        for seed in seeds if method.random else seeds[:1]:
            announce(f"{method.name} on {task.name}, seed {seed}")
            trials.setdefault(method.name, []).append(lab.trial(method, task, seed))
    rows = [_row(task, by_seed) for by_seed in trials.values()]
    if OURS in trials:
        samples = bootstrap.draws(task.X_test.shape[0], BOOTSTRAP_SAMPLES, seed=0)
        ours = bootstrap.figures(task.Y_test, trials[OURS], samples)
        for row in rows:
            if row["method"] != OURS:
                announce(f"{OURS} minus {row['method']}: bootstrap of test images")
                theirs = bootstrap.figures(task.Y_test, trials[row["method"]], samples)
                row["ours_minus_this"] = bootstrap.difference(ours, theirs)._asdict()
    return {
        "rows": rows,
        "curves": [_curve(task, trials[name][0]) for name in CURVES if name in trials],
        "trials": [trial.record for by_seed in trials.values() for trial in by_seed],
    }


def _row(task: Task, trials: Sequence[Trial]) -> Result:
    """Return the means over seeds, and the standard deviation of F1."""
    first = trials[0].record
    row: Result = {key: first[key] for key in ("method", "family", "images", "vectors", "chosen")}
    for key, value in first.items():
        if isinstance(value, float):
            row[key] = float(np.mean([trial.record[key] for trial in trials]))
    f1 = [trial.record["threshold_f1"] for trial in trials]
    row["best_f1_on_test"] = float(np.mean([best_f1(task.Y_test, trial) for trial in trials]))
    row["seeds"] = len(trials)
    row["f1_deviation"] = float(np.std(f1, ddof=1)) if len(f1) > 1 else None
    return row


def _curve(task: Task, trial: Trial) -> Result:
    curve = metrics.precision_recall_curve(task.Y_test, trial.scores, points=CURVE_POINTS)
    return {
        "method": trial.record["method"],
        "precision": _rounded(curve.precision),
        "recall": _rounded(curve.recall),
        "area": curve.area,
        "given": [trial.record["threshold_recall"], trial.record["threshold_precision"]],
    }


def sizes(
    lab: Laboratory, task: Task, counts: Sequence[int], iterations: int, announce: Announce
) -> Result:
    """Measure F1, precision and recall by the number of prototypes, as in the paper's figure."""
    series = {}
    for method in select([MCDL_PUBLISHED, MCDL_OUT_OF_FOLD]):
        name = method.name
        rows = []
        extra = {"max_iter": iterations, "init_iter": INIT_ITER} if name == MCDL_PUBLISHED else {}
        for k in counts:
            announce(f"{name} with {k:,} prototypes")
            record = lab.trial(method, task, 0, n_prototypes=int(k), **extra).record
            rows.append({"n_prototypes": int(k)} | _figures(record))
        series[name] = rows
    return {"iterations": iterations, "series": series}


def family(lab: Laboratory, task: Task, k: int, iterations: int, announce: Announce) -> Result:
    """Compare UDL, CDL and MCDL with equal prototypes: the effect of coupling and of the margin."""
    iterating = {"max_iter": iterations, "init_iter": INIT_ITER}
    recipes = {
        "UDL": ("udl", {"init_iter": INIT_ITER}),
        "CDL": ("cdl", iterating),
        "MCDL": ("paper", iterating),
    }
    rows = []
    histograms = {}
    for name, (recipe, options) in recipes.items():
        announce(f"{name} with {k:,} prototypes")
        import_path = f"prototag.mcdl.estimator:MCDL.{recipe}"
        method = Method(f"{name}, paper", import_path, "MCDL", options)
        trial = lab.trial(method, task, 0, n_prototypes=k)
        rows.append({"recipe": name} | _figures(trial.record))
        if name != "UDL":
            loss = "squared loss (CDL)" if name == "CDL" else "squared hinge (MCDL)"
            distribution = metrics.score_distributions(task.Y_test, trial.scores, bins=60)
            histograms[loss] = {
                "edges": _rounded(distribution.edges),
                "present": distribution.present.tolist(),
                "absent": distribution.absent.tolist(),
                "threshold": float(trial.threshold[0]),
            }
    return {"n_prototypes": k, "iterations": iterations, "rows": rows, "scores": histograms}


def networks(lab: Laboratory, tasks: Sequence[Task], announce: Announce) -> Result:
    """Compare ProtoTag, MCDL and 2PKNN on the vectors of each network."""
    rows = []
    for task in tasks:
        for method in select([OURS, MCDL_OUT_OF_FOLD, "2PKNN"]):
            announce(f"{method.name} on {task.name}")
            record = lab.trial(method, task, 0).record
            rows.append({"vectors": task.name, "method": method.name} | _figures(record))
    return {"rows": rows}


def prototypes(
    task: Task,
    methods: Sequence[Method],
    k: int,
    iterations: int,
    n_jobs: int,
    announce: Announce,
) -> Result:
    """Run the neighbour methods on MCDL's prototypes instead of all images.

    The conclusion of the paper proposes prototypes for other annotators. A prototype has the tags
    whose semantic weight is at least tau, the centre of MCDL's margin. Prototypes, and the gallery
    of all images, come from four fifths of the training images; the others select the thresholds,
    because leave-one-out scores among prototypes would not be those of new images.
    """
    order = np.random.default_rng(0).permutation(len(task.X))
    held_out, rows = np.split(order, [len(order) // 5])
    reduction = Reduction(COMPONENTS, random_state=0).fit(task.X[rows])
    x = reduction.transform(task.X[rows])
    announce(f"{k:,} prototypes of {MCDL_PUBLISHED}")
    mcdl = MCDL.published(
        n_prototypes=k, max_iter=iterations, init_iter=INIT_ITER, n_jobs=n_jobs, random_state=0
    ).fit(x, task.Y[rows])
    tau = mcdl.margin_centre()
    semantics = sparse.csr_array(mcdl.semantic_prototypes_)
    galleries = {
        "all images": (x, task.Y[rows]),
        "prototypes": (mcdl.visual_prototypes_, sparse.csr_array(semantics >= tau).astype("f4")),
    }

    def judge(model: TagEstimator) -> Result:
        scores, seconds = time_annotation(model, reduction.transform, task.X_test)
        tuning = np.asarray(model.decision_function(reduction.transform(task.X[held_out])))
        threshold = best_tag_thresholds(task.Y[held_out], tuning, shrink=THRESHOLD_SHRINKAGE)
        record = metrics.report(task.Y_test, scores, threshold)
        record["microseconds_to_annotate"] = round(1e6 * seconds / len(scores), 1)
        return record

    result: list[Result] = [
        {"method": MCDL_PUBLISHED, "all images": None, "prototypes": judge(mcdl)}
    ]
    for method in methods:
        row: Result = {"method": method.name}
        for gallery, (images, tags) in galleries.items():
            announce(f"{method.name} on {gallery}")
            row[gallery] = judge(method.build(n_jobs=n_jobs, random_state=0).fit(images, tags))
        result.append(row)
    return {
        "n_prototypes": len(mcdl.visual_prototypes_),
        "images": len(rows),
        "held_out": len(held_out),
        "components": x.shape[1],
        "iterations": iterations,
        "tau": tau,
        "rows": result,
    }


def growth(counts: Sequence[int], n_jobs: int, announce: Announce) -> Result:
    """Measure times by the number of synthetic training images, with n / 5 prototypes."""
    rows = []
    for n in counts:
        announce(f"time with {n:,} synthetic images")
        data = planted(
            n + 500, SYNTHETIC_TAGS, max(10, n // 20), m=SYNTHETIC_WIDTH, noise=0.5, random_state=0
        )
        X = data.X[:n]
        Y = data.Y[:n]
        new = data.X[n:]
        times: list[float] = []
        model = MCDL.published(
            max_iter=2,
            init_iter=1,
            n_jobs=n_jobs,
            random_state=0,
            progress=lambda _, times=times: times.append(time.perf_counter()),
        ).fit(X, Y)
        knn = TwoPassKNN().fit(X, Y)
        rows.append(
            {
                "images": int(n),
                "n_prototypes": len(model.visual_prototypes_),
                "seconds_an_iteration": float(np.diff(times).min()),
                "microseconds_mcdl": time_annotation(model, None, new)[1] / len(new) * 1e6,
                "microseconds_2pknn": time_annotation(knn, None, new)[1] / len(new) * 1e6,
            }
        )
    return {
        "tags": SYNTHETIC_TAGS,
        "columns": SYNTHETIC_WIDTH,
        "threads_to_fit": n_jobs,
        "rows": rows,
    }


def _figures(record: Result) -> Result:
    names = [f"{protocol}_{figure}" for protocol in ("threshold", "top") for figure in FIGURES]
    names += ["mean_average_precision", "seconds_to_fit", "microseconds_to_annotate"]
    return {name: record[name] for name in names}


def _rounded(values: Array) -> list[float]:
    return [round(float(value), 4) for value in values]
