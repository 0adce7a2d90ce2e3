"""The stages of ``Tagger.fit``, in their order.

Each takes what those before it left, and returns its parameters together with what it predicts for
images that were left out. The first three make up the representation, which is learned for all tags
together and changes rarely; what the others learn for one tag is one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Floats, Rows, SparseRows
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.evaluation.leave_one_out import ranking
from prototag.mcdl.clustering import Clustering, Clusterings, cluster_folds
from prototag.mcdl.exemplars import ExemplarMCDL
from prototag.tagging.calibration import Finished, Related
from prototag.tagging.calibration import finish as finish
from prototag.tagging.calibration import relate as relate
from prototag.tagging.examples import Task
from prototag.tagging.lifting import Lifting
from prototag.tagging.model import (
    Kernel,
    Linear,
    Projection,
    Relations,
    TagModel,
)
from prototag.tagging.reduction import Blocks, Reduction
from prototag.tagging.ridge import kernel_ridge, landmark_ridge, ridge

# What a stage chooses from, by how images score that were left out.
WEIGHTS = (0.0, 0.5, 1.0)
LIFTS = (0.0, 0.5, 1.0)
LIFTED = 1_500  # images; of fewer, predictions know too much of images that they leave out
GAMMAS = (0.5, 1.0, 2.0)
STRENGTHS = (0.1, 0.3, 1.0, 3.0)
SHARES = (0.0, 0.25, 0.5, 0.65, 0.8, 0.9, 1.0)
LINEAR_SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.8)
# What it takes unless left-out images speak for another: what subsets of IAPRTC-12, COCO and clip
# art with 30 to 1,000 images did best with (benchmarks/priors.py). Few images cannot decide, and
# choosing by them would be choosing by luck.
USUAL = {
    "gamma": 1.0,
    "strength": 1.0,
    "lift": 1.0,
    "share": 0.9,
    "linear": 0.1,
    "block": 0.5,
}
IMAGES_A_COMPONENT = 10  # needed to find principal components that hold for new images, too
PRIOR = 5_000.0  # images by which the variances of columns are drawn together
LANDMARKS = 6_000  # of more images than an exact regression can take


def weigh(task: Task, widths: Sequence[int]) -> Blocks:
    """What blocks of columns are worth beside the first, by a kernel regression of a sample.

    Outputs of a network, or of several. One that helps little is left out: its weight is 0.
    """
    x, T, Y = task.X[task.sample], task.T[task.sample], task.Y[task.sample]
    weights = [1.0, *[USUAL["block"]] * (len(widths) - 1)]
    for number in range(1, len(widths)):

        def annotates(weight: float, number: int = number) -> float:
            tried = [*weights[:number], weight, *weights[number + 1 :]]
            blocks = tuple(zip(widths, tried, strict=True))
            short = Reduction(None, prior=PRIOR, blocks=blocks).fit(x).transform(x)
            found = kernel_ridge(short, T, gamma=1.0, strength=1.0, engine=task.engine)
            return ranking(Y, task.known(found.left_out, task.sample))

        weights[number] = task.choose(WEIGHTS, USUAL["block"], annotates)
    return tuple(zip(widths, weights, strict=True))


def weigh_given(task: Task, blocks: Sequence[int] | Blocks | None) -> Blocks:
    """Width and weight of each block of columns; weighed where only widths are given."""
    m = task.X.shape[1]
    given = np.array([(m, 1.0)] if blocks is None else list(blocks), np.float64)
    decided = given.ndim == 2
    widths = (given[:, 0] if decided else given).astype(int).tolist()
    if sum(widths) != m or min(widths) < 1:
        raise ValueError(f"blocks={blocks!r}: give widths that add up to {m} columns.")
    if not decided:
        return weigh(task, widths)
    return tuple(zip(widths, given[:, 1].tolist(), strict=True))


class Reduced(NamedTuple):
    """z-score and principal axes."""

    reduction: Reduction
    short: Floats  # n x components, unit length: the vectors of the kernel


def reduce(task: Task, components: int, kernel_components: int, blocks: Blocks) -> Reduced:
    """Find as many components as codes or kernel need, and the vectors of the kernel.

    Few images lie wholly within their own principal axes, new ones do not: left-out images would
    seem less like the others than new ones do, and every promise would be wrong. So all columns are
    kept until there are many more images than components.
    """
    most = max(components, kernel_components)
    kept = most if is_reduced(len(task.X), most) else None
    reduction = Reduction(kept, prior=PRIOR, blocks=blocks, random_state=task.seed)
    reduction.fit(task.X)
    return Reduced(reduction, reduction.first(kernel_components).transform(task.X))


def is_reduced(n: int, components: int) -> bool:
    """Whether n images are enough to find so many components."""
    return n >= IMAGES_A_COMPONENT * components


class Lifted(NamedTuple):
    """Vectors that know something of the tags, and the linear predictions in them."""

    lifting: Lifting
    vectors: Floats  # n x width, each lifted as if its image had not been there
    scale: Floats  # t, turns predictions of the lifting into scores
    left_out: Floats  # n x t, linear scores


def lift(
    task: Task,
    reduced: Reduced,
    core: ExemplarMCDL,
    components: int,
    width: int,
    weight: float | None,
) -> Lifted:
    """Append linear predictions, with the weight that annotates a sample best over all others."""
    lifting = Lifting(components, weight=1.0, random_state=task.seed)
    lifted = lifting.learn(task.X, task.T, reduced.reduction.first(components))
    sample = task.sample

    def annotates(weight: float) -> float:
        x = lifting.reweigh(lifted, weight)
        coder = core._code_settings().coder(x)
        codes = coder.encode(x[sample], own=sample, engine=task.engine).codes
        return ranking(task.Y[sample], task.known((codes @ task.Y).toarray(), sample))

    if weight is None:
        weight = 0.0 if len(lifted) < LIFTED else task.choose(LIFTS, USUAL["lift"], annotates)
    lifted = lifting.reweigh(lifted, weight)
    lifting.set_params(weight=weight)
    vectors = lifting.compress(lifted, width) if is_reduced(len(lifted), width) else lifted
    scale = (lifting.scale_ * np.sqrt(task.frequency)).astype(np.float32)
    left_out = (lifting.left_out_ * scale + task.frequency).astype(np.float32)
    return Lifted(lifting, vectors, scale, left_out)


class Coded(NamedTuple):
    """Codes over prototypes and their semantics."""

    core: ExemplarMCDL  # with the codes of the training images, their folds, S
    left_out: Floats


def code(task: Task, lifted: Lifted, core: ExemplarMCDL) -> Coded:
    """Learn S from codes that no image has shaped for itself."""
    core.fit(lifted.vectors, task.Y if task.unknown is None else sparse.csr_array(task.T > 0.5))
    return Coded(core, core.out_of_fold_scores_)


class Smooth(NamedTuple):
    """A kernel regression over the same prototypes, or over landmarks of its own."""

    kernel: Kernel
    left_out: Floats


def choose_kernel(
    task: Task, reduced: Reduced, gamma: float | None, strength: float | None
) -> tuple[float, float]:
    """The sharpness and the penalty that annotate a sample best.

    More images than the sample has need less of a penalty.
    """
    pairs = [
        (g, s)
        for g in (GAMMAS if gamma is None else (gamma,))
        for s in (STRENGTHS if strength is None else (strength,))
    ]
    x, T, Y = reduced.short[task.sample], task.T[task.sample], task.Y[task.sample]

    def annotates(pair: tuple[float, float]) -> float:
        found = kernel_ridge(x, T, gamma=pair[0], strength=pair[1], engine=task.engine)
        return ranking(Y, task.known(found.left_out, task.sample))

    usual = USUAL["gamma"] if gamma is None else gamma
    held = USUAL["strength"] if strength is None else strength
    chosen = task.choose(pairs, (usual, held), annotates)
    if strength is not None:
        return chosen
    return chosen[0], chosen[1] * float(np.sqrt(len(x) / len(task.X)))


def smooth(
    task: Task,
    reduced: Reduced,
    lifted: Lifted,
    coded: Coded,
    chosen: tuple[float, float],
    max_landmarks: int,
) -> Smooth:
    """Regress the tags on the likeness to prototypes."""
    (gamma, strength), short, T = chosen, reduced.short, task.T
    count = landmark_count(len(coded.core.visual_prototypes_), max_landmarks)
    if count == len(short):
        exact = kernel_ridge(short, T, gamma=gamma, strength=strength, engine=task.engine)
        return Smooth(Kernel(short, exact.dual, gamma, strength), exact.left_out)

    def learn(x: Floats, t: Floats, clustering: Clustering) -> tuple[Floats, Floats]:
        landmarks = clustering.means(x)
        dual = landmark_ridge(x, t, landmarks, gamma=gamma, strength=strength, engine=task.engine)
        return landmarks, dual

    def score(inside: Rows, outside: Rows, clustering: Clustering) -> Floats:
        landmarks, dual = learn(short[outside], T[outside], clustering)
        return np.asarray(rbf_kernel_with_constant(short[inside], landmarks, gamma) @ dual)

    clusterings = _clusterings(task, lifted, coded.core, count)
    landmarks, dual = learn(short, T, clusterings.whole)
    left_out = clusterings.left_out(score, T.shape)
    return Smooth(Kernel(landmarks, dual, gamma, strength), left_out)


def landmark_count(prototypes: int, max_landmarks: int) -> int:
    """How many landmarks the kernel has."""
    return prototypes if prototypes <= max_landmarks else min(LANDMARKS, max_landmarks)


def _clusterings(task: Task, lifted: Lifted, core: ExemplarMCDL, count: int) -> Clusterings:
    """Those of the codes, so that both know the same prototypes, unless they are too many."""
    known = core.clusterings_
    if known is not None and len(known.whole.images) == count:
        return known
    folds = np.random.default_rng(task.seed).permutation(len(lifted.vectors)) % core.n_folds
    return cluster_folds(lifted.vectors, task.Y, count, folds, task.seed, task.engine)


class Mixed(NamedTuple):
    """The three parts of a score, weighed."""

    share: float  # of the kernel, against the codes
    linear_share: float  # of the linear predictions, against both
    left_out: Floats


def mix(
    task: Task,
    lifted: Lifted,
    coded: Coded,
    smooth: Smooth,
    share: float | None,
    linear_share: float | None,
) -> Mixed:
    """First the share of the kernel against the codes, then that of the linear predictions."""
    parts = coded.left_out, smooth.left_out, lifted.left_out
    fair = (*parts[:2], _straight(task, lifted, coded) if linear_share is None else parts[2])

    def annotates(share: float, linear: float) -> float:
        return ranking(task.Y, task.known(weigh_parts(fair, share, linear)))

    if share is None:
        share = task.choose(SHARES, USUAL["share"], lambda g: annotates(g, 0.0))
    if linear_share is None:
        linear_share = task.choose(LINEAR_SHARES, USUAL["linear"], lambda u: annotates(share, u))
    return Mixed(share, linear_share, weigh_parts(parts, share, linear_share))


def weigh_parts(parts: tuple[Floats, Floats, Floats], share: float, linear: float) -> Floats:
    """Scores from what codes, kernel and linear predictions say, by their shares."""
    coded, smooth, straight = parts
    mixed = np.float32((1 - linear) * (1 - share)) * coded
    mixed += np.float32((1 - linear) * share) * smooth
    mixed += np.float32(linear) * straight
    return mixed


def _straight(task: Task, lifted: Lifted, coded: Coded) -> Floats:
    """The linear predictions for left-out images, learned from the images the others had.

    One image fewer takes less from a part than a third of them: weighed against scores of folds,
    predictions that leave one image out would seem better than they are. Thresholds are chosen from
    the latter all the same, which are nearer to what new images get.
    """
    clusterings = coded.core.clusterings_
    if clusterings is None:
        return lifted.left_out
    lifting = lifted.lifting
    standard = lifting.reduction_.zscore_.transform(task.X).astype(np.float32)

    def score(inside: Rows, outside: Rows, _: Clustering) -> Floats:
        found = ridge(standard[outside], task.T[outside], lifting.strength_)
        return np.asarray(standard[inside] @ found.coef + found.intercept)

    return clusterings.left_out(score, task.T.shape)


class Stages(NamedTuple):
    """All that was learned on the way, so that learning can go on from it."""

    reduced: Reduced
    lifted: Lifted
    coded: Coded
    smooth: Smooth
    mixed: Mixed
    related: Related
    finished: Finished

    def choices(self) -> dict[str, float]:
        """What was chosen on left-out images, what these promise, and how exact the codes are."""
        return {
            "gamma": self.smooth.kernel.gamma,
            "strength": self.smooth.kernel.strength,
            "lift": float(self.lifted.lifting.weight),
            "share": self.mixed.share,
            "linear": self.mixed.linear_share,
            "level": self.related.level,
            "boost": self.related.boost,
            "out_of_fold_f1": self.finished.f1,
            "out_of_fold_map": self.finished.mean_average_precision,
            "codes_gap": self.coded.core.codes_gap_,
            "codes_stalled": float(self.coded.core.n_stalled_),
        }

    def model(self, task: Task) -> TagModel:
        """What annotating needs of all this.

        Arrays are in the order that a file gives back, so that sums are the same to the last bit.
        """
        lifting, core, u = self.lifted.lifting, self.coded.core, np.float32(self.mixed.linear_share)
        t = task.Y.shape[1]
        return TagModel(
            projection=projection_of(self.reduced, lifting, self.smooth.kernel.landmarks.shape[1]),
            lift_weight=float(lifting.weight),
            axes=None if lifting.axes_ is None else np.ascontiguousarray(lifting.axes_, np.float32),
            prototypes=np.ascontiguousarray(core.visual_prototypes_),
            semantics=SparseRows.of(core.semantic_prototypes_),
            max_nonzeros=core.max_nonzeros,
            kernel=self.smooth.kernel,
            linear=Linear(u * self.lifted.scale, u * task.frequency.astype(np.float32)),
            share=self.mixed.share,
            linear_share=self.mixed.linear_share,
            relations=Relations(np.ascontiguousarray(self.related.coef), self.related.offset),
            tag_scale=self.related.tag_scale,
            threshold=np.broadcast_to(self.finished.threshold, t).astype(np.float64),
            calibration=self.finished.calibration,
        )


def projection_of(reduced: Reduced, lifting: Lifting, kernel_columns: int) -> Projection:
    """z-score, principal axes and linear predictions as one product."""
    zscore, axes = reduced.reduction.zscore_, reduced.reduction.axes_
    mean, t = zscore.mean_ / zscore.scale_, len(lifting.intercept_)
    maps = [lifting.coef_ / zscore.scale_[:, None]]
    constants = [lifting.intercept_ - mean @ lifting.coef_.astype(np.float64)]
    count, scale = len(mean), None
    if axes is not None:
        components = axes.components_.T
        maps.insert(0, components / zscore.scale_[:, None])
        constants.insert(0, -(mean + axes.mean_) @ components)
        count = components.shape[1]
    else:
        constants.insert(0, -mean)
        scale = np.asarray(1 / zscore.scale_, np.float32)
    return Projection(
        np.ascontiguousarray(np.hstack(maps), np.float32),
        np.concatenate(constants).astype(np.float32),
        slice(0, lifting.reduction_._n_features_out),
        slice(count, count + t),
        slice(0, kernel_columns),
        slice(count, count + t),
        scale,
    )
