"""An annotator on pictures that a person tagged: how good it is, and where the two disagree.

Pictures that the annotator learned from are judged by the scores that they got while they were left
out, so that a person may ask for the very folder that was learned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prototag.annotator.annotator import Annotator
from prototag.annotator.types import Prototype
from prototag.arrays import Array, Floats
from prototag.engine import blocks
from prototag.errors import InputError, Remedy
from prototag.evaluation.evaluate import Evaluation, evaluate
from prototag.events import Meter, Progress
from prototag.features.extractor import Features, Skipped
from prototag.features.vector_folder import VectorFolder
from prototag.metadata import Vocabulary

if TYPE_CHECKING:
    from prototag.images.decode import Source

ROWS = 256
MANY = 4096
UNFAIR = "was learned from, and the model does not keep how it was judged while left out"
SHOWN = 24  # prototypes that are named
TAGS = 6  # of a prototype


@dataclass(frozen=True)
class Assessment:
    """What :func:`assess` found."""

    result: Evaluation
    pictures: list[Source]  # the sources that could be read, in the order of ``result.images``
    seen: int  # of them, that the annotator learned from
    unknown: dict[str, int]  # the person's tags that it never learned, and on how many pictures
    skipped: list[Skipped]
    prototypes: list[Prototype]  # those that the pictures use most


def assess(
    annotator: Annotator,
    images: Sequence[Source],
    tags: Sequence[Collection[str]],
    *,
    names: Sequence[str] | None = None,
    research: bool = False,
    progress: Progress | None = None,
) -> Assessment:
    """Score pictures and compare what they are given with their tags.

    With ``research`` every tag is given by the threshold of its best F1, learned or not.
    """
    names = [str(image) for image in images] if names is None else list(names)
    size = ROWS if annotator.engine is None else MANY  # which keeps a cluster busy
    parts = (
        (rows, annotator.extractor.extract(images[rows])) for rows in blocks(len(images), size)
    )
    return _assess(annotator, parts, images, tags, names, research, progress)


def assess_vectors(
    annotator: Annotator,
    folder: VectorFolder,
    *,
    research: bool = False,
    progress: Progress | None = None,
) -> Assessment:
    """The same for pictures whose vectors are in a folder, and which are not opened."""
    columns = folder.columns(annotator.extractor)
    pictures = list(folder.pictures)
    names = [picture.path for picture in pictures]
    tags = [picture.tags for picture in pictures]

    def read(rows: slice) -> Features:
        X = folder.X[rows].load()[:, columns]
        count = rows.stop - rows.start
        digests = [picture.digest for picture in pictures[rows]]
        return Features(X, np.arange(count), [], 0, digests, [b""] * count, folder.blocks)

    parts = ((rows, read(rows)) for rows in blocks(len(pictures), MANY))
    return _assess(annotator, parts, names, tags, names, research, progress)


def _assess(
    annotator: Annotator,
    parts: Iterable[tuple[slice, Features]],
    images: Sequence[Source],
    tags: Sequence[Collection[str]],
    names: Sequence[str],
    research: bool,
    progress: Progress | None,
) -> Assessment:
    meter = Meter("Comparing", len(images), progress)
    kept: list[int] = []
    skipped: list[Skipped] = []
    raw: list[Floats] = []
    used = np.zeros(annotator.model.semantics.shape[0], np.int64)
    seen = 0
    for rows, features in parts:
        skipped += [
            Skipped(rows.start + s.index, names[rows.start + s.index], s.reason)
            for s in features.skipped
        ]
        number = annotator.gallery.find(features.digests)
        fair = [
            at >= 0 or d not in annotator._seen
            for at, d in zip(number, features.digests, strict=True)
        ]
        unfair = features.kept[np.flatnonzero(~np.array(fair, bool))] + rows.start
        skipped += [Skipped(i, names[i], UNFAIR) for i in unfair.tolist()]
        features, number = features.only(np.flatnonzero(fair)), number[np.flatnonzero(fair)]
        kept += (features.kept + rows.start).tolist()
        if len(features.kept):
            scores = annotator.model.raw(features.vectors, annotator.active_engine)
            codes = annotator.model.codes(features.vectors, annotator.active_engine)
            known = np.flatnonzero(number >= 0)
            scores[known] = annotator.gallery.left_out[number[known]].astype(np.float32)
            seen += len(known)
            raw.append(scores)
            used += np.bincount(codes.index[codes.value > 0], minlength=len(used))
        meter.advance(rows.stop - rows.start)
    if not kept:
        raise InputError("none of the pictures can be read: there is nothing to evaluate.")
    given = [list(tags[number]) for number in kept]
    Y = Vocabulary(tuple(annotator.tags), (), {}, {}).matrix(given)
    if not Y.nnz:
        raise InputError("no picture has a tag that the model knows", remedy=Remedy.LIST_MODEL_TAGS)
    judged = annotator.model.predict_from_raw(np.concatenate(raw))
    compared: Array = judged.scores
    probabilities: Array = judged.probabilities
    limits: Array = annotator.model.threshold
    if not research:
        compared, limits = _compared(annotator, judged.probabilities)
        probabilities = compared
    result = evaluate(
        Y,
        compared,
        limits,
        tags=annotator.tags,
        probabilities=probabilities,
        images=[names[number] for number in kept],
        Y_train=annotator.gallery.tag_matrix(),
    )
    lower = {tag.casefold() for tag in annotator.tags}
    unknown = Counter(t for row in given for t in set(row) if t.casefold() not in lower)
    pictures = [images[number] for number in kept]
    prototypes = _prototypes(annotator, used)
    return Assessment(result, pictures, seen, dict(unknown.most_common()), skipped, prototypes)


def _compared(annotator: Annotator, probabilities: Array) -> tuple[Array, Array]:
    """Return the probabilities that decide by default, and the limits that they must exceed.

    A tag is applied from the usual cut on, if it was learned. Of a tag that was not learned nothing
    is known of a picture but how frequent the tag is.
    """
    points = annotator.operating_points
    cut = np.nextafter(points.usual, 0) if np.isfinite(points.usual) else np.inf
    limits = np.where(points.learned, cut, np.inf)
    frequency = points.count / annotator.learned.pictures
    return np.where(points.learned, probabilities, frequency), limits


def _prototypes(annotator: Annotator, used: npt.NDArray[np.int64]) -> list[Prototype]:
    gallery = annotator.gallery
    semantics = annotator.model.semantics
    answer = []
    for number in np.argsort(-used, kind="stable")[:SHOWN]:
        weights = semantics.take(np.array([number]))[0]
        strongest = [c for c in np.argsort(-weights, kind="stable")[:TAGS] if weights[c] > 0]
        tags = [(annotator.tags[c], float(weights[c])) for c in strongest]
        picture = annotator.training_picture(int(gallery.prototypes[number]))
        answer.append(Prototype(picture, tags, int(used[number])))
    return answer
