"""Operating points: learnable tags, and the precision of each probability threshold.

A tag is learnable if its cross-validated AUC is above chance by a statistical test. Only learnable
tags are applied. They share one threshold on the probability. It is selected on the pooled
precision of all tags, at the lower end of a Wilson interval, because a single tag has too few
positives for an estimate of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from prototag.arrays import Array, Bools, Doubles, Rows
from prototag.errors import InputError, ModelFileError
from prototag.storage import modelfile

if TYPE_CHECKING:
    from prototag.tagging.fit_result import FitResult

Counts = npt.NDArray[np.int64]
MIN_AUC_Z = 2.33  # standard deviations above chance: a tag of noise passes with probability 1%
WILSON_Z = 1.28  # one-sided 90% interval
SMALL_SAMPLE = 200  # images; with n images the interval is widened by sqrt(1 + SMALL_SAMPLE / n)
MAX_CURVE_POINTS = 200  # thresholds whose precision is computed
DEFAULT_PRECISION = 0.7  # target of the default threshold
MIN_DEFAULT_THRESHOLD = 0.5  # an applied tag is more likely right than wrong
MIN_ESTIMATE_PROBABILITY = 0.5  # more likely right than wrong
MIN_SUGGESTED_PROBABILITY = 0.25  # below it, tags are not even suggested
MAX_SUGGESTIONS = 5  # per image


class TagSelector(NamedTuple):
    """Criteria by which tags are applied to an image."""

    allowed: Bools  # t, tags that may be applied
    score_thresholds: Doubles | None  # t, exclusive; the protocol of the literature
    min_probability: float | None  # inclusive
    top: int | None  # maximum number of tags per image

    def applied(self, scores: Array, probabilities: Array) -> Rows:
        """Return the columns of the tags that are applied to one image."""
        is_applied = self.allowed.copy()
        if self.score_thresholds is not None:
            is_applied &= scores > self.score_thresholds
        if self.min_probability is not None:
            is_applied &= probabilities >= self.min_probability
        columns = np.flatnonzero(is_applied)
        if self.top is not None:
            order = probabilities if self.score_thresholds is None else scores
            columns = columns[np.argsort(-order[columns], kind="stable")[: self.top]]
        return columns

    def suggested(self, probabilities: Array, applied: Rows) -> Rows:
        """Return probable tags below the threshold, most probable first.

        Without a threshold on the probability nothing is suggested.
        """
        if self.score_thresholds is not None or self.min_probability is None:
            return np.empty(0, np.intp)
        is_probable = self.allowed & (probabilities >= MIN_SUGGESTED_PROBABILITY)
        is_probable[applied] = False
        columns = np.flatnonzero(is_probable)
        order = np.argsort(-probabilities[columns], kind="stable")
        return columns[order[:MAX_SUGGESTIONS]]


class TagStatistics(NamedTuple):
    """Statistics of t tags over all training images."""

    n_images: int
    positives: Counts  # t, images that have the tag
    auc: Doubles  # t, cross-validated area under the ROC curve


class OperatingPoints(NamedTuple):
    """Cross-validated performance of t tags, and a precision curve over p thresholds."""

    positives: Counts  # t, training images that have the tag
    auc: Doubles  # t, area under the ROC curve
    learnable: Bools  # t, whether the AUC is above chance
    precision: Doubles  # t, at the default threshold; NaN where the tag is never applied
    recall: Doubles  # t, at the default threshold
    curve_thresholds: Doubles  # p, decreasing probabilities
    curve_precision: Doubles  # p, pooled over learnable tags
    curve_lower_bound: Doubles  # p, lower end of the interval of the precision

    @classmethod
    def from_fit(cls, result: FitResult) -> Self:
        """Compute operating points from the held-out predictions of a fit."""
        held_out = result.held_out
        return cls.from_predictions(
            held_out.labels,
            held_out.corrected,
            held_out.probabilities,
            TagStatistics(result.n_examples, result.positives, result.auc),
        )

    @classmethod
    def from_predictions(
        cls,
        Y: Any,
        scores: Array,
        probabilities: Doubles,
        statistics: TagStatistics | None = None,
    ) -> Self:
        """Compute operating points from labels (n x t, 0/1) and held-out predictions.

        If these n images are a sample, ``statistics`` describes all training images.
        """
        from prototag.evaluation.ranking import check_tags_and_scores, safe_ratio, tag_auc

        true, scores = check_tags_and_scores(Y, scores)
        positives = np.count_nonzero(true, axis=0)
        if statistics is None:
            statistics = TagStatistics(len(true), positives, tag_auc(true, scores))
        z = auc_z_scores(statistics)
        learnable = z > MIN_AUC_Z
        thresholds, precision, lower_bound = _precision_curve(
            true[:, learnable], probabilities[:, learnable]
        )
        points = cls(
            positives=statistics.positives,
            auc=statistics.auc,
            learnable=learnable,
            precision=np.full(len(learnable), np.nan),
            recall=np.zeros(len(learnable)),
            curve_thresholds=thresholds,
            curve_precision=precision,
            curve_lower_bound=lower_bound,
        )
        applied = (probabilities >= points.default_threshold) & learnable
        correct = np.count_nonzero(applied & true, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            precision = correct / np.count_nonzero(applied, axis=0)
        return points._replace(precision=precision, recall=safe_ratio(correct, positives))

    def threshold_for(self, precision: float) -> float:
        """Return the lowest threshold whose precision meets a target, infinity if none does.

        The lower bound of the precision must meet the target.
        """
        if not 0 < precision <= 1:
            raise InputError(f"precision={precision}: give a number above 0 and at most 1.")
        sufficient = np.flatnonzero(self.curve_lower_bound >= precision)
        return float(self.curve_thresholds[sufficient[-1]]) if len(sufficient) else np.inf

    @property
    def default_threshold(self) -> float:
        """Probability from which on tags are applied by default."""
        return max(self.threshold_for(DEFAULT_PRECISION), MIN_DEFAULT_THRESHOLD)

    def estimated_precision(self, threshold: float) -> float:
        """Estimate the precision of the tags applied from a threshold on, 0 if there are none."""
        return self._at(self.curve_precision, threshold)

    def precision_at_least(self, threshold: float) -> float:
        """Return the lower bound of the precision from a threshold on, 0 if no tag is applied."""
        return self._at(self.curve_lower_bound, threshold)

    def _at(self, curve: Doubles, threshold: float) -> float:
        above = np.flatnonzero(self.curve_thresholds >= threshold)
        has_tags = len(above) > 0 and np.isfinite(threshold)
        return float(curve[above[-1]]) if has_tags else 0.0

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays of a model file, by field."""
        arrays = self._asdict()
        return {**arrays, "precision": np.nan_to_num(self.precision, nan=-1.0)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], t: int) -> Self:
        """Validate the arrays of a model file of t tags."""
        thresholds = modelfile.expect_array(arrays, "curve_thresholds", (None,), "f8")
        shape = thresholds.shape
        precision = modelfile.expect_array(arrays, "precision", (t,), "f8")
        points = cls(
            positives=modelfile.expect_array(arrays, "positives", (t,), "i8"),
            auc=modelfile.expect_array(arrays, "auc", (t,), "f8"),
            learnable=modelfile.expect_array(arrays, "learnable", (t,), "?"),
            precision=np.where(precision < 0, np.nan, precision),
            recall=modelfile.expect_array(arrays, "recall", (t,), "f8"),
            curve_thresholds=thresholds,
            curve_precision=modelfile.expect_array(arrays, "curve_precision", shape, "f8"),
            curve_lower_bound=modelfile.expect_array(arrays, "curve_lower_bound", shape, "f8"),
        )
        rates = (
            points.auc,
            points.recall,
            points.curve_thresholds,
            points.curve_precision,
            points.curve_lower_bound,
            np.nan_to_num(points.precision),
        )
        in_range = all(((rate >= 0) & (rate <= 1)).all() for rate in rates)
        if not in_range or (np.diff(thresholds) > 0).any():
            raise ModelFileError(
                "the operating points of the model are out of range: it is damaged."
            )
        return points


def auc_and_z_scores(true: Bools, scores: Array) -> tuple[Doubles, Doubles]:
    """Compute the AUC of each tag, and its standard deviations above chance."""
    from prototag.evaluation.ranking import tag_auc

    auc = tag_auc(true, scores)
    statistics = TagStatistics(len(true), np.count_nonzero(true, axis=0), auc)
    return auc, auc_z_scores(statistics)


def auc_z_scores(statistics: TagStatistics) -> Doubles:
    """Compute the standard deviations of each AUC above chance (Mann-Whitney U test)."""
    n = statistics.n_images
    pairs = statistics.positives * (n - statistics.positives)
    deviation = np.sqrt((n + 1) / (12 * np.maximum(pairs, 1)))
    return np.where(pairs > 0, (statistics.auc - 0.5) / deviation, 0.0)


def _precision_curve(true: Bools, probabilities: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Compute thresholds, the pooled precision above each, and its lower bound.

    The bound is the lower end of a Wilson interval. Errors cluster on images, so the number of
    pairs is divided by the design effect: the ratio of the variance over images (clusters) and the
    binomial variance.
    """
    if not true.size:
        return np.ones(0), np.ones(0), np.zeros(0)
    descending = np.sort(probabilities, axis=None)[::-1]
    ranks = np.unique(np.geomspace(1, len(descending), MAX_CURVE_POINTS).astype(np.intp)) - 1
    thresholds = np.unique(descending[ranks])[::-1].copy()
    precisions = []
    lower_bounds = []
    z = WILSON_Z * np.sqrt(1 + SMALL_SAMPLE / len(true))
    for threshold in thresholds:
        applied = probabilities >= threshold
        applied_per_image = np.count_nonzero(applied, axis=1)
        correct_per_image = np.count_nonzero(applied & true, axis=1)
        pairs = applied_per_image.sum()
        precision = correct_per_image.sum() / pairs
        clustered = np.square(correct_per_image - precision * applied_per_image).sum()
        binomial = pairs * precision * (1 - precision)
        size = pairs / max(clustered / binomial, 1.0) if binomial > 0 else float(pairs)
        precisions.append(precision)
        lower_bounds.append(_wilson_lower_bound(precision, size, z))
    return thresholds, np.array(precisions), np.array(lower_bounds)


def _wilson_lower_bound(share: float, size: float, z: float) -> float:
    square = z**2
    center = share + square / (2 * size)
    width = z * np.sqrt(share * (1 - share) / size + square / (4 * size**2))
    return float(max((center - width) / (1 + square / size), 0.0))
