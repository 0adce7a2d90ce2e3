"""Why a picture is given its tags, and which training pictures are like it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from prototag.annotator.types import ExplainedTag, Neighbour, Reason, Tag
from prototag.arrays import Array, Floats
from prototag.engine import one_thread
from prototag.errors import Remedy, UnknownNameError

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator

REASONS = 25  # pictures named behind a tag


def explain(annotator: Annotator, X: Floats, tags: Iterable[str] | None) -> list[ExplainedTag]:
    """The training pictures behind the tags of one picture (its vector, 1 x m)."""
    model = annotator.model
    gallery = annotator.gallery
    with one_thread():  # what is solved is small
        scores, probability = (part[0] for part in model.predict(X))
        columns = _columns(annotator, tags, scores, probability)
        columns.sort(key=lambda c: (-probability[c], -scores[c]))
        shares = model.explain(X, columns)
    given = np.zeros((len(gallery.names), len(columns)), np.float32)
    np.add.at(given, gallery.prototypes[shares.prototypes], shares.code_scores)
    np.add.at(given, gallery.landmarks, shares.kernel_scores)
    answer = []
    for c, share in zip(columns, given.T, strict=True):
        order = np.argsort(-share, kind="stable")[:REASONS]
        reasons = [
            Reason(float(share[i]), annotator.training_picture(int(i)))
            for i in order
            if share[i] > 0
        ]
        tag = Tag(annotator.tags[c], float(probability[c]), float(scores[c]))
        rest = tag.score - sum(reason.share for reason in reasons)
        answer.append(ExplainedTag(tag, float(model.threshold[c]), reasons, rest))
    return answer


def _columns(
    annotator: Annotator, tags: Iterable[str] | None, scores: Array, probability: Array
) -> list[int]:
    """Of the tags named, or of those that the picture is given or that are suggested for it."""
    if tags is None:
        choice = annotator.choice()
        given = choice.columns(scores, probability)
        return [int(c) for c in (*given, *choice.suggested(probability, given))]
    number = {name: column for column, name in enumerate(annotator.tags)}
    unknown = [tag for tag in tags if tag not in number]
    if unknown:
        raise UnknownNameError(
            f"the model does not know {', '.join(map(repr, unknown))}",
            remedy=Remedy.LIST_MODEL_TAGS,
        )
    return [number[tag] for tag in tags]


def similar(annotator: Annotator, X: Floats, count: int, by: str) -> list[Neighbour]:
    """The training pictures most like one picture (its vector, 1 x m)."""
    model = annotator.model
    gallery = annotator.gallery
    if by == "vector":
        found, likeness = gallery.nearest(model.kernel_vectors(X)[0], count)
    else:
        codes = model.codes(X)
        order = np.argsort(-codes.value[0], kind="stable")[:count]
        order = order[codes.value[0][order] > 0]
        found = gallery.prototypes[codes.index[0][order]]
        likeness = codes.value[0][order]
    pairs = zip(found.tolist(), likeness.tolist(), strict=True)
    return [Neighbour(value, annotator.training_picture(number)) for number, value in pairs]
