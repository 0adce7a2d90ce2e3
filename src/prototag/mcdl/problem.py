"""The problem that a fit solves: its terms, its start, and the steps that lower it.

sum_i [ (p_i / lam) ||x_i - a_i D||^2 + sum_c loss(y_ic, a_i S[:, c]) ] + beta1 sum |S|
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.coding import coder as coding
from prototag.coding import losses
from prototag.engine import threads
from prototag.mcdl import steps

Floats = npt.NDArray[np.float32]
OBJECTIVE = np.dtype([(name, np.float64) for name in ("visual", "loss", "sparsity", "total")])


@dataclass
class State:
    """What an iteration changes."""

    D: Floats  # k x m, visual prototypes
    S: Floats  # k x t, semantic prototypes
    A: sparse.csr_array  # n x k, codes
    objective: list[tuple[float, ...]]  # the terms after each iteration


class Problem:
    """One collection under one recipe (the parameters of :class:`prototag.MCDL`)."""

    def __init__(self, recipe: Any, X: Floats, Y: sparse.csr_array) -> None:
        self.recipe, self.X, self.Y = recipe, X, Y
        self.lam = float(recipe.eta) ** 2 / Y.shape[1]
        if not 1e-30 < self.lam < 1e30:
            raise ValueError(
                f"eta={recipe.eta} weighs {Y.shape[1]} tags by lam = eta^2 / t = {self.lam:.0e}, "
                "beyond what float32 codes can tell: give eta between 1e-10 and 1e10."
            )
        # p_i, the number of tags of each image; an image without tags counts as one with one.
        self.weights: Floats = np.maximum(np.diff(Y.indptr), 1).astype(np.float32)
        if recipe.image_weight == "uniform":
            self.weights = np.ones(len(X), np.float32)
        self.loss = loss_of(recipe)
        self.sphere = recipe.norm == "sphere"

    def initialise(self, k: int, seed: int, starts: dict[Any, Any]) -> State:
        """k-means, visual alternations, and the semantics of the codes found.

        ``starts`` keeps the visual part for recipes that share it.
        """
        recipe, Y = self.recipe, self.Y
        coupled = self.lam if recipe.init == "coupled" else None
        codes = (recipe.budget, recipe.max_nonzeros, recipe.exact)
        key = (k, seed, recipe.norm, recipe.init, recipe.init_iter, coupled, *codes)
        if key not in starts:
            starts[key] = self._visual_start(k, np.random.default_rng([seed, 0]))
        D, A = starts[key]
        loss = self.loss
        positive = max(1.0, loss.present) if self.recipe.init_positive == "margin" else 1.0
        S = steps.initial_semantics(A, Y, positive=positive, most=self.recipe.most)
        state = State(D, S, A, [])
        state.objective.append(self.objective(state))
        return state

    def _visual_start(self, k: int, rng: np.random.Generator) -> tuple[Floats, sparse.csr_array]:
        X, Y, start = self.X, self.Y, self.X
        if self.recipe.init == "coupled":
            start = np.hstack([X, np.float32(np.sqrt(self.lam)) * Y.toarray()])
        D = steps.k_means(start, k, rng, n_jobs=self.recipe.n_jobs)[:, : X.shape[1]]
        D = (steps.to_sphere if self.sphere else steps.to_ball)(D)
        A = coder_of(self.recipe, D).encode(X, n_jobs=self.recipe.n_jobs).codes
        for _ in range(self.recipe.init_iter):
            D = steps.visual_step(D, X, A, None, rng, sphere=self.sphere)
            A = coder_of(self.recipe, D).encode(X, start=A, n_jobs=self.recipe.n_jobs).codes
        return D, A

    def code(self, state: State, *, opening: bool) -> sparse.csr_array:
        """MCSC, from the codes of the iteration before."""
        encoded = coding.coupled_encode(
            coder_of(self.recipe, state.D, state.S),
            self.X,
            self.Y,
            state.A,
            loss=self.loss,
            label_weight=(self.lam / self.weights).astype(np.float32),
            passes=self.recipe.n_passes,
            opening=opening,
            drop=self.recipe.drop,
            n_jobs=self.recipe.n_jobs,
        )
        return encoded.codes

    def visual(self, state: State, rng: np.random.Generator) -> Floats:
        """One sweep over the visual prototypes."""
        return steps.visual_step(state.D, self.X, state.A, self.weights, rng, sphere=self.sphere)

    def semantic(self, state: State, rng: np.random.Generator, iteration: int) -> Floats:
        """The convex problems of all tags, held near their start by rho."""
        rho = 0.1 if self.recipe.rho == "auto" else self.recipe.rho or 0.0
        rho = rho * np.sqrt(len(state.D)) * (iteration if self.recipe.rho_growth else 1)
        return steps.semantic_step(
            state.S,
            state.A,
            self.Y,
            rng,
            loss=self.loss,
            beta1=self.recipe.beta1,
            rho=rho,
            most=self.recipe.most,
            sweeps=self.recipe.n_sweeps,
            rescale=self.recipe.rescale,
            n_jobs=self.recipe.n_jobs,
        )

    def objective(self, state: State) -> tuple[float, ...]:
        """Every term of what is minimised, and their sum."""
        X, Y, loss, weight = self.X, self.Y, self.loss, self.weights / self.lam

        def block(part: slice) -> tuple[float, float]:
            visual = X[part] - state.A[part] @ state.D
            squared = np.einsum("ij,ij->i", visual, visual, dtype=np.float64)
            value = loss.value(Y[part].toarray() > 0, state.A[part] @ state.S)
            return float(weight[part] @ squared), float(value.sum())

        parts = threads.map_blocks(block, len(X), size=coding.BLOCK, n_jobs=self.recipe.n_jobs)
        visual, loss_value = (float(sum(part[i] for part in parts)) for i in (0, 1))
        sparsity = float(self.recipe.beta1 * state.S.sum(dtype=np.float64))
        return visual, loss_value, sparsity, visual + loss_value + sparsity

    def revive(self, state: State, how: str) -> tuple[Floats, Floats]:
        """D and S after what becomes of prototypes that no code uses."""
        return steps.revive(state.D, state.S, self.X, state.A, how=how)


def loss_of(recipe: Any) -> losses.TagLoss:
    """The loss of a recipe."""
    if recipe.loss == "squared":
        return losses.squared()
    tau = 0.25 + recipe.margin / 2 if recipe.tau is None else recipe.tau
    return losses.squared_hinge(recipe.margin, tau)


def coder_of(recipe: Any, D: Floats, S: Floats | None = None) -> coding.Coder:
    """The coder of a recipe over prototypes."""
    return coding.Coder(
        D,
        S,
        budget=recipe.budget,
        max_nonzeros=recipe.max_nonzeros,
        exact=recipe.exact,
        gram=recipe.gram,
    )
