"""The result of a fit, and the records that the stages of :mod:`prototag.tagging.pipeline` return.

A fit in memory and an out-of-core fit return the same records. In an out-of-core fit, fields with a
number for each pair of all images and tags are None or rows in files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from scipy import sparse

from prototag.arrays import Array, Doubles, Floats, Rows, SparseRows
from prototag.coding.coder import Certificate
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.mcdl.prototype_clustering import FoldClusterings
from prototag.tagging.model import Calibration, Kernel, TagModel
from prototag.tagging.name_knowledge import NameRegression, NameWeights
from prototag.tagging.reduction import FeatureGroups, Reduction


class Reduced(NamedTuple):
    """z-score, concept columns and principal axes."""

    reduction: Reduction
    vectors: Any  # examples x width, unit length; of all images, an array or StoredRows
    sample: Floats  # the rows of the task, in memory


class Coded(NamedTuple):
    """Prototypes, codes over them and semantic prototypes."""

    prototypes: Floats  # k x width, unit length
    examples: Rows  # k, the example that each prototype is or is nearest to
    semantics: SparseRows  # k x t, S
    codes: sparse.csr_array  # n x k, without prototypes that the image itself contributed to
    folds: Rows  # n
    rho: float | None  # penalty that holds S to its start; None leaves it there
    spread: float  # share of S from one step of label propagation along the codes
    certificate: Certificate  # bounds of the errors of the codes
    clusterings: FoldClusterings | None  # None if every example is a prototype
    oof_scores: Floats | None  # n x t


class KernelRidge(NamedTuple):
    """Kernel ridge regression of the tags."""

    kernel: Kernel
    shares_prototypes: bool  # whether the landmarks are the images of the prototypes
    loo_scores: Floats | None  # n x t
    names: NameRegression | None = None  # of the prior scores by names


class Mixed(NamedTuple):
    """The weighted sum of codes, kernel and names."""

    kernel_share: float  # against the codes
    scores: Any  # n x t, held-out; an array or StoredRows
    names: NameWeights | None = None


class Factors(NamedTuple):
    """The factor of each tag among the tags of an image."""

    level: float
    boost: float
    tag_scale: Floats  # t
    raw: Floats  # images of the task x t, held-out scores without the factors


class Thresholded(NamedTuple):
    """Thresholds, calibration, and estimates for new images."""

    threshold: float | Array  # score to exceed, one for all tags or t
    calibration: Calibration
    probabilities: Doubles  # images of the task x t, out-of-fold
    f1: float  # with thresholds of the other folds
    mean_average_precision: float
    auc: Doubles  # t, of bias-corrected held-out scores


class Stages(NamedTuple):
    """The results of all stages of a fit in memory, from which incremental updates start."""

    targets: Floats  # e x t, labels; imputed probabilities of unlabeled pairs
    reduced: Reduced
    coded: Coded
    kernel_ridge: KernelRidge
    mixed: Mixed
    factors: Factors
    thresholded: Thresholded


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out scores of s examples: no model has seen the labels of an example that it scores.

    A fit in memory keeps all examples, an out-of-core fit a sample.
    """

    labels: sparse.csr_array  # s x t
    raw: Floats  # s x t, scores without the factors of the tags; unlabeled pairs come last
    probabilities: Doubles  # s x t, by calibrations of the other folds
    images: Rows  # s, the image of each example, or the first of its near-duplicate group

    @property
    def corrected(self) -> Floats:
        """``raw`` (s x t) corrected for the bias of leave-one-out."""
        return correct_loo_bias(self.labels, self.raw)


@dataclass(frozen=True, eq=False)
class FitResult:
    """The result of a fit to n images and t tags: model, selected parameters, held-out evidence.

    A near-duplicate group is one example: the n images make e examples.
    """

    model: TagModel
    choices: dict[str, float]  # selected hyperparameters, and estimates for new images
    threshold: float | Array  # score to exceed, one for all tags or t
    feature_groups: FeatureGroups  # width and weight of each feature group
    group_of: Rows  # n, the example that each image belongs to
    prototype_images: Rows  # k, the image that each prototype is or is nearest to
    landmarks_are_prototypes: bool  # whether the landmarks of the kernel are these images, too
    n_examples: int  # e
    positives: Rows  # t, number of examples that have each tag
    auc: Doubles  # t, of bias-corrected held-out scores
    held_out: HeldOut
    gallery_images: Rows  # g increasing image numbers: all, or the sample and the prototypes
    gallery_raw: Floats  # g x t, their held-out scores without the factors of the tags
    stages: Stages | None  # None if the fit is out-of-core

    @property
    def oof_scores(self) -> Floats | None:
        """Held-out scores of all images (n x t); None if only a sample is kept."""
        if len(self.held_out.images) < self.n_examples:
            return None
        return (self.held_out.raw * self.model.tag_scale)[self.group_of]
