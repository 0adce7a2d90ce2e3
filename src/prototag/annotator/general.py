"""Annotator without training: the general vocabulary, or a person's own words, as a model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from prototag.annotator.gallery import Gallery
from prototag.annotator.operating_points import OperatingPoints
from prototag.arrays import SparseRows
from prototag.errors import InputError
from prototag.images.decode import DIGEST_BYTES
from prototag.knowledge.general import Vocabulary
from prototag.tagging.model import Calibration, Kernel, Linear, Projection, Relations, TagModel

MAX_LOG_ODDS = 8.0  # no word is surer
CALIBRATION_KNOTS = 321
MAX_TAGS_WITHOUT_FACTORS = 2  # for more tags, one factor of each side is smaller than R


def own_words(vocabulary: Iterable[str]) -> list[str]:
    """Return the words of a person's own vocabulary, each once and without surrounding spaces."""
    if isinstance(vocabulary, str):
        raise InputError(f"vocabulary={vocabulary!r}: give a list of words.")
    words = [word for name in vocabulary if (word := name.strip())]
    if not words:
        raise InputError("vocabulary is empty: give at least one word, or None for all.")
    return list(dict.fromkeys(words))


def general_model(vocabulary: Vocabulary) -> TagModel:
    """Return the vocabulary as a model: its linear part alone, whose scores are log odds."""
    t = len(vocabulary.names)
    prior = vocabulary.log_odds
    width = 1  # of prototypes and landmarks, which have no weight
    knots = np.linspace(-MAX_LOG_ODDS, MAX_LOG_ODDS, CALIBRATION_KNOTS)
    columns = slice(width, width + t)
    m = len(prior.coef)
    unused = np.ones((1, width), np.float32)
    # No relations: of few tags R is stored, of many its factors.
    no_relations = np.eye(t) if t <= MAX_TAGS_WITHOUT_FACTORS else np.zeros((2, t))
    return TagModel(
        projection=Projection(
            map=np.hstack([np.zeros((m, width), np.float32), prior.coef]),
            constant=np.concatenate([np.ones(width, np.float32), prior.intercept]),
            components=slice(0, width),
            predicted=columns,
            kernel=slice(0, width),
            linear=columns,
        ),
        lift_weight=0.0,
        axes=np.eye(width + t, width, dtype=np.float32),
        prototypes=unused,
        semantics=SparseRows(  # without SciPy, which is slow to import
            start=np.zeros(2, np.int64),
            column=np.empty(0, np.int32),
            value=np.empty(0, np.float32),
            width=t,
        ),
        max_nonzeros=1,
        kernel=Kernel(unused, np.zeros((1, t), np.float32), 1.0, 1.0),
        linear=Linear(np.ones(t, np.float32), np.zeros(t, np.float32)),
        kernel_share=0.0,
        linear_share=1.0,
        relations=Relations(no_relations.astype(np.float32), np.zeros(t, np.float32)),
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
