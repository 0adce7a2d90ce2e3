"""Build the training set from the library: features, labels, and unknown labels.

A picture that files tag is taken to lack all other tags, with some uncertainty because tags are
forgotten; of a complete picture every label is known. A picture with a few decided pairs only has
no other known labels: with many such pairs it joins the training set with its other labels unknown,
with few it is added to the columns of these tags only
(:mod:`prototag.tagging.incremental.update`), because a fit to mostly imputed labels learns its own
imputations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.annotator.training_set import MIN_TAGGED_PICTURES, TrainingSet
from prototag.annotator.types import TrainingSummary
from prototag.arrays import Bools, Floats
from prototag.errors import Remedy, TrainingError
from prototag.features.types import FeatureGroup
from prototag.library.database import Ids, Labels, Store, select_in

if TYPE_CHECKING:
    from prototag.library.cold_start import ColdStartEstimate

MIN_PICTURES = 5  # that a tag needs for a full fit
MIN_DECIDED_PAIRS = 5  # from which on an untagged picture joins the training set
MAX_BACKGROUND_PICTURES = 1_000  # unlabeled pictures that join for tags of a cold start
MAX_ABSENT_PROBABILITY = 0.25  # below it a background picture counts as lacking such a tag

Estimator = Callable[[int], "ColdStartEstimate | None"]


class TrainingData(NamedTuple):
    """A training set, with the pictures of its rows and the tags of its columns."""

    training: TrainingSet
    ruled_out: Bools  # n x t
    pictures: Ids  # of the rows, ordered by path
    tags: Ids  # of the columns
    others: Ids  # pictures with vectors that are not in the training set
    last_decision: int  # number of the last decision in the labels
    recipe: bytes  # of the vectors


class _Snapshot(NamedTuple):
    """What the library holds at one moment."""

    recipe: bytes
    order: Ids  # pictures with vectors, ordered by path
    complete: set[int]
    labels: Labels
    names: dict[int, str]  # of tags
    hidden: set[int]  # tags
    last_decision: int
    digests: dict[int, bytes]  # of pictures


class _Matrix(NamedTuple):
    """Labels as matrices, a row per picture of the training set and a column per tag."""

    Y: sparse.csr_array
    ruled_out: Bools
    tagged_by_files: Bools  # n


def gather(
    store: Store,
    blocks: list[FeatureGroup],
    min_pictures: int = MIN_PICTURES,
    estimate: Estimator | None = None,
) -> TrainingData:
    """Build the training set of all current labels.

    ``estimate`` returns the positive-unlabeled estimates of a tag that hardly any picture is known
    to lack, else None. For such tags unlabeled pictures join as background: those with a low
    probability count as lacking the tag. Without them a fit would estimate the tag's frequency from
    examples alone.

    Raises
    ------
    TrainingError
        There are too few labels.
    """
    now = _snapshot(store)
    labeled = _labeled_pictures(now.labels, now.complete)
    estimates = {}
    if estimate is not None:
        estimates = _cold_start_estimates(now, min_pictures, estimate)
    background = _background(now.order, labeled) if estimates else set()
    chosen = labeled | background
    is_chosen = np.array([picture in chosen for picture in now.order.tolist()], bool)
    pictures = now.order[is_chosen]
    counts = _count_pictures(now.labels, set(pictures.tolist()))
    if not len(now.order):
        raise TrainingError("no picture of the library was scanned yet", remedy=Remedy.SCAN)
    frequent = [tag for tag, n in counts.items() if n >= min_pictures and tag not in now.hidden]
    rare = {now.names[tag]: n for tag, n in counts.items() if n < min_pictures}
    if not frequent:
        raise TrainingError(_no_tag_message(rare, min_pictures))
    tags = np.array(sorted(frequent), np.int64)
    matrix = _matrix(now.labels, pictures, tags)
    is_complete = np.array([picture in now.complete for picture in pictures.tolist()], bool)
    unknown = _unknown_labels(matrix, is_complete, pictures, tags, estimates)
    ruled_out = matrix.ruled_out | (is_complete[:, None] & (matrix.Y.toarray() == 0))
    n_tagged = int(np.count_nonzero(np.diff(matrix.Y.indptr)))
    if n_tagged < MIN_TAGGED_PICTURES:
        raise TrainingError(
            f"{n_tagged} pictures of the library have tags that can be learned: at least "
            f"{MIN_TAGGED_PICTURES} are needed to train all tags. A single one is enough to rank "
            "pictures for one tag",
            remedy=Remedy.RANK_FOR_TAG,
        )
    others = now.order[~is_chosen]
    training = TrainingSet(
        vectors(store, pictures),
        blocks,
        matrix.Y,
        unknown,
        [now.names[tag] for tag in tags.tolist()],
        [str(picture) for picture in pictures],
        [now.digests[picture] for picture in pictures.tolist()],
        [b""] * len(pictures),
        TrainingSummary(len(pictures) - len(background), len(tags), rare, len(others), 0),
        [],
    )
    return TrainingData(training, ruled_out, pictures, tags, others, now.last_decision, now.recipe)


def _snapshot(store: Store) -> _Snapshot:
    with store.read() as conn:
        recipe = store.recipe(conn)  # not of the extractor: a scan may be about to change it
        rows = conn.execute(
            "SELECT v.picture FROM vectors v JOIN files f ON f.picture = v.picture "
            "WHERE v.recipe = ? GROUP BY v.picture ORDER BY min(f.path)",
            (recipe,),
        )
        return _Snapshot(
            recipe=recipe,
            order=np.array([row[0] for row in rows], np.int64),
            complete={row[0] for row in conn.execute("SELECT id FROM pictures WHERE complete")},
            labels=store.labels(),
            names=dict(conn.execute("SELECT id, name FROM tags")),
            hidden={row[0] for row in conn.execute("SELECT id FROM tags WHERE hidden")},
            last_decision=store.last_decision(),
            digests=dict(conn.execute("SELECT id, digest FROM pictures")),
        )


def _cold_start_estimates(
    now: _Snapshot, min_pictures: int, estimate: Estimator
) -> dict[int, ColdStartEstimate]:
    """Return the estimates of tags of a cold start that have enough pictures for a full fit."""
    tags, counts = np.unique(now.labels.tags[now.labels.values == 1], return_counts=True)
    estimates = {}
    for tag in tags[counts >= min_pictures].tolist():
        one = None if tag in now.hidden else estimate(tag)
        if one is not None:
            estimates[tag] = one
    return estimates


def _background(order: Ids, labeled: set[int]) -> set[int]:
    """Return a random sample of pictures without labels."""
    unlabeled = [picture for picture in order.tolist() if picture not in labeled]
    sample = np.random.default_rng(0).permutation(len(unlabeled))[:MAX_BACKGROUND_PICTURES]
    return {unlabeled[i] for i in sample}


def _labeled_pictures(labels: Labels, complete: set[int]) -> set[int]:
    """Return the pictures of the training set: tagged by files, complete, or often decided on.

    Where these are few, all pictures with a label are.
    """
    tagged = set(labels.pictures[~labels.decided & (labels.values == 1)].tolist()) | complete
    pictures, counts = np.unique(labels.pictures, return_counts=True)
    most = tagged | set(pictures[counts >= MIN_DECIDED_PAIRS].tolist())
    return most if len(most) >= 2 * MIN_TAGGED_PICTURES else set(pictures.tolist()) | complete


def _count_pictures(labels: Labels, pictures: set[int]) -> dict[int, int]:
    """Return the number of these pictures that each tag has."""
    is_known = np.array([picture in pictures for picture in labels.pictures.tolist()], bool)
    tags = labels.tags[is_known & (labels.values == 1)]
    values, counts = np.unique(tags, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _matrix(labels: Labels, pictures: Ids, tags: Ids) -> _Matrix:
    row_of = {picture: row for row, picture in enumerate(pictures.tolist())}
    column_of = {tag: column for column, tag in enumerate(tags.tolist())}
    rows = np.array([row_of.get(picture, -1) for picture in labels.pictures.tolist()], np.intp)
    columns = np.array([column_of.get(tag, -1) for tag in labels.tags.tolist()], np.intp)
    has = labels.values == 1
    is_used = (rows >= 0) & (columns >= 0)
    shape = len(pictures), len(tags)
    Y = _pairs(rows[is_used & has], columns[is_used & has], shape)
    ruled_out = _pairs(rows[is_used & ~has], columns[is_used & ~has], shape).toarray() > 0
    tagged_by_files = np.zeros(len(pictures), bool)
    tagged_by_files[rows[(rows >= 0) & has & ~labels.decided]] = True
    return _Matrix(Y, ruled_out, tagged_by_files)


def _unknown_labels(
    matrix: _Matrix,
    is_complete: Bools,
    pictures: Ids,
    tags: Ids,
    estimates: dict[int, ColdStartEstimate],
) -> sparse.csr_array | None:
    """Return the pairs without a known label; None if all are known."""
    is_open = ~matrix.tagged_by_files & ~is_complete
    if not is_open.any():
        return None
    unknown = is_open[:, None] & ~matrix.ruled_out & (matrix.Y.toarray() == 0)
    for column, tag in enumerate(tags.tolist()):
        if tag in estimates:
            one = estimates[tag]
            absent = one.pictures[one.estimate.probabilities < MAX_ABSENT_PROBABILITY]
            unknown[:, column] &= ~np.isin(pictures, absent)
    return sparse.csr_array(unknown)


def _pairs(
    rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp], shape: tuple[int, int]
) -> sparse.csr_array:
    ones = np.ones(len(rows), np.float32)
    return sparse.csr_array(sparse.coo_array((ones, (rows, columns)), shape=shape))


def _no_tag_message(rare: dict[str, int], min_pictures: int) -> str:
    if not rare:
        return "no picture of the library has a tag: tag some, or accept tags for some first."
    tag, most = max(rare.items(), key=lambda item: item[1])
    return (
        f"all {len(rare):,} tags are too rare: a tag needs at least {min_pictures} pictures, and "
        f"the most frequent one, {tag!r}, has {most}. Tag more pictures."
    )


def vectors(store: Store, pictures: Ids) -> Floats:
    """Return the vectors of these pictures, rows in their order."""
    row_of = {picture: row for row, picture in enumerate(pictures.tolist())}
    X: Floats | None = None
    with store.read() as conn:
        select = "SELECT picture, vector FROM vectors WHERE picture IN"
        for picture, vector in select_in(conn, select, list(row_of)):
            numbers = np.frombuffer(vector, "<f4")
            if X is None:
                X = np.zeros((len(pictures), len(numbers)), np.float32)
            X[row_of[picture]] = numbers
    return np.zeros((0, 0), np.float32) if X is None else X
