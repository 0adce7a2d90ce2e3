"""Result types of an annotator: annotations, explanations and similar pictures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Tag(NamedTuple):
    """One tag of one picture."""

    name: str
    probability: float  # of being correct, calibrated on held-out training pictures
    score: float


@dataclass(frozen=True)
class Annotation:
    """Tags of one picture, most probable first, or the reason why it could not be read."""

    source: Any  # as passed by the caller
    tags: list[Tag]  # applied tags
    error: str | None = None
    suggestions: list[Tag] = field(default_factory=list)  # probable, but below the threshold
    in_training_set: bool = False  # whether the model was trained on this picture

    @property
    def names(self) -> list[str]:
        """Names of the applied tags."""
        return [tag.name for tag in self.tags]


class TrainingPicture(NamedTuple):
    """A picture of the training set."""

    name: str
    tags: list[str]  # its labels
    thumbnail: bytes = b""  # WebP; empty if the model keeps none


class Reason(NamedTuple):
    """A training picture and its contribution to a tag's score."""

    share: float  # negative if it lowers the score
    picture: TrainingPicture


class ExplainedTag(NamedTuple):
    """A tag whose score is the sum of the shares of its reasons and of a rest."""

    tag: Tag
    threshold: float
    reasons: list[Reason]  # largest share first
    rest: float  # contribution of all other training pictures and of the constants


class Neighbour(NamedTuple):
    """A training picture that resembles another picture."""

    similarity: float  # cosine, or weight in the code; at most 1
    picture: TrainingPicture


class Prototype(NamedTuple):
    """A training picture that serves as a prototype in the codes of others."""

    picture: TrainingPicture
    weights: list[tuple[str, float]]  # its strongest tags with their weights, descending
    n_uses: int  # pictures whose code contains it


class TrainingSummary(NamedTuple):
    """Size of a training set, and what was excluded from it."""

    pictures: int
    tags: int
    too_rare: dict[str, int]  # excluded tags with their numbers of pictures
    untagged: int  # pictures excluded because they have no tag
    unreadable: int  # pictures that could not be read
