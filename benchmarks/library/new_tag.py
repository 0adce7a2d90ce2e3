"""A new tag whose name is known: ranked by the name alone, then by name and examples together.

    python -m benchmarks.library.new_tag [--seed 0]

Concept heads are made anew without the collection that judges them. In a library of 5,000 untagged
pictures, 50 tags are tried. Reported, averaged over the tags:

- ``first_20``: how many of the first 20 pictures by the name alone have the tag;
- ``average_precision``: of the name alone, of 10 examples without and with the name, and of all
  labels (leave-one-out), and the share of the latter that the examples reach;
- ``review``: a simulated person answers six batches of 40 by the truth, the first one ranked by the
  name alone. How many suggestions were ticked, and how many of them right.

Results go to benchmarks/results/knowledge_new_tag.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.collections import DATA
from benchmarks.library import synthetic_library
from benchmarks.machine import stamp
from prototag.evaluation.ranking import average_precision
from prototag.knowledge.concepts import ConceptHeads
from prototag.library import concept_index, general_suggestions
from prototag.library.library import Library
from prototag.library.types import ACCEPTED, REJECTED
from prototag.tagging import positive_unlabeled as pu
from tools import make_knowledge

RESULTS = Path(__file__).parents[1] / "results"
PICTURES = 5_000
TAGS = 50
EXAMPLES = 10
FIRST = 20
MIN_PICTURES = 40  # with the tag, of those of the draw
BATCH = 40
BATCHES = 6


def heads_without(data: make_knowledge.Data, source: str) -> ConceptHeads:
    """Concept heads that no image of one source has a part in."""
    parts = make_knowledge.concepts_of(data, {source})
    reference = data.iapr_vectors if source == "coco" else data.caption_vectors
    return make_knowledge.smooth_heads(data, parts, reference)


def coco(data: make_knowledge.Data) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rows = data.is_labelled
    X = (data.caption_vectors[rows] @ data.axes.T) * data.scale + data.mean
    return X.astype(np.float32), data.coco_labels[rows] > 0, data.label_names


def iaprtc12(data: make_knowledge.Data) -> tuple[np.ndarray, np.ndarray, list[str]]:
    with np.load(DATA / "iaprtc12_lite0_large.npz", allow_pickle=False) as file:
        rows = file["train_idx"]
        X = np.hstack([file["X"], file["mid"]])[rows].astype(np.float32)
    return X, data.iapr_labels[rows] > 0, data.iapr_tags


@contextmanager
def knowing(heads: ConceptHeads) -> Iterator[None]:
    """Libraries know these heads instead of those of the package."""
    with (
        mock.patch.object(concept_index, "embedded", return_value=heads),
        mock.patch.object(general_suggestions, "embedded", return_value=heads),
    ):
        yield


def precision(has: np.ndarray, scores: np.ndarray) -> float:
    return float(average_precision(has[:, None], scores[:, None])[0])


def tried(library: Library, background: pu.Background, has: np.ndarray, name: str, rng: Any) -> Any:
    """One tag, from its name alone to six answered batches."""
    numbers = np.arange(1, len(has) + 1)
    by_name = library.trainer.general.name_scores(name, numbers)
    assert by_name is not None
    order = np.argsort(-by_name, kind="stable")
    examples = rng.permutation(np.flatnonzero(has))[:EXAMPLES]
    others = np.setdiff1d(np.arange(len(has)), examples)
    every = np.flatnonzero(has)
    return {
        "tag": name,
        "pictures": len(every),
        "first_20": float(has[order[:FIRST]].mean()),
        "average_precision": {
            "name": precision(has, by_name),
            "examples": precision(has[others], background.scores(examples)[others]),
            "name_and_examples": precision(
                has[others], background.scores(examples, by_name)[others]
            ),
            "all_labels": precision(has, background.scores(every)),
            "name_and_all_labels": precision(has, background.scores(every, by_name)),
        },
        "review": reviewed(library, has, name, order[:BATCH] + 1),
    }


def reviewed(library: Library, has: np.ndarray, name: str, first: np.ndarray) -> list[Any]:
    """Answer batch after batch by the truth; the first one is ranked by the name alone."""

    def answer(pictures: list[int]) -> None:
        pairs = [(p, name, ACCEPTED if has[p - 1] else REJECTED) for p in pictures]
        library.decide(pairs, new=True)

    answer([int(one) for one in first])
    batches = [{"shown": len(first), "shown_right": int(has[first - 1].sum())}]
    for _ in range(BATCHES - 1):
        if not has[first - 1].any():
            break  # nobody would go on
        suggestions = library.suggest(name, limit=BATCH)
        estimate = library.cold_start_estimate(name)
        if not suggestions or estimate is None:
            break
        threshold = estimate.estimate.threshold
        ticked = [has[one.picture - 1] for one in suggestions if one.probability >= threshold]
        shown = [has[one.picture - 1] for one in suggestions]
        batches.append(
            {
                "shown": len(suggestions),
                "shown_right": int(sum(shown)),
                "ticked": len(ticked),
                "ticked_right": int(sum(ticked)),
            }
        )
        answer([one.picture for one in suggestions])
    return batches


def summary(tags: list[dict[str, Any]]) -> dict[str, Any]:
    kinds = tags[0]["average_precision"]
    means = {kind: np.mean([tag["average_precision"][kind] for tag in tags]) for kind in kinds}
    batches = [batch for tag in tags for batch in tag["review"]]
    ticked = sum(batch.get("ticked", 0) for batch in batches)
    right = sum(batch.get("ticked_right", 0) for batch in batches)
    return {
        "tags": len(tags),
        "first_20": float(np.mean([tag["first_20"] for tag in tags])),
        "average_precision": {kind: float(value) for kind, value in means.items()},
        "share_of_all_labels": {
            kind: float(means[kind] / means["all_labels"])
            for kind in ("name", "examples", "name_and_examples")
        },
        "ticked": ticked,
        "ticked_right": right,
        "precision_of_ticks": right / ticked if ticked else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    data = make_knowledge.Data(DATA)
    results: dict[str, Any] = {}
    for source, load in (("coco", coco), ("iaprtc12", iaprtc12)):
        X, Y, names = load(data)
        rng = np.random.default_rng(given.seed)
        rows = rng.permutation(len(X))[:PICTURES]
        truth = Y[rows]
        usable = np.flatnonzero(truth.sum(axis=0) >= MIN_PICTURES)
        columns = np.sort(rng.permutation(usable)[:TAGS]).tolist()
        background = pu.Background.of(X[rows])
        tags = []
        with (
            tempfile.TemporaryDirectory() as folder,
            knowing(heads_without(data, source)),
            synthetic_library.library(
                Path(folder), X[rows], np.zeros((PICTURES, 0), bool), jobs=1
            ) as library,
        ):
            for column in columns:
                tags.append(tried(library, background, truth[:, column], names[column], rng))
        results[source] = {**summary(tags), "of_tags": tags}
        print(source, summary(tags), flush=True)
    record = {"machine": stamp(given.seed), "results": results}
    (RESULTS / "knowledge_new_tag.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
