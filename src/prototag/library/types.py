"""What a library answers. A picture is known by its number, which it keeps wherever it lies."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from prototag.metadata.sidecar import Change

# what can be decided of a pair
ACCEPTED = "accepted"
REJECTED = "rejected"
CLEARED = "cleared"
# what can be decided of a picture
COMPLETE = "complete"
INCOMPLETE = "incomplete"
VERDICTS = (ACCEPTED, REJECTED, CLEARED)


class Decision(NamedTuple):
    """What somebody said of a picture, or of a picture and a tag."""

    number: int  # of the decision, rising
    picture: int
    tag: str | None  # None where the picture as a whole is meant
    verdict: str  # one of VERDICTS, COMPLETE or INCOMPLETE
    at: float  # seconds since 1970
    by: str  # who or what: "person", "label-studio", ...
    batch: int  # decisions made together are undone together
    undone: bool = False


class Batch(NamedTuple):
    """Decisions that were made together, by one command or one step on a page."""

    number: int | None  # which undo and redo name; None where nothing changed
    changed: int  # decisions that changed something


class BatchChange(NamedTuple):
    """What undoing or redoing a batch has changed."""

    batch: int
    decisions: list[Decision]  # those that were changed, the last first
    overridden: list[Decision]  # those that stay, because a later decision counts


class Suggestion(NamedTuple):
    """A tag that a picture may have and that nobody has decided on."""

    picture: int
    tag: str
    probability: float  # of being right
    model: int  # number of the model that says so
    group: int = -1  # look-alikes have the same number; -1 where a picture has none


class TagView(NamedTuple):
    """One tag of the library."""

    name: str
    own: int  # pictures that have it: found with them, or accepted
    accepted: int  # those of them that were accepted here
    rejected: int
    waiting: int  # pictures that it is suggested for
    learned: bool  # whether the model gives it
    needed: int  # pictures that it lacks to be learned with the others; 0 where it has enough
    precision: float | None  # of what is given, by left-out pictures; None where it is not learned
    recall: float | None
    hidden: bool  # never suggested


class CurvePoint(NamedTuple):
    """How well a tag was learned when so many pictures had it, by left-out pictures."""

    examples: int
    precision: float | None  # of what was given; None where nothing was
    recall: float
    model: int  # number of the model that it was learned with, or on to
    at: float  # seconds since 1970


@dataclass(frozen=True)
class PictureView:
    """One picture, with all that is known of it."""

    number: int
    digest: str  # hexadecimal, of what is seen
    places: list[Path]  # where it lies, those that are there first
    tags: list[str]  # a person's own: found, or accepted
    accepted: list[str]  # those of them that were accepted here
    rejected: list[str]
    suggestions: list[Suggestion]  # likeliest first
    complete: bool  # whether all that is not among its tags is wrong
    missing: bool  # whether none of its places is there any more


class Reason(NamedTuple):
    """A picture behind a tag's score, and what it adds to it."""

    picture: int
    share: float


class ModelView(NamedTuple):
    """One model that the library has learned."""

    number: int
    made: float  # seconds since 1970
    pictures: int  # learned from
    tags: int
    f1: float  # promised, by left-out pictures
    decisions: int  # number of the last decision that it knows
    current: bool


class Learned(NamedTuple):
    """What learning has changed."""

    model: ModelView
    full: bool  # whether all was learned anew
    tags: list[str]  # those that were learned on otherwise


@dataclass(frozen=True)
class Status:
    """How a library stands."""

    path: Path
    roots: list[Path]
    pictures: int
    missing: int  # whose files are gone; kept until pruned
    unread: int  # without vectors yet
    tagged: int  # with a tag of their own
    tags: int
    decisions: int  # that stand
    waiting: int  # suggestions
    unwritten: int  # pictures with accepted tags that no sidecar has yet
    model: ModelView | None
    since: int  # decisions since the model learned all anew
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scanned:
    """What a look at the folders has found."""

    new: int = 0
    moved: int = 0  # known pictures in new places
    changed: int = 0  # files that show something else now, or whose tags were changed
    vanished: int = 0
    unreadable: int = 0
    total: int = 0
    problems: list[str] = field(default_factory=list)


class Incoming(NamedTuple):
    """What files say of a picture now, and did not say before."""

    picture: int
    tags: list[str]
    ruled_out: list[str]  # taken away from what prototag had proposed in the files
    gone: list[str]  # said before, and not any more


@dataclass(frozen=True)
class SyncPlan:
    """What bringing library and files together would change. False if nothing would."""

    incoming: list[Incoming] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)  # taken away in the files
    restored: list[tuple[int, str]] = field(default_factory=list)  # and given there again since
    outgoing: list[Change] = field(default_factory=list)  # sidecars to write
    kept: list[tuple[int, str]] = field(default_factory=list)  # a person's in files, rejected here
    problems: list[str] = field(default_factory=list)
    seen: Any = field(default=None, repr=False, compare=False)  # the look that it rests on

    def __bool__(self) -> bool:
        return bool(self.incoming or self.rejected or self.restored or self.outgoing)


@dataclass(frozen=True)
class Synced:
    """What bringing library and files together has changed."""

    incoming: int = 0  # pictures whose files say something else than before
    rejected: int = 0  # tags that were taken away in the files
    restored: int = 0
    written: int = 0  # sidecars
    added: int = 0  # tags in them
    removed: int = 0
    left: int = 0  # sidecars that were not written, because it was stopped
    problems: list[str] = field(default_factory=list)
