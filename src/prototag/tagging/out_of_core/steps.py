"""The stages of an out-of-core fit, whose vectors may be stored in files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from prototag import __version__
from prototag.arrays import Floats, Rows
from prototag.engine import memory_forecast
from prototag.mcdl.exemplar_mcdl import ExemplarMCDL, ExemplarSettings
from prototag.mcdl.memory_estimates import REMEDY
from prototag.storage.npy_rows import take_rows
from prototag.tagging.fit_result import (
    Coded,
    Factors,
    KernelRidge,
    Mixed,
    Reduced,
    Stages,
    Thresholded,
)
from prototag.tagging.memory_estimates import FitSize, estimate_out_of_core_fit
from prototag.tagging.model import Kernel
from prototag.tagging.out_of_core import (
    calibration,
    features,
    landmark_ridge,
    oof_scores,
    prototypes,
)
from prototag.tagging.out_of_core.features import TrainingCollection
from prototag.tagging.out_of_core.landmark_ridge import LandmarkRidge
from prototag.tagging.out_of_core.stage_cache import fingerprint
from prototag.tagging.pipeline import FitOptions
from prototag.tagging.reduction import FeatureGroups
from prototag.tagging.tag_factors import select_factors
from prototag.tagging.task import Examples, Task

MAX_PROTOTYPES = 40_000  # unless a larger number is given


@dataclass(eq=False)
class OutOfCore:
    """The stages of :func:`prototag.tagging.pipeline.fit`, with a sample in memory.

    No pair is unlabeled, and every image is an example. Private attributes hold results that later
    stages compute held-out scores from; the result of the fit refers to no file of the work folder.
    """

    collection: TrainingCollection
    options: FitOptions = field(init=False)  # set by begin
    keeps_stages: ClassVar[bool] = False
    _part_semantics: list[Floats] = field(init=False)  # S for each part of the folds, k x t
    _vectors: Any = field(init=False)  # n x width, reduced
    _ridge: LandmarkRidge = field(init=False)

    @property
    def task(self) -> Task:
        """The sample."""
        return self.collection.task

    @property
    def task_rows(self) -> Rows:
        """The numbers of the images of the sample."""
        return self.collection.sample

    @property
    def examples(self) -> Examples:
        """All images, each an example."""
        images = np.arange(self.collection.shape[0])
        return Examples(self.collection.Y, images, images)

    def begin(self, options: FitOptions) -> None:
        """Store the options of a fit, check memory, and open the work folder."""
        self.options = options
        collection = self.collection
        n, m, t = collection.shape
        count = prototype_count(options.n_prototypes, n)
        kernel_count = landmark_ridge.landmark_count(n, options.max_landmarks)
        memory_forecast.require_memory(
            estimate_out_of_core_fit(FitSize(n, m, t, count, kernel_count)), REMEDY
        )
        key = {
            "version": __version__,
            "collection": fingerprint(collection.X, collection.Y),
            "seed": collection.seed,
            "sample": [len(collection.sample), len(collection.task.sample)],
            "recipe": {name: repr(value) for name, value in sorted(asdict(options).items())},
        }
        collection.stage_cache.resume(key)

    def _settings(self) -> ExemplarSettings:
        """Return the settings of codes and S."""
        core = ExemplarMCDL(max_nonzeros=self.options.max_nonzeros, engine=self.collection.engine)
        return core.settings()

    def reduce(self, groups: FeatureGroups) -> Reduced:
        """Fit the reduction to moments of all images, and reduce their vectors."""
        return features.reduce(self.collection, self.options.n_components, groups)

    def impute_unlabeled(self, reduced: Reduced) -> None:
        """Do nothing: no pair is unlabeled."""

    def learn_prototypes(self, reduced: Reduced) -> Coded:
        """Learn means of images as prototypes, code images over those of other folds, learn S."""
        collection = self.collection
        settings = self._settings()
        count = prototype_count(self.options.n_prototypes, collection.shape[0])
        learned = prototypes.learn_prototypes(collection, reduced.vectors, count)
        codes, certificate = prototypes.encode(collection, reduced.vectors, learned, settings.codes)
        coded, self._part_semantics = prototypes.learn_semantics(
            collection, learned, codes, certificate, settings
        )
        return coded

    def regress_kernel(
        self,
        reduced: Reduced,
        coded: Coded,  # noqa: ARG002
        gamma: float,
        strength: float,
    ) -> KernelRidge:
        """Fit the kernel ridge regression over landmarks, by its normal equations."""
        count = landmark_ridge.landmark_count(self.collection.shape[0], self.options.max_landmarks)
        self._vectors = reduced.vectors
        self._ridge = landmark_ridge.learn(self.collection, reduced.vectors, gamma, strength, count)
        kernel = self._ridge.kernel
        copied = Kernel(np.array(kernel.landmarks), np.array(kernel.dual), gamma, strength)
        return KernelRidge(copied, False, None)

    def weigh_parts(self, coded: Coded, kernel_ridge: KernelRidge) -> Mixed:  # noqa: ARG002
        """Select the share of the kernel on the sample, and score all images."""
        return oof_scores.mix(
            self.collection,
            self._vectors,
            coded.codes,
            self._part_semantics,
            self._ridge,
            self.options.kernel_share,
        )

    def weigh_names(self, mixed: Mixed, kernel_ridge: KernelRidge) -> Mixed:  # noqa: ARG002
        """Do nothing: with as many labels as an out-of-core fit has, names add nothing."""
        return mixed

    def select_factors(self, mixed: Mixed) -> Factors:
        """Select the factors of the tags on the sample."""
        raw = take_rows(mixed.scores, self.collection.sample)
        return select_factors(self.task, raw, self.options.level, self.options.boost)

    def calibrate(self, mixed: Mixed, factors: Factors) -> Thresholded:
        """Select thresholds, fit the calibration, estimate both from histograms of scores."""
        return calibration.calibrate(self.collection, mixed, factors, self.options.threshold)

    def gallery(self, stages: Stages) -> tuple[Rows, Floats]:
        """Return the sample and the images of the prototypes, and their raw held-out scores."""
        images = np.union1d(self.collection.sample, stages.coded.examples)
        return images, take_rows(stages.mixed.scores, images)


def prototype_count(n_prototypes: Any, n: int) -> int:
    """Return the number of prototypes for n images; floats are shares of n."""
    if isinstance(n_prototypes, Integral):
        return min(n, int(n_prototypes))
    return min(n, round(min(1.0, float(n_prototypes)) * n), MAX_PROTOTYPES)
