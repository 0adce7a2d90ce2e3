"""The stages of a fit in memory: leave-one-out where there is a closed form, else out-of-fold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from prototag.arrays import (
    Floats,
    Rows,
    SparseRows,
    normalize_rows,
    normalize_rows_at_any_scale,
)
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import memory_forecast
from prototag.knowledge.concepts import NamePrior, name_scores
from prototag.mcdl import exemplar_mcdl
from prototag.mcdl.exemplar_mcdl import ExemplarMCDL
from prototag.mcdl.memory_estimates import REMEDY
from prototag.mcdl.prototype_clustering import Clustering, FoldClusterings, cluster_folds
from prototag.mcdl.prototype_estimator import count_prototypes
from prototag.tagging import calibration
from prototag.tagging.fit_result import (
    Coded,
    Factors,
    KernelRidge,
    Mixed,
    Reduced,
    Stages,
    Thresholded,
)
from prototag.tagging.loo_ridge import kernel_ridge, landmark_ridge
from prototag.tagging.memory_estimates import FitSize, estimate_in_memory_fit
from prototag.tagging.model import Kernel
from prototag.tagging.name_knowledge import (
    NameRegression,
    NameWeights,
    fit_weights,
    held_out_name_scores,
    standardized_prior,
)
from prototag.tagging.pipeline import FitOptions, mix_parts, select_share
from prototag.tagging.reduction import FeatureGroups, Reduction
from prototag.tagging.tag_factors import select_factors
from prototag.tagging.task import Examples, Task, impute_unlabeled

MIN_IMAGES_PER_COMPONENT = 10  # so that principal components generalize to new images
MAX_APPROXIMATE_LANDMARKS = 6_000  # if there are too many prototypes for an exact regression


@dataclass(eq=False)
class InMemory:
    """The stages of :func:`prototag.tagging.pipeline.fit`, with all examples in memory."""

    task: Task
    examples: Examples
    options: FitOptions = field(init=False)  # set by begin
    keeps_stages: ClassVar[bool] = True

    @property
    def task_rows(self) -> Rows:
        """The numbers of the examples in the task: all."""
        return np.arange(len(self.task.X))

    def begin(self, options: FitOptions) -> None:
        """Store the options of a fit, and refuse a fit that memory cannot hold."""
        self.options = options
        n, m = self.task.X.shape
        k = count_prototypes(options.n_prototypes, n)
        size = FitSize(n, m, self.task.Y.shape[1], k, landmark_count(k, options.max_landmarks))
        estimate = estimate_in_memory_fit(
            size, nonzeros=options.max_nonzeros, width=min(options.n_components, n)
        )
        memory_forecast.require_memory(estimate, REMEDY)

    def reduce(self, groups: FeatureGroups) -> Reduced:
        """Fit z-score, concept columns and principal axes, and reduce all vectors.

        With few images all columns are kept: the images then lie in the span of their principal
        axes and new images do not, so that held-out similarities, and all estimates from them,
        would be biased.
        """
        task = self.task
        components = self.options.n_components
        reduction = Reduction(
            components if has_enough_images(len(task.X), components) else None,
            feature_groups=groups,
            concepts=task.concepts,
            random_state=task.seed,
        )
        vectors = reduction.fit(task.X).transform(task.X)
        return Reduced(reduction, vectors, vectors)

    def impute_unlabeled(self, reduced: Reduced) -> None:
        """Replace the targets of unlabeled pairs by leave-one-out probabilities."""
        self.task = impute_unlabeled(self.task, reduced.vectors)

    def learn_prototypes(self, reduced: Reduced) -> Coded:
        """Learn S from codes without the prototypes that the image itself contributed to."""
        task = self.task
        n = len(self.task.X)
        Y = task.Y if task.unlabeled is None else sparse.csr_array(task.targets > 0.5)
        core = ExemplarMCDL(max_nonzeros=self.options.max_nonzeros, engine=task.engine)
        learned = exemplar_mcdl.fit_exemplars(
            normalize_rows_at_any_scale(reduced.vectors),
            Y.astype(np.float32),
            count_prototypes(self.options.n_prototypes, n),
            int(check_random_state(task.seed).randint(2**31 - 1)),
            core.settings(),
        )
        return Coded(
            prototypes=learned.state.D,
            examples=learned.images,
            semantics=SparseRows.from_matrix(learned.state.S),
            codes=learned.state.A,
            folds=learned.folds,
            rho=learned.rho,
            spread=learned.spread,
            certificate=learned.certificate,
            clusterings=learned.clusterings,
            oof_scores=learned.scores,
        )

    def regress_kernel(
        self, reduced: Reduced, coded: Coded, gamma: float, strength: float
    ) -> KernelRidge:
        """Regress the tags on the kernel, with the prototypes or fewer images as landmarks."""
        task = self.task
        X = reduced.vectors
        T = task.targets
        prior = None
        if task.name_prior is not None:
            prior = standardized_prior(task.name_prior, task.X)
            T = np.hstack([T, name_scores(prior, task.X).astype(np.float32)])
        engine = task.engine
        k = len(coded.prototypes)
        count = landmark_count(k, self.options.max_landmarks)
        if count == len(X):
            exact = kernel_ridge(X, T, gamma=gamma, strength=strength, engine=engine)
            kernel = Kernel(coded.prototypes, exact.dual, gamma, strength)
            return separate_names(KernelRidge(kernel, True, exact.loo_predictions), T, prior)

        def learn(x: Floats, t: Floats, clustering: Clustering) -> tuple[Floats, Floats]:
            landmarks = normalize_rows(clustering.means(x))
            dual = landmark_ridge(x, t, landmarks, gamma=gamma, strength=strength, engine=engine)
            return landmarks, dual

        def score(inside: Rows, outside: Rows, clustering: Clustering) -> Floats:
            landmarks, dual = learn(X[outside], T[outside], clustering)
            return np.asarray(rbf_kernel_with_constant(X[inside], landmarks, gamma) @ dual)

        clusterings = self._clusterings(reduced, coded, count)
        landmarks, dual = learn(X, T, clusterings.whole)
        oof_scores = clusterings.out_of_fold(score, T.shape)
        kernel = Kernel(landmarks, dual, gamma, strength)
        return separate_names(KernelRidge(kernel, count == k, oof_scores), T, prior)

    def _clusterings(self, reduced: Reduced, coded: Coded, count: int) -> FoldClusterings:
        """Return the clusterings of the codes if they have the right size, else coarser ones."""
        clusterings = coded.clusterings
        if clusterings is not None and len(clusterings.whole.images) == count:
            return clusterings
        task = self.task
        order = np.random.default_rng(task.seed).permutation(len(task.X))
        folds = order % ExemplarMCDL().n_folds
        return cluster_folds(reduced.vectors, task.Y, count, folds, task.seed, task.engine)

    def weigh_parts(self, coded: Coded, kernel_ridge: KernelRidge) -> Mixed:
        """Select the share of the kernel, and add the held-out scores by it."""
        code_scores = coded.oof_scores
        kernel_scores = kernel_ridge.loo_scores
        assert code_scores is not None
        assert kernel_scores is not None
        share = select_share(self.task, code_scores, kernel_scores, self.options.kernel_share)
        return Mixed(share, mix_parts(code_scores, kernel_scores, share))

    def weigh_names(self, mixed: Mixed, kernel_ridge: KernelRidge) -> Mixed:
        """Learn the weights of names, and add their held-out scores."""
        regression = kernel_ridge.names
        if regression is None:
            return mixed
        task = self.task
        features = regression.scores - np.float32(mixed.kernel_share) * regression.loo_scores
        labeled = None if task.unlabeled is None else ~task.unlabeled
        evidence = (task.targets, mixed.scores, features, labeled)
        weights, prior = fit_weights(*evidence)
        scores = mixed.scores + held_out_name_scores(*evidence, task.seed)
        return mixed._replace(scores=scores, names=NameWeights(weights, prior))

    def select_factors(self, mixed: Mixed) -> Factors:
        """Select the factors of the tags."""
        return select_factors(self.task, mixed.scores, self.options.level, self.options.boost)

    def calibrate(self, mixed: Mixed, factors: Factors) -> Thresholded:
        """Select thresholds, fit the calibration and estimate both on held-out examples."""
        return calibration.calibrate(
            self.task, mixed.scores, factors.tag_scale, self.options.threshold
        )

    def gallery(self, stages: Stages) -> tuple[Rows, Floats]:
        """Return all images and their raw held-out scores."""
        group_of = self.examples.group_of
        n = len(group_of)
        raw = stages.factors.raw
        return np.arange(n), raw if len(raw) == n else raw[group_of]


def separate_names(fitted: KernelRidge, T: Floats, prior: NamePrior | None) -> KernelRidge:
    """Split a regression of targets and prior scores, T, into both."""
    if prior is None:
        return fitted
    t = T.shape[1] // 2
    dual = fitted.kernel.dual
    assert fitted.loo_scores is not None
    names = NameRegression(prior, T[:, t:], dual[:, t:], fitted.loo_scores[:, t:])
    kernel = fitted.kernel._replace(dual=np.ascontiguousarray(dual[:, :t]))
    return KernelRidge(kernel, fitted.shares_prototypes, fitted.loo_scores[:, :t], names)


def has_enough_images(n: int, components: int) -> bool:
    """Whether n images determine so many principal components."""
    return n >= MIN_IMAGES_PER_COMPONENT * components


def landmark_count(prototypes: int, max_landmarks: int) -> int:
    """Return the number of landmarks of the kernel."""
    return (
        prototypes if prototypes <= max_landmarks else min(MAX_APPROXIMATE_LANDMARKS, max_landmarks)
    )
