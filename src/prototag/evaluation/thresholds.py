"""Selection of thresholds by exact search, and assignment of tags by thresholds.

A tag is applied if its score *exceeds* its threshold. Thresholds have the dtype of the scores and
lie between the lowest applied score and the next lower one, so ``scores > threshold`` reproduces
the counted result exactly, even between adjacent floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from prototag.arrays import Array
from prototag.evaluation.metrics import f1_of_means, top_tags
from prototag.evaluation.ranking import (
    Floats,
    check_scores,
    check_tags_and_scores,
    harmonic_mean,
    mean_average_precision,
    rank_tags,
    sweep_thresholds,
)

THRESHOLD_SHRINKAGE = 50.0  # images; thresholds of rarer tags are closer to the global one
# Positives by which the labels of a tag are shrunk toward its calibrated probabilities: best of 2
# to 200 on each of IAPRTC-12, COCO and clip art with 100, 300 and 1,000 images (benchmarks/recipe).
PROBABILITY_WEIGHT = 2.0
# Rounding error of sums over many scores; smaller differences of F1 count as ties.
_F1_TOLERANCE = 1e-12


def best_global_threshold(Y: Any, scores: ArrayLike) -> tuple[float, float]:
    """Select the global threshold with the best F1 of the means by exact search.

    Parameters
    ----------
    Y : array or sparse matrix of shape (n, t), 0/1
    scores : array of shape (n, t)

    Returns
    -------
    threshold : float
        The highest of ties, which applies the fewest tags. If no tag occurs, it is the highest
        score, which applies no tag.
    f1 : float
        The F1 of the means of ``scores > threshold``.
    """
    tags, scores = check_tags_and_scores(Y, scores)
    best = 0.0
    cut = None
    occurring = tags.any(axis=0).mean()
    for cuts in sweep_thresholds(tags, scores):
        f1 = harmonic_mean(cuts.precision, cuts.recall)
        if f1.max() > best + _F1_TOLERANCE:
            first = int(np.argmax(f1 >= f1.max() - _F1_TOLERANCE))
            best = float(f1[first])
            cut = cuts.scores[first]
        if harmonic_mean(cuts.ceiling, occurring) <= best:
            break  # not even perfect lower scores could improve F1
    if cut is None:
        return float(scores.max()), 0.0
    lower = np.max(scores, where=scores < cut, initial=-np.inf)
    return float(threshold_between(lower, cut)), best


def best_tag_thresholds(Y: Any, scores: ArrayLike, *, shrink: float = 0.0) -> Floats:
    """Select the threshold of each tag with the best F1 of this tag by exact search.

    Parameters
    ----------
    Y : array or sparse matrix of shape (n, t), 0/1
    scores : array of shape (n, t)
    shrink : float, at least 0
        Shrinks the threshold of a tag with p images toward the global one with weight
        ``shrink / (shrink + p)``, because thresholds from few images are noisy.

    Returns
    -------
    array of shape (t,), of the dtype of the scores
        The highest of ties; the global threshold for tags without images.
    """
    if not 0 <= shrink < np.inf:
        raise ValueError(f"shrink={shrink}: give 0 (no shrinking) or a positive number of images.")
    tags, scores = check_tags_and_scores(Y, scores)
    p = np.count_nonzero(tags, axis=0)
    general = 0.0
    if shrink > 0 or not p.all():
        general, _ = best_global_threshold(tags, scores)
    own = np.full(len(p), general, dtype=scores.dtype)
    rankings = rank_tags(tags, scores)
    for tag in np.flatnonzero(p):
        own[tag] = threshold_between(rankings.lower[tag], rankings.best[tag])
    if shrink == 0:
        return own
    weight = shrink / (shrink + p)
    return np.asarray(weight * general + (1 - weight) * own, scores.dtype)


def expected_f1_thresholds(Y: Any, scores: ArrayLike, probabilities: ArrayLike) -> Floats:
    """Select the threshold of each tag with the best expected F1 of this tag on new images.

    The labels of a tag with few images say little about its best threshold, and calibrated
    probabilities say nothing of its own. So the rate of positives at each score is estimated by
    both: labels have the weight ``p / (p + PROBABILITY_WEIGHT)`` for a tag with p images.

    Parameters
    ----------
    Y : array or sparse matrix of shape (n, t), 0/1
    scores : array of shape (n, t)
    probabilities : array of shape (n, t)
        Calibrated probabilities of the pairs.

    Returns
    -------
    array of shape (t,), of the dtype of the scores
        The highest of ties.
    """
    tags, scores = check_tags_and_scores(Y, scores)
    p = np.count_nonzero(tags, axis=0)
    weight = PROBABILITY_WEIGHT / (PROBABILITY_WEIGHT + p)
    rates = weight * np.asarray(probabilities) + (1 - weight) * tags
    selected = np.empty(len(p), scores.dtype)
    applied = np.arange(1, len(scores) + 1)
    for tag, column in enumerate(scores.T):
        order = np.argsort(-column, kind="stable")
        ordered = column[order]
        hits = np.cumsum(rates[order, tag])
        f1 = 2 * hits / (applied + hits[-1])
        f1[:-1][ordered[:-1] == ordered[1:]] = 0  # a threshold does not separate equal scores
        best = int(np.argmax(f1 >= f1.max() - _F1_TOLERANCE))
        lower = ordered[best + 1] if best + 1 < len(ordered) else scores.dtype.type(-np.inf)
        selected[tag] = threshold_between(lower, ordered[best])
    return selected


def choose_threshold(
    threshold: str | float,
    Y: Any,
    scores: ArrayLike,
    *,
    shrink: float = 0.0,
    probabilities: ArrayLike | None = None,
) -> float | Floats:
    """Select thresholds as an estimator's ``threshold`` parameter says.

    Parameters
    ----------
    threshold : {"global", "per_tag"} or float
        One value with the best F1 of the means; one for each tag with that tag's best F1; or a
        number, which is returned as it is.
    Y, scores, shrink
        As in :func:`best_tag_thresholds`.
    probabilities : array of shape (n, t), optional
        Select the thresholds of tags by :func:`expected_f1_thresholds`.
    """
    if threshold == "per_tag" and probabilities is not None:
        return expected_f1_thresholds(Y, scores, probabilities)
    if threshold == "per_tag":
        return best_tag_thresholds(Y, scores, shrink=shrink)
    if threshold == "global":
        return float(best_global_threshold(Y, scores)[0])
    return float(threshold)


def assign_tags(
    scores: ArrayLike, *, threshold: ArrayLike | None = None, count: int | None = None
) -> sparse.csr_array:
    """Assign tags to images.

    Parameters
    ----------
    scores : array of shape (n, t)
    threshold : float, or array of shape (t,), optional
        Assign the tags whose score exceeds it. Infinity disables a tag.
    count : int, optional
        Assign the ``count`` best tags of each image; with a threshold, only those above it.

    Returns
    -------
    CSR array of shape (n, t), int8
    """
    if threshold is None:
        if count is None:
            raise ValueError("Neither threshold nor count was given: give one of them, or both.")
        return top_tags(scores, count)
    scores = check_scores(scores)
    n, t = scores.shape
    limits = np.asarray(threshold)
    if limits.shape not in ((), (t,)) or limits.dtype.kind not in "iuf" or np.isnan(limits).any():
        raise ValueError(
            f"threshold has shape {limits.shape} and dtype {limits.dtype}: give one number for all "
            f"tags or {t} numbers, one for each; none of them NaN."
        )
    applied = scores > limits
    if count is not None:
        applied &= top_tags(scores, count).toarray().astype(bool)
    rows, indices = np.nonzero(applied)
    indptr = np.searchsorted(rows, np.arange(n + 1))
    ones = np.ones(len(indices), dtype=np.int8)
    return sparse.csr_array((ones, indices.astype(np.int32), indptr.astype(np.int32)), shape=(n, t))


def threshold_between(lower: Any, upper: Any) -> Any:
    """Return a number with lower <= number < upper, halfway if possible; lower may be -inf."""
    if np.isneginf(lower):
        # All scores are above the threshold; leave a margin for scores of other images.
        with np.errstate(over="ignore"):
            return upper - np.maximum(abs(upper), upper.dtype.type(1))
    half = lower / 2 + upper / 2
    return half if lower <= half < upper else lower


def validation_score(Y: Any, scores: Array, *, five: bool = False) -> float:
    """Compute the criterion of hyperparameter selection from held-out scores.

    It is F1 at the best threshold plus mean average precision; with ``five`` also F1 with the top
    five tags of each image, if there are more than five tags.
    """
    value = best_global_threshold(Y, scores)[1]
    value += mean_average_precision(Y, scores)
    if five and scores.shape[1] > 5:
        value += f1_of_means(Y, top_tags(scores, 5))
    return value
