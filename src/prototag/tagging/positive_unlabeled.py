"""Positive-unlabeled learning: a tag of which a few pictures are known, among many unlabeled ones.

A full fit estimates precision from pictures that are known to lack a tag. If somebody has marked
five pictures of an untagged collection, there are no such pictures, and a full fit has no estimate.
Here the unlabeled pictures are the background class, because most of them lack any one tag:

1. Scores come from ridge regression of the labels on whitened vectors of the whole collection, with
   unlabeled pictures as 0 (a regularized linear discriminant). They are leave-one-out scores of all
   pictures in closed form, so that those of labeled and unlabeled pictures are comparable.
2. Probabilities come from a logistic curve of the standardized scores, by Bayesian inference on a
   grid of intercepts and slopes. A decision is a Bernoulli observation at its score. A marked
   picture was chosen because it has the tag: its likelihood is its ``p`` divided by the mean ``p``
   of the collection, which has no information about the tag's frequency. The frequency has a Beta
   prior.
3. A suggestion is preselected if a lower quantile of its posterior probability reaches ``TICKED``
   and the estimated precision of the answers with at least this probability reaches ``ANSWERED``.
   Without a rejection no suggestion is preselected.

Where the name of the tag gives a prior score M of the pictures (:mod:`prototag.knowledge`), M is
the mean function of the regression: the score is the regression of ``T - a M`` plus ``a M``, with
the labels T and the weight ``a`` by :mod:`prototag.tagging.name_knowledge`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.arrays import Bools, Doubles, Floats, Rows
from prototag.engine import single_threaded_blas
from prototag.tagging.name_knowledge import WeightPrior, posterior_weight

COMPONENTS = 256  # principal axes of the vectors that are kept
SAMPLE = 4_000  # pictures from which the axes are computed
PENALTY = 10.0  # of the ridge regression; the Gram matrix sums over vectors of unit length
INTERCEPTS = np.linspace(-9, 3, 41)
SLOPES = np.linspace(0.05, 4, 30)
# Mean, deviation and correlation of the best logistic curves, all labels known, of tags in draws of
# 300 to 3,000 COCO images with 5 to 85 labels; with larger deviations, for tags on half of them.
INTERCEPT = -4.1, 2.2
SLOPE = 1.4, 0.9
CORRELATION = -0.6
FREQUENCY = 0.05, 2.0  # mean of the Beta prior, and the pictures that it counts for
# Of the weight of a name: about what 100 to 300 pictures of COCO and IAPRTC-12 determine.
NAME_WEIGHT = WeightPrior(0.45, 0.02)
TICKED = 0.6  # lower quantile of the probability from which on a suggestion is preselected
QUANTILE = 0.35
ANSWERED = 0.9  # estimated precision of the answers at or above the threshold
# With these three, 92% of the preselected suggestions were right, for tags on less than 30% of the
# pictures, in ten draws of 2,000 COCO images. With TICKED of 0.7 and without ANSWERED it was 77%.
BINS = 300  # quantiles of the scores by which frequencies are computed
CURVE = 200  # scores at which probabilities are computed
MAX_PROBABILITY = 1 - 1e-3  # of a suggestion


class Background(NamedTuple):
    """The pictures of a collection, prepared for the regression of any tag."""

    vectors: Floats  # n x m, principal axes of whitened unit vectors, centered
    dual: Floats  # n x m, vectors by the inverse of their penalized Gram matrix
    leverage: Doubles  # n, with the mean's part

    @classmethod
    def of(cls, X: Floats) -> Background:
        """Prepare the vectors of all pictures (n x d); there must be one or more."""
        deviation = X.std(axis=0, dtype=np.float64)
        Z = (X - X.mean(axis=0)) / np.maximum(deviation, 1e-6).astype(np.float32)
        Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-9)
        Z -= Z.mean(axis=0)
        with single_threaded_blas():
            sample = Z[:: -(-len(Z) // SAMPLE)]
            if len(sample) < Z.shape[1]:
                values, axes = np.linalg.eigh((sample @ sample.T).astype(np.float64))
                axes = sample.T @ axes / np.sqrt(np.maximum(values, 1e-9))
            else:
                values, axes = np.linalg.eigh((sample.T @ sample).astype(np.float64))
            best = np.argsort(-values)[:COMPONENTS]
            vectors = Z @ axes[:, best[values[best] > 1e-6]].astype(np.float32)
            vectors = vectors.astype(np.float64)
            gram = vectors.T @ vectors
            gram[np.diag_indices_from(gram)] += PENALTY
            dual = vectors @ np.linalg.inv(gram)
        leverage = np.einsum("ij,ij->i", dual, vectors) + 1 / len(vectors)
        return cls(vectors.astype(np.float32), dual.astype(np.float32), leverage)

    def scores(self, positives: Rows, prior: Doubles | None = None) -> Doubles:
        """Standardized leave-one-out scores of all pictures.

        ``prior`` (n) has the standardized prior scores of the tag's name.
        """
        target = np.zeros(len(self.vectors))
        target[positives] = 1
        loo = self._loo_scores(target)
        if prior is not None:
            features = prior - self._loo_scores(prior)
            loo += features * posterior_weight(target, loo, features, NAME_WEIGHT)
        return np.asarray((loo - loo.mean()) / max(float(loo.std()), 1e-9))

    def _loo_scores(self, target: Doubles) -> Doubles:
        """Leave-one-out scores of the ridge regression of targets, in closed form."""
        rows = np.flatnonzero(target)
        with single_threaded_blas():
            fitted = self.dual @ (target[rows] @ self.vectors[rows])
        fitted = fitted + target.mean()
        loo = (fitted - self.leverage * target) / np.maximum(1 - self.leverage, 0.01)
        return np.asarray(loo, np.float64)


class Estimate(NamedTuple):
    """Scores and probabilities of all pictures for one tag."""

    scores: Doubles
    probabilities: Doubles  # posterior means
    threshold: float  # probability from which on suggestions are preselected; 1 for none
    expected: float  # unlabeled pictures that have the tag


def estimate(
    background: Background,
    marked: Rows,
    accepted: Rows,
    rejected: Rows,
    *,
    usable: Bools,
    prior: Doubles | None = None,
) -> Estimate:
    """Estimate how likely each picture has a tag.

    Parameters
    ----------
    background : Background
    marked : array of int
        Pictures that somebody chose because they have the tag.
    accepted, rejected : array of int
        Pictures that somebody was asked about, by the answer.
    usable : array of bool
        The unlabeled pictures, of which ``expected`` have the tag.
    prior : array of float, optional
        Standardized prior scores of all pictures by the name of the tag.
    """
    scores = background.scores(np.concatenate([marked, accepted]), prior)
    weights = _posterior(scores, marked, accepted, rejected)
    at = np.linspace(scores.min(), scores.max(), CURVE)
    curves = _logistic(at).reshape(-1, CURVE)
    flat = weights.ravel()
    mean = np.minimum(flat @ curves, MAX_PROBABILITY)
    probabilities = np.interp(scores, at, mean)
    threshold = 1.0
    if len(rejected):
        likely = flat > 1e-7 * flat.max()
        candidates = mean[_quantile(curves[likely], flat[likely]) >= TICKED]
        threshold = _threshold(candidates, probabilities[accepted], probabilities[rejected])
    return Estimate(scores, probabilities, threshold, float(probabilities[usable].sum()))


def _threshold(candidates: Doubles, accepted: Doubles, rejected: Doubles) -> float:
    """Find the lowest candidate that the answers support; 1 for none.

    The curve is monotonic with two parameters, so that its probabilities can be high at scores at
    which half of the answers were rejections. So the precision of the answers from a candidate on,
    estimated by a Beta distribution with a uniform prior, has to reach ``ANSWERED``.
    """
    n_accepted = np.count_nonzero(accepted >= candidates[:, None], axis=1)
    n_rejected = np.count_nonzero(rejected >= candidates[:, None], axis=1)
    supported = candidates[(n_accepted + 1) / (n_accepted + n_rejected + 2) >= ANSWERED]
    return float(supported[0]) if len(supported) else 1.0


def _logistic(scores: Doubles) -> Doubles:
    """Return probabilities by intercept, slope and score."""
    log_odds = INTERCEPTS[:, None, None] + SLOPES[:, None] * scores
    return np.asarray(1 / (1 + np.exp(-log_odds)))


def _posterior(scores: Doubles, marked: Rows, accepted: Rows, rejected: Rows) -> Doubles:
    """Return the posterior weights of intercepts and slopes; their sum is 1."""
    u = ((INTERCEPTS - INTERCEPT[0]) / INTERCEPT[1])[:, None]
    v = (SLOPES - SLOPE[0]) / SLOPE[1]
    log = -(u * u - 2 * CORRELATION * u * v + v * v) / (2 * (1 - CORRELATION**2))
    ordered = np.sort(scores)
    frequency = _logistic(ordered[:: max(1, len(ordered) // BINS)]).mean(axis=2)
    mean, weight = FREQUENCY
    log += (mean * weight - 1) * np.log(frequency)
    log += ((1 - mean) * weight - 1) * np.log1p(-frequency)
    log += np.log(_logistic(scores[marked])).sum(axis=2) - len(marked) * np.log(frequency)
    log += np.log(_logistic(scores[accepted])).sum(axis=2)
    log += np.log1p(-np.minimum(_logistic(scores[rejected]), 1 - 1e-12)).sum(axis=2)
    weights = np.exp(log - log.max())
    return np.asarray(weights / weights.sum())


def _quantile(curves: Doubles, weights: Doubles) -> Doubles:
    """Return the weighted lower quantile of each column of ``curves``."""
    order: npt.NDArray[np.intp] = np.argsort(curves, axis=0)
    reached = np.cumsum(weights[order], axis=0) >= QUANTILE * weights.sum()
    rows = order[reached.argmax(axis=0), np.arange(curves.shape[1])]
    return np.asarray(curves[rows, np.arange(curves.shape[1])])
