"""Every cut that a threshold can make through scores, counted exactly instead of on a grid.

Tags are n x t booleans ``Y``, scores n x t and finite; a cut gives a tag where its score is at
least some score that occurs. Metrics draw curves from the cuts, tags chooses thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from prototag.arrays import Doubles

Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Counts = NDArray[np.integer[Any]]

# Cells worked on at once, some 60 bytes each. At 17,665 x 291 all of 0.5 M to 2 M ran about equally
# fast and 8 M took 1.7 times as long; fewer bands mean fewer passes over a larger matrix.
CELLS = 1 << 21
STEADY = 10.0  # images of a tag at which average precision and AUC count alike


def as_tags(Y: Any, *, name: str = "Y") -> Bools:
    """Check that ``Y`` is a 0/1 matrix, dense or sparse, and return it as dense booleans, n x t."""
    if sparse.issparse(Y):
        Y = sparse.csr_array(cast(Any, Y))
        _check_matrix(Y.shape, name)
        if not Y.has_canonical_format:
            Y = Y.copy()  # the caller's arrays may be shared: do not reorder them
            Y.sum_duplicates()
        _check_binary(Y.data, name)
        return np.asarray(Y.astype(bool).toarray())
    Y = np.asarray(Y)
    _check_matrix(Y.shape, name)
    _check_binary(Y, name)
    return np.asarray(Y, dtype=bool)


def _check_matrix(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"{name} has shape {shape}: give a matrix of images (rows) and tags (columns), "
            "at least one of each."
        )


def _check_binary(values: NDArray[Any], name: str) -> None:
    if values.dtype == bool:
        return
    if values.dtype.kind not in "iuf":
        raise ValueError(f"{name} has dtype {values.dtype}: give 0 and 1 as numbers or booleans.")
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        raise ValueError(
            f"{name} contains {values[wrong].flat[0]}: give 0 (tag absent) or 1 (tag present)."
        )


def as_scores(scores: Any, *, name: str = "scores") -> Floats:
    """Check that ``scores`` is a finite dense matrix; float32 and float64 are kept as they are."""
    if sparse.issparse(scores):
        raise ValueError(f"{name} is a sparse matrix: give a dense array, e.g. {name}.toarray().")
    scores = np.asarray(scores)
    _check_matrix(scores.shape, name)
    if scores.dtype.kind not in "iufb":
        raise ValueError(f"{name} has dtype {scores.dtype}: give real numbers.")
    if scores.dtype not in (np.float32, np.float64):
        scores = scores.astype(np.float32 if scores.dtype == np.float16 else np.float64)
    # The sum is not finite if a cell is not (or if it overflows): one pass, no temporary of n x t.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(scores.sum())
    if suspicious and not np.isfinite(scores).all():
        raise ValueError(f"{name} contains NaN or infinity: give finite numbers.")
    return np.asarray(scores)


def as_pair(Y: Any, scores: Any) -> tuple[Bools, Floats]:
    """Check tags and scores of the same images and tags."""
    tags, checked = as_tags(Y), as_scores(scores)
    check_same_shape(tags, checked, "the scores")
    return tags, checked


def check_same_shape(Y: NDArray[Any], other: NDArray[Any], name: str) -> None:
    """Tags and what is compared with them must be of the same images and tags."""
    if Y.shape != other.shape:
        raise ValueError(
            f"The true tags have shape {Y.shape}, {name} {other.shape}: "
            "give both for the same images (rows) and tags (columns)."
        )


def as_new(Y: Any, scores: Floats) -> Floats:
    """Scores of left-out images as those of new ones: neither better nor worse for being left out.

    An image with a tag is judged by the other ``p - 1`` that have it, one without it by all p. A
    score is a sum over images that have the tag, so the first is too low by one part in p: small
    differences of scores, strong penalties and rare tags suffer most, and a choice among settings
    would be one for weak penalties. Tags without meaning gain nothing: with them, images with and
    without a tag score alike on average, and only now.
    """
    tags = as_tags(Y)
    p = np.count_nonzero(tags, axis=0)
    grown = (p / np.maximum(p - 1, 1)).astype(scores.dtype)
    return np.asarray(np.where(tags, scores * grown, scores))


def between_both(Y: Any, left_out: Floats) -> Floats:
    """Left-out scores, halfway to what they would be as new ones: what thresholds are chosen from.

    By the former thresholds are too low, by the latter too high where tags were forgotten: what
    lacks a tag that it should have keeps the others down. Between them F1 is flat.
    """
    return np.asarray((left_out + as_new(Y, left_out)) / 2)


def ranking(Y: Any, left_out: Floats) -> float:
    """How well left-out scores rank the images of each tag, for choices inside a fit.

    Mean average precision, which looks at the best of a ranking, and AUC, which looks at all of it
    and so is steadier: the fewer images a tag has, the more it counts.
    """
    tags = as_tags(Y)
    fair = as_new(tags, left_out)
    steady = STEADY / (STEADY + np.count_nonzero(tags) / tags.shape[1])
    area = float(areas(tags, fair).mean())
    return float(mean_average_precision(tags, fair) + 2 * steady * area)


def areas(tags: Bools, scores: Floats) -> Doubles:
    """Of each tag the chance that an image with it scores above one without it (AUC).

    Equal scores count half; a tag that all images have, or none, counts 0.5.
    """
    from scipy.stats import rankdata

    n, p = len(tags), np.count_nonzero(tags, axis=0)
    area = np.full(tags.shape[1], 0.5)
    for tag, (present, column) in enumerate(columns(tags, scores)):
        if 0 < p[tag] < n:
            above = rankdata(column)[present].sum() - p[tag] * (p[tag] + 1) / 2
            area[tag] = above / (p[tag] * (n - p[tag]))
    return area


def ratio(part: Any, whole: Any) -> Any:
    """part / whole in float64, and 0 where whole is 0."""
    out = np.zeros(np.broadcast(part, whole).shape)
    return np.divide(part, whole, out=out, where=np.asarray(whole) > 0)


def harmonic(precision: Any, recall: Any) -> Any:
    """Harmonic mean of precision and recall, element by element; 0 where both are 0."""
    return ratio(2.0 * precision * recall, precision + recall)


def columns(Y: Bools, scores: Floats) -> Iterator[tuple[Bools, Floats]]:
    """Tag by tag the columns of ``Y`` and ``scores``, contiguous; transposed a block at a time."""
    width = max(1, CELLS // len(scores))
    for start in range(0, scores.shape[1], width):
        block = slice(start, start + width)
        yield from zip(Y[:, block].T.copy(), scores[:, block].T.copy(), strict=True)


class TagCuts(NamedTuple):
    """The cuts of one tag at the scores of the images that have it, highest first."""

    scores: Floats
    lower: Floats  # the next lower score of any image, -inf if there is none
    hits: Counts  # images that have the tag and score at least this
    given: Counts  # images that score at least this


def tag_cuts(present: Bools, column: Floats) -> TagCuts:
    """Count the cuts of one tag that can be best.

    Between two scores of images that have the tag a lower cut only adds errors, so that the scores
    of these few images are the only cuts worth a look.
    """
    ranked = np.sort(column)
    values, tied = np.unique(column[present], return_counts=True)
    below = np.searchsorted(ranked, values, side="left")
    lower = np.where(below > 0, ranked[below - 1], -np.inf).astype(column.dtype)
    hits = np.cumsum(tied[::-1])
    return TagCuts(values[::-1], lower[::-1], hits, (ranked.size - below)[::-1])


def average_precision(Y_true: Any, scores: ArrayLike) -> Doubles:
    """Average precision of each tag, by the definition of scikit-learn (no interpolation).

    It is the mean, over the images that have the tag, of the precision among all images that score
    at least as high; images with equal scores are counted together.

    Returns
    -------
    array of shape (t,)
        NaN for a tag that never occurs: there is nothing to find.
    """
    true, scores = as_pair(Y_true, scores)
    result = np.full(true.shape[1], np.nan)
    for tag, (present, column) in enumerate(columns(true, scores)):
        if present.any():
            cuts = tag_cuts(present, column)
            result[tag] = np.diff(cuts.hits, prepend=0) @ (cuts.hits / cuts.given) / cuts.hits[-1]
    return result


def mean_average_precision(Y_true: Any, scores: ArrayLike) -> float:
    """Mean of the average precision over the tags that occur in ``Y_true``; 0 if none does."""
    by_tag = average_precision(Y_true, scores)
    return float(np.nanmean(by_tag)) if np.isfinite(by_tag).any() else 0.0


class Cuts(NamedTuple):
    """The cuts through all tags at once, at each distinct score, highest first."""

    scores: Floats
    precision: NDArray[np.float64]  # mean over tags
    recall: NDArray[np.float64]  # mean over tags
    hits: Counts  # over all tags
    given: Counts  # over all tags
    ceiling: float = 1.0  # no cut of a later band has a mean precision above this


def sweep(Y: Bools, scores: Floats, *, cells: int = CELLS) -> Iterator[Cuts]:
    """Lower one threshold for all tags past every distinct score.

    The scores are cut into bands of about ``cells`` cells. Memory is that of one band, and each
    band starts from integer counts, so that rounding does not pile up.
    """
    present = np.count_nonzero(Y, axis=0)
    hits, given = np.zeros_like(present), np.zeros_like(present)
    for low, high in _bands(scores, cells):
        band = (scores >= low) & (scores < high)
        more_given = np.count_nonzero(band, axis=0)
        if not more_given.any():
            continue
        more_hits = np.count_nonzero(band & Y, axis=0)
        if np.nextafter(low, high) == high:  # one value, perhaps millions of zeros: no need to sort
            right, every = hits + more_hits, given + more_given
            cuts = Cuts(
                np.array([low]),
                np.array([ratio(right, every).mean()]),
                np.array([ratio(right, present).mean()]),
                np.array([right.sum()]),
                np.array([every.sum()]),
            )
        else:
            cuts = _sweep_band(band, Y, scores, hits, given, present)
        hits += more_hits
        given += more_given
        # At best all images with the tag that are still to come rank above all others.
        best = ratio(present, given + present - hits)
        yield cuts._replace(ceiling=float(best.mean()))


def _bands(scores: Floats, cells: int) -> list[tuple[Any, Any]]:
    """Ranges low <= score < high, highest first; a value so common as to fill one has its own."""
    number = -(-scores.size // cells)
    infinity = scores.dtype.type(np.inf)
    edges = {-infinity, infinity}
    if number > 1:
        sample = np.sort(scores[:: max(1, scores.size >> 18)], axis=None)
        edges.update(sample[np.linspace(0, sample.size - 1, number + 1).astype(int)])
        values, counts = np.unique(sample, return_counts=True)
        for value in values[counts * 2 * number > sample.size]:
            edges |= {value, np.nextafter(value, infinity)}
    ordered = sorted(edges, reverse=True)
    return list(zip(ordered[1:], ordered[:-1], strict=True))


def _sweep_band(
    band: Bools, Y: Bools, scores: Floats, hits: Counts, given: Counts, present: Counts
) -> Cuts:
    t = Y.shape[1]
    values, right = scores[band], Y[band]
    # 16-bit tags: the stable sort below is then a radix sort.
    tag = (np.flatnonzero(band) % t).astype(np.uint16 if t <= 1 << 16 else np.int64)
    falling = np.argsort(values)[::-1]
    values, right, tag = values[falling], right[falling], tag[falling]

    # Tag by tag, scores falling: precision after each cell, and its change.
    by_tag = np.argsort(tag, kind="stable")
    sizes = np.bincount(tag, minlength=t)
    starts = np.cumsum(sizes) - sizes
    seen = sizes > 0
    first = starts[seen]
    right_by_tag = right[by_tag]
    hits_after = np.cumsum(right_by_tag)
    hits_after += np.repeat(hits[seen] - hits_after[first] + right_by_tag[first], sizes[seen])
    given_after = np.arange(1, tag.size + 1) + np.repeat(given - starts, sizes)
    precision = hits_after / given_after
    before = ratio(hits, given)
    change = np.diff(precision, prepend=0.0)
    change[first] = precision[first] - before[seen]

    # All tags, scores falling: add the changes up. The order among equal scores is arbitrary, but
    # only the last of them is a cut, and up to there a tag's changes add up to the same.
    precision[by_tag] = change
    gain = np.where(right, ratio(1.0, present)[tag], 0.0)
    last = np.append(values[1:] != values[:-1], True)
    return Cuts(
        values[last],
        (before.sum() + np.cumsum(precision)[last]) / t,
        (ratio(hits, present).sum() + np.cumsum(gain)[last]) / t,
        hits.sum() + np.cumsum(right)[last],
        given.sum() + 1 + np.flatnonzero(last),
    )
