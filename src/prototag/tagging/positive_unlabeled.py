"""Positive-unlabeled learning: a tag of which a few pictures are known, among many unlabeled ones.

A full fit estimates precision from pictures that are known to lack a tag. Where somebody has marked
five pictures of an untagged collection there are none, and every estimate of such a fit is empty.
Here the unlabeled pictures are the background class, because most of them lack any one tag:

1. Scores come from ridge regression of the labels on whitened vectors of the whole collection, with
   unlabeled pictures as 0 (a regularized linear discriminant). They are leave-one-out scores of all
   pictures in closed form, so that those of labeled and unlabeled pictures are comparable.
2. Probabilities come from a logistic curve of the standardized scores, by Bayesian inference on a
   grid of intercepts and slopes. An answer, yes or no, is a Bernoulli observation at its score. A
   marked picture was chosen because it has the tag: it says which scores the tag has (``p`` of the
   picture beside the mean ``p`` of the collection) and nothing of how frequent the tag is. A Beta
   prior holds the frequency.
3. Where the name of the tag gives a prior score M of the pictures (:mod:`prototag.knowledge`), it
   is the mean function of the regression: the score is the regression of ``T - a M`` plus ``a M``,
   with the labels T and the weight ``a`` by :mod:`prototag.tagging.name_knowledge`.
4. A suggestion is ticked where a lower quantile of its probability, over the posterior, reaches
   ``TICKED``, and the answers from there on were right so often that their estimated precision
   reaches ``ANSWERED``. Without any no that is nowhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.arrays import Bools, Doubles, Floats, Rows
from prototag.engine import single_threaded_blas
from prototag.tagging.name_knowledge import WeightPrior, posterior_weight

COMPONENTS = 256  # principal axes of the vectors that are kept
SAMPLE = 4_000  # pictures that the axes are found on
PENALTY = 10.0  # of the ridge regression, in pictures of unit length
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
TICKED = 0.6  # lower quantile of the probability from which on a suggestion is ticked
QUANTILE = 0.35
ANSWERED = 0.9  # estimated precision of the answers from the line on
# With these three, 92% of the ticks of tags on less than 30% of the pictures were right in ten
# draws of 2,000 COCO images. With TICKED of 0.7 and no ANSWERED it was 77%.
BINS = 300  # quantiles of the scores by which frequencies are computed
CURVE = 200  # scores at which probabilities are computed
LARGEST = 1 - 1e-3  # no suggestion is surer


class Background(NamedTuple):
    """The pictures of a collection, prepared for the regression of any tag."""

    vectors: Floats  # n x m, principal axes of whitened unit vectors, centered
    dual: Floats  # n x m, vectors by the inverse of their penalized Gram matrix
    leverage: Doubles  # n, with the mean's part

    @classmethod
    def of(cls, X: Floats) -> Background:
        """From the vectors of all pictures (n x d), which may not be empty."""
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
        left = (fitted - self.leverage * target) / np.maximum(1 - self.leverage, 0.01)
        return np.asarray(left, np.float64)


class Estimate(NamedTuple):
    """Scores and probabilities of all pictures for one tag."""

    scores: Doubles
    probabilities: Doubles  # posterior means
    line: float  # probability from which on the evidence is enough to tick; 1 where it never is
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
    mean = np.minimum(flat @ curves, LARGEST)
    probabilities = np.interp(scores, at, mean)
    line = 1.0
    if len(rejected):
        likely = flat > 1e-7 * flat.max()
        candidates = mean[_quantile(curves[likely], flat[likely]) >= TICKED]
        line = _line(candidates, probabilities[accepted], probabilities[rejected])
    return Estimate(scores, probabilities, line, float(probabilities[usable].sum()))


def _line(candidates: Doubles, accepted: Doubles, rejected: Doubles) -> float:
    """Find the lowest candidate that the answers support; 1 for none.

    The curve can be sure of scores at which half of the answers were no, because it is monotonic
    and has two parameters. So the precision of the answers from a candidate on, estimated by a
    Beta distribution with a uniform prior, has to reach ``ANSWERED``.
    """
    right = np.count_nonzero(accepted >= candidates[:, None], axis=1)
    wrong = np.count_nonzero(rejected >= candidates[:, None], axis=1)
    supported = candidates[(right + 1) / (right + wrong + 2) >= ANSWERED]
    return float(supported[0]) if len(supported) else 1.0


def _logistic(scores: Doubles) -> Doubles:
    """Probabilities by intercept, slope and score."""
    raised = INTERCEPTS[:, None, None] + SLOPES[:, None] * scores
    return np.asarray(1 / (1 + np.exp(-raised)))


def _posterior(scores: Doubles, marked: Rows, accepted: Rows, rejected: Rows) -> Doubles:
    """Weights of intercepts and slopes, which sum up to 1."""
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
    found = np.exp(log - log.max())
    return np.asarray(found / found.sum())


def _quantile(curves: Doubles, weights: Doubles) -> Doubles:
    """The lower quantile of each column of ``curves`` by weight."""
    order: npt.NDArray[np.intp] = np.argsort(curves, axis=0)
    reached = np.cumsum(weights[order], axis=0) >= QUANTILE * weights.sum()
    places = order[reached.argmax(axis=0), np.arange(curves.shape[1])]
    return np.asarray(curves[places, np.arange(curves.shape[1])])
