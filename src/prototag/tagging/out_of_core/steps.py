"""The stages of an out-of-core fit, whose vectors may be stored in files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from prototag import __version__
from prototag.arrays import Bools, Floats, Rows
from prototag.engine import memory_forecast
from prototag.mcdl.exemplar_mcdl import ExemplarMCDL, ExemplarSettings
from prototag.mcdl.memory_estimates import REMEDY
from prototag.storage.npy_rows import load_rows, take_rows
from prototag.tagging.fit_result import (
    Coded,
    KernelRidge,
    Lifted,
    Mixed,
    Reduced,
    Related,
    Stages,
    Thresholded,
)
from prototag.tagging.memory_estimates import FitSize, estimate_out_of_core_fit
from prototag.tagging.model import Kernel, Linear
from prototag.tagging.out_of_core import (
    calibration,
    features,
    landmark_ridge,
    oof_scores,
    prototypes,
)
from prototag.tagging.out_of_core.features import Sums, TrainingCollection, TrainingRows
from prototag.tagging.out_of_core.landmark_ridge import LandmarkRidge
from prototag.tagging.out_of_core.oof_scores import Relation
from prototag.tagging.out_of_core.stage_cache import fingerprint
from prototag.tagging.pipeline import FitOptions
from prototag.tagging.reduction import FeatureGroups
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
    _totals: Sums = field(init=False)
    _training_rows: TrainingRows = field(init=False)
    _part_semantics: list[Floats] = field(init=False)  # S for each part of the folds, k x t
    _ridge: LandmarkRidge = field(init=False)
    _relation: Relation = field(init=False)

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

    def select(self, columns: Bools) -> OutOfCore:
        """Return the same images with some of their columns, which are in memory then."""
        collection = self.collection
        task = replace(collection.task, X=np.ascontiguousarray(collection.task.X[:, columns]))
        X = np.ascontiguousarray(load_rows(collection.X)[:, columns])
        return OutOfCore(replace(collection, X=X, task=task))

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
        """Fit z-score and principal axes from sums over all images."""
        self._totals = features.sum_collection(self.collection)
        return features.reduce(
            self.collection,
            self._totals,
            self.options.n_components,
            self.options.kernel_components,
            groups,
        )

    def impute_unlabeled(self, reduced: Reduced) -> None:
        """Do nothing: no pair is unlabeled."""

    def lift(self, reduced: Reduced) -> Lifted:
        """Append leave-one-out linear predictions, with a weight selected on the sample."""
        linear_ridge = features.fit_linear_ridge(self.collection, self._totals, reduced.reduction)
        del self._totals
        self._training_rows = rows = features.lift(
            self.collection,
            reduced,
            linear_ridge,
            self._settings().codes,
            self.options.n_components,
            self.options.kernel_components,
            self.options.width,
            self.options.lift,
        )
        scale = np.float32(rows.lifting.scale_) * np.sqrt(linear_ridge.frequency)
        return Lifted(rows.lifting, rows.vectors, Linear(scale, linear_ridge.frequency), None)

    def learn_prototypes(self, lifted: Lifted) -> Coded:
        """Learn means of images as prototypes, code images over those of other folds, learn S."""
        collection = self.collection
        settings = self._settings()
        count = prototype_count(self.options.n_prototypes, collection.shape[0])
        learned = prototypes.learn_prototypes(collection, lifted.vectors, count)
        codes, certificate = prototypes.encode(collection, lifted.vectors, learned, settings.codes)
        coded, self._part_semantics = prototypes.learn_semantics(
            collection, learned, codes, certificate, settings
        )
        return coded

    def regress_kernel(
        self,
        reduced: Reduced,  # noqa: ARG002
        lifted: Lifted,  # noqa: ARG002
        coded: Coded,  # noqa: ARG002
        gamma: float,
        strength: float,
    ) -> KernelRidge:
        """Fit the kernel ridge regression over landmarks, by its normal equations."""
        count = landmark_ridge.landmark_count(self.collection.shape[0], self.options.max_landmarks)
        self._ridge = landmark_ridge.learn(
            self.collection, self._training_rows.kernel_vectors, gamma, strength, count
        )
        kernel = self._ridge.kernel
        copied = Kernel(np.array(kernel.landmarks), np.array(kernel.dual), gamma, strength)
        return KernelRidge(copied, False, None)

    def weigh_parts(
        self,
        lifted: Lifted,  # noqa: ARG002
        coded: Coded,
        kernel_ridge: KernelRidge,  # noqa: ARG002
    ) -> Mixed:
        """Select the weights of the parts on the sample, and score all images."""
        return oof_scores.mix(
            self.collection,
            self._training_rows,
            coded.codes,
            self._part_semantics,
            self._ridge,
            self.options.kernel_share,
            self.options.linear_share,
        )

    def weigh_names(self, mixed: Mixed, kernel_ridge: KernelRidge) -> Mixed:  # noqa: ARG002
        """Do nothing: with as many labels as an out-of-core fit has, names add nothing."""
        return mixed

    def relate_tags(self, mixed: Mixed) -> Related:
        """Learn relations between tags from sums, and the factors of the tags on the sample."""
        related, self._relation = oof_scores.relate_tags(
            self.collection, mixed, self.options.relations, self.options.level, self.options.boost
        )
        return related

    def calibrate(self, mixed: Mixed, related: Related) -> Thresholded:
        """Select thresholds, fit the calibration, estimate both from histograms of scores."""
        return calibration.calibrate(
            self.collection, mixed, related, self._relation, self.options.threshold
        )

    def gallery(self, stages: Stages) -> tuple[Rows, Floats]:
        """Return the sample and the images of the prototypes, and their raw held-out scores."""
        images = np.union1d(self.collection.sample, stages.coded.examples)
        mixed = take_rows(stages.mixed.scores, images)
        tags = self.collection.Y[images].toarray()
        leverages = self._relation.leverages(mixed)
        return images, self._relation.raw(mixed, leverages, tags, slice(None))


def prototype_count(n_prototypes: Any, n: int) -> int:
    """Return the number of prototypes for n images; floats are shares of n."""
    if isinstance(n_prototypes, Integral):
        return min(n, int(n_prototypes))
    return min(n, round(min(1.0, float(n_prototypes)) * n), MAX_PROTOTYPES)
