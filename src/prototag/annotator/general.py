"""Annotator without training: the general vocabulary, or a person's own words, as a model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from prototag.annotator.gallery import Gallery
from prototag.annotator.operating_points import OperatingPoints
from prototag.arrays import Array, SparseRows
from prototag.errors import InputError
from prototag.images.decode import DIGEST_BYTES
from prototag.knowledge.concepts import NamePrior
from prototag.knowledge.general import Vocabulary
from prototag.knowledge.rule_names import RULE_NAMES
from prototag.tagging.model import Calibration, Kernel, Projection, TagModel

MAX_LOG_ODDS = 8.0  # no word is surer
CALIBRATION_KNOTS = 321


def own_words(vocabulary: Iterable[str]) -> list[str]:
    """Return the words of a person's own vocabulary, each once and without surrounding spaces."""
    if isinstance(vocabulary, str):
        raise InputError(f"vocabulary={vocabulary!r}: give a list of words.")
    words = [word for name in vocabulary if (word := name.strip())]
    if not words:
        raise InputError("vocabulary is empty: give at least one word, or None for all.")
    return list(dict.fromkeys(words))


class RuleColumn(NamedTuple):
    """The column of a tag that a rule applies."""

    column: int
    is_decisive: bool  # whether the tag is absent if the rule does not hold


def with_rules(vocabulary: Vocabulary, language: str) -> tuple[Vocabulary, dict[str, RuleColumn]]:
    """Return a vocabulary with the names of all rules, and their columns.

    A name that is no word of the vocabulary gets a column whose probability is 0 without the rule.
    """
    names = list(vocabulary.names)
    columns = {}
    for rule, translations in RULE_NAMES.items():
        name = translations[language]
        if name not in names:
            names.append(name)
        columns[rule] = RuleColumn(names.index(name), is_decisive=rule != "night")
    added = len(names) - len(vocabulary.names)
    prior = vocabulary.log_odds
    intercept = np.append(prior.intercept, np.full(added, -MAX_LOG_ODDS, np.float32))
    unmeasured = np.full(added, np.nan, np.float32)
    extended = vocabulary._replace(
        names=names,
        vectors=np.pad(vocabulary.vectors, [(0, added), (0, 0)]),
        log_odds=NamePrior(np.pad(prior.coef, [(0, 0), (0, added)]), intercept),
        auc=np.append(vocabulary.auc, unmeasured),
        precision=np.append(vocabulary.precision, unmeasured),
    )
    return extended, columns


def apply_rules(
    columns: Mapping[str, RuleColumn],
    matching: Collection[str],
    scores: Array,
    probabilities: Array,
) -> tuple[Array, Array]:
    """Return scores and probabilities of one image, changed by the rules that hold for it."""
    scores, probabilities = scores.copy(), probabilities.copy()
    for rule, (column, is_decisive) in columns.items():
        if rule in matching:
            scores[column] = MAX_LOG_ODDS
            probabilities[column] = 1.0
        elif is_decisive:
            scores[column] = -MAX_LOG_ODDS
            probabilities[column] = 0.0
    return scores, probabilities


def general_model(vocabulary: Vocabulary) -> TagModel:
    """Return the vocabulary as a model: scores by names alone, which are log odds."""
    t = len(vocabulary.names)
    prior = vocabulary.log_odds
    width = 1  # of prototypes and landmarks, which have no weight
    knots = np.linspace(-MAX_LOG_ODDS, MAX_LOG_ODDS, CALIBRATION_KNOTS)
    m = len(prior.coef)
    unused = np.ones((1, width), np.float32)
    # SparseRows.from_matrix would import SciPy, which takes longer than everything else.
    no_entries = SparseRows(
        np.zeros(width + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), t
    )
    return TagModel(
        projection=Projection(
            map=np.hstack([np.zeros((m, width), np.float32), prior.coef]),
            constant=np.concatenate([np.ones(width, np.float32), prior.intercept]),
            width=width,
        ),
        prototypes=unused,
        semantics=no_entries,
        max_nonzeros=1,
        kernel=Kernel(unused, np.zeros((1, t), np.float32), 1.0, 1.0),
        kernel_share=1.0,
        tag_scale=np.ones(t, np.float32),
        threshold=np.zeros(t),
        calibration=Calibration(knots, 1 / (1 + np.exp(-knots)), np.zeros(t)),
    )


def empty_gallery(t: int) -> Gallery:
    """Return the gallery of a model that was trained on no pictures."""
    no_rows = np.empty(0, np.intp)
    return Gallery(
        names=[],
        digests=[],
        tags=[],
        vectors=np.empty((0, 1), np.float32),
        prototypes=no_rows,
        landmarks=no_rows,
        thumbnails=[],
        held_out_scores=np.empty((0, t), np.float16),
        omitted_digests=np.empty((0, DIGEST_BYTES), np.uint8),
    )


def general_operating_points(vocabulary: Vocabulary) -> OperatingPoints:
    """Return the measured quality of the vocabulary; no picture of the user has labels."""
    t = len(vocabulary.names)
    precision = vocabulary.curve_precision.astype(np.float64)
    return OperatingPoints(
        positives=np.zeros(t, np.int64),
        auc=np.nan_to_num(vocabulary.auc.astype(np.float64), nan=0.5),
        learnable=np.ones(t, bool),
        precision=vocabulary.precision.astype(np.float64),
        recall=np.zeros(t),
        curve_thresholds=vocabulary.curve_thresholds.astype(np.float64),
        curve_precision=precision,
        curve_lower_bound=precision,
    )
