"""What decides a fit, typed: the loss, how codes are made, how S is learned, a recipe."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, NamedTuple, get_args, get_type_hints

import numpy as np

from prototag.arrays import Array, Floats
from prototag.coding.coder import Coder


class TagLoss(NamedTuple):
    """Squared distance to a target, on both sides or (``hinge``) on the wrong side alone.

    The squared hinge of the method, ``max(0, C - (2 y - 1)(s - tau))^2``, has the targets
    ``tau + C`` for a tag that is present and ``tau - C`` for one that is absent.
    """

    present: float
    absent: float
    hinge: bool

    def unmet(self, Y: Array, scores: Array) -> Array:
        """Where something is paid."""
        if not self.hinge:
            return np.ones(scores.shape, bool)
        return np.where(Y, scores < self.present, scores > self.absent)

    def goals(self, Y: Array) -> Array:
        """The targets of all entries, as if every margin were violated."""
        return np.where(Y, np.float32(self.present), np.float32(self.absent))

    def targets(self, Y: Array, scores: Array) -> Array:
        """Working targets: the goal where the margin is violated, the score itself elsewhere.

        ``(target - s)^2`` equals the loss at ``scores`` and is nowhere below it (Lemma 1).
        """
        return np.where(self.unmet(Y, scores), self.goals(Y), scores)

    def value(self, Y: Array, scores: Array) -> Array:
        """The loss of each image, summed over its tags in float64."""
        gap = np.where(self.unmet(Y, scores), scores - self.goals(Y), np.float32(0))
        return np.asarray(np.einsum("ij,ij->i", gap, gap, dtype=np.float64))


def squared_hinge(margin: float, tau: float) -> TagLoss:
    """The loss of MCDL; ``margin`` is C."""
    return TagLoss(tau + margin, tau - margin, hinge=True)


def squared() -> TagLoss:
    """The loss of CDL: scores should equal the tags."""
    return TagLoss(1.0, 0.0, hinge=False)


@dataclass(frozen=True)
class CodeSettings:
    """How images are coded."""

    beta0: float = 1.0  # the largest sum of a code
    max_nonzeros: int = 20

    def coder(self, D: Floats, S: Floats | None = None) -> Coder:
        """A coder over visual prototypes, and over semantic ones for coupled coding."""
        return Coder(D, S, budget=self.beta0, max_nonzeros=self.max_nonzeros)


@dataclass(frozen=True)
class SemanticSettings:
    """How semantic prototypes are learned from codes and tags."""

    loss: TagLoss
    beta1: float  # sparsity of S
    v: float  # the largest entry of S
    sweeps: int = 1
    rescale: bool = False  # end with the best factor for every tag


@dataclass(frozen=True)
class Recipe:
    """Where the paper and the authors' published code differ: docs/method/deviations.md.

    Attributes
    ----------
    tau_share : float
        The centre of the margin is ``0.25 + tau_share * C``, unless ``tau`` is given.
    image_weight : {"tags", "uniform"}
        Whether the visual term of an image is weighted by its number of tags p_i.
    norm : {"ball", "sphere"}
        Whether visual prototypes have at most, or exactly, unit length.
    init : {"visual", "coupled"}
        k-means on ``x`` or on ``[x, sqrt(lam) y]``.
    init_positive : {"one", "margin"}
        Score that present tags aim at when S is initialised: 1, or ``max(1, tau + C)``.
    drop : float
        Entries of a coupled code up to this size are left out.
    rescale : bool
        End each semantic update with the best factor for every tag.
    unused : {"leave", "zero", "reseed"}
        What becomes of a prototype that no code uses: nothing, its semantics set to zero, or moved
        to the worst-fitted image before the next iteration (and set to zero if it is unused in the
        end).
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
        for point in fields(self):
            given = getattr(self, point.name)
            allowed = get_args(hints[point.name])
            if allowed and given not in allowed:
                raise ValueError(f"{point.name}={given!r}: give one of {', '.join(allowed)}.")
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
