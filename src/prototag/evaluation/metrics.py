"""Metrics of tags and scores: per tag, per image, and over all thresholds.

The F1 of the image annotation literature is the harmonic mean of *mean per-tag precision* and *mean
per-tag recall* over all tags. It is not the macro F1 of scikit-learn, which averages per-tag F1.
Here a tag that was never predicted has precision 0 and a tag that never occurs has recall 0.

Tags are n x t and 0/1, dense or sparse; scores are n x t and dense. A tag is applied if its score
*exceeds* the threshold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from prototag import _kernels
from prototag.evaluation.ranking import (
    Bools,
    Counts,
    check_same_shape,
    check_scores,
    check_tags,
    check_tags_and_scores,
    safe_ratio,
    sweep_thresholds,
)
from prototag.evaluation.ranking import average_precision as average_precision
from prototag.evaluation.ranking import harmonic_mean as harmonic_mean
from prototag.evaluation.ranking import mean_average_precision as mean_average_precision

Rates = NDArray[np.float64]


def tag_precision_recall(Y_true: Any, Y_pred: Any) -> tuple[Rates, Rates]:
    """Compute precision and recall of each tag.

    Parameters
    ----------
    Y_true, Y_pred : array or sparse matrix of shape (n, t), 0/1

    Returns
    -------
    precision : array of shape (t,)
        0 for a tag never predicted.
    recall : array of shape (t,)
        0 for a tag that never occurs.
    """
    true, predicted = _check_tag_pair(Y_true, Y_pred)
    hits = np.count_nonzero(true & predicted, axis=0)
    applied = np.count_nonzero(predicted, axis=0)
    present = np.count_nonzero(true, axis=0)
    return safe_ratio(hits, applied), safe_ratio(hits, present)


def image_precision_recall_f1(Y_true: Any, Y_pred: Any) -> tuple[Rates, Rates, Rates]:
    """Compute precision, recall and F1 of each image, of shape (n,); 0 where undefined."""
    true, predicted = _check_tag_pair(Y_true, Y_pred)
    hits = np.count_nonzero(true & predicted, axis=1)
    applied = np.count_nonzero(predicted, axis=1)
    present = np.count_nonzero(true, axis=1)
    return (
        safe_ratio(hits, applied),
        safe_ratio(hits, present),
        safe_ratio(2 * hits, applied + present),
    )


def _check_tag_pair(Y_true: Any, Y_pred: Any) -> tuple[Bools, Bools]:
    true = check_tags(Y_true, name="Y_true")
    predicted = check_tags(Y_pred, name="Y_pred")
    check_same_shape(true, predicted, "the predicted tags")
    return true, predicted


def f1_of_means(Y_true: Any, Y_pred: Any) -> float:
    """Compute the harmonic mean of mean precision and mean recall over all tags."""
    precision, recall = tag_precision_recall(Y_true, Y_pred)
    return float(harmonic_mean(precision.mean(), recall.mean()))


def n_plus(Y_true: Any, Y_pred: Any) -> int:
    """Count the tags that are recalled at least once."""
    return int(np.count_nonzero(tag_precision_recall(Y_true, Y_pred)[1]))


class Curve(NamedTuple):
    """Precision-recall curve of one threshold for all tags."""

    thresholds: Rates  # inclusive
    precision: Rates  # mean over tags
    recall: Rates  # mean over tags
    area: float
    micro_precision: Rates  # over all pairs of image and tag
    micro_recall: Rates
    micro_area: float


def precision_recall_curve(Y_true: Any, scores: ArrayLike, *, points: int = 1000) -> Curve:
    """Compute the precision-recall curve of the collection, and the area under it.

    The area sums precision times the gain in recall over *all* thresholds, like average precision.
    The curve has about ``points`` of them, evenly spaced in the number of applied tags, with the
    first and the last.
    """
    true, scores = check_tags_and_scores(Y_true, scores)
    positives = max(int(np.count_nonzero(true)), 1)
    spacing = max(1, scores.size // points)
    area = 0.0
    micro_area = 0.0
    recall_before = 0.0
    micro_before = 0.0
    kept: list[Rates] = []
    for cuts in sweep_thresholds(true, scores):
        micro_precision = cuts.hits / cuts.n_applied
        micro_recall = cuts.hits / positives
        area += float(np.diff(cuts.recall, prepend=recall_before) @ cuts.precision)
        micro_area += float(np.diff(micro_recall, prepend=micro_before) @ micro_precision)
        recall_before = cuts.recall[-1]
        micro_before = micro_recall[-1]
        chosen = np.append(np.diff(cuts.n_applied // spacing) > 0, True)
        chosen[0] |= not kept
        rows = (cuts.scores, cuts.precision, cuts.recall, micro_precision, micro_recall)
        kept.append(np.array([row[chosen] for row in rows], dtype=np.float64))
    thresholds, precision, recall, micro_precision, micro_recall = np.concatenate(kept, axis=1)
    return Curve(thresholds, precision, recall, area, micro_precision, micro_recall, micro_area)


class Distributions(NamedTuple):
    """Histograms of the scores of present and absent tags."""

    edges: Rates
    present: Counts
    absent: Counts


def score_distributions(Y_true: Any, scores: ArrayLike, bins: int = 50) -> Distributions:
    """Compute histograms of the scores of present and absent tags with common edges.

    This is the margin figure of the paper: a good loss separates the two.
    """
    true, scores = check_tags_and_scores(Y_true, scores)
    limits = float(scores.min()), float(scores.max())
    every, edges = np.histogram(scores, bins=bins, range=limits)
    present, _ = np.histogram(scores[true], bins=bins, range=limits)
    return Distributions(edges, present, every - present)


def reliability(Y: Any, probabilities: ArrayLike, bins: int = 10) -> tuple[Rates, Rates, Rates]:
    """Compute a reliability diagram: expected and observed precision, and pairs, in equal bins.

    Empty bins have NaN.
    """
    true, expected = check_tags_and_scores(Y, probabilities)
    step = np.minimum((expected.ravel() * bins).astype(np.intp), bins - 1)
    pairs = np.bincount(step, minlength=bins).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return (
            np.bincount(step, expected.ravel(), minlength=bins) / pairs,
            np.bincount(step, true.ravel(), minlength=bins) / pairs,
            pairs,
        )


def top_tags(scores: ArrayLike, count: int) -> sparse.csr_array:
    """Assign each image its ``count`` highest-scoring tags; ties take the first tags.

    Returns
    -------
    CSR array of shape (n, t), int8
        ``count`` ones in each row.
    """
    scores = check_scores(scores)
    n, t = scores.shape
    if not 1 <= count <= t:
        raise ValueError(f"count={count} tags per image of {t} tags: give a number from 1 to {t}.")
    indices = np.empty((n, count), dtype=np.int32)
    _kernels.top_tags(np.ascontiguousarray(scores), indices)
    indptr = np.arange(0, n * count + 1, count)
    return sparse.csr_array((np.ones(n * count, np.int8), indices.ravel(), indptr), shape=(n, t))


def frequency_buckets(Y_train: Any) -> dict[str, Counts]:
    """Divide the tags into thirds by frequency: columns of rare, middle and frequent tags."""
    by_frequency = np.argsort(np.count_nonzero(check_tags(Y_train), axis=0), kind="stable")
    return dict(zip(("rare", "middle", "frequent"), np.array_split(by_frequency, 3), strict=True))


def report(
    Y_true: Any,
    scores: ArrayLike,
    threshold: ArrayLike,
    *,
    top_count: int = 5,
    Y_train: Any = None,
) -> dict[str, float]:
    """Compute metrics by both protocols of the literature: by threshold, and by number of tags.

    Parameters
    ----------
    Y_true : array or sparse matrix of shape (n, t), 0/1
    scores : array of shape (n, t)
    threshold : float, or array of shape (t,)
        A tag is applied if its score exceeds it.
    top_count : int
        Tags per image of the second protocol (all tags, where there are fewer).
    Y_train : array or sparse matrix of shape (n_train, t), 0/1, optional
        Adds the F1 of the means within the rare, middle and frequent thirds of the training tags.

    Returns
    -------
    dict of floats
        ``threshold_`` and ``top_`` with each of ``precision``, ``recall``, ``f1``, ``n_plus``, and
        ``f1_rare``, ``f1_middle``, ``f1_frequent`` given ``Y_train``; ``mean_average_precision``.
    """
    true, scores = check_tags_and_scores(Y_true, scores)
    buckets = {} if Y_train is None else frequency_buckets(Y_train)
    n_tags = sum(map(len, buckets.values()))
    if buckets and n_tags != true.shape[1]:
        raise ValueError(f"Y_train has {n_tags} tags, Y_true {true.shape[1]}: give the same tags.")
    predictions: dict[str, Any] = {
        "threshold": scores > np.asarray(threshold),
        "top": top_tags(scores, min(top_count, true.shape[1])),
    }
    result: dict[str, float] = {}
    for protocol, predicted in predictions.items():
        precision, recall = tag_precision_recall(true, predicted)
        result[f"{protocol}_precision"] = float(precision.mean())
        result[f"{protocol}_recall"] = float(recall.mean())
        result[f"{protocol}_f1"] = float(harmonic_mean(precision.mean(), recall.mean()))
        result[f"{protocol}_n_plus"] = float(np.count_nonzero(recall))
        for bucket, tags in buckets.items():
            if tags.size:
                means = precision[tags].mean(), recall[tags].mean()
                result[f"{protocol}_f1_{bucket}"] = float(harmonic_mean(*means))
    result["mean_average_precision"] = mean_average_precision(true, scores)
    return result
