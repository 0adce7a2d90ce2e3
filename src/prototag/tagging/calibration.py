"""The last two stages of a fit: from mixed scores to tags, probabilities and promises.

Scores of all tags say something of each, and each tag gets a factor by which it stands among the
best of an image. Then thresholds, and probabilities that hold for new images.

One rising function serves all tags: of few images a logistic curve below a ceiling, of many
whatever step function the scores show. The ceiling is there because people forget tags: where four
in ten are missing, not even the surest tag is right by theirs more than six times in ten. Each tag
moves the function by how its own scores have fared, drawn to nothing where it has few images, and
by what its frequency is likely to lose: a tag that is learned because it happens to be frequent
here is rarer elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from prototag.arrays import Array, Doubles, Floats, Rows
from prototag.evaluation import metrics, ranking, thresholds
from prototag.evaluation.leave_one_out import correct_loo_bias, shrunk_loo_scores
from prototag.evaluation.ranking import check_tags_and_scores, safe_ratio
from prototag.tagging.fit_result import Related, Thresholded
from prototag.tagging.loo_ridge import ROOM, ridge
from prototag.tagging.model import CERTAIN, Calibration, Relations
from prototag.tagging.task import Task

RELATIONS = 10.0  # penalty, in images whose scores are right or wrong by 1
UNRELATED = 100.0  # images by which relations of tags are held back
FAINT = 0.05  # of the mean: a tag whose images score lower is not raised further
LEVELS = (0.0, 0.3, 0.6, 1.0, 1.3, 1.7)
BOOSTS = (-0.2, 0.0, 0.2, 0.4)
ONE_LEVEL = 1.0  # where no image is known well enough to choose by
BINS = 500  # groups of scores before they are made to rise, at most
RIGHT = 20  # right pairs in a group; fewer say too little of the highest scores
WEIGHT = 3.0  # pairs by which each group is drawn to the logistic curve
CEILINGS = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0])
EXPECTED = 0.7, 10.0  # the ceiling before any score was seen, and how firmly that is held
SLOPE = 3.0  # penalty of the curve's slope, which a handful of right pairs would overstate
STEADY = 10.0  # right pairs by which a tag is drawn to the common curve
LUCK = 1.0  # images that a tag has by luck (measured on subsets of IAPRTC-12 and COCO: 0.5 to 1.4)
PRICE = 0.75  # of that luck in the F1 that is promised
UNSEEN = 1.0  # pairs of common precision that each tag is given: one never given is not all wrong
FOLDS = 5  # for probabilities of images that the calibration has not seen


class Calibrated(NamedTuple):
    """A calibration, and what it says of images that it was not learned from."""

    calibration: Calibration
    left_out: Doubles  # n x t, of each image by the other folds


def fit(Y: Any, scores: npt.ArrayLike, seed: int = 0) -> Calibrated:
    """From tags (n x t, 0/1) and scores of left-out images."""
    true, values = check_tags_and_scores(Y, scores)
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
    right = (common * true).sum(axis=0)
    expected = (common * common).sum(axis=0)
    return Calibration(knots, rates, _offset(right, expected, true.sum(axis=0)))


def _offset(right: Array, expected: Array, count: Array) -> Doubles:
    """By what each tag moves the function: what it has found beside what was to be expected."""
    luck = np.maximum(count - LUCK, 0.25) / np.maximum(count, 1)
    return np.asarray(np.log((right + STEADY) / (expected + STEADY)) + np.log(luck))


def of_counts(value: Doubles, given: Array, right: Array) -> Calibration:
    """From counts of many scores: bins (tags x bins) of about one value each, rising."""
    size = given.sum(axis=0).astype(np.float64)
    hits = right.sum(axis=0).astype(np.float64)
    total = hits.sum()
    if not total:
        return Calibration(np.zeros(1), np.array([CERTAIN]), np.zeros(len(given)))
    bins = int(np.clip(total // RIGHT, min(5, total), BINS))
    # A group ends with the bin that brings its right pairs to their share of all.
    group = np.minimum((hits.cumsum() - hits) * bins // total, bins - 1).astype(np.intp)
    start = np.flatnonzero(np.diff(group, prepend=-1))
    joined = np.add.reduceat(size, start)
    found = np.add.reduceat(hits, start)
    mean = np.add.reduceat(size * value, start) / np.maximum(joined, 1)
    knots, rates = _rising(mean[joined > 0], found[joined > 0], joined[joined > 0])
    common = np.interp(value, knots, rates)
    return Calibration(knots, rates, _offset(right @ common, given @ common**2, right.sum(axis=1)))


def _common(true: Array, scores: Array) -> tuple[Doubles, Doubles]:
    """Knots and their probabilities, both rising, over all tags together.

    Scores are cut into groups with equally many *right* pairs of image and tag, so that the high
    scores, of which there are few, are told apart; neighbouring groups whose shares of right pairs
    do not rise are joined (isotonic regression).
    """
    value, right = ranking.sort_scores(true, scores)
    found = np.flatnonzero(right)
    total = len(found)
    bins = int(np.clip(total // RIGHT, min(5, total), BINS))
    before = -(np.arange(bins) * -total // bins)  # right pairs before each group
    start = np.where(before > 0, found[before - 1] + 1, 0)
    size = np.diff(start, append=len(value)).astype(np.float64)
    hits = np.diff(before, append=total).astype(np.float64)
    mean = np.add.reduceat(value, start, dtype=np.float64) / size
    return _rising(mean, hits, size)


def _rising(mean: Doubles, hits: Doubles, size: Doubles) -> tuple[Doubles, Doubles]:
    """The same from groups of scores: their means, right pairs and pairs."""
    from sklearn.isotonic import isotonic_regression

    curve = _logistic(mean, hits, size)
    share = (hits + WEIGHT * curve) / (size + WEIGHT)
    rising = isotonic_regression(
        share, sample_weight=size + WEIGHT, y_min=CERTAIN, y_max=1 - CERTAIN
    )
    return mean, np.asarray(rising, np.float64)


def _logistic(x: Doubles, hits: Doubles, size: Doubles) -> Doubles:
    """A logistic curve through groups of pairs; its ceiling is not chosen but weighed.

    Each ceiling counts by the likelihood of its best curve: few pairs leave all of them open, and
    the mean of the curves is as unsure as they are.
    """
    middle = np.average(x, weights=size)
    spread = np.sqrt(np.average((x - middle) ** 2, weights=size)) or 1.0
    design = np.stack([np.ones_like(x), (x - middle) / spread], axis=1)
    found = [_below(ceiling, design, hits, size) for ceiling in CEILINGS]
    expected, firmness = EXPECTED
    evidence = np.array([e for e, _ in found]) - firmness * (CEILINGS - expected) ** 2
    weight = np.exp(evidence - evidence.max())
    return np.asarray(np.average([curve for _, curve in found], axis=0, weights=weight))


def _below(ceiling: float, design: Doubles, hits: Doubles, size: Doubles) -> tuple[float, Doubles]:
    """The likeliest curve below a ceiling, by Fisher's scoring: its log likelihood, and itself."""
    share = np.clip(hits.sum() / size.sum() / ceiling, 1e-4, 0.9)
    beta = np.array([logit(share), 1.0])
    penalty = np.array([0.0, SLOPE])
    for _ in range(60):
        curve = expit(design @ beta)
        p = np.clip(ceiling * curve, 1e-9, 1 - 1e-9)
        rise = ceiling * curve * (1 - curve)
        gradient = design.T @ ((hits - size * p) / (p * (1 - p)) * rise) - penalty * beta
        weight = size * rise**2 / (p * (1 - p))
        hessian = (design * weight[:, None]).T @ design + np.diag(penalty + 1e-9)
        step = np.clip(np.linalg.solve(hessian, gradient), -2, 2)
        beta = beta + step
        if np.abs(step).max() < 1e-7:
            break
    beta[1] = max(beta[1], 0.0)
    p = np.clip(ceiling * expit(design @ beta), 1e-9, 1 - 1e-9)
    likelihood = hits @ np.log(p) + (size - hits) @ np.log(1 - p)
    return float(likelihood - SLOPE * beta[1] ** 2 / 2), np.asarray(p)


def relate(
    task: Task, scores: Floats, weight: float, level: float | None, boost: float | None
) -> Related:
    """Learn how tags go together, then the factors by which they stand among the best of an image.

    The penalty does not grow with n: few images say little of how tags go together. It is not
    chosen from these scores, which understate the gain: leaving an image out pushes the scores of
    its neighbours away from its tags, and a regression on them learns that, too.
    """
    n, t = task.T.shape
    h = np.float32(weight * n / (n + UNRELATED))
    if 2 * n < t:
        coef, intercept, left_out = _by_factors(scores, task.T - scores, RELATIONS, h)
    else:
        found = ridge(scores, task.T - scores, RELATIONS / n)
        coef = np.eye(t, dtype=np.float32) + h * found.coef
        intercept = found.intercept
        left_out = found.left_out
    raw = scores + h * left_out
    level, boost, tag_scale = choose_factors(task, correct_loo_bias(task.Y, raw), level, boost)
    relations = Relations(np.ascontiguousarray(coef), h * intercept)
    return Related(relations, level, boost, tag_scale, raw)


def _by_factors(
    X: Floats, T: Floats, penalty: float, h: np.float32
) -> tuple[Floats, Floats, Floats]:
    """The same ridge for fewer images than tags, its t x t coefficients never written out.

    They are ``X.T @ dual`` of centred X, which takes 2 n t numbers; with 20,000 tags the product
    would take 1.6 GB.
    """
    center = X.mean(axis=0, dtype=np.float64)
    middle = T.mean(axis=0, dtype=np.float64)
    wide = X - center
    targets = T - middle
    inverse = np.linalg.inv(wide @ wide.T / penalty + np.eye(len(wide)))
    dual = inverse @ targets
    room = np.diag(inverse) - 1 / len(wide)  # what an image leaves to the others
    left_out = targets - dual / np.maximum(room, ROOM)[:, None] + middle
    intercept = middle - (center @ wide.T) @ dual / penalty
    coef = np.concatenate([wide, float(h) / penalty * dual])
    return coef.astype(np.float32), intercept.astype(np.float32), left_out.astype(np.float32)


def choose_factors(
    task: Task, fair: Floats, level: float | None, boost: float | None
) -> tuple[float, float, Floats]:
    """Level, boost and the factors of the tags for the best F1 with five tags on each image."""
    p = np.asarray(task.Y.sum(axis=0)).ravel()
    reached = task.Y.multiply(fair).sum(axis=0) / np.maximum(p, 1)  # by images that have the tag
    reached = np.maximum(reached, FAINT * max(float(reached.mean()), FAINT))

    def factors(level: float, boost: float) -> Floats:
        scale = reached.astype(np.float64) ** -level * task.frequency**-boost
        return np.asarray(scale / scale.mean(), np.float32)

    levels, boosts = ([0.0], [0.0]) if task.labels or len(p) <= 5 else (LEVELS, BOOSTS)
    options = [
        (e, b)
        for e in (levels if level is None else (level,))
        for b in (boosts if boost is None else (boost,))
    ]

    rows = (
        np.arange(len(fair)) if task.unknown is None else np.flatnonzero(~task.unknown.any(axis=1))
    )
    if not len(rows):
        options = [(ONE_LEVEL, 0.0)]

    def annotates(option: tuple[float, float]) -> float:
        return metrics.f1_of_means(task.Y[rows], metrics.top_tags(fair[rows] * factors(*option), 5))

    best = options[0] if len(options) == 1 else max(options, key=annotates)
    return (*best, factors(*best))


def finish(task: Task, raw: Floats, scale: Floats, threshold: str | float) -> Thresholded:
    """Select thresholds on raw held-out scores, and fit the calibration.

    Thresholds are compared with scores that the factors of the tags are applied to.
    """
    judged = task.known(raw)
    fair = shrunk_loo_scores(task.Y, judged)
    chosen = thresholds.choose_threshold(
        threshold, task.Y, fair, shrink=thresholds.THRESHOLD_SHRINKAGE
    )
    limits = chosen if not isinstance(threshold, str) else np.asarray(chosen * scale, np.float64)
    calibrated = fit(task.Y, judged, task.seed)
    return Thresholded(
        threshold=limits,
        calibration=calibrated.calibration,
        probabilities=calibrated.left_out,
        f1=_oof_f1(task, fair, scale, threshold),
        mean_average_precision=ranking.mean_average_precision(task.Y, judged),
        auc=ranking.tag_auc(ranking.check_tags(task.Y), correct_loo_bias(task.Y, judged)),
    )


def _oof_f1(task: Task, fair: Floats, scale: Floats, threshold: str | float) -> float:
    """F1 of the means on images that took no part in selecting thresholds."""
    n = len(task.T)
    given = fair * scale > threshold if not isinstance(threshold, str) else None
    if given is None:
        given = np.zeros(task.T.shape, bool)
        fold = np.random.default_rng(task.seed).permutation(n) % min(FOLDS, n)
        for number in range(int(fold.max()) + 1):
            inside = np.flatnonzero(fold == number)
            outside = np.flatnonzero(fold != number)
            limit = thresholds.choose_threshold(
                threshold, task.Y[outside], fair[outside], shrink=thresholds.THRESHOLD_SHRINKAGE
            )
            given[inside] = fair[inside] > limit
    true = task.Y.toarray() > 0
    return estimate_f1((given & true).sum(axis=0), given.sum(axis=0), true.sum(axis=0))


def estimate_f1(hits: Array, given: Array, count: Array) -> float:
    """Estimate F1 of the means on new images from counts of each tag on held-out images.

    ``given`` counts the images that a tag is applied to, ``hits`` those of them that have it, and
    ``count`` all that have it. A tag may be frequent here by luck: new images have it less often.
    """
    lucky = np.minimum(PRICE / np.maximum(count, 1), 1) * hits
    right = hits - lucky
    judged = given - lucky
    common = safe_ratio(right.sum(), judged.sum())
    precision = (right + UNSEEN * common) / (judged + UNSEEN)
    return float(ranking.harmonic_mean(precision.mean(), safe_ratio(hits, count).mean()))
