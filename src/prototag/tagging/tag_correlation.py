"""Relations between tags, and a factor for each tag among the tags of an image.

Relations are a ridge regression of the residuals of held-out scores on the scores of all tags. The
factors raise tags with low scores and rare tags, so that the five best tags of an image are a
useful selection.
"""

from __future__ import annotations

import numpy as np

from prototag.arrays import Floats
from prototag.evaluation import metrics
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.tagging.fit_result import Related
from prototag.tagging.loo_ridge import MIN_DUAL_DENOMINATOR, ridge
from prototag.tagging.model import Relations
from prototag.tagging.task import Task

RELATION_PENALTY = 10.0  # of the ridge, in images whose scores are wrong by 1
RELATION_SHRINKAGE = 100.0  # images at which relations have half their weight
MIN_RELATIVE_LEVEL = 0.05  # of the mean level; tags with lower scores are not raised further
LEVELS = (0.0, 0.3, 0.6, 1.0, 1.3, 1.7)
BOOSTS = (-0.2, 0.0, 0.2, 0.4)
DEFAULT_LEVEL = 1.0  # if no image is fully labeled, so that nothing can be selected
TOP = 5  # tags of an image that the factors are selected for


def relate_tags(
    task: Task, scores: Floats, weight: float, level: float | None, boost: float | None
) -> Related:
    """Fit relations between tags on held-out scores, then select the factors of the tags.

    The penalty does not grow with n, because few images are weak evidence of tag correlations. It
    is not selected on these scores, which understate the gain: leaving an image out moves the
    scores of its neighbors away from its tags, and the regression fits that, too.
    """
    n, t = task.targets.shape
    h = np.float32(weight * n / (n + RELATION_SHRINKAGE))
    residuals = task.targets - scores
    if 2 * n < t:
        coef, intercept, predictions = _low_rank_ridge(scores, residuals, RELATION_PENALTY, h)
    else:
        fitted = ridge(scores, residuals, RELATION_PENALTY / n)
        coef = np.eye(t, dtype=np.float32) + h * fitted.coef
        intercept = fitted.intercept
        predictions = fitted.loo_predictions
    raw = scores + h * predictions
    level, boost, tag_scale = select_factors(task, correct_loo_bias(task.Y, raw), level, boost)
    relations = Relations(np.ascontiguousarray(coef), h * intercept)
    return Related(relations, level, boost, tag_scale, raw)


def _low_rank_ridge(
    X: Floats, T: Floats, penalty: float, h: np.float32
) -> tuple[Floats, Floats, Floats]:
    """Fit the ridge for fewer images than tags; return its t x t coefficients as two factors.

    They are ``X.T @ dual`` of centered X, which takes 2 n t numbers; with 20,000 tags the product
    would take 1.6 GB.
    """
    center = X.mean(axis=0, dtype=np.float64)
    target_mean = T.mean(axis=0, dtype=np.float64)
    centered = X - center
    targets = T - target_mean
    inverse = np.linalg.inv(centered @ centered.T / penalty + np.eye(len(centered)))
    dual = inverse @ targets
    denominator = np.diag(inverse) - 1 / len(centered)  # 1 - H_ii
    predictions = targets - dual / np.maximum(denominator, MIN_DUAL_DENOMINATOR)[:, None]
    predictions = predictions + target_mean
    intercept = target_mean - (center @ centered.T) @ dual / penalty
    coef = np.concatenate([centered, float(h) / penalty * dual])
    return coef.astype(np.float32), intercept.astype(np.float32), predictions.astype(np.float32)


def select_factors(
    task: Task, scores: Floats, level: float | None, boost: float | None
) -> tuple[float, float, Floats]:
    """Select level and boost, and return them with the factors of the tags.

    ``scores`` are held-out scores, corrected for the bias of leave-one-out. The criterion is F1
    with five tags on each fully labeled image.
    """
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
    return (*best, factors(*best))
