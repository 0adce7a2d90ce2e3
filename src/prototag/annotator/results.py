"""What an annotator answers: tags with their probabilities, reasons, similar pictures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.features.extractor import Skipped

Floats = npt.NDArray[np.float32]


class Tag(NamedTuple):
    """One tag of one picture."""

    name: str
    probability: float  # of being right, by left-out training pictures
    score: float


@dataclass(frozen=True)
class Annotation:
    """What became of one picture: its tags, the likeliest first, or why there are none."""

    source: Any
    tags: list[Tag]
    error: str | None = None

    @property
    def names(self) -> list[str]:
        return [tag.name for tag in self.tags]


class TrainingPicture(NamedTuple):
    """A picture that the model learned from."""

    name: str
    tags: list[str]  # as the person gave them
    thumbnail: bytes = b""  # WebP; empty where the model keeps none


class Reason(NamedTuple):
    """A training picture behind a tag's score, and what it adds to it."""

    share: float  # below 0: what it takes away
    picture: TrainingPicture


class ExplainedTag(NamedTuple):
    """A tag's score as ``sum of shares + rest``; the rest is what all others give together."""

    tag: Tag
    threshold: float
    reasons: list[Reason]  # largest share first
    rest: float


class Neighbour(NamedTuple):
    """A training picture like another one."""

    likeness: float  # 1 for the same picture
    picture: TrainingPicture


class Prototype(NamedTuple):
    """A training picture that others are coded with."""

    picture: TrainingPicture
    weights: list[tuple[str, float]]  # the tags that it speaks for, the strongest first
    used: int  # how many pictures have it in their code


@dataclass(frozen=True)
class Learned:
    """What a fit took in, and what it left out."""

    pictures: int
    tags: int
    too_rare: dict[str, int] = field(default_factory=dict)  # tags with too few pictures
    untagged: int = 0  # pictures without a tag that could be learned
    skipped: list[Skipped] = field(default_factory=list)  # pictures that cannot be read


class Limits(NamedTuple):
    """Which tags to give."""

    allowed: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.float64] | None  # to exceed
    probability: float | None  # to reach
    top: int | None

    def choose(self, scores: Floats, probability: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """Numbers of the tags of one picture."""
        given = self.allowed.copy()
        if self.scores is not None:
            given &= scores > self.scores
        if self.probability is not None:
            given &= probability >= self.probability
        found = np.flatnonzero(given)
        if self.top is not None:
            found = found[np.argsort(-scores[found], kind="stable")[: self.top]]
        return found
