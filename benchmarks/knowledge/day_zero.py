"""What the general vocabulary says about images of a source that had no part in it.

    python -m benchmarks.knowledge.day_zero [--sheet FILE.png]

Heads and calibrations come from the classes of the network and one of COCO and IAPRTC-12; the other
judges them by its descriptions and tags. The transfer of log odds to another source is the one
that was fitted in the opposite direction. People name a part of what an image shows. How large
it is, COCO tells: its captions name objects freely, its labels list all objects of 80 kinds.
Results: benchmarks/results/knowledge_day_zero.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.collections import DATA
from benchmarks.knowledge import sheet
from benchmarks.machine import stamp
from prototag.knowledge.concepts import name_scores
from prototag.knowledge.general import Vocabulary
from tools import make_knowledge

RESULTS = Path(__file__).parents[1] / "results/knowledge_day_zero.json"
THRESHOLDS = (0.25, 0.3, 0.4, 0.5, 0.6, 0.7)


def measure(data: make_knowledge.Data, judged: str, english: Vocabulary) -> dict[str, object]:
    """Judge the vocabulary made without one source on its images."""
    vectors, descriptions, description_words = make_knowledge.sources_of(data)[judged]
    X = (vectors @ data.axes.T) * data.scale + data.mean
    p = 1 / (1 + np.exp(-name_scores(english.log_odds, X)))
    named = make_knowledge.word_labels(english.names, descriptions, description_words)
    result: dict[str, object] = {"words": len(english.names), "images": len(X)}
    judges = {"named by people": named}
    if judged == "iaprtc12":
        tags = sparse.csr_array(data.iapr_labels)
        tagged = make_knowledge.word_labels(english.names, tags, data.iapr_tags)
        judges = {"named by people": np.maximum(named, tagged), "by tags alone": tagged}
        result["share of named words that are tags"] = share(named > 0, tagged > 0)
    for threshold in THRESHOLDS:
        likely = p >= threshold
        result[str(threshold)] = {
            "words an image": round(float(likely.sum() / len(likely)), 3),
            "stated": round(float(p[likely].mean()), 3),
            **{name: round(float(right[likely].mean()), 3) for name, right in judges.items()},
            "images without any": round(float((~likely.any(axis=1)).mean()), 3),
        }
    if judged == "coco":
        result["objects"] = incompleteness(data, english.names, p, named > 0)
    return result


def vocabulary_without(
    data: make_knowledge.Data, source: str, crossed: dict[str, make_knowledge.Crossed]
) -> Vocabulary:
    """Return the English vocabulary made without a source."""
    sources = make_knowledge.sources_of(data)
    reference = np.vstack([value[0] for name, value in sources.items() if name != source])
    heads = make_knowledge.smooth_heads(data, make_knowledge.concepts_of(data, {source}), reference)
    return make_knowledge.build_vocabulary(data, heads, crossed, {source}).in_language("en")


def share(these: np.ndarray, named: np.ndarray) -> float:
    """Return the share of these pairs that are named."""
    return round(float(named[these].mean()), 3)


def incompleteness(
    data: make_knowledge.Data, names: list[str], p: np.ndarray, named: np.ndarray
) -> dict[str, object]:
    """Compare what five captions name with the complete labels of 80 kinds of objects."""
    rows = np.flatnonzero(data.is_labelled)
    pairs = [(names.index(t), i) for i, t in enumerate(data.label_names) if t in names]
    columns = [column for column, _ in pairs]
    there = data.coco_labels[rows][:, [i for _, i in pairs]] > 0
    by_captions = named[rows][:, columns]
    likely = p[rows][:, columns] >= 0.5
    return {
        "kinds": len(pairs),
        "share of objects that captions name": share(there, by_captions),
        "the same where the word has a probability of at least 0.5": share(
            there & likely, by_captions
        ),
        "likely words that captions name": share(likely, by_captions),
        "likely words that captions name or labels confirm": share(likely, by_captions | there),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sheet", type=Path, help="draw photographs with their words")
    arguments = parser.parse_args()
    data = make_knowledge.Data(DATA)
    results: dict[str, object] = {"machine": stamp(0)}
    words = [row[0] for row in make_knowledge.candidates()]
    crossed = make_knowledge.cross_sources(data, words)
    for judged in ("iaprtc12", "coco"):
        english = vocabulary_without(data, judged, crossed)
        if judged == "iaprtc12" and arguments.sheet:
            sheet.draw(english, arguments.sheet)
        results[judged] = measure(data, judged, english)
        print(judged, json.dumps(results[judged]), flush=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
