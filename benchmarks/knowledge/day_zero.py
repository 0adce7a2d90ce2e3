"""What the general vocabulary says about images of a source that had no part in it.

    python -m benchmarks.knowledge.day_zero

Words, heads and calibrations come from COCO and the classes of the network; IAPRTC-12 judges them
by its tags and descriptions, in which people name less than half of what is there. "Right" is a
word (in singular or plural) that a person gave.
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
JUDGED = "iaprtc12"


def main() -> None:
    data = make_knowledge.Data(DATA)
    heads = make_knowledge.smooth_heads(
        data, make_knowledge.concepts_of(data, {JUDGED}), data.caption_vectors
    )
    vocabulary = make_knowledge.build_vocabulary(data, heads, {JUDGED})
    english = vocabulary.in_language("en")
    words = english.names
    vectors = np.load(DATA / "iaprtc12_lite0_large.npz", allow_pickle=False)
    X = np.hstack([vectors["X"], vectors["mid"]]).astype(np.float32)
    p = 1 / (1 + np.exp(-name_scores(english.log_odds, X)))
    described = make_knowledge.word_labels(words, data.descriptions, data.description_words)
    tagged = make_knowledge.word_labels(words, sparse.csr_array(data.iapr_labels), data.iapr_tags)
    named = np.maximum(described, tagged)
    results = {"machine": stamp(0), "words": len(words), "images": len(X), "thresholds": {}}
    for threshold in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        likely = p >= threshold
        results["thresholds"][str(threshold)] = {
            "words an image": round(float(likely.sum() / len(likely)), 3),
            "stated": round(float(p[likely].mean()), 3),
            "right by tags or descriptions": round(float(named[likely].mean()), 3),
            "right by tags alone": round(float(tagged[likely].mean()), 3),
            "images without any": round(float((~likely.any(axis=1)).mean()), 3),
        }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results["thresholds"], indent=1))


if __name__ == "__main__":
    main()
