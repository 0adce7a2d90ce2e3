"""Settings of a fit: tag loss, sparse coding, semantic update, and the paper's recipes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, NamedTuple, get_args, get_type_hints

import numpy as np

from prototag.arrays import Array, Floats
from prototag.coding.coder import Coder


class TagLoss(NamedTuple):
    """Squared distance of scores to targets; with ``hinge`` zero beyond the target.

    The squared hinge of the method, ``max(0, C - (2 y - 1)(s - tau))^2``, has the targets
    ``tau + C`` for a tag that is present and ``tau - C`` for one that is absent.
    """

    present: float
    absent: float
    hinge: bool

    def unmet(self, Y: Array, scores: Array) -> Array:
        """Return a mask of the entries with a non-zero gradient."""
        if not self.hinge:
            return np.ones(scores.shape, bool)
        return np.where(Y, scores < self.present, scores > self.absent)

    def goals(self, Y: Array) -> Array:
        """Return the targets of all entries, as if every margin were violated."""
        return np.where(Y, np.float32(self.present), np.float32(self.absent))

    def targets(self, Y: Array, scores: Array) -> Array:
        """Return working targets: the goal if the margin is violated, otherwise the score itself.

        ``(target - s)^2`` majorizes the loss and equals it at ``scores`` (Lemma 1).
        """
        return np.where(self.unmet(Y, scores), self.goals(Y), scores)

    def value(self, Y: Array, scores: Array) -> Array:
        """Compute the loss of each image, summed over its tags in float64."""
        gap = np.where(self.unmet(Y, scores), scores - self.goals(Y), np.float32(0))
        return np.asarray(np.einsum("ij,ij->i", gap, gap, dtype=np.float64))


def squared_hinge(margin: float, tau: float) -> TagLoss:
    """Create the loss of MCDL; ``margin`` is C."""
    return TagLoss(tau + margin, tau - margin, hinge=True)


def squared() -> TagLoss:
    """Create the loss of CDL, the squared error."""
    return TagLoss(1.0, 0.0, hinge=False)


@dataclass(frozen=True)
class CodeSettings:
    """Settings of sparse coding."""

    beta0: float = 1.0  # upper bound of the sum of a code
    max_nonzeros: int = 20

    def coder(self, D: Floats, S: Floats | None = None) -> Coder:
        """Create a coder over visual prototypes; with semantic ones, for coupled coding."""
        return Coder(D, S, budget=self.beta0, max_nonzeros=self.max_nonzeros)


@dataclass(frozen=True)
class SemanticSettings:
    """Settings of the semantic update."""

    loss: TagLoss
    beta1: float  # sparsity of S
    v: float  # upper bound of the entries of S
    sweeps: int = 1
    rescale: bool = False  # end with a line search over a factor of each tag


@dataclass(frozen=True)
class Recipe:
    """Choices in which paper and published code differ (docs/method/deviations.md).

    Attributes
    ----------
    tau_share : float
        The center of the margin is ``0.25 + tau_share * C``, unless ``tau`` is given.
    image_weight : {"tags", "uniform"}
        Whether the visual term of an image is weighted by its number of tags p_i.
    norm : {"ball", "sphere"}
        Whether visual prototypes have at most, or exactly, unit length.
    init : {"visual", "coupled"}
        k-means on ``x`` or on ``[x, sqrt(lam) y]``.
    init_positive : {"one", "margin"}
        Target score of present tags in the initialization of S: 1, or ``max(1, tau + C)``.
    drop : float
        Entries of a coupled code up to this size are removed.
    rescale : bool
        End each semantic update with a line search over a factor of each tag.
    unused : {"leave", "zero", "reseed"}
        Treatment of prototypes that no code uses: none; semantics set to zero; or moved to the
        image with the largest reconstruction error before the next iteration (and set to zero if
        still unused at the end).
    """

    tau_share: float = 0.5
    image_weight: Literal["tags", "uniform"] = "tags"
    norm: Literal["ball", "sphere"] = "ball"
    init: Literal["visual", "coupled"] = "visual"
    init_positive: Literal["one", "margin"] = "one"
    drop: float = 0.0
    rescale: bool = False
    unused: Literal["leave", "zero", "reseed"] = "leave"

    def __post_init__(self) -> None:
        hints = get_type_hints(Recipe)
        for choice in fields(self):
            value = getattr(self, choice.name)
            allowed = get_args(hints[choice.name])
            if allowed and value not in allowed:
                raise ValueError(f"{choice.name}={value!r}: give one of {', '.join(allowed)}.")
        if not self.drop >= 0:
            raise ValueError(f"drop={self.drop!r}: give 0 or a positive number.")


RECIPES = {
    "paper": Recipe(),
    "published": Recipe(
        tau_share=1.0,
        image_weight="uniform",
        norm="sphere",
        init="coupled",
        init_positive="margin",
        drop=0.001,
        rescale=True,
        unused="zero",
    ),
}
