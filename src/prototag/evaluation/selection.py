"""How good left-out scores are, in one number: what choices inside a fit are made by."""

from __future__ import annotations

from typing import Any

from prototag.arrays import Array
from prototag.evaluation import metrics, thresholds


def quality(Y: Any, scores: Array, *, five: bool = False) -> float:
    """F1 with the best threshold plus mean average precision: how tags and rankings come out.

    With ``five`` also F1 with five tags on each image, where there are more than five tags.
    """
    value = thresholds.best_global_threshold(Y, scores)[1]
    value += metrics.mean_average_precision(Y, scores)
    if five and scores.shape[1] > 5:
        value += metrics.f1_of_means(Y, metrics.top(scores, 5))
    return value
