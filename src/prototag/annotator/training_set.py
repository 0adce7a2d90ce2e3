"""A tagged collection -> what can be learned of it: vectors, tags that are common enough, names."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from prototag import metadata
from prototag.annotator.input_validation import is_one_picture, tag_lists
from prototag.annotator.types import Learned
from prototag.arrays import Rows
from prototag.engine import Engine
from prototag.errors import InputError, Remedy, TrainingError
from prototag.events import Progress, notify
from prototag.features.extractor import Extractor, Skipped
from prototag.features.types import Block
from prototag.features.vector_folder import VectorFolder
from prototag.storage.npy_rows import StoredRows, take_rows
from prototag.tagging.pipeline import select_group_weights
from prototag.tagging.tagger import Tagger, recommended

if TYPE_CHECKING:
    from prototag.images.decode import Source

UNTAGGED = ("ignore", "negative")
TUNED_FROM = 60  # pictures; with fewer, folds say more of luck than of parameters
MIN_COLLECTION = 10
IN_MEMORY = 20_000  # pictures of a folder; more are learned from block by block, on the disk


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """n pictures with t tags, all of which can be learned."""

    X: Any  # n x m, raw network vectors: an array, or stored rows
    blocks: list[Block]  # what the columns are
    Y: sparse.csr_array  # n x t
    unknown: sparse.csr_array | None  # n x t, tags that are neither there nor ruled out
    tags: list[str]
    names: list[str]  # what the pictures are called
    digests: list[bytes]  # what the pictures are known by, whatever they are called
    thumbnails: list[bytes]  # of the pictures; b"" where there is none
    learned: Learned
    skipped: list[Skipped]  # pictures that cannot be read

    def only(self, rows: Rows) -> TrainingSet:
        """Return some of the pictures, by their rising numbers."""
        if len(rows) == len(self.names):
            return self
        numbers = rows.tolist()
        return replace(
            self,
            X=take_rows(self.X, rows),
            Y=sparse.csr_array(self.Y[rows]),
            unknown=None if self.unknown is None else sparse.csr_array(self.unknown[rows]),
            names=[self.names[i] for i in numbers],
            digests=[self.digests[i] for i in numbers],
            thumbnails=[self.thumbnails[i] for i in numbers],
        )


def prepare(
    source: Any,
    tags: Sequence[Collection[str]] | None,
    extractor: Extractor,
    min_pictures: int,
    *,
    untagged: str = "ignore",
    thumbnails: bool = False,
) -> TrainingSet:
    """Find pictures and tags (see :meth:`prototag.Annotator.fit`) and compute the vectors.

    Left out, and counted, are tags of fewer than ``min_pictures`` pictures, and pictures that
    cannot be read. A picture that has tags, if only rare ones, is taken to lack all others. One
    without any is left out, as most of them just wait to be tagged, unless ``untagged`` is
    "negative": then it is taken to lack every tag. Of a picture whose proposed tags were corrected
    nothing is known but what stands and what was taken away.
    """
    if isinstance(source, VectorFolder):
        return stored(source, min_pictures)
    if isinstance(source, str | os.PathLike) and tags is None:
        source = metadata.collect(source)
    sources, given, names = _pairs(source, tags)
    if len(sources) != len(given):
        raise TrainingError(
            f"{len(sources)} pictures and tags for {len(given)}: give each picture its tags."
        )
    ruled_out = getattr(source, "ruled_out", None) or [None] * len(given)
    _vocabulary(given, min_pictures)  # refuses what cannot be learned before a picture is read
    useful = np.flatnonzero(_spoken(given, ruled_out, untagged))
    features = extractor.extract([sources[i] for i in useful], thumbnails=thumbnails)
    kept = useful[features.kept]
    rows = [given[i] for i in kept]
    words = _vocabulary(rows, min_pictures)  # some tags may have lost pictures that cannot be read
    Y = words.matrix(rows)
    unknown = _unknown(words, Y, [ruled_out[i] for i in kept])
    _refuse_few(Y)
    every = metadata.vocabulary(given)
    count = dict(zip(every.names, every.counts, strict=True))
    learned = Learned(
        len(kept),
        len(words.names),
        {tag: count[tag] for tag in sorted(count.keys() - set(words.names))},
        len(sources) - len(useful),
        len(features.skipped),
    )
    called = named([sources[i] for i in kept]) if names is None else [names[i] for i in kept]
    return TrainingSet(
        features.vectors,
        features.blocks,
        Y,
        unknown,
        list(words.names),
        called,
        features.digests,
        features.thumbnails,
        learned,
        features.skipped,
    )


def spoken_for(found: metadata.Collected, untagged: str) -> list[bool]:
    """Which pictures have something to teach."""
    return _spoken(found.tags, found.ruled_out, untagged)


def _spoken(
    given: Sequence[Sequence[str]], ruled_out: Sequence[list[str] | None], untagged: str
) -> list[bool]:
    if untagged not in UNTAGGED:
        raise InputError(f"untagged={untagged!r}: give {' or '.join(map(repr, UNTAGGED))}.")
    return [
        untagged == "negative" or bool(row) or gone is not None
        for row, gone in zip(given, ruled_out, strict=True)
    ]


def stored(folder: VectorFolder, min_pictures: int) -> TrainingSet:
    """What can be learned of a folder of vectors."""
    names: list[str] = []
    digests: list[bytes] = []
    ruled_out: list[list[str] | None] = []
    for picture in folder.pictures:
        names.append(picture.path)
        digests.append(picture.digest)
        ruled_out.append(picture.ruled_out)
    counts = np.bincount(folder.Y.indices, minlength=len(folder.tags)).tolist()
    common = [c for c, count in enumerate(counts) if count >= min_pictures]
    words = metadata.Vocabulary(
        tuple(folder.tags[c] for c in common),
        tuple(counts[c] for c in common),
        {tag: n for tag, n in zip(folder.tags, counts, strict=True) if n < min_pictures},
        {},
    )
    _refuse_rare(words, min_pictures)
    Y = sparse.csr_array(folder.Y[:, common])
    _refuse_few(Y)
    learned = Learned(
        len(names),
        len(common),
        dict(sorted(words.dropped.items())),
        folder.untagged,
        folder.unreadable,
    )
    few = len(names) <= IN_MEMORY
    return TrainingSet(
        folder.X.load() if few else folder.X,
        folder.blocks,
        Y,
        _unknown(words, Y, ruled_out) if few else None,
        list(words.names),
        names,
        digests,
        [b""] * len(names),
        learned,
        [],
    )


def learn(
    training: TrainingSet,
    n_jobs: int | None,
    tuning_seconds: float | None,
    progress: Progress | None,
    engine: Engine | None = None,
    out_of_core: bool | None = None,
    work: str | os.PathLike[str] | None = None,
) -> tuple[Tagger, TrainingSet]:
    """A tagger of the collection, tuned where there is time and there are pictures to tune on.

    With it the collection without the blocks of columns that do not help: new pictures do without
    them, too. ``out_of_core`` and ``work`` are those of the tagger.
    """
    n, t = training.Y.shape
    settings: dict[str, Any] = {"n_jobs": n_jobs, "engine": engine, "progress": progress}
    start: Tagger = recommended(out_of_core=out_of_core, **settings)
    notify(progress, "Learning", f"Learning {t:,} tags from {n:,} pictures ...")
    if isinstance(training.X, StoredRows):  # which the tagger reads, and weighs the blocks of
        start.set_params(feature_groups=[block.width for block in training.blocks])
        if tuning_seconds is not None:
            notify(
                progress, "Tuning", f"{n:,} pictures are learned block by block, without tuning."
            )
        return start.fit(training.X, training.Y, work=work), training
    prepared = start.prepare(training.X, training.Y, unlabeled=training.unknown, work=work)
    if len(training.blocks) > 1:
        weighed = select_group_weights(prepared.task, [block.width for block in training.blocks])
        start.set_params(feature_groups=[pair for pair in weighed if pair[1] > 0])
        used = np.repeat([weight > 0 for _, weight in weighed], [width for width, _ in weighed])
        if not used.all():
            training = _only(training, [weight > 0 for _, weight in weighed])
            prepared = prepared.select(used)
    if tuning_seconds is not None and n >= TUNED_FROM:
        from prototag.tagging.tuning import tune

        said = f"Tuning on {n:,} pictures with {t:,} tags, {tuning_seconds:.0f} s ..."
        notify(progress, "Tuning", said)
        tuned = tune(training.X, training.Y, start, seconds=tuning_seconds, progress=progress)
        if training.unknown is None:  # which tuning does not know of
            return tuned, training
        return tuned.fit_prepared(prepared), training
    return start.fit_prepared(prepared), training


def _only(training: TrainingSet, used: Sequence[bool]) -> TrainingSet:
    """The collection with some blocks of its columns."""
    columns = np.repeat(used, [block.width for block in training.blocks])
    blocks = [block for block, is_used in zip(training.blocks, used, strict=True) if is_used]
    return replace(training, X=np.ascontiguousarray(training.X[:, columns]), blocks=blocks)


def _unknown(
    words: metadata.Vocabulary, Y: sparse.csr_array, ruled_out: Sequence[list[str] | None]
) -> sparse.csr_array | None:
    """Pairs of picture and tag of which nothing is known; None where all is."""
    asked = np.array([gone is not None for gone in ruled_out])
    if not asked.any():
        return None
    rows: list[int] = np.flatnonzero(
        asked
    ).tolist()  # few, as a rule: only these are written out in full
    gone = words.matrix([ruled_out[row] or [] for row in rows])
    silent = sparse.coo_array((Y[rows] + gone).toarray() == 0)
    place = np.array(rows)[silent.coords[0]], silent.coords[1]
    return sparse.csr_array((np.ones(silent.nnz, bool), place), shape=Y.shape)


def _vocabulary(tags: Sequence[Sequence[str]], min_pictures: int) -> metadata.Vocabulary:
    words = metadata.vocabulary(tags, min_count=min_pictures)
    _refuse_rare(words, min_pictures)
    return words


def _refuse_few(Y: sparse.csr_array) -> None:
    count_tagged = int(np.count_nonzero(np.diff(Y.indptr)))
    if count_tagged < MIN_COLLECTION:
        raise TrainingError(
            f"{count_tagged} pictures have tags to learn and can be read: at least "
            f"{MIN_COLLECTION} are needed, and many more to learn well."
        )


def _refuse_rare(words: metadata.Vocabulary, min_pictures: int) -> None:
    if not words.names and not words.dropped:
        raise TrainingError("no picture has a tag: there is nothing to learn.")
    if not words.names:
        tag, highest = max(words.dropped.items(), key=lambda item: item[1])
        raise TrainingError(
            f"all {len(words.dropped):,} tags are too rare: a tag is learned from at least "
            f"{min_pictures} pictures, the most frequent, {tag!r}, has {highest}",
            remedy=Remedy.TAG_MORE,
        )


def _pairs(
    source: Any, tags: Sequence[Collection[str]] | None
) -> tuple[list[Source], list[list[str]], list[str] | None]:
    """Pictures, the tags of each, and what they are called, if they have names of their own."""
    if tags is not None:
        return _listed(source), tag_lists(tags), None
    if hasattr(source, "Y"):  # a data set
        if source.images is None:
            raise TrainingError(f"{source.name} has vectors but no pictures: fit a Tagger to them.")
        rows = [[source.tags[c] for c in source.Y[[i]].indices] for i in source.train]
        names = None if source.names is None else [source.names[i] for i in source.train]
        return [source.images[i] for i in source.train], rows, names
    if not hasattr(source, "images"):
        raise InputError(_no_collection(source))
    return list(source.images), [list(row) for row in source.tags], None


def _listed(source: Any) -> list[Source]:
    """The pictures of a sequence that has tags beside it."""
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


def _no_collection(source: Any) -> str:
    if isinstance(source, Sequence | np.ndarray):
        return (
            f"{len(source):,} pictures were given without tags: give one list of tags for each "
            "picture as the second argument, or a folder in which tags are found."
        )
    return (
        f"a {type(source).__name__} is not a collection: give a folder, or a list of pictures and "
        "one list of tags for each picture."
    )


def named(sources: Sequence[Source]) -> list[str]:
    """Paths below the folder that holds all of them: a model says nothing of where it was made."""
    paths = [os.path.abspath(s) for s in sources if isinstance(s, str | os.PathLike)]
    root = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    return [
        os.path.relpath(source, root)
        if isinstance(source, str | os.PathLike)
        else f"picture {number}"
        for number, source in enumerate(sources)
    ]
