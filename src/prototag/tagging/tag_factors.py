"""A factor for each tag, which orders the tags of an image.

Factors raise tags with low scores and rare tags, so that the five best tags of an image are a
useful selection. Thresholds include them, so that they change nothing else.
"""

from __future__ import annotations

import numpy as np

from prototag.arrays import Floats
from prototag.evaluation import metrics
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.tagging.fit_result import Factors
from prototag.tagging.task import Task

MIN_RELATIVE_LEVEL = 0.05  # of the mean level; tags with lower scores are not raised further
LEVELS = (0.0, 0.3, 0.6, 1.0, 1.3, 1.7)
BOOSTS = (-0.2, 0.0, 0.2, 0.4)
DEFAULT_LEVEL = 1.0  # if no image is fully labeled, so that nothing can be selected
TOP = 5  # tags of an image that the factors are selected for


def select_factors(task: Task, raw: Floats, level: float | None, boost: float | None) -> Factors:
    """Select level and boost on held-out scores, by F1 with five tags on fully labeled images."""
    scores = correct_loo_bias(task.Y, raw)
    count = np.asarray(task.Y.sum(axis=0)).ravel()
    mean_score = task.Y.multiply(scores).sum(axis=0) / np.maximum(count, 1)  # of a tag's images
    floor = MIN_RELATIVE_LEVEL * max(float(mean_score.mean()), MIN_RELATIVE_LEVEL)
    mean_score = np.maximum(mean_score, floor)

    def factors(level: float, boost: float) -> Floats:
        scale = mean_score.astype(np.float64) ** -level * task.frequency**-boost
        return np.asarray(scale / scale.mean(), np.float32)

    levels: tuple[float, ...] = LEVELS
    boosts: tuple[float, ...] = BOOSTS
    if task.single_label or len(count) <= TOP:
        levels = (0.0,)
        boosts = (0.0,)
    options = [
        (one_level, one_boost)
        for one_level in (levels if level is None else (level,))
        for one_boost in (boosts if boost is None else (boost,))
    ]
    rows = task.fully_labeled
    if not len(rows):
        options = [(DEFAULT_LEVEL, 0.0)]

    def validation_score(option: tuple[float, float]) -> float:
        top = metrics.top_tags(scores[rows] * factors(*option), TOP)
        return metrics.f1_of_means(task.Y[rows], top)

    best = options[0] if len(options) == 1 else max(options, key=validation_score)
    return Factors(*best, factors(*best), raw)
