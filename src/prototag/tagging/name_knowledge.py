"""Learning with the names of tags: prior scores by names, and the weight that labels give them.

A tag's name says how its images look (:mod:`prototag.knowledge`), more surely than a few labels. So
the prior score of a tag is the mean function of its regression, ``score = a M + K(T - a M)`` with
the targets T and the kernel regression K. K is linear, so that the held-out score is that without
names plus ``a U`` with ``U = M - K(M)``, and the weight ``a`` of a tag is the regression of the
held-out residual on U, in closed form.

Few labels do not determine a weight for each tag. The weights of all tags have a common prior,
whose mean and variance are estimated from them (empirical Bayes): the weight of a rare tag is that
of the others, and a frequent tag with a misleading name has its own. Without any use, as with names
that were permuted, the common weight is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prototag.arrays import Array, Bools, Doubles, Floats
from prototag.knowledge.concepts import NamePrior, name_scores

SMALL_DEVIATION = 0.15  # of prior scores; those of names that are like no concept have less
MAX_WEIGHT = 1.5
MIN_SQUARES = 1e-9  # sums of squares below are 0
MIN_VARIANCE = 1e-4  # of the weights of tags
FOLDS = 5  # for held-out scores: no image has a part in the weights that it is scored with
ROUNDS = 50  # of the estimate of mean and variance, which converges in a few


class WeightPrior(NamedTuple):
    """Gaussian prior of the weights of all tags."""

    mean: float
    variance: float


class NameRegression(NamedTuple):
    """Prior scores M of the training images by names, and their kernel regression K(M)."""

    prior: NamePrior  # standardized on the training images
    scores: Floats  # n x t
    dual: Floats  # landmarks x t
    loo_scores: Floats  # n x t


class NameWeights(NamedTuple):
    """The weight of each tag's name."""

    weights: Floats  # t, in units of targets
    prior: WeightPrior  # of all weights, in units of the deviation of targets; for later tags


def standardized_prior(prior: NamePrior, X: Floats) -> NamePrior:
    """Return the prior with mean 0 and a deviation of at most 1 on the images X."""
    scores = name_scores(prior, X)
    scale = 1 / (scores.std(axis=0) + SMALL_DEVIATION)
    intercept = (prior.intercept - scores.mean(axis=0)) * scale
    return NamePrior((prior.coef * scale).astype(np.float32), intercept.astype(np.float32))


def target_deviation(frequency: Array) -> Doubles:
    """Return the standard deviation of targets of these frequencies."""
    return np.asarray(np.sqrt(frequency * (1 - frequency)), np.float64)


def fit_weights(
    targets: Floats, scores: Floats, features: Floats, labeled: Bools | None = None
) -> tuple[Floats, WeightPrior]:
    """Return the weight of each tag, by empirical Bayes, and the prior of the weights.

    The prior is of weights in units of the deviation of a tag's targets.

    Parameters
    ----------
    targets, scores : arrays of shape (n, t)
        Targets, and held-out scores without names.
    features : array of shape (n, t)
        ``M - K(M)``, held-out.
    labeled : array of shape (n, t), optional
        False for pairs without a label, which are no evidence.
    """
    evidence = _evidence(targets, scores, features, labeled)
    informative = evidence.informative
    prior = _estimate_prior(evidence.own[informative], evidence.noise[informative])
    return _posterior_weights(evidence, prior), prior


def posterior_weight(
    targets: Array,
    scores: Array,
    features: Array,
    prior: WeightPrior,
    labeled: Bools | None = None,
) -> np.float32:
    """Return the weight of the name of one tag (arrays of n), given the prior of all weights."""
    known = None if labeled is None else labeled[:, None]
    evidence = _evidence(targets[:, None], scores[:, None], features[:, None], known)
    return np.float32(_posterior_weights(evidence, prior)[0])


class _Evidence(NamedTuple):
    """What the labels of each tag say about its weight, in units of the deviation of targets."""

    own: Doubles  # t, least-squares weights
    noise: Doubles  # t, their variances
    deviation: Doubles  # t, of the targets
    informative: Bools  # t


def _evidence(
    targets: Floats, scores: Floats, features: Floats, labeled: Bools | None
) -> _Evidence:
    e = targets.astype(np.float64) - scores
    U = features.astype(np.float64)
    if labeled is not None:
        e = np.where(labeled, e, 0)
        U = np.where(labeled, U, 0)
    n = len(e)
    margin = min(1 / n, 0.5)
    deviation = target_deviation(np.clip(targets.mean(axis=0), margin, 1 - margin))
    squares = (U * U).sum(axis=0)
    informative = squares > MIN_SQUARES
    squares = np.where(informative, squares, 1.0) * deviation
    count = n if labeled is None else np.maximum(np.count_nonzero(labeled, axis=0), 1)
    own = (e * U).sum(axis=0) / squares
    noise = np.maximum((e * e).sum(axis=0) / count, MIN_SQUARES) / (squares * deviation)
    return _Evidence(own, noise, deviation, informative)


def _posterior_weights(evidence: _Evidence, prior: WeightPrior) -> Floats:
    variance = max(prior.variance, MIN_VARIANCE)
    weights = evidence.own * variance + prior.mean * evidence.noise
    weights = weights / (variance + evidence.noise)
    weights = np.where(evidence.informative, weights, prior.mean)
    return np.asarray(np.clip(weights, 0, MAX_WEIGHT) * evidence.deviation, np.float32)


def _estimate_prior(own: Doubles, noise: Doubles) -> WeightPrior:
    """Estimate mean and variance of the weights from noisy ones, by moments."""
    if not len(own):
        return WeightPrior(0.0, MIN_VARIANCE)
    variance = 0.1
    mean = 0.0
    for _ in range(ROUNDS):
        precision = 1 / (variance + noise)
        mean = float(precision @ own / precision.sum())
        squared = precision**2
        moment = float(squared @ ((own - mean) ** 2 - noise) / squared.sum())
        variance = max(moment, MIN_VARIANCE)
    return WeightPrior(max(mean, 0.0), variance)


def held_out_name_scores(
    targets: Floats, scores: Floats, features: Floats, labeled: Bools | None, seed: int
) -> Floats:
    """Return the held-out part of scores that comes from names, with weights of other folds."""
    n = len(targets)
    fold = np.random.default_rng(seed).permutation(n) % min(FOLDS, n)
    of_names = np.empty_like(features)
    for number in range(int(fold.max()) + 1):
        inside = fold == number
        outside = ~inside
        weights, _ = fit_weights(
            targets[outside],
            scores[outside],
            features[outside],
            None if labeled is None else labeled[outside],
        )
        of_names[inside] = features[inside] * weights
    return of_names
