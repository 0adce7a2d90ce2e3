"""The loss between tags and scores: its value, and the working targets that majorise it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


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
