"""How sure a difference is: test images drawn again, the same ones for both annotators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Floats
from prototag.evaluation.metrics import harmonic_mean
from prototag.research.experiments.trials import Trial

Counts = npt.NDArray[np.float64]


class Difference(NamedTuple):
    """One minus the other, and 95 % of what other test images would give."""

    f1: float
    f1_low: float
    f1_high: float
    map: float
    map_low: float
    map_high: float


def draws(n: int, count: int, seed: int) -> Counts:
    """How often each of n images is drawn, count x n; the first row is all images once."""
    rng = np.random.default_rng(seed)
    drawn = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(count)]
    return np.array([np.ones(n), *drawn], np.float64)


def figures(Y: sparse.csr_array, trials: Sequence[Trial], drawn: Counts) -> tuple[Counts, Counts]:
    """F1 and mean average precision for each draw, each the mean over trials (seeds)."""
    true = np.asarray(Y.toarray() > 0)
    f1 = np.mean([_f1(true, trial.scores > trial.threshold, drawn) for trial in trials], axis=0)
    precision = np.mean([_map(true, trial.scores, drawn) for trial in trials], axis=0)
    return f1, precision


def difference(ours: tuple[Counts, Counts], theirs: tuple[Counts, Counts]) -> Difference:
    """Of two annotators' :func:`figures` for the same draws."""
    found: list[float] = []
    for one, other in zip(ours, theirs, strict=True):
        gap = one - other
        found += [float(gap[0]), *(float(v) for v in np.percentile(gap[1:], [2.5, 97.5]))]
    return Difference(*found)


def _f1(true: npt.NDArray[np.bool_], given: npt.NDArray[np.bool_], drawn: Counts) -> Counts:
    hits, all_given, present = (
        drawn @ part.astype(np.float64) for part in (true & given, given, true)
    )
    precision = np.divide(hits, all_given, out=np.zeros_like(hits), where=all_given > 0)
    recall = np.divide(hits, present, out=np.zeros_like(hits), where=present > 0)
    return np.asarray(harmonic_mean(precision.mean(axis=1), recall.mean(axis=1)))


def _map(true: npt.NDArray[np.bool_], scores: Floats, drawn: Counts) -> Counts:
    """Equal scores count together, as in :func:`prototag.evaluation.metrics.average_precision`."""
    order = np.argsort(-scores, axis=0, kind="stable")
    hits = np.take_along_axis(true, order, axis=0)
    sorted_scores = np.take_along_axis(scores, order, axis=0)
    last = np.ones(scores.shape, bool)  # of a run of equal scores
    last[:-1] = sorted_scores[:-1] != sorted_scores[1:]
    n = len(scores)
    end = np.where(last, np.arange(n)[:, None], n)
    end = np.minimum.accumulate(end[::-1], axis=0)[::-1]
    means = np.empty(len(drawn))
    for number, times in enumerate(drawn):
        weight = times[order]
        found = weight * hits
        total = np.cumsum(weight, axis=0)
        right = np.cumsum(found, axis=0)
        at_end, right_at_end = (np.take_along_axis(part, end, axis=0) for part in (total, right))
        precision = np.divide(right_at_end, at_end, out=np.zeros_like(total), where=at_end > 0)
        present = right[-1]
        by_tag = (found * precision).sum(axis=0)[present > 0] / present[present > 0]
        means[number] = by_tag.mean() if by_tag.size else 0.0
    return means
