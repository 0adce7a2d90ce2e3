"""Explanations of tags by training pictures and by names, and similar training pictures."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np

from prototag.annotator.general import apply_rules
from prototag.annotator.types import (
    Concept,
    ExplainedTag,
    Explanation,
    Neighbour,
    Neighbours,
    Reason,
)
from prototag.arrays import Array, Floats
from prototag.engine import single_threaded_blas
from prototag.errors import Remedy, UnknownNameError

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator

MAX_REASONS = 25  # training pictures per tag


def explain(
    annotator: Annotator, X: Floats, tags: Iterable[str] | None, matching: Collection[str] = ()
) -> Explanation:
    """Decompose the scores of one picture (its vector, 1 x m) over training pictures.

    ``matching`` has the rules that hold for the picture (:mod:`prototag.images.rules`).
    """
    model = annotator.model
    gallery = annotator.gallery
    with single_threaded_blas():  # the matrices are too small for several threads
        scores, probabilities = (part[0] for part in model.predict(X))
        scores, probabilities = apply_rules(annotator.rule_columns, matching, scores, probabilities)
        columns = _columns(annotator, tags, scores, probabilities)
        columns.sort(key=lambda c: (-probabilities[c], -scores[c]))
        shares = model.explain(X, columns)
    by_picture = np.zeros((len(gallery.names), len(columns)), np.float32)
    if len(gallery.names):  # a general annotator was trained on no pictures
        np.add.at(by_picture, gallery.prototypes[shares.prototypes], shares.code_scores)
        np.add.at(by_picture, gallery.landmarks, shares.kernel_scores)
    concepts = _concepts(annotator, X, columns)
    explained = Explanation()
    for c, share, spoken in zip(columns, by_picture.T, concepts, strict=True):
        order = np.argsort(-share, kind="stable")[:MAX_REASONS]
        reasons = [
            Reason(float(share[i]), annotator.training_picture(int(i)))
            for i in order
            if share[i] > 0
        ]
        tag = annotator.tag(c, scores, probabilities)
        if tag.source == "rule":
            spoken = ()
        rest = tag.score - sum(reason.share for reason in reasons)
        explained.append(ExplainedTag(tag, float(model.threshold[c]), reasons, rest, spoken))
    return explained


def _concepts(annotator: Annotator, X: Floats, columns: list[int]) -> list[tuple[Concept, ...]]:
    """Return the concepts that speak for tags by their names; none if the model ignores names."""
    from prototag.knowledge.concepts import BACKBONE, WIDTH, embedded
    from prototag.knowledge.lexicon import name_vectors
    from prototag.knowledge.words import unit_vectors

    knows_names = annotator.word_vectors is not None or annotator.choices.get("names", 0.0) > 0
    if not (columns and knows_names and X.shape[1] == WIDTH):
        return [() for _ in columns]
    if annotator.word_vectors is not None:
        vectors = unit_vectors(annotator.word_vectors[columns])
    elif annotator.extractor.fingerprint == BACKBONE:
        vectors = name_vectors(annotator.tags)[columns]  # all tags tell the language
    else:
        return [() for _ in columns]
    spoken = embedded().spoken(X, vectors)
    return [tuple(Concept(*concept) for concept in concepts) for concepts in spoken]


def _columns(
    annotator: Annotator, tags: Iterable[str] | None, scores: Array, probabilities: Array
) -> list[int]:
    """Return the columns of some tags, by default of the applied and the suggested tags."""
    if tags is None:
        selector = annotator.selector()
        applied = selector.applied(scores, probabilities)
        suggested = selector.suggested(probabilities, applied)
        return [int(c) for c in (*applied, *suggested)]
    column_of = {name: column for column, name in enumerate(annotator.tags)}
    unknown = [tag for tag in tags if tag not in column_of]
    if unknown:
        raise UnknownNameError(
            f"the model does not know {', '.join(map(repr, unknown))}",
            remedy=Remedy.LIST_MODEL_TAGS,
        )
    return [column_of[tag] for tag in tags]


def similar(annotator: Annotator, X: Floats, count: int, by: str) -> Neighbours:
    """Find the training pictures most similar to one picture (its vector, 1 x m)."""
    model = annotator.model
    gallery = annotator.gallery
    if not gallery.names:  # of an annotator that needs no training
        return Neighbours()
    if by == "vector":
        rows, similarities = gallery.nearest(model.kernel_vectors(X)[0], count)
    else:
        codes = model.codes(X)
        order = np.argsort(-codes.value[0], kind="stable")[:count]
        order = order[codes.value[0][order] > 0]
        rows = gallery.prototypes[codes.index[0][order]]
        similarities = codes.value[0][order]
    pairs = zip(rows.tolist(), similarities.tolist(), strict=True)
    return Neighbours(Neighbour(value, annotator.training_picture(row)) for row, value in pairs)
