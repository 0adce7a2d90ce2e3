"""Leave-one-out scores: the correction of their bias, and the ranking criterion inside a fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototag.evaluation.ranking import Floats, check_tags, mean_of_occurring, rank_tags

AUC_SHRINKAGE = 10.0  # images per tag at which the weight of AUC is 2 * 0.5


def correct_loo_bias(Y: Any, loo_scores: Floats) -> Floats:
    """Scale the leave-one-out scores of positive images to the level of scores of new images.

    An image with a tag is scored by the other ``p - 1`` images that have it, one without the tag by
    all p. A score is a sum over images that have the tag, so that of a positive image is too low by
    one part in p. Small differences of scores, strong penalties and rare tags suffer most, and a
    choice among settings would prefer weak penalties. After the correction, images with and without
    a random tag score alike on average.
    """
    tags = check_tags(Y)
    p = np.count_nonzero(tags, axis=0)
    factor = (p / np.maximum(p - 1, 1)).astype(loo_scores.dtype)
    return np.asarray(np.where(tags, loo_scores * factor, loo_scores))


def shrunk_loo_scores(Y: Any, loo_scores: Floats) -> Floats:
    """Average leave-one-out scores and the corrected ones; thresholds are chosen from the result.

    Thresholds from uncorrected scores are too low. Those from corrected scores are too high where
    tags are missing: an image that lacks a tag which it should have lowers the scores of the other
    images. Between the two, F1 is flat.
    """
    return np.asarray((loo_scores + correct_loo_bias(Y, loo_scores)) / 2)


def ranking_score(Y: Any, loo_scores: Floats) -> float:
    """Measure how well leave-one-out scores rank the images of each tag, for choices inside a fit.

    The sum of mean average precision, which depends on the best of a ranking, and of AUC, which
    depends on all of it and so varies less: the fewer images a tag has, the more AUC counts.
    """
    tags = check_tags(Y)
    corrected = correct_loo_bias(tags, loo_scores)
    weight = AUC_SHRINKAGE / (AUC_SHRINKAGE + np.count_nonzero(tags) / tags.shape[1])
    rankings = rank_tags(tags, corrected)
    return float(mean_of_occurring(rankings.precision) + 2 * weight * rankings.area.mean())
