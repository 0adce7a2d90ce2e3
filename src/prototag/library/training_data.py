"""What a library teaches: its pictures, what is known of them, and what is not.

A picture that came with tags of its own is taken to lack all others, if less surely where tags were
forgotten; of one that is marked complete all is known. One of which only single pairs were decided
says nothing of the rest: with many such pairs it teaches as one of which much is unknown, with few
it joins the columns of these tags alone (:mod:`prototag.tagging.incremental.update`), because a fit
that must guess most of what it learns from learns its own guesses.
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
from prototag.library.database import Ids, Labels, Store, selected

if TYPE_CHECKING:
    from prototag.library.starting import Started

MIN_PICTURES = 5  # that a tag needs to be learned with all others
BACKGROUND = 1_000  # unlabeled pictures that join a fit of tags that hardly any picture lacks
ABSENT = 0.25  # probability below which an unlabeled picture counts as lacking such a tag
MANY = 5  # decided pairs of a picture that came without tags, from which on it teaches all columns


class Teaching(NamedTuple):
    """A training set, and where its rows and columns are in the library."""

    training: TrainingSet
    ruled_out: Bools  # n x t
    pictures: Ids  # of the rows, in the order of their files
    tags: Ids  # of the columns
    others: Ids  # pictures with vectors that teach nothing
    decisions: int  # number of the last decision that it knows
    changed: dict[int, int]  # of every tag
    recipe: bytes  # of the vectors


def gather(
    store: Store,
    blocks: list[FeatureGroup],
    min_pictures: int = MIN_PICTURES,
    started: Callable[[int], Started | None] | None = None,
) -> Teaching:
    """All that the library knows now.

    ``started`` gives the positive-unlabeled estimates of the tags that hardly any picture is known
    to lack. For them unlabeled pictures join as background: those that are unlikely to have the tag
    count as lacking it. Without them a fit would estimate frequencies from examples alone.

    Raises
    ------
    TrainingError
        That is too little to learn from.
    """
    with store.read() as base:
        recipe = store.recipe(base)  # a scan may be about to make all vectors anew
        order = np.array(
            base.execute(
                "SELECT v.picture FROM vectors v JOIN places p ON p.picture = v.picture "
                "WHERE v.recipe = ? GROUP BY v.picture ORDER BY min(p.path)",
                (recipe,),
            ).fetchall(),
            np.int64,
        ).ravel()
        complete = {row[0] for row in base.execute("SELECT id FROM pictures WHERE complete = 1")}
        labels = store.labels()
        names = dict(base.execute("SELECT id, name FROM tags"))
        hidden = {row[0] for row in base.execute("SELECT id FROM tags WHERE hidden = 1")}
        changed = dict(base.execute("SELECT id, changed FROM tags"))
        decisions = store.last_decision()
        digests = dict(base.execute("SELECT id, digest FROM pictures"))
    speaking = _speaking(labels, complete)
    estimates = {}
    if started is not None:
        estimates = _positive_unlabeled_estimates(labels, min_pictures, hidden, started)
    background: set[int] = set()
    if estimates:
        background = _background(order, speaking)
    taught = np.array([p for p in order.tolist() if p in speaking or p in background], np.int64)
    row_of = {int(picture): row for row, picture in enumerate(taught)}

    known = np.array([p in row_of for p in labels.pictures.tolist()], bool)
    rows = np.array([row_of[p] for p in labels.pictures[known].tolist()], np.intp)
    tags = labels.tags[known]
    values = labels.values[known]
    found = ~labels.decided[known]
    has = values == 1
    count = dict(
        zip(*map(np.ndarray.tolist, np.unique(tags[has], return_counts=True)), strict=True)
    )
    columns = np.array(
        sorted(t for t, n in count.items() if n >= min_pictures and t not in hidden), np.int64
    )
    if not len(order):
        raise TrainingError("no picture of the library was read yet", remedy=Remedy.SCAN)
    rare = {names[t]: n for t, n in count.items() if n < min_pictures}
    if not len(columns):
        raise TrainingError(_nothing(rare, min_pictures))
    column_of = {int(tag): column for column, tag in enumerate(columns)}
    used = np.array([t in column_of for t in tags.tolist()], bool)
    at = np.array([column_of[t] for t in tags[used].tolist()], np.intp)
    shape = len(taught), len(columns)
    Y = _pairs(rows[used][has[used]], at[has[used]], shape)
    ruled_out = _pairs(rows[used][~has[used]], at[~has[used]], shape).toarray() > 0
    own = np.zeros(len(taught), bool)
    own[rows[found & has]] = True
    whole = np.array([p in complete for p in taught.tolist()], bool)
    silent = ~own & ~whole
    unknown = None
    if silent.any():
        open_pairs = silent[:, None] & ~ruled_out & (Y.toarray() == 0)
        for tag, estimate in estimates.items():
            if tag in column_of:
                absent = estimate.pictures[estimate.estimate.probabilities < ABSENT]
                open_pairs[:, column_of[tag]] &= ~np.isin(taught, absent)
        unknown = sparse.csr_array(open_pairs)
    ruled_out |= whole[:, None] & (Y.toarray() == 0)
    tagged = int(np.count_nonzero(np.diff(Y.indptr)))
    if tagged < MIN_TAGGED_PICTURES:
        raise TrainingError(
            f"{tagged} pictures of the library have tags that can be learned: at least "
            f"{MIN_TAGGED_PICTURES} are needed to train all tags. A single one is enough to rank "
            "pictures for one tag",
            remedy=Remedy.RANK_FOR_TAG,
        )
    training = TrainingSet(
        vectors(store, taught),
        blocks,
        Y,
        unknown,
        [names[int(tag)] for tag in columns],
        [str(picture) for picture in taught],
        [digests[int(picture)] for picture in taught],
        [b""] * len(taught),
        TrainingSummary(
            len(taught) - len(background), len(columns), rare, len(order) - len(taught), 0
        ),
        [],
    )
    others = order[[p not in row_of for p in order.tolist()]]
    return Teaching(training, ruled_out, taught, columns, others, decisions, changed, recipe)


def _positive_unlabeled_estimates(
    labels: Labels,
    min_pictures: int,
    hidden: set[int],
    started: Callable[[int], Started | None],
) -> dict[int, Started]:
    """Return the estimates of tags with enough examples that are still being started."""
    tags, counts = np.unique(labels.tags[labels.values == 1], return_counts=True)
    estimates = {}
    for tag in tags[counts >= min_pictures].tolist():
        estimate = None if tag in hidden else started(tag)
        if estimate is not None:
            estimates[tag] = estimate
    return estimates


def _background(order: Ids, speaking: set[int]) -> set[int]:
    """Return a random sample of pictures without labels."""
    silent_pictures = [picture for picture in order.tolist() if picture not in speaking]
    sample = np.random.default_rng(0).permutation(len(silent_pictures))[:BACKGROUND]
    return {silent_pictures[i] for i in sample}


def _speaking(labels: Labels, complete: set[int]) -> set[int]:
    """Pictures that say something of all tags; of all that say anything, where these are few."""
    found = set(labels.pictures[~labels.decided & (labels.values == 1)].tolist()) | complete
    pictures, counts = np.unique(labels.pictures, return_counts=True)
    most = found | set(pictures[counts >= MANY].tolist())
    return most if len(most) >= 2 * MIN_TAGGED_PICTURES else set(pictures.tolist()) | complete


def _pairs(
    rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp], shape: tuple[int, int]
) -> sparse.csr_array:
    ones = np.ones(len(rows), np.float32)
    return sparse.csr_array(sparse.coo_array((ones, (rows, columns)), shape=shape))


def _nothing(rare: dict[str, int], min_pictures: int) -> str:
    if not rare:
        return "no picture of the library has a tag: tag some, or accept tags for some first."
    tag, most = max(rare.items(), key=lambda item: item[1])
    return (
        f"all {len(rare):,} tags are too rare: one is learned from at least {min_pictures} "
        f"pictures, the most frequent, {tag!r}, has {most}. Tag more pictures."
    )


def vectors(store: Store, pictures: Ids) -> Floats:
    """Vectors of these pictures, rows in their order."""
    place = {int(picture): row for row, picture in enumerate(pictures)}
    X: Floats | None = None
    with store.read() as base:
        select = "SELECT picture, vector FROM vectors WHERE picture IN"
        for picture, vector in selected(base, select, list(place)):
            numbers = np.frombuffer(vector, "<f4")
            if X is None:
                X = np.zeros((len(pictures), len(numbers)), np.float32)
            X[place[picture]] = numbers
    return np.zeros((0, 0), np.float32) if X is None else X
