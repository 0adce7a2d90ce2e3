"""Thresholds, calibration and estimates from histograms of the scores.

Batches of tags are scored at a time. The threshold and the calibration curve that all tags share
are fitted to counts: the scores and the positive pairs of each tag and fold between some thousand
edges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Array, Doubles, Floats, Rows
from prototag.engine.task_names import batch_name
from prototag.evaluation import ranking, thresholds
from prototag.evaluation.leave_one_out import correct_loo_bias, shrunk_loo_scores
from prototag.evaluation.ranking import harmonic_mean, safe_ratio
from prototag.storage.npy_rows import load_rows
from prototag.tagging import calibration
from prototag.tagging.fit_result import Factors, Mixed, Thresholded
from prototag.tagging.model import Calibration
from prototag.tagging.out_of_core.features import N_FOLDS, SUM_BATCH, TrainingCollection

BATCH_SCORES = 8_000_000  # that one batch holds, but at least those of four tags
MAX_BATCH_TAGS = 16  # in one batch
N_EDGES = 4096  # of the histograms
EDGES_PER_TAG = 32  # edges at quantiles of the positive scores of each tag


class Counts(NamedTuple):
    """Histograms and thresholds of some tags."""

    n_scores: Array  # tags x folds x bins, scores in the bin
    n_positives: Array  # of them those of positive pairs
    n_shrunk: Array  # positive pairs by shrunk leave-one-out scores
    sums: Doubles  # bins, sum of the scores in each
    precision: Doubles  # tags, average precision
    auc: Doubles  # tags, AUC of bias-corrected scores


@batch_name("Count scores of tags")
def count_tags(
    columns: Rows, tags: sparse.csr_array, scores: Any, folds: Rows, edges: Floats
) -> Counts:
    """Compute the histograms of some tags."""
    raw, true = score_columns(scores, tags, columns)
    bins = len(edges) + 1
    t = len(columns)
    n_scores = np.zeros((t, N_FOLDS, bins), np.int32)
    n_positives = np.zeros_like(n_scores)
    n_shrunk = np.zeros_like(n_scores)
    sums = np.zeros(bins)
    shrunk = shrunk_loo_scores(true, raw)
    for tag in range(t):
        own = raw[:, tag]
        has = true[:, tag]
        place = np.searchsorted(edges, own, side="right")
        sums += np.bincount(place, weights=own, minlength=bins)
        n_scores[tag] = _by_fold(folds, place, bins)
        n_positives[tag] = _by_fold(folds[has], place[has], bins)
        shrunk_place = np.searchsorted(edges, shrunk[has, tag], side="right")
        n_shrunk[tag] = _by_fold(folds[has], shrunk_place, bins)
    by_raw = ranking.rank_tags(true, raw)
    auc = ranking.tag_auc(true, correct_loo_bias(true, raw))
    return Counts(n_scores, n_positives, n_shrunk, sums, by_raw.precision, auc)


def _by_fold(folds: Rows, place: Rows, bins: int) -> Array:
    """Return histograms of each fold, folds x bins."""
    return np.bincount(folds * bins + place, minlength=N_FOLDS * bins).reshape(N_FOLDS, bins)


def score_columns(
    scores: Any, tags: sparse.csr_array, columns: Rows
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the scores of all images for some tags (n x columns), and their labels.

    ``tags`` has a row for each of the columns.
    """
    n = scores.shape[0]
    selected = np.empty((n, len(columns)), np.float32)
    for start in range(0, n, SUM_BATCH):
        part = slice(start, start + SUM_BATCH)
        selected[part] = load_rows(scores[part])[:, columns]
    return selected, np.asarray(tags.T.toarray() > 0)


def calibrate(
    collection: TrainingCollection, mixed: Mixed, factors: Factors, threshold: str | float
) -> Thresholded:
    """Fit the calibration, select thresholds, and estimate both on held-out folds."""
    edges = _edges(collection, factors.raw)

    def compute() -> dict[str, Array]:
        rows = [np.arange(collection.shape[2]), collection.Y.T.tocsr()]
        shared = [mixed.scores, collection.folds, edges]
        size = int(
            np.clip(BATCH_SCORES // collection.shape[0], min(4, MAX_BATCH_TAGS), MAX_BATCH_TAGS)
        )
        parts = collection.engine.map(count_tags, rows, shared, size=size)
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in Counts._fields
            if name != "sums"
        }
        return {**joined, "sums": np.sum([part.sums for part in parts], axis=0)}

    counts = Counts(**collection.stage_cache.arrays("counts", compute))
    size = counts.n_scores.sum(axis=(0, 1))
    lower_edges = np.concatenate([edges[:1], edges]).astype(np.float64)
    bin_mean = np.where(size > 0, counts.sums / np.maximum(size, 1), lower_edges)

    def fit_both(folds: list[int]) -> tuple[Calibration, Any]:
        fitted = calibration.fit_counts(
            bin_mean,
            counts.n_scores[:, folds].sum(axis=1),
            counts.n_positives[:, folds].sum(axis=1),
        )
        return fitted, _thresholds(counts, edges, folds, fitted, bin_mean, threshold)

    t = len(counts.n_scores)
    hits = np.zeros(t)
    applied = np.zeros(t)
    probabilities = np.empty(factors.raw.shape)
    fold_of = collection.folds[collection.sample]
    for fold in range(N_FOLDS):
        fitted, limits = fit_both([other for other in range(N_FOLDS) if other != fold])
        rows = np.flatnonzero(fold_of == fold)
        probabilities[rows] = fitted(factors.raw[rows])
        limits = limits if isinstance(threshold, str) else limits / factors.tag_scale
        place = np.searchsorted(edges, np.broadcast_to(limits, t), side="right")
        place = np.minimum(place, len(edges) - 1)
        above = _above(counts, [fold])
        hits += above.hits[np.arange(t), place]
        applied += above.applied[np.arange(t), place]
    fitted, limits = fit_both(list(range(N_FOLDS)))
    selected = limits
    if isinstance(threshold, str):
        selected = np.asarray(limits * factors.tag_scale, np.float64)
    precision = counts.precision[np.isfinite(counts.precision)]
    return Thresholded(
        threshold=selected,
        calibration=fitted,
        probabilities=probabilities,
        f1=calibration.estimate_f1(hits, applied, counts.n_positives.sum(axis=(1, 2))),
        mean_average_precision=float(precision.mean()) if len(precision) else 0.0,
        auc=counts.auc,
    )


def _edges(collection: TrainingCollection, raw: Floats) -> Floats:
    """Return edges, denser among the scores of positive pairs."""
    true = collection.task.Y.toarray() > 0
    parts = [np.quantile(raw[true], np.linspace(0, 1, N_EDGES // 4)) if true.any() else raw.ravel()]
    each = max(2, min(EDGES_PER_TAG, N_EDGES // (2 * raw.shape[1])))
    for tag in np.flatnonzero(true.any(axis=0)):
        positive_scores = np.sort(raw[true[:, tag], tag])
        parts.append(np.quantile(positive_scores, np.linspace(0, 1, each)))
    parts.append(
        np.quantile(raw.ravel()[:: max(1, raw.size >> 20)], np.linspace(0, 1, N_EDGES // 4))
    )
    edges = np.unique(np.concatenate(parts).astype(np.float32))
    return np.asarray(edges[np.unique(np.linspace(0, len(edges) - 1, N_EDGES).astype(int))])


class _Above(NamedTuple):
    """Numbers of scores that reach each edge, tags x edges."""

    hits: Array  # of positive pairs, by shrunk leave-one-out scores
    applied: Array


def _above(counts: Counts, folds: list[int]) -> _Above:
    """Count the scores of some folds that reach each edge."""

    def reaching(histogram: Array) -> Array:
        selected = histogram[:, folds].sum(axis=1, dtype=np.int64)
        return np.asarray(selected[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])

    hits = reaching(counts.n_shrunk)
    return _Above(hits, hits + reaching(counts.n_scores) - reaching(counts.n_positives))


def _thresholds(
    counts: Counts,
    edges: Floats,
    folds: list[int],
    fitted: Calibration,
    bin_mean: Doubles,
    threshold: str | float,
) -> Any:
    """Select thresholds on some folds, just below the best edge, as for a fit in memory."""
    if not isinstance(threshold, str):
        return threshold
    above = _above(counts, folds)
    present = counts.n_positives[:, folds].sum(axis=(1, 2))
    if threshold == "global":
        precision = safe_ratio(above.hits, above.applied).mean(axis=0)
        recall = safe_ratio(above.hits, present[:, None]).mean(axis=0)
        return _below(edges, _last_best(harmonic_mean(precision, recall)[None, :]))[0]
    # The probabilities of the mean score of each bin stand for those of its scores.
    size = counts.n_scores[:, folds].sum(axis=1)
    expected = size * fitted(np.repeat(bin_mean[:, None], len(size), axis=1)).T
    expected_above = expected[:, ::-1].cumsum(axis=1)[:, ::-1]
    weight = thresholds.PROBABILITY_WEIGHT / (thresholds.PROBABILITY_WEIGHT + present)
    hits = weight[:, None] * expected_above[:, 1:] + (1 - weight)[:, None] * above.hits
    total = weight * expected_above[:, 0] + (1 - weight) * present
    return _below(edges, _last_best(2 * hits / np.maximum(above.applied + total[:, None], 1e-12)))


def _last_best(f1: Array) -> Rows:
    """Return the last best column of each row: the highest threshold of ties."""
    return np.asarray(f1.shape[1] - 1 - np.argmax(f1[:, ::-1], axis=1))


def _below(edges: Floats, places: Rows) -> Floats:
    """Return thresholds just below edges."""
    lower = np.where(places > 0, edges[np.maximum(places - 1, 0)], np.float32(-np.inf))
    pairs = zip(lower, edges[places], strict=True)
    return np.array([thresholds.threshold_between(*pair) for pair in pairs], np.float32)
