"""Algorithm 1 of the paper: marginalized coupled dictionary learning.

It minimizes over visual prototypes D, semantic prototypes S and codes A

    sum_i [ (p_i / lam) ||x_i - a_i D||^2 + sum_c loss(y_ic, a_i S[:, c]) ] + beta1 sum |S|

by alternating three steps, none of which raises the objective.
"""

from __future__ import annotations

from collections.abc import Callable
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
# Visual initializations (D, A), by everything that determines them.
VisualStarts = dict[tuple[object, ...], tuple[Floats, sparse.csr_array]]


@dataclass
class MCDLState:
    """The variables of Algorithm 1 and the history of its objective."""

    D: Floats  # k x m, visual prototypes
    S: Floats  # k x t, semantic prototypes
    A: sparse.csr_array  # n x k, codes
    tag_objective: Doubles  # t, loss and sparsity of each tag after the last semantic update
    objective: list[tuple[float, ...]] = field(default_factory=list)  # terms after each iteration


def run_iterations(
    problem: Problem,
    state: MCDLState,
    *,
    seed: int,
    max_iter: int,
    after_iteration: Callable[[MCDLState], None],
) -> MCDLState:
    """Run the iterations of Algorithm 1 that ``state`` has not completed yet.

    Each iteration has a random stream of its own, so a resumed fit is bit-identical.
    """
    for iteration in range(len(state.objective), max_iter + 1):
        rng = np.random.default_rng([seed, iteration])
        state.D, state.S = problem.handle_unused(state, problem.recipe.unused)
        state.A = problem.update_codes(state, all_violated=iteration == 1)  # MCSC
        state.D = problem.update_visual(state, rng)
        state.S, state.tag_objective = problem.update_semantic(state, rng, iteration)
        state.objective.append(problem.objective(state))
        after_iteration(state)
    return state


@dataclass(frozen=True, eq=False)
class Problem:
    """The data and the hyperparameters of one fit, and the steps of Algorithm 1 on them."""

    X: Floats  # n x m, rows of unit length
    Y: sparse.csr_array  # n x t, 0/1
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
                f"{self.lam:.0e}, which float32 codes cannot represent: give eta between 1e-10 "
                "and 1e10."
            )

    @property
    def lam(self) -> float:
        """``eta^2 / t``."""
        return float(self.eta) ** 2 / self.Y.shape[1]

    @property
    def weights(self) -> Floats:
        """p_i, the number of tags of each image, at least 1."""
        if self.recipe.image_weight == "uniform":
            return np.ones(len(self.X), np.float32)
        return np.maximum(np.diff(self.Y.indptr), 1).astype(np.float32)

    def initialise(self, k: int, seed: int, starts: VisualStarts) -> MCDLState:
        """Initialize D and A by k-means and visual alternations, then S from A.

        ``starts`` caches D and A for other problems with the same images.
        """
        recipe = self.recipe
        coupled = self.lam if recipe.init == "coupled" else None
        key = (k, seed, recipe.norm, recipe.init, self.init_iter, coupled, self.codes)
        if key not in starts:
            starts[key] = self._initialise_visual(k, np.random.default_rng([seed, 0]))
        D, A = starts[key]
        loss = self.semantics.loss
        positive = max(1.0, loss.present) if recipe.init_positive == "margin" else 1.0
        S = updates.initial_semantics(A, self.Y, positive=positive, v=self.semantics.v)
        by_tag = updates.tag_objective(S, A, self.Y, self.semantics, self.engine)
        state = MCDLState(D, S, A, by_tag)
        state.objective.append(self.objective(state))
        return state

    def _initialise_visual(
        self, k: int, rng: np.random.Generator
    ) -> tuple[Floats, sparse.csr_array]:
        X = self.X
        clustered = self.X
        sphere = self.recipe.norm == "sphere"
        if self.recipe.init == "coupled":
            clustered = np.hstack([X, np.float32(np.sqrt(self.lam)) * self.Y.toarray()])
        D = k_means(clustered, k, rng, engine=self.engine)[:, : X.shape[1]]
        D = (updates.to_sphere if sphere else updates.to_ball)(D)
        A = self.codes.coder(D).encode(X, engine=self.engine).codes
        for _ in range(self.init_iter):
            D = updates.visual_update(D, X, A, None, rng, sphere=sphere, engine=self.engine)
            A = self.codes.coder(D).encode(X, start=A, engine=self.engine).codes
        return D, A

    def update_codes(self, state: MCDLState, *, all_violated: bool) -> sparse.csr_array:
        """Update A by marginalized coupled sparse coding (MCSC), starting from the current A."""
        encoded = coupled_encode(
            self.codes.coder(state.D, state.S),
            self.X,
            self.Y,
            state.A,
            loss=self.semantics.loss,
            label_weight=(self.lam / self.weights).astype(np.float32),
            passes=self.n_passes,
            all_violated=all_violated,
            drop=self.recipe.drop,
            engine=self.engine,
        )
        return encoded.codes

    def update_visual(self, state: MCDLState, rng: np.random.Generator) -> Floats:
        """Update D by one sweep of block coordinate descent."""
        sphere = self.recipe.norm == "sphere"
        return updates.visual_update(
            state.D, self.X, state.A, self.weights, rng, sphere=sphere, engine=self.engine
        )

    def update_semantic(
        self, state: MCDLState, rng: np.random.Generator, iteration: int
    ) -> updates.SemanticUpdate:
        """Update S by proximal coordinate descent; the proximal weight grows with the iteration."""
        rho = self.rho * np.sqrt(len(state.D)) * iteration
        return updates.semantic_update(
            state.S, state.A, self.Y, rng, self.semantics, rho=rho, engine=self.engine
        )

    def objective(self, state: MCDLState) -> tuple[float, ...]:
        """Compute the terms of the objective and their sum, as named in ``OBJECTIVE``."""
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

    def handle_unused(self, state: MCDLState, how: str) -> tuple[Floats, Floats]:
        """Return D and S after treating the prototypes that no code uses."""
        return updates.handle_unused(state.D, state.S, self.X, state.A, how=how)
