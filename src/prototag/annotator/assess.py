"""Evaluation of an annotator on tagged pictures.

Training pictures are evaluated by their held-out scores, so evaluating the training folder itself
gives cross-validated figures.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prototag import metadata
from prototag.annotator.annotator import Annotator
from prototag.annotator.types import Prototype
from prototag.arrays import Array, Floats
from prototag.engine import batch_slices
from prototag.errors import InputError, Remedy
from prototag.evaluation.evaluate import Evaluation, evaluate
from prototag.events import Meter, Progress
from prototag.features.extractor import Features, Skipped
from prototag.features.vector_folder import VectorFolder
from prototag.metadata import Vocabulary

if TYPE_CHECKING:
    from prototag.images.decode import Source

LOCAL_BATCH = 256  # pictures between two steps of progress
CLUSTER_BATCH = 4096  # pictures: enough batches to keep all workers busy
NO_HELD_OUT_SCORE = "was used in training, and the model does not keep its held-out scores"
MAX_PROTOTYPES = 24  # in the result
MAX_TAGS_PER_PROTOTYPE = 6


@dataclass(frozen=True)
class Assessment:
    """Evaluation of an annotator, with the pictures that it is based on."""

    result: Evaluation
    pictures: list[Source]  # the readable sources, in the order of ``result.images``
    n_trained_on: int  # of these pictures, those of the training set
    unknown_tags: dict[str, int]  # tags outside the vocabulary, and their numbers of pictures
    skipped: list[Skipped]
    prototypes: list[Prototype]  # the most used ones

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON values."""
        return {
            **self.result.to_json(),
            "unknown_tags": self.unknown_tags,
            "skipped": [skipped.to_dict() for skipped in self.skipped],
        }

    def __repr__(self) -> str:
        figures = self.result.figures
        return (
            f"Assessment(pictures={len(self.pictures):,}, "
            f"precision={figures['micro_precision']:.3f}, recall={figures['micro_recall']:.3f}, "
            f"f1={figures['threshold_f1']:.3f}, skipped={len(self.skipped):,})"
        )


def assess_source(
    annotator: Annotator,
    source: Any,
    tags: Sequence[Collection[str]] | None,
    *,
    research: bool = False,
) -> Assessment:
    """Evaluate an annotator on any source that :meth:`Annotator.fit` accepts.

    Of a data set the test part is used, and of a folder the tagged pictures.
    """
    from prototag.annotator.training_set import relative_names, split_source

    progress = annotator.progress
    if isinstance(source, VectorFolder):
        return assess_vectors(annotator, source, research=research, progress=progress)
    if isinstance(source, str | os.PathLike) and tags is None:
        source = metadata.collect(source, progress=progress).tagged()
        if not source.images:
            raise InputError("no picture has a tag: there is nothing to compare with.")
    images, rows, names = split_source(source, tags, part="test")
    if len(images) != len(rows):
        raise InputError(
            f"{len(images)} pictures and tags for {len(rows)}: give each picture its tags."
        )
    names = relative_names(images) if names is None else names
    return assess(annotator, images, rows, names=names, research=research, progress=progress)


def assess(
    annotator: Annotator,
    images: Sequence[Source],
    tags: Sequence[Collection[str]],
    *,
    names: Sequence[str] | None = None,
    research: bool = False,
    progress: Progress | None = None,
) -> Assessment:
    """Evaluate an annotator on pictures and their tags.

    With ``research`` every tag is applied by the threshold of its best cross-validated F1,
    learnable or not.
    """
    names = [str(image) for image in images] if names is None else list(names)
    size = LOCAL_BATCH if annotator.engine is None else CLUSTER_BATCH
    batches = (
        (rows, annotator.extractor.extract(images[rows]))
        for rows in batch_slices(len(images), size)
    )
    scored = _score(annotator, batches, names, progress)
    return _evaluate(annotator, scored, images, tags, names, research=research)


def assess_vectors(
    annotator: Annotator,
    folder: VectorFolder,
    *,
    research: bool = False,
    progress: Progress | None = None,
) -> Assessment:
    """Evaluate an annotator on a folder of vectors, as :func:`assess` does on pictures."""
    columns = folder.columns(annotator.extractor)
    pictures = list(folder.pictures)
    names = [picture.path for picture in pictures]
    tags = [picture.tags for picture in pictures]

    def read(rows: slice) -> Features:
        count = rows.stop - rows.start
        return Features(
            vectors=folder.X[rows].load()[:, columns],
            kept=np.arange(count),
            skipped=[],
            n_cached=0,
            digests=[picture.digest for picture in pictures[rows]],
            thumbnails=[b""] * count,
            feature_groups=folder.feature_groups,
        )

    batches = ((rows, read(rows)) for rows in batch_slices(len(pictures), CLUSTER_BATCH))
    scored = _score(annotator, batches, names, progress)
    return _evaluate(annotator, scored, names, tags, names, research=research)


@dataclass
class _Scored:
    """Raw scores of readable pictures, collected batch by batch."""

    prototype_uses: npt.NDArray[np.int64]
    kept: list[int] = field(default_factory=list)  # numbers of the pictures
    raw: list[Floats] = field(default_factory=list)  # one array per batch
    skipped: list[Skipped] = field(default_factory=list)
    n_trained_on: int = 0

    def add(self, annotator: Annotator, features: Features, start: int) -> None:
        """Score a batch; the scores of training pictures are their held-out scores."""
        gallery_rows = annotator.gallery.find(features.digests)
        scores = annotator.model.raw(features.vectors, annotator.active_engine)
        codes = annotator.model.codes(features.vectors, annotator.active_engine)
        trained_on = np.flatnonzero(gallery_rows >= 0)
        held_out = annotator.gallery.held_out_scores[gallery_rows[trained_on]]
        scores[trained_on] = held_out.astype(np.float32)
        self.n_trained_on += len(trained_on)
        self.raw.append(scores)
        self.kept += (features.kept + start).tolist()
        uses = codes.index[codes.value > 0]
        self.prototype_uses += np.bincount(uses, minlength=len(self.prototype_uses))


def _score(
    annotator: Annotator,
    batches: Iterable[tuple[slice, Features]],
    names: Sequence[str],
    progress: Progress | None,
) -> _Scored:
    """Score batches of pictures, and skip training pictures without held-out scores."""
    meter = Meter("Comparing", len(names), progress)
    scored = _Scored(np.zeros(annotator.model.semantics.shape[0], np.int64))
    for rows, features in batches:
        scored.skipped += [
            Skipped(rows.start + one.index, names[rows.start + one.index], one.reason)
            for one in features.skipped
        ]
        in_gallery = annotator.gallery.find(features.digests) >= 0
        is_new = [digest not in annotator.training_digests for digest in features.digests]
        has_fair_score = in_gallery | np.array(is_new, bool)
        without = features.kept[~has_fair_score] + rows.start
        scored.skipped += [Skipped(i, names[i], NO_HELD_OUT_SCORE) for i in without.tolist()]
        features = features.select_rows(np.flatnonzero(has_fair_score))
        if len(features.kept):
            scored.add(annotator, features, rows.start)
        meter.advance(rows.stop - rows.start)
    if not scored.kept:
        raise InputError("none of the pictures can be read: there is nothing to evaluate.")
    return scored


def _evaluate(
    annotator: Annotator,
    scored: _Scored,
    images: Sequence[Source],
    tags: Sequence[Collection[str]],
    names: Sequence[str],
    *,
    research: bool,
) -> Assessment:
    own_tags = [list(tags[number]) for number in scored.kept]
    Y = Vocabulary(tuple(annotator.tags), (), {}, {}).matrix(own_tags)
    if not Y.nnz:
        raise InputError("no picture has a tag that the model knows", remedy=Remedy.LIST_MODEL_TAGS)
    judged = annotator.model.predict_from_raw(np.concatenate(scored.raw))
    compared: Array = judged.scores
    probabilities: Array = judged.probabilities
    limits: Array = annotator.model.threshold
    if not research:
        compared, limits = _default_comparison(annotator, judged.probabilities)
        probabilities = compared
    result = evaluate(
        Y,
        compared,
        limits,
        tags=annotator.tags,
        probabilities=probabilities,
        images=[names[number] for number in scored.kept],
        Y_train=annotator.gallery.tag_matrix(),
    )
    vocabulary = {tag.casefold() for tag in annotator.tags}
    unknown = Counter(t for row in own_tags for t in set(row) if t.casefold() not in vocabulary)
    return Assessment(
        result=result,
        pictures=[images[number] for number in scored.kept],
        n_trained_on=scored.n_trained_on,
        unknown_tags=dict(unknown.most_common()),
        skipped=scored.skipped,
        prototypes=_most_used_prototypes(annotator, scored.prototype_uses),
    )


def _default_comparison(annotator: Annotator, probabilities: Array) -> tuple[Array, Array]:
    """Return the probabilities that decide by default, and the limits that they must exceed.

    A learnable tag is applied from the default threshold on. The best estimate for a tag that is
    not learnable is its frequency.
    """
    points = annotator.operating_points
    threshold = points.default_threshold
    limit = np.nextafter(threshold, 0) if np.isfinite(threshold) else np.inf
    limits = np.where(points.learnable, limit, np.inf)
    frequency = points.positives / annotator.training_summary.pictures
    return np.where(points.learnable, probabilities, frequency), limits


def _most_used_prototypes(annotator: Annotator, uses: npt.NDArray[np.int64]) -> list[Prototype]:
    gallery = annotator.gallery
    semantics = annotator.model.semantics
    prototypes = []
    for number in np.argsort(-uses, kind="stable")[:MAX_PROTOTYPES]:
        weights = semantics.dense_rows(np.array([number]))[0]
        order = np.argsort(-weights, kind="stable")[:MAX_TAGS_PER_PROTOTYPE]
        tags = [(annotator.tags[c], float(weights[c])) for c in order if weights[c] > 0]
        picture = annotator.training_picture(int(gallery.prototypes[number]))
        prototypes.append(Prototype(picture, tags, int(uses[number])))
    return prototypes
