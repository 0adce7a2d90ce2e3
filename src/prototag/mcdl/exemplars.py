"""Learning out of fold: codes that an image has not shaped, neither by its vector nor by its tags.

D is all training images, and an image is coded over the others; or D is a summary of them
(:mod:`prototag.mcdl.clustering`), and an image is judged by a summary of the other folds. S
minimises

    sum_i sum_c loss(y_ic, a_i S[:, c]) + beta1 sum |S| + rho ||S - S_0||^2

by few sweeps from S_0, the tags of the prototypes' images; or, where many tags were forgotten, S is
these tags and, in part, those of the images that a prototype is coded by. The scores that
thresholds are chosen from come from S learned from the other folds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.coding.coder import Encoded
from prototag.evaluation import metrics
from prototag.evaluation.thresholds import best_global_threshold
from prototag.mcdl import steps
from prototag.mcdl.clustering import Summaries, Summary, summarise_folds
from prototag.mcdl.problem import Problem, State, coder_of

Floats = npt.NDArray[np.float32]
RHOS = (0.3, 1.0, 3.0)
SPREADS = (0.15, 0.3, 0.45, 0.6)
WORTH = 0.015  # by how much passing tags on must be better: S has three times the entries then
NEGLIGIBLE = 0.01  # what a prototype says of a tag, where a tag of its own counts 1
SHRINK = 50.0  # images: a tag with fewer has a threshold nearer to that of all tags


class Learned(NamedTuple):
    """What learning out of fold gives an estimator."""

    state: State  # prototypes, codes, objective before and after S was learned
    images: npt.NDArray[np.intp]  # which image each prototype is, or is nearest to
    scores: Floats  # n x t, what the images would score as new ones
    rho: float | None
    spread: float
    gap: float
    summaries: Summaries | None  # where the prototypes are fewer than the images


def learn(recipe: Any, problem: Problem, k: int, seed: int) -> Learned:
    """Find k prototypes, code all images over those that they did not shape, learn S."""
    X, Y, n = problem.X, problem.Y, len(problem.X)
    if n < 2:
        raise ValueError("n_samples=1: an image is coded over the others, give two or more.")
    rng = np.random.default_rng(seed)
    rng.permutation(n)  # once drew prototypes: recorded models have the folds of the next draw
    fold = rng.permutation(n) % min(recipe.n_folds, n)
    choices = (None, *RHOS) if recipe.rho == "auto" else (recipe.rho,)
    if k == n:
        D, images, summaries = X, np.arange(n), None
        encoded = coder_of(recipe, D).encode(X, own=images, n_jobs=recipe.n_jobs)
        semantics = Semantics(recipe, problem, encoded.codes, Y, seed, Y.toarray())
        found = semantics.out_of_fold(fold, choices)
    else:
        summaries = summarise_folds(X, Y, k, fold, seed, recipe.n_jobs)
        images = summaries.whole.images
        D, encoded = _summarised(recipe, X, summaries.whole)
        semantics = Semantics(recipe, problem, encoded.codes, Y, seed)
        found = _judged_by_others(recipe, problem, summaries, choices, seed)
    best = int(np.argmax([metrics.mean_average_precision(Y, scores) for scores in found]))
    rho, scores, spread = choices[best], found[best], 0.0
    if k == n and recipe.spread != 0:
        passed = _pass_on(recipe, encoded.codes, Y, scores)
        if passed is not None:
            spread, semantics.start, scores = passed
            rho = None

    state = State(D, semantics.start, encoded.codes, [])
    state.objective.append(problem.objective(state))
    state.S = semantics.learn(rho)
    state.objective.append(problem.objective(state))
    gap = float(encoded.gap[~encoded.capped].max(initial=0.0))
    return Learned(state, images, scores, rho, spread, gap, summaries)


def _pass_on(
    recipe: Any, codes: sparse.csr_array, Y: sparse.csr_array, swept: Floats
) -> tuple[float, Floats, Floats] | None:
    """Tags passed on to the images that are coded by them: the share, S, scores of left-out images.

    People forget tags; images that look alike remember them. An image's own tags come back to it
    through others that it takes part in: what does is taken off its scores. None where no share
    annotates left-out images clearly better than S ``swept`` does: few tags were forgotten.
    """
    tags, passed = Y.toarray(), (codes @ Y).toarray()
    back = np.asarray(codes.multiply(codes.T).sum(axis=1), np.float32)[:, None]

    def start(share: float) -> Floats:
        S = np.float32(1 - share) * tags + np.float32(share) * passed
        return np.where(S < NEGLIGIBLE, np.float32(0), S)

    def left_out(share: float) -> Floats:
        return np.asarray(codes @ start(share) - np.float32(share) * back * tags)

    if recipe.spread == "auto":
        qualities = {share: _quality(Y, left_out(share)) for share in SPREADS}
        share = max(qualities, key=lambda share: qualities[share])
        if qualities[share] < (1 + WORTH) * _quality(Y, swept):
            return None
    else:
        share = float(recipe.spread)
    return share, start(share), left_out(share)


def _quality(Y: sparse.csr_array, scores: Floats) -> float:
    """What tags come out by a threshold, as the best five, and how they are ranked."""
    five = metrics.f1_of_means(Y, metrics.top(scores, min(5, Y.shape[1])))
    return best_global_threshold(Y, scores)[1] + five + metrics.mean_average_precision(Y, scores)


def _summarised(recipe: Any, X: Floats, summary: Summary) -> tuple[Floats, Encoded]:
    """The prototypes of a summary of X, and codes of X over them."""
    D = steps.to_sphere(summary.means(X))
    return D, coder_of(recipe, D).encode(X, n_jobs=recipe.n_jobs)


def _judged_by_others(
    recipe: Any, problem: Problem, summaries: Summaries, choices: tuple[Any, ...], seed: int
) -> list[Floats]:
    """For each rho the scores of all images, each by prototypes and S of the other folds."""
    X, Y = problem.X, problem.Y

    def score(inside: Any, outside: Any, summary: Summary) -> Floats:
        D, encoded = _summarised(recipe, X[outside], summary)
        codes = coder_of(recipe, D).encode(X[inside], n_jobs=recipe.n_jobs).codes
        semantics = Semantics(recipe, problem, encoded.codes, Y[outside], seed)
        return np.stack([codes @ semantics.learn(rho) for rho in choices], axis=1)

    found = summaries.left_out(score, (len(X), len(choices), Y.shape[1]))
    return [found[:, number] for number in range(len(choices))]


class Semantics:
    """S from codes and tags of images, by default from where least squares lays their tags."""

    def __init__(
        self,
        recipe: Any,
        problem: Problem,
        codes: sparse.csr_array,
        Y: sparse.csr_array,
        seed: int,
        start: Floats | None = None,
    ) -> None:
        self.recipe, self.problem, self.seed = recipe, problem, seed
        self.codes, self.Y = codes, Y
        if start is None:
            start = steps.initial_semantics(codes, Y, positive=1.0, most=recipe.most)
        self.start = start

    def out_of_fold(self, fold: npt.NDArray[np.intp], choices: tuple[Any, ...]) -> list[Floats]:
        """For each rho the scores of all images, each with an S learned from the other folds."""
        found = [np.empty(self.Y.shape, np.float32) for _ in choices]
        for number in range(fold.max() + 1):
            inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            for scores, rho in zip(found, choices, strict=True):
                scores[inside] = self.codes[inside] @ self.learn(rho, outside)
        return found

    def learn(self, rho: float | None, rows: npt.NDArray[np.intp] | None = None) -> Floats:
        """S by sweeps over all images, or some; with no rho, its start."""
        if rho is None:
            return self.start
        codes, Y = (self.codes, self.Y) if rows is None else (self.codes[rows], self.Y[rows])
        return steps.semantic_step(
            self.start,
            codes,
            Y,
            np.random.default_rng([self.seed, 1]),
            loss=self.problem.loss,
            beta1=self.recipe.beta1,
            rho=rho,
            most=self.recipe.most,
            sweeps=self.recipe.n_sweeps,
            n_jobs=self.recipe.n_jobs,
        )
