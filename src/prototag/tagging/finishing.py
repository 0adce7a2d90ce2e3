"""The last stage of ``Tagger.fit``: thresholds, probabilities, what is promised of new images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Doubles, Floats, Rows
from prototag.engine import Engine
from prototag.evaluation import metrics, thresholds
from prototag.evaluation.cuts import ratio
from prototag.tagging import calibration
from prototag.tagging.model import Calibration


@dataclass(frozen=True, eq=False)
class Task:
    """What every stage is given."""

    X: Floats  # n x m, network vectors as they are
    Y: sparse.csr_array  # n x t
    T: Floats  # the same, dense
    labels: bool  # one label for each image, not tags
    seed: int
    sample: Rows  # images on which choices are tried
    engine: Engine

    @property
    def frequency(self) -> Floats:
        """Of each tag, at least that of one image."""
        return np.asarray(np.maximum(self.T.mean(axis=0), 1 / len(self.T)))


class Finished(NamedTuple):
    """Where tags are given, how likely they are right, and what is promised of new images."""

    threshold: float | Array  # scores to exceed
    calibration: Calibration
    left_out: Floats  # the scores that thresholds are compared with
    probabilities: Doubles  # n x t, of left-out images by a calibration that has not seen them
    f1: float  # with thresholds that have not seen the images they are judged by
    mean_average_precision: float


def finish(task: Task, raw: Floats, scale: Floats, threshold: str | float) -> Finished:
    """Choose thresholds from raw scores of left-out images; the factors of tags are applied too."""
    chosen = thresholds.choose(threshold, task.Y, raw, shrink=thresholds.SHRINK)
    limits = chosen if not isinstance(threshold, str) else np.asarray(chosen * scale, np.float64)
    calibrated = calibration.fit(task.Y, raw, task.seed)
    return Finished(
        limits,
        calibrated.calibration,
        raw * scale,
        calibrated.left_out,
        _promised_f1(task, raw, scale, threshold),
        metrics.mean_average_precision(task.Y, raw),
    )


def _promised_f1(task: Task, raw: Floats, scale: Floats, threshold: str | float) -> float:
    """F1 of the means on images that took no part in choosing thresholds, nor in being frequent."""
    n = len(task.T)
    given = raw * scale > threshold if not isinstance(threshold, str) else None
    if given is None:
        given = np.zeros(task.T.shape, bool)
        fold = np.random.default_rng(task.seed).permutation(n) % min(calibration.FOLDS, n)
        for number in range(int(fold.max()) + 1):
            inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            limit = thresholds.choose(
                threshold, task.Y[outside], raw[outside], shrink=thresholds.SHRINK
            )
            given[inside] = raw[inside] > limit
    count = task.T.sum(axis=0)
    luck = np.maximum(count - calibration.LUCK, 0) / np.maximum(count, 1)
    hits = (given & (task.T > 0)).sum(axis=0)
    precision = ratio(hits * luck, given.sum(axis=0) - hits * (1 - luck))
    return float(metrics.harmonic(precision.mean(), ratio(hits, count).mean()))
