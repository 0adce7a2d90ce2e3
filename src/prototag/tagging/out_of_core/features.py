"""The first out-of-core stage: the reduction of all vectors.

The first pass computes the moments for z-score, concept columns and principal axes. The second pass
computes the reduced vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Doubles, Floats, Rows
from prototag.engine import Engine, tree_sum
from prototag.engine.task_names import batch_name
from prototag.knowledge.concepts import NamePrior
from prototag.storage.npy_rows import take_rows
from prototag.tagging.fit_result import Reduced
from prototag.tagging.out_of_core.stage_cache import StageCache
from prototag.tagging.reduction import (
    FeatureGroups,
    Moments,
    Reduction,
    add_moments,
    covariances,
)
from prototag.tagging.task import Task

SUM_BATCH = 16_384  # rows that one batch sums
ROW_BATCH = 4096  # rows that one batch reduces or encodes
FOLD_RUN_LENGTH = 64  # consecutive images of one fold, so that bursts are not divided
N_FOLDS = 6  # of the prototypes
N_PARTS = 3  # groups of folds: S for the scores of a part is learned from the others
MAX_SAMPLE_IMAGES = 40_000  # images on which hyperparameters are selected
MAX_SAMPLE_NUMBERS = 32_000_000  # in their vectors: 128 MB
MAX_SAMPLE_SCORES = 20_000_000  # numbers in their scores: 80 MB


@dataclass(frozen=True, eq=False)
class TrainingCollection:
    """All images of a fit, their labels and folds, and a sample in memory."""

    X: Any  # n x m, an array or StoredRows
    Y: sparse.csr_array  # n x t
    folds: Rows  # n, of N_FOLDS
    sample: Rows  # increasing image numbers
    task: Task  # the images of the sample
    seed: int
    engine: Engine
    stage_cache: StageCache

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of images, columns and tags."""
        return (*self.X.shape, self.Y.shape[1])

    @property
    def frequency(self) -> Doubles:
        """The frequency of each tag (t), at least that of one image."""
        n = self.Y.shape[0]
        return np.maximum(np.bincount(self.Y.indices, minlength=self.Y.shape[1]), 1.0) / n


def gather(
    X: Any,
    Y: sparse.csr_array,
    *,
    labels: bool,
    pilot: int,
    seed: int,
    engine: Engine,
    stage_cache: StageCache,
    name_prior: NamePrior | None = None,
    concepts: Floats | None = None,
) -> TrainingCollection:
    """Draw the folds and the sample."""
    n, t = Y.shape
    rng = np.random.default_rng(seed)
    groups = -(-n // FOLD_RUN_LENGTH)
    folds = np.repeat(rng.permutation(groups) % N_FOLDS, FOLD_RUN_LENGTH)[:n].astype(np.intp)
    limit = min(MAX_SAMPLE_IMAGES, MAX_SAMPLE_NUMBERS // X.shape[1], MAX_SAMPLE_SCORES // t)
    count = min(n, max(limit, 2 * pilot))
    sample = np.sort(rng.permutation(n)[:count])
    tags = sparse.csr_array(Y[sample])
    selection_sample = np.sort(rng.permutation(count)[:pilot])
    vectors = np.asarray(take_rows(X, sample), np.float32)
    task = Task(
        vectors,
        tags,
        tags.toarray(),
        None,
        labels,
        seed,
        selection_sample,
        engine,
        name_prior,
        concepts,
    )
    return TrainingCollection(X, Y, folds, sample, task, seed, engine, stage_cache)


# -- reduction -------------------------------------------------------------------------------------


@batch_name("Sum products of vectors")
def moments_of(x: Floats) -> Moments:
    """Compute the moments of one batch."""
    x = np.asarray(x, np.float32)
    if not np.isfinite(x).all():
        raise ValueError("X holds NaN or infinity: remove or repair these rows.")
    return covariances(x)


def collection_moments(collection: TrainingCollection) -> Moments:
    """Compute the moments of all images."""

    def compute() -> dict[str, Array]:
        n, mean, squares = tree_sum(
            collection.engine, moments_of, [collection.X], add=add_moments, size=SUM_BATCH
        )
        return {"n": np.array(n), "mean": mean, "squares": squares}

    cached = collection.stage_cache.arrays("moments", compute)
    return Moments(int(cached["n"]), cached["mean"], cached["squares"])


@batch_name("Reduce vectors")
def reduced_rows(x: Floats, reduction: Reduction) -> tuple[Floats]:
    """Return the reduced vectors of one batch."""
    return (reduction.transform(np.asarray(x, np.float32)),)


def reduce(
    collection: TrainingCollection, components: int, feature_groups: FeatureGroups
) -> Reduced:
    """Fit the reduction to moments, and reduce all vectors and those of the sample."""
    task = collection.task
    reduction = Reduction(
        components,
        feature_groups=feature_groups,
        concepts=task.concepts,
        random_state=collection.seed,
    )
    reduction.fit_moments(collection_moments(collection))
    reduction.concepts = None  # concepts_ has what is left to do, and goes to the workers

    def compute() -> Iterator[tuple[Floats]]:
        return collection.engine.stream(reduced_rows, [collection.X], [reduction], size=ROW_BATCH)

    columns = {"vectors": reduction.n_features_out}
    rows = collection.stage_cache.rows("reduced", columns, collection.shape[0], compute)
    return Reduced(reduction, rows["vectors"], reduction.transform(task.X))
