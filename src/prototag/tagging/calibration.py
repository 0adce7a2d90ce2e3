"""Scores become probabilities that hold for new images, from few images too.

One rising function serves all tags: of few images a logistic curve, of many whatever step function
the scores show. Each tag moves it by how its own scores have fared, drawn to nothing where it has
few images, and by what its frequency is likely to lose: a tag that is learned because it happens to
be frequent here is rarer elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from prototag.arrays import Array, Doubles, Rows
from prototag.evaluation.cuts import as_pair
from prototag.tagging.model import CERTAIN, Calibration

BINS = 500  # groups of scores before they are made to rise
WEIGHT = 10.0  # pairs by which each group is drawn to the logistic curve
STEADY = 3.0  # right pairs by which a tag is drawn to the common curve
LUCK = 1.0  # images that a tag has by luck (measured on subsets of IAPRTC-12 and COCO: 0.5 to 1.4)
FOLDS = 5  # for probabilities of images that the calibration has not seen


class Calibrated(NamedTuple):
    """A calibration, and what it says of images that it was not learned from."""

    calibration: Calibration
    left_out: Doubles  # n x t, of each image by the other folds


def fit(Y: Any, scores: npt.ArrayLike, seed: int = 0) -> Calibrated:
    """From tags (n x t, 0/1) and scores of left-out images."""
    true, values = as_pair(Y, scores)
    n = len(true)
    fold = np.random.default_rng(seed).permutation(n) % min(FOLDS, n)
    left_out = np.empty(values.shape)
    for number in range(int(fold.max()) + 1):
        inside: Rows = np.flatnonzero(fold == number)
        outside: Rows = np.flatnonzero(fold != number)
        left_out[inside] = _fit(true[outside], values[outside])(values[inside])
    return Calibrated(_fit(true, values), left_out)


def _fit(true: Array, scores: Array) -> Calibration:
    if not true.any() or not len(true):
        offset = np.zeros(true.shape[1])
        return Calibration(np.zeros(1), np.array([CERTAIN]), offset)
    knots, rates = _common(true, scores)
    common = np.interp(scores, knots, rates)
    right, expected = (common * true).sum(axis=0), (common * common).sum(axis=0)
    count = true.sum(axis=0)
    luck = np.maximum(count - LUCK, 0.25) / np.maximum(count, 1)
    offset = np.log((right + STEADY) / (expected + STEADY)) + np.log(luck)
    return Calibration(knots, rates, offset)


def _common(true: Array, scores: Array) -> tuple[Doubles, Doubles]:
    """Knots and their probabilities, both rising, over all tags together.

    Scores are cut into groups with equally many *right* pairs of image and tag, so that the high
    scores, of which there are few, are told apart; neighbouring groups whose shares of right pairs
    do not rise are joined (isotonic regression).
    """
    from sklearn.isotonic import isotonic_regression

    order = np.argsort(scores, axis=None, kind="stable")
    value, right = scores.ravel()[order].astype(np.float64), true.ravel()[order]
    rank = np.cumsum(right)
    bins = min(BINS, int(rank[-1]))
    group = np.minimum((rank - right) * bins // int(rank[-1]), bins - 1)
    size = np.bincount(group, minlength=bins).astype(np.float64)
    used = size > 0
    size, hits = size[used], np.bincount(group, right.astype(float), minlength=bins)[used]
    mean = np.bincount(group, value, minlength=bins)[used] / size
    curve = _logistic(mean, np.asarray(hits, np.float64), size)
    share = (hits + WEIGHT * curve) / (size + WEIGHT)
    rising = isotonic_regression(
        share, sample_weight=size + WEIGHT, y_min=CERTAIN, y_max=1 - CERTAIN
    )
    return mean, np.asarray(rising, np.float64)


def _logistic(x: Doubles, hits: Doubles, size: Doubles) -> Doubles:
    """The logistic curve through groups of pairs, by Newton's method, its slope held a little."""
    middle = np.average(x, weights=size)
    spread = np.sqrt(np.average((x - middle) ** 2, weights=size)) or 1.0
    z = (x - middle) / spread
    design = np.stack([np.ones_like(z), z], axis=1)
    share = hits.sum() / size.sum()
    beta = np.array([logit(np.clip(share, 1e-4, 1 - 1e-4)), 1.0])
    for _ in range(50):
        p = expit(design @ beta)
        weight = np.maximum(size * p * (1 - p), 1e-9)
        gradient = design.T @ (hits - size * p) - [0, 1e-2 * beta[1]]
        hessian = (design * weight[:, None]).T @ design + np.diag([1e-9, 1e-2])
        step = np.linalg.solve(hessian, gradient)
        beta = beta + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-8:
            break
    return np.asarray(expit(design @ [beta[0], max(beta[1], 0.0)]))
