"""Result types of an annotator: annotations, explanations and similar pictures.

Every type has ``to_dict``, which returns JSON values: the same as ``--json`` of the command line
and the HTTP service. In a notebook, annotations, explanations and similar pictures are displayed
with thumbnails (:mod:`prototag.annotator.notebook`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

MAX_REASONS_IN_REPR = 3


class Tag(NamedTuple):
    """One tag of one picture."""

    name: str
    probability: float  # of being correct, calibrated on held-out training pictures
    score: float
    source: Literal["model", "rule"] = "model"  # a rule is about pixels or metadata

    def to_dict(self) -> dict[str, Any]:
        """Return name, probability and score as JSON values; ``source`` if it is a rule."""
        values: dict[str, Any] = {
            "tag": self.name,
            "probability": round(self.probability, 4),
            "score": round(self.score, 5),
        }
        return values if self.source == "model" else {**values, "source": self.source}

    def __str__(self) -> str:
        return f"{self.name} {self.probability:.0%}"


@dataclass(frozen=True)
class Annotation:
    """Tags of one picture, most probable first, or the reason why it could not be read.

    ``tags`` are applied: cross-validation shows that enough of them are right. ``estimates`` are
    more likely right than wrong by their calibrated probability, without that guarantee.
    """

    source: Any  # as passed by the caller
    tags: list[Tag]  # applied tags
    error: str | None = None
    estimates: list[Tag] = field(default_factory=list)  # more likely right than wrong
    suggestions: list[Tag] = field(default_factory=list)  # less likely, to confirm or reject
    in_training_set: bool = False  # whether the model was trained on this picture

    @property
    def names(self) -> list[str]:
        """Names of the applied tags."""
        return [tag.name for tag in self.tags]

    def to_dict(self) -> dict[str, Any]:
        """Return the annotation as JSON values; ``path`` is missing for a picture in memory."""
        path = path_of(self.source)
        named = {} if path is None else {"path": path}
        if self.error is not None:
            return {**named, "error": self.error}
        return {
            **named,
            "tags": [tag.to_dict() for tag in self.tags],
            "estimates": [tag.to_dict() for tag in self.estimates],
            "suggestions": [tag.to_dict() for tag in self.suggestions],
            "in_training_set": self.in_training_set,
        }

    def __repr__(self) -> str:
        shown = [described(self.source)]
        if self.error is not None:
            shown.append(f"error={self.error!r}")
        else:
            shown.append(f"tags=[{_listed(self.tags)}]")
        if self.estimates:
            shown.append(f"estimates=[{_listed(self.estimates)}]")
        if self.suggestions:
            shown.append(f"suggestions=[{_listed(self.suggestions)}]")
        if self.in_training_set:
            shown.append("in_training_set=True")
        return f"Annotation({', '.join(shown)})"

    def _repr_html_(self) -> str:
        from prototag.annotator import notebook

        return notebook.annotation(self)


class TrainingPicture(NamedTuple):
    """A picture of the training set."""

    name: str
    tags: list[str]  # its labels
    thumbnail: bytes = b""  # WebP; empty if the model keeps none

    def to_dict(self) -> dict[str, Any]:
        """Return name and tags; JSON has no place for the thumbnail."""
        return {"name": self.name, "tags": self.tags}

    def __repr__(self) -> str:
        return f"TrainingPicture(name={self.name!r}, tags={self.tags})"


class Reason(NamedTuple):
    """A training picture and its contribution to a tag's score."""

    share: float  # negative if it lowers the score
    picture: TrainingPicture

    def to_dict(self) -> dict[str, Any]:
        """Return the contribution with name and tags of the picture."""
        return {"share": round(self.share, 5), **self.picture.to_dict()}


class Concept(NamedTuple):
    """A public concept whose score of the picture contributes to a tag by the tag's name."""

    name: str
    score: float  # of the picture, in standard deviations above the mean photograph
    similarity: float  # of the words, 0 to 1

    @property
    def contribution(self) -> float:
        """Score, weighted by the similarity of the words."""
        return self.score * self.similarity

    def to_dict(self) -> dict[str, Any]:
        """Return name, score and similarity as JSON values."""
        return {
            "concept": self.name,
            "score": round(self.score, 4),
            "similarity": round(self.similarity, 4),
        }

    def __str__(self) -> str:
        return f"{self.name} {self.contribution:.2f}"


class ExplainedTag(NamedTuple):
    """A tag whose score is the sum of the shares of its reasons and of a rest."""

    tag: Tag
    threshold: float
    reasons: list[Reason]  # largest share first
    rest: float  # contribution of all other training pictures, of the name and of the constants
    concepts: tuple[Concept, ...] = ()  # that speak for the tag by its name, strongest first

    def to_dict(self) -> dict[str, Any]:
        """Return the tag with threshold, reasons and rest as JSON values."""
        return {
            **self.tag.to_dict(),
            "threshold": round(self.threshold, 5),
            "reasons": [reason.to_dict() for reason in self.reasons],
            "rest": round(self.rest, 5),
            "concepts": [concept.to_dict() for concept in self.concepts],
        }

    def __repr__(self) -> str:
        strongest = self.reasons[:MAX_REASONS_IN_REPR]
        reasons = ", ".join(f"{reason.share:.3f} {reason.picture.name!r}" for reason in strongest)
        more = ", ..." * (len(self.reasons) > len(strongest))
        return (
            f"ExplainedTag({_listed([self.tag])}, score={self.tag.score:.3f}, "
            f"reasons=[{reasons}{more}], rest={self.rest:.3f})"
        )

    def _repr_html_(self) -> str:
        from prototag.annotator import notebook

        return notebook.explained_tag(self)


class Explanation(list[ExplainedTag]):
    """Explained tags of one picture, most probable first: a list with a display in notebooks."""

    def __init__(self, tags: Iterable[ExplainedTag] = (), source: Any = None) -> None:
        super().__init__(tags)
        self.source = source  # as passed by the caller; None if only its vector is known

    def to_dict(self) -> dict[str, Any]:
        """Return the explained tags as JSON values."""
        path = path_of(self.source)
        return {
            **({} if path is None else {"path": path}),
            "tags": [explained.to_dict() for explained in self],
        }

    def _repr_html_(self) -> str:
        from prototag.annotator import notebook

        return notebook.explanation(self)


class Neighbour(NamedTuple):
    """A training picture that resembles another picture."""

    similarity: float  # cosine, or weight in the code; at most 1
    picture: TrainingPicture

    def to_dict(self) -> dict[str, Any]:
        """Return the similarity with name and tags of the picture."""
        return {"similarity": round(self.similarity, 4), **self.picture.to_dict()}

    def _repr_html_(self) -> str:
        from prototag.annotator import notebook

        return notebook.neighbours([self])


class Neighbours(list[Neighbour]):
    """Similar training pictures, nearest first: a list with a display in notebooks."""

    def to_dict(self) -> dict[str, Any]:
        """Return the similar pictures as JSON values."""
        return {"similar": [neighbour.to_dict() for neighbour in self]}

    def _repr_html_(self) -> str:
        from prototag.annotator import notebook

        return notebook.neighbours(self)


class Prototype(NamedTuple):
    """A training picture that serves as a prototype in the codes of others."""

    picture: TrainingPicture
    weights: list[tuple[str, float]]  # its strongest tags with their weights, descending
    n_uses: int  # pictures whose code contains it

    def to_dict(self) -> dict[str, Any]:
        """Return name and tags of the picture, its strongest tag weights, and its uses."""
        weights = {name: round(weight, 5) for name, weight in self.weights}
        return {**self.picture.to_dict(), "weights": weights, "uses": self.n_uses}


class TagEstimate(NamedTuple):
    """Cross-validated performance of one tag on new pictures."""

    name: str
    pictures: int  # of the training set that have the tag
    learnable: bool  # whether its AUC is above chance: other tags are never applied
    precision: float | None  # at the default threshold; None if the tag is never applied
    recall: float  # at the default threshold
    auc: float  # area under the ROC curve

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "tag": self.name,
            "pictures": self.pictures,
            "learned": self.learnable,
            "precision": None if self.precision is None else round(self.precision, 4),
            "recall": round(self.recall, 4),
            "auc": round(self.auc, 4),
        }


class Estimate(NamedTuple):
    """Cross-validated performance on new pictures, at one threshold on the probability."""

    threshold: float  # probability from which on tags are applied; infinity if none is
    precision: float  # expected share of the applied tags that are correct; 0 if none is applied
    precision_at_least: float  # lower end of the one-sided 90% Wilson interval
    tags: list[TagEstimate]  # at the default threshold

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values; an infinite threshold is None."""
        return {
            "threshold": round(self.threshold, 6) if self.threshold <= 1 else None,
            "precision": round(self.precision, 4),
            "precision_at_least": round(self.precision_at_least, 4),
            "tags": [tag.to_dict() for tag in self.tags],
        }


class TrainingSummary(NamedTuple):
    """Size of a training set, and what was excluded from it."""

    pictures: int
    tags: int
    too_rare: dict[str, int]  # excluded tags with their numbers of pictures
    untagged: int  # pictures excluded because they have no tag
    unreadable: int  # pictures that could not be read

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {**self._asdict(), "too_rare": dict(self.too_rare)}


def path_of(source: Any) -> str | None:
    """Return the path of a source; None for a picture in memory."""
    return os.fsdecode(source) if isinstance(source, str | os.PathLike) else None


def described(source: Any) -> str:
    """Describe a source in a few words, also one of many bytes."""
    path = path_of(source)
    if path is not None:
        return repr(path)
    if isinstance(source, bytes):
        return f"<{len(source):,} bytes>"
    size = getattr(source, "shape", None) or getattr(source, "size", None)
    kind = type(source).__name__
    return f"<{kind} {' x '.join(map(str, size))}>" if isinstance(size, tuple) else f"<{kind}>"


def _listed(tags: Iterable[Tag]) -> str:
    return ", ".join(f"{tag.name!r} {tag.probability:.0%}" for tag in tags)
