"""Scores become probabilities: the rising step function that fits left-out images best.

One function serves all tags: a rare tag has too few images for one of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prototag.evaluation.cuts import as_pair
from prototag.tagging.model import Calibration

BINS = 500  # groups of scores before they are made to rise


def fit(Y: Any, scores: npt.ArrayLike) -> Calibration:
    """Knots and their probabilities, both rising, from tags (n x t, 0/1) and out-of-fold scores.

    Scores are cut into groups with equally many *right* pairs of image and tag, so that the high
    scores, of which there are few, are told apart; neighbouring groups whose shares of right pairs
    do not rise are joined (isotonic regression).
    """
    true, values = as_pair(Y, scores)
    order = np.argsort(values, axis=None, kind="stable")
    value, right = values.ravel()[order].astype(np.float64), true.ravel()[order]
    rank = np.cumsum(right)
    bins = min(BINS, max(1, int(rank[-1])))
    group = np.minimum((rank - right) * bins // max(int(rank[-1]), 1), bins - 1)
    size = np.bincount(group, minlength=bins).astype(np.float64)
    mean = np.bincount(group, value, minlength=bins)[size > 0] / size[size > 0]
    share = np.bincount(group, right, minlength=bins)[size > 0] / size[size > 0]
    from sklearn.isotonic import isotonic_regression

    rising = isotonic_regression(share, sample_weight=size[size > 0], y_min=0, y_max=1)
    return Calibration(mean, np.asarray(rising, np.float64))
