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
from prototag.tagging.pipeline import PRIOR, FitOptions, choose_lift, choose_shares, mix_parts
from prototag.tagging.reduction import Blocks, Reduction
from prototag.tagging.task import Examples, Task, fill

MIN_IMAGES_TO_SELECT_LIFT = 1_500  # leave-one-out predictions of fewer know too much of the image
IMAGES_A_COMPONENT = 10  # needed to find principal components that hold for new images, too
LANDMARKS = 6_000  # of more images than an exact regression can take


@dataclass(eq=False)
class InMemory:
    """The stages of :func:`prototag.tagging.pipeline.fit`, with all examples in memory."""

    task: Task
    examples: Examples
    options: FitOptions = field(init=False)  # once the fit has begun
    keeps_stages: ClassVar[bool] = True

    @property
    def task_rows(self) -> Rows:
        """The numbers of the task's examples: all."""
        return np.arange(len(self.task.X))

    def select(self, columns: Bools) -> InMemory:
        """Return the same examples with some of their columns."""
        X = np.ascontiguousarray(self.task.X[:, columns])
        return replace(self, task=replace(self.task, X=X))

    def begin(self, options: FitOptions) -> None:
        """Take the options of a fit, and refuse what memory cannot hold."""
        self.options = options
        n, m = self.task.X.shape
        k = count_prototypes(options.n_prototypes, n)
        size = FitSize(n, m, self.task.Y.shape[1], k, landmark_count(k, options.max_landmarks))
        estimate = estimate_in_memory_fit(
            size,
            nonzeros=options.max_nonzeros,
            width=min(options.width, n),
            short=min(options.kernel_components, n),
        )
        memory_forecast.require_memory(estimate, REMEDY)

    def reduce(self, groups: Blocks) -> Reduced:
        """Fit as many components as codes or kernel need, and make the vectors of the kernel.

        Few images lie wholly within their own principal axes, new ones do not: held-out images
        would seem less like the others than new ones do, and every estimate would be wrong. So all
        columns are kept until there are many more images than components.
        """
        task = self.task
        most = max(self.options.n_components, self.options.kernel_components)
        kept = most if is_reduced(len(task.X), most) else None
        reduction = Reduction(kept, prior=PRIOR, blocks=groups, random_state=task.seed)
        reduction.fit(task.X)
        return Reduced(reduction, reduction.first(self.options.kernel_components).transform(task.X))

    def impute_unlabeled(self, reduced: Reduced) -> None:
        """Replace unlabeled pairs in the task by their leave-one-out probabilities."""
        self.task = fill(self.task, reduced.short)

    def lift(self, reduced: Reduced) -> Lifted:
        """Append leave-one-out linear predictions of the tags to the reduced vectors."""
        task = self.task
        lifting = Lifting(self.options.n_components, weight=1.0, random_state=task.seed)
        first = reduced.reduction.first(self.options.n_components)
        lifted = lifting.learn(task.X, task.T, first)
        weight = self.options.lift
        if weight is None and len(lifted) < MIN_IMAGES_TO_SELECT_LIFT:
            weight = 0.0
        elif weight is None:
            codes = CodeSettings(max_nonzeros=self.options.max_nonzeros)
            weight = choose_lift(task, lifting, lifted, codes)
        lifted = lifting.reweigh(lifted, weight)
        lifting.set_params(weight=weight)
        width = self.options.width
        vectors = lifting.compress(lifted, width) if is_reduced(len(lifted), width) else lifted
        scale = (lifting.scale_ * np.sqrt(task.frequency)).astype(np.float32)
        loo_scores = (lifting.left_out_ * scale + task.frequency).astype(np.float32)
        linear = Linear(scale, task.frequency.astype(np.float32))
        return Lifted(lifting, vectors, linear, loo_scores)

    def learn_prototypes(self, lifted: Lifted) -> Coded:
        """Learn S from codes that no image has shaped for itself."""
        task = self.task
        n = len(self.task.X)
        Y = task.Y if task.unknown is None else sparse.csr_array(task.T > 0.5)
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
        """Regress the tags on the kernel with the prototypes, or with landmarks of its own."""
        task = self.task
        short = reduced.short
        T = task.T
        engine = task.engine
        k = len(coded.prototypes)
        count = landmark_count(k, self.options.max_landmarks)
        if count == len(short):
            exact = kernel_ridge(short, T, gamma=gamma, strength=strength, engine=engine)
            return KernelRidge(Kernel(short, exact.dual, gamma, strength), True, exact.left_out)

        def learn(x: Floats, t: Floats, clustering: Clustering) -> tuple[Floats, Floats]:
            landmarks = clustering.means(x)
            dual = landmark_ridge(x, t, landmarks, gamma=gamma, strength=strength, engine=engine)
            return landmarks, dual

        def score(inside: Rows, outside: Rows, clustering: Clustering) -> Floats:
            landmarks, dual = learn(short[outside], T[outside], clustering)
            return np.asarray(rbf_kernel_with_constant(short[inside], landmarks, gamma) @ dual)

        clusterings = self._clusterings(lifted, coded, count)
        landmarks, dual = learn(short, T, clusterings.whole)
        oof_scores = clusterings.left_out(score, T.shape)
        return KernelRidge(Kernel(landmarks, dual, gamma, strength), count == k, oof_scores)

    def _clusterings(self, lifted: Lifted, coded: Coded, count: int) -> FoldClusterings:
        """Return those of the codes, so that both know the same prototypes, or coarser ones."""
        known = coded.clusterings
        if known is not None and len(known.whole.images) == count:
            return known
        task = self.task
        order = np.random.default_rng(task.seed).permutation(len(task.X))
        folds = order % ExemplarMCDL().n_folds
        return cluster_folds(lifted.vectors, task.Y, count, folds, task.seed, task.engine)

    def weigh_parts(self, lifted: Lifted, coded: Coded, kernel_ridge: KernelRidge) -> Mixed:
        """Select the weights on scores that were held out alike, then weigh the held-out scores."""
        assert coded.oof_scores is not None
        assert kernel_ridge.loo_scores is not None
        assert lifted.loo_scores is not None
        by_codes = coded.oof_scores
        by_kernel = kernel_ridge.loo_scores
        linear = lifted.loo_scores
        selects = self.options.linear is None
        judged = self.oof_linear_scores(lifted, coded) if selects else linear
        share, linear_share = choose_shares(
            self.task, (by_codes, by_kernel, judged), self.options.share, self.options.linear
        )
        mixed = mix_parts((by_codes, by_kernel, linear), share, linear_share)
        return Mixed(share, linear_share, mixed)

    def oof_linear_scores(self, lifted: Lifted, coded: Coded) -> Floats:
        """Score the linear part by the folds of the codes.

        Leaving out one image takes less from a part than leaving out a third: weighed against
        scores of folds, leave-one-out predictions would seem better than they are. Thresholds are
        selected on the latter all the same, which are nearer to what new images get.
        """
        clusterings = coded.clusterings
        lifting = lifted.lifting
        if clusterings is None:
            assert lifted.loo_scores is not None
            return lifted.loo_scores
        T = self.task.T
        standard = lifting.reduction_.zscore_.transform(self.task.X).astype(np.float32)

        def score(inside: Rows, outside: Rows, _: Clustering) -> Floats:
            found = ridge(standard[outside], T[outside], lifting.strength_)
            return np.asarray(standard[inside] @ found.coef + found.intercept)

        return clusterings.left_out(score, T.shape)

    def relate_tags(self, mixed: Mixed) -> Related:
        """Learn relations between tags, and the factors of the tags."""
        weight = self.options.relations
        level = self.options.level
        boost = self.options.boost
        return calibration.relate(self.task, mixed.scores, weight, level, boost)

    def calibrate(self, mixed: Mixed, related: Related) -> Thresholded:  # noqa: ARG002
        """Select thresholds, fit the calibration and estimate both on held-out examples."""
        return calibration.finish(self.task, related.raw, related.tag_scale, self.options.threshold)

    def gallery(self, stages: Stages) -> tuple[Rows, Floats]:
        """Return all images and their raw held-out scores."""
        n = len(self.examples.of)
        of = self.examples.of
        raw = stages.related.raw
        return np.arange(n), raw if len(raw) == n else raw[of]


def is_reduced(n: int, components: int) -> bool:
    """Whether n images are enough to find so many components."""
    return n >= IMAGES_A_COMPONENT * components


def landmark_count(prototypes: int, max_landmarks: int) -> int:
    """How many landmarks the kernel has."""
    return prototypes if prototypes <= max_landmarks else min(LANDMARKS, max_landmarks)
