"""Simulated reviewers: accuracy by the number of decisions for several query strategies.

    python -m benchmarks.library.simulated_reviewers [--seeds 3] [PART ...]

The truth is the tags of IAPRTC-12's training images; everything is judged on its test images, over
the tags that the library begins with. Parts:

``order``      300 tagged pictures among 5,000; 1,000 decisions in batches of 20. Our order (what
               teaches most), the most probable first, suggestions in random order, random pairs;
               kernel ridge retrained from nothing on our decisions; all tags known.
``new``        50 tags left out of a library of 5,000 tagged pictures: ten examples each, then
               three rounds of 20 decisions.
``anew``       Learning on against learning anew from the same decisions, and how long both take,
               at 5,000 and 20,000 pictures.
``forgotten``  40% of the tags of 1,000 pictures forgotten, then 500 decisions; the same without
               knowing a no.

Results go to benchmarks/results/library_PART.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.library import synthetic_library
from benchmarks.machine import stamp
from prototag import Library
from prototag.evaluation import metrics
from prototag.evaluation.ranking import average_precision, mean_average_precision
from prototag.library.types import ACCEPTED, REJECTED
from prototag.research.baselines import KernelRidge

RESULTS = Path(__file__).parents[1] / "results"
JOBS = int(os.environ.get("PROTOTAG_JOBS", "2"))
BATCH = 20
MOMENTS = 200  # decisions between two looks at the test images


class Person:
    """Simulated reviewer of a library, who answers by the true labels."""

    def __init__(self, library: Library, truth: np.ndarray) -> None:
        self.library, self.truth = library, truth
        self.yes = self.no = 0

    def answer(self, pairs: list[tuple[int, str]], says_no: bool = True) -> None:
        decided = []
        for picture, tag in pairs:
            right = self.truth[picture - 1, synthetic_library.column(tag)]
            self.yes, self.no = self.yes + right, self.no + (not right)
            if right or says_no:
                decided.append((picture, tag, ACCEPTED if right else REJECTED))
        if decided:
            self.library.decide(decided)


def judge(library: Library, images: synthetic_library.Images, tags: np.ndarray) -> dict[str, float]:
    """F1 of the means and mAP on the test images."""
    annotator = library.annotator()
    places = [annotator.tags.index(synthetic_library.name(c)) for c in tags]
    scores = annotator.model.scores(images.X[images.test], annotator._engine)[:, places]
    return measured(images, tags, scores, annotator.model.threshold[places])


def measured(
    images: synthetic_library.Images, tags: np.ndarray, scores: np.ndarray, limits: Any
) -> dict[str, float]:
    true = images.Y[images.test][:, tags]
    return {
        "f1": 100 * metrics.f1_of_means(true, scores > limits),
        "map": 100 * mean_average_precision(true, scores),
    }


# -- order -----------------------------------------------------------------------------------------


def ours(library: Library, _: np.random.Generator, __: np.ndarray) -> list[tuple[int, str]]:
    return [(one.picture, one.tag) for one in library.suggest(uncertain=True, limit=BATCH)]


def probable(library: Library, _: np.random.Generator, __: np.ndarray) -> list[tuple[int, str]]:
    return [(one.picture, one.tag) for one in library.suggest(limit=BATCH)]


def shuffled(library: Library, rng: np.random.Generator, _: np.ndarray) -> list[tuple[int, str]]:
    suggestions = library.suggest(limit=100_000)
    chosen = rng.permutation(len(suggestions))[:BATCH]
    return [(suggestions[i].picture, suggestions[i].tag) for i in chosen]


def pairs(library: Library, rng: np.random.Generator, tags: np.ndarray) -> list[tuple[int, str]]:
    count = library.status().pictures
    return [
        (int(rng.integers(300, count)) + 1, synthetic_library.name(int(rng.choice(tags))))
        for _ in range(BATCH)
    ]


ORDERS: dict[str, Callable[..., list[tuple[int, str]]]] = {
    "ours": ours,
    "most probable": probable,
    "suggestions, shuffled": shuffled,
    "random pairs": pairs,
}


def order(seeds: int, *, tagged: int = 300, size: int = 5_000, decisions: int = 1_000) -> Any:
    images = synthetic_library.iaprtc12()
    answer = []
    for seed in range(seeds):
        rows = np.random.default_rng(seed).permutation(images.train)[:size]
        X, truth = images.X[rows], images.Y[rows]
        tags = np.flatnonzero(truth[:tagged].sum(axis=0) >= 5)
        given = truth.copy()
        given[tagged:] = False
        for name, choose in ORDERS.items():
            with tempfile.TemporaryDirectory() as folder:
                library = synthetic_library.library(Path(folder), X, given, JOBS)
                curve = _reviewed(library, images, truth, tags, choose, seed, decisions)
                if name == "ours":
                    curve["kernel ridge"] = _ridges(library, images, X, truth, tags, tagged)
                answer.append({"seed": seed, "order": name, "tags": len(tags), **curve})
                library.close()
            print(
                seed, name, [f"{m['f1']:.1f}/{m['map']:.1f}" for m in curve["moments"]], flush=True
            )
        with tempfile.TemporaryDirectory() as folder:
            library = synthetic_library.library(Path(folder), X, truth, JOBS)
            library.learn(full=True)
            answer.append(
                {"seed": seed, "order": "all known", "moments": [judge(library, images, tags)]}
            )
            library.close()
        print(seed, "all known", answer[-1]["moments"], flush=True)
    return {"runs": answer, "reached": _reached(answer)}


def _reviewed(
    library: Library,
    images: synthetic_library.Images,
    truth: np.ndarray,
    tags: np.ndarray,
    choose: Callable[..., list[tuple[int, str]]],
    seed: int,
    decisions: int,
) -> dict[str, Any]:
    library.learn(full=True)
    person, rng = Person(library, truth), np.random.default_rng(seed)
    moments = [{"decisions": 0, **judge(library, images, tags)}]
    began = time.process_time()
    for done in range(BATCH, decisions + 1, BATCH):
        person.answer(choose(library, rng, tags))
        library.learn()
        if done % MOMENTS == 0:
            moments.append({"decisions": done, **judge(library, images, tags)})
    return {
        "moments": moments,
        "yes": int(person.yes),
        "no": int(person.no),
        "models": library.models()[0].number,
        "processor_seconds": time.process_time() - began,
    }


def _ridges(
    library: Library,
    images: synthetic_library.Images,
    X: np.ndarray,
    truth: np.ndarray,
    tags: np.ndarray,
    tagged: int,
) -> list[dict[str, float]]:
    """Retrain kernel ridge after each batch of decisions, with unlabeled pairs as absent."""
    known = truth[:, tags].copy()
    known[tagged:] = False
    labeled = np.zeros(len(X), bool)
    labeled[:tagged] = True
    rows = []
    history = sorted(library.history(limit=100_000), key=lambda one: one.number)
    place = {synthetic_library.name(c): i for i, c in enumerate(tags)}
    for done in range(0, len(history) + 1, MOMENTS):
        for one in history[max(done - MOMENTS, 0) : done]:
            labeled[one.picture - 1] = True
            known[one.picture - 1, place[one.tag]] = one.verdict == ACCEPTED
        baseline = KernelRidge().fit(X[labeled], known[labeled])
        scores = baseline.decision_function(images.X[images.test])
        rows.append({"decisions": done, **measured(images, tags, scores, baseline.threshold_)})
    return rows


def _reached(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the decisions that our order needs for the final accuracy of the others."""
    answer: dict[str, Any] = {}
    for measure in ("f1", "map"):
        mean = {
            name: np.mean(
                [[m[measure] for m in run["moments"]] for run in runs if run["order"] == name],
                axis=0,
            )
            for name in ORDERS
        }
        steps = np.arange(len(mean["ours"])) * MOMENTS
        for name in ORDERS:
            if name != "ours":
                above = np.flatnonzero(mean["ours"] >= mean[name][-1])
                answer[f"{measure}, {name}"] = {
                    "theirs": float(mean[name][-1]),
                    "at": int(steps[-1]),
                    "ours_at": int(steps[above[0]]) if len(above) else None,
                }
    return answer


# -- new tags --------------------------------------------------------------------------------------


def new(seeds: int, *, size: int = 5_000, count: int = 50) -> Any:
    images = synthetic_library.iaprtc12()
    answer = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(images.train)[:size]
        X, truth = images.X[rows], images.Y[rows]
        often = np.flatnonzero(truth.sum(axis=0) >= 30)
        left = np.sort(rng.permutation(often)[:count])
        given = truth.copy()
        given[:, left] = False
        with tempfile.TemporaryDirectory() as folder:
            library = synthetic_library.library(Path(folder), X, given, JOBS)
            library.learn(full=True)
            for tag in left:
                answer.append({"seed": seed, **_taught(library, images, truth, int(tag), rng)})
            library.close()
        print(seed, _summary(answer), flush=True)
    return {"tags": answer, **_summary(answer)}


def _taught(
    library: Library,
    images: synthetic_library.Images,
    truth: np.ndarray,
    tag: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    name, person = synthetic_library.name(tag), Person(library, truth)
    examples = rng.permutation(np.flatnonzero(truth[:, tag]))[:10] + 1
    library.accept([int(i) for i in examples], [name])
    first: float | None = None
    seconds = []
    precisions = [_precision(library, images, tag)]
    for _ in range(3):
        began = time.perf_counter()
        suggestions = library.suggest(name, limit=BATCH)
        seconds.append(time.perf_counter() - began)
        if first is None:
            first = float(np.mean([truth[one.picture - 1, tag] for one in suggestions]))
        person.answer([(one.picture, name) for one in suggestions])
    precisions.append(_precision(library, images, tag))
    rest = np.flatnonzero(truth[:, tag]) + 1
    others = np.flatnonzero(~truth[:, tag]) + 1
    library.decide(
        [(int(i), name, ACCEPTED) for i in rest] + [(int(i), name, REJECTED) for i in others]
    )
    whole = _precision(library, images, tag)
    return {
        "pictures": len(rest),
        "first_20": first,
        "average_precision": precisions,
        "all_labels": whole,
        "yes": int(person.yes),
        "seconds": float(np.median(seconds)),
    }


def _precision(library: Library, images: synthetic_library.Images, tag: int) -> float:
    trainer = library.trainer
    active = trainer.active_model()
    column, _ = trainer._column(active, synthetic_library.name(tag))
    model = active.tagger.assembled()
    raw = model.raw(images.X[images.test], active.annotator.active_engine)[:, [column]]
    return float(average_precision(images.Y[images.test][:, [tag]], raw)[0])


def _summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    after, whole = (np.array([r[k] for r in rows]) for k in ("average_precision", "all_labels"))
    return {
        "first_20_precision": float(np.mean([row["first_20"] for row in rows])),
        "average_precision_10_examples": float(after[:, 0].mean()),
        "average_precision_after_three_rounds": float(after[:, -1].mean()),
        "average_precision_all_labels": float(whole.mean()),
        "share_of_all_labels": float(after[:, -1].mean() / whole.mean()),
        "seconds_to_suggestions": float(np.median([row["seconds"] for row in rows])),
    }


# -- learning on against learning anew -------------------------------------------------------------


def retrain(seeds: int) -> Any:
    images = synthetic_library.iaprtc12()
    answer = []
    for size, seed in [(5_000, seed) for seed in range(seeds)] + [(17_665, 0)]:
        rows = np.random.default_rng(seed).permutation(images.train)[:size]
        tagged = int(0.8 * size)
        X, truth = images.X[rows], images.Y[rows]
        tags = np.flatnonzero(truth[:tagged].sum(axis=0) >= 5)
        given = truth.copy()
        given[tagged:] = False
        row: dict[str, Any] = {"pictures": size, "tags": len(tags), "seed": seed}
        with tempfile.TemporaryDirectory() as folder:
            library = synthetic_library.library(Path(folder), X, given, JOBS)
            began, clock = time.process_time(), time.perf_counter()
            library.learn(full=True)
            row["full_processor_seconds"] = time.process_time() - began
            row["full_seconds"] = time.perf_counter() - clock
            row["before"] = judge(library, images, tags)
            person, one_tag, mixed = Person(library, truth), [], []
            while person.yes + person.no < 500:
                suggestions = library.suggest(uncertain=True, limit=BATCH)
                person.answer([(one.picture, one.tag) for one in suggestions])
                began = time.perf_counter()
                library.learn(full=False)
                library.suggest(uncertain=True, limit=BATCH)
                mixed.append(time.perf_counter() - began)
                tag = suggestions[0].tag
                ranked = library.suggest(tag, limit=1)
                if ranked:
                    person.answer([(ranked[0].picture, tag)])
                    began = time.perf_counter()
                    library.suggest(tag, limit=BATCH)
                    one_tag.append(time.perf_counter() - began)
            row["decision_to_suggestions_seconds"] = float(np.median(one_tag))
            row["decision_to_suggestions_worst"] = float(np.max(one_tag))
            row["batch_of_20_to_suggestions_seconds"] = float(np.median(mixed))
            row["incremental"] = judge(library, images, tags)
            library.learn(full=True)
            row["full_retrain"] = judge(library, images, tags)
            library.close()
        print(row, flush=True)
        answer.append(row)
    return answer


# -- forgotten tags --------------------------------------------------------------------------------


def hidden(seeds: int, *, size: int = 1_000, decisions: int = 500) -> Any:
    images = synthetic_library.iaprtc12()
    answer = []
    for seed in range(seeds):
        rows = np.random.default_rng(seed).permutation(images.train)[:size]
        X, truth = images.X[rows], images.Y[rows]
        kept = np.random.default_rng(100 + seed).random(truth.shape) >= 0.4
        given = truth & kept
        tags = np.flatnonzero(given.sum(axis=0) >= 5)
        row: dict[str, Any] = {"seed": seed, "tags": len(tags)}
        for name, says_no in (("yes and no", True), ("without a no", False)):
            with tempfile.TemporaryDirectory() as folder:
                library = synthetic_library.library(Path(folder), X, given, JOBS)
                library.learn(full=True)
                row["hidden"] = judge(library, images, tags)
                person, asked = Person(library, truth), set()
                while person.yes + person.no < decisions:
                    suggestions = library.suggest(uncertain=True, limit=BATCH + len(asked))
                    fresh = [
                        (s.picture, s.tag) for s in suggestions if (s.picture, s.tag) not in asked
                    ]
                    asked |= set() if says_no else set(fresh[:BATCH])
                    if not fresh:
                        break
                    person.answer(fresh[:BATCH], says_no)
                    library.learn()
                row[f"completeness, {name}"] = library.trainer.active_model().tagger.completeness
                library.learn(full=True)
                row[name] = {**judge(library, images, tags), "yes": int(person.yes)}
                library.close()
        with tempfile.TemporaryDirectory() as folder:
            library = synthetic_library.library(Path(folder), X, truth, JOBS)
            library.learn(full=True)
            row["complete"] = judge(library, images, tags)
            library.close()
        print(row, flush=True)
        answer.append(row)
    return answer


PARTS = {"order": order, "new": new, "retrain": retrain, "hidden": hidden}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--suffix", default="")
    given = parser.parse_args()
    for part in given.parts or PARTS:
        machine = stamp(0)
        results = PARTS[part](given.seeds)
        path = RESULTS / f"library_{part}{given.suffix}.json"
        path.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
