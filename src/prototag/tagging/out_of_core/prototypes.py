"""Out-of-core prototypes, codes and semantic prototypes.

The prototypes of a fold are means of its own images, by k-means. A training image is coded over the
prototypes of the other folds, so that it contributed to none of them; new images are coded over all
prototypes.
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
from prototag.tagging.out_of_core.features import (
    N_FOLDS,
    N_PARTS,
    ROW_BATCH,
    SUM_BATCH,
    TrainingCollection,
)
from prototag.tagging.out_of_core.kmeans import nearest_centroids, refine

KMEANS_ROUNDS = 8  # of k-means
RHO_TAGS = 100  # tags on which rho is selected


class Prototypes(NamedTuple):
    """ClusterSums of images, the prototypes of all folds."""

    D: Floats  # k x width, unit length
    fold: Rows  # k, the fold of its images
    image: Rows  # k, the nearest image
    tags: Floats  # k x t, frequency of each tag among its images


def learn_prototypes(collection: TrainingCollection, vectors: Any, k: int) -> Prototypes:
    """Learn at most k prototypes, equally collection for each fold; empty clusters are removed."""

    def compute() -> dict[str, Array]:
        rng = np.random.default_rng([collection.seed, 1])
        chosen = []
        centroid_folds = []
        for number in range(N_FOLDS):
            inside = np.flatnonzero(collection.folds == number)
            count = min(len(inside), -(-k * len(inside) // collection.shape[0]))
            chosen.append(np.sort(rng.permutation(inside)[:count]))
            centroid_folds.append(np.full(count, number))
        numbers = np.concatenate(chosen)
        fold = np.concatenate(centroid_folds)
        order = np.argsort(numbers)
        centroids = np.empty((len(numbers), vectors.shape[1]), np.float32)
        centroids[order] = take_rows(vectors, numbers[order])
        rows = [vectors, collection.folds]
        size = len(numbers)
        if size < collection.shape[0]:
            centroids = refine(collection.engine, rows, centroids, fold, KMEANS_ROUNDS)
        parts = collection.engine.map(nearest_centroids, rows, [centroids, fold], size=SUM_BATCH)
        label, distance = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((distance, label))  # by prototype, the nearest image first
        used, first = np.unique(label[order], return_index=True)
        return {
            "D": to_sphere(centroids[used]),
            "fold": fold[used],
            "image": order[first],
            "label": np.searchsorted(used, label),
        }

    cached = collection.stage_cache.arrays("prototypes", compute)
    label = cached["label"]
    k = len(cached["D"])
    members = sparse.csr_array(
        (np.ones(len(label), np.float32), label, np.arange(len(label) + 1)), shape=(len(label), k)
    )
    tags = (members.T @ collection.Y).toarray() / np.bincount(label, minlength=k)[:, None]
    return Prototypes(
        np.array(cached["D"]), cached["fold"], cached["image"], tags.astype(np.float32)
    )


def code_rows(x: Floats, folds: Rows, coders: list[tuple[Coder, Rows]]) -> tuple[Array, ...]:
    """Return codes of a batch: counts, columns and values of non-zeros, and certificates."""
    count = np.zeros(len(x), np.int64)
    gap = np.zeros(len(x))
    stalled = np.zeros(len(x), bool)
    parts = []
    for fold in np.unique(folds):
        rows = np.flatnonzero(folds == fold)
        coder, columns = coders[fold]
        encoded = coder.encode(np.ascontiguousarray(x[rows]))
        codes = encoded.codes
        count[rows] = np.diff(codes.indptr)
        gap[rows] = np.where(encoded.capped, 0.0, encoded.gap)
        stalled[rows] = encoded.stalled
        parts.append((np.repeat(rows, np.diff(codes.indptr)), columns[codes.indices], codes.data))
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    return count, column[order].astype(np.int32), value[order], gap, stalled


def encode(
    collection: TrainingCollection, vectors: Any, learned: Prototypes, settings: CodeSettings
) -> tuple[sparse.csr_array, Certificate]:
    """Code all images; return the codes and the bounds of their errors."""

    def compute() -> dict[str, Array]:
        coders = []
        for fold in range(N_FOLDS):
            columns = np.flatnonzero(learned.fold != fold)
            coder = settings.coder(np.ascontiguousarray(learned.D[columns]))
            coder.prepare()
            coders.append((coder, columns))
        batches = collection.engine.stream(
            code_rows, [vectors, collection.folds], [coders], size=ROW_BATCH
        )
        count, column, value, gap, stalled = (
            np.concatenate(part) for part in zip(*batches, strict=True)
        )
        certificate = np.array([gap.max(initial=0.0), 0, stalled.sum()])
        limits = np.concatenate([[0], np.cumsum(count)])
        return {"limits": limits, "column": column, "value": value, "certificate": certificate}

    cached = collection.stage_cache.arrays("codes", compute)
    gap, _, stalled = cached["certificate"].tolist()
    shape = (collection.shape[0], len(learned.D))
    codes = sparse.csr_array((cached["value"], cached["column"], cached["limits"]), shape=shape)
    return codes, Certificate(gap, 0, int(stalled))


def parts_of(folds: Rows) -> Rows:
    """Return the part of the folds that each image belongs to."""
    return folds % N_PARTS


def learn_semantics(
    collection: TrainingCollection,
    learned: Prototypes,
    codes: sparse.csr_array,
    certificate: Certificate,
    settings: ExemplarSettings,
) -> tuple[Coded, list[Floats]]:
    """Learn S from all codes, and S from the codes outside each part, to score the part by."""

    def choose() -> dict[str, Array]:
        rho = _choose_rho(collection, codes, learned.tags, settings)
        return {"rho": np.array(np.nan if rho is None else rho)}

    cached = float(collection.stage_cache.arrays("rho", choose)["rho"])
    rho = None if np.isnan(cached) else cached

    def semantics(name: str, rows: Rows | None) -> Floats:
        """Learn S from these rows; each S is written before the next, so that memory holds one."""

        def compute() -> dict[str, Array]:
            selected = (codes, collection.Y) if rows is None else (codes[rows], collection.Y[rows])
            return {
                "S": SemanticLearner(*selected, collection.seed, settings, learned.tags).learn(rho)
            }

        return collection.stage_cache.arrays(name, compute)["S"]

    S = semantics("semantics", None)
    part_semantics = [
        semantics(f"semantics-{i}", outside) for i, (_, outside) in enumerate(_parts(collection))
    ]
    coded = Coded(
        prototypes=learned.D,
        examples=learned.image,
        semantics=SparseRows.from_matrix(S),
        codes=codes,
        folds=collection.folds,
        rho=rho,
        spread=0.0,
        certificate=certificate,
        clusterings=None,
        oof_scores=None,
    )
    return coded, part_semantics


def _parts(collection: TrainingCollection) -> Iterator[tuple[Rows, Rows]]:
    """Yield the images inside and outside each part of the folds."""
    for part in range(N_PARTS):
        inside = parts_of(collection.folds) == part
        yield np.flatnonzero(inside), np.flatnonzero(~inside)


def _choose_rho(
    collection: TrainingCollection,
    codes: sparse.csr_array,
    start: Floats,
    settings: ExemplarSettings,
) -> float | None:
    """Select rho on the sample and on some tags, from the most frequent to the rarest."""
    if settings.rho != "auto":
        return settings.rho
    p = np.bincount(collection.Y.indices, minlength=collection.Y.shape[1])
    order = np.argsort(-p, kind="stable")
    tags = np.unique(order[np.linspace(0, len(p) - 1, min(RHO_TAGS, len(p))).astype(int)])
    Y = sparse.csr_array(collection.Y[:, tags])
    part_of_image = parts_of(collection.folds[collection.sample])
    sample_codes = sparse.csr_array(codes[collection.sample])
    shape = (len(part_of_image), len(tags))
    scores = [np.empty(shape, np.float32) for _ in RHO_GRID]
    for part, (_, outside) in enumerate(_parts(collection)):
        semantics = SemanticLearner(
            codes[outside], Y[outside], collection.seed, settings, start[:, tags]
        )
        rows = np.flatnonzero(part_of_image == part)
        for by_rho, rho in zip(scores, RHO_GRID, strict=True):
            by_rho[rows] = sample_codes[rows] @ semantics.learn(rho)
    true = collection.task.Y[:, tags]
    quality = [ranking.mean_average_precision(true, by_rho) for by_rho in scores]
    return RHO_GRID[int(np.argmax(quality))]
