"""Records that a library returns. A picture is identified by its number, which it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from prototag.images.exif import Capture
from prototag.metadata.sidecar import Change

# verdicts on a pair of picture and tag
ACCEPTED = "accepted"
REJECTED = "rejected"
CLEARED = "cleared"
# verdicts on a picture as a whole
COMPLETE = "complete"
INCOMPLETE = "incomplete"
VERDICTS = (ACCEPTED, REJECTED, CLEARED)


class Decision(NamedTuple):
    """A decision on a pair of picture and tag, or on a picture as a whole."""

    number: int  # rises with time
    picture: int
    tag: str | None  # None for the picture as a whole
    verdict: str  # one of VERDICTS, COMPLETE or INCOMPLETE
    at: float  # seconds since 1970
    by: str  # person or program: "person", "label-studio", ...
    batch: int  # decisions of one batch are undone together
    undone: bool = False


class Batch(NamedTuple):
    """Decisions that were made together, by one command or one step on a page."""

    number: int | None  # for undo and redo; None if nothing changed
    changed: int  # decisions that changed something


class BatchChange(NamedTuple):
    """Result of undoing or redoing a batch."""

    batch: int
    decisions: list[Decision]  # that were changed, the last first
    overridden: list[Decision]  # that were not, because a later decision overrides them


class Suggestion(NamedTuple):
    """A tag that a picture probably has and that nobody has decided on."""

    picture: int
    tag: str
    probability: float  # that the tag is correct
    model: int  # number of the model
    group: int = -1  # near-duplicate group; -1 for a picture without near-duplicates


class GeneralWord(NamedTuple):
    """A word of the general vocabulary that is suggested for pictures."""

    word: str
    pictures: int  # for which it is suggested and undecided


class SearchResult(NamedTuple):
    """Pictures that a search has found, in its order."""

    pictures: list[int]
    n_matches: int  # that meet all conditions; the others only look like the words


class ReviewCell(NamedTuple):
    """One pair of a review batch."""

    picture: int
    tag: str
    probability: float
    name: str  # of its file
    stack: list[int]  # the picture and its undecided near-duplicates


class ReviewBatch(NamedTuple):
    """A page of suggestions that is reviewed together."""

    cells: list[ReviewCell]
    threshold: float  # probability from which on a cell is preselected; at 1 none is
    is_ranked_only: bool  # by similarity, because no picture is known to lack the tag
    is_ranked_by_name: bool  # because no picture has the tag
    upcoming: list[int]  # pictures of the next batch, to load their thumbnails ahead


class TagView(NamedTuple):
    """One tag of the library."""

    name: str
    pictures: int  # that have it by files or decisions
    accepted: int  # of these by decisions
    rejected: int
    suggestions: int
    learned: bool  # whether the model ranks pictures for it better than chance
    pictures_needed: int  # further pictures that a full retrain needs to learn it; 0 for none
    precision: float | None  # cross-validated, of applied tags; None if it is not learned
    recall: float | None
    hidden: bool  # whether it is never suggested


class CurvePoint(NamedTuple):
    """Cross-validated performance of a tag when it had so many pictures."""

    examples: int  # pictures that had the tag
    precision: float | None  # of applied tags; None if the tag was never applied
    recall: float
    model: int  # number of the model that was trained or updated
    at: float  # seconds since 1970


@dataclass(frozen=True)
class PictureView:
    """One picture with its files, labels and suggestions."""

    number: int
    digest: str  # hexadecimal, of its pixels
    files: list[Path]  # existing ones first
    tags: list[str]  # by files or decisions
    accepted: list[str]  # of these by decisions
    rejected: list[str]
    suggestions: list[Suggestion]  # the most probable first
    complete: bool  # whether it lacks all other tags
    missing: bool  # whether none of its files exists any more
    capture: Capture  # when, with what and where it was taken


class Reason(NamedTuple):
    """A picture that contributes to a tag's score, with its share of the score."""

    picture: int
    share: float


class ModelView(NamedTuple):
    """One trained model of the library."""

    number: int
    trained_at: float  # seconds since 1970
    pictures: int  # in the training set
    tags: int
    f1: float  # out-of-fold
    decisions: int  # number of the last decision in the training set
    current: bool


class TrainingReport(NamedTuple):
    """Result of a full retrain or an incremental update."""

    model: ModelView
    full: bool  # whether all tags were trained
    tags: list[str]  # that an incremental update has changed


@dataclass(frozen=True)
class Status:
    """Counts and state of a library."""

    path: Path
    roots: list[Path]
    pictures: int
    missing: int  # pictures whose files are gone; kept until pruned
    unread: int  # pictures without vectors
    tagged: int  # pictures with a tag by files or decisions
    tags: int
    decisions: int  # that are not undone
    suggestions: int
    unwritten: int  # pictures with accepted tags that no sidecar has
    model: ModelView | None
    decisions_since_retrain: int
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ScanReport:
    """Result of scanning the folders."""

    new: int = 0
    moved: int = 0  # known pictures in new files
    changed: int = 0  # pictures whose pixels or tags have changed
    vanished: int = 0
    unreadable: int = 0
    total: int = 0
    problems: list[str] = field(default_factory=list)


class Incoming(NamedTuple):
    """Changes of the tags in the files of one picture."""

    picture: int
    tags: list[str]  # added in the files
    ruled_out: list[str]  # applied by ProtoTag and removed by a person
    gone: list[str]  # removed from the files


@dataclass(frozen=True)
class SyncPlan:
    """Changes that a sync would make; false if there are none."""

    incoming: list[Incoming] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)  # removed from the files
    restored: list[tuple[int, str]] = field(default_factory=list)  # and added there again since
    outgoing: list[Change] = field(default_factory=list)  # sidecars and pictures to write
    kept: list[tuple[int, str]] = field(default_factory=list)  # in files, but rejected here
    problems: list[str] = field(default_factory=list)
    scan: Any = field(default=None, repr=False, compare=False)  # ScanResult of the plan

    def __bool__(self) -> bool:
        return bool(self.incoming or self.rejected or self.restored or self.outgoing)


@dataclass(frozen=True)
class SyncReport:
    """Result of a sync."""

    incoming: int = 0  # pictures whose tags in files have changed
    rejected: int = 0  # tags that were removed from the files
    restored: int = 0
    written: int = 0  # sidecars and pictures
    added: int = 0  # tags in them
    removed: int = 0
    left: int = 0  # files that were not written, because the sync was stopped
    write: int | None = None  # number of the write, for undoing it; None if nothing was written
    problems: list[str] = field(default_factory=list)
