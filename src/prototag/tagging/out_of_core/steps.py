"""The stages of a fit to examples that may lie in files: sums and scores batch by batch."""

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
from prototag.tagging.out_of_core.features import Many, Sums, TrainingRows
from prototag.tagging.out_of_core.landmark_ridge import LandmarkRidge
from prototag.tagging.out_of_core.oof_scores import Relation
from prototag.tagging.out_of_core.stage_cache import fingerprint
from prototag.tagging.pipeline import FitOptions
from prototag.tagging.reduction import FeatureGroups
from prototag.tagging.task import Examples, Task

PROTOTYPES = 40_000  # at most, unless more are asked for


@dataclass(eq=False)
class OutOfCore:
    """The stages of :func:`prototag.tagging.pipeline.fit`, with a sample in memory.

    Nothing is unlabeled, and every image is an example. What later stages compute held-out scores
    from stays here; a result of the fit keeps no file of the work folder.
    """

    many: Many
    options: FitOptions = field(init=False)  # once the fit has begun
    keeps_stages: ClassVar[bool] = False
    _sums: Sums = field(init=False)
    _rows: TrainingRows = field(init=False)
    _others: list[Floats] = field(init=False)  # S without each part of the folds, k x t
    _ridge: LandmarkRidge = field(init=False)
    _relation: Relation = field(init=False)

    @property
    def task(self) -> Task:
        """The sample."""
        return self.many.task

    @property
    def task_rows(self) -> Rows:
        """The numbers of the images of the sample."""
        return self.many.sample

    @property
    def examples(self) -> Examples:
        """All images, each an example."""
        every = np.arange(self.many.shape[0])
        return Examples(self.many.Y, every, every)

    def select(self, columns: Bools) -> OutOfCore:
        """Return the same images with some of their columns, which are in memory then."""
        many = self.many
        task = replace(many.task, X=np.ascontiguousarray(many.task.X[:, columns]))
        X = np.ascontiguousarray(load_rows(many.X)[:, columns])
        return OutOfCore(replace(many, X=X, task=task))

    def begin(self, options: FitOptions) -> None:
        """Take the options of a fit, refuse what memory cannot hold, and open the work folder."""
        self.options = options
        many = self.many
        n, m, t = many.shape
        count = prototype_count(options.n_prototypes, n)
        kernel_count = landmark_ridge.usual_count(n, options.max_landmarks)
        memory_forecast.require_memory(
            estimate_out_of_core_fit(FitSize(n, m, t, count, kernel_count)), REMEDY
        )
        key = {
            "version": __version__,
            "collection": fingerprint(many.X, many.Y),
            "seed": many.seed,
            "sample": [len(many.sample), len(many.task.sample)],
            "recipe": {name: repr(value) for name, value in sorted(asdict(options).items())},
        }
        many.scratch.resume(key)

    def _settings(self) -> ExemplarSettings:
        """What decides how codes and S are learned."""
        core = ExemplarMCDL(max_nonzeros=self.options.max_nonzeros, engine=self.many.engine)
        return core.settings()

    def reduce(self, groups: FeatureGroups) -> Reduced:
        """Fit z-score and principal axes from sums over all images."""
        self._sums = features.add_up(self.many)
        return features.reduce(
            self.many, self._sums, self.options.n_components, self.options.kernel_components, groups
        )

    def impute_unlabeled(self, reduced: Reduced) -> None:
        """Do nothing: no pair is unlabeled."""

    def lift(self, reduced: Reduced) -> Lifted:
        """Append leave-one-out linear predictions, with a weight selected on the sample."""
        straight = features.linear(self.many, self._sums, reduced.reduction)
        del self._sums
        self._rows = rows = features.lift(
            self.many,
            reduced,
            straight,
            self._settings().codes,
            self.options.n_components,
            self.options.kernel_components,
            self.options.width,
            self.options.lift,
        )
        scale = np.float32(rows.lifting.scale_) * np.sqrt(straight.frequency)
        return Lifted(rows.lifting, rows.vectors, Linear(scale, straight.frequency), None)

    def learn_prototypes(self, lifted: Lifted) -> Coded:
        """Learn means of images as prototypes, code images over those of other folds, learn S."""
        many = self.many
        settings = self._settings()
        count = prototype_count(self.options.n_prototypes, many.shape[0])
        summary = prototypes.summarise(many, lifted.vectors, count)
        codes, certificate = prototypes.encode(many, lifted.vectors, summary, settings.codes)
        coded, self._others = prototypes.learn(many, summary, codes, certificate, settings)
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
        count = landmark_ridge.usual_count(self.many.shape[0], self.options.max_landmarks)
        self._ridge = landmark_ridge.learn(self.many, self._rows.short, gamma, strength, count)
        found = self._ridge.kernel
        copied = Kernel(np.array(found.landmarks), np.array(found.dual), gamma, strength)
        return KernelRidge(copied, False, None)

    def weigh_parts(
        self,
        lifted: Lifted,  # noqa: ARG002
        coded: Coded,
        kernel_ridge: KernelRidge,  # noqa: ARG002
    ) -> Mixed:
        """Select the weights of the parts on the sample, and score all images."""
        return oof_scores.mix(
            self.many,
            self._rows,
            coded.codes,
            self._others,
            self._ridge,
            self.options.kernel_share,
            self.options.linear_share,
        )

    def relate_tags(self, mixed: Mixed) -> Related:
        """Learn relations between tags from sums, and the factors of the tags on the sample."""
        related, self._relation = oof_scores.relate(
            self.many, mixed, self.options.relations, self.options.level, self.options.boost
        )
        return related

    def calibrate(self, mixed: Mixed, related: Related) -> Thresholded:
        """Select thresholds, fit the calibration and estimate both, from counts of all scores."""
        return calibration.finish(self.many, mixed, related, self._relation, self.options.threshold)

    def gallery(self, stages: Stages) -> tuple[Rows, Floats]:
        """Return the sample and the images of the prototypes, and their raw held-out scores."""
        images = np.union1d(self.many.sample, stages.coded.examples)
        found = take_rows(stages.mixed.scores, images)
        tags = self.many.Y[images].toarray()
        levers = self._relation.levers(found)
        return images, self._relation.raw(found, levers, tags, slice(None))


def prototype_count(n_prototypes: Any, n: int) -> int:
    """Return the number of prototypes of n images, which may be given as a share of them."""
    if isinstance(n_prototypes, Integral):
        return min(n, int(n_prototypes))
    return min(n, round(min(1.0, float(n_prototypes)) * n), PROTOTYPES)
