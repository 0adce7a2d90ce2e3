"""What the general vocabulary says about images of a source that had no part in it.

    python -m benchmarks.knowledge.day_zero

Heads and calibrations come from the classes of the network and one of COCO and IAPRTC-12; the other
judges them by its descriptions and tags, in which people name a part of what an image shows.
Results: benchmarks/results/knowledge_day_zero.json.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.collections import DATA
from benchmarks.machine import stamp
from prototag.knowledge.concepts import name_scores
from tools import make_knowledge

RESULTS = Path(__file__).parents[1] / "results/knowledge_day_zero.json"


def measure(data: make_knowledge.Data, judged: str) -> dict[str, object]:
    """Judge the vocabulary made without one source on its images."""
    sources = make_knowledge.sources_of(data)
    reference = np.vstack([value[0] for name, value in sources.items() if name != judged])
    heads = make_knowledge.smooth_heads(data, make_knowledge.concepts_of(data, {judged}), reference)
    vocabulary = make_knowledge.build_vocabulary(data, heads, {judged})
    english = vocabulary.in_language("en")
    vectors, descriptions, description_words = sources[judged]
    X = (vectors @ data.axes.T) * data.scale + data.mean
    p = 1 / (1 + np.exp(-name_scores(english.log_odds, X)))
    named = make_knowledge.word_labels(english.names, descriptions, description_words)
    if judged == "iaprtc12":
        labels = sparse.csr_array(data.iapr_labels)
        named = np.maximum(named, make_knowledge.word_labels(english.names, labels, data.iapr_tags))
    result: dict[str, object] = {"words": len(english.names), "images": len(X)}
    for threshold in (0.25, 0.3, 0.4, 0.5, 0.6, 0.7):
        likely = p >= threshold
        result[str(threshold)] = {
            "words an image": round(float(likely.sum() / len(likely)), 3),
            "stated": round(float(p[likely].mean()), 3),
            "named by people": round(float(named[likely].mean()), 3),
            "images without any": round(float((~likely.any(axis=1)).mean()), 3),
        }
    return result


def main() -> None:
    data = make_knowledge.Data(DATA)
    results: dict[str, object] = {"machine": stamp(0)}
    for judged in ("iaprtc12", "coco"):
        results[judged] = measure(data, judged)
        print(judged, json.dumps(results[judged]), flush=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
