"""Held-out scores of all training images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Floats, Rows
from prototag.engine.task_names import batch_name
from prototag.storage.npy_rows import take_rows
from prototag.tagging.fit_result import Mixed
from prototag.tagging.out_of_core import landmark_ridge
from prototag.tagging.out_of_core.features import TrainingCollection
from prototag.tagging.out_of_core.landmark_ridge import LandmarkRidge
from prototag.tagging.out_of_core.prototypes import parts_of
from prototag.tagging.pipeline import mix_parts, select_share

ROW_BATCH = 2048  # rows that one batch scores


class Scorer(NamedTuple):
    """The two parts of a held-out score, and the share of the kernel."""

    part_semantics: list[Floats]  # S for each part of the folds, learned from the other parts
    ridge: LandmarkRidge
    kernel_share: float

    def parts(
        self, vectors: Floats, codes: sparse.csr_array, y: sparse.csr_array, part: Rows
    ) -> tuple[Floats, Floats]:
        """Return held-out scores of a batch by codes and by the kernel."""
        code_scores = np.empty(y.shape, np.float32)
        for number, S in enumerate(self.part_semantics):
            rows = np.flatnonzero(part == number)
            code_scores[rows] = codes[rows] @ S
        return code_scores, landmark_ridge.loo_scores(vectors, y, self.ridge)


@batch_name("Score a sample")
def part_rows(*rows: Any) -> tuple[Floats, Floats]:
    """Return the parts of one batch."""
    *arrays, scorer = rows
    parts: tuple[Floats, Floats] = scorer.parts(*arrays)
    return parts


@batch_name("Score held-out images")
def mixed_rows(*rows: Any) -> tuple[Floats]:
    """Return the mixed scores of one batch."""
    *arrays, scorer = rows
    code_scores, kernel_scores = scorer.parts(*arrays)
    return (mix_parts(code_scores, kernel_scores, scorer.kernel_share),)


def mix(
    collection: TrainingCollection,
    vectors: Any,
    codes: sparse.csr_array,
    part_semantics: list[Floats],
    ridge: LandmarkRidge,
    kernel_share: float | None,
) -> Mixed:
    """Select the share on the sample, then score all images."""
    task = collection.task
    sample = collection.sample
    part = parts_of(collection.folds)
    scorer = Scorer(part_semantics, ridge, 0.0)

    def choose() -> dict[str, Array]:
        rows = [
            take_rows(vectors, sample),
            sparse.csr_array(codes[sample]),
            task.Y,
            part[sample],
        ]
        batches = collection.engine.map(part_rows, rows, [scorer], size=ROW_BATCH)
        code_scores, kernel_scores = (np.concatenate(part) for part in zip(*batches, strict=True))
        return {"share": np.array(select_share(task, code_scores, kernel_scores, kernel_share))}

    share = float(collection.stage_cache.arrays("share", choose)["share"])
    scorer = scorer._replace(kernel_share=share)

    def compute() -> Iterator[tuple[Floats]]:
        rows = [vectors, codes, collection.Y, part]
        return collection.engine.stream(mixed_rows, rows, [scorer], size=ROW_BATCH)

    n, _, t = collection.shape
    scores = collection.stage_cache.rows("mixed", {"scores": t}, n, compute)["scores"]
    return Mixed(share, scores)
