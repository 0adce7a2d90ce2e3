"""Training set of an annotator: vectors and labels of a tagged collection."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from prototag import metadata
from prototag.annotator.input_validation import is_one_picture, tag_lists
from prototag.annotator.types import TrainingSummary
from prototag.arrays import Rows
from prototag.engine import Engine
from prototag.errors import InputError, Remedy, TrainingError
from prototag.events import Progress, notify
from prototag.features.extractor import Extractor, Skipped
from prototag.features.types import FeatureGroup
from prototag.features.vector_folder import VectorFolder
from prototag.knowledge.concepts import BACKBONE, WIDTH
from prototag.metadata.tag_names import SEPARATOR
from prototag.storage.npy_rows import StoredRows, take_rows
from prototag.tagging.pipeline import select_group_weights
from prototag.tagging.tagger import Tagger, recommended

if TYPE_CHECKING:
    from prototag.images.decode import Source

UNTAGGED = ("ignore", "negative")
MIN_TUNING_PICTURES = 60  # below, cross-validation is too noisy to select hyperparameters by
KNOWLEDGE_OFF = (
    "Knowledge of words is off: it is for the embedded network with all of its feature groups."
)
MIN_TAGGED_PICTURES = 10
MAX_PICTURES_IN_MEMORY = 20_000  # larger folders of vectors are trained out-of-core


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Vectors and labels of n pictures and t tags."""

    X: Any  # n x m, feature vectors: an array, or stored rows
    feature_groups: list[FeatureGroup]  # of the columns of X
    Y: sparse.csr_array  # n x t
    unlabeled: sparse.csr_array | None  # n x t; None if all pairs are labeled
    tags: list[str]
    names: list[str]  # of the pictures
    digests: list[bytes]  # of the pictures' pixels
    thumbnails: list[bytes]  # of the pictures; b"" where there is none
    summary: TrainingSummary
    skipped: list[Skipped]  # pictures that could not be read

    def select_rows(self, rows: Rows) -> TrainingSet:
        """Return a subset of the pictures, by increasing rows."""
        if len(rows) == len(self.names):
            return self
        numbers = rows.tolist()
        return replace(
            self,
            X=take_rows(self.X, rows),
            Y=sparse.csr_array(self.Y[rows]),
            unlabeled=None if self.unlabeled is None else sparse.csr_array(self.unlabeled[rows]),
            names=[self.names[i] for i in numbers],
            digests=[self.digests[i] for i in numbers],
            thumbnails=[self.thumbnails[i] for i in numbers],
        )

    def select_feature_groups(self, is_used: Sequence[bool]) -> TrainingSet:
        """Return the training set with a subset of its feature groups."""
        columns = np.repeat(is_used, [group.width for group in self.feature_groups])
        groups = [group for group, used in zip(self.feature_groups, is_used, strict=True) if used]
        return replace(self, X=np.ascontiguousarray(self.X[:, columns]), feature_groups=groups)


def build_training_set(
    source: Any,
    tags: Sequence[Collection[str]] | None,
    extractor: Extractor,
    min_pictures: int,
    *,
    untagged: str = "ignore",
    thumbnails: bool = False,
) -> TrainingSet:
    """Collect pictures and tags (see :meth:`prototag.Annotator.fit`) and compute the vectors.

    Tags of fewer than ``min_pictures`` pictures and unreadable pictures are excluded; of a rare
    ``animal|cat`` the nearest tag above it with enough pictures is trained. A picture
    that has a tag, even a rare one, lacks all other tags. A picture without tags is excluded,
    because it is probably not tagged yet; if ``untagged`` is "negative" it lacks every tag. If a
    person corrected the proposed tags of a picture, all tags that were neither kept nor removed are
    unlabeled.
    """
    if isinstance(source, VectorFolder):
        return _from_vector_folder(source, min_pictures)
    if isinstance(source, str | os.PathLike) and tags is None:
        source = metadata.collect(source)
    sources, tag_rows, own_names = split_source(source, tags)
    if len(sources) != len(tag_rows):
        raise TrainingError(
            f"{len(sources)} pictures and tags for {len(tag_rows)}: give each picture its tags."
        )
    ruled_out = getattr(source, "ruled_out", None) or [None] * len(tag_rows)
    _vocabulary(tag_rows, min_pictures)  # refuses too few tags before a picture is read
    labeled = np.flatnonzero(_has_labels(tag_rows, ruled_out, untagged))
    features = extractor.extract([sources[i] for i in labeled], thumbnails=thumbnails)
    kept = labeled[features.kept]
    kept_rows = [tag_rows[i] for i in kept]
    vocabulary = _vocabulary(kept_rows, min_pictures)  # without the tags of unreadable pictures
    Y = vocabulary.matrix(kept_rows)
    _refuse_few(Y)
    if own_names is None:
        names = relative_names([sources[i] for i in kept])
    else:
        names = [own_names[i] for i in kept]
    return TrainingSet(
        X=features.vectors,
        feature_groups=features.feature_groups,
        Y=Y,
        unlabeled=_unlabeled(vocabulary, Y, [ruled_out[i] for i in kept]),
        tags=list(vocabulary.names),
        names=names,
        digests=features.digests,
        thumbnails=features.thumbnails,
        summary=TrainingSummary(
            pictures=len(kept),
            tags=len(vocabulary.names),
            too_rare=_too_rare(tag_rows, vocabulary),
            untagged=len(sources) - len(labeled),
            unreadable=len(features.skipped),
        ),
        skipped=features.skipped,
    )


def has_labels(collected: metadata.Collected, untagged: str) -> list[bool]:
    """Return for each picture of a collection whether it has labels to train on."""
    return _has_labels(collected.tags, collected.ruled_out, untagged)


def _has_labels(
    tag_rows: Sequence[Sequence[str]], ruled_out: Sequence[list[str] | None], untagged: str
) -> list[bool]:
    if untagged not in UNTAGGED:
        raise InputError(f"untagged={untagged!r}: give {' or '.join(map(repr, UNTAGGED))}.")
    return [
        untagged == "negative" or bool(tags) or removed is not None
        for tags, removed in zip(tag_rows, ruled_out, strict=True)
    ]


def _too_rare(tag_rows: Sequence[Sequence[str]], vocabulary: metadata.Vocabulary) -> dict[str, int]:
    """Count the pictures of each tag that is not in the vocabulary."""
    all_tags = metadata.vocabulary(tag_rows)
    count = dict(zip(all_tags.names, all_tags.counts, strict=True))
    return {tag: count[tag] for tag in sorted(count.keys() - set(vocabulary.names))}


def _from_vector_folder(folder: VectorFolder, min_pictures: int) -> TrainingSet:
    names: list[str] = []
    digests: list[bytes] = []
    ruled_out: list[list[str] | None] = []
    for picture in folder.pictures:
        names.append(picture.path)
        digests.append(picture.digest)
        ruled_out.append(picture.ruled_out)
    counts = np.bincount(folder.Y.indices, minlength=len(folder.tags)).tolist()
    frequent = [c for c, count in enumerate(counts) if count >= min_pictures]
    vocabulary = metadata.Vocabulary(
        tuple(folder.tags[c] for c in frequent),
        tuple(counts[c] for c in frequent),
        {tag: n for tag, n in zip(folder.tags, counts, strict=True) if n < min_pictures},
        {},
    )
    if any(SEPARATOR in tag for tag in vocabulary.dropped):
        rows = _tag_rows(folder)
        vocabulary = _vocabulary(rows, min_pictures)  # with the tags above rare ones
        Y = vocabulary.matrix(rows)
    else:
        _refuse_rare(vocabulary, min_pictures)
        Y = sparse.csr_array(folder.Y[:, frequent])
    _refuse_few(Y)
    fits_in_memory = len(names) <= MAX_PICTURES_IN_MEMORY
    return TrainingSet(
        X=folder.X.load() if fits_in_memory else folder.X,
        feature_groups=folder.feature_groups,
        Y=Y,
        unlabeled=_unlabeled(vocabulary, Y, ruled_out) if fits_in_memory else None,
        tags=list(vocabulary.names),
        names=names,
        digests=digests,
        thumbnails=[b""] * len(names),
        summary=TrainingSummary(
            pictures=len(names),
            tags=len(vocabulary.names),
            too_rare=dict(sorted(vocabulary.dropped.items())),
            untagged=folder.untagged,
            unreadable=folder.unreadable,
        ),
        skipped=[],
    )


def _tag_rows(folder: VectorFolder) -> list[list[str]]:
    """Return the tags of each picture of a folder of vectors."""
    starts = folder.Y.indptr.tolist()
    tags = [folder.tags[column] for column in folder.Y.indices.tolist()]
    return [tags[start:stop] for start, stop in pairwise(starts)]


def fit_tagger(
    training: TrainingSet,
    n_jobs: int | None,
    tuning_seconds: float | None,
    progress: Progress | None,
    engine: Engine | None = None,
    out_of_core: bool | None = None,
    work: str | os.PathLike[str] | None = None,
    backbone: str = "",
    network: str = "",
) -> tuple[Tagger, TrainingSet]:
    """Fit a tagger, tuned if there are time and enough pictures.

    The returned training set lacks the feature groups that do not help; they need not be computed
    for new pictures. ``out_of_core`` and ``work`` are parameters of the tagger. ``backbone`` is
    the fingerprint of the network: with vectors of the default network the names of the tags help.
    ``network`` is its name: an ONNX file may have words of its own
    (:mod:`prototag.knowledge.word_file`).
    """
    n, t = training.Y.shape
    widths = [group.width for group in training.feature_groups]
    knows_names = backbone == BACKBONE and sum(widths) == WIDTH
    tagger: Tagger = recommended(
        out_of_core=out_of_core,
        n_jobs=n_jobs,
        engine=engine,
        progress=progress,
        tag_names=list(training.tags) if knows_names else None,
    )
    is_stored = isinstance(training.X, StoredRows)
    own_words = None
    if network.endswith(".onnx") and not is_stored:
        from prototag.knowledge.word_file import word_prior

        own_words = word_prior(network, training.tags, widths)
    knows_names = knows_names or own_words is not None
    if not knows_names:
        notify(progress, "Learning", KNOWLEDGE_OFF)
    notify(progress, "Learning", f"Learning {t:,} tags from {n:,} pictures ...")
    if is_stored:  # out-of-core: the tagger weighs feature groups itself
        tagger.set_params(feature_groups=widths)
        if tuning_seconds is not None:
            notify(progress, "Tuning", f"{n:,} pictures are trained out-of-core, without tuning.")
        return tagger.fit(training.X, training.Y, work=work), training
    prepared = tagger.prepare(
        training.X,
        training.Y,
        unlabeled=training.unlabeled,
        work=work,
        name_prior=own_words,
    )
    if len(widths) > 1:
        weighed = select_group_weights(prepared.task, widths)
        # Heads of names need all columns.
        is_used = [weight > 0 or knows_names for _, weight in weighed]
        used = [pair for pair, keep in zip(weighed, is_used, strict=True) if keep]
        tagger.set_params(feature_groups=used)
        if not all(is_used):
            training = training.select_feature_groups(is_used)
            prepared = prepared.select(np.repeat(is_used, widths))
    if tuning_seconds is None or n < MIN_TUNING_PICTURES:
        return tagger.fit_prepared(prepared), training

    from prototag.tagging.tuning import tune

    message = f"Tuning on {n:,} pictures with {t:,} tags, {tuning_seconds:.0f} s ..."
    notify(progress, "Tuning", message)
    tuned = tune(training.X, training.Y, tagger, seconds=tuning_seconds, progress=progress)
    if training.unlabeled is None:
        return tuned, training
    return tuned.fit_prepared(prepared), training  # tuning counts unlabeled pairs as absent


def _unlabeled(
    vocabulary: metadata.Vocabulary, Y: sparse.csr_array, ruled_out: Sequence[list[str] | None]
) -> sparse.csr_array | None:
    """Return the unlabeled pairs of corrected pictures; None if all pairs are labeled."""
    is_corrected = np.array([removed is not None for removed in ruled_out])
    if not is_corrected.any():
        return None
    corrected = np.flatnonzero(is_corrected)
    rows: list[int] = corrected.tolist()  # usually few: only these become dense
    removed = vocabulary.matrix([ruled_out[row] or [] for row in rows], with_ancestors=False)
    local = sparse.coo_array((Y[rows] + removed).toarray() == 0)
    pairs = corrected[local.coords[0]], local.coords[1]
    return sparse.csr_array((np.ones(local.nnz, bool), pairs), shape=Y.shape)


def _vocabulary(tags: Sequence[Sequence[str]], min_pictures: int) -> metadata.Vocabulary:
    vocabulary = metadata.vocabulary(tags, min_count=min_pictures)
    _refuse_rare(vocabulary, min_pictures)
    return vocabulary


def _refuse_few(Y: sparse.csr_array) -> None:
    count_tagged = int(np.count_nonzero(np.diff(Y.indptr)))
    if count_tagged < MIN_TAGGED_PICTURES:
        raise TrainingError(
            f"{count_tagged} pictures have tags to learn and can be read: tag at least "
            f"{MIN_TAGGED_PICTURES}, and many more for good results."
        )


def _refuse_rare(vocabulary: metadata.Vocabulary, min_pictures: int) -> None:
    if not vocabulary.names and not vocabulary.dropped:
        raise TrainingError("no picture has a tag: there is nothing to learn.")
    if not vocabulary.names:
        tag, highest = max(vocabulary.dropped.items(), key=lambda item: item[1])
        raise TrainingError(
            f"all {len(vocabulary.dropped):,} tags are too rare: a tag is learned from at least "
            f"{min_pictures} pictures, the most frequent, {tag!r}, has {highest}",
            remedy=Remedy.TAG_MORE,
        )


def split_source(
    source: Any,
    tags: Sequence[Collection[str]] | None,
    part: Literal["train", "test"] = "train",
) -> tuple[list[Source], list[list[str]], list[str] | None]:
    """Return pictures, the tags of each, and their names if the source has names.

    Of a data set one part is returned.
    """
    if tags is not None:
        return _picture_list(source), tag_lists(tags), None
    if hasattr(source, "Y"):  # a data set
        if source.images is None:
            raise TrainingError(f"{source.name} has vectors but no pictures: fit a Tagger to them.")
        images = getattr(source, part)  # numbers
        rows = [[source.tags[c] for c in source.Y[[i]].indices] for i in images]
        names = None if source.names is None else [source.names[i] for i in images]
        return [source.images[i] for i in images], rows, names
    if not hasattr(source, "images"):
        raise InputError(_no_collection_message(source))
    return list(source.images), [list(row) for row in source.tags], None


def _picture_list(source: Any) -> list[Source]:
    if isinstance(source, str | os.PathLike) and os.path.isdir(source):
        raise InputError(
            f"tags were given for the folder {os.fspath(source)}: the tags of a folder are found "
            "in it. Give the folder alone, or a list of its pictures."
        )
    if is_one_picture(source):
        raise InputError(
            "one picture is not enough to learn from: give a list of pictures, and one list of "
            "tags for each picture."
        )
    return list(source)


def _no_collection_message(source: Any) -> str:
    if isinstance(source, Sequence | np.ndarray):
        return (
            f"{len(source):,} pictures were given without tags: give one list of tags for each "
            "picture as the second argument, or a folder in which tags are found."
        )
    return (
        f"a {type(source).__name__} is not a collection: give a folder, or a list of pictures and "
        "one list of tags for each picture."
    )


def relative_names(sources: Sequence[Source]) -> list[str]:
    """Return paths relative to the common folder: a model does not reveal where it was trained."""
    paths = [os.path.abspath(s) for s in sources if isinstance(s, str | os.PathLike)]
    root = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    return [
        os.path.relpath(source, root)
        if isinstance(source, str | os.PathLike)
        else f"picture {number}"
        for number, source in enumerate(sources)
    ]
