"""What an annotator answers: tags with their probabilities, reasons, similar pictures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Tag(NamedTuple):
    """One tag of one picture."""

    name: str
    probability: float  # of being right, by left-out training pictures
    score: float


@dataclass(frozen=True)
class Annotation:
    """What became of one picture: its tags, the likeliest first, or why there are none."""

    source: Any  # as it was given
    tags: list[Tag]
    error: str | None = None
    suggestions: list[Tag] = field(default_factory=list)  # likely, but not likely enough to give
    learned: bool = False  # whether the model learned from this very picture

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


class Learned(NamedTuple):
    """What was learned from, and what was left out."""

    pictures: int
    tags: int
    too_rare: dict[str, int]  # tags with too few pictures, and how many they have
    untagged: int  # pictures left out because they have no tag
    unreadable: int  # pictures that could not be read
