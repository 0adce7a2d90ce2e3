"""Thresholds, calibration and estimates from histograms of the scores.

Batches of tags are scored at a time. The threshold and the calibration curve that all tags share
are fitted to counts: the scores and the positive pairs of each tag and fold between some thousand
edges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Doubles, Floats, Rows
from prototag.engine import map_rows
from prototag.engine.task_names import batch_name
from prototag.evaluation import ranking, thresholds
from prototag.evaluation.leave_one_out import correct_loo_bias, shrunk_loo_scores
from prototag.evaluation.ranking import harmonic_mean, safe_ratio
from prototag.tagging import calibration
from prototag.tagging.fit_result import Mixed, Related, Thresholded
from prototag.tagging.out_of_core.features import N_FOLDS, SUM_BATCH, TrainingCollection
from prototag.tagging.out_of_core.oof_scores import Relation, leverage_rows, raw_columns

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
    tag_thresholds: (
        Floats  # tags x (folds + 1), the best threshold without each fold, and of all images
    )
    precision: Doubles  # tags, average precision
    auc: Doubles  # tags, AUC of bias-corrected scores


@batch_name("Count scores of tags")
def count_tags(
    columns: Rows,
    tags: sparse.csr_array,
    mixed: Any,
    leverages: Floats,
    relation: Relation,
    folds: Rows,
    edges: Floats,
) -> Counts:
    """Compute the histograms and thresholds of some tags."""
    raw, true = raw_columns(mixed, leverages, tags, columns, relation)
    bins = len(edges) + 1
    t = len(columns)
    n_scores = np.zeros((t, N_FOLDS, bins), np.int32)
    n_positives = np.zeros_like(n_scores)
    n_shrunk = np.zeros_like(n_scores)
    sums = np.zeros(bins)
    shrunk = shrunk_loo_scores(true, raw)
    for tag in range(t):
        scores = raw[:, tag]
        has = true[:, tag]
        place = np.searchsorted(edges, scores, side="right")
        sums += np.bincount(place, weights=scores, minlength=bins)
        n_scores[tag] = _by_fold(folds, place, bins)
        n_positives[tag] = _by_fold(folds[has], place[has], bins)
        shrunk_place = np.searchsorted(edges, shrunk[has, tag], side="right")
        n_shrunk[tag] = _by_fold(folds[has], shrunk_place, bins)
    tag_thresholds = np.empty((t, N_FOLDS + 1), np.float32)
    for fold in range(N_FOLDS + 1):
        rows = slice(None) if fold == N_FOLDS else np.flatnonzero(folds != fold)
        ranked = ranking.rank_tags(true[rows], shrunk[rows])
        limits = zip(ranked.lower, ranked.best, strict=True)
        tag_thresholds[:, fold] = [
            thresholds.threshold_between(lower, best) for lower, best in limits
        ]
    by_raw = ranking.rank_tags(true, raw)
    auc = ranking.tag_auc(true, correct_loo_bias(true, raw))
    return Counts(n_scores, n_positives, n_shrunk, sums, tag_thresholds, by_raw.precision, auc)


def _by_fold(folds: Rows, place: Rows, bins: int) -> Array:
    """Return histograms of each fold, folds x bins."""
    return np.bincount(folds * bins + place, minlength=N_FOLDS * bins).reshape(N_FOLDS, bins)


def calibrate(
    collection: TrainingCollection,
    mixed: Mixed,
    related: Related,
    relation: Relation,
    threshold: str | float,
) -> Thresholded:
    """Select thresholds, fit the calibration, and estimate both on held-out folds."""
    edges = _edges(collection, related.raw)

    def compute() -> dict[str, Array]:
        leverages = map_rows(
            collection.engine, leverage_rows, [mixed.scores], [relation], size=SUM_BATCH
        )
        rows = [np.arange(collection.shape[2]), collection.Y.T.tocsr()]
        shared = [mixed.scores, leverages, relation, collection.folds, edges]
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
    all_folds = range(N_FOLDS)
    selected = _thresholds(counts, edges, N_FOLDS, list(all_folds), threshold)
    scale = related.tag_scale
    if isinstance(threshold, str):
        selected = np.asarray(selected * scale, np.float64)
    fitted = calibration.fit_counts(
        bin_mean, counts.n_scores.sum(axis=1), counts.n_positives.sum(axis=1)
    )
    probabilities = np.empty(related.raw.shape)
    folds = collection.folds[collection.sample]
    for fold in all_folds:
        outside = [other for other in all_folds if other != fold]
        n_scores = counts.n_scores[:, outside].sum(axis=1)
        n_positives = counts.n_positives[:, outside].sum(axis=1)
        rows = np.flatnonzero(folds == fold)
        by_other_folds = calibration.fit_counts(bin_mean, n_scores, n_positives)
        probabilities[rows] = by_other_folds(related.raw[rows])
    precision = counts.precision[np.isfinite(counts.precision)]
    return Thresholded(
        threshold=selected,
        calibration=fitted,
        probabilities=probabilities,
        f1=_oof_f1(counts, edges, threshold, scale),
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


def _above(counts: Array, outside: list[int]) -> Array:
    """Count the scores of some folds that reach each edge, tags x edges."""
    selected = counts[:, outside].sum(axis=1, dtype=np.int64)
    return np.asarray(selected[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])


def _global(counts: Counts, edges: Floats, outside: list[int]) -> float:
    """Return a threshold just below the edge with the best F1 of the means, the highest of ties."""
    n_positives = _above(counts.n_shrunk, outside)
    false_positives = _above(counts.n_scores, outside) - _above(counts.n_positives, outside)
    present = counts.n_positives[:, outside].sum(axis=(1, 2))
    precision = safe_ratio(n_positives, n_positives + false_positives).mean(axis=0)
    recall = safe_ratio(n_positives, present[:, None]).mean(axis=0)
    f1 = harmonic_mean(precision, recall)
    best = len(f1) - 1 - int(np.argmax(f1[::-1]))
    lower = edges[best - 1] if best else -np.inf
    return float(thresholds.threshold_between(np.float32(lower), np.float32(edges[best])))


def _thresholds(
    counts: Counts, edges: Floats, fold: int, outside: list[int], threshold: str | float
) -> Any:
    """Select thresholds on some folds: per tag, shrunk toward the global one for rare tags."""
    if not isinstance(threshold, str):
        return threshold
    general = _global(counts, edges, outside)
    if threshold == "global":
        return general
    p = counts.n_positives[:, outside].sum(axis=(1, 2))
    tag_thresholds = np.where(p > 0, counts.tag_thresholds[:, fold], general)
    weight = thresholds.THRESHOLD_SHRINKAGE / (thresholds.THRESHOLD_SHRINKAGE + p)
    return np.asarray(weight * general + (1 - weight) * tag_thresholds, np.float32)


def _oof_f1(counts: Counts, edges: Floats, threshold: str | float, scale: Floats) -> float:
    """Estimate F1 of the means with thresholds of the other folds, from the counts."""
    t = len(counts.n_scores)
    hits = np.zeros(t)
    n_scores = np.zeros(t)
    for fold in range(N_FOLDS):
        outside = [other for other in range(N_FOLDS) if other != fold]
        limit = _thresholds(counts, edges, fold, outside, threshold)
        limit = np.broadcast_to(limit if isinstance(threshold, str) else limit / scale, t)
        place = np.minimum(np.searchsorted(edges, limit, side="right"), len(edges) - 1)
        tag = np.arange(t)
        n_positives = _above(counts.n_shrunk, [fold])[tag, place]
        hits += n_positives
        n_scores += (
            n_positives
            + (_above(counts.n_scores, [fold]) - _above(counts.n_positives, [fold]))[tag, place]
        )
    return calibration.estimate_f1(hits, n_scores, counts.n_positives.sum(axis=(1, 2)))
