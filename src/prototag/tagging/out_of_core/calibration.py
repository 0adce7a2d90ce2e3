"""Thresholds, probabilities and promises, from scores that are looked at tag by tag.

What all tags share, one threshold and one rising function, comes from counts: how many scores of
each tag and fold lie between some thousand edges, and how many of these are right.
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
from prototag.tagging.out_of_core.features import BLOCK, FOLDS, Many
from prototag.tagging.out_of_core.oof_scores import Relation, lever_rows, raw_columns

SCORES = 8_000_000  # looked at at once, but of four tags at least
TAGS = 16  # at most
EDGES = 4096  # between which scores are counted
EACH = 32  # of them by the right scores of each tag


class Counts(NamedTuple):
    """Of some tags, by fold and by bin."""

    given: Array  # tags x folds x bins, scores in the bin
    right: Array  # of them those of a tag that is there
    fair: Array  # right ones, raised halfway to what new images would score
    sums: Doubles  # bins, of scores in the bin
    own: Floats  # tags x (folds + 1), the best threshold without each fold, and of all images
    precision: Doubles  # tags, average precision
    area: Doubles  # tags, AUC of what new images would score


@batch_name("Count scores of tags")
def count_tags(
    columns: Rows,
    tags: sparse.csr_array,
    mixed: Any,
    levers: Floats,
    relation: Relation,
    folds: Rows,
    edges: Floats,
) -> Counts:
    """Look at all scores of some tags."""
    raw, true = raw_columns(mixed, levers, tags, columns, relation)
    bins = len(edges) + 1
    t = len(columns)
    given = np.zeros((t, FOLDS, bins), np.int32)
    right = np.zeros_like(given)
    fair = np.zeros_like(given)
    sums = np.zeros(bins)
    raised = shrunk_loo_scores(true, raw)
    for tag in range(t):
        mine = raw[:, tag]
        has = true[:, tag]
        place = np.searchsorted(edges, mine, side="right")
        sums += np.bincount(place, weights=mine, minlength=bins)
        given[tag] = _by_fold(folds, place, bins)
        right[tag] = _by_fold(folds[has], place[has], bins)
        higher = np.searchsorted(edges, raised[has, tag], side="right")
        fair[tag] = _by_fold(folds[has], higher, bins)
    own = np.empty((t, FOLDS + 1), np.float32)
    for fold in range(FOLDS + 1):
        rows = slice(None) if fold == FOLDS else np.flatnonzero(folds != fold)
        found = ranking.rank_tags(true[rows], raised[rows])
        between = zip(found.lower, found.best, strict=True)
        own[:, fold] = [thresholds.threshold_between(lower, best) for lower, best in between]
    judged = ranking.rank_tags(true, raw)
    area = ranking.tag_auc(true, correct_loo_bias(true, raw))
    return Counts(given, right, fair, sums, own, judged.precision, area)


def _by_fold(folds: Rows, place: Rows, bins: int) -> Array:
    return np.bincount(folds * bins + place, minlength=FOLDS * bins).reshape(FOLDS, bins)


def finish(
    many: Many, mixed: Mixed, related: Related, relation: Relation, threshold: str | float
) -> Thresholded:
    """Choose thresholds and the calibration, and judge both by folds that they have not seen."""
    edges = _edges(many, related.raw)

    def compute() -> dict[str, Array]:
        levers = map_rows(many.engine, lever_rows, [mixed.scores], [relation], size=BLOCK)
        rows = [np.arange(many.shape[2]), many.Y.T.tocsr()]
        shared = [mixed.scores, levers, relation, many.folds, edges]
        size = int(np.clip(SCORES // many.shape[0], min(4, TAGS), TAGS))
        parts = many.engine.map(count_tags, rows, shared, size=size)
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in Counts._fields
            if name != "sums"
        }
        return {**joined, "sums": np.sum([part.sums for part in parts], axis=0)}

    counts = Counts(**many.scratch.arrays("counts", compute))
    size = counts.given.sum(axis=(0, 1))
    low = np.concatenate([edges[:1], edges]).astype(np.float64)
    middle = np.where(size > 0, counts.sums / np.maximum(size, 1), low)
    whole = range(FOLDS)
    chosen = _thresholds(counts, edges, FOLDS, list(whole), threshold)
    scale = related.tag_scale
    limits = chosen if not isinstance(threshold, str) else np.asarray(chosen * scale, np.float64)
    found = calibration.fit_counts(middle, counts.given.sum(axis=1), counts.right.sum(axis=1))
    probabilities = np.empty(related.raw.shape)
    folds = many.folds[many.sample]
    for fold in whole:
        outside = [other for other in whole if other != fold]
        given, right = (of[:, outside].sum(axis=1) for of in (counts.given, counts.right))
        rows = np.flatnonzero(folds == fold)
        by_others = calibration.fit_counts(middle, given, right)
        probabilities[rows] = by_others(related.raw[rows])
    precision = counts.precision[np.isfinite(counts.precision)]
    return Thresholded(
        threshold=limits,
        calibration=found,
        probabilities=probabilities,
        f1=_oof_f1(counts, edges, threshold, scale),
        mean_average_precision=float(precision.mean()) if len(precision) else 0.0,
        auc=counts.area,
    )


def _edges(many: Many, raw: Floats) -> Floats:
    """Between which the scores of every tag are told apart where they matter."""
    true = many.task.Y.toarray() > 0
    parts = [np.quantile(raw[true], np.linspace(0, 1, EDGES // 4)) if true.any() else raw.ravel()]
    each = max(2, min(EACH, EDGES // (2 * raw.shape[1])))
    for tag in np.flatnonzero(true.any(axis=0)):
        own = np.sort(raw[true[:, tag], tag])
        parts.append(np.quantile(own, np.linspace(0, 1, each)))
    parts.append(np.quantile(raw.ravel()[:: max(1, raw.size >> 20)], np.linspace(0, 1, EDGES // 4)))
    edges = np.unique(np.concatenate(parts).astype(np.float32))
    return np.asarray(edges[np.unique(np.linspace(0, len(edges) - 1, EDGES).astype(int))])


def _above(counts: Array, outside: list[int]) -> Array:
    """Tags x edges: how many scores of some folds reach each edge."""
    kept = counts[:, outside].sum(axis=1, dtype=np.int64)
    return np.asarray(kept[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])


def _global(counts: Counts, edges: Floats, outside: list[int]) -> float:
    """The edge with the best F1 of the means, of equals the highest, and a little below it."""
    right = _above(counts.fair, outside)
    others = _above(counts.given, outside) - _above(counts.right, outside)
    present = counts.right[:, outside].sum(axis=(1, 2))
    precision = safe_ratio(right, right + others).mean(axis=0)
    recall = safe_ratio(right, present[:, None]).mean(axis=0)
    f1 = harmonic_mean(precision, recall)
    best = len(f1) - 1 - int(np.argmax(f1[::-1]))
    lower = edges[best - 1] if best else -np.inf
    return float(thresholds.threshold_between(np.float32(lower), np.float32(edges[best])))


def _thresholds(
    counts: Counts, edges: Floats, fold: int, outside: list[int], threshold: str | float
) -> Any:
    """Thresholds by some folds: those of each tag, drawn to the one of all where it is rare."""
    if not isinstance(threshold, str):
        return threshold
    general = _global(counts, edges, outside)
    if threshold == "global":
        return general
    p = counts.right[:, outside].sum(axis=(1, 2))
    own = np.where(p > 0, counts.own[:, fold], general)
    weight = thresholds.THRESHOLD_SHRINKAGE / (thresholds.THRESHOLD_SHRINKAGE + p)
    return np.asarray(weight * general + (1 - weight) * own, np.float32)


def _oof_f1(counts: Counts, edges: Floats, threshold: str | float, scale: Floats) -> float:
    """F1 of the means by thresholds of the other folds, from the counts."""
    t = len(counts.given)
    hits = np.zeros(t)
    given = np.zeros(t)
    for fold in range(FOLDS):
        outside = [other for other in range(FOLDS) if other != fold]
        limit = _thresholds(counts, edges, fold, outside, threshold)
        limit = np.broadcast_to(limit if isinstance(threshold, str) else limit / scale, t)
        place = np.minimum(np.searchsorted(edges, limit, side="right"), len(edges) - 1)
        tag = np.arange(t)
        right = _above(counts.fair, [fold])[tag, place]
        hits += right
        given += right + (_above(counts.given, [fold]) - _above(counts.right, [fold]))[tag, place]
    return calibration.estimate_f1(hits, given, counts.right.sum(axis=(1, 2)))
