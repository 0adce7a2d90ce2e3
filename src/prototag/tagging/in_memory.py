"""The stages of a fit in memory: leave-one-out where there is a closed form, else out-of-fold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from prototag.arrays import Bools, Floats, Rows, SparseRows, normalize_rows_at_any_scale
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import memory_forecast
from prototag.knowledge.concepts import NamePrior, name_scores
from prototag.mcdl import exemplar_mcdl
from prototag.mcdl.exemplar_mcdl import ExemplarMCDL
from prototag.mcdl.memory_estimates import REMEDY
from prototag.mcdl.prototype_clustering import Clustering, FoldClusterings, cluster_folds
from prototag.mcdl.prototype_estimator import count_prototypes
from prototag.mcdl.settings import CodeSettings
from prototag.tagging import calibration
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
from prototag.tagging.lifting import Lifting
from prototag.tagging.loo_ridge import kernel_ridge, landmark_ridge, ridge
from prototag.tagging.memory_estimates import FitSize, estimate_in_memory_fit
from prototag.tagging.model import Kernel, Linear
from prototag.tagging.name_knowledge import (
    NameRegression,
    NameWeights,
    fit_weights,
    held_out_name_scores,
    standardized_prior,
)
from prototag.tagging.pipeline import (
    VARIANCE_PRIOR,
    FitOptions,
    mix_parts,
    select_lift,
    select_shares,
)
from prototag.tagging.reduction import FeatureGroups, Reduction
from prototag.tagging.tag_correlation import relate_tags
from prototag.tagging.task import Examples, Task, impute_unlabeled

# Below this many images LOO predictions still leak the held-out label: lifting by them then lowers
# accuracy on new images.
MIN_IMAGES_TO_SELECT_LIFT = 1_500
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

    def select(self, columns: Bools) -> InMemory:
        """Return the same examples with some of their columns."""
        X = np.ascontiguousarray(self.task.X[:, columns])
        return replace(self, task=replace(self.task, X=X))

    def begin(self, options: FitOptions) -> None:
        """Store the options of a fit, and refuse a fit that memory cannot hold."""
        self.options = options
        n, m = self.task.X.shape
        k = count_prototypes(options.n_prototypes, n)
        size = FitSize(n, m, self.task.Y.shape[1], k, landmark_count(k, options.max_landmarks))
        estimate = estimate_in_memory_fit(
            size,
            nonzeros=options.max_nonzeros,
            width=min(options.width, n),
            kernel_width=min(options.kernel_components, n),
        )
        memory_forecast.require_memory(estimate, REMEDY)

    def reduce(self, groups: FeatureGroups) -> Reduced:
        """Fit z-score and principal axes, and compute the vectors of the kernel.

        With few images all columns are kept: the images then lie in the span of their principal
        axes and new images do not, so that held-out similarities, and all estimates from them,
        would be biased.
        """
        task = self.task
        widest = max(self.options.n_components, self.options.kernel_components)
        n_components = widest if has_enough_images(len(task.X), widest) else None
        reduction = Reduction(
            n_components, prior=VARIANCE_PRIOR, feature_groups=groups, random_state=task.seed
        )
        reduction.fit(task.X)
        return Reduced(reduction, reduction.first(self.options.kernel_components).transform(task.X))

    def impute_unlabeled(self, reduced: Reduced) -> None:
        """Replace the targets of unlabeled pairs by leave-one-out probabilities."""
        self.task = impute_unlabeled(self.task, reduced.kernel_vectors)

    def lift(self, reduced: Reduced) -> Lifted:
        """Append leave-one-out linear predictions of the tags to the reduced vectors."""
        task = self.task
        lifting = Lifting(self.options.n_components, weight=1.0, random_state=task.seed)
        first = reduced.reduction.first(self.options.n_components)
        lifted = lifting.learn(task.X, task.targets, first)
        weight = self.options.lift
        if weight is None and len(lifted) < MIN_IMAGES_TO_SELECT_LIFT:
            weight = 0.0
        elif weight is None:
            codes = CodeSettings(max_nonzeros=self.options.max_nonzeros)
            weight = select_lift(task, lifting, lifted, codes)
        lifted = lifting.reweigh(lifted, weight)
        lifting.set_params(weight=weight)
        width = self.options.width
        vectors = (
            lifting.compress(lifted, width) if has_enough_images(len(lifted), width) else lifted
        )
        scale = (lifting.scale_ * np.sqrt(task.frequency)).astype(np.float32)
        loo_scores = (lifting.loo_predictions_ * scale + task.frequency).astype(np.float32)
        linear = Linear(scale, task.frequency.astype(np.float32))
        return Lifted(lifting, vectors, linear, loo_scores)

    def learn_prototypes(self, lifted: Lifted) -> Coded:
        """Learn S from codes without the prototypes that the image itself contributed to."""
        task = self.task
        n = len(self.task.X)
        Y = task.Y if task.unlabeled is None else sparse.csr_array(task.targets > 0.5)
        core = ExemplarMCDL(max_nonzeros=self.options.max_nonzeros, engine=task.engine)
        learned = exemplar_mcdl.fit_exemplars(
            normalize_rows_at_any_scale(lifted.vectors),
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
        self,
        reduced: Reduced,
        lifted: Lifted,
        coded: Coded,
        gamma: float,
        strength: float,
    ) -> KernelRidge:
        """Regress the tags on the kernel, with the prototypes or fewer images as landmarks."""
        task = self.task
        X = reduced.kernel_vectors
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
            kernel = Kernel(X, exact.dual, gamma, strength)
            return separate_names(KernelRidge(kernel, True, exact.loo_predictions), T, prior)

        def learn(x: Floats, t: Floats, clustering: Clustering) -> tuple[Floats, Floats]:
            landmarks = clustering.means(x)
            dual = landmark_ridge(x, t, landmarks, gamma=gamma, strength=strength, engine=engine)
            return landmarks, dual

        def score(inside: Rows, outside: Rows, clustering: Clustering) -> Floats:
            landmarks, dual = learn(X[outside], T[outside], clustering)
            return np.asarray(rbf_kernel_with_constant(X[inside], landmarks, gamma) @ dual)

        clusterings = self._clusterings(lifted, coded, count)
        landmarks, dual = learn(X, T, clusterings.whole)
        oof_scores = clusterings.out_of_fold(score, T.shape)
        kernel = Kernel(landmarks, dual, gamma, strength)
        return separate_names(KernelRidge(kernel, count == k, oof_scores), T, prior)

    def _clusterings(self, lifted: Lifted, coded: Coded, count: int) -> FoldClusterings:
        """Return the clusterings of the codes if they have the right size, else coarser ones."""
        clusterings = coded.clusterings
        if clusterings is not None and len(clusterings.whole.images) == count:
            return clusterings
        task = self.task
        order = np.random.default_rng(task.seed).permutation(len(task.X))
        folds = order % ExemplarMCDL().n_folds
        return cluster_folds(lifted.vectors, task.Y, count, folds, task.seed, task.engine)

    def weigh_parts(self, lifted: Lifted, coded: Coded, kernel_ridge: KernelRidge) -> Mixed:
        """Select the shares on out-of-fold scores, then add the held-out scores by them."""
        assert coded.oof_scores is not None
        assert kernel_ridge.loo_scores is not None
        assert lifted.loo_scores is not None
        code_scores = coded.oof_scores
        kernel_scores = kernel_ridge.loo_scores
        linear_scores = lifted.loo_scores
        comparable = linear_scores
        if self.options.linear_share is None:
            comparable = self.oof_linear_scores(lifted, coded)
        kernel_share, linear_share = select_shares(
            self.task,
            (code_scores, kernel_scores, comparable),
            self.options.kernel_share,
            self.options.linear_share,
        )
        parts = (code_scores, kernel_scores, linear_scores)
        return Mixed(kernel_share, linear_share, mix_parts(parts, kernel_share, linear_share))

    def weigh_names(self, mixed: Mixed, kernel_ridge: KernelRidge) -> Mixed:
        """Learn the weights of names, and add their held-out scores."""
        regression = kernel_ridge.names
        if regression is None:
            return mixed
        task = self.task
        kernel_weight = np.float32((1 - mixed.linear_share) * mixed.kernel_share)
        features = regression.scores - kernel_weight * regression.loo_scores
        labeled = None if task.unlabeled is None else ~task.unlabeled
        evidence = (task.targets, mixed.scores, features, labeled)
        weights, prior = fit_weights(*evidence)
        scores = mixed.scores + held_out_name_scores(*evidence, task.seed)
        return mixed._replace(scores=scores, names=NameWeights(weights, prior))

    def oof_linear_scores(self, lifted: Lifted, coded: Coded) -> Floats:
        """Score the linear part by the folds of the codes, to compare both fairly.

        Holding out one image costs less accuracy than holding out a fold, so leave-one-out scores
        would get too large a share beside out-of-fold scores. Thresholds are selected on
        leave-one-out scores nevertheless, because these are closer to the scores of new images.
        """
        clusterings = coded.clusterings
        lifting = lifted.lifting
        if clusterings is None:
            assert lifted.loo_scores is not None
            return lifted.loo_scores
        T = self.task.targets
        standard = lifting.reduction_.zscore_.transform(self.task.X).astype(np.float32)

        def score(inside: Rows, outside: Rows, _: Clustering) -> Floats:
            fitted = ridge(standard[outside], T[outside], lifting.strength_)
            return np.asarray(standard[inside] @ fitted.coef + fitted.intercept)

        return clusterings.out_of_fold(score, T.shape)

    def relate_tags(self, mixed: Mixed) -> Related:
        """Learn relations between tags, and the factors of the tags."""
        options = self.options
        return relate_tags(self.task, mixed.scores, options.relations, options.level, options.boost)

    def calibrate(self, mixed: Mixed, related: Related) -> Thresholded:  # noqa: ARG002
        """Select thresholds, fit the calibration and estimate both on held-out examples."""
        return calibration.calibrate(
            self.task, related.raw, related.tag_scale, self.options.threshold
        )

    def gallery(self, stages: Stages) -> tuple[Rows, Floats]:
        """Return all images and their raw held-out scores."""
        group_of = self.examples.group_of
        n = len(group_of)
        raw = stages.related.raw
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
