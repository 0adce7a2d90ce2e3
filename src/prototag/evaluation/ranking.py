"""Validation of tags and scores, ranking metrics, and an exact sweep over all thresholds.

Tags are n x t booleans ``Y``, and scores are n x t and finite. The sweep visits every distinct
score as a threshold, instead of a grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from prototag import _kernels
from prototag.arrays import Doubles

Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Counts = NDArray[np.integer[Any]]

# Scores per band, about 60 bytes each; fewer bands need fewer passes over the matrix.
BAND_CELLS = 1 << 21


def check_tags(Y: Any, *, name: str = "Y") -> Bools:
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


def check_scores(scores: Any, *, name: str = "scores") -> Floats:
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


def check_tags_and_scores(Y: Any, scores: Any) -> tuple[Bools, Floats]:
    """Check tags and scores of the same images and tags."""
    tags = check_tags(Y)
    checked = check_scores(scores)
    check_same_shape(tags, checked, "the scores")
    return tags, checked


def check_same_shape(Y: NDArray[Any], other: NDArray[Any], name: str) -> None:
    """Raise an error unless both matrices have the same shape."""
    if Y.shape != other.shape:
        raise ValueError(
            f"The true tags have shape {Y.shape}, {name} {other.shape}: "
            "give both for the same images (rows) and tags (columns)."
        )


def tag_auc(tags: Bools, scores: Floats) -> Doubles:
    """Compute the AUC of each tag: the probability that an image with it scores above one without.

    Ties count half. The AUC of a tag that all images have, or none, is 0.5.
    """
    return rank_tags(tags, scores).area


def sort_scores(tags: Bools, scores: Floats) -> tuple[Floats, Bools]:
    """Sort all scores in ascending order (stable), and their tags with them."""
    values = np.empty(scores.size, scores.dtype)
    right = np.empty(scores.size, bool)
    _kernels.sort_scores(np.ascontiguousarray(scores), np.ascontiguousarray(tags), values, right)
    return values, right


class TagRankings(NamedTuple):
    """Ranking metrics of each tag, t numbers each."""

    precision: Doubles  # average precision, NaN where the tag never occurs
    area: Doubles  # AUC
    best: Floats  # score with the best F1 of the tag, the highest of ties
    lower: Floats  # next lower score of any image, or -inf


def rank_tags(tags: Bools, scores: Floats) -> TagRankings:
    """Compute the ranking metrics of each tag."""
    t = tags.shape[1]
    kind = scores.dtype
    rankings = TagRankings(np.empty(t), np.empty(t), np.empty(t, kind), np.empty(t, kind))
    _kernels.rank_tags(np.ascontiguousarray(scores), np.ascontiguousarray(tags), *rankings)
    return rankings


def safe_ratio(part: Any, whole: Any) -> Any:
    """Divide in float64; the result is 0 where ``whole`` is 0."""
    out = np.zeros(np.broadcast(part, whole).shape)
    return np.divide(part, whole, out=out, where=np.asarray(whole) > 0)


def harmonic_mean(precision: Any, recall: Any) -> Any:
    """Compute the harmonic mean (F1) element by element; 0 where both are 0."""
    return safe_ratio(2.0 * precision * recall, precision + recall)


def average_precision(Y_true: Any, scores: ArrayLike) -> Doubles:
    """Compute the average precision of each tag as scikit-learn does (no interpolation).

    It is the mean, over the images that have the tag, of the precision among all images that score
    at least as high; images with equal scores are counted together.

    Returns
    -------
    array of shape (t,)
        NaN for a tag that never occurs.
    """
    return rank_tags(*check_tags_and_scores(Y_true, scores)).precision


def mean_average_precision(Y_true: Any, scores: ArrayLike) -> float:
    """Compute the mean average precision over the tags in ``Y_true``; 0 if there are none."""
    return mean_of_occurring(average_precision(Y_true, scores))


def mean_of_occurring(precision: Doubles) -> float:
    """Average over the tags that occur (not NaN); 0 if none does."""
    occurring = precision[np.isfinite(precision)]
    return float(occurring.mean()) if len(occurring) else 0.0


class ThresholdBand(NamedTuple):
    """Precision and recall at the thresholds of a band of scores, in descending order."""

    scores: Floats
    precision: NDArray[np.float64]  # mean over tags
    recall: NDArray[np.float64]  # mean over tags
    hits: Counts  # over all tags
    n_applied: Counts  # over all tags
    ceiling: float = 1.0  # upper bound of the mean precision in later bands


def sweep_thresholds(
    Y: Bools, scores: Floats, *, cells: int = BAND_CELLS
) -> Iterator[ThresholdBand]:
    """Lower one threshold for all tags past every distinct score.

    The scores are divided into bands of about ``cells`` scores, which bounds the memory. Each band
    starts from integer counts, so rounding errors do not accumulate.
    """
    present = np.count_nonzero(Y, axis=0)
    hits = np.zeros_like(present)
    n_applied = np.zeros_like(present)
    Y = np.ascontiguousarray(Y)
    scores = np.ascontiguousarray(scores)
    for low, high in _bands(scores, cells):
        band = (scores >= low) & (scores < high)
        size = int(np.count_nonzero(band))
        if not size:
            continue
        if np.nextafter(low, high) == high:  # one value, such as millions of zeros
            hits += np.count_nonzero(band & Y, axis=0)
            n_applied += np.count_nonzero(band, axis=0)
            cuts = ThresholdBand(
                np.array([low]),
                np.array([safe_ratio(hits, n_applied).mean()]),
                np.array([safe_ratio(hits, present).mean()]),
                np.array([hits.sum()]),
                np.array([n_applied.sum()]),
            )
        else:
            cuts = _sweep_band(size, Y, scores, low, high, present, hits, n_applied)
        # In the best case, all remaining images with the tag rank first.
        best = safe_ratio(present, n_applied + present - hits)
        yield cuts._replace(ceiling=float(best.mean()))


def _bands(scores: Floats, cells: int) -> list[tuple[Any, Any]]:
    """Return ranges low <= score < high in descending order; frequent values have their own."""
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
    size: int,
    Y: Bools,
    scores: Floats,
    low: Any,
    high: Any,
    present: Counts,
    hits: Counts,
    n_applied: Counts,
) -> ThresholdBand:
    """Sweep a band of ``size`` scores; update ``hits`` and ``n_applied`` to its lower end."""
    parts: list[Any] = [np.empty(size, scores.dtype), np.empty(size), np.empty(size)]
    parts += [np.empty(size, np.int64), np.empty(size, np.int64)]
    count = _kernels.sweep_band(
        scores, Y, float(low), float(high), present, hits, n_applied, *parts
    )
    return ThresholdBand(*(part[:count] for part in parts))
