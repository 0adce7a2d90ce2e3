"""Learning out of fold: codes that an image has not shaped, neither by its vector nor by its tags.

D is all training images, and an image is coded over the others; or D are means of images
(:mod:`prototag.mcdl.clustering`), and an image is judged by means of the other folds. S minimises

    sum_i sum_c loss(y_ic, a_i S[:, c]) + beta1 sum |S| + rho ||S - S_0||^2

by few sweeps from S_0, the tags of the prototypes' images; or, where many tags were forgotten, S is
these tags and, in part, those of the images that a prototype is coded by. The scores that
thresholds are chosen from come from S learned from the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy import sparse

from prototag.arrays import Floats, Rows
from prototag.coding.coder import Certificate, Encoded
from prototag.engine import Engine
from prototag.evaluation import metrics
from prototag.evaluation.selection import quality
from prototag.mcdl import steps
from prototag.mcdl.clustering import Clustering, Clusterings, cluster_folds
from prototag.mcdl.problem import State, objective
from prototag.mcdl.settings import CodeSettings, SemanticSettings

RHOS = (None, 0.3, 1.0, 3.0)  # None keeps S at its start
SPREADS = (0.15, 0.3, 0.45, 0.6)
WORTH = 0.015  # by how much passing tags on must be better: S has three times the entries then
NEGLIGIBLE = 0.01  # what a prototype says of a tag, where a tag of its own counts 1


@dataclass(frozen=True)
class Settings:
    """All that decides a fit out of fold."""

    codes: CodeSettings
    semantics: SemanticSettings
    rho: float | Literal["auto"] | None  # "auto": the one of RHOS that ranks left-out images best
    spread: float | Literal["auto"]  # "auto": the one of SPREADS that annotates them best, or 0
    n_folds: int
    engine: Engine


class Learned(NamedTuple):
    """What learning out of fold gives an estimator."""

    state: State  # prototypes, codes, objective before and after S was learned
    images: Rows  # which image each prototype is, or is nearest to
    scores: Floats  # n x t, what the images would score as new ones
    folds: Rows  # the fold of each image
    rho: float | None
    spread: float
    certificate: Certificate
    clusterings: Clusterings | None  # where the prototypes are fewer than the images


def learn(X: Floats, Y: sparse.csr_array, k: int, seed: int, settings: Settings) -> Learned:
    """Find k prototypes, code all images over those that they did not shape, learn S."""
    n = len(X)
    if n < 2:
        raise ValueError("n_samples=1: an image is coded over the others, give two or more.")
    folds = np.random.default_rng(seed).permutation(n) % min(settings.n_folds, n)
    rhos: tuple[float | None, ...] = RHOS if settings.rho == "auto" else (settings.rho,)
    if k == n:
        D, images, clusterings = X, np.arange(n), None
        coder = settings.codes.coder(D)
        encoded = coder.encode(X, own=images, engine=settings.engine)
        semantics = Semantics(encoded.codes, Y, seed, settings, Y.toarray())
        found = semantics.out_of_fold(folds, rhos)
    else:
        clusterings = cluster_folds(X, Y, k, folds, seed, settings.engine)
        images = clusterings.whole.images
        D, encoded = _clustered(X, clusterings.whole, settings)
        semantics = Semantics(encoded.codes, Y, seed, settings)
        found = _judged_by_others(X, Y, clusterings, rhos, seed, settings)
    best = int(np.argmax([metrics.mean_average_precision(Y, scores) for scores in found]))
    rho, scores, spread = rhos[best], found[best], 0.0
    if k == n and settings.spread != 0:
        passed = _pass_on(encoded.codes, Y, scores, settings.spread)
        if passed is not None:
            spread, semantics.start, scores = passed
            rho = None

    state = State(D, semantics.start, encoded.codes, np.empty(0))
    ones, engine = np.ones(n, np.float32), settings.engine
    state.objective.append(objective(X, Y, state, ones, settings.semantics, engine))
    state.S = semantics.learn(rho)
    state.objective.append(objective(X, Y, state, ones, settings.semantics, engine))
    state.tag_objective = steps.tag_objective(
        state.S, state.A, Y, settings.semantics, settings.engine
    )
    return Learned(state, images, scores, folds, rho, spread, encoded.certificate, clusterings)


def _pass_on(
    codes: sparse.csr_array, Y: sparse.csr_array, swept: Floats, spread: float | Literal["auto"]
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

    if isinstance(spread, str):
        qualities = {share: quality(Y, left_out(share), five=True) for share in SPREADS}
        share = max(qualities, key=lambda share: qualities[share])
        if qualities[share] < (1 + WORTH) * quality(Y, swept, five=True):
            return None
    else:
        share = float(spread)
    return share, start(share), left_out(share)


def _clustered(X: Floats, clustering: Clustering, settings: Settings) -> tuple[Floats, Encoded]:
    """The prototypes of a clustering of X, and codes of X over them."""
    D = steps.to_sphere(clustering.means(X))
    return D, settings.codes.coder(D).encode(X, engine=settings.engine)


def _judged_by_others(
    X: Floats,
    Y: sparse.csr_array,
    clusterings: Clusterings,
    rhos: tuple[float | None, ...],
    seed: int,
    settings: Settings,
) -> list[Floats]:
    """For each rho the scores of all images, each by prototypes and S of the other folds."""

    def score(inside: Rows, outside: Rows, clustering: Clustering) -> Floats:
        D, encoded = _clustered(X[outside], clustering, settings)
        codes = settings.codes.coder(D).encode(X[inside], engine=settings.engine).codes
        semantics = Semantics(encoded.codes, Y[outside], seed, settings)
        return np.stack([codes @ semantics.learn(rho) for rho in rhos], axis=1)

    found = clusterings.left_out(score, (len(X), len(rhos), Y.shape[1]))
    return [found[:, number] for number in range(len(rhos))]


class Semantics:
    """S from codes and tags of images, by default from where least squares lays their tags."""

    def __init__(
        self,
        codes: sparse.csr_array,
        Y: sparse.csr_array,
        seed: int,
        settings: Settings,
        start: Floats | None = None,
    ) -> None:
        self.codes, self.Y, self.seed, self.settings = codes, Y, seed, settings
        if start is None:
            start = steps.initial_semantics(codes, Y, positive=1.0, v=settings.semantics.v)
        self.start = start

    def out_of_fold(self, folds: Rows, rhos: tuple[float | None, ...]) -> list[Floats]:
        """For each rho the scores of all images, each with an S learned from the other folds."""
        found = [np.empty(self.Y.shape, np.float32) for _ in rhos]
        for number in range(folds.max() + 1):
            inside, outside = np.flatnonzero(folds == number), np.flatnonzero(folds != number)
            for scores, rho in zip(found, rhos, strict=True):
                scores[inside] = self.codes[inside] @ self.learn(rho, outside)
        return found

    def learn(self, rho: float | None, rows: Rows | None = None) -> Floats:
        """S by sweeps over all images, or some; with no rho, its start."""
        if rho is None:
            return self.start
        codes, Y = (self.codes, self.Y) if rows is None else (self.codes[rows], self.Y[rows])
        return steps.semantic_step(
            self.start,
            codes,
            Y,
            np.random.default_rng([self.seed, 1]),
            self.settings.semantics,
            rho=rho,
            engine=self.settings.engine,
        ).S
