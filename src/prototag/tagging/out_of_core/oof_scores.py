"""Held-out scores of all training images, and the tag-correlation model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Floats, Rows
from prototag.engine import tree_sum
from prototag.engine.task_names import batch_name
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.storage.npy_rows import load_rows, take_rows
from prototag.tagging.fit_result import Mixed, Related
from prototag.tagging.loo_ridge import loo_predictions
from prototag.tagging.model import Relations
from prototag.tagging.out_of_core import landmark_ridge
from prototag.tagging.out_of_core.features import (
    SUM_BATCH,
    LinearRidge,
    Sums,
    TrainingCollection,
    TrainingRows,
    add_sums,
)
from prototag.tagging.out_of_core.landmark_ridge import LandmarkRidge
from prototag.tagging.out_of_core.prototypes import parts_of
from prototag.tagging.pipeline import mix_parts, select_shares
from prototag.tagging.reduction import covariances
from prototag.tagging.tag_correlation import RELATION_PENALTY, RELATION_SHRINKAGE, select_factors

ROW_BATCH = 2048  # rows that one batch scores


class Scorer(NamedTuple):
    """The three parts of a held-out score, and their shares."""

    linear_ridge: LinearRidge
    part_semantics: list[Floats]  # S for each part of the folds, learned from the other parts
    ridge: LandmarkRidge
    kernel_share: float
    linear_share: float

    def parts(
        self,
        x: Floats,
        kernel_vectors: Floats,
        leverage: Floats,
        codes: sparse.csr_array,
        y: sparse.csr_array,
        part: Rows,
    ) -> tuple[Floats, Floats, Floats]:
        """Return held-out scores of a batch by codes, by the kernel and by the linear part."""
        linear_ridge = self.linear_ridge
        code_scores = np.empty(y.shape, np.float32)
        for number, S in enumerate(self.part_semantics):
            rows = np.flatnonzero(part == number)
            code_scores[rows] = codes[rows] @ S
        kernel_scores = landmark_ridge.loo_scores(kernel_vectors, y, self.ridge)
        standard = linear_ridge.standard(np.asarray(x, np.float32))
        predicted = linear_ridge.loo_predictions(standard, leverage[:, 0], y)
        predicted *= np.sqrt(linear_ridge.frequency)
        return code_scores, kernel_scores, predicted + linear_ridge.frequency


@batch_name("Score a sample")
def part_rows(*rows: Any) -> tuple[Floats, Floats, Floats]:
    """Return the parts of one batch."""
    *arrays, scorer = rows
    parts: tuple[Floats, Floats, Floats] = scorer.parts(*arrays)
    return parts


@batch_name("Score held-out images")
def mixed_rows(*rows: Any) -> tuple[Floats]:
    """Return the mixed scores of one batch."""
    *arrays, scorer = rows
    return (mix_parts(scorer.parts(*arrays), scorer.kernel_share, scorer.linear_share),)


def mix(
    collection: TrainingCollection,
    lifted: TrainingRows,
    codes: sparse.csr_array,
    part_semantics: list[Floats],
    ridge: LandmarkRidge,
    kernel_share: float | None,
    linear_share: float | None,
) -> Mixed:
    """Select the shares on the sample, then score all images."""
    task = collection.task
    sample = collection.sample
    part = parts_of(collection.folds)
    scorer = Scorer(lifted.linear_ridge, part_semantics, ridge, 0.0, 0.0)

    def choose() -> dict[str, Array]:
        rows = [
            task.X,
            take_rows(lifted.kernel_vectors, sample),
            take_rows(lifted.leverage, sample),
            sparse.csr_array(codes[sample]),
            task.Y,
            part[sample],
        ]
        batches = collection.engine.map(part_rows, rows, [scorer], size=ROW_BATCH)
        codes_of, kernel_of, linear_of = (
            np.concatenate(part) for part in zip(*batches, strict=True)
        )
        parts = (codes_of, kernel_of, linear_of)
        return {"shares": np.array(select_shares(task, parts, kernel_share, linear_share))}

    best_kernel, best_linear = collection.stage_cache.arrays("shares", choose)["shares"].tolist()
    scorer = scorer._replace(kernel_share=best_kernel, linear_share=best_linear)

    def compute() -> Iterator[tuple[Floats]]:
        rows = [collection.X, lifted.kernel_vectors, lifted.leverage, codes, collection.Y, part]
        return collection.engine.stream(mixed_rows, rows, [scorer], size=ROW_BATCH)

    n, _, t = collection.shape
    scores = collection.stage_cache.rows("mixed", {"scores": t}, n, compute)["scores"]
    return Mixed(best_kernel, best_linear, scores)


# -- relations -------------------------------------------------------------------------------------


class Relation(NamedTuple):
    """Ridge regression of residuals on the scores of all tags, with its leverages."""

    center: Floats  # t, mean scores
    target_mean: Floats  # t, mean residuals
    coef: Floats  # t x t
    axes: Floats  # t x t
    shrinkage: Floats  # t
    weight: np.float32  # of the regression in the scores
    mean_leverage: np.float32  # 1 / n

    def leverages(self, scores: Floats) -> Floats:
        """Return the leverage of each image."""
        rotated = (scores - self.center) @ self.axes
        np.square(rotated, out=rotated)
        return np.asarray(rotated @ self.shrinkage + self.mean_leverage, np.float32)

    def raw(self, scores: Floats, leverages: Floats, tags: Array, columns: Any) -> Floats:
        """Return held-out scores of some tags with relations."""
        own_scores = scores[:, columns]
        predicted = np.asarray((scores - self.center) @ self.coef[:, columns], np.float32)
        residuals = np.asarray(tags - own_scores - self.target_mean[columns], np.float32)
        corrections = (
            loo_predictions(predicted, leverages[:, None], residuals) + self.target_mean[columns]
        )
        return np.asarray(own_scores + self.weight * corrections, np.float32)


def relation_sums(scores: Floats, y: sparse.csr_array) -> Sums:
    """Compute the sums of one batch."""
    return Sums(covariances(scores), np.asarray(y.T @ scores, np.float64))


def relate_tags(
    collection: TrainingCollection,
    mixed: Mixed,
    weight: float,
    level: float | None,
    boost: float | None,
) -> tuple[Related, Relation]:
    """Fit relations and factors as :func:`prototag.tagging.tag_correlation.relate_tags`, from sums.

    Returns the stage result, and the regression that computes held-out scores.
    """
    n, _, t = collection.shape

    def compute() -> dict[str, Array]:
        rows = [mixed.scores, collection.Y]
        totals = tree_sum(collection.engine, relation_sums, rows, add=add_sums, size=SUM_BATCH)
        mean = totals.moments.mean
        squares = totals.moments.squares
        rates = np.bincount(collection.Y.indices, minlength=t) / n
        values, axes = np.linalg.eigh(squares)
        cross = totals.tagged.T - n * np.outer(mean, rates) - squares
        shrinkage = 1 / (np.maximum(values, 0) + RELATION_PENALTY)
        return {
            "center": mean.astype(np.float32),
            "target_mean": (rates - mean).astype(np.float32),
            "coef": (axes @ (shrinkage[:, None] * (axes.T @ cross))).astype(np.float32),
            "axes": axes.astype(np.float32),
            "shrinkage": shrinkage.astype(np.float32),
        }

    cached = collection.stage_cache.arrays("relations", compute)
    h = np.float32(weight * n / (n + RELATION_SHRINKAGE))
    relation = Relation(**cached, weight=h, mean_leverage=np.float32(1 / n))
    scores = take_rows(mixed.scores, collection.sample)
    raw = relation.raw(scores, relation.leverages(scores), collection.task.targets, slice(None))
    corrected = correct_loo_bias(collection.task.Y, raw)
    level, boost, tag_scale = select_factors(collection.task, corrected, level, boost)
    coef = np.eye(t, dtype=np.float32) + h * relation.coef
    intercept = relation.target_mean - relation.center @ relation.coef
    relations = Relations(np.ascontiguousarray(coef), h * intercept)
    return Related(relations, level, boost, tag_scale, raw), relation


def raw_columns(
    mixed: Any, leverages: Floats, tags: sparse.csr_array, columns: Rows, relation: Relation
) -> tuple[Floats, Array]:
    """Return raw scores of all images for some tags (n x columns), and their labels.

    ``tags`` has a row for each of the columns.
    """
    n = mixed.shape[0]
    true = np.asarray(tags.T.toarray() > 0)
    raw = np.empty((n, len(columns)), np.float32)
    for start in range(0, n, SUM_BATCH):
        part = slice(start, start + SUM_BATCH)
        scores = load_rows(mixed[part])
        raw[part] = relation.raw(scores, leverages[part], true[part], columns)
    return raw, true


@batch_name("Compute leverages")
def leverage_rows(scores: Floats, relation: Relation) -> Floats:
    """Return the leverages of one batch."""
    return relation.leverages(scores)
