"""Paired bootstrap: confidence intervals of differences, by resampling test images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Floats
from prototag.evaluation.metrics import harmonic_mean, top_tags
from prototag.research.experiments.trials import Trial

Counts = npt.NDArray[np.float64]
TOP_COUNT = 5  # tags per image in the older protocol


class Figures(NamedTuple):
    """Figures of a method for each draw of test images."""

    f1: Counts
    map: Counts
    five: Counts  # F1 with five tags per image


class Difference(NamedTuple):
    """Differences of two methods with 95% confidence intervals."""

    f1: float
    f1_low: float
    f1_high: float
    map: float
    map_low: float
    map_high: float
    five: float
    five_low: float
    five_high: float


def draws(n: int, count: int, seed: int) -> Counts:
    """Count how often each of n images is drawn, (1 + count) x n; the first row is the original."""
    rng = np.random.default_rng(seed)
    drawn = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(count)]
    return np.array([np.ones(n), *drawn], np.float64)


def figures(Y: sparse.csr_array, trials: Sequence[Trial], drawn: Counts) -> Figures:
    """Return both F1 and mean average precision per draw, as means over trials (seeds)."""
    true = np.asarray(Y.toarray() > 0)
    count = min(TOP_COUNT, true.shape[1])
    f1 = [_f1(true, trial.scores > trial.threshold, drawn) for trial in trials]
    precision = [_map(true, trial.scores, drawn) for trial in trials]
    five = [_f1(true, top_tags(trial.scores, count).toarray() > 0, drawn) for trial in trials]
    return Figures(*(np.mean(values, axis=0) for values in (f1, precision, five)))


def difference(ours: Figures, theirs: Figures) -> Difference:
    """Return the differences of two methods' :func:`figures` for the same draws."""
    gaps = [_interval(one - other) for one, other in zip(ours, theirs, strict=True)]
    return Difference(*gaps[0], *gaps[1], *gaps[2])


def _interval(gaps: Counts) -> tuple[float, float, float]:
    """Return the original difference and the 2.5 and 97.5 percentiles of the resampled ones."""
    low, high = np.percentile(gaps[1:], [2.5, 97.5])
    return float(gaps[0]), float(low), float(high)


def _f1(true: npt.NDArray[np.bool_], assigned: npt.NDArray[np.bool_], drawn: Counts) -> Counts:
    hits = drawn @ (true & assigned).astype(np.float64)
    all_assigned = drawn @ assigned.astype(np.float64)
    present = drawn @ true.astype(np.float64)
    precision = np.divide(hits, all_assigned, out=np.zeros_like(hits), where=all_assigned > 0)
    recall = np.divide(hits, present, out=np.zeros_like(hits), where=present > 0)
    return np.asarray(harmonic_mean(precision.mean(axis=1), recall.mean(axis=1)))


def _map(true: npt.NDArray[np.bool_], scores: Floats, drawn: Counts) -> Counts:
    """Return mAP per draw, with ties as in `prototag.evaluation.metrics.average_precision`."""
    order = np.argsort(-scores, axis=0, kind="stable")
    hits = np.take_along_axis(true, order, axis=0)
    sorted_scores = np.take_along_axis(scores, order, axis=0)
    last = np.ones(scores.shape, bool)  # in a run of equal scores
    last[:-1] = sorted_scores[:-1] != sorted_scores[1:]
    n = len(scores)
    end = np.where(last, np.arange(n)[:, None], n)
    end = np.minimum.accumulate(end[::-1], axis=0)[::-1]
    means = np.empty(len(drawn))
    for number, times in enumerate(drawn):
        weight = times[order]
        true_weight = weight * hits
        total = np.cumsum(weight, axis=0)
        correct = np.cumsum(true_weight, axis=0)
        at_end = np.take_along_axis(total, end, axis=0)
        correct_at_end = np.take_along_axis(correct, end, axis=0)
        precision = np.divide(correct_at_end, at_end, out=np.zeros_like(total), where=at_end > 0)
        present = correct[-1]
        by_tag = (true_weight * precision).sum(axis=0)[present > 0] / present[present > 0]
        means[number] = by_tag.mean() if by_tag.size else 0.0
    return means
