"""Prototypes that are training images, learned from codes that never use their own image."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from prototag import memory, metrics, prototypes, tags
from prototag.mcdl import MCDL, OBJECTIVE, Floats
from prototag.problem import coder_of, loss_of

RHOS = (0.3, 1.0, 3.0)
SHRINK = 50.0  # images: a tag with fewer has a threshold nearer to that of all tags


class Exemplars(MCDL):
    """MCDL whose visual prototypes are training images, so that learning can leave one out.

    In :class:`MCDL` a training image shaped the prototypes that it is coded over, and coupled codes
    have seen its tags; a new image has done neither, and S and thresholds are fitted to codes that
    never occur. Here D is a part of the images, or all of them, and stays so; an image is coded
    over all prototypes but the one that it became. S minimises

        sum_i sum_c loss(y_ic, a_i S[:, c]) + beta1 sum |S| + rho ||S - S_0||^2

    by few sweeps from S_0, the tags of the prototypes' images. Thresholds are chosen from scores
    that are out of fold twice over: from those codes, and with S learned from the other folds.

    Parameters
    ----------
    n_prototypes : int or float, default=1.0
        Number of images that become prototypes, or their share; drawn at random.
    rho : float, None or "auto", default="auto"
        How firmly S is held to its start; None keeps it there. "auto" is the one of None and
        ``RHOS`` with the best mean average precision out of fold.
    n_sweeps : int, default=1
    n_folds : int, default=3
    beta1, budget, most, margin, tau, max_nonzeros, threshold, exact, gram, n_jobs, random_state
        As in :class:`MCDL`. Thresholds per tag are shrunk to the global one for rare tags.

    Attributes
    ----------
    prototype_images_ : ndarray of shape (k,)
        Which training image each prototype is. Not kept in a model file.
    out_of_fold_scores_ : ndarray of shape (n, t)
        What the training images would score as new ones. Not kept in a model file.
    rho_ : float or None
        Not kept in a model file.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: MCDL._parameter_constraints[name]
        for name in (
            "n_prototypes", "beta1", "budget", "most", "margin", "tau", "max_nonzeros",
            "n_sweeps", "threshold", "exact", "gram", "n_jobs", "random_state",
        )
    } | {
        "rho": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"}), None],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
    }  # fmt: skip
    _kind: ClassVar[str] = "exemplars"
    # What MCDL asks for and this does not vary.
    rho: Any
    eta, loss, image_weight = 1.0, "squared_hinge", "uniform"

    def __init__(
        self,
        n_prototypes: int | float = 1.0,
        *,
        rho: float | str | None = "auto",
        n_sweeps: int = 1,
        n_folds: int = 3,
        beta1: float = 0.15,
        budget: float = 1.0,
        most: float = 5.0,
        margin: float = 0.5,
        tau: float | None = None,
        max_nonzeros: int = 20,
        threshold: str | float = "global",
        exact: bool = False,
        gram: bool | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.rho = rho
        self.n_sweeps = n_sweeps
        self.n_folds = n_folds
        self.beta1 = beta1
        self.budget = budget
        self.most = most
        self.margin = margin
        self.tau = tau
        self.max_nonzeros = max_nonzeros
        self.threshold = threshold
        self.exact = exact
        self.gram = gram
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self._begin_fit(X, y)
        self._n_images = n = len(X)
        k = self._count_prototypes(n)
        if n < 2:
            raise ValueError("n_samples=1: an image is coded over the others, give two or more.")
        memory.require(n=n, m=X.shape[1], t=Y.shape[1], k=k, nonzeros=self.max_nonzeros)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rng = np.random.default_rng(seed)
        self.prototype_images_ = np.sort(rng.permutation(n)[:k])
        fold = rng.permutation(n) % min(self.n_folds, n)

        D = X[self.prototype_images_]
        own = np.full(n, -1, np.intp)
        own[self.prototype_images_] = np.arange(k)
        encoded = coder_of(self, D).encode(X, own=own, n_jobs=self.n_jobs)
        tags = Y[self.prototype_images_].toarray()
        choices = (None, *RHOS) if self.rho == "auto" else (self.rho,)
        found = [self._out_of_fold(tags, encoded.codes, Y, fold, rho, seed) for rho in choices]
        quality = [metrics.mean_average_precision(Y, scores) for scores in found]
        best = int(np.argmax(quality))
        self.rho_, self.out_of_fold_scores_ = choices[best], found[best]
        S = self._learn(tags, encoded.codes, Y, self.rho_, seed)

        self.visual_prototypes_ = D
        self.semantic_prototypes_ = sparse.csr_array(S)
        self.n_iter_ = 0 if self.rho_ is None else self.n_sweeps
        self.objective_ = np.empty(0, OBJECTIVE)
        self.codes_gap_ = float(encoded.gap[~encoded.capped].max(initial=0.0))
        self._prepare()
        self._fit_threshold(Y, self.out_of_fold_scores_)
        return self

    def _out_of_fold(
        self,
        tags: Floats,
        codes: sparse.csr_array,
        Y: sparse.csr_array,
        fold: np.ndarray,
        rho: Any,
        seed: int,
    ) -> Floats:
        """Scores of each image with an S that was learned from the other folds."""
        scores = np.empty(Y.shape, np.float32)
        for number in range(fold.max() + 1):
            inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            S = self._learn(tags, codes[outside], Y[outside], rho, seed)
            scores[inside] = codes[inside] @ S
        return scores

    def _learn(
        self, tags: Floats, codes: sparse.csr_array, Y: sparse.csr_array, rho: Any, seed: int
    ) -> Floats:
        """S from codes and tags of images, given the tags of the prototypes' own images."""
        start = self._start(tags, codes, Y)
        if rho is None:
            return start
        return prototypes.semantic_step(
            start,
            codes,
            Y,
            np.random.default_rng([seed, 1]),
            loss=loss_of(self),
            beta1=self.beta1,
            rho=rho,
            most=self.most,
            sweeps=self.n_sweeps,
            n_jobs=self.n_jobs,
        )

    def _start(self, tags: Floats, codes: sparse.csr_array, Y: sparse.csr_array) -> Floats:
        """The tags of the prototypes' images; where not all images are prototypes, also theirs."""
        if len(tags) == self._n_images:
            return tags
        # Each image lays its tags on the prototypes of its code, by least squares of one prototype
        # alone (Algorithm 2, initialisation); the prototype's own tags count as one image more.
        shared = (codes.T @ Y).toarray() + tags
        squared = np.asarray(codes.multiply(codes).sum(axis=0), np.float32).ravel() + 1
        return np.minimum(shared / squared[:, None], np.float32(self.most)).astype(np.float32)

    def _fit_threshold(self, Y: sparse.csr_array, scores: Floats) -> None:
        if self.threshold == "per_tag":
            self.threshold_ = tags.best_tag_thresholds(Y, scores, shrink=SHRINK)
        else:
            super()._fit_threshold(Y, scores)

    def decision_scores(self, X: Floats) -> Floats:
        """Scores of vectors that are known to be sound, without checking them again."""
        return self._scores(X)
