"""Prototypes, codes and S over blocks.

Each fold is summarised by means of its own images (k-means, whose rounds are sums over blocks), and
an image is coded over the means of the other folds: none of them has seen it. New images are coded
over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Floats, Rows, SparseRows
from prototag.coding.coder import Certificate, Coder
from prototag.evaluation import ranking
from prototag.mcdl.exemplar_mcdl import RHO_GRID, ExemplarSettings, SemanticLearner
from prototag.mcdl.settings import CodeSettings
from prototag.mcdl.updates import to_sphere
from prototag.storage.npy_rows import take_rows
from prototag.tagging.fit_result import Coded
from prototag.tagging.out_of_core.features import BLOCK, FOLDS, PARTS, ROWS, Many
from prototag.tagging.out_of_core.kmeans import closest, refine

ROUNDS = 8  # of k-means
TRIED = 100  # tags by which the hold on S is chosen


class Prototypes(NamedTuple):
    """Means of images."""

    D: Floats  # k x width, unit length
    fold: Rows  # k, the fold whose images it is the mean of
    image: Rows  # k, the one nearest to it
    tags: Floats  # k x t, how many of its images have each tag, as a share


def summarise(many: Many, vectors: Any, k: int) -> Prototypes:
    """k prototypes, as many for each fold; those that no image is nearest to are left out."""

    def compute() -> dict[str, Array]:
        rng = np.random.default_rng([many.seed, 1])
        chosen = []
        fold_of = []
        for number in range(FOLDS):
            inside = np.flatnonzero(many.folds == number)
            count = min(len(inside), -(-k * len(inside) // many.shape[0]))
            chosen.append(np.sort(rng.permutation(inside)[:count]))
            fold_of.append(np.full(count, number))
        numbers = np.concatenate(chosen)
        fold = np.concatenate(fold_of)
        order = np.argsort(numbers)
        centres = np.empty((len(numbers), vectors.shape[1]), np.float32)
        centres[order] = take_rows(vectors, numbers[order])
        rows = [vectors, many.folds]
        size = len(numbers)
        if size < many.shape[0]:
            centres = refine(many.engine, rows, centres, fold, ROUNDS)
        parts = many.engine.map(closest, rows, [centres, fold], size=BLOCK)
        label, apart = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((apart, label))  # by prototype, the nearest image first
        used, first = np.unique(label[order], return_index=True)
        return {
            "D": to_sphere(centres[used]),
            "fold": fold[used],
            "image": order[first],
            "label": np.searchsorted(used, label),
        }

    kept = many.scratch.arrays("prototypes", compute)
    label = kept["label"]
    k = len(kept["D"])
    members = sparse.csr_array(
        (np.ones(len(label), np.float32), label, np.arange(len(label) + 1)), shape=(len(label), k)
    )
    tags = (members.T @ many.Y).toarray() / np.bincount(label, minlength=k)[:, None]
    return Prototypes(np.array(kept["D"]), kept["fold"], kept["image"], tags.astype(np.float32))


def code_rows(x: Floats, folds: Rows, coders: list[tuple[Coder, Rows]]) -> tuple[Array, ...]:
    """Codes of a block: non-zeros of each image, their places and values, and certificates."""
    count = np.zeros(len(x), np.int64)
    gap = np.zeros(len(x))
    stalled = np.zeros(len(x), bool)
    parts = []
    for fold in np.unique(folds):
        rows = np.flatnonzero(folds == fold)
        (coder, columns) = coders[fold]
        found = coder.encode(np.ascontiguousarray(x[rows]))
        codes = found.codes
        count[rows] = np.diff(codes.indptr)
        gap[rows] = np.where(found.capped, 0.0, found.gap)
        stalled[rows] = found.stalled
        parts.append((np.repeat(rows, np.diff(codes.indptr)), columns[codes.indices], codes.data))
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    return count, column[order].astype(np.int32), value[order], gap, stalled


def encode(many: Many, vectors: Any, found: Prototypes, settings: CodeSettings) -> Any:
    """Codes of all images, and how exact they are."""

    def compute() -> dict[str, Array]:
        coders = []
        for fold in range(FOLDS):
            columns = np.flatnonzero(found.fold != fold)
            coder = settings.coder(np.ascontiguousarray(found.D[columns]))
            coder.prepare()
            coders.append((coder, columns))
        blocks = many.engine.stream(code_rows, [vectors, many.folds], [coders], size=ROWS)
        count, column, value, gap, stalled = (
            np.concatenate(part) for part in zip(*blocks, strict=True)
        )
        certificate = np.array([gap.max(initial=0.0), 0, stalled.sum()])
        limits = np.concatenate([[0], np.cumsum(count)])
        return {"limits": limits, "column": column, "value": value, "certificate": certificate}

    kept = many.scratch.arrays("codes", compute)
    gap, _, stalled = kept["certificate"].tolist()
    shape = (many.shape[0], len(found.D))
    codes = sparse.csr_array((kept["value"], kept["column"], kept["limits"]), shape=shape)
    return codes, Certificate(gap, 0, int(stalled))


def parts_of(folds: Rows) -> Rows:
    """The part of the folds that each image belongs to."""
    return folds % PARTS


def learn(
    many: Many,
    summary: Prototypes,
    codes: sparse.csr_array,
    certificate: Certificate,
    settings: ExemplarSettings,
) -> tuple[Coded, list[Floats]]:
    """Learn S from all codes, and S from the codes outside each part, to score the part by."""

    def choose() -> dict[str, Array]:
        rho = _choose_rho(many, codes, summary.tags, settings)
        return {"rho": np.array(np.nan if rho is None else rho)}

    kept = float(many.scratch.arrays("rho", choose)["rho"])
    rho = None if np.isnan(kept) else kept

    def semantics(name: str, rows: Rows | None) -> Floats:
        """Each is written before the next is learned: memory holds one."""

        def compute() -> dict[str, Array]:
            some = (codes, many.Y) if rows is None else (codes[rows], many.Y[rows])
            return {"S": SemanticLearner(*some, many.seed, settings, summary.tags).learn(rho)}

        return many.scratch.arrays(name, compute)["S"]

    S = semantics("semantics", None)
    others = [semantics(f"semantics-{i}", outside) for i, (_, outside) in enumerate(_parts(many))]
    coded = Coded(
        prototypes=summary.D,
        examples=summary.image,
        semantics=SparseRows.from_matrix(S),
        codes=codes,
        folds=many.folds,
        rho=rho,
        spread=0.0,
        certificate=certificate,
        clusterings=None,
        oof_scores=None,
    )
    return coded, others


def _parts(many: Many) -> Iterator[tuple[Rows, Rows]]:
    for part in range(PARTS):
        inside = parts_of(many.folds) == part
        yield np.flatnonzero(inside), np.flatnonzero(~inside)


def _choose_rho(
    many: Many, codes: sparse.csr_array, start: Floats, settings: ExemplarSettings
) -> float | None:
    """By the images of the sample and some tags, from the most frequent to the rarest."""
    if settings.rho != "auto":
        return settings.rho
    p = np.bincount(many.Y.indices, minlength=many.Y.shape[1])
    order = np.argsort(-p, kind="stable")
    tags = np.unique(order[np.linspace(0, len(p) - 1, min(TRIED, len(p))).astype(int)])
    Y = sparse.csr_array(many.Y[:, tags])
    judged = parts_of(many.folds[many.sample])
    mine = sparse.csr_array(codes[many.sample])
    scores = [np.empty((len(judged), len(tags)), np.float32) for _ in RHO_GRID]
    for part, (_, outside) in enumerate(_parts(many)):
        semantics = SemanticLearner(codes[outside], Y[outside], many.seed, settings, start[:, tags])
        rows = np.flatnonzero(judged == part)
        for found, rho in zip(scores, RHO_GRID, strict=True):
            found[rows] = mine[rows] @ semantics.learn(rho)
    true = many.task.Y[:, tags]
    quality = [ranking.mean_average_precision(true, found) for found in scores]
    return RHO_GRID[int(np.argmax(quality))]
