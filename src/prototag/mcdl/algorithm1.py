"""The problem that Algorithm 1 solves: its terms, its start, and the steps that lower it.

sum_i [ (p_i / lam) ||x_i - a_i D||^2 + sum_c loss(y_ic, a_i S[:, c]) ] + beta1 sum |S|
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from prototag.arrays import Doubles, Floats
from prototag.engine import SINGLE_THREAD, Engine
from prototag.mcdl import updates
from prototag.mcdl.coupled_coding import coupled_encode
from prototag.mcdl.kmeans import k_means
from prototag.mcdl.settings import CodeSettings, Recipe, SemanticSettings

OBJECTIVE = np.dtype([(name, np.float64) for name in ("visual", "loss", "sparsity", "total")])
VisualStarts = dict[tuple[object, ...], tuple[Floats, sparse.csr_array]]


@dataclass
class MCDLState:
    """What an iteration changes."""

    D: Floats  # k x m, visual prototypes
    S: Floats  # k x t, semantic prototypes
    A: sparse.csr_array  # n x k, codes
    tag_objective: Doubles  # t, loss and sparsity of each tag after the last semantic step
    objective: list[tuple[float, ...]] = field(default_factory=list)  # after each iteration


@dataclass(frozen=True, eq=False)
class Problem:
    """One collection, and all that decides how it is learned."""

    X: Floats
    Y: sparse.csr_array
    recipe: Recipe
    codes: CodeSettings
    semantics: SemanticSettings
    eta: float
    rho: float
    n_passes: int
    init_iter: int
    engine: Engine = SINGLE_THREAD

    def __post_init__(self) -> None:
        if not 1e-30 < self.lam < 1e30:
            raise ValueError(
                f"eta={self.eta} weighs {self.Y.shape[1]} tags by lam = eta^2 / t = "
                f"{self.lam:.0e}, beyond what float32 codes can tell: give eta between 1e-10 "
                "and 1e10."
            )

    @property
    def lam(self) -> float:
        """``eta^2 / t``."""
        return float(self.eta) ** 2 / self.Y.shape[1]

    @property
    def weights(self) -> Floats:
        """p_i, the number of tags of each image; an image without tags counts as one with one."""
        if self.recipe.image_weight == "uniform":
            return np.ones(len(self.X), np.float32)
        return np.maximum(np.diff(self.Y.indptr), 1).astype(np.float32)

    def initialise(self, k: int, seed: int, starts: VisualStarts) -> MCDLState:
        """k-means, visual alternations, and the semantics of the codes found.

        ``starts`` keeps the visual part for problems that share it.
        """
        recipe = self.recipe
        coupled = self.lam if recipe.init == "coupled" else None
        key = (k, seed, recipe.norm, recipe.init, self.init_iter, coupled, self.codes)
        if key not in starts:
            starts[key] = self._visual_start(k, np.random.default_rng([seed, 0]))
        D, A = starts[key]
        loss = self.semantics.loss
        positive = max(1.0, loss.present) if recipe.init_positive == "margin" else 1.0
        S = updates.initial_semantics(A, self.Y, positive=positive, v=self.semantics.v)
        by_tag = updates.tag_objective(S, A, self.Y, self.semantics, self.engine)
        state = MCDLState(D, S, A, by_tag)
        state.objective.append(self.objective(state))
        return state

    def _visual_start(self, k: int, rng: np.random.Generator) -> tuple[Floats, sparse.csr_array]:
        X = self.X
        start = self.X
        sphere = self.recipe.norm == "sphere"
        if self.recipe.init == "coupled":
            start = np.hstack([X, np.float32(np.sqrt(self.lam)) * self.Y.toarray()])
        D = k_means(start, k, rng, engine=self.engine)[:, : X.shape[1]]
        D = (updates.to_sphere if sphere else updates.to_ball)(D)
        A = self.codes.coder(D).encode(X, engine=self.engine).codes
        for _ in range(self.init_iter):
            D = updates.visual_step(D, X, A, None, rng, sphere=sphere, engine=self.engine)
            A = self.codes.coder(D).encode(X, start=A, engine=self.engine).codes
        return D, A

    def code(self, state: MCDLState, *, opening: bool) -> sparse.csr_array:
        """MCSC, from the codes of the iteration before."""
        encoded = coupled_encode(
            self.codes.coder(state.D, state.S),
            self.X,
            self.Y,
            state.A,
            loss=self.semantics.loss,
            label_weight=(self.lam / self.weights).astype(np.float32),
            passes=self.n_passes,
            opening=opening,
            drop=self.recipe.drop,
            engine=self.engine,
        )
        return encoded.codes

    def visual(self, state: MCDLState, rng: np.random.Generator) -> Floats:
        """One sweep over the visual prototypes."""
        sphere = self.recipe.norm == "sphere"
        return updates.visual_step(
            state.D, self.X, state.A, self.weights, rng, sphere=sphere, engine=self.engine
        )

    def semantic(
        self, state: MCDLState, rng: np.random.Generator, iteration: int
    ) -> updates.SemanticUpdate:
        """The convex problems of all tags, held near their start by a brake that grows."""
        rho = self.rho * np.sqrt(len(state.D)) * iteration
        return updates.semantic_step(
            state.S, state.A, self.Y, rng, self.semantics, rho=rho, engine=self.engine
        )

    def objective(self, state: MCDLState) -> tuple[float, ...]:
        """Every term of what is minimised, and their sum."""
        return updates.objective(
            self.X,
            self.Y,
            state.D,
            state.S,
            state.A,
            (self.weights / self.lam).astype(np.float32),
            self.semantics,
            self.engine,
        )

    def revive(self, state: MCDLState, how: str) -> tuple[Floats, Floats]:
        """D and S after what becomes of prototypes that no code uses."""
        return updates.handle_unused(state.D, state.S, self.X, state.A, how=how)
