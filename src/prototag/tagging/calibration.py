"""The last stage of a fit: thresholds, and calibrated probabilities for new images.

One increasing function serves all tags: with few images a logistic curve below a ceiling, with many
an isotonic regression. The ceiling is below 1 because people forget tags: if 40% of the labels are
missing, even the best score is a positive label in at most 60% of the cases. Each tag has a
log-odds offset, shrunk toward zero when it has few positives. The offset also corrects the
frequency of the tag: tags are selected for being frequent in the training images, and are less
frequent in new ones (regression to the mean).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from prototag.arrays import Array, Doubles, Floats, Rows
from prototag.evaluation import ranking, thresholds
from prototag.evaluation.leave_one_out import correct_loo_bias, shrunk_loo_scores
from prototag.evaluation.ranking import check_tags_and_scores, safe_ratio
from prototag.tagging.fit_result import Thresholded
from prototag.tagging.model import MIN_PROBABILITY, Calibration
from prototag.tagging.task import Task

MAX_BINS = 500  # bins of scores before isotonic regression
MIN_POSITIVES_PER_BIN = 20  # with fewer, the probability of the highest scores is too noisy
CURVE_WEIGHT = 3.0  # pairs by which each bin is shrunk toward the logistic curve
CEILINGS = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0])
CEILING_PRIOR = 0.7  # mean of the Gaussian prior of the ceiling
CEILING_PRIOR_WEIGHT = 10.0  # its log density falls by so much times the squared distance
SLOPE_PENALTY = 3.0  # of the curve's slope, which a handful of positives would overestimate
OFFSET_PRIOR = 10.0  # positives by which a tag's offset is shrunk toward zero
# Shrinkage of a tag's frequency, in images; measured on subsets of IAPRTC-12 and COCO: 0.5 to 1.4.
FREQUENCY_SHRINKAGE = 1.0
F1_SHRINKAGE = 0.75  # the same in the estimate of F1
PRECISION_PRIOR = 1.0  # pairs of the mean precision that are added to each tag's precision
N_FOLDS = 5  # of the out-of-fold probabilities


def fit(Y: Any, scores: npt.ArrayLike) -> Calibration:
    """Fit a calibration to tags (n x t, 0/1) and held-out scores."""
    return _fit_scores(*check_tags_and_scores(Y, scores))


def _fit_scores(true: Array, scores: Array) -> Calibration:
    if not true.any() or not len(true):
        offset = np.zeros(true.shape[1])
        return Calibration(np.zeros(1), np.array([MIN_PROBABILITY]), offset)
    knots, rates = _fit_common_curve(true, scores)
    common = np.interp(scores, knots, rates)
    positives = (common * true).sum(axis=0)
    expected = (common * common).sum(axis=0)
    return Calibration(knots, rates, tag_offsets(positives, expected, true.sum(axis=0)))


def tag_offsets(positives: npt.ArrayLike, expected: npt.ArrayLike, count: npt.ArrayLike) -> Doubles:
    """Return the log-odds offset of each tag, with its frequency shrunk.

    ``positives`` and ``expected`` are sums of the common probability, over the positive pairs and
    weighted by the probability itself: they agree if the common curve fits the tag. ``count`` is
    the number of positives.
    """
    shrunk_count = np.maximum(np.subtract(count, FREQUENCY_SHRINKAGE), 0.25)
    frequency_ratio = shrunk_count / np.maximum(count, 1)
    offset = np.log(np.add(positives, OFFSET_PRIOR) / np.add(expected, OFFSET_PRIOR))
    return np.asarray(offset + np.log(frequency_ratio))


def fit_counts(value: Doubles, n_scores: Array, n_positives: Array) -> Calibration:
    """Fit a calibration to histograms of the scores.

    ``n_scores`` and ``n_positives`` count the pairs of each tag (tags x bins); ``value`` has the
    increasing mean score of each bin.
    """
    size = n_scores.sum(axis=0).astype(np.float64)
    hits = n_positives.sum(axis=0).astype(np.float64)
    total = hits.sum()
    if not total:
        return Calibration(np.zeros(1), np.array([MIN_PROBABILITY]), np.zeros(len(n_scores)))
    bins = _bin_count(total)
    # A coarse bin ends with the fine bin that completes its share of the positives.
    coarse = np.minimum((hits.cumsum() - hits) * bins // total, bins - 1).astype(np.intp)
    start = np.flatnonzero(np.diff(coarse, prepend=-1))
    pairs = np.add.reduceat(size, start)
    positives = np.add.reduceat(hits, start)
    mean = np.add.reduceat(size * value, start) / np.maximum(pairs, 1)
    knots, rates = _isotonic(mean[pairs > 0], positives[pairs > 0], pairs[pairs > 0])
    common = np.interp(value, knots, rates)
    count = n_positives.sum(axis=1)
    offset = tag_offsets(n_positives @ common, n_scores @ common**2, count)
    return Calibration(knots, rates, offset)


def _bin_count(positives: float) -> int:
    return int(np.clip(positives // MIN_POSITIVES_PER_BIN, min(5, positives), MAX_BINS))


def _fit_common_curve(true: Array, scores: Array) -> tuple[Doubles, Doubles]:
    """Return increasing knots and their probabilities, for all tags together.

    Bins have equal numbers of *positive* pairs, so that the few high scores get bins of their own.
    """
    value, positive = ranking.sort_scores(true, scores)
    positions = np.flatnonzero(positive)
    total = len(positions)
    bins = _bin_count(total)
    n_before = -(np.arange(bins) * -total // bins)  # positive pairs before each bin
    start = np.where(n_before > 0, positions[n_before - 1] + 1, 0)
    size = np.diff(start, append=len(value)).astype(np.float64)
    hits = np.diff(n_before, append=total).astype(np.float64)
    mean = np.add.reduceat(value, start, dtype=np.float64) / size
    return _isotonic(mean, hits, size)


def _isotonic(mean: Doubles, hits: Doubles, size: Doubles) -> tuple[Doubles, Doubles]:
    """Fit an isotonic regression to bins: their mean scores, positive pairs and pairs."""
    from sklearn.isotonic import isotonic_regression

    curve = _logistic_curve(mean, hits, size)
    rate = (hits + CURVE_WEIGHT * curve) / (size + CURVE_WEIGHT)
    increasing = isotonic_regression(
        rate, sample_weight=size + CURVE_WEIGHT, y_min=MIN_PROBABILITY, y_max=1 - MIN_PROBABILITY
    )
    return mean, np.asarray(increasing, np.float64)


def _logistic_curve(x: Doubles, hits: Doubles, size: Doubles) -> Doubles:
    """Fit logistic curves below all ceilings, and average them by their posterior weights.

    With few pairs the likelihood hardly distinguishes the ceilings, and the average reflects that.
    """
    center = np.average(x, weights=size)
    deviation = np.sqrt(np.average((x - center) ** 2, weights=size)) or 1.0
    design = np.stack([np.ones_like(x), (x - center) / deviation], axis=1)
    fits = [_fit_below_ceiling(ceiling, design, hits, size) for ceiling in CEILINGS]
    log_likelihood = np.array([one_likelihood for one_likelihood, _ in fits])
    evidence = log_likelihood - CEILING_PRIOR_WEIGHT * (CEILINGS - CEILING_PRIOR) ** 2
    weight = np.exp(evidence - evidence.max())
    return np.asarray(np.average([curve for _, curve in fits], axis=0, weights=weight))


def _fit_below_ceiling(
    ceiling: float, design: Doubles, hits: Doubles, size: Doubles
) -> tuple[float, Doubles]:
    """Fit a logistic curve times a ceiling by Fisher scoring; return its log likelihood, too."""
    rate = np.clip(hits.sum() / size.sum() / ceiling, 1e-4, 0.9)
    beta = np.array([logit(rate), 1.0])
    penalty = np.array([0.0, SLOPE_PENALTY])
    for _ in range(60):
        curve = expit(design @ beta)
        p = np.clip(ceiling * curve, 1e-9, 1 - 1e-9)
        derivative = ceiling * curve * (1 - curve)
        gradient = design.T @ ((hits - size * p) / (p * (1 - p)) * derivative) - penalty * beta
        weight = size * derivative**2 / (p * (1 - p))
        information = (design * weight[:, None]).T @ design + np.diag(penalty + 1e-9)
        step = np.clip(np.linalg.solve(information, gradient), -2, 2)
        beta = beta + step
        if np.abs(step).max() < 1e-7:
            break
    beta[1] = max(beta[1], 0.0)
    p = np.clip(ceiling * expit(design @ beta), 1e-9, 1 - 1e-9)
    log_likelihood = hits @ np.log(p) + (size - hits) @ np.log(1 - p)
    return float(log_likelihood - SLOPE_PENALTY * beta[1] ** 2 / 2), np.asarray(p)


def calibrate(task: Task, raw: Floats, scale: Floats, threshold: str | float) -> Thresholded:
    """Fit the calibration and select thresholds on raw held-out scores; estimate both by folds.

    Thresholds are compared with scores that include the factors of the tags.
    """
    scores = task.rank_unlabeled_last(raw)
    shrunk = shrunk_loo_scores(task.Y, scores)
    true, shrunk = check_tags_and_scores(task.Y, shrunk)

    def fit_both(rows: Rows | slice) -> tuple[Calibration, Any]:
        calibration = _fit_scores(true[rows], shrunk[rows])
        limits = thresholds.choose_threshold(
            threshold, true[rows], shrunk[rows], probabilities=calibration(shrunk[rows])
        )
        return calibration, limits if isinstance(threshold, str) else limits / scale

    n = len(true)
    fold = np.random.default_rng(task.seed).permutation(n) % min(N_FOLDS, n)
    probabilities = np.empty(shrunk.shape)
    applied = np.zeros(shrunk.shape, bool)
    for number in range(int(fold.max()) + 1):
        inside = np.flatnonzero(fold == number)
        calibration, limits = fit_both(np.flatnonzero(fold != number))
        probabilities[inside] = calibration(shrunk[inside])
        applied[inside] = shrunk[inside] > limits
    calibration, limits = fit_both(slice(None))
    selected = np.asarray(limits * scale, np.float64) if isinstance(threshold, str) else threshold
    return Thresholded(
        threshold=selected,
        calibration=calibration,
        probabilities=probabilities,
        f1=estimate_f1((applied & true).sum(axis=0), applied.sum(axis=0), true.sum(axis=0)),
        mean_average_precision=ranking.mean_average_precision(task.Y, scores),
        auc=ranking.tag_auc(true, correct_loo_bias(task.Y, scores)),
    )


def estimate_f1(hits: Array, applied: Array, count: Array) -> float:
    """Estimate F1 of the means on new images from counts of each tag on held-out images.

    ``applied`` counts the images that a tag is applied to, ``hits`` those of them that have it, and
    ``count`` all that have it. Frequencies are shrunk: new images have a selected tag less often.
    """
    excess = np.minimum(F1_SHRINKAGE / np.maximum(count, 1), 1) * hits
    n_correct = hits - excess
    n_applied = applied - excess
    mean_precision = safe_ratio(n_correct.sum(), n_applied.sum())
    precision = (n_correct + PRECISION_PRIOR * mean_precision) / (n_applied + PRECISION_PRIOR)
    return float(ranking.harmonic_mean(precision.mean(), safe_ratio(hits, count).mean()))
