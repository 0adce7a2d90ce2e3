"""KSVM-VT: kernel support vector machines whose hinge loss tolerates confusing negatives."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Array, Floats, rowwise_matmul
from prototag.coding.rbf_kernel import rbf_kernel
from prototag.engine import Threads, map_rows
from prototag.research.baselines import dual_svm, neighbour_graph, nystroem
from prototag.research.baselines.base import AUTO, COUNT, POSITIVE
from prototag.research.baselines.cross_validated import CrossValidatedBaseline, Setting

COSTS = (2.0, 6.0)
TOLERANCES = (0.0, 0.5)
INTERCEPT_COLUMN = 1.0  # a constant feature; its weight is the intercept
NEAREST_POSITIVES = 5
# Images of a tag among which the nearest are searched: a limit of time.
MAX_POSITIVES = 50
BATCH_IMAGES = 256


class KernelMachine(NamedTuple):
    """The scores ``k(x, landmarks) dual + intercept``."""

    landmarks: Floats  # l x m
    dual: Floats  # l x t
    intercept: Floats  # t
    width: float  # of the kernel exp(-width ||x - x'||^2)


@dataclass(eq=False, repr=False, kw_only=True)
class KSVMVT(CrossValidatedBaseline):
    """One-vs-rest kernel SVM with variable tolerance of confusing negatives (KSVM-VT).

    For each tag, with z = 2 y - 1 and the kernel ``exp(-gamma d(x, x'))``, d the squared distance
    over its mean, scores f minimise

        1/2 ||f||^2 + cost sum_i (1 - tau_i) max(0, 1 - z_i f(x_i))        (reading="weight")
        1/2 ||f||^2 + cost sum_i max(0, 1 - tau_i - z_i f(x_i))            (reading="margin")

    tau is 0 for images with the tag. For the others it rises to ``tolerance`` with two cues: the
    rank of the image among those without the tag by its mean similarity to its nearest images with
    the tag, 1 for the nearest and 0 for the farthest; and the probability of the tag given the
    most predictive of the image's own tags, ``max_c' P(c | c')``. With tolerance 0 this is the
    plain SVM.

    Known of the paper: the hinge loss tolerates negatives that confuse, by a tolerance from visual
    similarity and statistics of tags. The formulas of both cues, how they are combined and both
    readings are our choices, and so are five nearest images among 50 of the tag. The kernel is
    exact if all images are landmarks, and the Nystroem approximation otherwise; ``||f||`` includes
    the intercept. Per-tag thresholds take the place of sigmoids.

    Parameters
    ----------
    cost : float or "auto", default="auto"
        C of scikit-learn's ``SVC``. "auto" here and below: selected from a small grid on
        out-of-fold scores.
    tolerance : float or "auto", default="auto"
        The largest tau, from 0 to 1.
    reading : {"weight", "margin"}, default="weight"
    cue : {"max", "product", "visual", "tags"}, default="max"
        One of the cues, or both combined.
    gamma : float, default=1.5
    n_landmarks : int, default=1000
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws folds, landmarks and the images of tags.

    Attributes
    ----------
    landmarks_ : ndarray of shape (l, m)
    dual_ : ndarray of shape (l, t)
    intercept_ : ndarray of shape (t,)
    width_ : float
        Scores are ``exp(-width_ ||x - landmark||^2) @ dual_ + intercept_``.
    setting_ : dict
        The selected cost and tolerance.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    Y. Verma and C. V. Jawahar, "Exploring SVM for image annotation in presence of confusing
    labels", BMVC 2013.
    """

    cost: float | str = "auto"
    tolerance: float | str = "auto"
    reading: str = "weight"
    cue: str = "max"
    gamma: float = 1.5
    n_landmarks: int = 1000
    landmarks_: Floats = field(init=False)
    dual_: Floats = field(init=False)
    intercept_: Floats = field(init=False)
    width_: float = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossValidatedBaseline._parameter_constraints,
        "cost": [POSITIVE, AUTO],
        "tolerance": [Interval(Real, 0, 1, closed="both"), AUTO],
        "reading": [StrOptions({"weight", "margin"})],
        "cue": [StrOptions({"product", "max", "visual", "tags"})],
        "gamma": [POSITIVE],
        "n_landmarks": [COUNT],
    }
    _values: ClassVar[dict[str, type]] = {"setting_": dict, "width_": float}
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"cost": COSTS, "tolerance": TOLERANCES}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[KernelMachine]:
        features = nystroem.fit(X, self.gamma, self.n_landmarks, np.random.default_rng(seed))
        Z = features.transform(X, self.n_jobs)
        Z = np.hstack([Z, np.full((len(Z), 1), INTERCEPT_COLUMN, np.float32)])
        present = Y.toarray() > 0
        cues: Any = np.float32(0)
        if any(setting["tolerance"] for setting in settings):
            cues = self._cues(X, Y, np.random.default_rng([seed, 1]))
        models = []
        alpha = None
        for setting in settings:
            tau = np.float32(setting["tolerance"]) * cues
            upper = np.float32(setting["cost"]) * (1 - tau if self.reading == "weight" else 1)
            margin = 1 if self.reading == "weight" else 1 - tau
            machines = dual_svm.solve(
                Z, present, upper, margin=margin, start=alpha, seed=seed, n_jobs=self.n_jobs
            )
            alpha = machines.alpha
            dual = rowwise_matmul(features.root, np.ascontiguousarray(machines.w[:, :-1].T))
            intercept = INTERCEPT_COLUMN * machines.w[:, -1]
            models.append(KernelMachine(features.landmarks, dual, intercept, features.gamma))
        return models

    def _cues(self, X: Floats, Y: sparse.csr_array, rng: np.random.Generator) -> Floats:
        """Return the selected cue of confusion, from 0 to 1, n x t; 0 where a tag is present."""
        if self.cue == "tags":
            return tag_cue(Y)
        visual = visual_cue(X, Y, rng, self.n_jobs)
        if self.cue == "visual":
            return visual
        return visual * tag_cue(Y) if self.cue == "product" else np.maximum(visual, tag_cue(Y))

    def _model_scores(self, model: KernelMachine, X: Floats) -> Floats:
        return map_rows(Threads(self.n_jobs), scores_batch, [X], [model], size=BATCH_IMAGES)

    def _set_fitted(self, model: KernelMachine) -> None:
        self.landmarks_ = model.landmarks
        self.dual_ = model.dual
        self.intercept_ = model.intercept
        self.width_ = model.width

    def _get_fitted(self) -> KernelMachine:
        return KernelMachine(self.landmarks_, self.dual_, self.intercept_, self.width_)

    def _arrays(self) -> dict[str, str]:
        return {"landmarks_": "f4 l m", "dual_": "f4 l t", "intercept_": "f4 t"}


def scores_batch(x: Floats, model: KernelMachine) -> Floats:
    """Return the scores of a batch of images."""
    kernel = rbf_kernel(x, model.landmarks, model.width)
    # float64, because the terms of a score are much larger than their sum.
    scores = kernel.astype(np.float64) @ model.dual + model.intercept
    return np.asarray(scores, np.float32)


def tag_cue(Y: sparse.csr_array) -> Floats:
    """Return ``max_c' P(c | c')`` over the tags c' of each image, 0 where c is present."""
    together = (Y.T @ Y).toarray()  # t x t: images with both
    images = np.maximum(np.diag(together), 1).astype(np.float32)
    conditional = together / images[:, None]  # P(column | row)
    cue = np.zeros(Y.shape, np.float32)
    rows = np.flatnonzero(np.diff(Y.indptr))
    if len(rows):  # the maximum over the tags of each image
        cue[rows] = np.maximum.reduceat(conditional[Y.indices], Y.indptr[rows], axis=0)
    cue[Y.nonzero()] = 0
    return cue


def visual_cue(
    X: Floats, Y: sparse.csr_array, rng: np.random.Generator, n_jobs: int | None = None
) -> Floats:
    """Rank the images without a tag by their mean similarity to the nearest images with it.

    Returns 1 for the most similar, 0 for the least similar and where the tag is present. A tag
    without images confuses nobody.
    """
    x = neighbour_graph.principal_axes(X, neighbour_graph.MAX_SEARCH_COLUMNS)
    by_tag = Y.tocsc()
    positives = [
        rng.permutation(by_tag.indices[by_tag.indptr[c] : by_tag.indptr[c + 1]])[:MAX_POSITIVES]
        for c in range(Y.shape[1])
    ]
    start = np.concatenate([[0], np.cumsum([len(rows) for rows in positives])])
    gallery = x[np.concatenate(positives).astype(np.intp)]
    distance = map_rows(Threads(n_jobs), distance_batch, [x], [gallery, start], size=BATCH_IMAGES)
    distance[Y.nonzero()] = np.inf
    rank = np.empty(distance.shape, np.float32)
    order = np.argsort(distance, axis=0, kind="stable")
    np.put_along_axis(rank, order, np.arange(len(x), dtype=np.float32)[:, None], axis=0)
    negatives = np.maximum(len(x) - np.diff(by_tag.indptr) - 1, 1).astype(np.float32)
    cue = np.maximum(1 - rank / negatives, 0)
    cue[:, np.diff(by_tag.indptr) == 0] = 0
    cue[Y.nonzero()] = 0
    return np.asarray(cue, np.float32)


def distance_batch(x: Floats, gallery: Floats, start: Array) -> Floats:
    """Return the mean squared distance to the nearest images of each tag, for a batch."""
    distance = np.einsum("ij,ij->i", gallery, gallery) - 2 * (x @ gallery.T)
    distance += np.einsum("ij,ij->i", x, x)[:, None]
    mean = np.zeros((len(x), len(start) - 1), np.float32)
    for tag, (first, end) in enumerate(itertools.pairwise(start)):
        if first < end:
            count = min(NEAREST_POSITIVES, end - first)
            nearest = np.partition(distance[:, first:end], count - 1, axis=1)[:, :count]
            mean[:, tag] = nearest.mean(axis=1)
    return mean
