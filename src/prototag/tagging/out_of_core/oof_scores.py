"""Scores of all training images as if they were new, and what the tags say of each other."""

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
from prototag.tagging.out_of_core.features import BLOCK, Many, Straight, Sums, TrainingRows, both
from prototag.tagging.out_of_core.landmark_ridge import LandmarkRidge
from prototag.tagging.out_of_core.prototypes import parts_of
from prototag.tagging.pipeline import mix_parts, select_shares
from prototag.tagging.reduction import covariances
from prototag.tagging.tag_correlation import RELATION_PENALTY, RELATION_SHRINKAGE, select_factors

ROWS = 2048  # rows scored at once


class Scorer(NamedTuple):
    """The three parts of a score, for images that were left out."""

    straight: Straight
    others: list[Floats]  # S of each part of the folds
    ridge: LandmarkRidge
    share: float
    linear_share: float

    def parts(
        self,
        x: Floats,
        short: Floats,
        lever: Floats,
        codes: sparse.csr_array,
        y: sparse.csr_array,
        part: Rows,
    ) -> tuple[Floats, Floats, Floats]:
        """Of a block: by codes, by kernel, by the linear part."""
        straight = self.straight
        coded = np.empty(y.shape, np.float32)
        for number, S in enumerate(self.others):
            rows = np.flatnonzero(part == number)
            coded[rows] = codes[rows] @ S
        smooth = landmark_ridge.left_out(short, y, self.ridge)
        standard = straight.standard(np.asarray(x, np.float32))
        predicted = straight.left_out(standard, lever[:, 0], y)
        predicted *= np.sqrt(straight.frequency)
        return coded, smooth, predicted + straight.frequency


@batch_name("Score a sample")
def part_rows(*rows: Any) -> tuple[Floats, Floats, Floats]:
    """The parts of one block."""
    *given, scorer = rows
    found: tuple[Floats, Floats, Floats] = scorer.parts(*given)
    return found


@batch_name("Score images that were left out")
def mixed_rows(*rows: Any) -> tuple[Floats]:
    """The scores of one block."""
    *given, scorer = rows
    return (mix_parts(scorer.parts(*given), scorer.share, scorer.linear_share),)


def mix(
    many: Many,
    lifted: TrainingRows,
    codes: sparse.csr_array,
    others: list[Floats],
    ridge: LandmarkRidge,
    share: float | None,
    linear_share: float | None,
) -> Mixed:
    """Select the shares on the sample, then score all images.

    ``others`` are S of each part of the folds, learned outside of it.
    """
    task = many.task
    sample = many.sample
    part = parts_of(many.folds)
    scorer = Scorer(lifted.straight, others, ridge, 0.0, 0.0)

    def choose() -> dict[str, Array]:
        rows = [
            task.X,
            take_rows(lifted.short, sample),
            take_rows(lifted.lever, sample),
            sparse.csr_array(codes[sample]),
            task.Y,
            part[sample],
        ]
        blocks = many.engine.map(part_rows, rows, [scorer], size=ROWS)
        by_codes, by_kernel, linear = (np.concatenate(of) for of in zip(*blocks, strict=True))
        parts = by_codes, by_kernel, linear
        return {"shares": np.array(select_shares(task, parts, share, linear_share))}

    g, u = many.scratch.arrays("shares", choose)["shares"].tolist()
    scorer = scorer._replace(share=g, linear_share=u)

    def compute() -> Iterator[tuple[Floats]]:
        rows = [many.X, lifted.short, lifted.lever, codes, many.Y, part]
        return many.engine.stream(mixed_rows, rows, [scorer], size=ROWS)

    n, _, t = many.shape
    return Mixed(g, u, many.scratch.rows("mixed", {"scores": t}, n, compute)["scores"])


# -- relations -------------------------------------------------------------------------------------


class Relation(NamedTuple):
    """A ridge regression of what scores lack on the scores of all tags."""

    center: Floats  # t, mean scores
    middle: Floats  # t, what they lack on average
    coef: Floats  # t x t
    axes: Floats  # t x t
    share: Floats  # t
    weight: np.float32  # how far scores follow it
    own: np.float32  # 1 / n

    def levers(self, scores: Floats) -> Floats:
        """How much each image says of itself."""
        along = (scores - self.center) @ self.axes
        np.square(along, out=along)
        return np.asarray(along @ self.share + self.own, np.float32)

    def raw(self, scores: Floats, levers: Floats, tags: Array, columns: Any) -> Floats:
        """Scores of some tags with what all tags say, of images that were left out."""
        mine = scores[:, columns]
        predicted = np.asarray((scores - self.center) @ self.coef[:, columns], np.float32)
        lacks = np.asarray(tags - mine - self.middle[columns], np.float32)
        without = loo_predictions(predicted, levers[:, None], lacks) + self.middle[columns]
        return np.asarray(mine + self.weight * without, np.float32)


def relation_sums(scores: Floats, y: sparse.csr_array) -> Sums:
    """Of one block."""
    return Sums(covariances(scores), np.asarray(y.T @ scores, np.float64))


def relate(
    many: Many, mixed: Mixed, weight: float, level: float | None, boost: float | None
) -> tuple[Related, Relation]:
    """As :func:`prototag.tagging.tag_correlation.relate_tags`, from sums.

    Returns what the model needs, and what held-out scores are computed from.
    """
    n, _, t = many.shape

    def compute() -> dict[str, Array]:
        rows = [mixed.scores, many.Y]
        found = tree_sum(many.engine, relation_sums, rows, add=both, size=BLOCK)
        mean = found.moments.mean
        squares = found.moments.squares
        rates = np.bincount(many.Y.indices, minlength=t) / n
        values, axes = np.linalg.eigh(squares)
        cross = found.tagged.T - n * np.outer(mean, rates) - squares
        share = 1 / (np.maximum(values, 0) + RELATION_PENALTY)
        return {
            "center": mean.astype(np.float32),
            "middle": (rates - mean).astype(np.float32),
            "coef": (axes @ (share[:, None] * (axes.T @ cross))).astype(np.float32),
            "axes": axes.astype(np.float32),
            "share": share.astype(np.float32),
        }

    kept = many.scratch.arrays("relations", compute)
    h = np.float32(weight * n / (n + RELATION_SHRINKAGE))
    relation = Relation(**kept, weight=h, own=np.float32(1 / n))
    scores = take_rows(mixed.scores, many.sample)
    raw = relation.raw(scores, relation.levers(scores), many.task.targets, slice(None))
    fair = correct_loo_bias(many.task.Y, raw)
    level, boost, tag_scale = select_factors(many.task, fair, level, boost)
    coef = np.eye(t, dtype=np.float32) + h * relation.coef
    intercept = relation.middle - relation.center @ relation.coef
    relations = Relations(np.ascontiguousarray(coef), h * intercept)
    return Related(relations, level, boost, tag_scale, raw), relation


def raw_columns(
    mixed: Any, levers: Floats, tags: sparse.csr_array, columns: Rows, relation: Relation
) -> tuple[Floats, Array]:
    """Raw scores of all images for some tags, n x columns, and whether the tags are there.

    ``tags`` has a row for each of the columns.
    """
    n = mixed.shape[0]
    true = np.asarray(tags.T.toarray() > 0)
    raw = np.empty((n, len(columns)), np.float32)
    for start in range(0, n, BLOCK):
        part = slice(start, start + BLOCK)
        scores = load_rows(mixed[part])
        raw[part] = relation.raw(scores, levers[part], true[part], columns)
    return raw, true


@batch_name("Measure levers")
def lever_rows(scores: Floats, relation: Relation) -> Floats:
    """The levers of one block."""
    return relation.levers(scores)
