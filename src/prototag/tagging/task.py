"""The training task: examples, which are images or near-duplicate groups, and their labels.

A near-duplicate group is one example: the mean of its images with the tags of all. Pairs of example
and tag may be unlabeled: neither positive nor negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from prototag.arrays import Bools, Floats, Rows
from prototag.engine import Engine
from prototag.knowledge.concepts import NamePrior
from prototag.tagging.loo_ridge import kernel_ridge
from prototag.tagging.near_duplicates import near_duplicate_groups

Option = TypeVar("Option")

# For each step from the default, divided by the root of the positive pairs; best on
# subsets of IAPRTC-12, COCO and clip art with 30 to 1,000 images.
SELECTION_PENALTY = 0.1
IMPUTATION_ROUNDS = 4  # after which imputed probabilities change no more
MAX_EXACT_IMPUTATION = 5_000  # examples; for more, imputation uses so many landmarks


class Examples(NamedTuple):
    """The examples, and the images that each consists of."""

    Y: sparse.csr_array  # examples x tags
    images: Rows  # the first image of each example
    group_of: Rows  # n, the example that each image belongs to


@dataclass(frozen=True, eq=False)
class Task:
    """The examples in memory, their labels, and the settings that all stages share."""

    X: Floats  # n x m, network vectors
    Y: sparse.csr_array  # n x t, positive labels
    targets: Floats  # n x t, dense Y; the imputed probability where a pair is unlabeled
    unlabeled: Bools | None  # n x t
    single_label: bool  # one class label for each image instead of tags
    seed: int
    sample: Rows  # examples on which hyperparameters are selected
    engine: Engine
    name_prior: NamePrior | None = None  # scores of the tags by their names
    concepts: Floats | None = None  # m x c, the map from vectors to concept columns

    @property
    def frequency(self) -> Floats:
        """The frequency of each tag (t), at least that of one image."""
        return np.asarray(np.maximum(self.targets.mean(axis=0), 1 / len(self.targets)))

    @property
    def fully_labeled(self) -> Rows:
        """The examples without unlabeled pairs."""
        if self.unlabeled is None:
            return np.arange(len(self.targets))
        return np.flatnonzero(~self.unlabeled.any(axis=1))

    def rank_unlabeled_last(self, scores: Floats, rows: Rows | slice = slice(None)) -> Floats:
        """Return scores of these rows with unlabeled pairs last, so that they judge nothing."""
        if self.unlabeled is None:
            return scores
        return np.where(self.unlabeled[rows], scores.min(axis=0), scores)

    def select_option(
        self,
        options: Sequence[Option],
        default: Option,
        validation_score: Callable[[Option], float],
    ) -> Option:
        """Return the option with the best validation score, penalized by its distance from default.

        The distance counts steps of the grid, for pairs in both dimensions. The penalty of a step
        falls with the number of positive pairs: with few, validation scores are too noisy to
        select by.
        """
        if len(options) == 1:
            return options[0]
        penalty = SELECTION_PENALTY / np.sqrt(max(float(self.targets.sum()), 1.0))
        grids = [np.unique(part) for part in np.reshape(np.array(options), (len(options), -1)).T]

        def steps(option: Option) -> float:
            ends = zip(grids, np.ravel(np.array(option)), np.ravel(np.array(default)), strict=True)
            return sum(
                abs(float(grid.searchsorted(a) - grid.searchsorted(b))) for grid, a, b in ends
            )

        return max(options, key=lambda option: validation_score(option) - penalty * steps(option))


def group_examples(
    X: Floats, Y: sparse.csr_array, unlabeled: Bools | None, groups: Rows | None
) -> tuple[Floats, Bools | None, Examples]:
    """Return the vectors, the unlabeled pairs and the tags of the examples.

    ``groups`` numbers the near-duplicate group of each image; without it groups are detected.
    """
    if groups is None:
        group_of = near_duplicate_groups(X, Y)
    else:
        group_of = np.asarray(np.unique(groups, return_inverse=True)[1])
    count = int(group_of.max()) + 1
    images = np.unique(group_of, return_index=True)[1]
    if count == len(X):
        return X, unlabeled, Examples(Y, np.arange(count), np.arange(count))
    ones = np.ones(len(group_of), np.float32)
    member = sparse.csr_array((ones, (group_of, np.arange(len(group_of)))))
    size = np.bincount(group_of).astype(np.float32)[:, None]
    tags = sparse.csr_array(member @ Y)
    tags.data[:] = 1
    if unlabeled is not None:
        in_all = member @ unlabeled.astype(np.float32) == size
        unlabeled = in_all & (tags.toarray() == 0)
    means = np.asarray(member @ X / size, X.dtype)
    single = size[:, 0] == 1
    means[single] = X[images[single]]
    return means, unlabeled, Examples(tags, images, group_of)


def impute_unlabeled(task: Task, vectors: Floats) -> Task:
    """Replace the targets of unlabeled pairs by leave-one-out probabilities.

    A regression whose target for an image is its own leave-one-out prediction equals the regression
    without that image: at the fixed point of the rounds, unlabeled pairs have no influence. But
    somebody tagged these images without this tag: the more of the expected tags they were given,
    the less probable are those that they were not given.
    """
    if task.unlabeled is None:
        return task
    unlabeled = task.unlabeled
    partly_labeled = unlabeled.any(axis=1)
    n_labeled = np.maximum((~unlabeled).sum(axis=0), 1)
    targets = np.where(unlabeled, task.targets.sum(axis=0) / n_labeled, task.targets)
    targets = targets.astype(np.float32)
    landmark_rows = None
    if len(targets) > MAX_EXACT_IMPUTATION:
        order = np.random.default_rng(task.seed).permutation(len(targets))
        landmark_rows = np.sort(order[:MAX_EXACT_IMPUTATION])
    for _ in range(IMPUTATION_ROUNDS):
        fitted = kernel_ridge(
            vectors,
            targets,
            gamma=1.0,
            strength=1.0,
            landmark_rows=landmark_rows,
            engine=task.engine,
        )
        probability = np.clip(fitted.loo_predictions, 0, 1)
        n_given = float(task.targets[partly_labeled].sum())
        n_expected = max(n_given + float(probability[unlabeled].sum()), 1.0)
        completeness = min(n_given / n_expected, 1.0)
        imputed = probability * (1 - completeness) / (1 - completeness * probability + 1e-6)
        targets = np.where(unlabeled, imputed, targets)
    return replace(task, targets=np.asarray(targets, np.float32))
