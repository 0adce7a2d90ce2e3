"""Learning out of fold: prototypes that are images, codes that never use their own image.

D is a part of the training images, or all of them, and stays so. S minimises

    sum_i sum_c loss(y_ic, a_i S[:, c]) + beta1 sum |S| + rho ||S - S_0||^2

by few sweeps from S_0, the tags of the prototypes' images. The scores that thresholds are chosen
from are out of fold twice over: from codes without the image's own prototype, and with S learned
from the other folds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag import metrics, prototypes
from prototag.problem import Problem, State, coder_of

Floats = npt.NDArray[np.float32]
RHOS = (0.3, 1.0, 3.0)
SHRINK = 50.0  # images: a tag with fewer has a threshold nearer to that of all tags


class Learned(NamedTuple):
    """What learning out of fold gives an estimator."""

    state: State  # prototypes, codes, objective before and after S was learned
    images: npt.NDArray[np.intp]  # which image each prototype is
    scores: Floats  # n x t, what the images would score as new ones
    rho: float | None
    gap: float


def learn(recipe: Any, problem: Problem, k: int, seed: int) -> Learned:
    """Choose k images as prototypes, code all images over the others, learn S."""
    X, Y, n = problem.X, problem.Y, len(problem.X)
    if n < 2:
        raise ValueError("n_samples=1: an image is coded over the others, give two or more.")
    rng = np.random.default_rng(seed)
    images = np.sort(rng.permutation(n)[:k])
    fold = rng.permutation(n) % min(recipe.n_folds, n)

    D = X[images]
    own = np.full(n, -1, np.intp)
    own[images] = np.arange(k)
    encoded = coder_of(recipe, D).encode(X, own=own, n_jobs=recipe.n_jobs)
    semantics = Semantics(recipe, problem, Y[images].toarray(), encoded.codes, seed)
    choices = (None, *RHOS) if recipe.rho == "auto" else (recipe.rho,)
    found = [semantics.out_of_fold(fold, rho) for rho in choices]
    best = int(np.argmax([metrics.mean_average_precision(Y, scores) for scores in found]))

    everyone = np.arange(n)
    state = State(D, semantics.start(everyone), encoded.codes, [])
    state.objective.append(problem.objective(state))
    state.S = semantics.learn(everyone, choices[best])
    state.objective.append(problem.objective(state))
    gap = float(encoded.gap[~encoded.capped].max(initial=0.0))
    return Learned(state, images, found[best], choices[best], gap)


class Semantics:
    """S from codes and tags of some of the images."""

    def __init__(
        self, recipe: Any, problem: Problem, tags: Floats, codes: sparse.csr_array, seed: int
    ) -> None:
        self.recipe, self.problem, self.seed = recipe, problem, seed
        self.tags, self.codes = tags, codes  # k x t, of the prototypes' own images; n x k

    def out_of_fold(self, fold: npt.NDArray[np.intp], rho: float | None) -> Floats:
        """Scores of each image with an S that was learned from the other folds."""
        scores = np.empty(self.problem.Y.shape, np.float32)
        for number in range(fold.max() + 1):
            inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            scores[inside] = self.codes[inside] @ self.learn(outside, rho)
        return scores

    def learn(self, rows: npt.NDArray[np.intp], rho: float | None) -> Floats:
        start = self.start(rows)
        if rho is None:
            return start
        return prototypes.semantic_step(
            start,
            self.codes[rows],
            self.problem.Y[rows],
            np.random.default_rng([self.seed, 1]),
            loss=self.problem.loss,
            beta1=self.recipe.beta1,
            rho=rho,
            most=self.recipe.most,
            sweeps=self.recipe.n_sweeps,
            n_jobs=self.recipe.n_jobs,
        )

    def start(self, rows: npt.NDArray[np.intp]) -> Floats:
        """The tags of the prototypes' images; where not all images are prototypes, also theirs."""
        if len(self.tags) == len(self.problem.X):
            return self.tags
        # Each image lays its tags on the prototypes of its code, by least squares of one prototype
        # alone (Algorithm 2, initialisation); the prototype's own tags count as one image more.
        codes = self.codes[rows]
        shared = (codes.T @ self.problem.Y[rows]).toarray() + self.tags
        squared = np.asarray(codes.multiply(codes).sum(axis=0), np.float32).ravel() + 1
        return np.minimum(shared / squared[:, None], np.float32(self.recipe.most)).astype(
            np.float32
        )
