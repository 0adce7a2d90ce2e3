"""The general vocabulary: words in sixteen languages that need no labels, with probabilities.

Each word has a head and a logistic calibration, which was fitted to held-out images of public
collections. Words that did not work on images of another source are not part of it. A word of a
person's own gets the head of its name, and the calibration of words like it.

tools/make_knowledge.py makes the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from prototag.arrays import Array, Floats
from prototag.errors import InputError
from prototag.knowledge.concepts import (
    FOLDER,
    ConceptHeads,
    NamePrior,
    embedded,
    quantize,
    word_kernel,
)
from prototag.knowledge.lexicon import name_vectors
from prototag.knowledge.words import LANGUAGES, unit_vectors

FILE = "general.npz"
MAX_HEADER_LENGTH = 1_000  # characters that are read of a list of languages
UNLIKELY_WORD = 0.02  # weight of the mean calibration, beside words that are like an own word


class Vocabulary(NamedTuple):
    """Words, the log odds of each as a linear function of vectors, and how well they worked."""

    names: list[str]
    vectors: Array  # t x 512, of the words, not normalized
    log_odds: NamePrior
    auc: Floats  # t, on images of a source that had no part in the head
    precision: Floats  # t, of the word where its probability is at least 0.5; NaN if never
    curve_thresholds: Floats  # p, decreasing probabilities
    curve_precision: Floats  # p, pooled over all words


@dataclass(frozen=True, eq=False)
class GeneralVocabulary:
    """Words in sixteen languages, their heads, calibrations and measured quality."""

    names: dict[str, list[str]]  # of each language, one for each word
    vectors: Array  # words x 512, int8, of the English names
    directions: Array  # m x words, int8: heads for standardized vectors
    direction_scale: Floats  # words
    mean: Floats  # m, of the vectors
    scale: Floats  # m
    center: Floats  # words, mean score
    slope: Floats  # words, of the log odds
    intercept: Floats  # words
    auc: Floats
    precision: Floats
    curve_thresholds: Floats
    curve_precision: Floats

    @classmethod
    def build(cls, *, heads: Floats, concepts: ConceptHeads, **fields: Any) -> Self:
        """Build a vocabulary from heads for coordinates on the axes of concepts (words x axes).

        Heads are stored for vectors instead: multiplying 902 heads by the axes would take most of
        the time in which the vocabulary is loaded.
        """
        axes = concepts.axes.astype(np.float32) * concepts.axis_scale
        directions, scale = quantize(heads @ axes.T)
        return cls(
            directions=np.ascontiguousarray(directions.T),
            direction_scale=scale,
            mean=concepts.mean,
            scale=concepts.scale,
            **fields,
        )

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the file of a folder."""
        with np.load(folder / FILE, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        lines = arrays.pop("names").tobytes().decode().split("\n")
        table = [line.split("\t") for line in lines]
        names = {language: [row[i] for row in table[1:]] for i, language in enumerate(table[0])}
        return cls(names=names, **arrays)

    def save(self, folder: Path) -> None:
        """Write the file that :meth:`load` reads."""
        languages = list(self.names)
        rows = [languages, *zip(*self.names.values(), strict=True)]
        text = np.frombuffer("\n".join("\t".join(row) for row in rows).encode(), np.uint8)
        arrays = {name: value for name, value in vars(self).items() if name != "names"}
        np.savez(folder / FILE, names=text, **arrays)

    def in_language(self, language: str) -> Vocabulary:
        """Return the vocabulary in a language. Of words with one name the best one is kept."""
        if language not in self.names:
            known = ", ".join(sorted(self.names))
            raise InputError(f"language={language!r}: give one of {known}.")
        best: dict[str, int] = {}
        for row, name in enumerate(self.names[language]):
            if name not in best or self.auc[row] > self.auc[best[name]]:
                best[name] = row
        rows = np.array(sorted(best.values()))
        directions = self.directions if len(rows) == len(self.auc) else self.directions[:, rows]
        slope = self.slope[rows]
        coef = directions * (self.direction_scale[rows] * slope)
        coef /= self.scale[:, None]
        constant = self.intercept[rows] - self.center[rows] * slope - self.mean @ coef
        return Vocabulary(
            [self.names[language][row] for row in rows.tolist()],
            self.vectors[rows],
            NamePrior(coef, constant),
            self.auc[rows],
            self.precision[rows],
            self.curve_thresholds,
            self.curve_precision,
        )

    def of_names(self, names: Sequence[str]) -> Vocabulary:
        """Return a vocabulary of a person's own words, calibrated like similar words."""
        vectors = name_vectors(names)
        known = unit_vectors(self.vectors)
        weights: Array = word_kernel(vectors @ known.T) + UNLIKELY_WORD / len(known)
        weights /= weights.sum(axis=1, keepdims=True)
        concepts = embedded()
        prior = concepts.on_vectors(concepts.heads_of(names))
        slope = weights @ self.slope
        constant = (prior.intercept - weights @ self.center) * slope + weights @ self.intercept
        return Vocabulary(
            list(names),
            vectors,
            NamePrior(np.asarray(prior.coef * slope, np.float32), np.asarray(constant, np.float32)),
            np.asarray(weights @ self.auc, np.float32),
            np.full(len(names), np.nan, np.float32),
            self.curve_thresholds,
            self.curve_precision,
        )


@cache
def general_vocabulary() -> GeneralVocabulary:
    """Return the vocabulary of the package, loaded once."""
    return GeneralVocabulary.load(Path(__file__).parent / FOLDER)


def system_language(value: str | None) -> str:
    """Return the language of a locale such as ``de_DE.UTF-8``; English where it has none."""
    tag = (value or "").split(".")[0].split("@")[0].replace("_", "-")
    if tag.lower() in ("zh-tw", "zh-hk", "zh-mo") or tag.lower().startswith("zh-hant"):
        return "zh-TW"
    language = tag.split("-")[0].lower()
    return language if language in LANGUAGES else "en"


def preferred_language(accepted: str) -> str:
    """Return the first known language of an ``Accept-Language`` header; English for none."""
    ranked: list[tuple[float, str]] = []
    for part in accepted[:MAX_HEADER_LENGTH].split(","):
        tag, _, quality = part.strip().partition(";")
        try:
            weight = float(quality.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        if weight > 0 and tag.strip().replace("_", "-").split("-")[0].lower() in LANGUAGES:
            ranked.append((-weight, tag.strip()))
    return system_language(min(ranked, key=lambda one: one[0])[1]) if ranked else "en"
