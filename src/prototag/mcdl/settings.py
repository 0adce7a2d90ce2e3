"""What decides a fit, typed: how codes are made, how S is learned, and the points of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

from prototag.arrays import Floats
from prototag.coding.coder import Coder
from prototag.coding.losses import TagLoss


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
    """Where the paper and the authors' published code differ, point by point (docs/deviations.md).

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
            given, allowed = getattr(self, point.name), get_args(hints[point.name])
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
